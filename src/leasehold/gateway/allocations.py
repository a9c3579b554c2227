"""Which leases hold VMs at a site, and what that means for its accounts, its effects and its plans."""

from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.gateway.preemptable import HeldPool, PreemptableGuests
from leasehold.gateway.quotas import QuotaEnforcer
from leasehold.gateway.settings import Queue, SiteSettings
from leasehold.gateway.state import InstantChanges
from leasehold.leasing.overhead import MeasuredOverheads, Measurement, Overheads
from leasehold.model.agreement import Breach
from leasehold.model.effect import Decision, LeaseClosed, StartLease, WithdrawLease
from leasehold.model.event import Operation, Outage
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.model.value_dict import ValueDict
from leasehold.routing.demand import LocalDemand


class Allocations:
    """The leases that hold VMs at one site; shared by its local and its guest side.

    ``suspended``   guests of all sites that stay suspended until the routing policy resumes them; None where the
                    policy does not decide that
    ``overheads``   the times to plan with: the owner's, as far as ``experience`` does not know better
    ``demand``      learns what local leases take, once a routing policy asks
    ``outages``     VMs that cannot be used now, ``down_vms`` in all
    ``is_silent``   whether the machines do not answer now
    ``outlasting``  those that could not give way when the site shrank: until they end, more VMs may be held than
                    there are slots
    """

    def __init__(
        self, settings: SiteSettings, changes: InstantChanges, quotas: QuotaEnforcer, suspended: dict[int, Lease] | None
    ) -> None:
        """Begin empty."""
        self.settings = settings
        self.name = settings.name
        self.changes = changes
        self.quotas = quotas
        self.suspended = suspended
        self.experience = MeasuredOverheads(settings.overhead)
        self.overheads: Overheads = settings.overhead
        self.held: dict[int, Lease] = ValueDict()
        self.local_vms = 0
        self.guest_vms = 0
        self.demand: LocalDemand | None = None
        self.outlasting: frozenset[int] = frozenset()
        self.outages: tuple[Outage, ...] = ()
        self.down_vms = 0
        self.is_silent = False
        self._preemptable: PreemptableGuests | None = None
        self._is_accounted = quotas.sharing is not None
        self._places = 0

    def wall_ms(self, work: int) -> int:
        """How long this much work takes here, rounded up to whole milliseconds."""
        return -(-work // self.settings.speed_mips)

    def learn(self, operation: Operation, measured: Measurement) -> None:
        """Plan with this measurement from now on; existing bookings stay as they are."""
        self.experience.note(operation, measured)
        self.overheads = self.experience.overheads()

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on from what was measured before a restart."""
        self.experience.recall(snapshot)
        self.overheads = self.experience.overheads()

    def start_ms(self) -> int:
        """How long machines take to start here, as measured so far; 0 where starts are not confirmed."""
        return (self.experience.usual_ms(Operation.START) or 0) if self.settings.confirms_starts else 0

    def arrival_ms(self, lease: Lease) -> int:
        """How long the machines of a new lease take: they start, or its memory comes from another manager's site."""
        if not lease.memory_at:
            return self.start_ms()
        return self.overheads.migrate_ms(lease.request.memory_mib, lease.vms)

    def start(self, lease: Lease, now_ms: int) -> None:
        """Order the machines of a lease to start."""
        advance(lease, Step.START)
        self.enter(lease, now_ms)
        if not self.settings.confirms_starts:
            advance(lease, Step.BEGIN)
        self.changes.effects.append(StartLease(lease))

    def enter(self, lease: Lease, now_ms: int) -> None:
        """Let a lease hold its VMs from now on."""
        lease.held_since_ms = now_ms
        lease.incarnation += 1
        self._places += 1
        lease.place = self._places
        self._hold(lease)
        if self.demand is not None and lease.request.site is not None:
            self.demand.began(lease.id, lease.vms, now_ms)
        if not self.settings.confirms_starts:
            self.seen(lease, now_ms, now_ms)

    def seen(self, lease: Lease, since_ms: int, now_ms: int) -> None:
        """Its machines were seen: what it uses counts from then on."""
        if lease.first_start_ms < 0:
            lease.first_start_ms = since_ms
        if self._is_accounted:
            self.quotas.began(lease, since_ms, now_ms)

    def is_in_use(self, lease: Lease) -> bool:
        """Whether what a lease holds here counts as used: its machines were seen, where starts are confirmed."""
        return lease.id in self.held and (lease.state is LeaseState.RUNNING or not self.settings.confirms_starts)

    def hold_back(self, lease: Lease, now_ms: int) -> None:
        """Take back the VMs of a lease that has not begun: nothing of it is lost, and it waits again."""
        self.leave(lease, now_ms)
        advance(lease, Step.HOLD_BACK)
        self.changes.effects.append(WithdrawLease(lease, self.name, lease.incarnation))

    def take_up(self, leases: Iterable[Lease]) -> None:
        """Go on from a record: these leases hold VMs here, in order of their places."""
        for lease in leases:
            self._places = max(self._places, lease.place)
            self._hold(lease)

    def preemptable(self, now_ms: int) -> HeldPool:
        """Return the guests that may give way; they are kept in order from the first question on."""
        if self._preemptable is None:
            self._preemptable = PreemptableGuests(self.held.values())
        return self._preemptable.pool(self.overheads, now_ms)

    def _hold(self, lease: Lease) -> None:
        self.held[lease.id] = lease
        if self._preemptable is not None:
            self._preemptable.add(lease)
        self._count(lease, self.settings.slots_of(lease))

    def leave(self, lease: Lease, now_ms: int) -> None:
        """Free the VMs of a lease."""
        if self._is_accounted:
            self.quotas.ended(lease, now_ms)
        if self.demand is not None and lease.request.site is not None:
            self.demand.ended(lease.id, now_ms - lease.held_since_ms, now_ms)
        del self.held[lease.id]
        if self._preemptable is not None:
            self._preemptable.remove(lease)
        lease.held_since_ms = UNPLANNED
        self._count(lease, -self.settings.slots_of(lease))

    def _count(self, lease: Lease, vms: int) -> None:
        if lease.request.site is None:
            self.guest_vms += vms
        else:
            self.local_vms += vms

    def decide(self, lease: Lease, outcome: Outcome, reason: Reason, rule: str, planned_ms: int | None = None) -> None:
        """Record a decision."""
        self.changes.effects.append(Decision(lease, self.name, outcome, reason, rule, planned_ms))

    def defer(self, lease: Lease, breach: Breach, rule: str) -> None:
        """Record that an agreement keeps a lease from resuming now."""
        next_ms = breach.next_ms
        self.changes.effects.append(
            Decision(lease, self.name, Outcome.WAIT, breach.reason, rule, next_ms, breach=breach)
        )

    def explain_waits(self, arrivals: Iterable[Lease], queue: Queue, rule: str, now_ms: int) -> None:
        """Record, for new leases that could not start, what they wait for and until when."""
        for lease in arrivals:
            if lease.state is LeaseState.WAITING:
                planned_ms = lease.reserved_ms if lease.reserved_ms >= 0 else None
                self.decide(lease, Outcome.WAIT, queue.why_waiting(lease, now_ms), rule, planned_ms)

    def close(self, lease: Lease, step: Step, reason: Reason) -> None:
        """Bring a lease to its final state."""
        advance(lease, step)
        if self._is_accounted:
            self.quotas.release(lease)
        self.changes.effects.append(LeaseClosed(lease, reason))

    def refuse(self, lease: Lease, reason: Reason, rule: str) -> None:
        """Refuse a lease that never held anything."""
        self.decide(lease, Outcome.REFUSE, reason, rule)
        self.close(lease, Step.REFUSE, reason)
