"""What one lease has at an emulated site: machines or saved memory, and what will become of them."""

import json
from dataclasses import astuple, dataclass
from typing import Any

from leasehold.service.drivers.protocol import Observation, Order, Phase

HOLDING_ROOM = frozenset({Phase.STARTING, Phase.RUNNING, Phase.RESUMING, Phase.RECEIVING})
"""The phases that occupy slots. Machines that are being saved do not, nor do those that have ended or failed:
the planner gives their room away at that very moment, and those who come in then must find it free."""

OVER = frozenset({Phase.ENDED, Phase.FAILED})
"""The phases after which nothing comes but STOP."""


@dataclass(frozen=True, slots=True)
class Becoming:
    """What machines come to.

    ``detail``       why, or how, where that needs saying
    ``exit_status``  of their command, where it has ended; ``output`` is what it has written
    ``fault``        which `leasehold.jobs.job.Fault` it was
    """

    phase: Phase
    detail: str = ""
    exit_status: int | None = None
    fault: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What will happen if nobody interferes; of those due at the same time, the lower number goes first."""

    at_ms: int
    number: int
    then: Becoming


@dataclass(slots=True)
class Holding:
    """The machines of one lease.

    ``work_done``  in work units, when the present phase began
    ``coming``     what will become of them, soonest first
    ``nodes``      where each VM is, or its memory was saved, and ``cores`` how many it has there
    ``named``      whether its order named the nodes
    """

    lease_id: int
    incarnation: int
    vms: int
    memory_mib: int
    command: tuple[str, ...]
    work_done: int
    now: Becoming
    since_ms: int
    coming: tuple[Change, ...] = ()
    nodes: tuple[str, ...] = ()
    cores: int = 1
    named: bool = False

    @classmethod
    def ordered(cls, order: Order, now_ms: int) -> "Holding":
        """Make what an order asks for; it is about to start."""
        return cls(
            order.lease_id,
            order.incarnation,
            order.vms,
            order.memory_mib,
            tuple(order.command),
            order.work_done,
            Becoming(Phase.STARTING),
            now_ms,
            nodes=order.on.nodes,
            cores=order.on.cores or 1,
            named=bool(order.on.nodes),
        )

    @property
    def phase(self) -> Phase:
        """In which phase they are."""
        return self.now.phase

    @property
    def room_vms(self) -> int:
        """How many slots they occupy."""
        return self.vms if self.phase in HOLDING_ROOM else 0

    @property
    def size(self) -> str:
        """How large they are, in words."""
        plural = "" if self.vms == 1 else "s"
        return f"{self.vms} VM{plural} of {self.memory_mib} MiB"

    def observed(self) -> Observation:
        """Say what can be seen of them."""
        now = self.now
        how = (now.detail, now.exit_status, now.fault)
        return Observation(self.lease_id, self.incarnation, now.phase, self.since_ms, *how, self.nodes)

    def work_done_at(self, now_ms: int, speed_mips: int) -> int:
        """How much of the lease's work is done; they work while they run."""
        worked_ms = max(0, now_ms - self.since_ms) if self.phase is Phase.RUNNING else 0
        return self.work_done + worked_ms * speed_mips

    def to_text(self) -> str:
        """Write them down, so that `from_text` gives the same again."""
        coming = [(one.at_ms, one.number, *astuple(one.then)) for one in self.coming]
        own = (self.incarnation, self.vms, self.memory_mib, self.command, self.work_done)
        where = (self.nodes, self.cores, self.named)
        now = self.now
        more = (now.exit_status, now.fault, now.output)
        return json.dumps([*own, now.phase, self.since_ms, now.detail, coming, more, *where])

    @classmethod
    def from_text(cls, lease_id: int, text: str) -> "Holding":
        """Read what `to_text` wrote, or an earlier Leasehold, which knew no nodes."""
        incarnation, vms, memory_mib, command, work_done, *written = json.loads(text)
        phase, since_ms, detail, coming, *later = written
        more, nodes, cores, named = later or ((), (), 1, False)
        return cls(
            lease_id,
            incarnation,
            vms,
            memory_mib,
            tuple(command),
            work_done,
            Becoming(Phase(phase), detail, *more),
            since_ms,
            tuple(_change(*one) for one in coming),
            tuple(nodes),
            cores,
            named,
        )


def _change(at_ms: int, number: int, phase: str, *how: Any) -> Change:  # noqa: ANN401 - as it was written
    return Change(at_ms, number, Becoming(Phase(phase), *how))
