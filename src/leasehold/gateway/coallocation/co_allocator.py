"""What happens to each co-allocation, from its submission to its end.

Within an instant the gateway calls, in this order: the notes; `handle_losses`, before the sites' own users are served,
so that they get what is given back; `serve`, after them, so that nothing is taken from them; `settle`, once everything
has started that can.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from operator import attrgetter

from leasehold.gateway.coallocation.component_leases import ComponentClaims, ComponentLeases
from leasehold.gateway.coallocation.incremental import IncrementalClaiming, count_idle
from leasehold.gateway.coallocation.placement.registry import placement_policy
from leasehold.gateway.coallocation.planner import Never, NotNow, Planner, TryResult, Unfinished
from leasehold.gateway.coallocation.reservation import ReservationClaiming, is_partly_elsewhere
from leasehold.gateway.guests import RETRY_MS
from leasehold.gateway.quotas import AGREEMENT
from leasehold.gateway.sites import SiteRegistry
from leasehold.gateway.state import InstantChanges
from leasehold.model.coallocation import (
    Claim,
    CoAllocation,
    CoAllocationRequest,
    CoAllocationState,
    Part,
    Promise,
    check_coallocation,
)
from leasehold.model.effect import (
    CoAllocationClosed,
    CoAllocationStarted,
    Decision,
    LeaseClosed,
    StartLease,
    WakeAt,
)
from leasehold.model.errors import UnknownName
from leasehold.model.event import CoAllocationCancelled, CoAllocationSubmitted, SiteReported
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import check_request

AGAIN_MS = 10_000
"""After how long a co-allocation is tried again that has failed once."""

MUCH = 4
"""Where more than this part of a budget was spent, those that wait are left alone for `REST_MS`."""

REST_MS = 1_000

_DONE = frozenset({LeaseState.COMPLETED, LeaseState.KILLED})

_ASKED_AGAIN = frozenset(
    {
        Reason.NO_ROOM_AT_READY_TIME,
        Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED,
        Reason.PROMISE_EXPIRED,
        Reason.SITE_DRAINED,
        Reason.SITE_UNREACHABLE,
    }
)
"""Why sites with managers of their own refuse a component, and may promise it room at another time."""


class _Alarms:
    """When which co-allocation is to be looked at again; each moment is asked for once for each of them."""

    def __init__(self, changes: InstantChanges) -> None:
        """Begin without alarms."""
        self._changes = changes
        self._due: list[tuple[int, int]] = []
        self._known: set[tuple[int, int]] = set()

    def wake(self, coallocation_id: int, at_ms: int) -> None:
        """Look at a co-allocation again at that time."""
        alarm = (at_ms, coallocation_id)
        if alarm not in self._known:
            self._known.add(alarm)
            heappush(self._due, alarm)
            self._changes.effects.append(WakeAt("", at_ms))

    def ring(self, now_ms: int) -> set[int]:
        """Return those whose time has come."""
        rung: set[int] = set()
        while self._due and self._due[0][0] <= now_ms:
            alarm = heappop(self._due)
            self._known.discard(alarm)
            rung.add(alarm[1])
        return rung


class CoAllocator:
    """All open co-allocations of a gateway, by their numbers.

    ``moved``  those that may have changed in this instant

    All that wait are tried in every instant, as long as the budget lasts. Where that takes much of it, they are left
    alone for a while; where it does not last for all, the others have their turn first after that.
    """

    def __init__(
        self,
        registry: SiteRegistry,
        planner: Planner,
        claims: ComponentClaims,
        leases: ComponentLeases,
        changes: InstantChanges,
    ) -> None:
        """Begin empty."""
        self.open: dict[int, CoAllocation] = {}
        self.planner = planner
        self.leases = leases
        self._claims = claims
        self._incremental = IncrementalClaiming(planner, claims, leases)
        self._reservation = ReservationClaiming(planner, claims, leases)
        self._sites = registry.own
        self._remotes = registry.remotes
        self._changes = changes
        self.moved: dict[int, CoAllocation] = {}
        self._dirty: set[int] = set()
        self._may_be_apart = False
        self._postponed: set[int] = set()
        self._first = 0
        self._rests_until_ms = 0
        self._alarms = _Alarms(changes)
        self._parts: dict[int, CoAllocation] = {}
        self._broken: dict[int, Reason] = {}
        self._refused: dict[int, set[tuple[int, str]]] = {}
        """What sites with managers of their own will never promise; forgotten in a restart, and refused once more."""

    # 1. What happened

    def note_submission(self, event: CoAllocationSubmitted, now_ms: int) -> None:
        """A co-allocation came. Raises InvalidField or UnknownName for one that makes no sense."""
        request = event.request
        self.check(request)
        coallocation = CoAllocation(request, [Part(0) for _ in request.components])
        self.open[coallocation.id] = coallocation
        for index in range(len(request.components)):
            self.leases.create(coallocation, index)
        refusal = self.planner.why_never(request)
        if refusal is not None:
            self._refuse(coallocation, Never(refusal), now_ms)
            return
        self._dirty.add(coallocation.id)
        if request.deadline_ms is not None:
            self._alarms.wake(coallocation.id, request.deadline_ms - self.planner.shortest_ms(request) + 1)

    def check(self, request: CoAllocationRequest) -> None:
        """Raise InvalidField or UnknownName for a co-allocation that makes no sense here."""
        check_coallocation(request)
        for index in range(len(request.components)):
            check_request(request.request(index, 0))
        placement_policy(request.place)
        for component in request.components:
            for name in (component.site, *(site for site, _ in component.files)):
                remote = self._remotes.get(name)
                if name and name not in self._sites and (remote is None or not remote.promises):
                    known = [*self._sites, *(one.name for one in self._remotes.values() if one.promises)]
                    raise UnknownName("site", name, known)

    def note_cancel(self, event: CoAllocationCancelled, now_ms: int) -> None:
        """Cancel a co-allocation; one that is over stays as it is."""
        coallocation = self.open.get(event.coallocation_id)
        if coallocation is not None:
            self._stop(coallocation, CoAllocationState.CANCELLED, Reason.CANCELLED_BY_USER, now_ms)

    def cancel_with(self, lease_id: int, now_ms: int) -> bool:
        """Cancel the co-allocation that a lease is a component of; False if it is not one."""
        coallocation = self.leases.coallocation_of(lease_id)
        if coallocation is not None:
            self._stop(coallocation, CoAllocationState.CANCELLED, Reason.CANCELLED_BY_USER, now_ms)
        return coallocation is not None

    def note_report(self, lease: Lease, news: SiteReported, now_ms: int) -> bool:
        """A site with a manager of its own reports on a component; False for any other lease.

        Until all have promised their parts nothing has begun, so that whatever else it says breaks this try off.
        """
        coallocation = self.leases.coallocation_of(lease.id)
        if coallocation is None:
            return False
        index = coallocation.request.index_of(lease.id)
        self._dirty.add(coallocation.id)
        self.moved[coallocation.id] = coallocation
        has_begun, part = coallocation.state is CoAllocationState.RUNNING, coallocation.parts[index]
        is_done = news.state in _DONE and (has_begun or part.promise is Promise.COMMITTED)
        if has_begun and news.state is LeaseState.HELD:
            self._take_back(coallocation, index, lease, news.reason, now_ms)
        elif is_done or (has_begun and not news.state.is_final):
            self._claims.follow(lease, news, now_ms)
        elif news.state.is_final:
            self._claims.is_over_there(lease, news.reason, now_ms, has_begun=has_begun)
            if not has_begun:
                self._broken[coallocation.id] = news.reason
                if news.state is LeaseState.REFUSED and news.reason not in _ASKED_AGAIN:
                    self._refused.setdefault(coallocation.id, set()).add((index, news.site))
        elif _promises(coallocation, part, news):
            self._claims.follow(lease, replace(news, planned_ms=coallocation.start_ms), now_ms)
        else:
            self._broken[coallocation.id] = Reason.COMPONENT_UNPLACEABLE
        return True

    def _take_back(self, coallocation: CoAllocation, index: int, lease: Lease, reason: Reason, now_ms: int) -> None:
        """A site cannot start a component that it promised: it must not once it can, as another may have it then."""
        count_idle(coallocation, index, now_ms)
        if coallocation.parts[index].turn + 1 == coallocation.request.leases_each:
            self._stop(coallocation, CoAllocationState.FAILED, reason, now_ms)
            return
        self._claims.end(lease, reason, now_ms)
        self.leases.replace(coallocation, index)
        coallocation.claim_ms = now_ms

    def look_again(self) -> None:
        """Look in this instant at all whose components were promised a start: a site may have moved some of them."""
        self._may_be_apart = True

    def handle_losses(self, now_ms: int) -> None:
        """Components have lost their machines: give them another lease, or stop everything.

        Where sites with managers of their own have not all promised their parts in time, this try has failed.
        """
        self._break_off(now_ms)
        for lease_id in self._lost() if self.open else ():
            coallocation = self.leases.coallocation_of(lease_id)
            index = -1 if coallocation is None else coallocation.request.index_of(lease_id)
            if coallocation is None or coallocation.parts[index].lease_id != lease_id:
                continue  # all of it was given back meanwhile
            part, request = coallocation.parts[index], coallocation.request
            part.losses += 1
            count_idle(coallocation, index, now_ms)
            is_whole = coallocation.state is CoAllocationState.RUNNING or not is_partly_elsewhere(coallocation)
            if part.losses <= request.retries and is_whole:
                self.leases.replace(coallocation, index)
                coallocation.claim_ms = now_ms
                self._dirty.add(coallocation.id)
            elif coallocation.state is CoAllocationState.RUNNING:
                self._stop(coallocation, CoAllocationState.FAILED, Reason.MACHINES_LOST, now_ms)
            else:
                self._give_back(coallocation, Reason.MACHINES_LOST, now_ms)

    def _break_off(self, now_ms: int) -> None:
        broken, self._broken = self._broken, {}
        for coallocation in list(self.open.values()):
            is_preparing = coallocation.state is CoAllocationState.PREPARING
            is_late = is_preparing and coallocation.claim_ms <= now_ms
            reason = broken.get(coallocation.id) or (Reason.PROMISE_EXPIRED if is_late else None)
            if reason is not None and (is_preparing or coallocation.state is CoAllocationState.RESERVED):
                self._give_back(coallocation, reason, now_ms)

    def keep_together(self, now_ms: int) -> None:
        """Call off those whose components are promised one start no longer, before any of them starts."""
        if not self._may_be_apart:
            return
        self._may_be_apart = False
        for coallocation in list(self.open.values()):
            if coallocation.state in (CoAllocationState.RESERVED, CoAllocationState.PREPARING):
                self.moved[coallocation.id] = coallocation
                if not self._reservation.keep(coallocation, now_ms) and is_partly_elsewhere(coallocation):
                    self._give_back(coallocation, Reason.COMPONENT_UNPLACEABLE, now_ms)

    def _lost(self) -> list[int]:
        """List the leases that have lost their machines in this instant."""
        closed = [effect.lease for effect in self._changes.effects if type(effect) is LeaseClosed]
        return [lease.id for lease in closed if lease.state is LeaseState.FAILED]

    # 2. What to do about it

    def serve(self, now_ms: int) -> None:
        """Go on with those that wait for room, and those whose time has come."""
        if not self.open:
            return
        budget = self.planner.budget
        budget.renew()
        self._dirty |= self._alarms.ring(now_ms) | self._postponed
        self._postponed = set()
        for coallocation in self._in_turn(now_ms):
            if budget.is_spent:
                self._postpone(coallocation, now_ms)
            else:
                self._go_on(coallocation, now_ms)
        if any(type(effect) is LeaseClosed for effect in self._changes.effects):
            self._bring_forward(now_ms)
        if budget.spent > budget.looks // MUCH and any(map(_is_held, self.open.values())):
            self._rest(now_ms)
        freed, self._claims.freed = sorted(self._claims.freed), set()
        for name in freed:
            self._sites[name].serve_locals(now_ms)

    def _bring_forward(self, now_ms: int) -> None:
        """Offer room that became free to co-allocations promised a later start, in order of arrival."""
        for coallocation in sorted(self.open.values(), key=attrgetter("id")):
            if self.planner.budget.is_spent:
                return
            if coallocation.state is not CoAllocationState.RESERVED or coallocation.start_ms <= now_ms:
                continue
            is_earlier = self._reservation.bring_forward(coallocation, now_ms)
            if is_earlier or _is_held(coallocation):  # what it was promised may not be had any more either
                self.moved[coallocation.id] = coallocation
                self._alarms.wake(coallocation.id, coallocation.start_ms if is_earlier else now_ms + 1)

    def _in_turn(self, now_ms: int) -> list[CoAllocation]:
        """List those to be looked at now: first those that had no turn when the budget was spent."""
        concerned = [one for one in self.open.values() if one.id in self._dirty and not _is_held(one)]
        if now_ms < self._rests_until_ms:
            return concerned
        waiting = [coallocation for coallocation in self.open.values() if _is_held(coallocation)]
        first, self._first = self._first, 0
        waiting.sort(key=lambda coallocation: (coallocation.id < first, coallocation.id))
        return waiting + concerned if first else sorted(concerned + waiting, key=attrgetter("id"))

    def _postpone(self, coallocation: CoAllocation, now_ms: int) -> None:
        """Leave a co-allocation for another instant; the first of those that wait comes first then."""
        if _is_held(coallocation):
            self._first = self._first or coallocation.id
        else:
            self._postponed.add(coallocation.id)
            self._alarms.wake(coallocation.id, now_ms + 1)
        self._rest(now_ms)

    def _rest(self, now_ms: int) -> None:
        """Leave those that wait alone for a while: much has been spent on them."""
        self._rests_until_ms = now_ms + REST_MS
        self._alarms.wake(0, self._rests_until_ms)

    def _go_on(self, coallocation: CoAllocation, now_ms: int) -> None:
        self.moved[coallocation.id] = coallocation
        match coallocation.state:
            case CoAllocationState.HELD:
                self._try(coallocation, now_ms)
            case CoAllocationState.RUNNING:
                self._replace_lost(coallocation, now_ms)
            case CoAllocationState.PREPARING:
                self._commit(coallocation)
            case _:
                pass
        if coallocation.state is CoAllocationState.PLACED:
            self._claim(coallocation, now_ms)

    def _try(self, coallocation: CoAllocation, now_ms: int) -> None:
        """Try to find room for all components."""
        request, refused = coallocation.request, self._refused.get(coallocation.id, set())
        not_before_ms = coallocation.claim_ms
        if request.claim is Claim.INCREMENTAL:
            not_before_ms = max(not_before_ms, request.ready_ms)
        if self._is_too_late(request, now_ms):
            self._refuse(coallocation, Never(Reason.NO_COMMON_ROOM), now_ms)
        elif refused and (why_never := self.planner.why_never(request, refused)) is not None:
            self._refuse(coallocation, Never(why_never), now_ms)
        elif now_ms < not_before_ms:
            self._alarms.wake(coallocation.id, not_before_ms)
        elif request.claim is Claim.INCREMENTAL:
            tried = self._incremental.place(coallocation, now_ms)
            if isinstance(tried, Never | NotNow) and self.planner.has_remotes:
                soon = self._reservation.prepare_soon(coallocation, refused, now_ms)
                tried = None if soon is None else tried
            self._note_result(coallocation, tried, now_ms)
        else:
            self._note_result(coallocation, self._reservation.reserve(coallocation, refused, now_ms), now_ms)

    def _commit(self, coallocation: CoAllocation) -> None:
        """Once all sites with managers of their own have promised their parts, tell them that these hold.

        It is reserved when each has confirmed that: one whose promise has expired meanwhile reports so instead.
        """
        parts = [(index, part) for index, part in enumerate(coallocation.parts) if part.promise]
        if all(part.promise is Promise.PREPARED for _, part in parts):
            leases = dict(self.leases.open_leases(coallocation))
            for index, part in parts:
                part.promise = Promise.COMMITTING
                self._claims.commit(leases[index])
            coallocation.claim_ms = coallocation.start_ms
        if all(part.promise is Promise.COMMITTED for _, part in parts):
            coallocation.state, coallocation.reason = CoAllocationState.RESERVED, Reason.COALLOCATED
        self._alarms.wake(coallocation.id, coallocation.claim_ms)
        self._alarms.wake(coallocation.id, coallocation.start_ms)

    def _is_too_late(self, request: CoAllocationRequest, now_ms: int) -> bool:
        deadline_ms = request.deadline_ms
        return deadline_ms is not None and now_ms + self.planner.shortest_ms(request) > deadline_ms

    def _note_result(self, coallocation: CoAllocation, tried: TryResult, now_ms: int) -> None:
        """Act on the result of a try."""
        match tried:
            case None:
                is_preparing = coallocation.state is CoAllocationState.PREPARING
                coallocation.reason = Reason.WAITING_FOR_COMPONENTS if is_preparing else Reason.COALLOCATED
                self._alarms.wake(coallocation.id, coallocation.claim_ms if is_preparing else coallocation.start_ms)
            case Never():
                self._refuse(coallocation, tried, now_ms)
            case Unfinished():
                self._postpone(coallocation, now_ms)
            case NotNow(breach) if breach is not None:
                again_ms = now_ms + RETRY_MS  # others may use less than they did so far
                self._alarms.wake(
                    coallocation.id, again_ms if breach.next_ms is None else min(breach.next_ms, again_ms)
                )
                if coallocation.reason is not breach.reason:
                    coallocation.reason = breach.reason
                    self._tell_all(coallocation, tried)
            case _:
                pass  # an event that brings room wakes it

    def _tell_all(self, coallocation: CoAllocation, why: NotNow) -> None:
        """Write down, for each component, which agreement holds it back."""
        assert why.breach is not None
        for _, lease in self.leases.open_leases(coallocation):
            held = Decision(lease, "", Outcome.HOLD, why.breach.reason, AGREEMENT, why.breach.next_ms)
            held.breach = why.breach
            self._changes.effects.append(held)

    def _claim(self, coallocation: CoAllocation, now_ms: int) -> None:
        """Claim what is not claimed yet, if it is time; at the start it is too late for more."""
        why_not: Reason | None = None
        if coallocation.claim_ms <= now_ms:
            why_not = self._incremental.claim(coallocation, now_ms)
        if all(part.claimed_ms >= 0 or part.has_ended for part in coallocation.parts):
            self._alarms.wake(coallocation.id, coallocation.start_ms)
        elif coallocation.start_ms <= now_ms:
            self._give_back(coallocation, why_not or Reason.NO_COMMON_ROOM, now_ms)
        else:
            self._alarms.wake(coallocation.id, coallocation.claim_ms)

    def _give_back(self, coallocation: CoAllocation, reason: Reason, now_ms: int) -> None:
        """A try has failed: give back what was claimed, and try again a little later, or give up."""
        request = coallocation.request
        self._incremental.give_back(coallocation, now_ms)
        if coallocation.tried >= request.tries:
            self._refuse(coallocation, Never(reason), now_ms)
            return
        for index in range(len(coallocation.parts)):
            lease = self.leases.lease(coallocation, index)
            if lease is not None and lease.state.is_final:
                self.leases.replace(coallocation, index)
        coallocation.claim_ms, coallocation.reason = now_ms + AGAIN_MS, Reason.WAITING_FOR_COMPONENTS
        self._alarms.wake(coallocation.id, coallocation.claim_ms)

    def _replace_lost(self, coallocation: CoAllocation, now_ms: int) -> None:
        """Place components again that lost their machines; if one cannot be, all are stopped."""
        for index, lease in list(self.leases.open_leases(coallocation)):
            is_lost = lease.state is LeaseState.HELD
            if is_lost and not self._incremental.replace(coallocation, index, lease, now_ms):
                self._stop(coallocation, CoAllocationState.FAILED, Reason.MACHINES_LOST, now_ms)
                return

    # 3. What has come of it

    def settle(self, now_ms: int) -> None:
        """Begin or end those whose components have all started, or all ended."""
        if not self.open:
            return
        for effect in self._changes.effects:
            if type(effect) is StartLease or type(effect) is LeaseClosed:
                coallocation = self.leases.coallocation_of(effect.lease.id)
                if coallocation is not None:
                    self._dirty.add(coallocation.id)
        dirty, self._dirty = sorted(self._dirty), set()
        for coallocation_id in dirty:
            coallocation = self.open.get(coallocation_id)
            if coallocation is not None:
                self._begin_or_end(coallocation, now_ms)

    def _begin_or_end(self, coallocation: CoAllocation, now_ms: int) -> None:
        self.moved[coallocation.id] = coallocation
        self._note_ends(coallocation, now_ms)
        states = [lease.state for _, lease in self.leases.open_leases(coallocation)]
        if (
            coallocation.state in (CoAllocationState.PLACED, CoAllocationState.RESERVED)
            and coallocation.start_ms <= now_ms
        ):
            self._begin(coallocation, now_ms)
        if coallocation.state is CoAllocationState.RUNNING and not states:
            self._close(coallocation, CoAllocationState.COMPLETED, Reason.COMPLETED, now_ms)

    def _note_ends(self, coallocation: CoAllocation, now_ms: int) -> None:
        """Note components that are done; a command that does not wait for the others' machines may be."""
        for index, part in enumerate(coallocation.parts):
            lease = self.leases.lease(coallocation, index)
            if lease is not None and lease.state in _DONE and not part.has_ended:
                count_idle(coallocation, index, now_ms)
                part.has_ended = True

    def _begin(self, coallocation: CoAllocation, now_ms: int) -> None:
        for index in range(len(coallocation.parts)):
            count_idle(coallocation, index, now_ms)
        coallocation.state = CoAllocationState.RUNNING
        self._changes.effects.append(CoAllocationStarted(coallocation, coallocation.idle_vm_ms))

    # The end

    def _stop(self, coallocation: CoAllocation, state: CoAllocationState, reason: Reason, now_ms: int) -> None:
        """End every component that has not ended."""
        for index in range(len(coallocation.parts)):
            count_idle(coallocation, index, now_ms)
        for _, lease in list(self.leases.open_leases(coallocation)):
            why = Reason.COMPONENT_LOST if reason is Reason.MACHINES_LOST else reason
            self._claims.end(lease, why, now_ms)
        self._close(coallocation, state, reason, now_ms)

    def _refuse(self, coallocation: CoAllocation, never: Never, now_ms: int) -> None:
        for _, lease in list(self.leases.open_leases(coallocation)):
            self._claims.refuse(lease, never.reason)
        self._close(coallocation, CoAllocationState.REFUSED, never.reason, now_ms)

    def _close(self, coallocation: CoAllocation, state: CoAllocationState, reason: Reason, now_ms: int) -> None:
        coallocation.state, coallocation.reason, coallocation.end_ms = state, reason, now_ms
        self.moved[coallocation.id] = coallocation
        del self.open[coallocation.id]
        self.leases.remove(coallocation)
        self._reservation.forget(coallocation.id)
        self._refused.pop(coallocation.id, None)
        self._broken.pop(coallocation.id, None)
        self._changes.effects.append(CoAllocationClosed(coallocation, reason, coallocation.idle_vm_ms))

    # A restart

    def restore(self, coallocations: Iterable[CoAllocation]) -> None:
        """Go on from a record; all of them are looked at in the next instant, and those reserved at their start.

        Where all components are at sites with managers, nothing else may tell of that start in time.
        """
        self.open = {coallocation.id: coallocation for coallocation in sorted(coallocations, key=lambda one: one.id)}
        self._parts = {
            part.lease_id: coallocation for coallocation in self.open.values() for part in coallocation.parts
        }
        self._dirty, self._may_be_apart = set(self.open), True
        for coallocation in self.open.values():
            if coallocation.request.deadline_ms is not None:
                latest_ms = coallocation.request.deadline_ms - self.planner.shortest_ms(coallocation.request)
                self._alarms.wake(coallocation.id, latest_ms + 1)
            if coallocation.state is CoAllocationState.RESERVED:
                self._alarms.wake(coallocation.id, coallocation.start_ms)

    def take_up(self, lease: Lease) -> bool:
        """Take up an open lease if it is a component's; False if it is not."""
        coallocation = self._parts.get(lease.id)
        if coallocation is not None:
            self.leases.add(coallocation, lease)
        return coallocation is not None

    def held(self) -> Sequence[int]:
        """List the leases that wait here, at no site."""
        return list(self.leases.held())


def _promises(coallocation: CoAllocation, part: Part, news: SiteReported) -> bool:
    """Note how far a site is with what a component was to be promised; whether it is that.

    A site whose clock is ahead may start a component that is committed a little before the common start.
    """
    is_committed = news.prepared_until_ms < 0
    if news.state is LeaseState.WAITING and news.planned_ms == coallocation.start_ms:
        if part.promise is Promise.ASKED:
            part.promise = Promise.PREPARED
        elif part.promise is Promise.COMMITTING and is_committed:
            part.promise = Promise.COMMITTED
        return part.promise is not Promise.COMMITTED or is_committed
    has_begun = news.state in (LeaseState.STARTING, LeaseState.RUNNING)
    if has_begun and part.promise in (Promise.COMMITTING, Promise.COMMITTED):
        part.promise = Promise.COMMITTED
        return True
    return False


def _is_held(coallocation: CoAllocation) -> bool:
    return coallocation.state is CoAllocationState.HELD
