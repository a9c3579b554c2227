"""Physical or virtual? Which nodes run a job, or which machines are built for it, or when is it tried again?

Rule, in this order:

1. If as many physical nodes as the job asks for have what it needs, in use or not, it runs on physical nodes: on
   the best of its resource set if there is room, else it waits for one.
2. Otherwise machines are built for it: an image with the software, hosts with room for them.
3. What has to wait is tried again at set times, and refused when these are over (`Retrying`).

Source: Thamarai Selvi et al., sections 4.2 to 4.5. The printed Algorithm 2 asks for software alone in
step 1; here a node must have everything that it would not get by waiting, so that a job whose memory only
a machine on a large host can have is not kept waiting for small nodes.

Hosts for machines. Rule: a host must have room for the machine, that is the job's cores, memory and disk and what
the image needs beside, and must be fast enough; with image and files there, built and booted, the job must end
before its deadline. Of these, the n with the least time until the job can begin: waiting and transfer of image and
files. Of equal times the host with less free memory, then the one with more bandwidth, then by name. A
job of n nodes gets n different hosts. Source: section 4.4 (i): "memory required for creating VM for the job and
also the RAM of the resource", and the job transfer time. That both have to fit at once is a reading.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from leasehold.matching.assignment import Edge
from leasehold.matching.images import Image, ImageCatalogue, Recipe
from leasehold.matching.needs import InputFile, Job
from leasehold.matching.node_index import NodeIndex
from leasehold.matching.nodes import EvaluationTime, Network, Node, judge, judge_machine
from leasehold.matching.resource_sets import AS_PRINTED, BestFit, SequentialResourceSets
from leasehold.matching.verdict import SOFTWARE, Feasibility, Verdict, Why, nearness, never, wait
from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True)
class Retrying:
    """How often, and how long after submission at most, in ms. Raises InvalidField."""

    interval_ms: int = 120_000
    limit_ms: int = 360_000

    def __post_init__(self) -> None:
        """Refuse what would never be a next time."""
        if self.interval_ms < 1 or self.limit_ms < 0:
            raise InvalidField("retrying", self, "interval_ms of at least 1 and limit_ms of at least 0")

    def next_ms(self, submitted_ms: int, now_ms: int) -> int | None:
        """Give when to try again after a try that failed now, or none where that would be too late."""
        tries = max(0, now_ms - submitted_ms) // self.interval_ms + 1
        after_ms = tries * self.interval_ms
        return submitted_ms + after_ms if after_ms <= self.limit_ms else None


@dataclass(frozen=True, slots=True)
class MachineMaking:
    """What it takes to make a machine, besides room.

    ``boot_ms``      from the start of a machine until the job can begin in it
    ``image_store``  the place that images are fetched from where a host's place has none
    """

    boot_ms: int = 30_000
    image_store: str = ""


@dataclass(frozen=True, slots=True)
class FoundHosts:
    """Hosts for all machines of a job, or a verdict that says why there are none."""

    hosts: tuple[Edge, ...] = ()
    verdict: Verdict | None = None


def find_hosts(
    job: Job,
    image: Image | Recipe,
    hosts: Iterable[Node],
    network: Network,
    moment: EvaluationTime,
    making: MachineMaking,
    *,
    warm: frozenset[str] = frozenset(),
) -> FoundHosts:
    """Choose the hosts; where there are too few, say whether that is *never here* or *not now*.

    ``warm`` are hosts on which a machine with the image still runs: the others take longer by a boot.
    """
    found, verdicts = judge_hosts(job, image, hosts, network, moment, making)
    edges = _warm_first(found, warm, making) if warm else found
    if len(edges) >= job.needs.nodes:
        return FoundHosts(tuple(edges[: job.needs.nodes]))
    return FoundHosts(verdict=_why_none(verdicts, job.needs.nodes))


def _warm_first(edges: Iterable[Edge], warm: frozenset[str], making: MachineMaking) -> list[Edge]:
    cold_ms = making.boot_ms
    return sorted(edge if edge.node in warm else edge._replace(weight_ms=edge.weight_ms + cold_ms) for edge in edges)


def judge_hosts(
    job: Job,
    image: Image | Recipe,
    hosts: Iterable[Node],
    network: Network,
    moment: EvaluationTime,
    making: MachineMaking,
) -> tuple[list[Edge], dict[str, Verdict]]:
    """Return all hosts that fit now, best first, and the verdict on each host examined."""
    machine = machine_for(job, image, making)
    verdicts: dict[str, Verdict] = {}
    edges = []
    for host in hosts:
        if not host.capabilities.gets_images and host.capabilities.place not in image.places:
            verdicts[host.name] = never(Why.NO_IMAGE)
            continue
        transfer_ms = network.transfer_ms(
            _files(job, image, host, making), host.capabilities.place, host.capabilities.bytes_per_s
        )
        verdicts[host.name] = judge_machine(machine, host, transfer_ms, moment)
        if verdicts[host.name].answer is Feasibility.FIT:
            edges.append(_edge(host, transfer_ms))
    return sorted(edges), verdicts


def machine_for(job: Job, image: Image | Recipe, making: MachineMaking) -> Job:
    """Give what the machine needs of its host: the job's amounts and the image's, and the time to be made."""
    base, build_ms = (image, 0) if isinstance(image, Image) else (image.base, image.build_ms)
    needs = replace(
        job.needs,
        amounts=job.needs.amounts + base.needs,
        execution_ms=job.needs.execution_ms + making.boot_ms + build_ms,
        software=(),
    )
    return replace(job, needs=needs)


def _files(job: Job, image: Image | Recipe, host: Node, making: MachineMaking) -> list[InputFile]:
    base = image if isinstance(image, Image) else image.base
    if host.capabilities.place in base.at:
        return [*job.needs.inputs]
    return [*job.needs.inputs, InputFile(base.name, base.size_bytes, making.image_store)]


def _edge(host: Node, transfer_ms: int) -> Edge:
    able = host.capabilities
    return Edge(transfer_ms + host.waiting_ms, host.free.memory_mib, -able.bytes_per_s, host.name)


def _why_none(verdicts: Mapping[str, Verdict], nodes: int) -> Verdict:
    """Say never where too few hosts could do it even when empty, else what the first other lacks."""
    later = [verdict for _, verdict in sorted(verdicts.items()) if verdict.answer is not Feasibility.NEVER]
    if len(later) < nodes:
        whys = {verdict.why for verdict in verdicts.values()}
        if Why.DEADLINE_TOO_TIGHT in whys:
            return never(Why.DEADLINE_TOO_TIGHT)
        if whys and whys <= {Why.TAKES_NO_FILES, Why.NO_IMAGE}:
            return never(Why.NO_IMAGE if Why.NO_IMAGE in whys else Why.TAKES_NO_FILES)
        return never(Why.NO_HOST)
    return next(wait(verdict.why) for verdict in later if verdict.answer is Feasibility.WAIT)


@dataclass(frozen=True, slots=True)
class Physical:
    """It runs on these nodes."""

    nodes: tuple[Edge, ...]
    why: Why = Why.FITS


@dataclass(frozen=True, slots=True)
class Virtual:
    """Machines with this image are built on these hosts, and it runs in them."""

    hosts: tuple[Edge, ...]
    image: Image | Recipe
    why: Why = Why.NO_PHYSICAL_NODE

    @property
    def image_name(self) -> str:
        """The name of the image, or of that from which it is to be built."""
        return self.image.name if isinstance(self.image, Image) else self.image.base.name


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Not now; it is looked at again then."""

    at_ms: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class JobRefused:
    """Never here. ``last`` is what it was waiting for, if it waited."""

    verdict: Verdict
    last: Verdict | None = None


