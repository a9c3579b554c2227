"""Matching at the least total weight, of the jobs that can be served together."""

from collections.abc import Iterable, Sequence
from itertools import islice

from leasehold.matching.assignment.admission import admit
from leasehold.matching.assignment.graph import Assignment, Edge, Graph
from leasehold.matching.assignment.plain_solver import Row, Solve, solve_plain
from leasehold.matching.needs import Job

_AT_FIRST = 32
"""Edges drawn at first for a job, besides two for each node that it wants."""


def optimal(jobs: Sequence[Job], graph: Graph, solve: Solve = solve_plain) -> Assignment:
    """Which matching makes the sum of transfer and waiting times least?

    Rule: `admit` says which jobs are served, in the order of the queue. Of these, a job of n nodes is n
    rows of an assignment problem, nodes are its columns, and no column has two rows. Of matchings with the
    same total that one is taken whose nodes have, added up, the least rank by free memory, then by
    bandwidth.
    Source: Thamarai Selvi et al., section 4.3, for graph and weights; the paper takes the lightest edge of
    each job in turn, which is `greedy`. Kuhn 1955 for the problem.

    ``solve`` is any exact solver of the assignment problem that gives its proof (`Solved`): ours, or one
    that a caller brings along and that is quicker.

    Where greedy matching serves the same jobs, this is no dearer; where it does not, it leaves out a job
    that is served here, ahead of any that it may serve instead.

    It is exact although it looks at few edges. First, with R nodes wanted in all, the R best edges of
    each job are enough. Take a matching in which a job has an edge that is not among its R best: the
    other R - 1 rows have at most R - 1 nodes, so that one of its R best leads to a node that nobody has.
    With that one instead, the matching serves the same jobs and weighs no more, counting ranks as well.
    Each step leaves one edge fewer outside, so this ends. Second, of these only some are drawn, more
    where a proof is lacking: all jobs are served, and each job's next edge costs at least its row's price
    (`Solved`), as then do all after it.
    """
    drawn = _Drawn(jobs, graph)
    while True:
        admitted = admit(jobs, drawn.edges)
        if len(admitted) < len(jobs) and (drawn.more(_without(jobs, admitted)) or drawn.more(jobs)):
            continue
        placed, dear = _cheapest(admitted, drawn, solve)
        if not drawn.more(dear):
            served = {job.job_id for job in admitted}
            return Assignment(placed, tuple(job.job_id for job in jobs if job.job_id not in served))


def _without(jobs: Sequence[Job], others: Sequence[Job]) -> list[Job]:
    known = {job.job_id for job in others}
    return [job for job in jobs if job.job_id not in known]


class _Drawn:
    """The best edges of each job, as far as they were asked for."""

    def __init__(self, jobs: Sequence[Job], graph: Graph) -> None:
        self.wanted = sum(job.needs.nodes for job in jobs)
        self._coming = {job.job_id: islice(graph.edges(job, ()), self.wanted) for job in jobs}
        self.edges: dict[int, list[Edge]] = {job.job_id: [] for job in jobs}
        for job in jobs:
            self._draw(job.job_id, _AT_FIRST + 2 * job.needs.nodes)

    def more(self, jobs: Iterable[Job]) -> bool:
        """Draw four times as many for these jobs in all; whether there was one more for any."""
        drawn = [self._draw(job.job_id, 3 * len(self.edges[job.job_id])) for job in jobs]
        return any(drawn)

    def _draw(self, job_id: int, count: int) -> bool:
        new = list(islice(self._coming[job_id], count))
        self.edges[job_id] += new
        return bool(new)


def _cheapest(jobs: Sequence[Job], drawn: _Drawn, solve: Solve) -> tuple[dict[int, tuple[Edge, ...]], list[Job]]:
    """Place these jobs, and say for which of them an edge that was not drawn might be better."""
    costs = _Costs(jobs, drawn)
    columns = {node: number for number, node in enumerate(sorted(costs.nodes))}
    edges = {job.job_id: {columns[edge.node]: edge for edge in drawn.edges[job.job_id]} for job in jobs}
    rows: list[Row] = []
    for job in jobs:
        row = [(column, costs.of(edge)) for column, edge in edges[job.job_id].items()]
        rows += [row] * job.needs.nodes
    solved = solve(rows)
    chosen, prices = iter(solved.column_of), iter(solved.prices)
    placed, dear = {}, []
    for job in jobs:
        found = edges[job.job_id]
        placed[job.job_id] = tuple(sorted(found[column] for column in islice(chosen, job.needs.nodes)))
        if max(islice(prices, job.needs.nodes)) > costs.of(drawn.edges[job.job_id][-1]):
            dear.append(job)
    return placed, dear


class _Costs:
    """Weights, with the ranks of the nodes as digits behind them, so that ties end as they should."""

    def __init__(self, jobs: Sequence[Job], drawn: _Drawn) -> None:
        edges = [edge for job in jobs for edge in drawn.edges[job.job_id]]
        self.nodes = {edge.node for edge in edges}
        kinds = sorted({(edge.memory_mib, edge.narrowness) for edge in edges})
        self._ranks = {kind: rank for rank, kind in enumerate(kinds)}
        self._scale = drawn.wanted * len(kinds) + 1

    def of(self, edge: Edge) -> int:
        """Give the cost of an edge: little free memory first, then much bandwidth."""
        return edge.weight_ms * self._scale + self._ranks[edge.memory_mib, edge.narrowness]
