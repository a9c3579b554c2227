"""Intervals of ratios of means by a paired bootstrap, for values that are far from normal.

Whole replications are drawn again, with both of their values, so that what they have in common stays. The
bounds are corrected for bias and skewness (BCa: Efron, J. Amer. Statist. Assoc. 82, 1987); the tests compare
them with those of ``scipy.stats.bootstrap``.
"""

from collections.abc import Sequence
from functools import cache
from math import isfinite, isnan, nan
from typing import TypeAlias

import numpy as np
from scipy import stats

from leasehold.experiments.statistics import LEVEL, Interval

Vector: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float64]]"
Matrix: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.float64]]"

RESAMPLES = 9_999
SEED = 20_120
ROUNDING = 1e-9
FEWEST = 3
"""Of fewer replications nobody knows the spread."""


def ratio_of_means(one: Sequence[float], other: Sequence[float], level: float = LEVEL) -> Interval:
    """Estimate the mean of one over the mean of another that had the same replications, in the same order.

    A replication in which either is not a number is left out. Not a number where the mean of the other is
    zero, and in some resample too.
    """
    above, below = _known(one, other)
    if len(above) == 0 or float(below.mean()) == 0.0:
        return Interval(nan, nan, nan, len(above))
    estimate = float(above.mean() / below.mean())
    if len(above) < FEWEST:
        return Interval(estimate, nan, nan, len(above))
    if np.allclose(above, estimate * below, rtol=ROUNDING, atol=0.0):
        return Interval(estimate, estimate, estimate, len(above))
    drawn = _ratios(_drawn_counts(len(above)) @ np.stack([above, below], axis=1))
    low, high = _bca(drawn, estimate, _left_one_out(above, below), level)
    return Interval(estimate, low, high, len(above))


def _known(one: Sequence[float], other: Sequence[float]) -> tuple[Vector, Vector]:
    pairs = [pair for pair in zip(one, other, strict=True) if not any(map(isnan, pair))]
    above, below = np.asarray(pairs, dtype=float).reshape(-1, 2).T
    return above, below


@cache
def _drawn_counts(count: int) -> Matrix:
    """Say how often each replication is in each resample; the same for every metric."""
    drawn = np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))
    counts = np.zeros((RESAMPLES, count))
    np.add.at(counts, (np.arange(RESAMPLES)[:, np.newaxis], drawn), 1.0)
    return counts


def _ratios(sums: Matrix) -> Vector:
    """Divide; what has nothing below it is without bound, or not a number."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[:, 0] / sums[:, 1])


def _left_one_out(above: Vector, below: Vector) -> Vector:
    return _ratios(np.stack([above.sum() - above, below.sum() - below], axis=1))


def _bca(drawn: Vector, estimate: float, jackknife: Vector, level: float) -> tuple[float, float]:
    """Correct the percentiles of what was drawn for bias, and for how the spread changes with the value."""
    if not (np.isfinite(drawn).all() and np.isfinite(jackknife).all()):
        return nan, nan
    tied = np.isclose(drawn, estimate, rtol=ROUNDING, atol=0.0)
    bias = float(stats.norm.ppf(np.mean((drawn < estimate) & ~tied) + np.mean(tied) / 2))
    away = jackknife.mean() - jackknife
    squares = float(np.sum(away**2))
    skew = float(np.sum(away**3)) / (6 * squares**1.5) if squares else 0.0
    tails = ((1 - level) / 2, (1 + level) / 2)
    low, high = (float(np.quantile(drawn, _shifted(tail, bias, skew))) for tail in tails)
    return low, high


def _shifted(tail: float, bias: float, skew: float) -> float:
    """Move a percentile; it stays where it is when all resamples lie on one side."""
    if not isfinite(bias):
        return tail
    point = bias + float(stats.norm.ppf(tail))
    return float(stats.norm.cdf(bias + point / (1 - skew * point)))
