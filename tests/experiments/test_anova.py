"""The analysis of variance, against regression by least squares and against SciPy's one-way test."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.searching import examples

from leasehold.experiments.statistics import Values, normality_p, signed_rank_p, two_way


def drawn(shape: tuple[int, int, int], seed: int) -> Values:
    """Normal values with an effect of everything."""
    random = np.random.default_rng(seed)
    first, second, blocks = shape
    effects = (
        random.normal(size=(first, 1, 1)) + random.normal(size=(1, second, 1)) + random.normal(size=(1, 1, blocks))
    )
    return np.asarray(effects + random.normal(size=shape))


def indicators(of: int, index: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Values:
    """One column for each level but the last, which has -1 in all of them, so that effects sum up to zero."""
    rows = np.eye(of)
    rows[-1] = -1
    return np.asarray(rows[index][:, :-1])


def left_over(columns: list[Values], values: Values) -> float:
    """The sum of squares that a regression on these columns leaves unexplained."""
    design = np.column_stack([np.ones(values.size), *columns])
    fitted = design @ np.linalg.lstsq(design, values.ravel(), rcond=None)[0]
    return float(((values.ravel() - fitted) ** 2).sum())


@given(st.tuples(st.integers(2, 4), st.integers(2, 4), st.integers(2, 6)), st.integers(0, 2**32))
@settings(max_examples=examples(25))
def test_is_the_comparison_of_regressions_with_and_without_an_effect(shape: tuple[int, int, int], seed: int) -> None:
    values = drawn(shape, seed)
    first, second, block = (indicators(of, index.ravel()) for of, index in zip(shape, np.indices(shape), strict=True))
    together = np.column_stack(
        [first[:, [i]] * second[:, [j]] for i in range(shape[0] - 1) for j in range(shape[1] - 1)]
    )
    parts = {"first": first, "second": second, "together": together, "replications": block}
    full = left_over(list(parts.values()), values)
    found = two_way(values)
    error_freedom = (shape[0] * shape[1] - 1) * (shape[2] - 1)
    assert found.error_squares == pytest.approx(full)
    assert found.error_freedom == error_freedom
    for name, part in parts.items():
        effect = getattr(found, name)
        freedom = part.shape[1]
        squares = left_over([other for key, other in parts.items() if key != name], values) - full
        f = squares / freedom / (full / error_freedom)
        assert effect.freedom == freedom
        assert effect.squares == pytest.approx(squares, abs=1e-9)
        assert effect.p == pytest.approx(stats.f.sf(f, freedom, error_freedom), abs=1e-9)


def test_of_one_factor_and_two_levels_it_is_the_paired_t_test() -> None:
    values = drawn((2, 1, 12), 5)
    t_test = stats.ttest_rel(values[0, 0], values[1, 0])
    found = two_way(values)
    assert found.first.f == pytest.approx(t_test.statistic**2)
    assert found.first.p == pytest.approx(t_test.pvalue)


def test_without_blocks_the_cells_together_are_scipys_one_way_test() -> None:
    """All effects but that of replications, over the error with it: one factor of six levels."""
    values = drawn((2, 3, 9), 7)
    found = two_way(values)
    between = found.first.squares + found.second.squares + found.together.squares
    within = found.error_squares + found.replications.squares
    f = (between / 5) / (within / 48)
    assert f == pytest.approx(stats.f_oneway(*values.reshape(6, 9)).statistic)


def test_by_hand() -> None:
    """Two policies, one point, two replications: 1, 3 and 4, 8. Means 2 and 6, 2.5 and 5.5, 4 in all."""
    found = two_way(np.array([[[1.0, 3.0]], [[4.0, 8.0]]]))
    assert found.first.squares == pytest.approx(16)
    assert found.replications.squares == pytest.approx(9)
    assert found.error_squares == pytest.approx(1)
    assert found.first.f == pytest.approx(16)
    assert found.first.p == pytest.approx(stats.f.sf(16, 1, 1))


def test_what_never_varies_tells_nothing() -> None:
    found = two_way(np.ones((2, 2, 4)))
    assert np.isnan(found.first.p)
    assert np.isnan(found.normal_p)


def test_notices_unequal_variances_and_what_is_not_normal() -> None:
    random = np.random.default_rng(1)
    wide = random.normal(size=(2, 2, 60)) * np.array([1.0, 20.0]).reshape(2, 1, 1)
    assert two_way(wide).equal_spread_p < 0.001
    assert two_way(random.standard_exponential((2, 2, 60)) ** 3).normal_p < 0.001
    even = two_way(random.normal(size=(2, 2, 60)))
    assert min(even.normal_p, even.equal_spread_p) > 0.01


def test_of_two_values_nobody_can_say_whether_they_are_normal() -> None:
    assert np.isnan(normality_p(np.array([1.0, 2.0])))
    assert np.isnan(two_way(drawn((2, 2, 2), 1)).equal_spread_p)


def test_signs_and_ranks() -> None:
    """All eight of one sign: two of the 256 ways in which the signs can fall are as extreme."""
    assert signed_rank_p(np.arange(1.0, 9.0)) == pytest.approx(2 / 256)
    assert np.isnan(signed_rank_p(np.zeros(5)))
