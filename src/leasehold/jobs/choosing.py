"""Where could a job run now? Nodes, or machines on hosts, all at one site, or why nowhere."""

from collections.abc import Container, Iterable, Sequence
from itertools import groupby

from leasehold.jobs.floor import site_of
from leasehold.jobs.job import Place
from leasehold.jobs.office import Office
from leasehold.matching.assignment.graph import Edge
from leasehold.matching.assignment.resource_sets import InTurn
from leasehold.matching.choice import Chooser, Ground, Physical
from leasehold.matching.hosts import judge_hosts
from leasehold.matching.needs import Job
from leasehold.matching.satisfying import Moment
from leasehold.matching.verdict import Answer, Verdict, Why, nearness, never, wait

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

    def moment(self, now_ms: int) -> Moment:
        """Say when nodes are judged, and how old what is known of them may be."""
        return Moment(now_ms, self._settings.fresh_for_ms or FOR_EVER_MS)

    def find(self, job: Job, now_ms: int, without: Container[str] = ()) -> Place | Verdict:
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

    def all_edges(self, job: Job, ground: Ground, like: Place, now_ms: int) -> list[Edge]:
        """List all nodes that would do now, or all hosts of machines with an image; the best first."""
        if isinstance(like, Physical):
            return list(InTurn(ground.index, self.moment(now_ms), None).edges(job, ()))
        hosts, making = ground.hosts.values(), self._settings.making
        return judge_hosts(job, like.image, hosts, self._network, self.moment(now_ms), making)[0]

    def may_come(self, job: Job, now_ms: int) -> bool:
        """Whether a job that can run nowhere could, if nodes that fell came back."""
        if not any(out.fault for out in self._floor.out.values()):
            return False
        found = self._best([self._floor.with_fallen()], job, now_ms)
        return not isinstance(found, Verdict) or found.answer is not Answer.NEVER

    def _grounds(self, job: Job) -> list[Ground]:
        if job.needs.nodes == 1:
            return [self._floor.whole]
        return [ground for _, ground in sorted(self._floor.sites.items())] or [self._floor.whole]

    def _best(
        self, grounds: Iterable[Ground], job: Job, now_ms: int, without: Container[str] = ()
    ) -> Place | Verdict:
        moment = self.moment(now_ms)
        choosers = [self._chooser(ground, now_ms) for ground in grounds]
        nodes = [found for one in choosers if (found := one.physical(job, moment, without))]
        if nodes:
            return min(nodes, key=_time)
        lacking = [one.physical_verdict(job, moment, without) for one in choosers]
        nearest = max(lacking, key=_hope, default=wait(Why.FACTS_TOO_OLD))
        if nearest.answer is not Answer.NEVER:
            return nearest
        return _first(one.virtual(job, moment, nearest, without) for one in choosers)

    def _chooser(self, ground: Ground, now_ms: int) -> Chooser:
        chooser = Chooser.over(ground, self._images.catalogue, self._network, self._settings.choosing)
        chooser.warm = lambda image: self._warmth.hosts(image, now_ms)
        return chooser


def _first(made: Iterable[Place | Verdict]) -> Place | Verdict:
    """Give the place where a job can begin first, or the most hopeful verdict."""
    listed = list(made)
    places = [found for found in listed if not isinstance(found, Verdict)]
    if places:
        return min(places, key=_time)
    return max((found for found in listed if isinstance(found, Verdict)), key=_hope)


def _hope(verdict: Verdict) -> tuple[Answer, tuple[int, str]]:
    return verdict.answer, nearness(verdict)


def _time(place: Place) -> tuple[int, int, tuple[str, ...]]:
    """Order places: by when the last of its nodes can begin, by the time of all, by names."""
    edges = place.nodes if isinstance(place, Physical) else place.hosts
    weights_ms = [edge.weight_ms for edge in edges]
    return max(weights_ms), sum(weights_ms), tuple(edge.node for edge in edges)
