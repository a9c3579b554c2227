from math import isnan
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leasehold.experiments.statistics import (
    Status,
    holm,
    interval,
    is_equal_within,
    paired,
    ratio,
    status_of,
    status_of_equality,
)
from leasehold.experiments.statistics import tested as one_family


def test_an_interval_by_hand() -> None:
    """Mean 3, standard deviation 1.5811, of five: 2.776 x 1.5811 / sqrt(5) = 1.963."""
    found = interval([1, 2, 3, 4, 5])
    assert (found.mean, found.count) == (3, 5)
    assert (found.low, found.high) == pytest.approx((3 - 1.9632, 3 + 1.9632), abs=1e-4)
    assert found.half_width == pytest.approx(1.9632, abs=1e-4)


def test_nobody_knows_the_spread_of_one_value() -> None:
    found = interval([4.0])
    assert (found.low, found.mean, found.high) == (4, 4, 4)


def test_pairs_are_compared_pair_by_pair() -> None:
    """Both vary widely, and their difference hardly: pairing is what makes it visible."""
    found = paired([10.1, 20.0, 30.1, 40.0], [10.0, 19.9, 30.0, 39.9])
    assert found.difference.mean == pytest.approx(0.1)
    assert found.difference.low > 0
    assert found.p < 0.001


@given(st.integers(2, 30), st.integers(0, 2**32))
def test_the_p_value_is_that_of_the_paired_t_test(count: int, seed: int) -> None:
    random = Random(seed)
    one = [random.gauss(50, 10) for _ in range(count)]
    other = [value + random.gauss(0.5, 1) for value in one]
    assert paired(one, other).p == pytest.approx(stats.ttest_rel(one, other).pvalue)


def test_what_never_differs_is_no_difference() -> None:
    assert paired([1.0, 2.0], [1.0, 2.0]).p == 1.0
    assert paired([2.0, 3.0], [1.0, 2.0]).p == 0.0


def test_holm_by_hand() -> None:
    """Of four: the least times 4, the next times 3, ..., never below one before it, never above 1."""
    assert holm([0.04, 0.01, 0.03, 0.005]) == pytest.approx([0.06, 0.03, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_keeps_the_order_and_is_at_most_bonferroni(ps: list[float]) -> None:
    adjusted = holm(ps)
    bonferroni = [min(1.0, p * len(ps)) for p in ps]
    assert all(p <= q <= most for p, q, most in zip(ps, adjusted, bonferroni, strict=True))
    in_order = [q for _, q in sorted(zip(ps, adjusted, strict=True))]
    assert in_order == sorted(in_order)


def test_a_ratio_by_hand() -> None:
    """Means 3 and 6; what 0.5 times the other leaves over is -1, 0, 1: 4.303 x 1 / sqrt(3) / 6 = 0.414."""
    found = ratio([1, 3, 5], [4, 6, 8])
    assert found.mean == pytest.approx(0.5)
    assert found.half_width == pytest.approx(0.4140, abs=1e-4)


def test_a_ratio_of_proportional_values_is_sure() -> None:
    found = ratio([1, 2, 3], [2, 4, 6])
    assert (found.low, found.mean, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_a_ratio_is_as_wide_as_the_bootstrap_says() -> None:
    random = Random(3)
    below = [random.uniform(50, 150) for _ in range(200)]
    above = [value * random.uniform(0.2, 0.6) for value in below]
    drawn = sorted(
        sum(above[i] for i in picked) / sum(below[i] for i in picked)
        for picked in ([random.randrange(200) for _ in range(200)] for _ in range(2_000))
    )
    found = ratio(above, below)
    assert (found.low, found.high) == pytest.approx((drawn[50], drawn[1950]), abs=0.005)


def test_nothing_is_so_many_times_zero() -> None:
    assert isnan(ratio([1, 2], [0, 0]).mean)


@given(st.integers(2, 30), st.integers(0, 2**32), st.floats(0.01, 3))
def test_equality_is_shown_where_the_90_percent_interval_lies_within_the_margin(
    count: int, seed: int, margin: float
) -> None:
    """Two one-sided tests at 5 % say the same as the interval of 90 %."""
    random = Random(seed)
    differences = [random.gauss(0.2, 1) for _ in range(count)]
    found = interval(differences, 0.9)
    assert is_equal_within(np.asarray(differences), margin) is (-margin < found.low and found.high < margin)


@pytest.mark.parametrize(
    ("differences", "equal"), [([0.0, 0.0], True), ([2.0, 2.0], False), ([0.1], False), ([float("nan")] * 3, False)]
)
def test_equality_of_values_without_spread(differences: list[float], *, equal: bool) -> None:
    assert is_equal_within(np.asarray(differences), 1.0) is equal


def test_no_difference_found_is_not_equality_shown() -> None:
    """The same mean, 1: with much scatter it shows nothing, with little a difference."""
    scattered, close = ([1 + spread * x for x in (-1, 0, 1)] for spread in (9, 0.01))
    unclear, sure = paired(scattered, [0, 0, 0]), paired(close, [0, 0, 0])
    assert status_of_equality([sure, unclear], are_equal=True) is Status.REPRODUCED
    assert status_of_equality([unclear], are_equal=False) is Status.IN_DIRECTION
    assert status_of_equality([unclear, sure], are_equal=False) is Status.NOT_REPRODUCED


@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(0.01, 2)), min_size=1, max_size=5), st.integers(0, 2**32))
def test_what_is_surely_the_other_way_is_never_in_direction(parts: list[tuple[float, float]], seed: int) -> None:
    random = Random(seed)
    (differences,) = one_family([[np.asarray([random.gauss(mean, sd) for _ in range(9)]) for mean, sd in parts]])
    if any(one.is_refuted for one in differences):
        assert status_of(differences) is Status.NOT_REPRODUCED
