"""The durable record of an emulated site: its instances, and an audit of what was physically done to them.

Each batch of orders is one transaction. It is not forced to the disk: what is written outlives a `kill -9` of this
process, as machines would, but not a power cut, which machines would not outlive either.

Each line of the audit is written in the same transaction as what it tells of. After any crash, two lines that bring the
same incarnation of a lease up mean that its machines really came up twice.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from sqlite3 import Connection, connect

from leasehold.model.errors import InputError
from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.reconciler.instances import MAX_TOMBSTONES, Changes, Instance
from leasehold.service.drivers.reconciler.store import InstanceStore, keep_latest, set_fact
from leasehold.service.drivers.staging import StagedFile

# --- instances ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Transition:
    """What machines come to: a phase, and its details.

    ``output``  what their command has written, where it has ended; and in ``error`` to its standard error
    ``left``    the files in its working folder
    """

    phase: Phase
    detail: str = ""
    exit_status: int | None = None
    fault: str = ""
    output: str = ""
    error: str = ""
    left: tuple[StagedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """A transition that comes by itself if nothing interferes; of those due at the same time the lower number first."""

    at_ms: int
    number: int
    then: Transition


@dataclass(slots=True, kw_only=True)
class EmulatedInstance(Instance):
    """The emulated machines of one lease.

    ``work_done``  in work units, when the present phase began
    ``coming``     what will become of them, soonest first
    ``cores``      how many each VM has on its node
    ``is_placed``  whether its order named the nodes
    ``gpus``       what they hold of GPU devices: node, number of the device, and shares of it
    """

    work_done: int
    output: str = ""
    error: str = ""
    left: tuple[StagedFile, ...] = ()
    coming: tuple[Change, ...] = ()
    cores: int = 1
    is_placed: bool = False
    gpus: tuple[tuple[str, int, int], ...] = ()
    least: int = 0

    @property
    def size(self) -> str:
        """How large they are, in words."""
        plural = "" if self.vms == 1 else "s"
        return f"{self.vms} VM{plural} of {self.memory_mib} MiB"

    def work_done_at(self, now_ms: int, speed_mips: int) -> int:
        """How much of the lease's work is done; they work while they run."""
        worked_ms = max(0, now_ms - self.since_ms) if self.phase is Phase.RUNNING else 0
        return self.work_done + worked_ms * speed_mips


# --- audit --------------------------------------------------------------------------------------------------------


class Action(StrEnum):
    """What happened to the machines of a lease: six things that are ordered, four that follow, and what it is told."""

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
    TELL = "tell"


BRINGS_UP = frozenset({Action.BOOT, Action.LOAD, Action.RECEIVE})
"""What may be done once to each incarnation of a lease, in all the federation."""

BEGINNING = {
    Phase.RUNNING: Action.RUN,
    Phase.SAVED: Action.SAVED,
    Phase.ENDED: Action.END,
    Phase.FAILED: Action.FAIL,
}
"""What is written when a phase begins that no order begins."""

_SENTENCES = {
    Action.BOOT: "boots {detail}",
    Action.SAVE: "saves the memory of {detail}",
    Action.LOAD: "loads the memory of {detail}",
    Action.RECEIVE: "takes over {detail}",
    Action.SEND: "goes {detail}",
    Action.STOP: "is stopped",
    Action.RUN: "runs {detail}",
    Action.SAVED: "has saved its memory",
    Action.END: "has ended",
    Action.FAIL: "has failed: {detail}",
    Action.TELL: "is told {detail}",
}


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One thing that was done to the machines of one lease, at its time (Unix ms)."""

    at_ms: int
    lease_id: int
    incarnation: int
    action: Action
    detail: str = ""

    def on_console(self) -> str:
        """Write it as a line of the console."""
        moment = datetime.fromtimestamp(self.at_ms // 1000, UTC).replace(microsecond=self.at_ms % 1000 * 1000)
        time = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"{time}  {_SENTENCES[self.action].format(detail=self.detail or 'until it is stopped')}\n"


def brought_up_twice(lines: Iterable[AuditLine]) -> list[tuple[int, int]]:
    """Find the (lease, incarnation) pairs that came up more than once; give it the lines of all sites.

    A correct federation never has any.
    """
    times = Counter((line.lease_id, line.incarnation) for line in lines if line.action in BRINGS_UP)
    return sorted(pair for pair, count in times.items() if count > 1)


# --- store --------------------------------------------------------------------------------------------------------

_TABLES = """
CREATE TABLE IF NOT EXISTS sent (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_id INTEGER NOT NULL UNIQUE,
    incarnation INTEGER NOT NULL,
    work_done INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS outputs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_id INTEGER NOT NULL UNIQUE,
    text TEXT NOT NULL,
    error TEXT NOT NULL,
    left_behind TEXT NOT NULL
);
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
FILE = "emulated.sqlite3"
"""The name of the file in the driver's folder."""

