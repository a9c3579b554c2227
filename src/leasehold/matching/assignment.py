"""Jobs and nodes as a bipartite graph, and its matching at the least total weight (Thamarai Selvi et al., section 4.3).

The weight of an edge is transfer time + waiting time, ``JTT_ij + OWT_j``, in whole ms: the printed ``A_ij =
round(JTT_i, OWT_j)`` rounds two things at once and adds neither. A job of n nodes takes n edges, no node
is taken twice. Of equal weights the node with less free memory is taken, then the one with more
bandwidth, then the name.

`admit` says which jobs can be served together, `solve_plain` solves the assignment problem for whole numbers of
any size, and `optimal` puts both together over edges that are drawn as they are needed.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
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
class Assignment:
    """The result of matching: the edges of each served job, and the jobs not served."""

    placed: Mapping[int, tuple[Edge, ...]]
    left: tuple[int, ...]

    @property
    def weight_ms(self) -> int:
        """The sum over all edges taken."""
        return sum(edge.weight_ms for edges in self.placed.values() for edge in edges)


def greedy(jobs: Iterable[Job], graph: Graph) -> Assignment:
    """What does each job get if it may choose before all that come after it?

    Rule: in the order given, a job of n nodes takes its n best edges to nodes that are not taken; a job for
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


def admit(jobs: Sequence[Job], edges: Mapping[int, Sequence[Edge]]) -> list[Job]:
    """List the jobs that are served.

    Rule: a job is admitted if it can be served in full together with all that were admitted before it,
    even if some of these have to take other nodes for it. To serve the most jobs instead is NP-hard where jobs
    need three nodes or more, and would be unfair where they need one.
    Source: augmenting paths (Kuhn 1955), one for each node that a job needs.
    """
    places = _AugmentingPaths(edges)
    return [job for job in jobs if places.make_room(job)]


class _AugmentingPaths:
    """The holder of each node; every job that holds one holds all that it needs."""

    def __init__(self, edges: Mapping[int, Sequence[Edge]]) -> None:
        self._nodes = {job_id: [edge.node for edge in listed] for job_id, listed in edges.items()}
        self._holder: dict[str, int] = {}
        self._closed: set[str] = set()
        """Nodes from which no free one can ever be reached: a search that began there ended among them."""

    def make_room(self, job: Job) -> bool:
        """Give a job all nodes that it needs, or none."""
        if len(self._nodes[job.job_id]) < job.needs.nodes:
            return False
        for found in range(job.needs.nodes):
            seen = self._augment(job.job_id)
            if seen is None:
                continue
            if found:
                self._release(job.job_id)
            else:
                self._closed |= seen
            return False
        return True

    def _augment(self, job_id: int) -> set[str] | None:
        """Find one more node for a job; where there is none, give the nodes that were looked at."""
        seen_from: dict[str, int] = {}
        given_up_by: dict[int, str] = {}
        waiting = deque([job_id])
        while waiting:
            holder = waiting.popleft()
            for node in self._nodes[holder]:
                if node in seen_from or node in self._closed:
                    continue
                seen_from[node] = holder
                other = self._holder.get(node)
                if other is None:
                    self._hand_on(node, job_id, seen_from, given_up_by)
                    return None
                if other != job_id and other not in given_up_by:
                    given_up_by[other] = node
                    waiting.append(other)
        return set(seen_from)

    def _hand_on(self, free: str, job_id: int, seen_from: Mapping[str, int], given_up_by: Mapping[int, str]) -> None:
        """Give the free node to the job that reached it, the node this job gives up to the next, and so on."""
        node, taker = free, seen_from[free]
        while taker != job_id:
            self._holder[node] = taker
            node = given_up_by[taker]
            taker = seen_from[node]
        self._holder[node] = job_id

    def _release(self, job_id: int) -> None:
        for node in [node for node, holder in self._holder.items() if holder == job_id]:
            del self._holder[node]


Row = Sequence[tuple[int, int]]
"""The columns that a row may have, each with its cost."""


