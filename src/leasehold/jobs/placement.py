"""Where could a job run now, and where does it begin? Nodes, or machines on hosts, all at one site, or why nowhere.

In this order: as reliable as it is asked to be; a machine where its software was lost; nodes that have offered
themselves, for a job that waits or has lost its place; the best place that there is. Hot copies are placed as far as
there is room for them, each on nodes that no other has.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import chain, groupby
from operator import attrgetter

from leasehold.jobs.events import Turn
from leasehold.jobs.job import (
    Backup,
    Fault,
    JobPlacement,
    JobReason,
    JobRecord,
    JobState,
    Place,
    edges_of,
    has_lost_a_place,
    hops_to,
    is_too_late,
    names_of,
    recipe_of,
    site_of,
)
from leasehold.jobs.settings import Matching
from leasehold.jobs.state import SchedulerState
from leasehold.matching.assignment import Edge, optimal
from leasehold.matching.choice import Chooser, NodePool, Physical, Virtual, judge_hosts
from leasehold.matching.needs import Job, Needs
from leasehold.matching.nodes import EvaluationTime
from leasehold.matching.reliability import CandidateNode, CopyMode, CopyPlan, PlanSearch, ReliabilityGoal, cheapest_plan
from leasehold.matching.resource_sets import JointResourceSets, SequentialResourceSets
from leasehold.matching.verdict import Feasibility, Verdict, Why, nearness, never, wait
from leasehold.model.request import GPU_MILLI
from leasehold.model.resources import gpus_text

_NAMED = 3
"""So many nodes that are down are named."""

_SIZES = frozenset(
    {
        Why.TOO_FEW_CORES,
        Why.TOO_LITTLE_MEMORY,
        Why.CPU_TOO_SLOW,
        Why.TOO_LITTLE_DISK,
        Why.TOO_FEW_GPUS,
        Why.TOO_FEW_NODES,
        Why.NO_HOST,
    }
)
"""Reasons why a job is too large."""

FOR_EVER_MS = 10**15
"""How long facts are fresh that never grow old: less than the age of what is in doubt."""


class PlaceFinder:
    """Rules of matching on the nodes: a job of one node looks at all sites at once, others at each alone.

    Rule: nodes before machines. If at any site so many nodes have what is needed, used by others or not,
    no machine is built anywhere. Of several sites the one with the least time until all nodes can begin is
    taken, then the least in all, then the first by name. Where the lease of a job would wait by the plan of that site,
    this wait counts too, and the best place at each other site is compared with it. Sites that are considered only
    where the others cannot serve a job, as those of peers, are looked at afterwards, in the same way: those that are
    fewer hops away first.
    Source: Thamarai Selvi et al., sections 4.2 to 4.4, by `leasehold.matching.choice`; sites are Leasehold's.
    """

    def __init__(self, state: SchedulerState) -> None:
        self._settings = state.settings
        self._network = state.network
        self._inventory = state.inventory
        self._images = state.images
        self._warm_hosts = state.warm_hosts
        self._site_waits = state.site_waits

    def moment(self, now_ms: int) -> EvaluationTime:
        """Say when nodes are judged, and how old what is known of them may be."""
        return EvaluationTime(now_ms, self._settings.fresh_for_ms or FOR_EVER_MS)

    def find(
        self,
        job: Job,
        now_ms: int,
        without: Collection[str] = (),
        *,
        among_first: bool = False,
        offered: Collection[str] = (),
    ) -> Place | Verdict:
        """Give the best place, but for some nodes; or the two kinds of no.

        ``among_first``  only sites that are considered first
        ``offered``      nodes of the other sites that have offered themselves: they are the first of those equally far
        """
        found = self._soonest(self._grounds(job), job, now_ms, without)
        if among_first or not isinstance(found, Verdict):
            return found
        farther = self.farther(found.answer)
        for sites in farther:
            taken = self.take_offer([name for name in offered if site_of(name) in dict(sites)], job, now_ms)
            there = taken or self.find_at(sites, job, now_ms, without)
            if not isinstance(there, Verdict):
                return there
        everywhere = [*self._grounds(job), *(ground for _, ground in chain.from_iterable(farther))]
        return self._best(everywhere, job, now_ms, without) if farther else found

    def farther(self, answer: Feasibility) -> list[list[tuple[str, NodePool]]]:
        """List the sites that are considered after this answer of those that come first, equally far ones together."""
        if answer is Feasibility.FIT or self._settings.sites - self._inventory.complete:
            return []
        afar = sorted(self._inventory.sites_in(*turns_after(answer)), key=lambda one: hops_to(one[0]))
        return [[*equally_far] for _, equally_far in groupby(afar, key=lambda one: hops_to(one[0]))]

    def find_at(
        self, sites: Sequence[tuple[str, NodePool]], job: Job, now_ms: int, without: Collection[str] = ()
    ) -> Place | Verdict:
        """Give the best place at these sites alone, or the most hopeful verdict of theirs."""
        return self._soonest([ground for _, ground in sites], job, now_ms, without, sites)

    def starts_at_once(self, place: Place, job: Job, now_ms: int) -> bool:
        """Whether the lease of a job would not wait there, by the plan of the site."""
        return recipe_of(place) is not None or not self._site_waits.of(place, job, now_ms)

    def take_offer(self, offered: Collection[str], job: Job, now_ms: int) -> Place | None:
        """Give the best place on nodes that have offered themselves, if a job can begin there at once."""
        there = self.find_among(offered, job, now_ms) if offered else None
        if there is None or isinstance(there, Verdict) or not self.starts_at_once(there, job, now_ms):
            return None
        return there

    def is_first(self, site: str) -> bool:
        """Whether a site is considered before others."""
        return self._inventory.turn(site) is Turn.FIRST

    def find_among(self, names: Iterable[str], job: Job, now_ms: int) -> Place | Verdict:
        """Give the best place on these nodes alone, which may be of several sites."""
        listed = sorted(names)
        if job.needs.nodes == 1:
            return self._best([self._inventory.among(listed)], job, now_ms)
        by_site = (list(few) for _, few in groupby(listed, key=site_of))
        return self._best([self._inventory.among(few) for few in by_site], job, now_ms)

    def machines_on(self, names: Sequence[str], job: Job, now_ms: int) -> Place | Verdict:
        """Give machines on these hosts, whatever their nodes could do by themselves."""
        chooser = self._chooser(self._inventory.among(names), now_ms)
        return chooser.virtual(job, self.moment(now_ms), never(Why.SOFTWARE_NOT_THERE))

    def machines(self, job: Job, now_ms: int) -> Place | Verdict:
        """Give the best machines anywhere, whatever nodes could do when they are free."""
        choosers = [self._chooser(ground, now_ms) for ground in self._grounds(job)]
        return _first(one.virtual(job, self.moment(now_ms), wait(Why.CORES_IN_USE)) for one in choosers)

    def all_edges(self, job: Job, ground: NodePool, like: Place, now_ms: int) -> list[Edge]:
        """List all nodes that would do now, or all hosts of machines with an image; the best first."""
        if isinstance(like, Physical):
            return list(SequentialResourceSets(ground.index, self.moment(now_ms), None).edges(job, ()))
        hosts, making = ground.hosts.values(), self._settings.making
        return judge_hosts(job, like.image, hosts, self._network, self.moment(now_ms), making)[0]

    def hopeful(self, job: Job, verdict: Verdict, now_ms: int) -> Verdict:
        """Say *not now* instead of *never here* where nodes that are down would do; else what is too much."""
        if verdict.answer is not Feasibility.NEVER:
            return verdict
        return self.waits_for_nodes(job, now_ms) or self._sized(job, verdict, now_ms)

    def waits_for_nodes(self, job: Job, now_ms: int) -> Verdict | None:
        """Say which nodes could run a job if they were up, where it could run with them; None for none."""
        down = self._inventory.down()
        names: list[str] = []
        for site in sorted({site_of(name) for name in down}):
            ground = self._inventory.with_down(site)
            found = self._best([ground], job, now_ms)
            if not isinstance(found, Verdict) or found.answer is not Feasibility.NEVER:
                names += sorted(self._able(job, ground, now_ms) & down.keys())
        return are_down(names) if names else None

    def _able(self, job: Job, ground: NodePool, now_ms: int) -> set[str]:
        """Name the nodes that could serve a job by themselves or as hosts, be they in use or down."""
        moment, images = self.moment(now_ms), self._images.catalogue.find(job.needs.software)
        chooser = self._chooser(ground, now_ms)
        able = {
            node.name
            for node in ground.index.nodes()
            if chooser.judge(job, node, moment).answer is not Feasibility.NEVER
        }
        for image in images:
            hosts, making = ground.hosts.values(), self._settings.making
            _, verdicts = judge_hosts(job, image, hosts, self._network, moment, making)
            able |= {name for name, verdict in verdicts.items() if verdict.answer is not Feasibility.NEVER}
        return able

    def _sized(self, job: Job, verdict: Verdict, now_ms: int) -> Verdict:
        """Say of a job that is too large what it asks for too much of, and how much there is at most."""
        if verdict.why not in _SIZES:
            return verdict
        needs, nodes = job.needs, self._inventory.nodes()
        sizes = (
            (needs.amounts.cores, "cores", "total.cores", Why.TOO_FEW_CORES),
            (needs.amounts.memory_mib, "MiB", "total.memory_mib", Why.TOO_LITTLE_MEMORY),
            (needs.cpu_mhz, "MHz", "cpu_mhz", Why.CPU_TOO_SLOW),
            (needs.amounts.disk_mib, "MiB", "total.disk_mib", Why.TOO_LITTLE_DISK),
            (len(needs.amounts.gpus), "GPUs", "gpus", Why.TOO_FEW_GPUS),
        )
        for amount, unit, which, why in sizes:
            size = attrgetter(f"capabilities.{which}")
            if any(size(node) >= amount for node in nodes):
                continue  # nearly always, and at the first look
            most = max(map(size, nodes), default=0)
            if amount > most:
                there = f"more than {most} {unit}" if most else "any"
                asked = _gpus(needs) if why is Why.TOO_FEW_GPUS else f"{amount} {unit}"
                return never(why, f"asks for {asked} on each node, and none has {there}")
        grounds = [self._inventory.with_down(site) for site in sorted(self._inventory.sites)]
        most = max((self._how_many_able(job, ground, now_ms) for ground in grounds), default=0)
        if 0 < most < needs.nodes or needs.nodes > len(nodes):
            return never(Why.TOO_FEW_NODES, f"asks for {needs.nodes}, and no site has more than {most} that would do")
        return verdict

    def _how_many_able(self, job: Job, ground: NodePool, now_ms: int) -> int:
        """Count the nodes of `_able`."""
        if ground.hosts and self._images.catalogue.find(job.needs.software):
            return len(self._able(job, ground, now_ms))
        chooser, moment = self._chooser(ground, now_ms), self.moment(now_ms)
        kinds = ground.index.kinds()
        return sum(c for node, c in kinds if chooser.judge(job, node, moment).answer is not Feasibility.NEVER)

    def _grounds(self, job: Job) -> list[NodePool]:
        if job.needs.nodes == 1:
            return [self._inventory.whole]
        return [ground for _, ground in self._inventory.sites_in(Turn.FIRST)] or [self._inventory.whole]

    def _best(
        self, grounds: Iterable[NodePool], job: Job, now_ms: int, without: Collection[str] = ()
    ) -> Place | Verdict:
        moment = self.moment(now_ms)
        choosers = [self._chooser(ground, now_ms) for ground in grounds]
        nodes = [found for one in choosers if (found := one.physical(job, moment, without))]
        if nodes:
            return min(nodes, key=_time)
        lacking = [one.physical_verdict(job, moment, without) for one in choosers]
        nearest = max(lacking, key=_hope, default=wait(Why.FACTS_TOO_OLD))
        if nearest.answer is not Feasibility.NEVER:
            return nearest
        return _first(one.virtual(job, moment, nearest, without) for one in choosers)

    def _soonest(
        self,
        grounds: Iterable[NodePool],
        job: Job,
        now_ms: int,
        without: Collection[str],
        sites: Iterable[tuple[str, NodePool]] | None = None,
    ) -> Place | Verdict:
        """Give the best place; where its lease would wait there, one like it at another site where it waits less.

        Only then are other sites looked at, ``sites`` or all that are considered first: mostly, one plan is asked.
        """
        found = self._best(grounds, job, now_ms, without)
        if isinstance(found, Verdict) or self.starts_at_once(found, job, now_ms):
            return found
        there = site_of(names_of(found)[0])
        if sites is None:
            sites = self._inventory.sites_in(Turn.FIRST)
        others = [self._best([ground], job, now_ms, without) for name, ground in sites if name != there]
        alike = (one for one in others if type(one) is type(found) and recipe_of(one) is None)
        return min((found, *alike), key=lambda place: (self._begins_in_ms(place, job, now_ms), *_time(place)))

    def _begins_in_ms(self, place: Place, job: Job, now_ms: int) -> int:
        """When the last of its nodes can begin: the wait of attempts there is a part of the wait in the plan."""
        wait_ms, known_ms = self._site_waits.of(place, job, now_ms), self._inventory.waiting_ms
        return max(edge.weight_ms + max(0, wait_ms - known_ms(edge.node)) for edge in edges_of(place))

    def _chooser(self, ground: NodePool, now_ms: int) -> Chooser:
        chooser = Chooser.over(ground, self._images.catalogue, self._network, self._settings.choosing)
        chooser.warm = lambda image: self._warm_hosts.hosts(image, now_ms)
        return chooser


def turns_after(answer: Feasibility) -> tuple[Turn, ...]:
    """Say which sites are considered, too, where those that come first give this answer."""
    if answer is Feasibility.FIT:
        return ()
    return (Turn.NONE_CAN_NOW, Turn.NONE_CAN) if answer is Feasibility.NEVER else (Turn.NONE_CAN_NOW,)


def are_down(names: Sequence[str]) -> Verdict:
    """Say that nodes are waited for; where they are many, the first are named."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return wait(Why.NODES_DOWN, ", ".join(names[:_NAMED]) + more)


