"""What has a node, how long do files take to it, and does it satisfy a job: never here, not now, or yes?

Both what a node has and what is free on it are found, never typed in: `NodeCapabilities` change when a node is
changed, a `Node` whenever it is used.

Transfer (JTT of Thamarai Selvi et al., section 4.3). Rule: of each place that files come from, the delay once
and then bytes / bandwidth; one place after the other. The bandwidth is the lesser of the link's and the node's
own. Files stored at the node's own place need no transfer. The paper names delay and bandwidth and gives no formula;
this is the plain one.

Verdict. Rule: what the node has not even when empty is a *never here*, what it has but is in use a *not now*. The
first that is lacking is given, in this order: software, files, cores, memory, speed, disk, GPUs, deadline; then how
old the facts are, cores, memory, disk, GPUs in use, and a queue that makes it late. The deadline is met if ``deadline >
now + transfer + execution`` (section 5, criterion 3). The printed criterion is meant for lightly loaded nodes and
leaves their queues out; a node whose queue makes it late is a *not now* here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leasehold.matching.devices import have_room
from leasehold.matching.needs import Amounts, InputFile, Job, Needs
from leasehold.matching.software import Installed, has_software
from leasehold.matching.verdict import FITS, Verdict, Why, never, wait
from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapabilities:
    """The resources of an idle node.

    ``total``        whole cores, MiB of memory, MiB of disk, GPUs, all of one ``gpu_model``
    ``gpu_shares``   into how many parts each of these can be divided, as in `leasehold.model.resources.NodeResources`
    ``place``        its location: the name of a place in the `Network`
    ``bytes_per_s``  the bandwidth of its own network interface
    ``takes_files``  whether files can be brought to it, and kept from it
    ``gets_images``  whether images are brought to it that its place neither has nor can build
    """

    name: str
    total: Amounts
    cpu_mhz: int = 0
    software: Installed = field(default_factory=frozenset)
    place: str = ""
    bytes_per_s: int = 125_000_000
    """Usually one gigabit per second."""
    takes_files: bool = True
    gets_images: bool = True
    gpu_model: str = ""
    gpu_shares: int = 1

    def __post_init__(self) -> None:
        """Refuse a node that nothing can get to."""
        if self.bytes_per_s <= 0:
            raise InvalidField(f"bytes_per_s of {self.name}", self.bytes_per_s, "more than 0")

    @property
    def gpus(self) -> int:
        """How many GPU devices it has."""
        return len(self.total.gpus)

    @property
    def shares(self) -> int:
        """In how many shares each of them is counted."""
        return max(1, self.gpu_shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as it was seen at a moment.

    ``free``        what is unused, never more than there is
    ``waiting_ms``  how long a job that comes now would wait in the node's own queue
    ``seen_ms``     when that was; old facts are a reason to look again, not to start

    Raises InvalidField where more is free than there is.
    """

    capabilities: NodeCapabilities
    free: Amounts
    waiting_ms: int = 0
    seen_ms: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not self.capabilities.total.holds(self.free):
            raise InvalidField(f"free of {self.name}", self.free, f"at most {self.capabilities.total}")
        if self.waiting_ms < 0:
            raise InvalidField(f"waiting_ms of {self.name}", self.waiting_ms, "at least 0")

    @property
    def name(self) -> str:
        """The node's name, which no other has."""
        return self.capabilities.name


def idle(capabilities: NodeCapabilities, seen_ms: int = 0) -> Node:
    """Return an idle node."""
    return Node(capabilities=capabilities, free=capabilities.total, seen_ms=seen_ms)


MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class Link:
    """From one place to another: how long the first byte takes, and how many come per second."""

    delay_ms: int
    bytes_per_s: int

    def __post_init__(self) -> None:
        """Refuse a way on which nothing arrives."""
        if self.delay_ms < 0 or self.bytes_per_s <= 0:
            raise InvalidField("way", self, "delay_ms of at least 0 and bytes_per_s above 0")


