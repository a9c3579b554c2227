"""Where an emulated site keeps its machines while nobody looks: one SQLite file.

Each batch of orders is one transaction. It is not forced to the disk: what is written outlives a `kill -9` of
this process, as machines would, but not a power cut, which machines would not outlive either.
"""

from contextlib import closing
from pathlib import Path
from sqlite3 import connect

from leasehold.service.drivers.claimed import ClaimedFile, Layout
from leasehold.service.drivers.emulated.audit import AUDIT_TABLE, AuditLine, lines_of, write_lines
from leasehold.service.drivers.emulated.floor import REMEMBERED, Floor, Unwritten
from leasehold.service.drivers.emulated.holding import Holding
from leasehold.service.drivers.emulated.troubles import Troubles

_TABLES = """
CREATE TABLE IF NOT EXISTS holdings (lease_id INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS gone (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_id INTEGER NOT NULL UNIQUE,
    incarnation INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS sent (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_id INTEGER NOT NULL UNIQUE,
    incarnation INTEGER NOT NULL,
    work_done INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS outputs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_id INTEGER NOT NULL UNIQUE,
    text TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_OUTPUTS_KEPT = 10_000
"""Of so many leases that are gone it is kept what their commands had written."""
_LAYOUT = Layout("emulated machines", f"{_TABLES} {AUDIT_TABLE}", on_disk=False)


class Ledger:
    """The file of one site. One process has it at a time, and uses it from one thread at a time.

    ``audit_lines`` says how many lines of the audit are kept. Raises InputError for a file that is no such
    ledger, was written by a newer Leasehold, is in use, or cannot be made.
    """

    def __init__(self, path: Path, audit_lines: int) -> None:
        self._audit_lines = audit_lines
        self._file = ClaimedFile(path, _LAYOUT)
        self._connection = self._file.connection

    def load(self) -> Floor:
        """Give the floor as it was left."""
        holdings = self._connection.execute("SELECT lease_id, body FROM holdings ORDER BY lease_id")
        gone = self._connection.execute("SELECT lease_id, incarnation FROM gone ORDER BY number")
        troubles = self._one("SELECT value FROM about WHERE key = 'troubles'")
        return Floor(
            (Holding.from_text(lease_id, body) for lease_id, body in holdings),
            dict(gone),
            None if troubles is None else Troubles.from_text(troubles),
        )

    def write(self, unwritten: Unwritten) -> None:
        """Write down what has changed, all of it or nothing."""
        here = [(lease_id, one.to_text()) for lease_id, one in unwritten.holdings.items() if one is not None]
        away = [(lease_id,) for lease_id, holding in unwritten.holdings.items() if holding is None]
        with self._connection as connection:
            connection.executemany("INSERT OR REPLACE INTO holdings VALUES (?, ?)", here)
            connection.executemany("DELETE FROM holdings WHERE lease_id = ?", away)
            connection.executemany(
                "INSERT OR REPLACE INTO gone (lease_id, incarnation) VALUES (?, ?)", unwritten.gone.items()
            )
            connection.executemany(
                "INSERT OR REPLACE INTO sent (lease_id, incarnation, work_done) VALUES (?, ?, ?)",
                [(lease_id, *along) for lease_id, along in unwritten.sent.items()],
            )
            connection.executemany(
                "INSERT OR REPLACE INTO outputs (lease_id, text) VALUES (?, ?)", unwritten.outputs.items()
            )
            if unwritten.troubles is not None:
                connection.execute("INSERT OR REPLACE INTO about VALUES ('troubles', ?)", (unwritten.troubles,))
            for table, kept in (("gone", REMEMBERED), ("sent", REMEMBERED), ("outputs", _OUTPUTS_KEPT)):
                connection.execute(
                    f"DELETE FROM {table} WHERE number <= (SELECT max(number) FROM {table}) - ?",  # noqa: S608
                    (kept,),
                )
            write_lines(connection, unwritten.audit, self._audit_lines)

    def audit_of(self, lease_id: int, most: int) -> list[AuditLine]:
        """Read the last lines of the audit of one lease."""
        return lines_of(self._connection, lease_id, most)

    def output_of(self, lease_id: int) -> str:
        """Read what the command of a lease that is gone had written; empty where nothing is known of it."""
        return self._one("SELECT text FROM outputs WHERE lease_id = ?", lease_id) or ""

    def _one(self, query: str, *values: object) -> str | None:
        row: tuple[str] | None = self._connection.execute(query, values).fetchone()
        return None if row is None else row[0]

    def close(self) -> None:
        """Let go of the file; nothing is left to be written."""
        self._file.close()


def work_sent(path: Path, lease_id: int, incarnation: int) -> int | None:
    """How much of its work a lease had done when the site with this file sent it away (work units).

    None where there is no such file, or nothing in it of this incarnation.
    """
    if not path.is_file():
        return None
    with closing(connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        along = "SELECT work_done FROM sent WHERE lease_id = ? AND incarnation = ?"
        row: tuple[int] | None = connection.execute(along, (lease_id, incarnation)).fetchone()
    return None if row is None else row[0]