def _first(made: Iterable[Place | Verdict]) -> Place | Verdict:
    """Give the place where a job can begin first, or the most hopeful verdict."""
    listed = list(made)
    places = [found for found in listed if not isinstance(found, Verdict)]
    if places:
        return min(places, key=_time)
    return max((found for found in listed if isinstance(found, Verdict)), key=_hope)


def _hope(verdict: Verdict) -> tuple[Feasibility, tuple[int, str]]:
    return verdict.answer, nearness(verdict)


def _time(place: Place) -> tuple[int, int, tuple[str, ...]]:
    """Order places: by when the last of its nodes can begin, by the time of all, by names."""
    edges = place.nodes if isinstance(place, Physical) else place.hosts
    weights_ms = [edge.weight_ms for edge in edges]
    return max(weights_ms), sum(weights_ms), tuple(edge.node for edge in edges)


MS_PER_S = 1000
SETS_LOOKED_AT = 2_000
"""Sets of hot copies for one job: some hundredths of a second."""


class ReliabilityPlanner:
    """Plans for jobs that ask for a reliability: one place, parallel (hot) copies, or a cold standby.

    Rule: of all places that would do now, `leasehold.matching.reliability.cheapest_plan` takes the cheapest that reach
    what is asked. A job of several nodes is lost with any of them, so its places are sets of nodes of one site, the
    most reliable nodes together; the published k-of-m formula would need a command that survives the loss of one of
    its nodes. Sites that are considered only where the others cannot serve a job, as those of peers, are added where a
    plan without them is not reliable enough, those that are fewer hops away first; the copies of one job may then run
    at several. If what is free now is not reliable enough, and all nodes would be if they were free, the job waits; if
    not even these were, it is refused, with the highest reliability available. A job that has begun and lost its place
    is never refused: it takes the most reliable places available.
    Source: Thamarai Selvi et al., section 5; the failure rates are the learnt ones; sites are Leasehold's.
    """

    def __init__(self, state: SchedulerState, finder: PlaceFinder) -> None:
        self._settings = state.settings
        self._failures = state.failures
        self._inventory = state.inventory
        self._finder = finder

    def place(self, record: JobRecord, first: Place | Verdict, now_ms: int) -> JobPlacement:
        """Give the places at which a job begins.

        ``first`` is one among the sites that are considered first, and says of which kind places are; or why there is
        none.
        """
        job, like = record.request.job, None if isinstance(first, Verdict) else first
        places = {} if like is None else self._places(record, like, [self._inventory.whole], now_ms)
        planned = self._plan(record, places, now_ms)
        answer, nearest = self._answer(record, first, planned, now_ms), None
        farther = self._finder.farther(answer)
        for sites in farther:
            if planned.plan is not None:
                break
            there = self._finder.find_at(sites, job, now_ms)
            if not isinstance(there, Verdict):
                nearest = nearest or there
                places |= self._places(record, there, [ground for _, ground in sites], now_ms)
                planned = self._plan(record, places, now_ms)
        if planned.plan is not None:
            return _placing(planned.plan, places)
        if isinstance(first, Verdict) and nearest is None:
            found = self._finder.find(job, now_ms) if farther else first
            verdict = found if isinstance(found, Verdict) else first
            return JobPlacement(verdict=self._finder.hopeful(job, verdict, now_ms))
        if has_lost_a_place(record):
            left = JobPlacement(tuple(one for one in (like, nearest) if one is not None)[:1])
            return left if planned.surest is None else _placing(planned.surest, places)
        if isinstance(first, Verdict) and first.answer is not Feasibility.NEVER:
            return JobPlacement(verdict=first)
        return self._none(record, like, nearest, planned, turns_after(answer), now_ms)

    def answer_of_first(self, record: JobRecord, first: Place | Verdict, now_ms: int) -> Feasibility:
        """Say whether the sites that are considered first are sure enough now, would be if they were free, or never."""
        places = {} if isinstance(first, Verdict) else self._places(record, first, [self._inventory.whole], now_ms)
        return self._answer(record, first, self._plan(record, places, now_ms), now_ms)

    def _answer(self, record: JobRecord, first: Place | Verdict, planned: PlanSearch, now_ms: int) -> Feasibility:
        if isinstance(first, Verdict):
            return first.answer
        if planned.plan is not None:
            return Feasibility.FIT
        hoped = self._plan(record, self._places(record, first, [self._inventory.idle()], now_ms), now_ms)
        return Feasibility.NEVER if hoped.plan is None else Feasibility.WAIT

    def _none(
        self,
        record: JobRecord,
        like: Place | None,
        nearest: Place | None,
        planned: PlanSearch,
        farther: Collection[Turn],
        now_ms: int,
    ) -> JobPlacement:
        """Say whether what is free later would be sure enough, at the sites that come first and those farther away."""
        kinds = ((like, (Turn.FIRST,)), (nearest or Physical(()), farther))

        def idle(*, down: bool) -> dict[str, Place]:
            found: dict[str, Place] = {}
            for kind, turns in kinds:
                if kind is not None and turns:
                    found |= self._places(record, kind, [self._inventory.idle(turns, down=down)], now_ms)
            return found

        hoped = self._plan(record, idle(down=False), now_ms)
        best = max((_sure(one) for one in (planned, hoped)), default=0.0)
        what = f"{at_most(best)} at most"
        if hoped.plan is not None:
            return JobPlacement(verdict=wait(Why.RELIABILITY_OUT_OF_REACH, what), surest=_sure(planned))
        turns = {Turn.FIRST, *farther}
        down = [name for name in self._inventory.down() if self._inventory.turn(site_of(name)) in turns]
        if down and self._plan(record, idle(down=True), now_ms).plan is not None:
            return JobPlacement(verdict=are_down(down), surest=_sure(planned))
        return JobPlacement(verdict=never(Why.RELIABILITY_OUT_OF_REACH, what), surest=best)

    def _plan(self, record: JobRecord, places: dict[str, Place], now_ms: int) -> PlanSearch:
        request = record.request
        if request.reliability is None or request.job.deadline_ms is None:
            raise ValueError("only for a job that asks for a reliability by a deadline")
        goal = ReliabilityGoal(
            request.reliability,
            (request.job.deadline_ms - now_ms) / MS_PER_S,
            spares=self._settings.spares,
            takeover_s=self._settings.takeover_ms / MS_PER_S,
            looked_at=SETS_LOOKED_AT,
            restarts=request.restarts - record.restarts,
        )
        return cheapest_plan((self._candidate(record, name, place) for name, place in places.items()), goal)

    def _candidate(self, record: JobRecord, name: str, place: Place) -> CandidateNode:
        """Take a place as one node that fails when any of its nodes does."""
        edges = edges_of(place)
        needs_ms = max(edge.weight_ms for edge in edges) + record.request.job.needs.execution_ms
        if isinstance(place, Virtual):
            needs_ms += self._settings.making.boot_ms
        rate_per_s = math.fsum(self._failures.rate(edge.node).mean_per_s for edge in edges)
        needs_s = needs_ms / MS_PER_S
        return CandidateNode(name, rate_per_s, needs_s, len(edges) * _undone(rate_per_s * needs_s))

    def _places(self, record: JobRecord, like: Place, grounds: Iterable[NodePool], now_ms: int) -> dict[str, Place]:
        """Give all places of a kind that do not overlap, by the names of their nodes."""
        job = record.request.job
        edges = [edge for ground in grounds for edge in self._finder.all_edges(job, ground, like, now_ms)]
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
            alike.setdefault((edge.weight_ms, *self._failures.counted(edge.node)), []).append(edge)
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
        return self._failures.rate(edge.node).mean_per_s