Choice = Physical | Virtual | TryAgain | JobRefused


@dataclass(frozen=True, slots=True)
class MatchSettings:
    """How it is chosen: how near in memory, when again, and what it takes to make a machine."""

    best_fit: BestFit | None = AS_PRINTED
    retrying: Retrying = Retrying()
    making: MachineMaking = MachineMaking()


DEFAULTS = MatchSettings()


def _none(_image: str) -> frozenset[str]:
    return frozenset()


@dataclass(slots=True)
class NodePool:
    """Nodes to run on, and hosts to build machines on; its owner updates it as nodes change."""

    index: NodeIndex
    hosts: dict[str, Node] = field(default_factory=dict)


class Chooser:
    """Nodes to run on, hosts to build on, images, and how they are chosen from; it changes none of them."""

    def __init__(
        self, nodes: Iterable[Node], hosts: Iterable[Node], catalogue: ImageCatalogue, network: Network | None
        = None, settings: MatchSettings = DEFAULTS,
    ) -> None:  # fmt: skip
        self.catalogue = catalogue
        self.warm: Callable[[str], frozenset[str]] = _none
        """Says on which hosts a machine with an image still runs."""
        self._network = network or Network()
        self._settings = settings
        self.pool = NodePool(NodeIndex(nodes, self._network), {host.name: host for host in hosts})

    @classmethod
    def over(cls, pool: NodePool, catalogue: ImageCatalogue, network: Network, settings: MatchSettings) -> "Chooser":
        """Make one for nodes that come and go."""
        chooser = cls((), (), catalogue, network, settings)
        chooser.pool = pool
        return chooser

    def choose(self, job: Job, moment: EvaluationTime) -> Choice:
        """Say what becomes of a job."""
        found = self.physical(job, moment)
        if found is not None:
            return found
        verdict = self.physical_verdict(job, moment)
        if verdict.answer is Feasibility.WAIT:
            return self._later(job, moment, verdict)
        made = self.virtual(job, moment, verdict)
        if isinstance(made, Virtual):
            return made
        if made.answer is Feasibility.WAIT:
            return self._later(job, moment, made)
        return JobRefused(made, verdict)

    def physical(self, job: Job, moment: EvaluationTime, without: Container[str] = ()) -> Physical | None:
        """Give the best nodes of its resource set, but for some; None where there are too few now."""
        found = SequentialResourceSets(self.pool.index, moment, self._settings.best_fit).edges(job, without)
        nodes = tuple(islice(found, job.needs.nodes))
        return Physical(nodes) if len(nodes) == job.needs.nodes else None

    def physical_verdict(self, job: Job, moment: EvaluationTime, without: Collection[str] = ()) -> Verdict:
        """Say whether waiting for physical nodes helps, and what is lacking, where there are too few now."""
        kinds = self.pool.index.kinds(without)
        verdicts = [(self.judge(job, node, moment), count) for node, count in kinds]
        later = [(verdict, count) for verdict, count in verdicts if verdict.answer is not Feasibility.NEVER]
        if sum(count for _, count in later) < job.needs.nodes:
            if later:
                return never(Why.TOO_FEW_NODES)
            return max((verdict for verdict, _ in verdicts), key=nearness, default=never(Why.TOO_FEW_NODES))
        return max((verdict for verdict, _ in later if verdict.answer is Feasibility.WAIT), key=nearness)

    def judge(self, job: Job, node: Node, moment: EvaluationTime) -> Verdict:
        """Say whether one node serves a job."""
        able = node.capabilities
        return judge(job, node, self._network.transfer_ms(job.needs.inputs, able.place, able.bytes_per_s), moment)

    def virtual(
        self, job: Job, moment: EvaluationTime, physical: Verdict, without: Container[str] = ()
    ) -> Virtual | Verdict:
        """Give machines that are built for it, or say why there are none; ``physical`` is what nodes lack.

        They have the first image for which there are hosts, be they in use.
        """
        images = self.catalogue.find(job.needs.software)
        if not images:
            if physical.why in SOFTWARE:
                return never(Why.NO_IMAGE, physical.what)
            has_no_nodes = job.needs.software and not self.pool.index
            return never(Why.NO_IMAGE, job.needs.software[0].name) if has_no_nodes else physical
        hosts = [host for host in self.pool.hosts.values() if host.name not in without]
        refused: list[Verdict] = []
        for image in images:
            warm = self.warm(image.name) if isinstance(image, Image) else frozenset()
            found = find_hosts(job, image, hosts, self._network, moment, self._settings.making, warm=warm)
            if found.verdict is None:
                return Virtual(found.hosts, image)
            if found.verdict.answer is not Feasibility.NEVER:
                return found.verdict
            refused.append(found.verdict)
        return next((verdict for verdict in refused if verdict.why is not Why.NO_IMAGE), refused[0])

    def _later(self, job: Job, moment: EvaluationTime, verdict: Verdict) -> Choice:
        at_ms = self._settings.retrying.next_ms(job.submitted_ms, moment.now_ms)
        if at_ms is None:
            return JobRefused(never(Why.WAITED_TOO_LONG), verdict)
        return TryAgain(at_ms, verdict)
