"""IncrementalClaiming claiming, for sites whose plans may change until the last moment.

The reading of KOALA's policy (Mohamed and Epema 2005) that is used here:

1. Components are placed where there is room now. The common start is then, once their files have travelled to
   where they are placed, and a margin has passed. No room is held.
2. When a part L of that time has passed, machines are claimed, one component after another, the widest first.
   A component that has machines holds them idle for the others.
3. A component that finds no room is placed elsewhere, if its files can be there in time. If no site has room, the
   claim is retried, each time after a part L of the time left until the start.
4. If a component has no machines at the start, this attempt fails, and everything claimed is released.
"""

from leasehold.gateway.coallocation.component_leases import ComponentClaims, ComponentLeases
from leasehold.gateway.coallocation.placement.policy import PlacementPolicy
from leasehold.gateway.coallocation.placement.registry import placement_policy
from leasehold.gateway.coallocation.planner import (
    Assigner,
    Never,
    NotNow,
    Planner,
    TryResult,
    Unfinished,
    at_once,
    claimed_now,
    room_now,
)
from leasehold.model.agreement import MILLION
from leasehold.model.coallocation import CoAllocation, CoAllocationState
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.reason import NEVER, Reason

SOONEST_AGAIN_MS = 1_000
"""Between two claims for the same component."""


class IncrementalClaiming:
    """Places co-allocations, and claims their machines."""

    def __init__(self, planner: Planner, claims: ComponentClaims, leases: ComponentLeases) -> None:
        """Begin."""
        self._planner = planner
        self._claims = claims
        self._leases = leases

    # 1. Placing

    def place(self, coallocation: CoAllocation, now_ms: int) -> TryResult:
        """Give every component a site where there is room now, and set the common start."""
        request, budget = coallocation.request, self._planner.budget
        was_whole = budget.is_whole
        rooms = self._planner.rooms(now_ms)
        window = room_now(now_ms, request.margin_ms, request.deadline_ms)
        looking = Assigner(rooms, placement_policy(request.place), window, budget)
        found = self._planner.find(request, dict(self._leases.open_leases(coallocation)), looking, now_ms)
        if found.places is None:
            if found.breach is not None and found.breach.reason in NEVER:
                return Never(found.breach.reason, found.breach)
            if found.breach is None and budget.is_spent and not was_whole:
                return Unfinished()
            return NotNow(found.breach)
        transfers = [rooms[site].transfer_ms(request.components[i]) for i, site in found.places.items()]
        wait_ms = max(transfers) + request.margin_ms
        spans = [rooms[site].span_ms(self._planner.work(request, i)) for i, site in found.places.items()]
        if request.deadline_ms is not None and now_ms + wait_ms + max(spans) > request.deadline_ms:
            return NotNow()  # it would wait too long for another one's files
        for index, site in found.places.items():
            coallocation.parts[index].site = site
        coallocation.state, coallocation.start_ms = CoAllocationState.PLACED, now_ms + wait_ms
        coallocation.claim_ms = now_ms + _part_of(wait_ms, request.wait_ppm)
        coallocation.tried += 1
        return None

    # 2, 3. Claiming

    def claim(self, coallocation: CoAllocation, now_ms: int) -> Reason | None:
        """Claim machines for all components that have none, and schedule the next claim.

        Returns why one of them has still none, None if all have theirs.
        """
        why_not: Reason | None = None
        missing = [one for one in self._leases.open_leases(coallocation) if one[1].state is LeaseState.HELD]
        for index, lease in sorted(missing, key=lambda one: (-one[1].vms, one[0])):
            why_not = self._claim_one(coallocation, index, lease, now_ms) or why_not
        left_ms = coallocation.start_ms - now_ms
        again_ms = max(_part_of(left_ms, coallocation.request.wait_ppm), SOONEST_AGAIN_MS)
        coallocation.claim_ms = min(now_ms + again_ms, coallocation.start_ms)
        return why_not

    def _claim_one(self, coallocation: CoAllocation, index: int, lease: Lease, now_ms: int) -> Reason | None:
        part, refusals = coallocation.parts[index], set[tuple[int, str]]()
        policy = _rather_at(part.site, placement_policy(coallocation.request.place))
        window = claimed_now(part.site, coallocation.start_ms, now_ms, coallocation.request.deadline_ms)
        while True:
            looking = Assigner(self._planner.rooms(now_ms), policy, window, self._planner.budget)
            found = self._planner.find(coallocation.request, {index: lease}, looking, now_ms, refusals)
            if found.places is None:
                return Reason.NO_COMMON_ROOM if found.breach is None else found.breach.reason
            site = found.places[index]
            if self._claims.claim(lease, site, coallocation.start_ms - now_ms, now_ms) is None:
                part.site, part.claimed_ms = site, now_ms
                return None
            refusals.add((index, site))

    # 4. Giving back

    def give_back(self, coallocation: CoAllocation, now_ms: int) -> None:
        """Give back whatever was claimed: this try has failed."""
        for index, part in enumerate(coallocation.parts):
            count_idle(coallocation, index, now_ms)
            part.site = ""
        for _, lease in list(self._leases.open_leases(coallocation)):
            if lease.state is not LeaseState.HELD:
                self._claims.end(lease, Reason.CLAIM_RELEASED, now_ms)
        coallocation.state, coallocation.start_ms = CoAllocationState.HELD, UNPLANNED

    # A component that lost its machines while it ran

    def replace(self, coallocation: CoAllocation, index: int, lease: Lease, now_ms: int) -> bool:
        """Give a component machines at once, in place of those that it lost; whether there are any."""
        policy, refusals = placement_policy(coallocation.request.place), set[tuple[int, str]]()
        window = at_once(now_ms, coallocation.request.deadline_ms)
        while True:
            rooms = self._planner.rooms(now_ms)
            looking = Assigner(rooms, policy, window, self._planner.budget)
            found = self._planner.find(coallocation.request, {index: lease}, looking, now_ms, refusals)
            if found.places is None:
                return False
            site = found.places[index]
            waits_ms = rooms[site].transfer_ms(coallocation.request.components[index])
            if self._claims.claim(lease, site, waits_ms, now_ms) is None:
                coallocation.parts[index].site = site
                return True
            refusals.add((index, site))


def count_idle(coallocation: CoAllocation, index: int, now_ms: int) -> None:
    """Add what a component held idle until now, or until the common start."""
    part = coallocation.parts[index]
    if part.claimed_ms >= 0:
        idle_ms = min(now_ms, coallocation.start_ms) - part.claimed_ms
        coallocation.idle_vm_ms += coallocation.request.components[index].vms * max(0, idle_ms)
        part.claimed_ms = UNPLANNED


def _part_of(span_ms: int, ppm: int) -> int:
    return -(-span_ms * ppm // MILLION)


def _rather_at(site: str, policy: PlacementPolicy) -> PlacementPolicy:
    """Rank as a policy does, but where a component is placed already before all others."""
    return lambda option: (option.site != site, *policy(option))
