"""What a site knows of one lease, as it stands in its ledger: what was told, and how far that has come."""

import json
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from leasehold.jobs.job import Fault
from leasehold.service.drivers.protocol import Observation, Order, Phase
from leasehold.service.drivers.qemu.machine import VmHardware

TAKES_ROOM = frozenset({Phase.STARTING, Phase.RUNNING, Phase.RESUMING, Phase.RECEIVING})
"""The planner gives the room of those that are saved, sent or stopped away at that very moment."""

COMMAND_NOT_FOUND = 127
"""What shells say where there is no such program."""

OVER = frozenset({Phase.ENDED, Phase.FAILED})


class Memory(StrEnum):
    """Where the memory is that counts; what else there may be of it is not to be used."""

    MACHINES = "machines"
    FILES = "files"
    ELSEWHERE = "elsewhere"
    """At the site that it is to be received from, until that site lets it go."""


class Handover(StrEnum):
    """How far a lease is on its way to another site; only the site that it leaves says so.

    LIVE     the machines run here, and their memory is copied while they do
    PARCEL   that was not possible: they are stopped and their memory is saved to files
    READY    these are complete, and wait here to be fetched
    HANDED   everything is at the other site, which lets it go on; nothing of it runs here ever again
    """

    NONE = ""
    LIVE = "live"
    PARCEL = "parcel"
    READY = "ready"
    HANDED = "handed"


AWAY = frozenset({Handover.READY, Handover.HANDED})


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one machine is.

    ``is_up``        it has booted, once
    ``is_told``      its command may have been begun
    ``job``          what the guest agent calls that, None where that is not known
    ``exit_status``  how its command ended, None: it did not yet
    """

    is_up: bool = False
    is_told: bool = False
    job: int | None = None
    exit_status: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One lease here.

    ``hardware``      what each of its machines is made of; None where that is not known yet
    ``folder``        the name of the folder with its files
    ``progress``      of each machine
    ``is_listening``  while it is to be received: memory can be copied into its machines
    ``has_arrived``   and has been, completely
    ``is_doomed``     it was told to stop
    ``fault``         what kind of failure ``detail`` is, where it has failed
    """

    lease_id: int
    incarnation: int
    vms: int
    command: tuple[str, ...]
    phase: Phase
    since_ms: int
    hardware: VmHardware | None
    folder: str
    memory: Memory = Memory.MACHINES
    detail: str = ""
    progress: tuple[Progress, ...] = ()
    from_site: str = ""
    is_listening: bool = False
    has_arrived: bool = False
    to_site: str = ""
    handover: Handover = Handover.NONE
    is_doomed: bool = False
    fault: str = ""

    @property
    def name(self) -> str:
        """What people call it."""
        return f"lease {self.lease_id}"

    @property
    def room_vms(self) -> int:
        """How many slots it occupies."""
        is_going = self.is_doomed or bool(self.to_site)
        return 0 if is_going or self.phase not in TAKES_ROOM else self.vms

    def observed(self) -> Observation:
        """Say what can be seen of it."""
        fault = Fault.SOFTWARE_GONE if self.exit_status == COMMAND_NOT_FOUND else self.fault
        seen = (self.lease_id, self.incarnation, self.phase, self.since_ms, self.detail)
        return Observation(*seen, self.exit_status, str(fault))

    @property
    def exit_status(self) -> int | None:
        """How its command ended: as on the first machine on which it did not end well; None: not known."""
        statuses = [one.exit_status for one in self.progress if one.exit_status is not None]
        if self.phase is not Phase.ENDED or not statuses:
            return None
        return next(filter(None, statuses), 0)

    def with_progress(self, number: int, **changes: Any) -> "Record":  # noqa: ANN401 - fields of Progress
        """Let one machine be further than it was."""
        one = replace(self.progress[number], **changes)
        return replace(self, progress=(*self.progress[:number], one, *self.progress[number + 1 :]))

    def to_text(self) -> str:
        """Write it down, so that `from_text` gives the same again."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "Record":
        """Read what `to_text` wrote; an unknown key is an error, a missing one is as in a new record."""
        values: dict[str, Any] = json.loads(text)
        hardware = values["hardware"]
        return cls(
            **values
            | {
                "command": tuple(values["command"]),
                "phase": Phase(values["phase"]),
                "memory": Memory(values["memory"]),
                "handover": Handover(values["handover"]),
                "hardware": None if hardware is None else VmHardware(**hardware),
                "progress": tuple(Progress(**one) for one in values["progress"]),
            }
        )


def new_record(order: Order, phase: Phase, now_ms: int, hardware: VmHardware | None) -> Record:
    """Begin with what an order asks for."""
    return Record(
        lease_id=order.lease_id,
        incarnation=order.incarnation,
        vms=order.vms,
        command=tuple(order.command),
        phase=phase,
        since_ms=now_ms,
        hardware=hardware,
        folder=f"{order.lease_id}.{order.incarnation}",
        memory=Memory.ELSEWHERE if order.other_site else Memory.MACHINES,
        progress=(Progress(),) * order.vms,
        from_site=order.other_site,
    )


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be written down together.

    ``records``  of leases that are here; None: there is none any more
    ``notes``    of leases that went to another site, by lease and incarnation; None: it has them, for certain
    ``gone``     the last incarnation of each that was stopped or sent away
    """

    records: dict[int, Record | None] = field(default_factory=dict)
    notes: dict[tuple[int, int], Record | None] = field(default_factory=dict)
    gone: dict[int, int] = field(default_factory=dict)
