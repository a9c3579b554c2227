"""The paired bootstrap of a ratio: against scipy, by what it must be, and where nobody can tell."""

from math import isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leasehold.experiments.statistics import bootstrap_ratio

amounts = st.floats(min_value=0.5, max_value=1_000.0)


def drawn(count: int, seed: int = 7) -> tuple[list[float], list[float]]:
    """Two skewed counts that have much in common."""
    rng = np.random.default_rng(seed)
    common = rng.lognormal(9, 0.5, count)
    own = [common * rng.lognormal(0, 0.2, count) for _ in range(2)]
    return (0.4 * own[0]).tolist(), own[1].tolist()


@pytest.mark.parametrize("count", [30, 100])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_agrees_with_scipy(count: int, seed: int) -> None:
    one, other = drawn(count, seed)

    def ratio(above: Any, below: Any, axis: int = -1) -> Any:
        return above.mean(axis=axis) / below.mean(axis=axis)

    theirs = stats.bootstrap(
        (one, other), ratio, paired=True, vectorized=True, n_resamples=9_999, method="BCa", rng=seed
    ).confidence_interval
    ours = bootstrap_ratio(one, other)
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.06 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.06 * width)


@given(st.lists(st.tuples(amounts, amounts), min_size=3, max_size=40), st.floats(0.1, 10.0))
def test_scales_with_what_is_above_and_holds_the_estimate(pairs: list[tuple[float, float]], times: float) -> None:
    one, other = (list(side) for side in zip(*pairs, strict=True))
    found, scaled = bootstrap_ratio(one, other), bootstrap_ratio([times * value for value in one], other)
    assert found.mean == pytest.approx(sum(one) / sum(other))
    for ours, theirs in ((scaled.mean, found.mean), (scaled.low, found.low), (scaled.high, found.high)):
        assert ours == pytest.approx(times * theirs, rel=1e-6)
    assert found.low <= found.high


def test_is_the_same_every_time() -> None:
    assert bootstrap_ratio(*drawn(50)) == bootstrap_ratio(*drawn(50))


def test_a_policy_is_to_itself_as_one_to_one() -> None:
    one, _ = drawn(20)
    found = bootstrap_ratio(one, one)
    assert (found.mean, found.low, found.high) == (1.0, 1.0, 1.0)


def test_replications_without_a_number_are_left_out() -> None:
    one, other = drawn(30)
    assert bootstrap_ratio([*one, nan, 5.0], [*other, 3.0, nan]) == bootstrap_ratio(one, other)


def test_there_is_no_ratio_to_nothing() -> None:
    assert isnan(bootstrap_ratio([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]).mean)
    assert isnan(bootstrap_ratio([nan], [nan]).mean)
    assert isnan(bootstrap_ratio([1.0, 2.0, 0.0], [0.0, 0.0, 5.0]).low)


def test_two_replications_have_no_spread_that_anybody_knows() -> None:
    found = bootstrap_ratio([1.0, 2.0], [2.0, 2.0])
    assert found.mean == 0.75
    assert isnan(found.low)
    assert isnan(found.high)
