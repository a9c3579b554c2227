"""Which places make a job as sure as it asks to be? One, copies that run along, or one that stands by.

Rule: of all places that would do now, `leasehold.matching.reliability.cheapest_plan` takes the cheapest
that reach what is asked. A job of several nodes is lost with any of them, so its places are sets of nodes of
one site, the surest nodes together; what is printed for k of m nodes would need a command that goes on
without one of its nodes. If what is free now is not sure enough, and all nodes would be if they were free,
the job waits; if not even these were, it is refused, and told what can be had at most. A job that has begun
and lost its place is not refused any more: it takes the surest places that there are.
Source: Thamarai Selvi et al., section 5; the rates of failures are those that were learnt.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import groupby
from operator import attrgetter

from leasehold.jobs.choosing import Choosing, are_down
from leasehold.jobs.floor import site_of
from leasehold.jobs.job import JobRecord, Place, has_lost_a_place
from leasehold.jobs.office import Office
from leasehold.jobs.places import Placing, edges_of
from leasehold.matching.assignment import Edge
from leasehold.matching.choice import NodePool, Physical, Virtual
from leasehold.matching.reliability import CandidateNode, CopyMode, CopyPlan, PlanSearch, ReliabilityGoal, cheapest_plan
from leasehold.matching.verdict import Why, never, wait

MS_PER_S = 1000
SETS_LOOKED_AT = 2_000
"""Sets of hot copies for one job: some hundredths of a second."""


class Sureness:
    """Plans for jobs that ask for a reliability."""

    def __init__(self, office: Office, choosing: Choosing) -> None:
        self._settings = office.settings
        self._watching = office.watching
        self._floor = office.floor
        self._choosing = choosing

    def place(self, record: JobRecord, like: Place, now_ms: int) -> Placing:
        """Give the places at which a job begins; ``like`` is one that would do, and says of which kind."""
        places = self._places(record, like, self._floor.whole, now_ms)
        planned = self._plan(record, places, now_ms)
        plan = planned.plan
        if plan is None and has_lost_a_place(record):
            plan = planned.surest
        if plan is not None:
            return _placing(plan, places)
        if has_lost_a_place(record):
            return Placing((like,))
        return self._none(record, like, planned, now_ms)

    def _none(self, record: JobRecord, like: Place, planned: PlanSearch, now_ms: int) -> Placing:
        """Say whether what is free later would be sure enough."""
        idle = self._places(record, like, self._floor.idle(), now_ms)
        hoped = self._plan(record, idle, now_ms)
        best = max((_sure(one) for one in (planned, hoped)), default=0.0)
        what = f"{at_most(best)} at most"
        if hoped.plan is not None:
            return Placing(verdict=wait(Why.RELIABILITY_OUT_OF_REACH, what), surest=_sure(planned))
        if self._floor.down():
            with_down = self._places(record, like, self._floor.idle(down=True), now_ms)
            if self._plan(record, with_down, now_ms).plan is not None:
                return Placing(verdict=are_down([*self._floor.down()]), surest=_sure(planned))
        return Placing(verdict=never(Why.RELIABILITY_OUT_OF_REACH, what), surest=best)

    def _plan(self, record: JobRecord, places: dict[str, Place], now_ms: int) -> PlanSearch:
        request = record.request
        if request.reliability is None or request.job.deadline_ms is None:
            raise ValueError("only for a job that asks for a reliability by a deadline")
        asked = ReliabilityGoal(
            request.reliability,
            (request.job.deadline_ms - now_ms) / MS_PER_S,
            spares=self._settings.spares,
            takeover_s=self._settings.takeover_ms / MS_PER_S,
            looked_at=SETS_LOOKED_AT,
            restarts=request.restarts - record.restarts,
        )
        return cheapest_plan((self._candidate(record, name, place) for name, place in places.items()), asked)

    def _candidate(self, record: JobRecord, name: str, place: Place) -> CandidateNode:
        """Take a place as one node that fails when any of its nodes does."""
        edges = edges_of(place)
        needs_ms = max(edge.weight_ms for edge in edges) + record.request.job.needs.execution_ms
        if isinstance(place, Virtual):
            needs_ms += self._settings.making.boot_ms
        rate_per_s = math.fsum(self._watching.rate(edge.node).mean_per_s for edge in edges)
        needs_s = needs_ms / MS_PER_S
        return CandidateNode(name, rate_per_s, needs_s, len(edges) * _undone(rate_per_s * needs_s))

    def _places(self, record: JobRecord, like: Place, ground: NodePool, now_ms: int) -> dict[str, Place]:
        """Give all places of a kind that do not overlap, by the names of their nodes."""
        job = record.request.job
        edges = self._choosing.all_edges(job, ground, like, now_ms)
        if job.needs.nodes == 1:
            edges = self._few_of_each(edges)
        places = {}
        for chosen in self._sets(edges, job.needs.nodes):
            name = "+".join(edge.node for edge in chosen)
            places[name] = Physical(chosen) if isinstance(like, Physical) else Virtual(chosen, like.image)
        return places

    def _few_of_each(self, edges: Iterable[Edge]) -> list[Edge]:
        """Keep of nodes that are as near and as sure as each other no more than a plan can have.

        No other plan comes of it: of such nodes `cheapest_plan` takes the first by name.
        """
        alike: dict[tuple[int, float, int], list[Edge]] = {}
        for edge in edges:
            alike.setdefault((edge.weight_ms, *self._watching.counted(edge.node)), []).append(edge)
        most = 1 + self._settings.spares
        return [edge for few in alike.values() for edge in nsmallest(most, few, key=attrgetter("node"))]

    def _sets(self, edges: Sequence[Edge], size: int) -> Iterator[tuple[Edge, ...]]:
        """Put nodes of a site together, the surest first, then the nearest."""
        by_site = sorted(edges, key=lambda edge: (site_of(edge.node), self._rate(edge), edge))
        for _, listed in groupby(by_site, key=lambda edge: site_of(edge.node)):
            few = tuple(listed)
            for begin in range(0, len(few) - size + 1, size):
                yield few[begin : begin + size]

    def _rate(self, edge: Edge) -> float:
        return self._watching.rate(edge.node).mean_per_s


def _placing(plan: CopyPlan, places: dict[str, Place]) -> Placing:
    chosen = tuple(places[name] for name in plan.nodes)
    if plan.mode is CopyMode.COLD:
        return Placing(chosen[:1], surest=plan.reliability, standby=chosen[1])
    return Placing(chosen, surest=plan.reliability)


def _undone(expected: float) -> float:
    """Give the price at which a place costs its whole time: none is cheaper for failing soon."""
    return expected / -math.expm1(-expected)


def _sure(planned: PlanSearch) -> float:
    return planned.surest.reliability if planned.surest else 0.0


def at_most(reliability: float) -> str:
    """Write a reliability with as many digits as tell it from certainty, never more than it is."""
    missing = max(1.0 - reliability, 1e-12)
    digits = max(4, 2 - math.floor(math.log10(missing)))
    return f"{math.floor(reliability * 10**digits) / 10**digits:.{digits}f}"
