"""Tries on unlike nodes before a deadline: of like ones the closed form, of any what a simulation counts."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.matching.reliability import (
    CandidateNode,
    CopyMode,
    ReliabilityGoal,
    RestartAttempt,
    Tries,
    cheapest_plan,
    in_turn,
)


@given(
    rate=st.floats(1e-6, 3e-3),
    nodes=st.integers(1, 3),
    time_s=st.floats(500, 5_000),
    takeover_s=st.sampled_from([0.0, 10.0]),
)
@settings(max_examples=examples(60), deadline=None)
def test_of_like_nodes_it_is_the_closed_form(rate: float, nodes: int, time_s: float, takeover_s: float) -> None:
    like = Tries(1_000, time_s, rate, nodes, takeover_s)
    found = in_turn([RestartAttempt(1_000, rate)] * nodes, time_s, takeover_s)

    assert found.reliability == pytest.approx(like.reliability(), abs=1e-7)
    assert found.cost == pytest.approx(like.expected_node_s(), abs=1e-3)


def test_of_unlike_nodes_it_is_what_a_simulation_counts() -> None:
    tries = [RestartAttempt(1_000, 1e-3), RestartAttempt(600, 5e-4), RestartAttempt(1_500, 1e-4)]
    random, rounds = Random(1), 40_000

    done = sum(_is_done(tries, 2_200, 20, random) for _ in range(rounds))

    assert in_turn(tries, 2_200, 20).reliability == pytest.approx(done / rounds, abs=0.01)


def _is_done(tries: list[RestartAttempt], left_s: float, takeover_s: float, random: Random) -> bool:
    for one in tries:
        if one.needs_s > left_s:
            continue
        lasts_s = random.expovariate(one.rate_per_s)
        if lasts_s >= one.needs_s:
            return True
        left_s -= lasts_s + takeover_s
    return False


def test_a_node_on_which_it_would_be_too_late_is_passed_over() -> None:
    assert in_turn([RestartAttempt(100, 1e-3), RestartAttempt(10, 1e-3)], 50) == in_turn([RestartAttempt(10, 1e-3)], 50)
    assert in_turn([RestartAttempt(100, 1e-3)], 50).reliability == 0


def test_a_plan_may_have_a_copy_that_stands_by_on_an_unlike_node() -> None:
    nodes = [CandidateNode("a", 1e-4, 1_000), CandidateNode("b", 2e-4, 1_100)]

    planned = cheapest_plan(nodes, ReliabilityGoal(0.97, 5_000, spares=1))

    assert planned.plan is not None
    assert planned.plan.mode is CopyMode.COLD
    assert set(planned.plan.nodes) == {"a", "b"}


def test_there_are_no_more_copies_that_stand_by_than_restarts() -> None:
    nodes = [CandidateNode(name, 1e-3, 1_000) for name in "abc"]

    assert cheapest_plan(nodes, ReliabilityGoal(0.5, 9_000, restarts=1)).plan is not None
    planned = cheapest_plan(nodes, ReliabilityGoal(0.999, 9_000, restarts=0))
    assert planned.surest is not None
    assert planned.surest.mode is not CopyMode.COLD
