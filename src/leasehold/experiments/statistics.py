"""Statistics over seeds: intervals of means, paired differences, and many hypotheses at once.

Student's distribution is SciPy's (extra ``experiments``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval, and from how many values; of one value nobody knows the spread."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def half_width(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2

    def widened(self, by: float) -> tuple[float, float]:
        """Give its bounds, each moved outwards by so much."""
        return self.low - by, self.high + by


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Estimate a mean from independent values, by Student's t."""
    sample = np.asarray(values, dtype=float)
    mean, count = float(sample.mean()), len(sample)
    if count == 1:
        return Interval(mean, mean, mean, 1)
    error = float(sample.std(ddof=1)) / count**0.5
    half = float(stats.t.ppf((1 + level) / 2, count - 1)) * error
    return Interval(mean, mean - half, mean + half, count)


def ratio(one: Sequence[float], other: Sequence[float], level: float = LEVEL) -> Interval:
    """Estimate the mean of one over the mean of another that had the same seeds, in the same order.

    The ratio estimator of survey sampling: its error is that of ``one - ratio * other``, over the mean of the
    other (Cochran: Sampling techniques, 3rd ed. 1977, section 6.3). Not a number where that mean is zero.
    """
    above, below = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    mean = float(below.mean())
    if mean == 0.0:
        return Interval(nan, nan, nan, len(below))
    estimate = float(above.mean()) / mean
    half = interval((above - estimate * below).tolist(), level).half_width / abs(mean)
    return Interval(estimate, estimate - half, estimate + half, len(below))


@dataclass(frozen=True, slots=True)
class Paired:
    """By how much one is greater than another, seed by seed, and how likely as much would be by chance.

    ``p``  of the two-sided paired t-test
    """

    difference: Interval
    p: float


def paired(one: Sequence[float], other: Sequence[float]) -> Paired:
    """Compare two that had the same seeds, in the same order."""
    differences = np.asarray(one, dtype=float) - np.asarray(other, dtype=float)
    found = interval(differences.tolist())
    return Paired(found, _two_sided(differences))


def _two_sided(differences: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
    count = len(differences)
    spread = float(differences.std(ddof=1)) if count > 1 else 0.0
    mean = float(differences.mean())
    if spread == 0.0:
        return 1.0 if mean == 0.0 or count == 1 else 0.0
    return float(2 * stats.t.sf(abs(mean) / (spread / count**0.5), count - 1))


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust p-values of a family of hypotheses by Holm's step-down method, in the order given.

    Holm: A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979).
    """
    order = sorted(range(len(ps)), key=ps.__getitem__)
    adjusted, least = [0.0] * len(ps), 0.0
    for rank, index in enumerate(order):
        least = max(least, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = least
    return adjusted