@dataclass(frozen=True, slots=True)
class Solved:
    """Each row's column, and a price for each row that proves that no other choice costs less.

    With prices ``u`` of rows and ``v <= 0`` of columns, 0 for unassigned columns, every edge costs at least
    ``u + v``, and the chosen ones exactly that. So an edge left out that costs at least ``u`` cannot make it
    cheaper.
    """

    column_of: list[int]
    prices: list[int]


Solve = Callable[[Sequence[Row]], Solved]
"""A solver. Raises ValueError where the rows cannot all have a column of their own."""


def solve_plain(rows: Sequence[Row]) -> Solved:
    """Which column does each row get, at the least total cost, none twice?

    Rule: rows come in one after the other; each takes the shortest path to a free column, along which others
    hand theirs on. Prices keep all lengths at 0 or above.
    Source: Jonker and Volgenant 1987; the paths are Dijkstra's, over the edges that there are, and of equally
    near columns a free one is reached first.

    Raises ValueError where the rows cannot all have one. Quick where rows are seldom in each other's way;
    where all want the same, it takes up to about rows x edges steps.
    """
    matching = _Matching(rows)
    for row in range(len(rows)):
        matching.bring_in(row)
    return Solved([matching.column_of[row] for row in range(len(rows))], matching.price_of_row)


class _Matching:
    """A matching of some rows that costs the least, and the prices that prove it."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._price_of_column: dict[int, int] = {}
        self._row_of: dict[int, int] = {}
        self.price_of_row = [0] * len(rows)
        self.column_of: dict[int, int] = {}

    def bring_in(self, new: int) -> None:
        """Match one more row."""
        search = _ShortestPaths()
        row, walked = new, 0
        while True:
            for column, length in self._lengths(row):
                search.offer(column, walked + length, row, taken=column in self._row_of)
            column, walked = search.nearest()
            if column not in self._row_of:
                break
            row = self._row_of[column]
        self._reprice(new, search, walked)
        self._hand_on(new, column, search)

    def _lengths(self, row: int) -> Iterable[tuple[int, int]]:
        price, prices = self.price_of_row[row], self._price_of_column
        return ((column, cost - price - prices.get(column, 0)) for column, cost in self._rows[row])

    def _reprice(self, new: int, search: "_ShortestPaths", walked: int) -> None:
        """Make all edges of the matching cost nothing, and no other less than nothing."""
        self.price_of_row[new] += walked
        for column, length in search.passed.items():
            if column in self._row_of:
                self.price_of_row[self._row_of[column]] += walked - length
                self._price_of_column[column] = self._price_of_column.get(column, 0) - (walked - length)

    def _hand_on(self, new: int, column: int, search: "_ShortestPaths") -> None:
        row = search.came_from[column]
        while row != new:
            given_up = self.column_of[row]
            self.column_of[row], self._row_of[column] = column, row
            column = given_up
            row = search.came_from[column]
        self.column_of[new], self._row_of[column] = column, new


class _ShortestPaths:
    """Shortest paths from one row."""

    def __init__(self) -> None:
        self.passed: dict[int, int] = {}
        self.came_from: dict[int, int] = {}
        self._best: dict[int, int] = {}
        self._heap: list[tuple[int, bool, int]] = []

    def offer(self, column: int, length: int, row: int, *, taken: bool) -> None:
        """Note a way to a column; it is kept if it is the shortest so far."""
        if column not in self.passed and length < self._best.get(column, length + 1):
            self._best[column] = length
            self.came_from[column] = row
            heappush(self._heap, (length, taken, column))

    def nearest(self) -> tuple[int, int]:
        """Go on to the nearest column that was not passed. Raises ValueError where there is none."""
        while self._heap:
            length, _, column = heappop(self._heap)
            if column not in self.passed:
                self.passed[column] = length
                return column, length
        raise ValueError("the rows cannot all have a column of their own")


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
    other R - 1 rows have at most R - 1 nodes, so that one of its R best leads to an unassigned node.
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