@dataclass(frozen=True, slots=True)
class Network:
    """The ways between places; where none is given for a pair, the default one."""

    default: Link = Link(delay_ms=20, bytes_per_s=12_500_000)
    """A hundred megabit per second, and 20 ms."""
    ways: Mapping[tuple[str, str], Link] = field(default_factory=dict)

    def transfer_ms(self, inputs: Iterable[InputFile], place: str, bytes_per_s: int) -> int:
        """Give the milliseconds, rounded up, until these files are at a node there with such an interface.

        How fast the gateway brings a file that it has stored is measured, and is ``bytes_per_s``.
        """
        sizes: dict[tuple[str, bool], int] = {}
        for file in inputs:
            of_file = file.place, bool(file.sha256)
            sizes[of_file] = sizes.get(of_file, 0) + file.size_bytes
        away = ((of_file, size) for of_file, size in sizes.items() if of_file[0] != place)
        return sum(self._from(source, size, place, bytes_per_s, stored) for (source, stored), size in away)

    def _from(self, source: str, size_bytes: int, place: str, bytes_per_s: int, is_stored: bool) -> int:  # noqa: FBT001
        usual = Link(self.default.delay_ms, bytes_per_s) if is_stored else self.default
        way = self.ways.get((source, place), usual)
        rate = min(way.bytes_per_s, bytes_per_s)
        return way.delay_ms - (-size_bytes * MS_PER_S // rate)


@dataclass(frozen=True, slots=True)
class EvaluationTime:
    """When a node is judged, and how old what is known of it may be (None: as old as it likes)."""

    now_ms: int
    fresh_for_ms: int | None = None

    @property
    def oldest_ms(self) -> float:
        """What was seen no earlier than then can still be relied upon."""
        return float("-inf") if self.fresh_for_ms is None else self.now_ms - self.fresh_for_ms


def judge(job: Job, node: Node, transfer_ms: int, moment: EvaluationTime) -> Verdict:
    """Say whether a node serves a job, whose inputs would take ``transfer_ms`` to it."""
    there = has_software(job.needs.software, node.capabilities.software)
    if there is not FITS:
        return there
    return judge_machine(job, node, transfer_ms, moment)


def judge_machine(job: Job, node: Node, transfer_ms: int, moment: EvaluationTime) -> Verdict:
    """Judge all but the software."""
    begun_ms = moment.now_ms + transfer_ms + node.waiting_ms
    if (
        job.needs.cpu_mhz <= node.capabilities.cpu_mhz
        and (node.capabilities.takes_files or not job.needs.has_files)
        and node.free.holds(job.needs.amounts)
        and job.needs.gpu_model in ("", node.capabilities.gpu_model)
        and (node.capabilities.gpu_shares or not job.needs.shares_gpu)
        and (job.deadline_ms is None or begun_ms + job.needs.execution_ms < job.deadline_ms)
        and node.seen_ms >= moment.oldest_ms
    ):
        return FITS
    return _why_not(job, node, transfer_ms, moment)


def _why_not(job: Job, node: Node, transfer_ms: int, moment: EvaluationTime) -> Verdict:
    lacking = _never_has(job.needs, node.capabilities)
    if lacking is not None:
        return never(lacking)
    earliest_ms = moment.now_ms + transfer_ms + job.needs.execution_ms
    if job.deadline_ms is not None and earliest_ms >= job.deadline_ms:
        return never(Why.DEADLINE_TOO_TIGHT)
    if node.seen_ms < moment.oldest_ms:
        return wait(Why.FACTS_TOO_OLD)
    return wait(_is_in_use(job.needs, node) or Why.DEADLINE_BEHIND_QUEUE)


def _never_has(needs: Needs, node: NodeCapabilities) -> Why | None:
    lacking = (
        (needs.has_files and not node.takes_files, Why.TAKES_NO_FILES),
        (needs.amounts.cores > node.total.cores, Why.TOO_FEW_CORES),
        (needs.amounts.memory_mib > node.total.memory_mib, Why.TOO_LITTLE_MEMORY),
        (needs.cpu_mhz > node.cpu_mhz, Why.CPU_TOO_SLOW),
        (needs.amounts.disk_mib > node.total.disk_mib, Why.TOO_LITTLE_DISK),
        (len(needs.amounts.gpus) > node.gpus, Why.TOO_FEW_GPUS),
        (needs.gpu_model not in ("", node.gpu_model), Why.OTHER_GPU_MODEL),
        (needs.shares_gpu and not node.gpu_shares, Why.GPUS_LENT_WHOLE),
    )
    return next((why for lacks, why in lacking if lacks), None)


def _is_in_use(needs: Needs, node: Node) -> Why | None:
    lacking = (
        (needs.amounts.cores > node.free.cores, Why.CORES_IN_USE),
        (needs.amounts.memory_mib > node.free.memory_mib, Why.MEMORY_IN_USE),
        (needs.amounts.disk_mib > node.free.disk_mib, Why.DISK_IN_USE),
        (not have_room(node.free.gpus, needs.amounts.gpus), Why.GPUS_IN_USE),
    )
    return next((why for lacks, why in lacking if lacks), None)
