"""Which of ten thousand nodes come into question for one job? Found without looking at each.

Nodes are bucketed by free memory, and of the same memory by how files reach them; each bucket is sorted by
waiting time. So the nodes for a job are a few sorted buckets, and the best of them are near their heads. There
is one set of buckets with all nodes, for software that many have, and one for each set of software, for software
that few have. A change of one node moves two entries. Nodes that differ in nothing but their names are counted,
so that all can be judged by judging one of each kind.

It is quick where nodes are alike in memory and place, or the window of memory is narrow (`BestFit`). Of
nodes that differ in all of these it has to look at one bucket for each.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import repeat
from typing import NamedTuple

from leasehold.matching.devices import Devices, have_room
from leasehold.matching.needs import Job
from leasehold.matching.nodes import EvaluationTime, Network, Node
from leasehold.matching.software import Installed, Software, has_software
from leasehold.matching.verdict import FITS

_FEW_ENTRIES = 16


class TransferPath(NamedTuple):
    """Whether files reach a node, and what the transfer time depends on besides the job."""

    place: str
    bytes_per_s: int
    takes_files: bool


class NodeEntry(NamedTuple):
    """What has to be known of a node to match it; names differ, so nothing behind them is compared."""

    waiting_ms: int
    name: str
    free_cores: int
    free_disk_mib: int
    cpu_mhz: int
    seen_ms: int
    software: Installed
    free_gpus: Devices
    gpu_model: str
    gpu_shares: int


class IndexedNode(NamedTuple):
    """A node as it lies on a shelf: free memory and reach of its bundle, and its entry there."""

    bundle: tuple[int, TransferPath]
    entry: NodeEntry


def indexed_node(node: Node) -> IndexedNode:
    """Write down a node for a shelf."""
    able, free = node.capabilities, node.free
    entry = NodeEntry(
        *(node.waiting_ms, node.name, free.cores, free.disk_mib, able.cpu_mhz, node.seen_ms, able.software),
        *(free.gpus, able.gpu_model, able.gpu_shares),
    )
    return IndexedNode((free.memory_mib, TransferPath(able.place, able.bytes_per_s, able.takes_files)), entry)


class NodeBucket(NamedTuple):
    """Nodes with as much free memory that files reach in the same time; entries by waiting time, name."""

    reach: TransferPath
    memory_mib: int
    entries: list[NodeEntry]


@dataclass(slots=True)
class NodeBuckets:
    """Bundles by their free memory, ascending."""

    memories_mib: list[int] = field(default_factory=list)
    bundles: dict[int, dict[TransferPath, NodeBucket]] = field(default_factory=dict)

    def put(self, nodes: Iterable[IndexedNode]) -> None:
        """Lay nodes in their bundles."""
        for (memory_mib, reach), entries in _by_bucket(nodes).items():
            if memory_mib not in self.bundles:
                insort(self.memories_mib, memory_mib)
                self.bundles[memory_mib] = {}
            bundle = self.bundles[memory_mib].setdefault(reach, NodeBucket(reach, memory_mib, []))
            _add_entries(bundle.entries, entries)

    def take_out(self, nodes: Iterable[IndexedNode]) -> None:
        """Take nodes out of their bundles, and a bundle away if they were the last."""
        for (memory_mib, reach), gone in _by_bucket(nodes).items():
            entries = self.bundles[memory_mib][reach].entries
            _remove_entries(entries, gone)
            if not entries:
                del self.bundles[memory_mib][reach]
            if not self.bundles[memory_mib]:
                del self.bundles[memory_mib]
                del self.memories_mib[bisect_left(self.memories_mib, memory_mib)]

    def from_memory(self, least_mib: int, most_mib: int | None, *, takes_files: bool) -> Iterator[NodeBucket]:
        """Give the bundles with that much memory free, the least first; those that files reach, or all."""
        begin = bisect_left(self.memories_mib, least_mib)
        end = None if most_mib is None else bisect_right(self.memories_mib, most_mib)
        for memory_mib in self.memories_mib[begin:end]:
            bundles = self.bundles[memory_mib].values()
            yield from (one for one in bundles if one.reach.takes_files) if takes_files else bundles


def _by_bucket(nodes: Iterable[IndexedNode]) -> dict[tuple[int, TransferPath], list[NodeEntry]]:
    found: dict[tuple[int, TransferPath], list[NodeEntry]] = {}
    for bundle, entry in nodes:
        found.setdefault(bundle, []).append(entry)
    return found


def _add_entries(entries: list[NodeEntry], fresh: list[NodeEntry]) -> None:
    """Each of a few is put where it belongs; of many, it is quicker to sort them all."""
    if len(fresh) > _FEW_ENTRIES:
        entries += fresh
        entries.sort()
        return
    for entry in fresh:
        insort(entries, entry)


def _remove_entries(entries: list[NodeEntry], gone: list[NodeEntry]) -> None:
    """As `_add_entries`."""
    if len(gone) > _FEW_ENTRIES:
        names = {entry.name for entry in gone}
        entries[:] = [entry for entry in entries if entry.name not in names]
        return
    for entry in gone:
        del entries[bisect_left(entries, entry)]


NodeKind = tuple[object, ...]

_FEW_BUCKETS = 4
"""Up to so many shelves are looked through one by one; beyond that the one with all nodes is quicker."""


class NodeIndex:
    """Nodes, to be asked for those that fit."""

    def __init__(self, nodes: Iterable[Node] = (), network: Network | None = None) -> None:
        self._network = network or Network()
        self._nodes: dict[str, Node] = {}
        self._items: dict[str, IndexedNode] = {}
        self._alike: dict[NodeKind, dict[str, Node]] = {}
        self._all = NodeBuckets()
        self._shelves: dict[Installed, NodeBuckets] = {}
        self._with_software: dict[tuple[Software, ...], frozenset[Installed]] = {}
        self.put_all(nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, name: str) -> Node:
        """Give a node as it was last put. Raises KeyError for one that is not there."""
        return self._nodes[name]

    def find(self, name: str) -> Node | None:
        """Give a node as it was last put, None for one that is not there."""
        return self._nodes.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def nodes(self) -> Iterable[Node]:
        """Give all nodes, in the order in which they were first put."""
        return self._nodes.values()

    def kinds(self, without: Collection[str] = ()) -> Iterator[tuple[Node, int]]:
        """Give a node of each kind, and how many there are of it, but for some."""
        fewer = Counter(_node_kind(self._nodes[name]) for name in {*without} if name in self._nodes)
        for kind, alike in self._alike.items():
            if (count := len(alike) - fewer[kind]) > 0:
                yield next(iter(alike.values())), count

    def put(self, node: Node) -> None:
        """Take in a node, in place of what was known of it."""
        self.put_all((node,))

    def put_all(self, nodes: Iterable[Node]) -> None:
        """Take in nodes, in place of what was known of them: many at once cost little more than a few."""
        fresh = {node.name: node for node in nodes}
        self.drop_all([name for name in fresh if name in self._nodes])
        self._nodes |= fresh
        for name, node in fresh.items():
            self._alike.setdefault(_node_kind(node), {})[name] = node
        items = {name: indexed_node(node) for name, node in fresh.items()}
        self._items |= items
        self._all.put(items.values())
        for software, alike in _by_software(items.values()).items():
            if software not in self._shelves:
                self._shelves[software] = NodeBuckets()
                self._with_software.clear()
            self._shelves[software].put(alike)

    def drop(self, name: str) -> None:
        """Forget a node. Raises KeyError for one that is not there."""
        self.drop_all((name,))

    def drop_all(self, names: Iterable[str]) -> None:
        """Forget nodes, each named once. Raises KeyError for one that is not there."""
        items = []
        for name in names:
            self._be_one_fewer(self._nodes.pop(name))
            items.append(self._items.pop(name))
        self._all.take_out(items)
        for software, alike in _by_software(items).items():
            self._shelves[software].take_out(alike)

    def _be_one_fewer(self, node: Node) -> None:
        kind = _node_kind(node)
        alike = self._alike[kind]
        del alike[node.name]
        if not alike:
            del self._alike[kind]

    def search(self, job: Job, moment: EvaluationTime, without: Container[str] = ()) -> "NodeSearch":
        """Begin to look for nodes for a job, but for some."""
        allowed = self._allowed(job.needs.software)
        few = len(allowed) <= _FEW_BUCKETS
        shelves = [self._shelves[there] for there in allowed] if few else [self._all]
        return NodeSearch(job, moment, self._network, shelves, allowed, without)

    def _allowed(self, needed: tuple[Software, ...]) -> frozenset[Installed]:
        if needed not in self._with_software:
            self._with_software[needed] = frozenset(
                there for there in self._shelves if has_software(needed, there) is FITS
            )
        return self._with_software[needed]


class NodeSearch:
    """The nodes that fit one job at one moment."""

    def __init__(
        self,
        job: Job,
        moment: EvaluationTime,
        network: Network,
        shelves: list[NodeBuckets],
        allowed: Container[Installed],
        without: Container[str],
    ) -> None:
        self._job = job
        self._moment = moment
        self._network = network
        self._shelves = shelves
        self._allowed = allowed
        self._without = without
        self._transfers_ms: dict[TransferPath, int] = {}
        self._kept: dict[int, list[NodeEntry]] | None = None

    def keep_what_fits(self) -> None:
        """Look through bundles as a whole and keep what fits: quicker where most of them are wanted."""
        self._kept = {}

    def free_mib(self) -> Iterator[int]:
        """Give the free memory of each node that fits, the least first."""
        for bundle in merge(*self._from_shelves(None), key=_memory):
            if self._kept is not None:
                yield from repeat(bundle.memory_mib, len(self._all_that_fits(bundle)))
                continue
            for _ in self.fitting(bundle):
                yield bundle.memory_mib

    def bundles(self, most_mib: int | None) -> Iterator[NodeBucket]:
        """Give the bundles with memory from what is needed up to this."""
        for bundles in self._from_shelves(most_mib):
            yield from bundles

    def fitting(self, bundle: NodeBucket) -> Iterator[NodeEntry]:
        """Give the nodes of a bundle that fit, those with the least waiting first."""
        return self._one_by_one(bundle) if self._kept is None else iter(self._all_that_fits(bundle))

    def _all_that_fits(self, bundle: NodeBucket) -> list[NodeEntry]:
        """Give them at once; the same rule as `_one_by_one`."""
        kept = {} if self._kept is None else self._kept
        if id(bundle) not in kept:
            needs, allowed, without = self._job.needs, self._allowed, self._without
            cores, disk_mib, mhz = needs.amounts.cores, needs.amounts.disk_mib, needs.cpu_mhz
            gpus, model, least_shares = needs.amounts.gpus, needs.gpu_model, int(needs.shares_gpu)
            oldest_ms, most_waiting_ms = self._moment.oldest_ms, self._most_waiting_ms(bundle)
            kept[id(bundle)] = [
                entry
                for entry in bundle.entries
                if entry[6] in allowed
                and entry[2] >= cores
                and entry[4] >= mhz
                and entry[3] >= disk_mib
                and entry[5] >= oldest_ms
                and entry[0] <= most_waiting_ms
                and (not gpus or (have_room(entry[7], gpus) and model in ("", entry[8]) and entry[9] >= least_shares))
                and entry[1] not in without
            ]
        return kept[id(bundle)]

    def _one_by_one(self, bundle: NodeBucket) -> Iterator[NodeEntry]:
        """The same rule as `judge`, with whatever is the same for all of them worked out before."""
        needs, allowed, without = self._job.needs, self._allowed, self._without
        cores, disk_mib, mhz = needs.amounts.cores, needs.amounts.disk_mib, needs.cpu_mhz
        gpus, model, least_shares = needs.amounts.gpus, needs.gpu_model, int(needs.shares_gpu)
        oldest_ms = self._moment.oldest_ms
        most_waiting_ms = self._most_waiting_ms(bundle)
        for entry in bundle.entries:
            waiting_ms, name, free_cores, free_mib, mhz_there, seen_ms, software, free_gpus, model_there, shares = entry
            if waiting_ms > most_waiting_ms:
                return
            if (
                software in allowed
                and free_cores >= cores
                and mhz_there >= mhz
                and free_mib >= disk_mib
                and seen_ms >= oldest_ms
                and (not gpus or (have_room(free_gpus, gpus) and model in ("", model_there) and shares >= least_shares))
                and name not in without
            ):
                yield entry

    def transfer_ms(self, reach: TransferPath) -> int:
        """Give how long the job's files would take, ms."""
        if reach not in self._transfers_ms:
            self._transfers_ms[reach] = self._network.transfer_ms(self._job.needs.inputs, *reach[:2])
        return self._transfers_ms[reach]

    def _from_shelves(self, most_mib: int | None) -> list[Iterator[NodeBucket]]:
        least_mib, takes_files = self._job.needs.amounts.memory_mib, self._job.needs.has_files
        return [shelf.from_memory(least_mib, most_mib, takes_files=takes_files) for shelf in self._shelves]

    def _most_waiting_ms(self, bundle: NodeBucket) -> float:
        if self._job.deadline_ms is None:
            return float("inf")
        begun_ms = self._moment.now_ms + self.transfer_ms(bundle.reach)
        return self._job.deadline_ms - begun_ms - self._job.needs.execution_ms - 1


def _node_kind(node: Node) -> NodeKind:
    """Give all that a verdict on a node depends on: amounts by their parts, whose hashes take no calls."""
    able, free = node.capabilities, node.free
    total = able.total
    return (
        *(total.cores, total.memory_mib, total.disk_mib, able.cpu_mhz, able.software, able.place, able.bytes_per_s),
        *(able.takes_files, total.gpus, able.gpu_model, able.gpu_shares),
        *(free.cores, free.memory_mib, free.disk_mib, free.gpus, node.waiting_ms, node.seen_ms),
    )


def _by_software(items: Iterable[IndexedNode]) -> dict[Installed, list[IndexedNode]]:
    found: dict[Installed, list[IndexedNode]] = {}
    for item in items:
        found.setdefault(item.entry.software, []).append(item)
    return found


def _memory(bundle: NodeBucket) -> int:
    return bundle.memory_mib
