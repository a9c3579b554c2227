"""A site that decides for itself, elsewhere: what its gateway knows of it, and how the two agree.

The gateway offers a request; the site takes it in or says why not, and reports whatever becomes of it. What
is at the site is the site's to decide: the gateway follows its reports and never plans its machines. A lease
is therefore in one place at any time, however long the two do not hear of each other.
"""

from dataclasses import dataclass, field
from functools import cache

from leasehold.gateway.settings import can_serve
from leasehold.model.errors import InvalidField
from leasehold.model.event import SiteReported
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.lifecycle import MOVES, Step
from leasehold.model.request import LeaseType
from leasehold.routing.facts import SiteLive


@dataclass(slots=True)
class RemoteSite:
    """One site that a manager of its own looks after.

    ``live``     how it was when it was last heard of
    ``lends``    whether its owner takes new guests
    ``silent``   whether it has not been heard of for too long: nothing is sent there until it is
    ``is_peer``  whether it is another gateway, asked only as `leasehold.gateway.peering` says; ``slots`` is
                 then the most that one lease can have there
    """

    name: str
    slots: int
    speed_mips: int
    can_suspend: bool = True
    can_migrate: bool = True
    lends: bool = True
    silent: bool = False
    is_peer: bool = False
    live: SiteLive = field(default_factory=lambda: SiteLive(0))
    leases: dict[int, Lease] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse sizes and speeds that make no sense."""
        for name in ("slots", "speed_mips"):
            if getattr(self, name) < 1:
                raise InvalidField(f"{self.name}.{name}", getattr(self, name), "a whole number of at least 1")

    @property
    def is_open(self) -> bool:
        """Whether something can be offered to it now."""
        return self.lends and not self.silent

    def can_serve(self, lease_type: LeaseType) -> bool:
        """Whether the machines there can do what preempting such a guest takes."""
        return can_serve(lease_type, suspend=self.can_suspend, migrate=self.can_migrate)


def can_follow(lease: Lease, report: SiteReported) -> bool:
    """Whether the life of a lease may lead to what its site reports; steps in between may go untold."""
    if report.state is lease.state:
        return True
    has_run = lease.state is LeaseState.RUNNING or lease.first_start_ms >= 0
    return report.state in _later(lease.request.lease_type, lease.state, has_run=has_run)


def follow(lease: Lease, report: SiteReported) -> None:
    """Let the gateway's picture of a lease be what its site reports; what has happened stays so."""
    lease.state = report.state
    lease.reserved_ms = report.planned_ms
    if lease.first_start_ms < 0:
        lease.first_start_ms = report.first_start_ms
    lease.preemptions = max(lease.preemptions, report.preemptions)
    lease.overhead_vm_ms = max(lease.overhead_vm_ms, report.overhead_vm_ms)


@cache
def _later(lease_type: LeaseType, state: LeaseState, *, has_run: bool) -> frozenset[LeaseState]:
    """Every state that can follow one, however many steps later.

    Only a lease that gave way before its machines were seen leaves, unrun, the site that suspends it.
    """
    moves = MOVES[lease_type]
    if has_run:
        moves = {move: then for move, then in moves.items() if move != (LeaseState.SUSPENDING, Step.HOLD)}
    found: set[LeaseState] = set()
    ahead = [state]
    while ahead:
        here = ahead.pop()
        following = {then for (before, _), then in moves.items() if before is here}
        ahead += following - found
        found |= following
    return frozenset(found)
