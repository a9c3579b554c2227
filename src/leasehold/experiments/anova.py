"""Analysis of variance of two factors, where every replication had all combinations of them.

Replications are blocks: what all runs of one have in common, because they drew from the same random streams,
is taken out of the error. F distribution and tests of assumptions are SciPy's (extra ``experiments``).
"""

from dataclasses import dataclass
from math import nan
from typing import TypeAlias

import numpy as np
from scipy import stats

Values: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"
"""By first factor, second factor and replication."""

FEWEST = 3
"""Of fewer values nobody can say how they are distributed."""


@dataclass(frozen=True, slots=True)
class Effect:
    """How much a factor, or the two together, explain; ``p`` is how likely as much would be by chance."""

    squares: float
    freedom: int
    f: float
    p: float


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What the F test takes for granted, tested.

    ``normal_p``        of Shapiro and Wilk's test that the residuals are normal
    ``equal_spread_p``  of Brown and Forsythe's test that all combinations have the same variance
    """

    normal_p: float
    equal_spread_p: float


@dataclass(frozen=True, slots=True)
class Anova:
    """The table of an analysis of variance."""

    first: Effect
    second: Effect
    together: Effect
    replications: Effect
    error_squares: float
    error_freedom: int
    assumptions: Assumptions


def two_way(values: Values) -> Anova:
    """Analyse a complete block design: value = first + second + first x second + replication + error."""
    of_first, of_second, blocks = values.shape
    mean = values.mean()
    first = values.mean(axis=(1, 2), keepdims=True) - mean
    second = values.mean(axis=(0, 2), keepdims=True) - mean
    together = values.mean(axis=2, keepdims=True) - mean - first - second
    block = values.mean(axis=(0, 1), keepdims=True) - mean
    residuals = values - mean - first - second - together - block
    freedom = (of_first * of_second - 1) * (blocks - 1)
    error = float((residuals**2).sum()), freedom
    return Anova(
        _effect(first, values, of_first - 1, error),
        _effect(second, values, of_second - 1, error),
        _effect(together, values, (of_first - 1) * (of_second - 1), error),
        _effect(block, values, blocks - 1, error),
        *error,
        _assumptions(values, residuals),
    )


def _effect(part: Values, values: Values, freedom: int, error: tuple[float, int]) -> Effect:
    squares = float((np.broadcast_to(part, values.shape) ** 2).sum())
    error_squares, error_freedom = error
    if not freedom or not error_freedom or not error_squares:
        return Effect(squares, freedom, nan, nan)
    f = (squares / freedom) / (error_squares / error_freedom)
    return Effect(squares, freedom, f, float(stats.f.sf(f, freedom, error_freedom)))


def _assumptions(values: Values, residuals: Values) -> Assumptions:
    cells = values.reshape(-1, values.shape[2])
    is_known = len(cells) > 1 and values.shape[2] >= FEWEST and bool(np.any(np.ptp(cells, axis=1)))
    spread = float(stats.levene(*cells, center="median").pvalue) if is_known else nan
    return Assumptions(normality_p(residuals.ravel()), spread)


def normality_p(values: Values) -> float:
    """Say how likely so unusual values would be if they came from a normal distribution (Shapiro, Wilk).

    Not a number for fewer than three, or where all are the same.
    """
    if len(values) < FEWEST or np.ptp(values) == 0.0:
        return nan
    return float(stats.shapiro(values).pvalue)


def signed_rank_p(differences: Values) -> float:
    """Say how likely such differences are if each sign is as likely (Wilcoxon): nothing need be normal."""
    if not np.any(differences):
        return nan
    return float(stats.wilcoxon(differences).pvalue)
