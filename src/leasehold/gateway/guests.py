"""The guests' side of a site: outside leases in the room that its own users leave.

Every outside lease at the site is in one of five places: in the backfiller's queue (it waits, or waits to be
resumed), among the reservations (Non-preemptable, promised for a later ready time), among the allocations (it holds
VMs), in the pool of ``suspended`` guests (until the routing policy resumes it), or among the ``displaced`` (a
Migratable lease that has lost its place, until `leasehold.gateway.relocation` finds it another within the same
instant). How guests lose their place is in `leasehold.gateway.preemption`.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain

from leasehold.gateway.allocations import Allocations
from leasehold.gateway.quotas import AGREEMENT, retry_ms
from leasehold.gateway.settings import Plan, Queue, SiteSettings, queue_over
from leasehold.model.agreement import Breach
from leasehold.model.effect import MigrateLease, ResumeLease, SuspendLease
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import GPU_MILLI, LeaseType, Request
from leasehold.model.resources import MachineShape, NodeResources, room_for

NON_PREEMPTABLE = LeaseType.NON_PREEMPTABLE
GUESTS_IN_FREE_ROOM = "guests-in-free-room"
DEFERRED_RESUME = "parking"
RETRY_MS = 60_000
"""When agreements are asked again that cannot say when there will be room."""


class Guests:
    """Admission, start, suspension and resumption of outside leases at one site."""

    def __init__(self, allocations: Allocations, local_side: Queue, full: Plan) -> None:
        """Begin without guests; ``full`` is a copy of the current home profile."""
        self.allocations = allocations
        self.full = full
        self.queue = queue_over(full, allocations.settings.guest_depth, local_side.moved)
        self.non_preemptable_vms = 0
        self._home = local_side
        self._home.books.append(full)  # type: ignore[arg-type]  # of the same kind
        self._reservations: list[tuple[int, int, Lease]] = []
        self._arrivals: list[Lease] = []
        self._unreachable: dict[int, Lease] = {}
        self.leaving: dict[int, Lease] = {}
        """Guests that are handed back to their gateway once their memory is saved."""

    # Admission

    def admit(self, lease: Lease, now_ms: int, idle_ms: int | None = None) -> Reason | None:
        """Accept an outside lease, or say why not.

        Best effort is queued; the deadline-constrained types must get their ready time (JPDC 2012,
        section 2.1), and what they are promised then is booked at once. A component of a co-allocation holds
        its machines for ``idle_ms`` before its work begins; for others it is planned that they take to start
        as long as is usual here.
        """
        lease.overhead_ms = self.allocations.arrival_ms(lease) if idle_ms is None else idle_ms
        lease.span_ms = lease.overhead_ms + self.allocations.wall_ms(lease.work_left)
        lease.earliest_ms = max(now_ms, lease.request.ready_ms)
        if self.queue.is_wider_than_site(lease):
            return self.why_never(lease)
        if lease.request.lease_type.is_best_effort:
            self._accept(lease)
            self.queue.submit(lease)
            return None
        refusal = self._why_not_at_ready_time(lease)
        if refusal is None:
            self._accept(lease)
            self._promise(lease)
        return refusal

    def why_never(self, lease: Lease) -> Reason:
        """Say of a lease for which the empty site has no room why that is."""
        return why_never(self.allocations.settings, lease.request)

    def earliest_ms(self, lease: Lease, now_ms: int) -> int:
        """When a request from elsewhere could start by the present plan."""
        return self.queue.earliest_from(lease, max(now_ms, lease.request.ready_ms), self.span_ms(lease))

    def latest_ms(self, lease: Lease) -> int | None:
        """When a request from elsewhere would have to start at the latest; None without a deadline."""
        deadline_ms = lease.request.deadline_ms
        return None if deadline_ms is None else deadline_ms - self.span_ms(lease)

    def span_ms(self, lease: Lease) -> int:
        """How long a request from elsewhere would have its VMs here: until they run, and then its work."""
        return self.allocations.arrival_ms(lease) + self.allocations.wall_ms(lease.work_left)

    def has_room_now(self, lease: Lease, now_ms: int) -> bool:
        """Whether a request would start at once, beside those that came in this instant."""
        if (self.queue.depth == 0 and len(self.queue)) or self.queue.is_wider_than_site(lease):
            return False
        return self.queue.fits_beside(lease, self._arrivals, now_ms, now_ms + self.span_ms(lease))

    def admit_later(self, lease: Lease, now_ms: int) -> Reason | None:
        """Accept a guest that cannot start at its ready time and waits for a later one, or say why not.

        With a deadline, or if it is Non-preemptable, it is promised the earliest start that there is now.
        """
        start_ms, latest_ms = self.earliest_ms(lease, now_ms), self.latest_ms(lease)
        if latest_ms is not None and start_ms > latest_ms:
            return Reason.NO_ROOM_AT_READY_TIME
        lease.span_ms, lease.overhead_ms = self.span_ms(lease), self.allocations.arrival_ms(lease)
        lease.earliest_ms = max(now_ms, lease.request.ready_ms)
        if lease.request.lease_type is NON_PREEMPTABLE:
            refusal = self._why_not_non_preemptable(lease)
            if refusal is not None:
                return refusal
            self._accept(lease)
            self.non_preemptable_vms += self.allocations.settings.slots_of(lease)
            self.appoint(lease, start_ms)
            return None
        self._accept(lease)
        lease.latest_ms = latest_ms
        if latest_ms is None:
            self.queue.submit(lease)
        else:
            self.queue.reserve(lease, start_ms)
        return None

    def never_started(self) -> Iterator[Lease]:
        """Iterate over guests that wait here for room, have never held any, and were promised no time."""
        for lease in chain(self.queue.reserved(), self.queue.others()):
            if lease.state is LeaseState.WAITING and lease.latest_ms is None:
                yield lease

    def remove(self, lease: Lease, now_ms: int) -> None:
        """Release one of those to another site."""
        self.queue.withdraw(lease, now_ms)
        self._arrivals = [one for one in self._arrivals if one is not lease]

    def _accept(self, lease: Lease) -> None:
        lease.site = self.allocations.name
        advance(lease, Step.PLAN)
        self._arrivals.append(lease)

    def _why_not_at_ready_time(self, lease: Lease) -> Reason | None:
        if not meets_deadline(lease, lease.earliest_ms):
            return Reason.DEADLINE_TOO_TIGHT
        if lease.request.lease_type is NON_PREEMPTABLE:
            refusal = self._why_not_non_preemptable(lease)
            if refusal is not None:
                return refusal
        start_ms = lease.earliest_ms
        has_room = self.queue.fits(lease, start_ms, start_ms + lease.span_ms)
        return None if has_room else Reason.NO_ROOM_AT_READY_TIME

    def _why_not_non_preemptable(self, lease: Lease) -> Reason | None:
        """The owner's caps on guests that cannot be preempted: they are what may delay local users."""
        settings = self.allocations.settings
        longest_ms, share_vms = settings.non_preemptable_max_ms, settings.non_preemptable_share_vms
        if share_vms == 0:
            return Reason.NON_PREEMPTABLE_NOT_ALLOWED
        if longest_ms is not None and lease.span_ms - min(lease.overhead_ms, self.allocations.start_ms()) > longest_ms:
            return Reason.NON_PREEMPTABLE_TOO_LONG
        asked_vms = self.allocations.settings.slots_of(lease)
        if share_vms is not None and asked_vms > share_vms:
            return Reason.WIDER_THAN_NON_PREEMPTABLE_SHARE
        if share_vms is not None and self.non_preemptable_vms + asked_vms > share_vms:
            return Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED
        return None

    def _promise(self, lease: Lease) -> None:
        start_ms = lease.earliest_ms
        if lease.request.lease_type is NON_PREEMPTABLE:
            self.non_preemptable_vms += self.allocations.settings.slots_of(lease)
            self.appoint(lease, start_ms)
        else:
            lease.latest_ms = start_ms
            self.queue.reserve(lease, start_ms)

    def appoint(self, lease: Lease, start_ms: int) -> None:
        """Book a Non-preemptable guest in the home profile too."""
        self._home.book(start_ms, lease)
        heappush(self._reservations, (start_ms, lease.order, lease))

    def call_off_reservations(self, now_ms: int) -> list[tuple[int, Lease]]:
        """Give back what Non-preemptable guests that have not started were promised; returns when, and which."""
        waiting = [
            (start_ms, lease) for start_ms, _, lease in sorted(self._reservations) if lease.state is LeaseState.WAITING
        ]
        self._reservations.clear()
        for _, lease in waiting:
            self._home.release(lease, now_ms)
        return waiting

    def call_off(self, lease: Lease, now_ms: int) -> bool:
        """Give back what one of them was promised; True as for `release`."""
        self._reservations = [entry for entry in self._reservations if entry[2] is not lease]
        heapify(self._reservations)
        self._arrivals = [one for one in self._arrivals if one is not lease]
        return self.release(lease, now_ms)

    def release(self, lease: Lease, now_ms: int) -> bool:
        """Give back the booking of a guest; True if local plans have more room by it."""
        if lease.request.lease_type is NON_PREEMPTABLE:
            self.non_preemptable_vms -= self.allocations.settings.slots_of(lease)
            self._home.release(lease, now_ms)
            return True
        self.queue.release(lease, now_ms)
        return False

    def withdraw(self, lease: Lease, now_ms: int) -> bool:
        """Remove a guest that holds no VMs; True if local plans have more room by it."""
        if lease.request.lease_type is NON_PREEMPTABLE:
            return self.release(lease, now_ms)
        if self.leaving.pop(lease.id, None) is None and not self._leave_pool(lease):
            self.queue.withdraw(lease, now_ms)
        return False

    def take_up(self, waiting: list[Lease]) -> None:
        """Go on from a record: these wait here; the allocations and both profiles are as they were."""
        here = [*waiting, *self.allocations.held.values()]
        lent = [lease for lease in here if _is_lent_without_preemption(lease)]
        self.non_preemptable_vms = sum(self.allocations.settings.slots_of(lease) for lease in lent)
        for lease in lent:
            if lease.state is LeaseState.WAITING:
                heappush(self._reservations, (lease.reserved_ms, lease.order, lease))
        others = [lease for lease in waiting if not _is_lent_without_preemption(lease)]
        if self.allocations.suspended is not None:
            self.allocations.suspended |= {lease.id: lease for lease in others if _is_saved_without_a_plan(lease)}
        self.leaving = {lease.id: lease for lease in others if _is_leaving(lease) and not self._is_pooled(lease)}
        self.queue.take_up(one for one in others if one.id not in self.leaving and not self._is_pooled(one))

    # Starting, suspending, resuming

    def serve(self, now_ms: int) -> None:
        """Start and resume every guest that can."""
        if self._reservations:
            for lease in self.due_reservations(now_ms):
                self._begin(lease, Reason.RESERVED_START, now_ms)
            while self._reservations and self._reservations[0][0] <= now_ms:
                heappop(self._reservations)
        for lease, reason in self.queue.step(now_ms):
            self._begin(lease, reason, now_ms)
        if self._arrivals:
            arrivals, self._arrivals = self._arrivals, []
            self.allocations.explain_waits(arrivals, self.queue, GUESTS_IN_FREE_ROOM, now_ms)

    def _begin(self, lease: Lease, reason: Reason, now_ms: int) -> None:
        if lease.state is LeaseState.SUSPENDING:
            # Saving took longer than planned: it is planned again, at the latest when its memory is saved.
            self.queue.release(lease, now_ms)
            self.queue.submit(lease)
            if reason is Reason.RESERVED_START:
                self.allocations.decide(lease, Outcome.WAIT, Reason.STILL_SUSPENDING, GUESTS_IN_FREE_ROOM)
            return
        resumed = lease.state is LeaseState.SUSPENDED
        if resumed and (self._waits_for_its_site(lease, now_ms) or self._is_over_quota(lease, now_ms)):
            self.queue.release(lease, now_ms)
            self.queue.submit(lease)
            return
        if lease.dispatched_ms == now_ms:
            reason = Reason.ROOM_FREE
        if resumed:
            self._resume(lease, reason, GUESTS_IN_FREE_ROOM, now_ms)
            return
        if lease.memory_at:
            self._receive(lease, reason, now_ms)
            return
        self.allocations.start(lease, now_ms)
        self.allocations.decide(lease, Outcome.START, reason, GUESTS_IN_FREE_ROOM)

    def _resume(self, lease: Lease, reason: Reason, rule: str, now_ms: int) -> None:
        advance(lease, Step.RESUME)
        self.allocations.enter(lease, now_ms)
        self.allocations.changes.effects.append(ResumeLease(lease, lease.overhead_ms))
        self.allocations.decide(lease, Outcome.START, reason, rule)

    def _receive(self, lease: Lease, reason: Reason, now_ms: int) -> None:
        """Continue a guest from memory that was saved at another manager's site."""
        source, lease.memory_at = lease.memory_at, ""
        lease.migrations += 1
        lease.overhead_vm_ms += lease.overhead_ms * lease.vms
        advance(lease, Step.MIGRATE)
        self.allocations.enter(lease, now_ms)
        self.allocations.changes.effects.append(MigrateLease(lease, source, lease.overhead_ms))
        self.allocations.decide(lease, Outcome.MOVE, reason, GUESTS_IN_FREE_ROOM)

    def _waits_for_its_site(self, lease: Lease, now_ms: int) -> bool:
        """Leave a guest suspended whose site is unreachable; recorded once, and retried later."""
        if not self.allocations.is_silent:
            return False
        lease.earliest_ms = now_ms + RETRY_MS
        if lease.id not in self._unreachable:
            self._unreachable[lease.id] = lease
            self.allocations.decide(lease, Outcome.WAIT, Reason.SITE_UNREACHABLE, GUESTS_IN_FREE_ROOM)
        return True

    def site_answers(self, now_ms: int) -> None:
        """The machines answer again: guests that waited for that are planned now."""
        waiting, self._unreachable = self._unreachable, {}
        for lease in waiting.values():
            if lease.state is LeaseState.SUSPENDED and lease in self.queue and lease.reserved_ms < 0:
                self.queue.withdraw(lease, now_ms)
                lease.earliest_ms = now_ms
                self.queue.submit(lease)

    def _is_over_quota(self, lease: Lease, now_ms: int) -> bool:
        """Leave a guest suspended that its quota does not let resume, unless it was promised a deadline."""
        if not lease.request.lease_type.is_best_effort:
            return False
        speed_mips = self.allocations.settings.speed_mips
        breach = self.allocations.quotas.why_not_on(lease, 0, speed_mips, now_ms)
        if breach is not None:
            self._defer(lease, breach, now_ms)
        return breach is not None

    def _defer(self, lease: Lease, breach: Breach, now_ms: int) -> None:
        lease.earliest_ms = max(retry_ms(breach, now_ms + RETRY_MS), now_ms + 1)
        self.allocations.defer(lease, breach, AGREEMENT)

    def due_reservations(self, now_ms: int) -> list[Lease]:
        """Return the Non-preemptable guests whose promised time has come."""
        if not self._reservations or self._reservations[0][0] > now_ms:
            return []
        due = [lease for start_ms, _, lease in sorted(self._reservations) if start_ms <= now_ms]
        return [lease for lease in due if lease.state is LeaseState.WAITING]

    def drain(self, now_ms: int) -> list[Lease]:
        """Remove, and return, guests that wait here, have never started and were promised nothing."""
        leaving = [
            lease
            for lease in self.queue.waiting()
            if lease.state is LeaseState.WAITING and lease.request.lease_type.is_best_effort
        ]
        for lease in leaving:
            self.queue.withdraw(lease, now_ms)
        return leaving

    def waiting(self) -> list[Lease]:
        """List every guest that is here and holds no VMs."""
        suspended = () if self.allocations.suspended is None else self.allocations.suspended.values()
        return [
            *self.queued(),
            *self.leaving.values(),
            *(lease for lease in suspended if lease.site == self.allocations.name),
        ]

    def queued(self) -> list[Lease]:
        """List those of them that start or resume as soon as there is room."""
        return [*self.queue.waiting(), *self._appointed()]

    def queued_vms(self) -> int:
        """The VMs that they ask for."""
        appointed = self._appointed() if self._reservations else ()
        return self.queue.waiting_vms() + sum([self.allocations.settings.slots_of(lease) for lease in appointed])

    def _appointed(self) -> list[Lease]:
        return [lease for _, _, lease in self._reservations if lease.state is LeaseState.WAITING]

    def next_pass_ms(self) -> int | None:
        """When the next guest's reservation is due."""
        queued_ms = self.queue.next_pass_ms()
        appointed_ms = self._reservations[0][0] if self._reservations else None
        if queued_ms is None or appointed_ms is None:
            return appointed_ms if queued_ms is None else queued_ms
        return min(queued_ms, appointed_ms)

    # Guests that the routing policy resumes

    def wait_suspended(self, lease: Lease) -> None:
        """Let a guest wait that is being suspended: for the policy, or where that does not decide, for room."""
        if self.allocations.suspended is None:
            self.queue.submit(lease)
        else:
            self.defer_resume(lease)

    def defer_resume(self, lease: Lease) -> None:
        """Keep a guest suspended until the routing policy resumes it."""
        self.keep_suspended(lease)
        self.allocations.decide(lease, Outcome.WAIT, Reason.SUSPENDED_UNTIL_QUIET, DEFERRED_RESUME)

    def keep_suspended(self, lease: Lease) -> None:
        """Return a guest to the pool for which no place was found."""
        assert self.allocations.suspended is not None
        self.allocations.suspended[lease.id] = self.queue.moved[lease.id] = lease

    def resume(self, lease: Lease, reason: Reason, rule: str, now_ms: int) -> bool:
        """Resume a guest of the pool at once; False if there is no room, or it is over its quota."""
        if not self.queue.fits(lease, now_ms, now_ms + lease.span_ms):
            return False
        if self._waits_for_its_site(lease, now_ms) or self._is_over_quota(lease, now_ms):
            return False
        self._leave_pool(lease)
        self.queue.book(now_ms, lease)
        self._resume(lease, reason, rule, now_ms)
        return True

    def _is_pooled(self, lease: Lease) -> bool:
        return self.allocations.suspended is not None and lease.id in self.allocations.suspended

    def _leave_pool(self, lease: Lease) -> bool:
        return self.allocations.suspended is not None and self.allocations.suspended.pop(lease.id, None) is not None

    # Saving

    def suspend(self, lease: Lease, now_ms: int) -> None:
        """Save the memory of a guest that has just lost its VMs, to resume here later."""
        save_ms = self.plan_resumption(lease, now_ms)
        lease.overhead_vm_ms += (save_ms + lease.overhead_ms) * lease.vms
        advance(lease, Step.SUSPEND)
        self.allocations.changes.effects.append(SuspendLease(lease, save_ms))

    def leave(self, lease: Lease, now_ms: int) -> None:
        """Hand a guest that lost its place back to the gateway that sent it, once its memory is saved."""
        if lease.state in (LeaseState.WAITING, LeaseState.SUSPENDED):
            self.hand_back(lease)
            return
        if lease.state is not LeaseState.SUSPENDING:
            self.suspend(lease, now_ms)
        lease.reserved_ms = UNPLANNED
        self.leaving[lease.id] = self.queue.moved[lease.id] = lease

    def hand_back(self, lease: Lease) -> None:
        """End a guest here: the gateway that sent it moves it."""
        self.leaving.pop(lease.id, None)
        self.allocations.close(lease, Step.CANCEL, Reason.HANDED_BACK)

    def plan_resumption(self, lease: Lease, now_ms: int) -> int:
        """Set what resuming would take, were the memory saved from now on; returns how long saving takes."""
        overhead = self.allocations.overheads
        save_ms = overhead.suspend_ms(lease.request.memory_mib, lease.vms)
        lease.overhead_ms = overhead.resume_ms(lease.request.memory_mib, lease.vms)
        lease.span_ms = lease.overhead_ms + self.allocations.wall_ms(lease.work_left)
        lease.earliest_ms = now_ms + save_ms
        return save_ms


