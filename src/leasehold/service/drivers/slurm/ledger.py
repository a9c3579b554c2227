"""Where a Slurm site keeps what it was told: one SQLite file, forced to the disk before anything is done."""

from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from leasehold.service.drivers.claimed import ClaimedFile, Layout
from leasehold.service.drivers.slurm.holding import Holding

LEDGER = "slurm.sqlite3"
"""The name of the file in the driver's folder."""

REMEMBERED = 100_000
"""How many departures are remembered: a late order is a copy from an outbox, and does not come that late."""

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
_LAYOUT = Layout("Slurm jobs", _TABLES)


class Ledger:
    """The file of one site. One process has it at a time, and uses it from one thread at a time.

    ``owner``  the file's own name, which no other has; jobs carry it

    Raises InputError for a file that is no such ledger, was written by a newer Leasehold, is in use, or
    cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._file = ClaimedFile(path, _LAYOUT)
        self._connection = self._file.connection
        with self._connection as connection:
            connection.execute("INSERT OR IGNORE INTO about VALUES ('owner', ?)", (uuid4().hex[:12],))
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
            connection.execute("DELETE FROM gone WHERE number <= (SELECT max(number) FROM gone) - ?", (REMEMBERED,))
            if holding is not None:
                connection.execute("INSERT OR REPLACE INTO holdings VALUES (?, ?)", (lease_id, holding.to_text()))

    def forget(self, lease_id: int) -> None:
        """Let a holding go of which nothing is left."""
        with self._connection as connection:
            connection.execute("DELETE FROM holdings WHERE lease_id = ?", (lease_id,))

    def close(self) -> None:
        """Let go of the file; nothing is left to be written."""
        self._file.close()
