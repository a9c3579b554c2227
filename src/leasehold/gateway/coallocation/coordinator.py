"""The desk for co-allocations: what happens to each of them, from its submission to its end.

Within an instant the gateway calls, in this order: the notes; `mourn`, before the sites' own users are
served, so that they get what is given back; `serve`, after them, so that nothing is taken from them;
`follow`, once everybody has started who can.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from leasehold.gateway.coallocation.alarms import Alarms
from leasehold.gateway.coallocation.claims import Claims
from leasehold.gateway.coallocation.crew import Crew
from leasehold.gateway.coallocation.incremental import Incremental, count_idle
from leasehold.gateway.coallocation.placement.registry import placement_policy
from leasehold.gateway.coallocation.planner import Planner
from leasehold.gateway.coallocation.reserving import Reserving
from leasehold.gateway.coallocation.tried import Never, NotNow, Tried, Unfinished
from leasehold.gateway.guests import ASK_AGAIN_MS
from leasehold.gateway.quotas import AGREEMENT
from leasehold.gateway.site import Site
from leasehold.model.coallocation import (
    Claim,
    CoAllocation,
    CoAllocationRequest,
    CoAllocationState,
    Part,
    check_coallocation,
)
from leasehold.model.effect import (
    CoAllocationClosed,
    CoAllocationStarted,
    Decision,
    Effect,
    LeaseClosed,
    StartLease,
)
from leasehold.model.errors import UnknownName
from leasehold.model.event import CoAllocationCancelled, CoAllocationSubmitted
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import check_request

AGAIN_MS = 10_000
"""When a co-allocation is tried for again of which a try has failed."""

MUCH = 4
"""Where more than this part of a budget was spent, those who wait are left alone for a while."""

REST_MS = 1_000
"""For how long."""

_DONE = frozenset({LeaseState.COMPLETED, LeaseState.KILLED})


class CoAllocator:
    """All open co-allocations of a gateway, by their numbers.

    ``moved``  those that may stand otherwise since the last instant

    All of them that wait are tried for in every instant, as long as the budget lasts. Where that takes much
    of it, they are left alone for a while; where it does not last for all, the others have their turn first
    after that.
    """

    def __init__(
        self,
        sites: Mapping[str, Site],
        planner: Planner,
        claims: Claims,
        crew: Crew,
        effects: list[Effect],
    ) -> None:
        """Begin empty; ``effects`` is the gateway's list."""
        self.open: dict[int, CoAllocation] = {}
        self.planner = planner
        self.crew = crew
        self._claims = claims
        self._incremental = Incremental(planner, claims, crew)
        self._reserving = Reserving(planner, claims, crew)
        self._sites = sites
        self._effects = effects
        self.moved: dict[int, CoAllocation] = {}
        self._stirred: set[int] = set()
        self._postponed: set[int] = set()
        self._first = 0
        self._rests_until_ms = 0
        self._alarms = Alarms(effects)
        self._parts: dict[int, CoAllocation] = {}

    # 1. What happened

    def note_submission(self, event: CoAllocationSubmitted, now_ms: int) -> None:
        """A co-allocation came. Raises InvalidField or UnknownName for one that makes no sense."""
        request = event.request
        self.check(request)
        coallocation = CoAllocation(request, [Part(0) for _ in request.components])
        self.open[coallocation.id] = coallocation
        for index in range(len(request.components)):
            self.crew.man(coallocation, index)
        refusal = self.planner.why_never(request)
        if refusal is not None:
            self._refuse(coallocation, Never(refusal), now_ms)
            return
        self._stirred.add(coallocation.id)
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
                if name and name not in self._sites:
                    raise UnknownName("site", name, self._sites)

    def note_cancel(self, event: CoAllocationCancelled, now_ms: int) -> None:
        """The user takes a co-allocation back; one that is over stays as it is."""
        coallocation = self.open.get(event.coallocation_id)
        if coallocation is not None:
            self._stop(coallocation, CoAllocationState.CANCELLED, Reason.CANCELLED_BY_USER, now_ms)

    def cancel_with(self, lease_id: int, now_ms: int) -> bool:
        """Whoever takes a component back takes back all of its co-allocation; whether it is one."""
        coallocation = self.crew.coallocation_of(lease_id)
        if coallocation is not None:
            self._stop(coallocation, CoAllocationState.CANCELLED, Reason.CANCELLED_BY_USER, now_ms)
        return coallocation is not None

    def mourn(self, now_ms: int) -> None:
        """Components have lost their machines: give them another lease, or stop everything."""
        for lease_id in self._lost() if self.open else ():
            coallocation = self.crew.coallocation_of(lease_id)
            index = -1 if coallocation is None else coallocation.request.index_of(lease_id)
            if coallocation is None or coallocation.parts[index].lease_id != lease_id:
                continue  # all of it was given back meanwhile
            part, request = coallocation.parts[index], coallocation.request
            part.losses += 1
            count_idle(coallocation, index, now_ms)
            if part.losses <= request.retries:
                self.crew.renew(coallocation, index)
                coallocation.claim_ms = now_ms
                self._stirred.add(coallocation.id)
            elif coallocation.state is CoAllocationState.RUNNING:
                self._stop(coallocation, CoAllocationState.FAILED, Reason.MACHINES_LOST, now_ms)
            else:
                self._give_back(coallocation, Reason.MACHINES_LOST, now_ms)

    def _lost(self) -> list[int]:
        """Name the leases of which this instant's events say that their machines are lost."""
        closed = [effect.lease for effect in self._effects if type(effect) is LeaseClosed]
        return [lease.id for lease in closed if lease.state is LeaseState.FAILED]

    # 2. What to do about it

    def serve(self, now_ms: int) -> None:
        """Go on with whoever waits for room, and whose time has come."""
        if not self.open:
            return
        budget = self.planner.budget
        budget.renew()
        self._stirred |= self._alarms.ring(now_ms) | self._postponed
        self._postponed = set()
        for coallocation in self._in_turn(now_ms):
            if budget.is_spent:
                self._postpone(coallocation, now_ms)
            else:
                self._go_on(coallocation, now_ms)
        if any(type(effect) is LeaseClosed for effect in self._effects):
            self._bring_forward(now_ms)
        if budget.spent > budget.looks // MUCH and any(map(_is_held, self.open.values())):
            self._rest(now_ms)
        freed, self._claims.freed = sorted(self._claims.freed), set()
        for name in freed:
            self._sites[name].serve_locals(now_ms)

    def _bring_forward(self, now_ms: int) -> None:
        """Room came free: let those that are promised a later start have it, who came first before others."""
        for coallocation in sorted(self.open.values(), key=attrgetter("id")):
            if self.planner.budget.is_spent:
                return
            if coallocation.state is not CoAllocationState.RESERVED or coallocation.start_ms <= now_ms:
                continue
            is_earlier = self._reserving.bring_forward(coallocation, now_ms)
            if is_earlier or _is_held(coallocation):  # what it was promised may not be had any more either
                self.moved[coallocation.id] = coallocation
                self._alarms.wake(coallocation.id, coallocation.start_ms if is_earlier else now_ms + 1)

    def _in_turn(self, now_ms: int) -> list[CoAllocation]:
        """Give those that are to be looked at now: first whoever had no turn when the budget was spent."""
        concerned = [one for one in self.open.values() if one.id in self._stirred and not _is_held(one)]
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
        """Look at nobody who waits for a while: much has been looked at for them."""
        self._rests_until_ms = now_ms + REST_MS
        self._alarms.wake(0, self._rests_until_ms)

    def _go_on(self, coallocation: CoAllocation, now_ms: int) -> None:
        self.moved[coallocation.id] = coallocation
        match coallocation.state:
            case CoAllocationState.HELD:
                self._try(coallocation, now_ms)
            case CoAllocationState.RESERVED:
                if not self._reserving.keep(coallocation, now_ms):
                    self._try(coallocation, now_ms)
            case CoAllocationState.RUNNING:
                self._replace_lost(coallocation, now_ms)
            case _:
                pass
        if coallocation.state is CoAllocationState.PLACED:
            self._claim(coallocation, now_ms)

    def _try(self, coallocation: CoAllocation, now_ms: int) -> None:
        """Try to find room for all components."""
        request = coallocation.request
        not_before_ms = coallocation.claim_ms
        if request.claim is Claim.INCREMENTAL:
            not_before_ms = max(not_before_ms, request.ready_ms)
        if self._is_too_late(request, now_ms):
            self._refuse(coallocation, Never(Reason.NO_COMMON_ROOM), now_ms)
        elif now_ms < not_before_ms:
            self._alarms.wake(coallocation.id, not_before_ms)
        elif request.claim is Claim.INCREMENTAL:
            self._see(coallocation, self._incremental.place(coallocation, now_ms), now_ms)
        else:
            self._see(coallocation, self._reserving.reserve(coallocation, now_ms), now_ms)

    def _is_too_late(self, request: CoAllocationRequest, now_ms: int) -> bool:
        deadline_ms = request.deadline_ms
        return deadline_ms is not None and now_ms + self.planner.shortest_ms(request) > deadline_ms

    def _see(self, coallocation: CoAllocation, tried: Tried, now_ms: int) -> None:
        """See what came of trying."""
        match tried:
            case None:
                coallocation.reason = Reason.COALLOCATED
                self._alarms.wake(coallocation.id, coallocation.start_ms)
            case Never():
                self._refuse(coallocation, tried, now_ms)
            case Unfinished():
                self._postpone(coallocation, now_ms)
            case NotNow(breach) if breach is not None:
                again_ms = now_ms + ASK_AGAIN_MS  # others may use less than they did so far
                self._alarms.wake(
                    coallocation.id, again_ms if breach.next_ms is None else min(breach.next_ms, again_ms)
                )
                if coallocation.reason is not breach.reason:
                    coallocation.reason = breach.reason
                    self._tell_all(coallocation, tried)
            case _:
                pass  # whatever brings room wakes it

    def _tell_all(self, coallocation: CoAllocation, why: NotNow) -> None:
        """Write down, for each component, which agreement holds it back."""
        assert why.breach is not None
        for _, lease in self.crew.open_leases(coallocation):
            held = Decision(lease, "", Outcome.HOLD, why.breach.reason, AGREEMENT, why.breach.next_ms)
            held.breach = why.breach
            self._effects.append(held)

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
            lease = self.crew.lease(coallocation, index)
            if lease is not None and lease.state.is_final:
                self.crew.renew(coallocation, index)
        coallocation.claim_ms, coallocation.reason = now_ms + AGAIN_MS, Reason.WAITING_FOR_COMPONENTS
        self._alarms.wake(coallocation.id, coallocation.claim_ms)

    def _replace_lost(self, coallocation: CoAllocation, now_ms: int) -> None:
        """Place components again that lost their machines; if one cannot be, all are stopped."""
        for index, lease in list(self.crew.open_leases(coallocation)):
            is_lost = lease.state is LeaseState.HELD
            if is_lost and not self._incremental.replace(coallocation, index, lease, now_ms):
                self._stop(coallocation, CoAllocationState.FAILED, Reason.MACHINES_LOST, now_ms)
                return

    # 3. What has come of it

    def follow(self, now_ms: int) -> None:
        """See whose components have all started, or all ended."""
        if not self.open:
            return
        for effect in self._effects:
            if type(effect) is StartLease or type(effect) is LeaseClosed:
                coallocation = self.crew.coallocation_of(effect.lease.id)
                if coallocation is not None:
                    self._stirred.add(coallocation.id)
        stirred, self._stirred = sorted(self._stirred), set()
        for coallocation_id in stirred:
            coallocation = self.open.get(coallocation_id)
            if coallocation is not None:
                self._begin_or_end(coallocation, now_ms)

    def _begin_or_end(self, coallocation: CoAllocation, now_ms: int) -> None:
        self.moved[coallocation.id] = coallocation
        self._note_ends(coallocation, now_ms)
        states = [lease.state for _, lease in self.crew.open_leases(coallocation)]
        if (
            coallocation.state in (CoAllocationState.PLACED, CoAllocationState.RESERVED)
            and coallocation.start_ms <= now_ms
        ):
            self._begin(coallocation, now_ms)
        if coallocation.state is CoAllocationState.RUNNING and not states:
            self._close(coallocation, CoAllocationState.COMPLETED, Reason.COMPLETED, now_ms)

    def _note_ends(self, coallocation: CoAllocation, now_ms: int) -> None:
        """See who is done; a command may be, that does not wait for the others' machines."""
        for index, part in enumerate(coallocation.parts):
            lease = self.crew.lease(coallocation, index)
            if lease is not None and lease.state in _DONE and not part.has_ended:
                count_idle(coallocation, index, now_ms)
                part.has_ended = True

    def _begin(self, coallocation: CoAllocation, now_ms: int) -> None:
        for index in range(len(coallocation.parts)):
            count_idle(coallocation, index, now_ms)
        coallocation.state = CoAllocationState.RUNNING
        self._effects.append(CoAllocationStarted(coallocation, coallocation.idle_vm_ms))

    # The end

    def _stop(self, coallocation: CoAllocation, state: CoAllocationState, reason: Reason, now_ms: int) -> None:
        """End every component that has not ended."""
        for index, lease in list(self.crew.open_leases(coallocation)):
            count_idle(coallocation, index, now_ms)
            why = Reason.COMPONENT_LOST if reason is Reason.MACHINES_LOST else reason
            self._claims.end(lease, why, now_ms)
        self._close(coallocation, state, reason, now_ms)

    def _refuse(self, coallocation: CoAllocation, never: Never, now_ms: int) -> None:
        for _, lease in list(self.crew.open_leases(coallocation)):
            self._claims.refuse(lease, never.reason)
        self._close(coallocation, CoAllocationState.REFUSED, never.reason, now_ms)

    def _close(self, coallocation: CoAllocation, state: CoAllocationState, reason: Reason, now_ms: int) -> None:
        coallocation.state, coallocation.reason, coallocation.end_ms = state, reason, now_ms
        self.moved[coallocation.id] = coallocation
        del self.open[coallocation.id]
        self.crew.dismiss(coallocation)
        self._reserving.forget(coallocation.id)
        self._effects.append(CoAllocationClosed(coallocation, reason, coallocation.idle_vm_ms))

    # A restart

    def restore(self, coallocations: Iterable[CoAllocation]) -> None:
        """Go on from a record; all of them are looked at in the next instant."""
        self.open = {coallocation.id: coallocation for coallocation in sorted(coallocations, key=lambda one: one.id)}
        self._parts = {
            part.lease_id: coallocation for coallocation in self.open.values() for part in coallocation.parts
        }
        self._stirred = set(self.open)
        for coallocation in self.open.values():
            if coallocation.request.deadline_ms is not None:
                latest_ms = coallocation.request.deadline_ms - self.planner.shortest_ms(coallocation.request)
                self._alarms.wake(coallocation.id, latest_ms + 1)

    def take_up(self, lease: Lease) -> bool:
        """Go on with an open lease if it is one of a component; whether it is."""
        coallocation = self._parts.get(lease.id)
        if coallocation is not None:
            self.crew.take_up(coallocation, lease)
        return coallocation is not None

    def held(self) -> Sequence[int]:
        """Name the leases that wait here, at no site."""
        return list(self.crew.held())


def _is_held(coallocation: CoAllocation) -> bool:
    return coallocation.state is CoAllocationState.HELD
