"""The lease: what a request becomes, and what the site manager plans with.

Work is counted in whole *work units*: milliseconds times MIPS of the machine. A request of
``duration_ms`` on a machine of the reference speed is ``duration_ms * reference_mips`` units on
every machine, so that a lease can move between clusters of different speed without rounding.
"""

from dataclasses import dataclass
from enum import StrEnum

from leasehold.model.request import Request
from leasehold.model.resources import Placed

UNPLANNED = -1


class LeaseState(StrEnum):
    """Where a lease is in its life; the moves between states are in `leasehold.model.lifecycle`."""

    SUBMITTED = "submitted"
    HELD = "held"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    MIGRATING = "migrating"
    COMPLETED = "completed"
    KILLED = "killed"
    TERMINATED = "terminated"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing can follow."""
        return self in _FINAL


ON_THE_WAY = frozenset({LeaseState.STARTING, LeaseState.RESUMING, LeaseState.MIGRATING})
"""The states in which VMs are held, and work waits until the machines are there."""

_FINAL = frozenset(
    {
        LeaseState.COMPLETED,
        LeaseState.KILLED,
        LeaseState.TERMINATED,
        LeaseState.FAILED,
        LeaseState.REFUSED,
        LeaseState.CANCELLED,
    }
)


@dataclass(slots=True, eq=False)
class Lease:
    """One request's lease, at one site at a time.

    ``span_ms``       how long it has its VMs from ``reserved_ms`` on: overhead and requested rest
    ``earliest_ms``   not before (ready time, or the end of saving its memory)
    ``latest_ms``     start not after, None without deadline
    ``reserved_ms``   the start that it was promised, UNPLANNED without
    ``held_since_ms`` since when it holds VMs here, UNPLANNED while it does not; where starts are confirmed,
                      since its machines were seen, and until then since they were ordered
    ``overhead_ms``   the part of that time in which its work waits: its machines start, its
                      memory is loaded, or it waits for the rest of its co-allocation
    ``first_start_ms`` when its machines ran for the first time, UNPLANNED before that
    ``work_left``     requested work not yet done, in work units
    ``overhead_vm_ms`` VM-milliseconds of preemption overhead charged so far
    ``checkpointed_ms`` when its guest last reported a checkpoint, UNPLANNED without; it counts until the guest
                      starts again
    ``incarnation``   counts its starts, so that news of an older start is recognised
    ``handed_back``   how often a site that decides for itself gave it back to be moved
    ``memory_at``     such a site that has saved its memory, "" for none: it continues from that
    ``restarts``      how often it began again after its machines were lost
    ``wanted_ms``     the duration, in all, that a site was asked for which decides for itself and has not answered yet;
                      UNPLANNED without
    ``placed``        on which nodes its machines are, or are planned to be; empty at a site without a plan of nodes
    ``place``         its turn in the list that it is in: the queue, the reservations or the floor of a site
    """

    id: int
    request: Request
    vms: int
    order: int
    work_left: int
    site: str = ""
    state: LeaseState = LeaseState.SUBMITTED
    span_ms: int = 0
    earliest_ms: int = 0
    latest_ms: int | None = None
    reserved_ms: int = UNPLANNED
    held_since_ms: int = UNPLANNED
    overhead_ms: int = 0
    first_start_ms: int = UNPLANNED
    incarnation: int = 0
    preemptions: int = 0
    migrations: int = 0
    overhead_vm_ms: int = 0
    dispatched_ms: int = UNPLANNED
    restarts: int = 0
    handed_back: int = 0
    memory_at: str = ""
    place: int = 0
    checkpointed_ms: int = UNPLANNED
    wanted_ms: int = UNPLANNED
    placed: Placed = ()

    def ran_ms(self, now_ms: int) -> int:
        """For how long its work has gone on since it last began; starting, loading and moving do not count."""
        if self.state is not LeaseState.RUNNING:
            return 0
        return max(0, now_ms - self.held_since_ms - self.overhead_ms)

    def at_risk_ms(self, now_ms: int) -> int:
        """For how long it has worked since its last checkpoint, or since its work last began."""
        ran_ms = self.ran_ms(now_ms)
        return ran_ms if self.checkpointed_ms < 0 else min(ran_ms, max(0, now_ms - self.checkpointed_ms))

    @property
    def end_ms(self) -> int:
        """When its machines are to be given back, as it is planned now; there must be a plan."""
        return self.reserved_ms + self.span_ms