def _gpus(needs: Needs) -> str:
    unit = "GPUs" if needs.gpu_milli > GPU_MILLI else "GPU"
    return f"{gpus_text('', needs.gpu_milli)} {unit}"


def _placing(plan: CopyPlan, places: dict[str, Place]) -> JobPlacement:
    chosen = tuple(places[name] for name in plan.nodes)
    if plan.mode is CopyMode.COLD:
        return JobPlacement(chosen[:1], surest=plan.reliability, standby=chosen[1])
    return JobPlacement(chosen, surest=plan.reliability)


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


class Placer:
    """Decides, and changes nothing."""

    def __init__(self, state: SchedulerState, finder: PlaceFinder) -> None:
        self._settings = state.settings
        self._offers = state.offers
        self.finder = finder
        self._reliability = ReliabilityPlanner(state, finder)

    def place(self, record: JobRecord, now_ms: int) -> JobPlacement:
        """Say where a job begins."""
        if record.request.reliability is not None:
            return self._surely(record, now_ms)
        first = self.one(record, now_ms)
        if isinstance(first, Verdict):
            return JobPlacement(verdict=self.finder.hopeful(record.request.job, first, now_ms))
        return JobPlacement((first, *self._copies(record, first, now_ms)))

    def answer_of_first(self, record: JobRecord, now_ms: int) -> Feasibility:
        """Say what the sites that are considered first answer to a job as a whole: yes, not now, or never."""
        first = self.one(record, now_ms, among_first=True)
        if record.request.reliability is None or (not isinstance(first, Verdict) and recipe_of(first) is not None):
            return first.answer if isinstance(first, Verdict) else Feasibility.FIT
        return self._reliability.answer_of_first(record, first, now_ms)

    def _surely(self, record: JobRecord, now_ms: int) -> JobPlacement:
        first = self.one(record, now_ms, among_first=True)
        if not isinstance(first, Verdict) and recipe_of(first) is not None:
            return JobPlacement((first,))
        return self._reliability.place(record, first, now_ms)

    def one(
        self, record: JobRecord, now_ms: int, without: frozenset[str] = frozenset(), *, among_first: bool = False
    ) -> Place | Verdict:
        """Give one place for a job, but for some nodes; ``among_first``: only at sites that are considered first."""
        job = record.request.job
        if not without and (lost := _where_software_was_lost(record)):
            there = self.finder.machines_on(lost, job, now_ms)
            if not isinstance(there, Verdict):
                return there
        later: list[str] = []
        if record.reason is not JobReason.SUBMITTED:
            first: list[str] = []
            for name in self._offers.names(now_ms):
                if name not in without:
                    (first if self.finder.is_first(site_of(name)) else later).append(name)
            taken = self.finder.take_offer(first, job, now_ms)
            if taken is not None:
                return taken
        return self.finder.find(job, now_ms, without, among_first=among_first, offered=later)

    def _copies(self, record: JobRecord, first: Place, now_ms: int) -> list[Place]:
        copies: list[Place] = []
        if record.request.backup is not Backup.HOT or recipe_of(first) is not None:
            return copies
        taken = set(names_of(first))
        while len(copies) < self._settings.hot_copies - 1:
            copy = self.one(record, now_ms, frozenset(taken))
            if isinstance(copy, Verdict) or recipe_of(copy) is not None:
                break
            copies.append(copy)
            taken.update(names_of(copy))
        return copies


