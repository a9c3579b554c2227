"""Who holds VMs at a site right now, and the lists in which it tells the gateway what it did."""

from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.gateway.quotas import QuotaEnforcer
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.overhead import MeasuredOverheads, Measurement, Overheads
from leasehold.leasing.profile import Profile
from leasehold.model.agreement import Breach
from leasehold.model.effect import Decision, Effect, LeaseClosed, StartLease, WithdrawLease
from leasehold.model.event import Operation
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.routing.demand import LocalDemand


class Allocations:
    """The machines of one site as far as planning is concerned; shared by its locals' and guests' sides.

    ``effects``, ``displaced`` (Migratable guests that have lost their place) and what is ``agreed`` belong to
    the gateway, and are the same for all its sites; so do those who are ``parked``, saved, until the routing
    policy says that they go on (None where it does not say that). ``overheads`` are the times to plan with:
    those that the owner states, as far as ``experience`` does not know better. ``demand`` learns what local
    leases take, where somebody wants to know. ``is_silent`` says that the machines do not answer now.
    ``outlasting`` are those that could not give way when the site
    shrank: until they end, more VMs may be held than there are slots.
    """

    def __init__(self, settings: SiteSettings) -> None:
        """Begin empty."""
        self.settings = settings
        self.name = settings.name
        self.experience = MeasuredOverheads(settings.overhead)
        self.overheads: Overheads = settings.overhead
        self.held: dict[int, Lease] = {}
        self.local_vms = 0
        self.guest_vms = 0
        self.effects: list[Effect] = []
        self.displaced: list[Lease] = []
        self.parked: dict[int, Lease] | None = None
        self.demand: LocalDemand | None = None
        self.outlasting: frozenset[int] = frozenset()
        self.quotas = QuotaEnforcer(None, 1, self.effects)
        self.is_silent = False
        self._places = 0

    def wall_ms(self, work: int) -> int:
        """How long this much work takes here, rounded up to whole milliseconds."""
        return -(-work // self.settings.speed_mips)

    def learn(self, operation: Operation, measured: Measurement) -> None:
        """Plan from now on with what this measurement adds; what is booked stays booked."""
        self.experience.note(operation, measured)
        self.overheads = self.experience.overheads()

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Remember what was measured before a restart."""
        self.experience.recall(snapshot)
        self.overheads = self.experience.overheads()

    def start_ms(self) -> int:
        """How long machines usually take to start here, as far as that was measured: it is planned with."""
        return (self.experience.usual_ms(Operation.START) or 0) if self.settings.confirms_starts else 0

    def start(self, lease: Lease, now_ms: int) -> None:
        """Have the machines of a lease started."""
        advance(lease, Step.START)
        self.enter(lease, now_ms)
        if not self.settings.confirms_starts:
            advance(lease, Step.BEGIN)
        self.effects.append(StartLease(lease))

    def enter(self, lease: Lease, now_ms: int) -> None:
        """Note that a lease holds its VMs from now on."""
        lease.held_since_ms = now_ms
        lease.incarnation += 1
        self._places += 1
        lease.place = self._places
        self._stand(lease)
        if self.demand is not None and lease.request.site is not None:
            self.demand.began(lease.id, lease.vms, now_ms)
        if not self.settings.confirms_starts:
            self.seen(lease, now_ms, now_ms)

    def seen(self, lease: Lease, since_ms: int, now_ms: int) -> None:
        """Note that its machines are there: what it uses counts since then."""
        if lease.first_start_ms < 0:
            lease.first_start_ms = since_ms
        self.quotas.began(lease, since_ms, now_ms)

    def is_in_use(self, lease: Lease) -> bool:
        """Whether what a lease holds here counts as used: its machines were seen, where that is told."""
        return lease.id in self.held and (lease.state is LeaseState.RUNNING or not self.settings.confirms_starts)

    def hold_back(self, lease: Lease, now_ms: int) -> None:
        """Take its room from a lease that has not begun: nothing of it is lost, and it waits again."""
        self.leave(lease, now_ms)
        advance(lease, Step.HOLD_BACK)
        self.effects.append(WithdrawLease(lease, self.name, lease.incarnation))

    def take_up(self, leases: Iterable[Lease]) -> None:
        """Go on from a record: these hold VMs here, in order of their places."""
        for lease in leases:
            self._places = max(self._places, lease.place)
            self._stand(lease)

    def _stand(self, lease: Lease) -> None:
        self.held[lease.id] = lease
        self._count(lease, lease.vms)

    def leave(self, lease: Lease, now_ms: int) -> None:
        """Note that a lease holds no VMs here any more."""
        self.quotas.ended(lease, now_ms)
        if self.demand is not None and lease.request.site is not None:
            self.demand.ended(lease.id, now_ms - lease.held_since_ms, now_ms)
        del self.held[lease.id]
        lease.held_since_ms = UNPLANNED
        self._count(lease, -lease.vms)

    def _count(self, lease: Lease, vms: int) -> None:
        if lease.request.site is None:
            self.guest_vms += vms
        else:
            self.local_vms += vms

    def decide(self, lease: Lease, outcome: Outcome, reason: Reason, rule: str, planned_ms: int | None = None) -> None:
        """Write a decision down."""
        self.effects.append(Decision(lease, self.name, outcome, reason, rule, planned_ms))

    def put_off(self, lease: Lease, breach: Breach, rule: str) -> None:
        """Write down that an agreement keeps a lease from going on now."""
        next_ms = breach.next_ms
        self.effects.append(Decision(lease, self.name, Outcome.WAIT, breach.reason, rule, next_ms, breach=breach))

    def tell_who_waits(self, arrivals: Iterable[Lease], plan: Profile, rule: str, now_ms: int) -> None:
        """Write down, for those who have just come and could not start, what they wait for and until when."""
        for lease in arrivals:
            if lease.state is LeaseState.WAITING:
                planned_ms = lease.reserved_ms if lease.reserved_ms >= 0 else None
                reason = _what_it_waits_for(lease, plan, now_ms)
                self.decide(lease, Outcome.WAIT, reason, rule, planned_ms)

    def close(self, lease: Lease, step: Step, reason: Reason) -> None:
        """Bring a lease to its final state."""
        advance(lease, step)
        self.quotas.over(lease)
        self.effects.append(LeaseClosed(lease, reason))

    def refuse(self, lease: Lease, reason: Reason, rule: str) -> None:
        """Refuse a lease that never held anything."""
        self.decide(lease, Outcome.REFUSE, reason, rule)
        self.close(lease, Step.REFUSE, reason)


def _what_it_waits_for(lease: Lease, plan: Profile, now_ms: int) -> Reason:
    if lease.earliest_ms > now_ms:
        return Reason.NOT_READY_YET
    return Reason.BEHIND_OTHERS if plan.free_at(now_ms) >= lease.vms else Reason.ROOM_IN_USE
