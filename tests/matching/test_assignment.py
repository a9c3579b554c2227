"""Matching: by hand, against brute force, and greedy beside the best."""

from collections.abc import Iterator
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.matching.making import ListedGraph, make_job

from leasehold.matching.assignment import Assignment, Edge, Row, Solved, greedy, optimal, solve_plain
from leasehold.matching.needs import Job
from leasehold.service.assignment_solver import solve_by_scipy

Weights = dict[int, dict[str, int]]


def graph(weights: Weights) -> ListedGraph:
    """All nodes alike but for the weights."""
    return ListedGraph({job: [Edge(w, 100, -1, node) for node, w in of.items()] for job, of in weights.items()})


def nodes_of(found: Assignment) -> dict[int, list[str]]:
    return {job: [edge.node for edge in edges] for job, edges in found.placed.items()}


class TestByHand:
    def test_greedy_takes_the_best_in_its_turn_and_the_best_matching_looks_at_both(self) -> None:
        """Greedy: 1 takes a (1 ms), 2 has only b left (10 ms): 11. Best: 1 takes b (2), 2 takes a (3): 5."""
        jobs = [make_job(1), make_job(2)]
        wishes = graph({1: {"a": 1, "b": 2}, 2: {"a": 3, "b": 10}})
        assert (nodes_of(greedy(jobs, wishes)), greedy(jobs, wishes).weight_ms) == ({1: ["a"], 2: ["b"]}, 11)
        assert (nodes_of(optimal(jobs, wishes)), optimal(jobs, wishes).weight_ms) == ({1: ["b"], 2: ["a"]}, 5)

    def test_a_job_of_two_nodes_gets_two_different_ones_or_none(self) -> None:
        jobs = [make_job(1, nodes=2), make_job(2)]
        wishes = graph({1: {"a": 1, "b": 2, "c": 3}, 2: {"a": 0}})
        assert nodes_of(greedy(jobs, wishes)) == {1: ["a", "b"]}
        assert greedy(jobs, wishes).left == (2,)
        assert nodes_of(optimal(jobs, wishes)) == {1: ["b", "c"], 2: ["a"]}

    def test_who_is_ahead_is_served_even_where_two_others_could_be(self) -> None:
        jobs = [make_job(1, nodes=2), make_job(2), make_job(3)]
        wishes = graph({1: {"a": 9, "b": 9}, 2: {"a": 1}, 3: {"b": 1}})
        for match in (greedy, optimal):
            assert (nodes_of(match(jobs, wishes)), match(jobs, wishes).left) == ({1: ["a", "b"]}, (2, 3))

    def test_a_job_that_cannot_have_all_its_nodes_stands_in_nobodys_way(self) -> None:
        jobs = [make_job(1, nodes=3), make_job(2)]
        wishes = graph({1: {"a": 1, "b": 1}, 2: {"a": 1}})
        for match in (greedy, optimal):
            assert (nodes_of(match(jobs, wishes)), match(jobs, wishes).left) == ({2: ["a"]}, (1,))

    @pytest.mark.parametrize("match", [greedy, optimal])
    def test_ties_end_by_memory_then_by_bandwidth(self, match: object) -> None:
        assert callable(match)
        large, slow, fast = Edge(5, 200, -9, "a"), Edge(5, 100, -1, "b"), Edge(5, 100, -2, "c")
        wishes = ListedGraph({1: [large, slow, fast]})
        assert match([make_job(1)], wishes).placed == {1: (fast,)}
        assert match([make_job(1, nodes=2)], wishes).placed == {1: (fast, slow)}

    def test_nobody_asks_for_anything(self) -> None:
        for match in (greedy, optimal):
            assert match([], graph({})) == Assignment({}, ())


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Job], ListedGraph]:
    names = "abcde"[: draw(st.integers(1, 5))]
    kinds = {name: draw(st.sampled_from([(1, -1), (1, -2), (2, -1)])) for name in names}
    jobs = [make_job(number, nodes=draw(st.integers(1, 2))) for number in range(draw(st.integers(1, 4)))]
    listed = {
        job.job_id: [Edge(draw(st.integers(0, 6)), *kinds[name], name) for name in names if draw(st.booleans())]
        for job in jobs
    }
    return jobs, ListedGraph(listed)


def every_matching(jobs: list[Job], wishes: ListedGraph) -> Iterator[dict[int, tuple[Edge, ...]]]:
    """Each way to serve some of the jobs in full."""
    if not jobs:
        yield {}
        return
    first, *rest = jobs
    for later in every_matching(rest, wishes):
        yield later
        taken = {edge.node for edges in later.values() for edge in edges}
        for chosen in combinations(wishes.edges(first, taken), first.needs.nodes):
            yield {first.job_id: chosen, **later}


def served(jobs: list[Job], placed: object) -> list[bool]:
    """Who is served, in the order of the queue: of two such lists the greater is the better."""
    assert hasattr(placed, "__contains__")
    return [job.job_id in placed for job in jobs]


def weight_ms(placed: dict[int, tuple[Edge, ...]]) -> int:
    return sum(edge.weight_ms for edges in placed.values() for edge in edges)


