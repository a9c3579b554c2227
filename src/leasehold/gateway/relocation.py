"""Guests that lost their place: kept suspended until the policy resumes them, moved to another site, or given up.

A Migratable lease that lost its place goes first to the site of the same gateway where it would finish soonest among
those that have room for it now and meet its deadline; else it waits, suspended, where it was, if it can still be
finished there before its deadline; else it fails, and this is reported. JPDC 2012, section 2.1, asks for the first
two. What another gateway has sent is handed back to that instead of failing: it knows more sites.

With a policy that decides when guests resume, a Suspendable lease that had to give way does not resume as soon as there
is room, and a Migratable one is not moved at once: the next local request would take that room from them again, and
each time costs minutes. Both wait in the `SuspendedPool` until the policy expects no such preemption. A deadline is
never waited away: once half of the time is gone that a Migratable lease has to spare, it is relocated to the first
place that has room, whatever the policy says.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from leasehold.gateway.guests import Guests, meets_deadline
from leasehold.gateway.knowledge import Knowledge
from leasehold.gateway.pending import PendingQueue
from leasehold.gateway.quotas import QuotaEnforcer
from leasehold.gateway.settings import Routing
from leasehold.gateway.site import Site
from leasehold.gateway.sites import SiteRegistry
from leasehold.model.effect import MigrateLease, StopLease
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.routing.policy import Waiting

SOONEST_FINISH = "soonest-finish"
BEFORE_DEADLINE = "before-deadline"
SAVED_OR_SAVING = (LeaseState.SUSPENDING, LeaseState.SUSPENDED)
HOLDS_VMS = frozenset({LeaseState.RUNNING, LeaseState.RESUMING, LeaseState.MIGRATING})
_NEVER_MS = 1 << 62


@dataclass(slots=True)
class SuspendedPool:
    """Guests of all own sites that stay suspended until the routing policy resumes them.

    ``is_used``  whether the policy decides that; else they resume when their site has room
    """

    is_used: bool
    leases: dict[int, Lease] = field(default_factory=dict)

    def take_urgent(self, now_ms: int) -> list[Lease]:
        """Remove, and return, guests whose deadline lets them wait no longer."""
        urgent = [lease for lease in self.leases.values() if _urgent_from_ms(lease) <= now_ms]
        for lease in urgent:
            del self.leases[lease.id]
        return urgent

    def changes_ms(self, now_ms: int) -> int | None:
        """When the next of them may resume, or is urgent, if nothing happens; None without any."""
        times_ms = [_urgent_from_ms(lease) for lease in self.leases.values()]
        times_ms += [lease.earliest_ms for lease in self.leases.values() if lease.earliest_ms > now_ms]
        return min(times_ms, default=None)


class Relocator:
    """Puts guests into the pool of suspended ones, resumes them, and moves displaced ones to other sites."""

    def __init__(
        self,
        *,
        pool: SuspendedPool,
        registry: SiteRegistry,
        pending: PendingQueue,
        quotas: QuotaEnforcer,
        knowledge: Knowledge,
        routing: Routing,
        reference_mips: int,
    ) -> None:
        """Begin without guests."""
        self._pool = pool
        self._registry = registry
        self._pending = pending
        self._quotas = quotas
        self._knowledge = knowledge
        self._routing = routing
        self._reference_mips = reference_mips
        self._descriptions: dict[int, Waiting] = {}

    # Guests that lost their place in this instant, or are urgent

    def relocate(self, displaced: Iterable[tuple[Lease, Reason]], now_ms: int) -> None:
        """Find each of them a place or a time, or end it; they come with the reason why they lost their place."""
        for lease, why in displaced:
            self._registry.touch(lease.site)
            home = self._registry.own[lease.site].open_to_guests(now_ms)
            if not self._goes_into_pool(home, lease, now_ms):
                self._relocate(home, lease, why, now_ms)

    def _goes_into_pool(self, home: Guests, lease: Lease, now_ms: int) -> bool:
        """Suspend a guest that has just lost its VMs, if the policy decides when it resumes and there is time."""
        settings = home.allocations.settings
        if not self._pool.is_used or lease.state not in HOLDS_VMS or not settings.can_suspend:
            return False
        if home.queue.is_wider_than_site(lease):
            return False
        home.plan_resumption(lease, now_ms)
        latest_ms = _latest_ms(home, lease)
        if latest_ms is not None and latest_ms < lease.earliest_ms:
            return False
        home.suspend(lease, now_ms)
        lease.latest_ms = latest_ms
        home.defer_resume(lease)
        return True

    def _relocate(self, home: Guests, lease: Lease, why: Reason, now_ms: int) -> None:
        if self._resumes_at_home(lease, now_ms):
            return
        elsewhere = _soonest_elsewhere(lease, self._open_to(lease, now_ms), now_ms)
        if elsewhere is not None:
            reason = why if lease.state is LeaseState.WAITING else Reason.ROOM_FREE
            self.move(lease, elsewhere, reason, SOONEST_FINISH, now_ms)
        elif self._stays_in_pool(home, lease, now_ms):
            home.keep_suspended(lease)
        elif lease.state is LeaseState.WAITING and lease.request.goes_back:
            home.leave(lease, now_ms)
        elif lease.state is LeaseState.WAITING and lease.request.wait:
            self._pending.take_back(lease, why, SOONEST_FINISH)
        elif _keep_for_later(home, lease, why, now_ms):
            pass
        elif lease.request.goes_back:
            home.leave(lease, now_ms)
        else:
            home.allocations.changes.effects.append(StopLease(lease))
            home.allocations.close(lease, Step.FAIL, Reason.DEADLINE_LOST)

    def _resumes_at_home(self, lease: Lease, now_ms: int) -> bool:
        """Resume an urgent guest of the pool where it is: that is sooner than moving it."""
        if not self._pool.is_used or lease.state is not LeaseState.SUSPENDED:
            return False
        return self.resume(lease, Reason.DEADLINE_FORCES_RESUME, self._routing.policy.name, now_ms)

    def _stays_in_pool(self, home: Guests, lease: Lease, now_ms: int) -> bool:
        """Whether a guest of the pool without a place now could still be in time, were there one soon."""
        if not self._pool.is_used or lease.state not in SAVED_OR_SAVING:
            return False
        others = [site.open_to_guests(now_ms) for site in self._open_to(lease, now_ms)]
        deadline_ms = lease.request.deadline_ms
        if deadline_ms is None:
            return True
        ends_ms = [now_ms + lease.overhead_ms + home.allocations.wall_ms(lease.work_left)]
        ends_ms += [now_ms + _transfer_ms(one, lease) + one.allocations.wall_ms(lease.work_left) for one in others]
        return min(ends_ms) <= deadline_ms

    # Guests in the pool

    def candidates(self, now_ms: int) -> list[Waiting]:
        """List the guests that could resume now: Migratable ones first, then by when they were suspended."""
        saved = [one for one in self._pool.leases.values() if _could_resume(one, now_ms)]
        saved.sort(key=lambda lease: (-lease.request.lease_type, lease.earliest_ms, lease.order))
        return [self._describe(lease) for lease in saved]

    def _describe(self, lease: Lease) -> Waiting:
        """Describe a guest to the policy; the description stays as long as the guest is in the pool."""
        known = self._descriptions.get(lease.id)
        if known is None or known.since_ms != lease.earliest_ms or known.home != lease.site:
            request, overheads = lease.request, self._registry.own[lease.site].allocations.overheads
            move_ms = None
            if not request.lease_type.is_best_effort:
                move_ms = overheads.migrate_ms(request.memory_mib, lease.vms)
            left_ms = -(-lease.work_left // self._reference_mips)
            known = Waiting(request, lease.earliest_ms, left_ms, lease.site, lease.overhead_ms, move_ms)
            self._descriptions[lease.id] = known
        return known

    def forget(self, lease_id: int) -> None:
        """A lease is over."""
        self._descriptions.pop(lease_id, None)

    def resume(self, lease: Lease, reason: Reason, rule: str, now_ms: int) -> bool:
        """Resume a guest at its home at once; False if there is no room there now, or it may not."""
        return self._registry.own[lease.site].open_to_guests(now_ms).resume(lease, reason, rule, now_ms)

    def could_take(self, lease: Lease, now_ms: int) -> list[Guests]:
        """List the other sites where a guest could continue now and finish in time."""
        guests = [site.open_to_guests(now_ms) for site in self._open_to(lease, now_ms)]
        return [one for one in guests if _fits_now(one, lease, now_ms)]

    def move(self, lease: Lease, there: Guests, reason: Reason, rule: str, now_ms: int) -> None:
        """Continue a guest at another site, which has room for it."""
        self._pool.leases.pop(lease.id, None)
        self._knowledge.gone(lease, lease.site)
        _take_over(there, lease, reason, rule, now_ms)
        self._knowledge.sent(lease)
        self._quotas.granted(lease, there.allocations.settings.speed_mips, now_ms)
        self._registry.touch(lease.site)

    def _open_to(self, lease: Lease, now_ms: int) -> list[Site]:
        """List the own sites that a lease may be moved to, by their owners, agreements and its own request."""
        return [
            site
            for site in self._registry.own_open()
            if site.name != lease.site
            and not self._quotas.is_bound_elsewhere(lease.request, site.name)
            and self._quotas.why_not_there(lease, site.name, site.settings.speed_mips, now_ms) is None
        ]


def _could_resume(lease: Lease, now_ms: int) -> bool:
    return lease.state is LeaseState.SUSPENDED and lease.earliest_ms <= now_ms


def _latest_ms(guests: Guests, lease: Lease) -> int | None:
    """The latest time it could continue at another site; None without a deadline."""
    request, allocations = lease.request, guests.allocations
    if request.deadline_ms is None:
        return None
    moving_ms = allocations.overheads.migrate_ms(request.memory_mib, lease.vms)
    return request.deadline_ms - max(lease.overhead_ms, moving_ms) - allocations.wall_ms(lease.work_left)


def _urgent_from_ms(lease: Lease) -> int:
    """From when on a guest of the pool takes any place: half of the time that it has to spare is gone."""
    if lease.latest_ms is None:
        return _NEVER_MS
    return lease.earliest_ms + (lease.latest_ms - lease.earliest_ms) // 2


def _soonest_elsewhere(lease: Lease, sites: Iterable[Site], now_ms: int) -> Guests | None:
    """Find the other site where the lease would finish first, the first listed among equals."""
    best: Guests | None = None
    best_ms = 0
    for site in sites:
        if site.name == lease.site:
            continue
        guests = site.open_to_guests(now_ms)
        if not _is_able(guests, lease):
            continue
        finish_ms = _finish_if_moved_ms(guests, lease, now_ms)
        if finish_ms is not None and (best is None or finish_ms < best_ms):
            best, best_ms = guests, finish_ms
    return best


def _is_able(guests: Guests, lease: Lease) -> bool:
    settings = guests.allocations.settings
    is_able = settings.can_serve(lease.request.lease_type) and (settings.hands_over or not lease.memory_at)
    return is_able and settings.lacks(lease.request) is None and not guests.queue.is_wider_than_site(lease)


def _finish_if_moved_ms(guests: Guests, lease: Lease, now_ms: int) -> int | None:
    """When a displaced lease would end if it went to this site now; None where it cannot."""
    start_ms = max(now_ms, lease.request.ready_ms)
    finish_ms = start_ms + _transfer_ms(guests, lease) + guests.allocations.wall_ms(lease.work_left)
    deadline_ms = lease.request.deadline_ms
    if deadline_ms is not None and finish_ms > deadline_ms:
        return None
    return finish_ms if guests.queue.fits(lease, start_ms, finish_ms) else None


def _transfer_ms(guests: Guests, lease: Lease) -> int:
    """How long moving its memory takes; a lease that never started has none, unless it comes from elsewhere."""
    if lease.state is LeaseState.WAITING and not lease.memory_at:
        return 0
    return guests.allocations.overheads.migrate_ms(lease.request.memory_mib, lease.vms)


def _fits_now(guests: Guests, lease: Lease, now_ms: int) -> bool:
    """Whether a displaced lease could continue at another site now and finish there in time."""
    return _is_able(guests, lease) and _finish_if_moved_ms(guests, lease, now_ms) is not None


def _take_over(guests: Guests, lease: Lease, reason: Reason, rule: str, now_ms: int) -> None:
    """Continue a displaced lease at this site, where it is known to fit."""
    allocations = guests.allocations
    source, lease.site = lease.site, allocations.name
    lease.overhead_ms = _transfer_ms(guests, lease)
    lease.span_ms = lease.overhead_ms + allocations.wall_ms(lease.work_left)
    if lease.state is LeaseState.WAITING:
        start_ms = max(now_ms, lease.request.ready_ms)
        guests.queue.reserve(lease, start_ms)
        allocations.decide(lease, Outcome.MOVE, reason, rule, start_ms)
        return
    lease.overhead_vm_ms += lease.overhead_ms * lease.vms
    lease.migrations += 1
    advance(lease, Step.MIGRATE)
    guests.queue.book(now_ms, lease)
    allocations.enter(lease, now_ms)
    allocations.changes.effects.append(MigrateLease(lease, source, lease.overhead_ms))
    allocations.decide(lease, Outcome.MOVE, reason, rule)


def _keep_for_later(guests: Guests, lease: Lease, why: Reason, now_ms: int) -> bool:
    """Plan to finish a displaced lease where it was, before its deadline; False if it is too late."""
    is_unstarted = lease.state is LeaseState.WAITING
    if is_unstarted and not lease.incarnation:
        return False  # it was promised its ready time
    if guests.queue.is_wider_than_site(lease):
        return False
    has_memory = not is_unstarted and lease.state not in SAVED_OR_SAVING
    if has_memory:
        guests.plan_resumption(lease, now_ms)
    start_ms = guests.queue.earliest(lease, now_ms)
    if not meets_deadline(lease, start_ms):
        return False
    if has_memory:
        guests.suspend(lease, now_ms)
    deadline_ms = lease.request.deadline_ms
    lease.latest_ms = None if deadline_ms is None else deadline_ms - lease.span_ms
    guests.queue.reserve(lease, start_ms)
    guests.allocations.decide(lease, Outcome.WAIT, why, BEFORE_DEADLINE, start_ms)
    return True
