"""Figures 6 and 7: the curves against the sums over all outcomes, and against numbers worked out by hand."""

from itertools import product
from math import prod

import pytest

from leasehold.experiments.hybrid.evaluation import figure_6, figure_7


def by_counting(needed: int, nodes: int, q: float) -> float:
    """How likely do enough nodes last? Every outcome is looked at."""
    outcomes = (outcome for outcome in product((True, False), repeat=nodes) if sum(outcome) >= needed)
    return sum(prod(1 - q if lasts else q for lasts in outcome) for outcome in outcomes)


def test_one_of_three_is_as_worked_out() -> None:
    curve = {one.name: dict(one.points) for one in figure_6()}["1 of 3"]
    expected = {0.1: 0.999, 0.3: 0.973, 0.5: 0.875, 0.7: 0.657, 0.9: 0.271}
    assert {q: round(curve[q], 3) for q in expected} == expected


@pytest.mark.parametrize("needed", [1, 2, 3])
def test_every_point_of_figure_6_is_the_sum_over_all_outcomes(needed: int) -> None:
    curve = {one.name: one for one in figure_6()}[f"{needed} of 3"]
    assert [y for _, y in curve.points] == pytest.approx([by_counting(needed, 3, q) for q, _ in curve.points])


def test_every_point_of_figure_7_is_the_sum_over_all_outcomes() -> None:
    for curve in figure_7():
        needed, q = int(curve.name.split()[0]), float(curve.name.split()[-1])
        assert [y for _, y in curve.points] == pytest.approx(
            [by_counting(needed, int(nodes), q) for nodes, _ in curve.points]
        )


def test_a_group_of_which_all_are_needed_is_less_sure_than_one_node() -> None:
    curves = {one.name: dict(one.points) for one in figure_6()}
    assert all(curves["3 of 3"][q] < alone for q, alone in curves["one node alone"].items())
