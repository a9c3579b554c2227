"""Claiming by advance reservation: all components are promised their room for the earliest common start.

The start is looked for on the sites' full plans, in which everybody is booked. A new start can become
possible only where room comes free at some site, where files arrive, or where an agreement allows it again;
so only those times are tried, in their order. A component that its site refuses is placed again. Where none
will have it, whatever was promised is called off, and the next start is tried, as often as the request says.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from leasehold.gateway.coallocation.assigning import Assigner
from leasehold.gateway.coallocation.claims import Claims
from leasehold.gateway.coallocation.crew import Crew
from leasehold.gateway.coallocation.placement.registry import placement_policy
from leasehold.gateway.coallocation.planner import Found, Planner
from leasehold.gateway.coallocation.rooms import Room
from leasehold.gateway.coallocation.tried import Never, NotNow, Tried
from leasehold.gateway.coallocation.windows import all_from
from leasehold.model.agreement import Breach
from leasehold.model.joint import Joint, JointState
from leasehold.model.lease import UNPLANNED, LeaseState
from leasehold.model.reason import NEVER, Reason


class _Starts:
    """Times to be tried, the earliest first, each once."""

    def __init__(self, starts_ms: list[int]) -> None:
        self._left = starts_ms.copy()
        self._known = set(starts_ms)
        heapify(self._left)

    def next_ms(self) -> int | None:
        return heappop(self._left) if self._left else None

    def add(self, at_ms: int | None) -> None:
        """Try that time, too: an agreement allows it from then on, as at another hour of the day."""
        if at_ms is not None and at_ms not in self._known:
            self._known.add(at_ms)
            heappush(self._left, at_ms)


class Reserving:
    """Reserves room for joint requests."""

    def __init__(self, planner: Planner, claims: Claims, crew: Crew) -> None:
        """Begin."""
        self._planner = planner
        self._claims = claims
        self._crew = crew

    def reserve(self, joint: Joint, now_ms: int) -> Tried:
        """Have all components promised their room, for as early a start as there is."""
        rooms = self._planner.rooms(now_ms)
        starts = _Starts(self._planner.starts(joint.request, rooms, now_ms))
        breach: Breach | None = None
        while joint.tried < joint.request.tries and (start_ms := starts.next_ms()) is not None:
            found = self._reserve_from(joint, rooms, start_ms, now_ms)
            if found.places is not None:
                self._be_reserved(joint, found.places, start_ms)
                return None
            if found.breach is not None:
                breach = breach or found.breach
                starts.add(found.breach.next_ms)
        if joint.tried < joint.request.tries and _may_change(breach, all_lend=self._planner.all_lend):
            return NotNow(breach)
        return Never(Reason.NO_COMMON_ROOM if breach is None else breach.reason, breach)

    def _reserve_from(self, joint: Joint, rooms: Mapping[str, Room], start_ms: int, now_ms: int) -> Found:
        """Try one start, with as many ways to place the components as it takes."""
        request, barred = joint.request, set[tuple[int, str]]()
        policy, window = placement_policy(request.place), all_from(start_ms, now_ms, request.deadline_ms)
        while True:
            leases = dict(self._crew.open_leases(joint))
            looking = Assigner(rooms, policy, window)
            found = self._planner.find(request, leases, looking, now_ms, barred, start_ms)
            if found.places is None:
                joint.tried += bool(barred)
                return found
            refused = self._promise_all(joint, found.places, start_ms, now_ms)
            if refused is None:
                return found
            barred.add(refused)

    def _promise_all(
        self, joint: Joint, places: Mapping[int, str], start_ms: int, now_ms: int
    ) -> tuple[int, str] | None:
        """Have every component promised its room, or none; returns who was refused, and where."""
        for index, lease in self._crew.open_leases(joint):
            if self._claims.promise(lease, places[index], start_ms, now_ms) is not None:
                self.call_off(joint, now_ms)
                return index, places[index]
        return None

    def _be_reserved(self, joint: Joint, places: Mapping[int, str], start_ms: int) -> None:
        for index, site in places.items():
            joint.parts[index].site = site
        joint.state, joint.start_ms = JointState.RESERVED, start_ms

    def call_off(self, joint: Joint, now_ms: int) -> None:
        """Give back whatever was promised: the components wait at the gateway again."""
        for index, lease in self._crew.open_leases(joint):
            if lease.state is LeaseState.WAITING:
                self._claims.call_off(lease, joint.request.ready_ms, now_ms)
            joint.parts[index].site = ""
        joint.state, joint.start_ms = JointState.HELD, UNPLANNED

    def keep(self, joint: Joint, now_ms: int) -> bool:
        """See that all are promised the same start, or call them off; whether they are.

        After a long absence each site has planned for itself.
        """
        promised_ms = {lease.reserved_ms for _, lease in self._crew.open_leases(joint)}
        if len(promised_ms) == 1:
            joint.start_ms = max(promised_ms)
            return True
        self.call_off(joint, now_ms)
        return False


def _may_change(breach: Breach | None, *, all_lend: bool) -> bool:
    """Whether there may be a start later on, though there is none in all plans now."""
    return not all_lend if breach is None else breach.reason not in NEVER
