"""Physical or virtual? Which nodes run a job, or which machines are built for it, or when is it tried again?

Rule, in this order:

1. If as many physical nodes as the job asks for have what it needs, used by others or not, it runs on
physical
   nodes: on the best of its resource set if there is room, else it waits for one.
2. Otherwise machines are built for it: an image with the software, hosts with room for them.
3. What has to wait is tried again at set times, and refused when these are over (`Retrying`).

Source: Thamarai Selvi et al., sections 4.2 to 4.5. The printed Algorithm 2 asks for software alone in
step 1; here a node must have everything that it would not get by waiting, so that a job whose memory only
a machine on a large host can have is not kept waiting for small nodes.
"""

from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass, field
from itertools import islice

from leasehold.matching.assignment.graph import Edge
from leasehold.matching.assignment.resource_sets import InTurn
from leasehold.matching.best_fit import AS_PRINTED, BestFit
from leasehold.matching.capabilities import Node
from leasehold.matching.hosts import Making, find_hosts
from leasehold.matching.images import Catalogue, Image, Recipe
from leasehold.matching.needs import Job
from leasehold.matching.network import Network
from leasehold.matching.node_index import NodeIndex
from leasehold.matching.retrying import Retrying
from leasehold.matching.satisfying import Moment, judge
from leasehold.matching.verdict import SOFTWARE, Answer, Verdict, Why, nearness, never


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
class Refused:
    """Never here. ``last`` is what it was waiting for, if it waited."""

    verdict: Verdict
    last: Verdict | None = None


Choice = Physical | Virtual | TryAgain | Refused


@dataclass(frozen=True, slots=True)
class Settings:
    """How it is chosen: how near in memory, when again, and what it takes to make a machine."""

    best_fit: BestFit | None = AS_PRINTED
    retrying: Retrying = Retrying()  # noqa: RUF009 - frozen
    making: Making = Making()  # noqa: RUF009 - frozen


USUAL = Settings()


def _none(_image: str) -> frozenset[str]:
    return frozenset()


@dataclass(slots=True)
class Ground:
    """Nodes to run on, and hosts to build machines on; whoever keeps it changes it as nodes change."""

    index: NodeIndex
    hosts: dict[str, Node] = field(default_factory=dict)


class Chooser:
    """Nodes to run on, hosts to build on, images, and how they are chosen from; it changes none of them."""

    def __init__(
        self, nodes: Iterable[Node], hosts: Iterable[Node], catalogue: Catalogue, network: Network | None
        = None, settings: Settings = USUAL,
    ) -> None:  # fmt: skip
        self.catalogue = catalogue
        self.warm: Callable[[str], frozenset[str]] = _none
        """Says on which hosts a machine with an image still runs."""
        self._network = network or Network()
        self._settings = settings
        self.ground = Ground(NodeIndex(nodes, self._network), {host.name: host for host in hosts})

    @classmethod
    def over(cls, ground: Ground, catalogue: Catalogue, network: Network, settings: Settings) -> "Chooser":
        """Make one for nodes that come and go."""
        chooser = cls((), (), catalogue, network, settings)
        chooser.ground = ground
        return chooser

    def choose(self, job: Job, moment: Moment) -> Choice:
        """Say what becomes of a job."""
        found = self.physical(job, moment)
        if found is not None:
            return found
        verdict = self.physical_verdict(job, moment)
        if verdict.answer is Answer.WAIT:
            return self._later(job, moment, verdict)
        made = self.virtual(job, moment, verdict)
        if isinstance(made, Virtual):
            return made
        if made.answer is Answer.WAIT:
            return self._later(job, moment, made)
        return Refused(made, verdict)

    def physical(self, job: Job, moment: Moment, without: Container[str] = ()) -> Physical | None:
        """Give the best nodes of its resource set, but for some; None where there are too few now."""
        found = InTurn(self.ground.index, moment, self._settings.best_fit).edges(job, without)
        nodes = tuple(islice(found, job.needs.nodes))
        return Physical(nodes) if len(nodes) == job.needs.nodes else None

    def physical_verdict(self, job: Job, moment: Moment, without: Collection[str] = ()) -> Verdict:
        """Say whether waiting for physical nodes helps, and what is lacking, where there are too few now."""
        kinds = self.ground.index.kinds(without)
        verdicts = [(self.judge(job, node, moment), count) for node, count in kinds]
        later = [(said, count) for said, count in verdicts if said.answer is not Answer.NEVER]
        if sum(count for _, count in later) < job.needs.nodes:
            if later:
                return never(Why.TOO_FEW_NODES)
            return max((said for said, _ in verdicts), key=nearness, default=never(Why.TOO_FEW_NODES))
        return max((said for said, _ in later if said.answer is Answer.WAIT), key=nearness)

    def judge(self, job: Job, node: Node, moment: Moment) -> Verdict:
        """Say whether one node serves a job."""
        able = node.capabilities
        return judge(job, node, self._network.transfer_ms(job.needs.inputs, able.place, able.bytes_per_s), moment)

    def virtual(self, job: Job, moment: Moment, physical: Verdict, without: Container[str] = ()) -> Virtual | Verdict:
        """Give machines that are built for it, or say why there are none; ``physical`` is what nodes lack."""
        image = self.catalogue.find(job.needs.software)
        if image is None:
            is_for_want_of_it = physical.why in SOFTWARE or (job.needs.software and not self.ground.index)
            return never(Why.NO_IMAGE, physical.what) if is_for_want_of_it else physical
        hosts = [host for host in self.ground.hosts.values() if host.name not in without]
        warm = self.warm(image.name) if isinstance(image, Image) else frozenset()
        found = find_hosts(job, image, hosts, self._network, moment, self._settings.making, warm=warm)
        return Virtual(found.hosts, image) if found.verdict is None else found.verdict

    def _later(self, job: Job, moment: Moment, verdict: Verdict) -> Choice:
        at_ms = self._settings.retrying.next_ms(job.submitted_ms, moment.now_ms)
        if at_ms is None:
            return Refused(never(Why.WAITED_TOO_LONG), verdict)
        return TryAgain(at_ms, verdict)
