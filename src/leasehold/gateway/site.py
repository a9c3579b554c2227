"""One site manager (the papers' local resource manager): its own users first, guests in what is left.

The rule that makes the promise hold is structural. The site's own users are planned on the ``home``
profile, in which preemptable guests do not exist; so nothing that such a guest does can change when a
local request starts. Guests are planned on the ``full`` profile, which has everybody; when a local
request starts and the ``full`` profile goes below zero, guests give way (`leasehold.gateway.guests`).
"""

from leasehold.gateway.allocations import Allocations
from leasehold.gateway.extension import STARTS, count_from, keep_room, prolong, why_no_longer
from leasehold.gateway.guests import Guests
from leasehold.gateway.native_queue import follow
from leasehold.gateway.preemption import REPAIR, give_way, plan_guests_anew
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.backfill import Backfiller, Started, repair_conflicts
from leasehold.leasing.profile import Profile
from leasehold.model.effect import StopLease, WithdrawLease
from leasehold.model.event import NativeQueueSeen
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason

HOME_FIRST = "home-first"


class Site:
    """The state machine of one cluster.

    Told what happened by `submit`, `end` and `cancel`; it decides in `serve_locals`, and its guests' side
    in `Guests.serve`, which the gateway calls once all events of an instant are known.
    """

    def __init__(self, settings: SiteSettings) -> None:
        """Begin empty. A site pays for the ability to lend only from its first guest on."""
        self.allocations = Allocations(settings)
        self.home = Profile(settings.slots, 0)
        self.locals = Backfiller(self.home, settings.local_depth)
        self.guests: Guests | None = None
        self.wake_ms: int | None = None
        self._arrivals: list[Lease] = []
        self._locals_changed = False
        self._native_queue: NativeQueueSeen | None = None

    @property
    def name(self) -> str:
        """The site's name."""
        return self.allocations.name

    @property
    def settings(self) -> SiteSettings:
        """What its owner decided."""
        return self.allocations.settings

    @property
    def free_vms(self) -> int:
        """How many of its VMs nobody holds."""
        return self.settings.slots - self.allocations.local_vms - self.allocations.guest_vms

    def open_to_guests(self, now_ms: int) -> Guests:
        """The guests' side of this site, made when the first guest comes."""
        if self.guests is None:
            self.home.trim(now_ms)
            self.guests = Guests(self.allocations, self.locals, self.home.copy())
        return self.guests

    # What happened

    def submit(self, lease: Lease) -> None:
        """A local request came."""
        allocations = self.allocations
        lease.site = allocations.name
        if lease.vms > allocations.settings.slots:
            allocations.refuse(lease, Reason.WIDER_THAN_SITE, "width")
            return
        lease.overhead_ms = allocations.start_ms()
        lease.span_ms = lease.overhead_ms + allocations.wall_ms(lease.work_left)
        lease.earliest_ms = lease.request.ready_ms
        advance(lease, Step.PLAN)
        self.locals.submit(lease)
        self._arrivals.append(lease)
        self._locals_changed = True

    def end(self, lease: Lease, now_ms: int, *, killed: bool) -> None:
        """A lease ended by itself or at its requested time."""
        self._let_go(lease, now_ms)
        if killed:
            self.allocations.close(lease, Step.KILL, Reason.WALLTIME_REACHED)
        else:
            self.allocations.close(lease, Step.COMPLETE, Reason.COMPLETED)

    def finish(self, lease: Lease, now_ms: int) -> None:
        """The work of a guest was done when it was told to give way: there is nothing to resume."""
        self._take_out(lease, now_ms)
        self.allocations.close(lease, Step.COMPLETE, Reason.COMPLETED)

    def cancel(self, lease: Lease, now_ms: int, why: Reason = Reason.CANCELLED_BY_USER) -> None:
        """The user takes a lease back, wherever it is in its life; or the gateway does, and says why."""
        self._take_out(lease, now_ms)
        self.allocations.close(lease, Step.CANCEL, why)

    def call_off(self, lease: Lease, now_ms: int) -> None:
        """Take back what a Non-preemptable guest was promised that has not started."""
        if self.guests is not None:
            self._locals_changed |= self.guests.call_off(lease, now_ms)

    def fail(self, lease: Lease, now_ms: int, why: Reason = Reason.MACHINES_LOST) -> None:
        """The machines of a lease are lost, or its saved memory; or it never had any."""
        self._take_out(lease, now_ms)
        self.allocations.close(lease, Step.FAIL, why)

    def begin(self, lease: Lease, since_ms: int, not_before_ms: int, now_ms: int) -> None:
        """The machines of a lease are there since ``since_ms``; its work goes on, not before a given time.

        Where starts are confirmed its time counts from then: its end moves to where it has all of it.
        """
        advance(lease, Step.BEGIN if lease.state is LeaseState.STARTING else Step.CONTINUE)
        if self.settings.confirms_starts:
            count_from(self, lease, since_ms, max(since_ms, not_before_ms), now_ms)
            self.allocations.seen(lease, since_ms, now_ms)

    def keep_room(self, lease: Lease, now_ms: int) -> bool:
        """The time planned for a lease is over, and its machines were not seen: plan it as if they were now.

        False if there is no room for it any more.
        """
        return keep_room(self, lease, now_ms)

    def plan_locals_anew(self, now_ms: int) -> None:
        """Let reservations of local leases that wait step aside for one whose machines were late."""
        for lease in repair_conflicts(self.locals, now_ms):
            self.allocations.decide(lease, Outcome.MOVE, Reason.DELAYED_BY_SLOW_START, STARTS, lease.reserved_ms)
        self._locals_changed = True

    def withdraw(self, lease: Lease, now_ms: int) -> None:
        """Part with a guest that was told to start and was never seen to, even if it is being saved."""
        if lease.id in self.allocations.held:
            self._let_go(lease, now_ms)
        elif self.guests is not None:
            self._locals_changed |= self.guests.withdraw(lease, now_ms)
        self.allocations.effects.append(WithdrawLease(lease, self.name, lease.incarnation))

    def see_native_queue(self, seen: NativeQueueSeen) -> None:
        """The site's own scheduler has decided about its native jobs."""
        self._native_queue = seen
        self._locals_changed = True

    def extend(self, lease: Lease, more_work: int, now_ms: int) -> Reason | None:
        """Let a lease last longer, or say why not."""
        refusal = why_no_longer(self, lease, more_work)
        if refusal is None:
            prolong(self, lease, more_work)
            self.home.trim(now_ms)
            if lease.request.is_local and self.guests is not None:
                plan_guests_anew(self.guests, Reason.LOCAL_PLAN_CHANGED, REPAIR, now_ms)
        return refusal

    def _take_out(self, lease: Lease, now_ms: int) -> None:
        """Free what a lease holds or has reserved, wherever it is in its life."""
        if lease.id in self.allocations.held:
            self._let_go(lease, now_ms)
            self.allocations.effects.append(StopLease(lease))
        elif lease.request.is_local:
            self.locals.withdraw(lease, now_ms)
            self._locals_changed = True
        elif self.guests is not None:
            self._locals_changed |= self.guests.withdraw(lease, now_ms)

    def _let_go(self, lease: Lease, now_ms: int) -> None:
        """Free the VMs that a lease holds."""
        self.allocations.leave(lease, now_ms)
        if lease.request.is_local:
            self.locals.release(lease, now_ms)
            self._locals_changed = True
        elif self.guests is not None:
            self._locals_changed |= self.guests.release(lease, now_ms)

    # What to do about it

    def serve_locals(self, now_ms: int) -> None:
        """Start the local requests that can start, and let guests give way to them.

        Local plans are looked at only at instants of the site's own events: guests cannot even change
        when that is.
        """
        if self._locals_changed or self.locals.is_due(now_ms):
            self._locals_changed = False
            self._plan_locals(now_ms)
        elif self.guests is not None and self.guests.appointed(now_ms):
            give_way(self.guests, [], now_ms)

    def _plan_locals(self, now_ms: int) -> None:
        if self._arrivals and not self.settings.queues_locals:
            self._turn_away_who_would_wait(now_ms)
        begun = self._follow_native_queue(now_ms)
        started = [*begun, *self.locals.step(now_ms)]
        helped = give_way(self.guests, started, now_ms) if self.guests is not None else ()
        for lease, reason in started:
            self.allocations.start(lease, now_ms)
            why = Reason.ROOM_MADE if lease.id in helped else reason
            self.allocations.decide(lease, Outcome.START, why, HOME_FIRST)
        if self._arrivals:
            arrivals, self._arrivals = self._arrivals, []
            self.allocations.tell_who_waits(arrivals, self.home, HOME_FIRST, now_ms)

    def _follow_native_queue(self, now_ms: int) -> Started:
        seen, self._native_queue = self._native_queue, None
        if seen is None:
            return []
        self.home.trim(now_ms)
        return follow(self, seen, now_ms)

    def _turn_away_who_would_wait(self, now_ms: int) -> None:
        """The reading of JPDC 2012: a local request that cannot start at its time is refused."""
        arrivals, self._arrivals = self._arrivals, []
        self.home.trim(now_ms)
        for lease in arrivals:
            if self.locals.others.pop(lease.id, None) is None:
                continue  # its user has taken it back within the same instant
            start_ms = self.locals.earliest(lease, now_ms)
            if start_ms > max(now_ms, lease.earliest_ms):
                self.allocations.refuse(lease, Reason.LOCAL_QUEUE_CLOSED, "local-queue")
            else:
                self.locals.reserve(lease, start_ms)

    def next_wake_ms(self) -> int | None:
        """When the next reservation at this site is due."""
        local_ms = self.locals.next_pass_ms()
        if self.guests is None:
            return local_ms
        guest_ms = self.guests.next_pass_ms()
        if local_ms is None or guest_ms is None:
            return guest_ms if local_ms is None else local_ms
        return min(local_ms, guest_ms)
