"""The edges of a graph, from an index of nodes: each job's resource set (Thamarai Selvi et al., section 4.2).

`BestFit` says which nodes are near enough in memory. Rule: of the nodes with the software, those with ``needed <=
free <= needed + value + extend`` MiB free. ``extend`` starts at 0 and grows by a step until enough nodes are in
the set, or all that there are. Source: the text of section 4.2. The printed Algorithm 2 turns the inequality
round, adds its value to the memory of the node instead of the job's, and never says by how much ``extendvalue``
grows. Value 10 as printed; MiB, and a step of 10, are readings.

Two readings of the printed "the above steps are repeated for each job":

* `SequentialResourceSets`: a job's set is made when its turn comes, of nodes that are not taken, and just large
  enough for it. So greedy matching works, and a single job is placed.
* `JointResourceSets`: the sets of all jobs of a round are made first, each large enough for all of them, so that
  no job is left without a node because others have the same set. So matching at the least cost works.

Each sequential set lies within the joint one: what greedy matching finds with the one is a matching of the
other, so that the best one costs no more.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from itertools import islice

from leasehold.matching.assignment import Edge
from leasehold.matching.needs import Job
from leasehold.matching.node_index import NodeBucket, NodeIndex, NodeSearch
from leasehold.matching.nodes import EvaluationTime
from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True)
class BestFit:
    """How near in memory a node has to be: ``value_mib`` at first, ``step_mib`` more at a time.

    Raises InvalidField for a negative value or an invalid step.
    """

    value_mib: int = 10
    step_mib: int = 10

    def __post_init__(self) -> None:
        """Refuse a window that does not grow."""
        if self.value_mib < 0 or self.step_mib < 1:
            raise InvalidField("best fit", self, "value_mib of at least 0 and step_mib of at least 1")

    def upper_mib(self, needed_mib: int, free_mib: Iterable[int], enough: int) -> int | None:
        """Give the upper end of the window, or none where all nodes together are not enough.

        ``free_mib`` is what suitable nodes have free, the least first, none with less than is needed.
        """
        last_mib = next(islice(free_mib, enough - 1, None), None)
        if last_mib is None:
            return None
        beyond_mib = max(0, last_mib - needed_mib - self.value_mib)
        steps = -(-beyond_mib // self.step_mib)
        return needed_mib + self.value_mib + steps * self.step_mib


AS_PRINTED = BestFit()
"""10 MiB, and 10 more at a time."""


_Open = tuple[Edge, int, NodeBucket, Iterator[Edge] | None]
"""The next edge to a bundle, its number among all, the bundle, and what follows; None: not looked into."""


@dataclass(frozen=True, slots=True)
class SequentialResourceSets:
    """Resource sets made one after the other; without a `BestFit` each has all nodes that fit."""

    index: NodeIndex
    moment: EvaluationTime
    best_fit: BestFit | None = AS_PRINTED

    def edges(self, job: Job, taken: Container[str]) -> Iterator[Edge]:
        """Give the edges to the job's resource set among nodes that are not taken, the best first."""
        search = self.index.search(job, self.moment, taken)
        return _edges(search, _most_mib(self.best_fit, job, search, job.needs.nodes))


@dataclass(frozen=True, slots=True)
class JointResourceSets:
    """Resource sets made for a round in which ``nodes`` are asked for in all."""

    index: NodeIndex
    moment: EvaluationTime
    nodes: int
    best_fit: BestFit | None = AS_PRINTED

    def edges(self, job: Job, taken: Container[str]) -> Iterator[Edge]:
        """Give the edges to the job's resource set, but for nodes that are taken, the best first."""
        candidates = self.index.search(job, self.moment)
        candidates.keep_what_fits()
        most_mib = _most_mib(self.best_fit, job, candidates, max(self.nodes, job.needs.nodes))
        left = candidates if taken == () else self.index.search(job, self.moment, taken)
        return _edges(left, most_mib)


def _most_mib(best_fit: BestFit | None, job: Job, search: NodeSearch, enough: int) -> int | None:
    if best_fit is None:
        return None
    return best_fit.upper_mib(job.needs.amounts.memory_mib, search.free_mib(), enough)


def _edges(search: NodeSearch, most_mib: int | None) -> Iterator[Edge]:
    """Merge the edges to all bundles; one is looked into when its first node might be the next best."""
    heap = [_beginning(search, bundle, number) for number, bundle in enumerate(search.bundles(most_mib))]
    heapify(heap)
    while heap:
        edge, number, bundle, following = heap[0]
        if following is None:
            following = _edges_to(search, bundle)
        else:
            yield edge
        coming = next(following, None)
        if coming is None:
            heappop(heap)
        else:
            heapreplace(heap, (coming, number, bundle, following))


def _beginning(search: NodeSearch, bundle: NodeBucket, number: int) -> _Open:
    """Give what no edge to a bundle is better than: its first node, fit or not."""
    least_ms = search.transfer_ms(bundle.reach) + bundle.entries[0].waiting_ms
    return Edge(least_ms, bundle.memory_mib, -bundle.reach.bytes_per_s, ""), number, bundle, None


def _edges_to(search: NodeSearch, bundle: NodeBucket) -> Iterator[Edge]:
    transfer_ms, narrowness = search.transfer_ms(bundle.reach), -bundle.reach.bytes_per_s
    for entry in search.fitting(bundle):
        yield Edge(transfer_ms + entry.waiting_ms, bundle.memory_mib, narrowness, entry.name)
