"""Claiming by advance reservation: all components are promised their room for the earliest common start.

The start is looked for on the sites' full plans, in which everything is booked. A new start can become
possible only where room comes free at some site, where files arrive, or where an agreement allows it again;
so only those times are tried, in their order. A component that its site refuses is placed again. Where none
will have it, whatever was promised is called off, and the next start is tried, as often as the request says.

Sites with managers of their own are asked, and answer later (two-phase commit): until all of them have promised their
parts the co-allocation is *preparing*, and `co_allocator` says how it goes on.
"""

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leasehold.gateway.coallocation.component_leases import ComponentClaims, ComponentLeases
from leasehold.gateway.coallocation.placement.registry import placement_policy
from leasehold.gateway.coallocation.planner import (
    PREPARE_MS,
    Assigner,
    Never,
    NotNow,
    Placement,
    Planner,
    Refusals,
    Room,
    TryResult,
    Unfinished,
    all_from,
)
from leasehold.model.agreement import Breach
from leasehold.model.coallocation import CoAllocation, CoAllocationState, Promise
from leasehold.model.lease import UNPLANNED, LeaseState
from leasehold.model.reason import NEVER, Reason


@dataclass(slots=True)
class _Search:
    """How far a search has come.

    ``from_ms``  starts before this have been tried
    ``breach``   the first that was met
    ``others``   further times to be tried: an agreement allows it from then on, as at another hour of the day
    """

    from_ms: int
    breach: Breach | None = None
    others: list[int] = field(default_factory=list)

    def met(self, breach: Breach | None) -> None:
        """Note why agreements left no way at a start."""
        if breach is None:
            return
        self.breach = self.breach or breach
        next_ms = breach.next_ms  # often the same at many starts: it is tried once
        if next_ms is not None and next_ms >= self.from_ms and next_ms not in self.others:
            insort(self.others, next_ms)


