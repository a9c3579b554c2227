"""Least squares by hand, and against SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leasehold.experiments.statistics import line


def test_by_hand() -> None:
    """Through (1, 1), (2, 3), (3, 2): slope 1/2, intercept 1, and a quarter of the variance."""
    found = line(np.array([[1.0, 2, 3]]), np.array([[1.0, 3, 2]]))
    assert (found.slope.mean, found.intercept.mean, found.r_squared.mean) == pytest.approx((0.5, 1.0, 0.25))


@given(st.integers(0, 2**32))
def test_each_replication_is_fitted_as_scipy_does(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(4, 7)), random.normal(size=(4, 7))
    fits = [stats.linregress(*pair) for pair in zip(x, y, strict=True)]
    found = line(x, y)
    assert found.slope.mean == pytest.approx(np.mean([fit.slope for fit in fits]))
    assert found.intercept.mean == pytest.approx(np.mean([fit.intercept for fit in fits]))
    assert found.r_squared.mean == pytest.approx(np.mean([fit.rvalue**2 for fit in fits]))
    assert found.slope.count == 4


def test_what_does_not_vary_explains_nothing() -> None:
    found = line(np.ones((2, 3)), np.array([[1.0, 2, 3], [4, 5, 6]]))
    assert (found.slope.mean, found.r_squared.mean) == (0, 0)
