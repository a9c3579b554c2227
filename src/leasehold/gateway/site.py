"""One site (the papers' local resource manager): its own users first, guests in what is left.

The rule that keeps the promise is structural. The site's own users are planned on the ``home`` profile, in which
preemptable guests do not exist, so nothing that such a guest does can change when a local request starts. Guests are
planned on the ``full`` profile, which has everything; when a local request starts and the ``full`` profile goes below
zero, guests give way (`leasehold.gateway.preemption`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from leasehold.gateway.allocations import Allocations
from leasehold.gateway.guests import Guests, why_never
from leasehold.gateway.preemption import REPAIR, give_way, replan_guests
from leasehold.gateway.quotas import QuotaEnforcer
from leasehold.gateway.settings import Queue, SiteSettings, queue_over
from leasehold.gateway.state import InstantChanges
from leasehold.leasing.backfill import Started, replan_all
from leasehold.leasing.vectors import VectorBackfiller
from leasehold.model.effect import StopLease, WithdrawLease
from leasehold.model.event import NativeQueueSeen, Outage
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType
from leasehold.model.resources import nodes_of

HOME_FIRST, WIDTH, LOCAL_QUEUE = "home-first", "width", "local-queue"
"""The rules by which local requests start or wait, and are refused: for their width, or where none may wait."""
NATIVE_SCHEDULER = "own-scheduler"
STARTS = "starts"
"""The rule by which others are planned again because machines were late."""


class Site:
    """The state machine of one cluster.

    `submit`, `end`, `cancel` and the like note what happened; `serve_locals` decides, and the guests' side in
    `Guests.serve`, which the gateway calls once all events of an instant are known.
    """

    def __init__(
        self,
        settings: SiteSettings,
        changes: InstantChanges,
        quotas: QuotaEnforcer,
        suspended: dict[int, Lease] | None = None,
    ) -> None:
        """Begin empty. A site pays for the ability to lend only from its first guest on."""
        self.settings = settings
        self.name = settings.name
        self.allocations = Allocations(settings, changes, quotas, suspended)
        self.home = settings.plan()
        self.locals = queue_over(self.home, settings.local_depth, changes.moved)
        self.guests: Guests | None = None
        self.wake_ms: int | None = None
        self._changes = changes
        self._arrivals: list[Lease] = []
        self._locals_changed = False
        self._native_queue: NativeQueueSeen | None = None

    @property
    def free_vms(self) -> int:
        """The number of VMs that are up and that no lease holds."""
        allocations = self.allocations
        return self.settings.slots - allocations.down_vms - allocations.local_vms - allocations.guest_vms

    def open_to_guests(self, now_ms: int) -> Guests:
        """Return the guests' side of this site, made when the first guest comes."""
        if self.guests is None:
            self.home.trim(now_ms)
            self.guests = Guests(self.allocations, self.locals, self.home.copy())
        return self.guests

    # What happened

    def submit(self, lease: Lease) -> None:
        """Accept a local request."""
        allocations = self.allocations
        lease.site = self.name
        if self.locals.is_wider_than_site(lease):
            allocations.refuse(lease, why_never(self.settings, lease.request), WIDTH)
            return
        lease.overhead_ms = allocations.start_ms()
        lease.span_ms = lease.overhead_ms + allocations.wall_ms(lease.work_left)
        lease.earliest_ms = lease.request.ready_ms
        advance(lease, Step.PLAN)
        self.locals.submit(lease)
        self._arrivals.append(lease)
        self._locals_changed = True

    def end(self, lease: Lease, now_ms: int, *, killed: bool) -> None:
        """A lease ended by itself or at its requested time; ``work_left`` of it is what it did not need."""
        done = lease.ran_ms(now_ms) * self.settings.speed_mips
        self._free(lease, now_ms)
        lease.work_left = max(0, lease.work_left - done)
        if killed:
            self.allocations.close(lease, Step.KILL, Reason.WALLTIME_REACHED)
        else:
            self.allocations.close(lease, Step.COMPLETE, Reason.COMPLETED)

    def finish(self, lease: Lease, now_ms: int) -> None:
        """The work of a guest was done when it was to give way: there is nothing to resume."""
        self._take_out(lease, now_ms)
        self.allocations.close(lease, Step.COMPLETE, Reason.COMPLETED)

    def cancel(self, lease: Lease, now_ms: int, why: Reason = Reason.CANCELLED_BY_USER) -> None:
        """End a lease, wherever it is in its life: its user cancels it, or the gateway does and says why."""
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
        """Record that a lease has machines since ``since_ms``; its work continues, not before ``not_before_ms``.

        Where starts are confirmed its time counts from then: its end moves to where it has all of it.
        """
        advance(lease, Step.BEGIN if lease.state is LeaseState.STARTING else Step.CONTINUE)
        if self.settings.confirms_starts:
            self._count_from(lease, since_ms, max(since_ms, not_before_ms), now_ms)
            self.allocations.seen(lease, since_ms, now_ms)

    def withdraw(self, lease: Lease, now_ms: int) -> None:
        """Release a guest that was ordered to start and was never seen to, or whose machines are lost."""
        if lease.id in self.allocations.held:
            self._free(lease, now_ms)
        elif self.guests is not None:
            self._locals_changed |= self.guests.withdraw(lease, now_ms)
        self._changes.effects.append(WithdrawLease(lease, self.name, lease.incarnation))

    def see_native_queue(self, seen: NativeQueueSeen) -> None:
        """The site's own scheduler has decided about its native jobs."""
        self._native_queue = seen
        self._locals_changed = True

    def book_outages(self, outages: tuple[Outage, ...], now_ms: int) -> None:
        """These VMs cannot be used until they are expected back; of those that are back, the room is given back."""
        allocations = self.allocations
        before, after = Counter(allocations.outages), Counter(outages)
        for profile in self.locals.books:
            profile.trim(now_ms)
        for outage in (before - after).elements():
            self.locals.end_outage(outage.vms, outage.node, now_ms, outage.until_ms)
        for outage in (after - before).elements():
            self.locals.book_outage(outage.vms, outage.node, now_ms, outage.until_ms)
        allocations.outages = outages
        allocations.down_vms = sum(outage.vms for outage in outages)
        self._locals_changed = True

    def _take_out(self, lease: Lease, now_ms: int) -> None:
        """Free what a lease holds or has reserved, wherever it is in its life."""
        if lease.id in self.allocations.held:
            self._free(lease, now_ms)
            self._changes.effects.append(StopLease(lease))
        elif lease.request.is_local:
            self.locals.withdraw(lease, now_ms)
            self._locals_changed = True
        elif self.guests is not None:
            self._locals_changed |= self.guests.withdraw(lease, now_ms)

    def _free(self, lease: Lease, now_ms: int) -> None:
        """Free the VMs that a lease holds."""
        self.allocations.leave(lease, now_ms)
        if lease.request.site is not None:
            self.locals.release(lease, now_ms)
            self._locals_changed = True
        elif self.guests is not None:
            self._locals_changed |= self.guests.release(lease, now_ms)

    # What to do about it

    def serve_locals(self, now_ms: int) -> None:
        """Start the local requests that can start, and let guests give way to them.

        Local plans are looked at only at instants of the site's own events: guests cannot even change when that is.
        """
        if self._locals_changed or self.locals.is_due(now_ms):
            self._locals_changed = False
            self._plan_locals(now_ms)
        elif self.guests is not None and self.guests.due_reservations(now_ms):
            give_way(self.guests, [], now_ms)

    def _plan_locals(self, now_ms: int) -> None:
        if self._arrivals and not self.settings.queues_locals:
            self._refuse_those_that_would_wait(now_ms)
        if self._native_queue is None:
            started = self.locals.step(now_ms)
        else:
            started = [*self._follow_native_queue(now_ms), *self.locals.step(now_ms)]
        helped = give_way(self.guests, started, now_ms) if self.guests is not None else ()
        for lease, reason in started:
            self.allocations.start(lease, now_ms)
            why = Reason.ROOM_MADE if lease.id in helped else reason
            self.allocations.decide(lease, Outcome.START, why, HOME_FIRST)
        if self._arrivals:
            arrivals, self._arrivals = self._arrivals, []
            self.allocations.explain_waits(arrivals, self.locals, HOME_FIRST, now_ms)

    def _refuse_those_that_would_wait(self, now_ms: int) -> None:
        """The reading of JPDC 2012: a local request that cannot start at its time is refused."""
        arrivals, self._arrivals = self._arrivals, []
        self.home.trim(now_ms)
        for lease in arrivals:
            if lease not in self.locals:
                continue  # cancelled within the same instant
            self.locals.withdraw(lease, now_ms)
            start_ms = self.locals.earliest(lease, now_ms)
            if start_ms > max(now_ms, lease.earliest_ms):
                self.allocations.refuse(lease, Reason.LOCAL_QUEUE_CLOSED, LOCAL_QUEUE)
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

    # Native jobs: the site's own users ask another scheduler
    #
    # Each native job is a local request here, so guests make room for it as for any other, before it starts. But when
    # it starts, and which of several comes first, is the other scheduler's to decide. Where it started one that was
    # to wait here, those for which room was only made go back to the queue, in the order of that scheduler, and the
    # started one takes its place. What does not fit the plans yet is followed at the next look: the other scheduler
    # gives no room away twice, so this harms no job meanwhile.

    def _follow_native_queue(self, now_ms: int) -> Started:
        """Plan the native jobs as their scheduler has decided; returns those that it has started by itself."""
        seen, self._native_queue = self._native_queue, None
        if seen is None:
            return []
        self.home.trim(now_ms)
        self._follow_to_their_nodes(seen, now_ms)
        waiting = {lease.id: lease for lease in self.locals.waiting()}
        begun = [waiting[lease_id] for lease_id in seen.running if lease_id in waiting]
        if not begun:
            return []
        promised_ms = {lease.id: lease.reserved_ms for lease in waiting.values() if lease.reserved_ms >= 0}
        for lease in waiting.values():
            self.locals.withdraw(lease, now_ms)
        for lease_id in seen.waiting:
            if lease_id in self.allocations.held:
                waiting[lease_id] = self._hold_back(self.allocations.held[lease_id], now_ms)
        started = [
            (lease, Reason.STARTED_BY_NATIVE_SCHEDULER) for lease in begun if self._book_now(lease, seen, now_ms)
        ]
        for lease, _ in started:
            del waiting[lease.id]
        self._queue_again(seen.waiting, waiting, promised_ms)
        return started

    def _hold_back(self, lease: Lease, now_ms: int) -> Lease:
        """Room was made for it, and its scheduler gave that to another: it has not begun."""
        self.allocations.hold_back(lease, now_ms)
        self.locals.release(lease, now_ms)
        lease.first_start_ms = UNPLANNED
        self.allocations.decide(lease, Outcome.WAIT, Reason.NATIVE_JOB_STARTED_FIRST, NATIVE_SCHEDULER)
        return lease

    def _follow_to_their_nodes(self, seen: NativeQueueSeen, now_ms: int) -> None:
        """Book native jobs for which room was made on some nodes, and that were started on others, where they are."""
        if not isinstance(self.locals, VectorBackfiller):
            return
        for lease_id, nodes in seen.nodes.items():
            lease = self.allocations.held.get(lease_id)
            if lease is not None and nodes_of(lease.placed) != nodes:
                self.locals.move_to(lease, nodes, now_ms)

    def _book_now(self, lease: Lease, seen: NativeQueueSeen, now_ms: int) -> bool:
        """Book a lease from now on, if it fits beside what is held and what was promised to Non-preemptable guests.

        At a site of nodes it is booked where it runs; if that is not known, or taken by the plan, on any nodes.
        """
        nodes = seen.nodes.get(lease.id, ())
        if nodes and isinstance(self.locals, VectorBackfiller) and self.locals.book_at(now_ms, lease, nodes):
            return True
        if not self.locals.fits(lease, now_ms, now_ms + lease.span_ms):
            return False
        self.locals.book(now_ms, lease)
        return True

    def _queue_again(
        self, in_order: Iterable[int], waiting: Mapping[int, Lease], promised_ms: Mapping[int, int]
    ) -> None:
        """Queue the others in the other scheduler's order; those that it does not know come last."""
        first = [waiting[lease_id] for lease_id in in_order if lease_id in waiting]
        known = {lease.id for lease in first}
        for lease in [*first, *(lease for lease in waiting.values() if lease.id not in known)]:
            self.locals.submit(lease)
            if lease.id in promised_ms:
                self.allocations.decide(lease, Outcome.MOVE, Reason.NATIVE_JOB_STARTED_FIRST, NATIVE_SCHEDULER)

    # When a lease ends: extensions, and machines that start late
    #
    # A lease may last longer than it asked for only while it holds machines, only into room that nothing which comes
    # before it has booked, and never past a deadline or an owner's cap. A local lease goes before preemptable guests
    # here as everywhere: guests that wait are planned again at once. Those that run share the site with it already,
    # and give way only when a lease starts for which there is no room beside both.
    #
    # Where starts are confirmed, the time of a lease counts from when its machines were seen. Until then its room is
    # booked as if they came when they usually do, and once that is over, as if they came now. So its end moves:
    # earlier, which gives room back; or later, and then whatever waits for that room is planned again. Two things do
    # not give way to that: bookings at home limit a Non-preemptable guest, whose time is then cut short, since no
    # machine that is slow to start may delay the site's own users; and Non-preemptable guests that were promised their
    # start limit everything else at home. Only where the machines of a local lease have not been seen by the time at
    # which they should be free again do even those wait for them: its command may have begun, and taking the lease
    # back to start it once more could run it twice.

    def extend(self, lease: Lease, more_work: int, now_ms: int) -> Reason | None:
        """Let a lease do ``more_work`` (work units) than it asked for, or say why not."""
        refusal = self._why_not_longer(lease, more_work)
        if refusal is not None:
            return refusal
        end_ms = lease.end_ms
        lease.span_ms = self._span_ms(lease, more_work)
        self._booked_in(lease).lengthen(lease, end_ms, lease.end_ms)
        lease.work_left += more_work
        self.home.trim(now_ms)
        if lease.request.is_local and self.guests is not None:
            replan_guests(self.guests, Reason.LOCAL_PLAN_CHANGED, REPAIR, now_ms)
        return None

    def _why_not_longer(self, lease: Lease, more_work: int) -> Reason | None:
        if lease.held_since_ms < 0:
            return Reason.NOT_RUNNING
        span_ms = self._span_ms(lease, more_work)
        end_ms, longer_ms = lease.end_ms, lease.reserved_ms + span_ms
        deadline_ms = lease.request.deadline_ms
        if deadline_ms is not None and longer_ms > deadline_ms:
            return Reason.DEADLINE_TOO_TIGHT
        refusal = self._why_beyond_caps(span_ms) if _is_lent_without_preemption(lease) else None
        if refusal is not None:
            return refusal
        fits = all(plan.fits_longer(lease, end_ms, longer_ms) for plan in self._plans_before(lease))
        return None if fits else Reason.ROOM_IN_USE

    def _why_beyond_caps(self, span_ms: int) -> Reason | None:
        """Whether a Non-preemptable guest of this span is more than the owner allows now.

        The owner may have lowered the caps while it was running: what it was promised it keeps, and no more.
        """
        settings, guests = self.settings, self.guests
        if settings.non_preemptable_share_vms == 0:
            return Reason.NON_PREEMPTABLE_NOT_ALLOWED
        if settings.non_preemptable_max_ms is not None and span_ms > settings.non_preemptable_max_ms:
            return Reason.NON_PREEMPTABLE_TOO_LONG
        share_vms = settings.non_preemptable_share_vms
        if guests is not None and share_vms is not None and guests.non_preemptable_vms > share_vms:
            return Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED
        return None

    def _count_from(self, lease: Lease, since_ms: int, works_from_ms: int, now_ms: int) -> None:
        """The machines of a lease are there since ``since_ms``: count its time from ``works_from_ms`` on.

        Where that is over by now, it counts from so late that it is over in the next instant: its room is its own
        until then. Were it given away in this one, two leases would hold it.
        """
        wall_ms = self.allocations.wall_ms(lease.work_left)
        works_from_ms = max(works_from_ms, now_ms + 1 - wall_ms)
        end_ms = self._move_end(lease, works_from_ms + wall_ms, now_ms)
        lease.reserved_ms = lease.held_since_ms = since_ms
        lease.overhead_ms = works_from_ms - since_ms
        lease.span_ms = end_ms - since_ms

    def keep_room(self, lease: Lease, now_ms: int) -> bool:
        """Its planned time is over and its machines were not seen: book its room as if they came now.

        False if there is no room for it any more. There always is for a local lease: what is held at a site fits it,
        and what is not held yet can wait.
        """
        wall_ms = max(1, self.allocations.wall_ms(lease.work_left))
        guests = self.guests if lease.request.is_local else None
        promised = [] if guests is None else guests.call_off_reservations(now_ms)
        end_ms = self._move_end(lease, now_ms + wall_ms, now_ms)
        for promised_ms, guest in promised:
            assert guests is not None
            start_ms = self.locals.earliest_from(guest, max(promised_ms, now_ms), guest.span_ms)
            guests.appoint(guest, start_ms)
            if start_ms != promised_ms:
                self.allocations.decide(guest, Outcome.MOVE, Reason.DELAYED_BY_SLOW_START, STARTS, start_ms)
        if guests is not None and promised:
            replan_guests(guests, Reason.DELAYED_BY_SLOW_START, STARTS, now_ms)
        lease.overhead_ms = now_ms - lease.held_since_ms
        lease.span_ms = end_ms - lease.reserved_ms
        return end_ms > now_ms

    def _move_end(self, lease: Lease, end_ms: int, now_ms: int) -> int:
        """Book, or give back, what lies between the end of a lease and another; returns which end it gets."""
        queue = self._booked_in(lease)
        for profile in queue.books:
            profile.trim(now_ms)
        queue.shorten(lease, max(now_ms, end_ms), lease.end_ms)
        queue.lengthen(lease, lease.end_ms, end_ms)
        if end_ms <= lease.end_ms:
            return end_ms
        if lease.request.is_local:
            self._replan_locals(now_ms)
        if lease.request.lease_type is LeaseType.NON_PREEMPTABLE:
            free_until_ms = self.locals.overbooked_from(lease, lease.end_ms, end_ms)
            queue.shorten(lease, free_until_ms, end_ms)
            end_ms = free_until_ms
        if self.guests is not None:
            replan_guests(self.guests, Reason.DELAYED_BY_SLOW_START, STARTS, now_ms)
        return end_ms

    def _replan_locals(self, now_ms: int) -> None:
        """Move reservations of waiting local leases out of the way of one whose machines were late.

        All of them, in order of arrival: were only those planned again that are in the way, one that has to wait a
        moment longer might find its room booked by those that came after it, and start when these have ended.
        """
        if not self.home.is_overbooked():
            return
        for lease in replan_all(self.locals, now_ms):
            self.allocations.decide(lease, Outcome.MOVE, Reason.DELAYED_BY_SLOW_START, STARTS, lease.reserved_ms)
        self._locals_changed = True

    def _span_ms(self, lease: Lease, more_work: int) -> int:
        return lease.overhead_ms + self.allocations.wall_ms(lease.work_left + more_work)

    def _plans_before(self, lease: Lease) -> Iterable[Queue]:
        """Those over the plans in which everything is booked that comes before this lease."""
        if lease.request.is_local or self.guests is None:
            return (self.locals,)
        return (self.locals, self.guests.queue) if _is_lent_without_preemption(lease) else (self.guests.queue,)

    def _booked_in(self, lease: Lease) -> Queue:
        """The side in whose plans this lease itself is booked."""
        if lease.request.lease_type is LeaseType.NON_PREEMPTABLE:
            return self.locals
        assert self.guests is not None
        return self.guests.queue


def with_longer_request(lease: Lease, duration_ms: int) -> None:
    """Let the request say what it now asks for; requests themselves never change."""
    lease.request = replace(lease.request, duration_ms=duration_ms)


def _is_lent_without_preemption(lease: Lease) -> bool:
    return lease.request.lease_type is LeaseType.NON_PREEMPTABLE and not lease.request.is_local