def _where_software_was_lost(record: JobRecord) -> tuple[str, ...]:
    """Give the nodes where the last attempt found its software gone (Thamarai Selvi et al., section 4.6)."""
    if record.attempts and record.attempts[-1].fault is Fault.SOFTWARE_GONE:
        return record.attempts[-1].nodes
    return ()


class BatchMatcher:
    """Parts the jobs of a cycle into those that are matched together, so that all of them wait least, and the others.

    Rule: where the operator wants optimal matching, jobs that are adjacent in the queue are matched
    together, each node to one of them, at the least sum of transfer and waiting times; a job that gets none that way
    looks at what is left in its turn. Jobs of several nodes, which have to be of one site, jobs that ask for a
    reliability and jobs that want copies are placed alone, between those before and those behind them, so that no later
    job costs an earlier one its place.
    Source: Thamarai Selvi et al., section 4.3, by `leasehold.matching.assignment`.
    """

    def __init__(self, state: SchedulerState, placer: Placer) -> None:
        self._settings = state.settings
        self._inventory = state.inventory
        self._solve = state.solve
        self._finder = placer.finder

    def groups(self, listed: Sequence[JobRecord]) -> list[list[JobRecord]]:
        """List the groups of jobs that choose together, in the order of the queue."""
        groups: list[list[JobRecord]] = []
        for together, records in groupby(listed, key=self._may_be_matched):
            behind_each_other = list(records)
            groups += [behind_each_other] if together else [[record] for record in behind_each_other]
        return groups

    def match(self, together: Sequence[JobRecord], now_ms: int) -> dict[int, Place]:
        """Return the places of the matched jobs; a single job is not matched."""
        in_time = [record for record in together if not is_too_late(record, now_ms)]
        if len(in_time) < _TWO:
            return {}
        jobs = [record.request.job for record in in_time]
        moment = self._finder.moment(now_ms)
        graph = JointResourceSets(self._inventory.whole.index, moment, len(jobs), self._settings.best_fit)
        found = optimal(jobs, graph, self._solve)
        return {job_id: Physical(edges) for job_id, edges in found.placed.items()}

    def _may_be_matched(self, record: JobRecord) -> bool:
        request = record.request
        return (
            self._settings.matching is Matching.OPTIMAL
            and record.state is JobState.WAITING
            and request.job.needs.nodes == 1
            and request.backup is not Backup.HOT
            and request.reliability is None
            and not has_lost_a_place(record)
        )


_TWO = 2
"""As many choose together at least."""
