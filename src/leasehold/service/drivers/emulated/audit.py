"""What was physically done, and when: kept beside the machines, and read by whoever wants to be sure.

Each line is written in the same transaction as what it tells of. After any crash, two lines that bring
the same incarnation of a lease up mean that its machines really came up twice.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from sqlite3 import Connection, connect

from leasehold.model.errors import InputError
from leasehold.service.drivers.protocol import Phase


class Action(StrEnum):
    """What happened to the machines of a lease: six things that are ordered, four that follow."""

    BOOT = "boot"
    SAVE = "save"
    LOAD = "load"
    RECEIVE = "receive"
    SEND = "send"
    STOP = "stop"
    RUN = "run"
    SAVED = "saved"
    END = "end"
    FAIL = "fail"


BRINGS_UP = frozenset({Action.BOOT, Action.LOAD, Action.RECEIVE})
"""What may be done once to each incarnation of a lease, in all the federation."""

BEGINNING = {
    Phase.RUNNING: Action.RUN,
    Phase.SAVED: Action.SAVED,
    Phase.ENDED: Action.END,
    Phase.FAILED: Action.FAIL,
}
"""What is written down when a phase begins that no order begins."""

AUDIT_TABLE = """
CREATE TABLE IF NOT EXISTS audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    lease_id INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    action TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS audit_by_lease ON audit (lease_id);
"""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One thing that was done to the machines of one lease, at its time (Unix ms)."""

    at_ms: int
    lease_id: int
    incarnation: int
    action: Action
    detail: str = ""


def write_lines(connection: Connection, lines: Iterable[AuditLine], keep: int) -> None:
    """Append lines, and let go of the oldest ones so that no more than ``keep`` stay."""
    rows = [(one.at_ms, one.lease_id, one.incarnation, one.action, one.detail) for one in lines]
    connection.executemany(
        "INSERT INTO audit (at_ms, lease_id, incarnation, action, detail) VALUES (?, ?, ?, ?, ?)", rows
    )
    connection.execute("DELETE FROM audit WHERE number <= (SELECT max(number) FROM audit) - ?", (keep,))


def lines_of(connection: Connection, lease_id: int, most: int) -> list[AuditLine]:
    """Read the last lines of one lease, oldest first."""
    rows = connection.execute(
        "SELECT at_ms, lease_id, incarnation, action, detail FROM audit WHERE lease_id = ?"
        " ORDER BY number DESC LIMIT ?",
        (lease_id, most),
    )
    return [_line(row) for row in rows][::-1]


def read_audit(path: Path) -> list[AuditLine]:
    """Read every line in the order in which it was written; the site may be at work meanwhile.

    Raises InputError where there is no such file.
    """
    if not path.is_file():
        raise InputError(path, None, "there is no ledger of emulated machines here")
    with closing(connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT at_ms, lease_id, incarnation, action, detail FROM audit ORDER BY number")
        return [_line(row) for row in rows]


def _line(row: tuple[int, int, int, str, str]) -> AuditLine:
    at_ms, lease_id, incarnation, action, detail = row
    return AuditLine(at_ms, lease_id, incarnation, Action(action), detail)


def brought_up_twice(lines: Iterable[AuditLine]) -> list[tuple[int, int]]:
    """Find the (lease, incarnation) pairs that came up more than once; give it the lines of all sites.

    A correct federation never has any.
    """
    times = Counter((line.lease_id, line.incarnation) for line in lines if line.action in BRINGS_UP)
    return sorted(pair for pair, count in times.items() if count > 1)