def why_never(settings: SiteSettings, request: Request) -> Reason:
    """Say of a request for which an empty site has no room why that is: its GPUs, its machines, or their number."""
    if not settings.nodes:
        if request.gpu_milli:
            return Reason.NO_SUCH_GPU
        return Reason.WIDER_THAN_SITE if request.vms > settings.slots else Reason.NO_NODE_FITS
    if room_for(settings.nodes, MachineShape.of(request)):
        return Reason.WIDER_THAN_SITE
    return why_on_no_node(settings.nodes, request)


def why_on_no_node(nodes: Iterable[NodeResources], request: Request) -> Reason:
    """Say why not one machine of a request has room on an empty node: its GPUs, or its size."""
    if not request.gpu_milli:
        return Reason.NO_NODE_FITS
    shares = [node.gpu_shares for node in nodes if node.gpus and request.gpu_model in ("", node.gpu_model)]
    if not shares:
        return Reason.NO_SUCH_GPU
    return Reason.GPUS_LENT_WHOLE if request.gpu_milli < GPU_MILLI and not any(shares) else Reason.NO_NODE_FITS


def _is_lent_without_preemption(lease: Lease) -> bool:
    return lease.request.lease_type is NON_PREEMPTABLE and not lease.request.is_local


def _is_leaving(lease: Lease) -> bool:
    is_unplanned = lease.state is LeaseState.SUSPENDING and lease.reserved_ms < 0
    return is_unplanned and lease.request.goes_back and lease.request.lease_type is LeaseType.MIGRATABLE


def _is_saved_without_a_plan(lease: Lease) -> bool:
    return lease.state in (LeaseState.SUSPENDING, LeaseState.SUSPENDED) and lease.reserved_ms < 0


def meets_deadline(lease: Lease, start_ms: int) -> bool:
    """Whether the lease would end by its deadline if it started then, with its present span."""
    deadline_ms = lease.request.deadline_ms
    return deadline_ms is None or start_ms + lease.span_ms <= deadline_ms
