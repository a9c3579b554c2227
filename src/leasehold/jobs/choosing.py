"""Where could a job run now? Nodes, or machines on hosts, all at one site, or why nowhere."""

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from leasehold.jobs.floor import site_of
from leasehold.jobs.job import Place
from leasehold.jobs.office import Office
from leasehold.matching.assignment import Edge
from leasehold.matching.choice import Chooser, NodePool, Physical, judge_hosts
from leasehold.matching.needs import Job
from leasehold.matching.nodes import EvaluationTime
from leasehold.matching.resource_sets import SequentialResourceSets
from leasehold.matching.verdict import Feasibility, Verdict, Why, nearness, never, wait

_NAMED = 3
"""So many nodes that are down are named."""

_SIZES = frozenset(
    {
        Why.TOO_FEW_CORES,
        Why.TOO_LITTLE_MEMORY,
        Why.CPU_TOO_SLOW,
        Why.TOO_LITTLE_DISK,
        Why.TOO_FEW_NODES,
        Why.NO_HOST,
    }
)
"""Reasons why a job is too large."""

FOR_EVER_MS = 10**15
"""How long facts are fresh that never grow old: less than the age of what is in doubt."""


class Choosing:
    """Rules of matching on the floor: a job of one node looks at all sites at once, others at each alone.

    Rule: nodes before machines. If at any site so many nodes have what is needed, used by others or not,
    no machine is built anywhere. Of several sites the one with the least time until all nodes can begin is
    taken, then the least in all, then the first by name.
    Source: Thamarai Selvi et al., sections 4.2 to 4.4, by `leasehold.matching.choice`; sites are Leasehold's.
    """

    def __init__(self, office: Office) -> None:
        self._settings = office.settings
        self._network = office.network
        self._floor = office.floor
        self._images = office.images
        self._warmth = office.warmth

    def moment(self, now_ms: int) -> EvaluationTime:
        """Say when nodes are judged, and how old what is known of them may be."""
        return EvaluationTime(now_ms, self._settings.fresh_for_ms or FOR_EVER_MS)

    def find(self, job: Job, now_ms: int, without: Collection[str] = ()) -> Place | Verdict:
        """Give the best place, but for some nodes; or the two kinds of no."""
        return self._best(self._grounds(job), job, now_ms, without)

    def find_among(self, names: Iterable[str], job: Job, now_ms: int) -> Place | Verdict:
        """Give the best place on these nodes alone, which may be of several sites."""
        listed = sorted(names)
        if job.needs.nodes == 1:
            return self._best([self._floor.among(listed)], job, now_ms)
        by_site = (list(few) for _, few in groupby(listed, key=site_of))
        return self._best([self._floor.among(few) for few in by_site], job, now_ms)

    def machines_on(self, names: Sequence[str], job: Job, now_ms: int) -> Place | Verdict:
        """Give machines on these hosts, whatever their nodes could do by themselves."""
        chooser = self._chooser(self._floor.among(names), now_ms)
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
        down = self._floor.down()
        names: list[str] = []
        for site in sorted({site_of(name) for name in down}):
            ground = self._floor.with_down(site)
            found = self._best([ground], job, now_ms)
            if not isinstance(found, Verdict) or found.answer is not Feasibility.NEVER:
                names += sorted(self._able(job, ground, now_ms) & down.keys())
        return are_down(names) if names else None

    def _able(self, job: Job, ground: NodePool, now_ms: int) -> set[str]:
        """Name the nodes that could serve a job by themselves or as hosts, be they in use or down."""
        moment, image = self.moment(now_ms), self._images.catalogue.find(job.needs.software)
        chooser = self._chooser(ground, now_ms)
        able = {
            node.name
            for node in ground.index.nodes()
            if chooser.judge(job, node, moment).answer is not Feasibility.NEVER
        }
        if image is not None:
            hosts, making = ground.hosts.values(), self._settings.making
            _, verdicts = judge_hosts(job, image, hosts, self._network, moment, making)
            able |= {name for name, said in verdicts.items() if said.answer is not Feasibility.NEVER}
        return able

    def _sized(self, job: Job, verdict: Verdict, now_ms: int) -> Verdict:
        """Say of a job that is too large what it asks for too much of, and how much there is at most."""
        if verdict.why not in _SIZES:
            return verdict
        needs, nodes = job.needs, self._floor.nodes()
        sizes = (
            (needs.amounts.cores, "cores", "total.cores", Why.TOO_FEW_CORES),
            (needs.amounts.memory_mib, "MiB", "total.memory_mib", Why.TOO_LITTLE_MEMORY),
            (needs.cpu_mhz, "MHz", "cpu_mhz", Why.CPU_TOO_SLOW),
            (needs.amounts.disk_mib, "MiB", "total.disk_mib", Why.TOO_LITTLE_DISK),
        )
        for asked, unit, which, why in sizes:
            size = attrgetter(f"capabilities.{which}")
            if any(size(node) >= asked for node in nodes):
                continue  # nearly always, and at the first look
            most = max(map(size, nodes), default=0)
            if asked > most:
                return never(why, f"asks for {asked} {unit} on each node, and none has more than {most} {unit}")
        grounds = [self._floor.with_down(site) for site in sorted(self._floor.sites)]
        most = max((self._how_many_able(job, ground, now_ms) for ground in grounds), default=0)
        if 0 < most < needs.nodes or needs.nodes > len(nodes):
            return never(Why.TOO_FEW_NODES, f"asks for {needs.nodes}, and no site has more than {most} that would do")
        return verdict

    def _how_many_able(self, job: Job, ground: NodePool, now_ms: int) -> int:
        """Count the nodes of `_able`."""
        if ground.hosts and self._images.catalogue.find(job.needs.software) is not None:
            return len(self._able(job, ground, now_ms))
        chooser, moment = self._chooser(ground, now_ms), self.moment(now_ms)
        kinds = ground.index.kinds()
        return sum(c for node, c in kinds if chooser.judge(job, node, moment).answer is not Feasibility.NEVER)

    def _grounds(self, job: Job) -> list[NodePool]:
        if job.needs.nodes == 1:
            return [self._floor.whole]
        return [ground for _, ground in sorted(self._floor.sites.items())] or [self._floor.whole]

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

    def _chooser(self, ground: NodePool, now_ms: int) -> Chooser:
        chooser = Chooser.over(ground, self._images.catalogue, self._network, self._settings.choosing)
        chooser.warm = lambda image: self._warmth.hosts(image, now_ms)
        return chooser


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
