"""What one lease has at an emulated site: machines or saved memory, and what will become of them."""

import json
from dataclasses import dataclass

from leasehold.service.enactors.protocol import Observation, Order, Phase

HOLDING_ROOM = frozenset({Phase.STARTING, Phase.RUNNING, Phase.RESUMING, Phase.RECEIVING})
"""The phases that occupy slots. Machines that are being saved do not, nor do those that have ended or failed:
the planner gives their room away at that very moment, and those who come in then must find it free."""

OVER = frozenset({Phase.ENDED, Phase.FAILED})
"""The phases after which nothing comes but STOP."""


@dataclass(frozen=True, slots=True)
class Change:
    """What will happen if nobody interferes; of those due at the same time, the lower number goes first."""

    at_ms: int
    number: int
    phase: Phase
    detail: str = ""


@dataclass(slots=True)
class Holding:
    """The machines of one lease.

    ``work_done``  in work units, when the present phase began
    ``coming``     what will become of them, soonest first
    """

    lease_id: int
    incarnation: int
    vms: int
    memory_mib: int
    command: tuple[str, ...]
    work_done: int
    phase: Phase
    since_ms: int
    detail: str = ""
    coming: tuple[Change, ...] = ()

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
            Phase.STARTING,
            now_ms,
        )

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
        return Observation(self.lease_id, self.incarnation, self.phase, self.since_ms, self.detail)

    def work_done_at(self, now_ms: int, speed_mips: int) -> int:
        """How much of the lease's work is done; they work while they run."""
        worked_ms = max(0, now_ms - self.since_ms) if self.phase is Phase.RUNNING else 0
        return self.work_done + worked_ms * speed_mips

    def to_text(self) -> str:
        """Write them down, so that `from_text` gives the same again."""
        coming = [(one.at_ms, one.number, one.phase, one.detail) for one in self.coming]
        own = (self.incarnation, self.vms, self.memory_mib, self.command, self.work_done)
        return json.dumps([*own, self.phase, self.since_ms, self.detail, coming])

    @classmethod
    def from_text(cls, lease_id: int, text: str) -> "Holding":
        """Read what `to_text` wrote."""
        incarnation, vms, memory_mib, command, work_done, phase, since_ms, detail, coming = json.loads(text)
        return cls(
            lease_id,
            incarnation,
            vms,
            memory_mib,
            tuple(command),
            work_done,
            Phase(phase),
            since_ms,
            detail,
            tuple(Change(at_ms, number, Phase(then), why) for at_ms, number, then, why in coming),
        )