_AUDIT_COLUMNS = "at_ms, lease_id, incarnation, action, detail"
_NODE_FAULTS = "node_faults"
_IMAGES = "images"
_MAX_OUTPUTS = 10_000
"""Of so many leases that are gone the output of their commands is kept."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a site was left as; ``node_faults`` and ``images`` as their ``to_text`` wrote them, empty if never."""

    instances: list[EmulatedInstance] = field(default_factory=list)
    tombstones: dict[int, int] = field(default_factory=dict)
    node_faults: str = ""
    images: str = ""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """What has changed since it was written last.

    ``sent``         of leases that were sent away: their incarnation, and how much of their work was done
    ``outputs``      what the commands of leases had written that are gone: output, standard error, and files as JSON
    ``node_faults``  empty where they are unchanged; ``images`` likewise
    """

    changes: Changes[EmulatedInstance]
    sent: dict[int, tuple[int, int]]
    audit: list[AuditLine]
    outputs: dict[int, tuple[str, str, str]]
    node_faults: str
    images: str

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.changes or self.node_faults or self.images)


class EmulatedStore(InstanceStore[EmulatedInstance]):
    """The file of one site; ``audit_lines`` says how many lines of the audit are kept."""

    def __init__(self, folder: Path, audit_lines: int) -> None:
        super().__init__(folder, EmulatedInstance, "emulated machines", tables=_TABLES, on_disk=False, file=FILE)
        self._audit_lines = audit_lines

    def load(self) -> Saved:
        """Read everything as it was left."""
        return Saved(self.instances(), self.tombstones(), self.fact(_NODE_FAULTS) or "", self.fact(_IMAGES) or "")

    def save(self, unwritten: Unwritten) -> None:
        """Write what has changed, all of it or nothing."""
        self.write(unwritten.changes, lambda connection: self._write_more(connection, unwritten))

    def _write_more(self, connection: Connection, unwritten: Unwritten) -> None:
        sent = [(lease_id, *along) for lease_id, along in unwritten.sent.items()]
        connection.executemany("INSERT OR REPLACE INTO sent (lease_id, incarnation, work_done) VALUES (?, ?, ?)", sent)
        connection.executemany(
            "INSERT OR REPLACE INTO outputs (lease_id, text, error, left_behind) VALUES (?, ?, ?, ?)",
            [(lease_id, *wrote) for lease_id, wrote in unwritten.outputs.items()],
        )
        keep_latest(connection, "sent", MAX_TOMBSTONES)
        keep_latest(connection, "outputs", _MAX_OUTPUTS)
        for key, text in ((_NODE_FAULTS, unwritten.node_faults), (_IMAGES, unwritten.images)):
            if text:
                set_fact(connection, key, text)
        write_lines(connection, unwritten.audit, self._audit_lines)

    def audit_of(self, lease_id: int, most: int) -> list[AuditLine]:
        """Read the last lines of the audit of one lease, oldest first."""
        query = f"SELECT {_AUDIT_COLUMNS} FROM audit WHERE lease_id = ? ORDER BY number DESC LIMIT ?"  # noqa: S608
        return [_line(*row) for row in self.connection.execute(query, (lease_id, most))][::-1]

    def output_of(self, lease_id: int) -> Output:
        """Read what the command of a lease that is gone had written; empty where nothing is known of it."""
        row = self.connection.execute("SELECT text, error FROM outputs WHERE lease_id = ?", (lease_id,)).fetchone()
        return Output("") if row is None else Output(str(row[0]), error=str(row[1]))

    def left_by(self, lease_id: int) -> tuple[StagedFile, ...]:
        """Read which files the command of a lease that is gone had left."""
        row = self.connection.execute("SELECT left_behind FROM outputs WHERE lease_id = ?", (lease_id,)).fetchone()
        return () if row is None else tuple(StagedFile(*file) for file in json.loads(row[0]))


def write_lines(connection: Connection, lines: Iterable[AuditLine], keep: int) -> None:
    """Append lines to the audit, and delete the oldest ones so that no more than ``keep`` stay."""
    rows = [(one.at_ms, one.lease_id, one.incarnation, one.action, one.detail) for one in lines]
    connection.executemany(f"INSERT INTO audit ({_AUDIT_COLUMNS}) VALUES (?, ?, ?, ?, ?)", rows)  # noqa: S608
    keep_latest(connection, "audit", keep)


def _line(at_ms: int, lease_id: int, incarnation: int, action: str, detail: str) -> AuditLine:
    return AuditLine(at_ms, lease_id, incarnation, Action(action), detail)


def read_audit(path: Path) -> list[AuditLine]:
    """Read every line in the order in which it was written; the site may be at work meanwhile.

    Raises InputError where there is no such file.
    """
    with _reading(path) as connection:
        if connection is None:
            raise InputError(path, None, "there is no record of emulated machines here")
        rows = connection.execute(f"SELECT {_AUDIT_COLUMNS} FROM audit ORDER BY number")  # noqa: S608
        return [_line(*row) for row in rows]


def work_sent(folder: Path, lease_id: int, incarnation: int) -> int | None:
    """Return how much of its work a lease had done when the site with this folder sent it away (work units).

    None where there is no such site, or nothing on its file of this incarnation.
    """
    with _reading(folder / FILE) as connection:
        if connection is None:
            return None
        query = "SELECT work_done FROM sent WHERE lease_id = ? AND incarnation = ?"
        row: tuple[int] | None = connection.execute(query, (lease_id, incarnation)).fetchone()
        return None if row is None else row[0]


@contextmanager
def _reading(path: Path) -> Iterator[Connection | None]:
    if not path.is_file():
        yield None
        return
    with closing(connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        yield connection
