"""Greedy matching: each job in its turn takes the best that is left."""

from collections.abc import Iterable
from itertools import islice

from leasehold.matching.assignment.graph import Assignment, Edge, Graph
from leasehold.matching.needs import Job


def greedy(jobs: Iterable[Job], graph: Graph) -> Assignment:
    """What does each job get if it may choose before all that come after it?

    Rule: in the order given, a job of n nodes takes its n best edges to nodes that nobody took; a job for
    which there are fewer takes none.
    Source: Thamarai Selvi et al., section 4.3, ``M(u_i) = F(min(A_ij), n_i)``.
    """
    placed: dict[int, tuple[Edge, ...]] = {}
    left: list[int] = []
    taken: set[str] = set()
    for job in jobs:
        edges = tuple(islice(graph.edges(job, taken), job.needs.nodes))
        if len(edges) < job.needs.nodes:
            left.append(job.job_id)
            continue
        placed[job.job_id] = edges
        taken.update(edge.node for edge in edges)
    return Assignment(placed, tuple(left))
