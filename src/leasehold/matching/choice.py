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

from collections.abc import Iterable
from dataclasses import dataclass
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
from leasehold.matching.verdict import Answer, Verdict, Why, never


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


class Chooser:
    """Nodes to run on, hosts to build on, images, and how they are chosen from; it changes none of them."""

    def __init__(
        self, nodes: Iterable[Node], hosts: Iterable[Node], catalogue: Catalogue, network: Network | None
        = None, settings: Settings = USUAL,
    ) -> None:  # fmt: skip
        self._nodes = list(nodes)
        self._hosts = list(hosts)
        self._catalogue = catalogue
        self._network = network or Network()
        self._settings = settings
        self._index = NodeIndex(self._nodes, self._network)

    def choose(self, job: Job, moment: Moment) -> Choice:
        """Say what becomes of a job."""
        found = InTurn(self._index, moment, self._settings.best_fit).edges(job, ())
        nodes = tuple(islice(found, job.needs.nodes))
        if len(nodes) == job.needs.nodes:
            return Physical(nodes)
        verdict = self._physical_verdict(job, moment)
        return (
            self._virtual(job, moment, verdict)
            if verdict.answer is Answer.NEVER
            else self._later(job, moment, verdict)
        )

    def _physical_verdict(self, job: Job, moment: Moment) -> Verdict:
        """Say whether waiting for physical nodes helps, and what is lacking."""
        verdicts = [self._judge(job, node, moment) for node in self._nodes]
        later = [verdict for verdict in verdicts if verdict.answer is not Answer.NEVER]
        if len(later) < job.needs.nodes:
            return (
                never(Why.TOO_FEW_NODES)
                if later
                else max(verdicts, key=_nearness, default=never(Why.TOO_FEW_NODES))
            )
        return max((verdict for verdict in later if verdict.answer is Answer.WAIT), key=_nearness)

    def _judge(self, job: Job, node: Node, moment: Moment) -> Verdict:
        able = node.capabilities
        return judge(
            job, node, self._network.transfer_ms(job.needs.inputs, able.place, able.bytes_per_s), moment
        )

    def _virtual(self, job: Job, moment: Moment, physical: Verdict) -> Choice:
        image = self._catalogue.find(job.needs.software)
        if image is None:
            return Refused(never(Why.NO_IMAGE, physical.what), physical)
        found = find_hosts(job, image, self._hosts, self._network, moment, self._settings.making)
        if found.verdict is None:
            return Virtual(found.hosts, image)
        if found.verdict.answer is Answer.NEVER:
            return Refused(found.verdict, physical)
        return self._later(job, moment, found.verdict)

    def _later(self, job: Job, moment: Moment, verdict: Verdict) -> Choice:
        at_ms = self._settings.retrying.next_ms(job.submitted_ms, moment.now_ms)
        if at_ms is None:
            return Refused(never(Why.WAITED_TOO_LONG), verdict)
        return TryAgain(at_ms, verdict)


_ORDER = tuple(Why)


def _nearness(verdict: Verdict) -> int:
    """Say how far a node came: the list of reasons is in the order in which they are looked at."""
    return _ORDER.index(verdict.why)
