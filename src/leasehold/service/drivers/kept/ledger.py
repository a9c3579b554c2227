"""Where a site keeps what it was told: one SQLite file, forced to the disk with each batch of orders."""

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import connect
from uuid import uuid4

from leasehold.service.drivers.claimed import ClaimedFile, Layout
from leasehold.service.drivers.kept.floor import REMEMBERED
from leasehold.service.drivers.kept.holding import Holding, Key

LEDGER = "ledger.sqlite3"
"""The name of the file in the driver's folder."""

_NEVER = -1
_TABLES = """
CREATE TABLE IF NOT EXISTS holdings (
    lease_id INTEGER NOT NULL,
    birth INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (lease_id, birth)
);
CREATE TABLE IF NOT EXISTS gone (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_id INTEGER NOT NULL UNIQUE,
    incarnation INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_LAYOUT = Layout("machines", _TABLES)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What another site's ledger says of one lease.

    ``about``      what that site lets its neighbours know of itself
    ``last_gone``  the last incarnation of the lease that left it; -1 if none did
    """

    about: Mapping[str, str]
    holdings: list[Holding]
    last_gone: int


class Ledger:
    """The file of one site. One process has it at a time, and uses it from one thread at a time.

    ``identity``  the file's own name, which no other has: made with it

    Raises InputError for a file that is no such ledger, was written by a newer Leasehold, is in use, or
    cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._file = ClaimedFile(path, _LAYOUT)
        self._connection = self._file.connection
        self.identity = self._identity()

    def load(self) -> tuple[list[Holding], dict[int, int]]:
        """Give what was here, and the last incarnation of each lease that went, oldest first."""
        bodies = self._connection.execute("SELECT body FROM holdings ORDER BY lease_id, birth")
        gone = self._connection.execute("SELECT lease_id, incarnation FROM gone ORDER BY number")
        return [Holding.from_text(body) for (body,) in bodies], dict(gone)

    def write(self, holdings: Mapping[Key, Holding | None], gone: Mapping[int, int]) -> None:
        """Write down what has changed, all of it or nothing; None for what is not here any more."""
        here = [(*key, one.to_text()) for key, one in holdings.items() if one is not None]
        away = [key for key, one in holdings.items() if one is None]
        with self._connection as connection:
            connection.executemany("INSERT OR REPLACE INTO holdings VALUES (?, ?, ?)", here)
            connection.executemany("DELETE FROM holdings WHERE lease_id = ? AND birth = ?", away)
            connection.executemany("INSERT OR REPLACE INTO gone (lease_id, incarnation) VALUES (?, ?)", gone.items())
            connection.execute("DELETE FROM gone WHERE number <= (SELECT max(number) FROM gone) - ?", (REMEMBERED,))

    def tell_neighbours(self, about: Mapping[str, str]) -> None:
        """Let the other sites know something of this one."""
        with self._connection as connection:
            connection.execute("INSERT OR REPLACE INTO about VALUES ('told', ?)", (json.dumps(dict(about)),))

    def close(self) -> None:
        """Let go of the file; nothing is left to be written."""
        self._file.close()

    def _identity(self) -> str:
        with self._connection as connection:
            connection.execute("INSERT OR IGNORE INTO about VALUES ('identity', ?)", (uuid4().hex,))
        (identity,) = self._connection.execute("SELECT value FROM about WHERE key = 'identity'").fetchone()
        return str(identity)


def read_neighbour(path: Path, lease_id: int) -> Neighbour | None:
    """Read what the site with this ledger says of a lease; None where there is no such file."""
    if not path.is_file():
        return None
    with closing(connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        bodies = connection.execute("SELECT body FROM holdings WHERE lease_id = ?", (lease_id,)).fetchall()
        gone = connection.execute("SELECT incarnation FROM gone WHERE lease_id = ?", (lease_id,)).fetchone()
        told = connection.execute("SELECT value FROM about WHERE key = 'told'").fetchone()
    return Neighbour(
        about=json.loads(told[0]) if told else {},
        holdings=[Holding.from_text(body) for (body,) in bodies],
        last_gone=gone[0] if gone else _NEVER,
    )
