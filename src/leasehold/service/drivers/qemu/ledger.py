"""The ledger of a site: what it was told about each lease, and how far that is. One SQLite file.

Everything in it has reached the disk when `Ledger.write` returns. Whoever is killed goes on from it; the
machines themselves are found by the locks that they hold (see `process`), never by what is written here.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection, OperationalError, connect

from leasehold.service.drivers.claimed import ClaimedFile, Layout
from leasehold.service.drivers.qemu.record import Changes, Record

FILE = "qemu.sqlite3"
"""Its name in the folder of the driver."""

REMEMBERED = 100_000
"""How many departures are remembered: a late order is a copy from an outbox, and does not come that late."""

NEVER = -1
_TABLES = """
CREATE TABLE IF NOT EXISTS leases (lease_id INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS notes (
    lease_id INTEGER NOT NULL, incarnation INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (lease_id, incarnation)
);
CREATE TABLE IF NOT EXISTS gone (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_id INTEGER NOT NULL UNIQUE,
    incarnation INTEGER NOT NULL
);
"""
_LAYOUT = Layout("virtual machines", _TABLES)


class Ledger:
    """The file of one site. One process has it at a time, and uses it from one thread at a time.

    Raises InputError for a file that is no such ledger, was written by a newer Leasehold, is in use, or
    cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._file = ClaimedFile(folder / FILE, _LAYOUT)
        self._connection = self._file.connection

    def records(self) -> dict[int, Record]:
        """Give what is known of every lease that is here."""
        rows = self._connection.execute("SELECT lease_id, body FROM leases ORDER BY lease_id")
        return {lease_id: Record.from_text(body) for lease_id, body in rows}

    def notes(self) -> list[Record]:
        """Give the leases that were sent away, and may not have been taken in where they were sent."""
        rows = self._connection.execute("SELECT body FROM notes ORDER BY lease_id, incarnation")
        return [Record.from_text(body) for (body,) in rows]

    def gone(self) -> dict[int, int]:
        """Give the last incarnation of each lease that was stopped or sent away."""
        return dict(self._connection.execute("SELECT lease_id, incarnation FROM gone ORDER BY number"))

    def write(self, changes: Changes) -> None:
        """Write down all of it or nothing."""
        with self._connection as connection:
            for lease_id, record in changes.records.items():
                if record is None:
                    connection.execute("DELETE FROM leases WHERE lease_id = ?", (lease_id,))
                else:
                    connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?)", (lease_id, record.to_text()))
            for key, note in changes.notes.items():
                if note is None:
                    connection.execute("DELETE FROM notes WHERE lease_id = ? AND incarnation = ?", key)
                else:
                    connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (*key, note.to_text()))
            for departure in changes.gone.items():
                connection.execute("INSERT OR REPLACE INTO gone (lease_id, incarnation) VALUES (?, ?)", departure)
            connection.execute("DELETE FROM gone WHERE number <= (SELECT max(number) FROM gone) - ?", (REMEMBERED,))

    def close(self) -> None:
        """Let go of the file; nothing is left to be written."""
        self._file.close()


class Neighbour:
    """The ledger of another site, which only it writes to; read as it is at each look."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def records(self) -> list[Record]:
        """List what it has of all leases."""
        with self._reading() as connection:
            rows = [] if connection is None else connection.execute("SELECT body FROM leases").fetchall()
        return [Record.from_text(body) for (body,) in rows]

    def leaving(self, lease_id: int, incarnation: int) -> Record | None:
        """Find a lease there that is to leave, or has left; None where there is none."""
        with self._reading() as connection:
            if connection is None:
                return None
            note = "SELECT body FROM notes WHERE lease_id = ? AND incarnation = ?"
            row = connection.execute(note, (lease_id, incarnation)).fetchone()
            here = row or connection.execute(_HERE, (lease_id,)).fetchone()
        record = None if here is None else Record.from_text(here[0])
        is_meant = record is not None and record.incarnation == incarnation and bool(record.to_site)
        return record if is_meant else None

    def here(self, lease_id: int) -> Record | None:
        """Find what it has of a lease."""
        with self._reading() as connection:
            row = None if connection is None else connection.execute(_HERE, (lease_id,)).fetchone()
        return None if row is None else Record.from_text(row[0])

    def last_gone(self, lease_id: int) -> int:
        """Give the last incarnation of a lease that was stopped or sent away there; -1 if none was."""
        with self._reading() as connection:
            if connection is None:
                return NEVER
            row = connection.execute("SELECT incarnation FROM gone WHERE lease_id = ?", (lease_id,)).fetchone()
        return NEVER if row is None else int(row[0])

    @contextmanager
    def _reading(self) -> Iterator[Connection | None]:
        """Read what belongs together at one moment; nothing where there is no such site yet."""
        path = self.folder / FILE
        if not path.is_file():
            yield None
            return
        with closing(connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            try:
                connection.execute("BEGIN")
                connection.execute("SELECT 1 FROM gone LIMIT 1")
            except OperationalError:  # it is being made at this moment
                yield None
                return
            yield connection


_HERE = "SELECT body FROM leases WHERE lease_id = ?"