@given(cases())
def test_the_best_matching_is_that_of_brute_force(case: tuple[list[Job], ListedGraph]) -> None:
    jobs, wishes = case
    best = max(every_matching(jobs, wishes), key=lambda placed: (served(jobs, placed), -weight_ms(placed)))
    found = optimal(jobs, wishes)
    assert (served(jobs, found.placed), found.weight_ms) == (served(jobs, best), weight_ms(best))


@given(cases())
def test_of_best_matchings_it_takes_the_one_of_least_memory_and_most_bandwidth(
    case: tuple[list[Job], ListedGraph],
) -> None:
    jobs, wishes = case
    edges = [edge for of in wishes.listed.values() for edge in of]
    rank = {kind: at for at, kind in enumerate(sorted({(e.memory_mib, e.narrowness) for e in edges}))}

    def order(placed: dict[int, tuple[Edge, ...]]) -> tuple[list[bool], int, int]:
        ranks = sum(rank[e.memory_mib, e.narrowness] for of in placed.values() for e in of)
        return served(jobs, placed), -weight_ms(placed), -ranks

    best = max(map(order, every_matching(jobs, wishes)))
    assert order(dict(optimal(jobs, wishes).placed)) == best


@given(cases())
def test_greedy_is_the_rule_in_one_line_and_never_better(case: tuple[list[Job], ListedGraph]) -> None:
    jobs, wishes = case
    found, best = greedy(jobs, wishes), optimal(jobs, wishes)
    assert served(jobs, found.placed) <= served(jobs, best.placed)
    if set(found.placed) == set(best.placed):
        assert best.weight_ms <= found.weight_ms


@given(cases())
def test_both_take_only_edges_that_there_are_and_no_node_twice(case: tuple[list[Job], ListedGraph]) -> None:
    jobs, wishes = case
    for found in (greedy(jobs, wishes), optimal(jobs, wishes)):
        taken = [edge.node for edges in found.placed.values() for edge in edges]
        assert len(taken) == len(set(taken))
        assert sorted([*found.placed, *found.left]) == [job.job_id for job in jobs]
        for job in jobs:
            edges = found.placed.get(job.job_id, ())
            assert set(edges) <= set(wishes.listed[job.job_id])
            assert len(edges) in {0, job.needs.nodes}


def crowd(jobs: int, columns: int) -> tuple[list[Job], ListedGraph]:
    """Everybody would rather have the same nodes: the first edges drawn do not suffice."""
    listed = {
        number: [Edge(column + number * column % 7, 1, -1, f"n{column:03}") for column in range(columns)]
        for number in range(jobs)
    }
    return [make_job(number) for number in range(jobs)], ListedGraph(listed)


def test_where_all_want_the_same_more_edges_are_drawn_until_it_is_proven() -> None:
    """90 jobs for 100 nodes, 34 edges each drawn at first; the whole, by SciPy, is the oracle."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - an oracle

    jobs, wishes = crowd(90, 100)
    costs = [[edge.weight_ms for edge in wishes.listed[job.job_id]] for job in jobs]
    rows, columns = linear_sum_assignment(costs)
    assert optimal(jobs, wishes).weight_ms == sum(costs[r][c] for r, c in zip(rows, columns, strict=True))


ROWS = st.lists(
    st.dictionaries(st.integers(0, 5), st.integers(0, 20), min_size=1).map(lambda of: list(of.items())),
    max_size=4,
)


class TestSolvers:
    @given(ROWS)
    def test_the_plain_one_and_scipys_find_the_least_total_and_prices_that_prove_it(self, rows: list[Row]) -> None:
        least = least_total(rows)
        for solve in (solve_plain, solve_by_scipy):
            if least is None:
                with pytest.raises(ValueError, match=r"cannot all have|no full matching"):
                    solve(rows)
            else:
                assert total(rows, solve(rows)) == least
                self.prove(rows, solve(rows))

    @staticmethod
    def prove(rows: list[Row], solved: Solved) -> None:
        """Prices of columns follow from those of rows; none is above 0, and no edge costs less than both."""
        price = {
            column: dict(row)[column] - paid
            for row, column, paid in zip(rows, solved.column_of, solved.prices, strict=True)
        }
        assert all(of_column <= 0 for of_column in price.values())
        for row, paid in zip(rows, solved.prices, strict=True):
            assert all(cost >= paid + price.get(column, 0) for column, cost in row)

    def test_the_plain_one_has_no_largest_number(self) -> None:
        huge = 2**60
        rows: list[Row] = [[(0, huge), (1, huge + 1)], [(0, huge + 1), (1, huge + 3)]]
        assert solve_plain(rows).column_of == [1, 0]

    def test_matching_is_the_same_with_either(self) -> None:
        jobs, wishes = crowd(20, 30)
        assert optimal(jobs, wishes).weight_ms == optimal(jobs, wishes, solve_by_scipy).weight_ms


def total(rows: list[Row], solved: Solved) -> int:
    assert len(set(solved.column_of)) == len(rows)
    return sum(dict(row)[column] for row, column in zip(rows, solved.column_of, strict=True))


def least_total(rows: list[Row]) -> int | None:
    """By trying everything."""
    totals = [
        sum(dict(row)[column] for row, column in zip(rows, chosen, strict=True))
        for chosen in permutations(range(6), len(rows))
        if all(column in dict(row) for row, column in zip(rows, chosen, strict=True))
    ]
    return min(totals, default=None)
