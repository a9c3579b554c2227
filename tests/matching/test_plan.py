"""The cheapest plan that is as sure as is asked: by hand, and against trying everything."""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.matching.reliability import CandidateNode, CopyMode, ReliabilityGoal, Tries, at_least, cheapest_plan
from leasehold.matching.verdict import Why, never
from leasehold.model.errors import InvalidField

HOUR_S = 3_600.0


def node(name: str, survival: float, price: float = 1.0, needs_s: float = HOUR_S) -> CandidateNode:
    return CandidateNode(name, -math.log(survival) / needs_s, needs_s, price)


class TestByHand:
    """A job of an hour on nodes that last for it nine times of ten."""

    like = [node(name, 0.9) for name in "abcd"]  # noqa: RUF012 - a test's constant

    def test_one_node_will_do_for_0_9(self) -> None:
        plan = cheapest_plan(self.like, ReliabilityGoal(0.89, HOUR_S)).plan
        assert plan is not None
        assert (plan.mode, plan.nodes) == (CopyMode.SINGLE, ("a",))

    def test_0_999_in_time_for_one_try_needs_three_at_once(self) -> None:
        """1 - 0.1^3 = 0.999, and there is no time to begin anew."""
        plan = cheapest_plan(self.like, ReliabilityGoal(0.9985, HOUR_S)).plan
        assert plan is not None
        assert (plan.mode, plan.nodes) == (CopyMode.HOT, ("a", "b", "c"))
        assert plan.reliability == pytest.approx(0.999)

    def test_with_time_to_begin_anew_copies_that_stand_by_are_cheaper(self) -> None:
        """Five hours are enough for three tries, of which the second and third are seldom begun."""
        asked = ReliabilityGoal(0.9985, 5 * HOUR_S)
        plan = cheapest_plan(self.like, asked).plan
        assert plan is not None
        assert (plan.mode, plan.nodes) == (CopyMode.COLD, ("a", "b", "c"))
        tries = Tries(HOUR_S, 5 * HOUR_S, self.like[0].rate_per_s, 3)
        assert (plan.reliability, plan.cost) == (tries.reliability(), tries.expected_node_s())

    def test_what_cannot_be_had_is_refused_with_the_best(self) -> None:
        planned = cheapest_plan(self.like, ReliabilityGoal(0.99999, HOUR_S))
        assert planned.plan is None
        assert planned.surest is not None
        assert planned.surest.reliability == pytest.approx(0.9999)
        assert planned.exact
        assert planned.verdict == never(Why.RELIABILITY_OUT_OF_REACH)

    def test_nodes_that_are_too_slow_are_no_use(self) -> None:
        late = [node("late", 0.999, needs_s=HOUR_S + 1)]
        assert cheapest_plan(late, ReliabilityGoal(0.5, HOUR_S)) == cheapest_plan([], ReliabilityGoal(0.5, HOUR_S))
        assert cheapest_plan([], ReliabilityGoal(0.5, HOUR_S)).surest is None

    def test_two_of_three_where_two_are_needed(self) -> None:
        """0.9^2 = 0.81; with a spare 0.9^3 + 3 * 0.9^2 * 0.1 = 0.972."""
        plan = cheapest_plan(self.like, ReliabilityGoal(0.95, 9 * HOUR_S, nodes=2)).plan
        assert plan is not None
        assert (plan.mode, len(plan.nodes)) == (CopyMode.HOT, 3)
        assert plan.reliability == pytest.approx(0.972)

    def test_where_there_are_too_many_sets_it_says_that_it_did_not_try_all(self) -> None:
        planned = cheapest_plan(self.like, ReliabilityGoal(0.9985, HOUR_S, looked_at=3))
        assert not planned.exact
        assert planned.plan is not None
        assert planned.plan.reliability >= 0.9985


CANDIDATES = st.lists(
    st.tuples(st.sampled_from([0.5, 0.8, 0.9, 0.99]), st.sampled_from([1.0, 2.0, 5.0])), max_size=7
).map(lambda drawn: [node(f"n{number}", *one) for number, one in enumerate(drawn)])


@given(CANDIDATES, st.floats(0.3, 0.9999), st.integers(1, 3), st.integers(0, 2))
def test_it_is_the_cheapest_of_all_sets_of_hot_copies(
    candidates: list[CandidateNode], reliability: float, needed: int, spares: int
) -> None:
    """There is no time to begin anew, so that leaving out dominated nodes is all that could go wrong."""
    planned = cheapest_plan(candidates, ReliabilityGoal(reliability, HOUR_S, needed, spares))
    sets = [chosen for size in range(needed, needed + spares + 1) for chosen in combinations(candidates, size)]
    sure = {chosen: at_least(needed, [one.survival for one in chosen]) for chosen in sets}
    costs = [math.fsum(one.cost for one in chosen) for chosen in sets if sure[chosen] >= reliability]
    assert (planned.plan is None) == (not costs)
    if planned.plan is not None:
        assert planned.plan.cost == pytest.approx(min(costs))
        assert planned.plan.reliability >= reliability
    if planned.surest is not None:
        assert planned.surest.reliability == pytest.approx(max(sure.values()))


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidField, match="above 0 and below 1"):
        ReliabilityGoal(1.0, HOUR_S)
    with pytest.raises(InvalidField, match="needs_s of a"):
        CandidateNode("a", 1.0, 0.0)
