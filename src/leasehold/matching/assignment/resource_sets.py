"""The edges of a graph, from an index of nodes: each job's resource set (Thamarai Selvi et al., section 4.2).

Two readings of the printed "the above steps are repeated for each job":

* `InTurn`: a job's set is made when its turn comes, of nodes that are not taken, and just large enough for
  it. So greedy matching works, and a single job is placed.
* `Together`: the sets of all jobs of a round are made first, each large enough for all of them, so that
  nobody is left without a node because others have the same set. So matching at the least cost works.

Each set of `InTurn` lies within that of `Together`: what greedy matching finds with the one is a matching
of the other, so that the best one is no dearer.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from leasehold.matching.assignment.graph import Edge
from leasehold.matching.best_fit import AS_PRINTED, BestFit
from leasehold.matching.needs import Job
from leasehold.matching.node_index import NodeIndex, Search
from leasehold.matching.satisfying import Moment
from leasehold.matching.shelf import Bundle

_Open = tuple[Edge, int, Bundle, Iterator[Edge] | None]
"""The next edge to a bundle, its number among all, the bundle, and what follows; None: not looked into."""


@dataclass(frozen=True, slots=True)
class InTurn:
    """Resource sets made one after the other; without a `BestFit` each has all nodes that fit."""

    index: NodeIndex
    moment: Moment
    best_fit: BestFit | None = AS_PRINTED

    def edges(self, job: Job, taken: Container[str]) -> Iterator[Edge]:
        """Give the edges to the job's resource set among nodes that are not taken, the best first."""
        search = self.index.search(job, self.moment, taken)
        return _edges(search, _most_mib(self.best_fit, job, search, job.needs.nodes))


@dataclass(frozen=True, slots=True)
class Together:
    """Resource sets made for a round in which ``nodes`` are asked for in all."""

    index: NodeIndex
    moment: Moment
    nodes: int
    best_fit: BestFit | None = AS_PRINTED

    def edges(self, job: Job, taken: Container[str]) -> Iterator[Edge]:
        """Give the edges to the job's resource set, but for nodes that are taken, the best first."""
        everybody = self.index.search(job, self.moment)
        everybody.keep_what_fits()
        most_mib = _most_mib(self.best_fit, job, everybody, max(self.nodes, job.needs.nodes))
        left = everybody if taken == () else self.index.search(job, self.moment, taken)
        return _edges(left, most_mib)


def _most_mib(best_fit: BestFit | None, job: Job, search: Search, enough: int) -> int | None:
    if best_fit is None:
        return None
    return best_fit.upper_mib(job.needs.amounts.memory_mib, search.free_mib(), enough)


def _edges(search: Search, most_mib: int | None) -> Iterator[Edge]:
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


def _beginning(search: Search, bundle: Bundle, number: int) -> _Open:
    """Give what no edge to a bundle is better than: its first node, fit or not."""
    least_ms = search.transfer_ms(bundle.reach) + bundle.entries[0].waiting_ms
    return Edge(least_ms, bundle.memory_mib, -bundle.reach.bytes_per_s, ""), number, bundle, None


def _edges_to(search: Search, bundle: Bundle) -> Iterator[Edge]:
    transfer_ms, narrowness = search.transfer_ms(bundle.reach), -bundle.reach.bytes_per_s
    for entry in search.fitting(bundle):
        yield Edge(transfer_ms + entry.waiting_ms, bundle.memory_mib, narrowness, entry.name)
