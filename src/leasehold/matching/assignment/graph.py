"""Jobs and nodes as a bipartite graph, and what becomes of it (Thamarai Selvi et al., section 4.3).

The weight of an edge is transfer time + waiting time, ``JTT_ij + OWT_j``, in whole ms: the printed ``A_ij =
round(JTT_i, OWT_j)`` rounds two things at once and adds neither. A job of n nodes takes n edges, no node
is taken twice. Of equal weights the node with less free memory is taken, then the one with more
bandwidth, then the name.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from leasehold.matching.needs import Job


class Edge(NamedTuple):
    """A node that would serve a job; edges of a job compare as the better one first."""

    weight_ms: int
    memory_mib: int
    narrowness: int
    """Bytes per second of the node's interface, negative: more bandwidth is less."""
    node: str


class Graph(Protocol):
    """Which nodes would serve a job?"""

    def edges(self, job: Job, taken: Container[str]) -> Iterator[Edge]:
        """Give the edges of a job to nodes that are not taken, the best first."""
        ...


@dataclass(frozen=True, slots=True)
class ListedGraph:
    """A graph whose edges are written down."""

    listed: Mapping[int, list[Edge]]

    def edges(self, job: Job, taken: Container[str]) -> Iterator[Edge]:
        """Give the edges of a job, the best first."""
        return (edge for edge in sorted(self.listed.get(job.job_id, ())) if edge.node not in taken)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who got what: the edges of each job that is served, and the jobs that are not."""

    placed: Mapping[int, tuple[Edge, ...]]
    left: tuple[int, ...]

    @property
    def weight_ms(self) -> int:
        """The sum over all edges taken."""
        return sum(edge.weight_ms for edges in self.placed.values() for edge in edges)
