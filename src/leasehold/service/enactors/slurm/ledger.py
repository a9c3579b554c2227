"""Where a Slurm site keeps what it was told: one SQLite file, forced to the disk before anything is done."""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from sqlite3 import Connection, DatabaseError, connect
from uuid import uuid4

from leasehold.model.errors import InputError
from leasehold.service.enactors.slurm.holding import Holding

LEDGER = "slurm.sqlite3"
"""The name of the file in the enactor's folder."""

REMEMBERED = 100_000
"""How many departures are remembered: a late order is a copy from an outbox, and does not come that late."""

_VERSION = 1
_NEVER = -1
_TABLES = """
CREATE TABLE IF NOT EXISTS holdings (lease_id INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS gone (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_id INTEGER NOT NULL UNIQUE,
    incarnation INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class Ledger:
    """The file of one site. One process has it at a time, and uses it from one thread at a time.

    ``owner``  the file's own name, which no other has; jobs carry it

    Raises InputError for a file that is no such ledger, was written by a newer Leasehold, is in use, or
    cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._claim = _claim(path)
        try:
            self._connection = _open(path)
        except BaseException:
            os.close(self._claim)
            raise
        (self.owner,) = self._connection.execute("SELECT value FROM about WHERE key = 'owner'").fetchone()

    def load(self) -> list[Holding]:
        """List the holdings as they were left, by lease."""
        rows = self._connection.execute("SELECT body FROM holdings ORDER BY lease_id")
        return [Holding.from_text(body) for (body,) in rows]

    def last_gone(self, lease_id: int) -> int:
        """Give the last incarnation of a lease that was stopped; -1 if none was."""
        asked = "SELECT incarnation FROM gone WHERE lease_id = ?"
        row: tuple[int] | None = self._connection.execute(asked, (lease_id,)).fetchone()
        return _NEVER if row is None else row[0]

    def keep(self, holdings: Iterable[Holding]) -> None:
        """Write holdings down as they are now, all of them or none."""
        rows = [(holding.lease_id, holding.to_text()) for holding in holdings]
        with self._connection as connection:
            connection.executemany("INSERT OR REPLACE INTO holdings VALUES (?, ?)", rows)

    def stop(self, lease_id: int, incarnation: int, holding: Holding | None) -> None:
        """Remember that this incarnation, and all before, are not wanted again; keep what is left of it."""
        with self._connection as connection:
            connection.execute(
                "INSERT OR REPLACE INTO gone (lease_id, incarnation) VALUES (?, ?)", (lease_id, incarnation)
            )
            connection.execute(
                "DELETE FROM gone WHERE number <= (SELECT max(number) FROM gone) - ?", (REMEMBERED,)
            )
            if holding is not None:
                connection.execute(
                    "INSERT OR REPLACE INTO holdings VALUES (?, ?)", (lease_id, holding.to_text())
                )

    def forget(self, lease_id: int) -> None:
        """Let a holding go of which nothing is left."""
        with self._connection as connection:
            connection.execute("DELETE FROM holdings WHERE lease_id = ?", (lease_id,))

    def close(self) -> None:
        """Let go of the file; nothing is left to be written."""
        self._connection.close()
        os.close(self._claim)


def _claim(path: Path) -> int:
    """Make sure that nobody else has the file; the kernel takes the claim back when this process dies."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        claim = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(path, None, f"cannot be locked: {error.strerror}") from error
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(claim)
        raise InputError(path, None, "these jobs are in the hands of another process") from None
    return claim


def _open(path: Path) -> Connection:
    connection = connect(path, check_same_thread=False)
    try:
        _prepare(connection, path)
    except DatabaseError as error:
        connection.close()
        raise InputError(path, None, f"this is no ledger of Slurm jobs: {error}") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > _VERSION:
        raise InputError(path, None, "this ledger of Slurm jobs was written by a newer Leasehold")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {_VERSION}; COMMIT;")
    with connection:
        connection.execute("INSERT OR IGNORE INTO about VALUES ('owner', ?)", (uuid4().hex[:12],))