class ReservationClaiming:
    """Reserves room for co-allocations.

    A search that exhausts the budget of an instant resumes at a later instant, from the start time it had
    reached; room that became free before that time is not considered again.
    """

    def __init__(self, planner: Planner, claims: ComponentClaims, leases: ComponentLeases) -> None:
        """Begin."""
        self._planner = planner
        self._claims = claims
        self._leases = leases
        self._searches: dict[int, _Search] = {}

    def forget(self, coallocation_id: int) -> None:
        """A co-allocation is over."""
        self._searches.pop(coallocation_id, None)

    def reserve(self, coallocation: CoAllocation, refusals: Refusals, now_ms: int) -> TryResult:
        """Have all components promised their room, for as early a start as there is.

        Sites with managers of their own, other than those that have refused a component before, are asked for it.
        """
        budget = self._planner.budget
        search = self._searches.pop(coallocation.id, None) or _Search(0)
        search.from_ms = max(search.from_ms, now_ms, coallocation.request.ready_ms)
        may_skip = budget.is_whole  # a start that takes more than a whole budget would be tried for ever
        rooms = self._planner.all_rooms(now_ms)
        starts = self._planner.starts(coallocation.request, rooms, search.from_ms, now_ms)
        next_ms = next(starts, None)
        while coallocation.tried < coallocation.request.tries and (next_ms is not None or search.others):
            start_ms = _first_of(next_ms, search.others)
            found = self._reserve_from(coallocation, rooms, start_ms, refusals, now_ms)
            if found.places is not None:
                self._be_promised(coallocation, found.places, start_ms, now_ms)
                return None
            search.met(found.breach)
            if budget.is_spent and not may_skip:
                break
            may_skip, search.from_ms = False, start_ms + 1
            next_ms = next(starts, None) if next_ms == start_ms else next_ms
            search.others = [at_ms for at_ms in search.others if at_ms > start_ms]
            if budget.is_spent:
                break
        else:
            return self._outcome(coallocation, search.breach)
        self._searches[coallocation.id] = search
        return Unfinished()

    def prepare_soon(self, coallocation: CoAllocation, refusals: Refusals, now_ms: int) -> TryResult:
        """Ask sites with managers of their own for room as soon as they can promise it, where no room is free now.

        For components that are claimed one after another: machines there cannot be held idle.
        """
        request, rooms = coallocation.request, self._planner.all_rooms(now_ms)
        travel_ms = max((room.transfer_ms(part) for room in rooms.values() for part in request.components), default=0)
        start_ms = max(request.ready_ms, now_ms + max(PREPARE_MS, travel_ms) + request.margin_ms)
        if request.deadline_ms is not None and start_ms + self._planner.shortest_ms(request) > request.deadline_ms:
            return NotNow()
        policy, window = placement_policy(request.place), all_from(start_ms, now_ms, request.deadline_ms)
        looking = Assigner(rooms, policy, window, self._planner.budget)
        leases = dict(self._leases.open_leases(coallocation))
        found = self._planner.find(request, leases, looking, now_ms, refusals, start_ms)
        if found.places is None or not any(map(self._claims.is_remote, found.places.values())):
            return NotNow(found.breach)
        if self._promise_all(coallocation, found.places, start_ms, now_ms) is not None:
            return NotNow()
        self._be_promised(coallocation, found.places, start_ms, now_ms)
        return None

    def _outcome(self, coallocation: CoAllocation, breach: Breach | None) -> TryResult:
        """Say what it means that no start is left to be tried."""
        if coallocation.tried < coallocation.request.tries and _may_change(breach, all_lend=self._planner.all_lend):
            return NotNow(breach)
        return Never(Reason.NO_COMMON_ROOM if breach is None else breach.reason, breach)

    def _reserve_from(
        self, coallocation: CoAllocation, rooms: Mapping[str, Room], start_ms: int, refused: Refusals, now_ms: int
    ) -> Placement:
        """Try one start, with as many ways to place the components as it takes, or as the budget allows."""
        request, refusals = coallocation.request, set(refused)
        policy, window = placement_policy(request.place), all_from(start_ms, now_ms, request.deadline_ms)
        while True:
            leases = dict(self._leases.open_leases(coallocation))
            looking = Assigner(rooms, policy, window, self._planner.budget)
            found = self._planner.find(request, leases, looking, now_ms, refusals, start_ms)
            if found.places is None:
                coallocation.tried += len(refusals) > len(refused)
                return found
            refusal = self._promise_all(coallocation, found.places, start_ms, now_ms)
            if refusal is None:
                return found
            refusals.add(refusal)

    def _promise_all(
        self, coallocation: CoAllocation, places: Mapping[int, str], start_ms: int, now_ms: int
    ) -> tuple[int, str] | None:
        """Reserve room for every component, or for none; returns the refused component and its site.

        Sites with managers of their own are asked at last, once all others have promised theirs.
        """
        is_remote, until_ms = self._claims.is_remote, min(start_ms, now_ms + PREPARE_MS)
        leases = sorted(self._leases.open_leases(coallocation), key=lambda one: is_remote(places[one[0]]))
        for index, lease in leases:
            name = places[index]
            refused = (
                self._claims.prepare(lease, name, start_ms, until_ms, now_ms)
                if is_remote(name)
                else self._claims.promise(lease, name, start_ms, now_ms)
            )
            if refused is not None:
                self.call_off(coallocation, now_ms)
                return index, name
        for index, lease in leases:
            if is_remote(places[index]):
                self._claims.ask(lease)
        return None

    def _be_promised(self, coallocation: CoAllocation, places: Mapping[int, str], start_ms: int, now_ms: int) -> None:
        """All have what they were to have, but for what sites with managers of their own have yet to promise."""
        self._be_reserved(coallocation, places, start_ms)
        asked = [index for index, name in places.items() if self._claims.is_remote(name)]
        for index in asked:
            coallocation.parts[index].promise = Promise.ASKED
        if asked:
            coallocation.state, coallocation.tried = CoAllocationState.PREPARING, coallocation.tried + 1
            coallocation.claim_ms = min(start_ms, now_ms + PREPARE_MS)

    def _be_reserved(self, coallocation: CoAllocation, places: Mapping[int, str], start_ms: int) -> None:
        for index, site in places.items():
            coallocation.parts[index].site = site
        coallocation.state, coallocation.start_ms = CoAllocationState.RESERVED, start_ms

    def call_off(self, coallocation: CoAllocation, now_ms: int, why: Reason = Reason.COMPONENT_UNPLACEABLE) -> None:
        """Give back whatever was promised: the components wait at the gateway again."""
        for index, lease in self._leases.open_leases(coallocation):
            if lease.state is LeaseState.WAITING:
                self._claims.call_off(lease, coallocation.request.ready_ms, now_ms, why)
            coallocation.parts[index].site = ""
        coallocation.state, coallocation.start_ms = CoAllocationState.HELD, UNPLANNED

    def bring_forward(self, coallocation: CoAllocation, now_ms: int) -> bool:
        """Promise all components an earlier start, if there is one by now; whether there was.

        It is looked for as if this co-allocation had been promised nothing.
        """
        request, promised_ms = coallocation.request, coallocation.start_ms
        leases, rooms = dict(self._leases.open_leases(coallocation)), self._planner.rooms(now_ms)
        if any(lease.site not in rooms for lease in leases.values()):
            return False  # a site that lends no more keeps what it has promised
        for lease in leases.values():
            rooms[lease.site].give(lease.reserved_ms, lease.end_ms, lease.vms)
        policy, budget = placement_policy(request.place), self._planner.budget
        for start_ms in self._planner.starts(request, rooms, max(now_ms, request.ready_ms), now_ms):
            if start_ms >= promised_ms or budget.is_spent:
                return False
            window = all_from(start_ms, now_ms, request.deadline_ms)
            looking = Assigner(rooms, policy, window, budget)
            found = self._planner.find(request, leases, looking, now_ms, (), start_ms)
            if found.places is not None:
                return self._move(coallocation, found.places, start_ms, now_ms)
        return False

    def _move(self, coallocation: CoAllocation, places: Mapping[int, str], start_ms: int, now_ms: int) -> bool:
        """Exchange what is promised for an earlier start; where a site refuses that, all stays as it was.

        Where a site will not promise even that again, the co-allocation is held.
        """
        before, promised_ms = {index: part.site for index, part in enumerate(coallocation.parts)}, coallocation.start_ms
        self.call_off(coallocation, now_ms, Reason.RESCHEDULED_EARLIER)
        if self._promise_all(coallocation, places, start_ms, now_ms) is None:
            self._be_reserved(coallocation, places, start_ms)
            return True
        if self._promise_all(coallocation, before, promised_ms, now_ms) is None:
            self._be_reserved(coallocation, before, promised_ms)
        return False

    def keep(self, coallocation: CoAllocation, now_ms: int) -> bool:
        """See that all are promised the same start: each site has planned for itself; else call them off.

        Returns whether they are; what sites with managers of their own have promised is not called off here.
        """
        promised_ms = {lease.reserved_ms for _, lease in self._leases.open_leases(coallocation)}
        if is_partly_elsewhere(coallocation):
            return promised_ms <= {coallocation.start_ms}
        if len(promised_ms) == 1:
            coallocation.start_ms = max(promised_ms)
            return True
        self.call_off(coallocation, now_ms)
        return False


def is_partly_elsewhere(coallocation: CoAllocation) -> bool:
    """Whether a component is at a site with a manager of its own."""
    return any(part.promise for part in coallocation.parts)


def _first_of(next_ms: int | None, others: Sequence[int]) -> int:
    """Give the earliest of the starts that are left; there is one."""
    return min(at_ms for at_ms in (next_ms, *others[:1]) if at_ms is not None)


def _may_change(breach: Breach | None, *, all_lend: bool) -> bool:
    """Whether there may be a start later on, though there is none in all plans now."""
    return not all_lend if breach is None else breach.reason not in NEVER
