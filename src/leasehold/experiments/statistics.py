"""Statistics over seeds and replications with common random streams, by SciPy (extra ``experiments``).

Claims of publications are tested on our results by paired differences.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isnan, nan
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import stats

Values: TypeAlias = npt.NDArray[np.float64]

LEVEL = 0.95
FEWEST = 3
"""The distribution of fewer values is unknown."""
EQUAL_WITHIN = 0.05
"""What counts as no difference where a publication claims none, as a part of the mean that is compared."""
RESAMPLES, BOOTSTRAP_SEED = 9_999, 20_120
DECIMALS = 12
"""Of the ratio of a resample, so that rounding errors do not break ties with the estimate."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval, and the number of values; one value has no spread."""

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


def interval(values: Sequence[float] | Values, level: float = LEVEL) -> Interval:
    """Estimate a mean from independent values, by Student's t."""
    sample = np.asarray(values, dtype=float)
    mean, count = float(sample.mean()), len(sample)
    if count == 1:
        return Interval(mean, mean, mean, 1)
    half = float(stats.t.ppf((1 + level) / 2, count - 1) * stats.sem(sample))
    return Interval(mean, mean - half, mean + half, count)


def ratio(one: Sequence[float], other: Sequence[float], level: float = LEVEL) -> Interval:
    """Estimate the mean of one over the mean of another with the same seeds in the same order.

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


def bootstrap_ratio(one: Sequence[float], other: Sequence[float], level: float = LEVEL) -> Interval:
    """Estimate the same from values that are far from normal, by a paired BCa bootstrap.

    A replication in which either is not a number is left out. Not a number where the mean of the other is
    zero; without bounds where that of a resample is.
    """
    pairs = [pair for pair in zip(one, other, strict=True) if not any(map(isnan, pair))]
    above, below = np.asarray(pairs, dtype=float).reshape(-1, 2).T
    if len(above) == 0 or float(below.mean()) == 0.0:
        return Interval(nan, nan, nan, len(above))
    estimate = float(above.mean() / below.mean())
    if len(above) < FEWEST:
        return Interval(estimate, nan, nan, len(above))
    if np.allclose(above, estimate * below, rtol=1e-9, atol=0.0):
        return Interval(estimate, estimate, estimate, len(above))
    with warnings.catch_warnings(action="ignore"):  # of resamples without a ratio, which have no bounds
        low, high = stats.bootstrap(
            (above, below),
            _ratio_of_means,
            paired=True,
            n_resamples=RESAMPLES,
            confidence_level=level,
            rng=np.random.default_rng(BOOTSTRAP_SEED),
        ).confidence_interval
    return Interval(estimate, float(low), float(high), len(above))


def _ratio_of_means(above: Values, below: Values, axis: int = -1) -> Values:
    return np.asarray(np.round(above.mean(axis=axis) / below.mean(axis=axis), DECIMALS))


@dataclass(frozen=True, slots=True)
class Paired:
    """By how much one is greater than another, seed by seed; ``p`` is that of the two-sided paired t-test."""

    difference: Interval
    p: float


def paired(one: Sequence[float] | Values, other: Sequence[float] | Values) -> Paired:
    """Compare two that had the same seeds, in the same order."""
    differences = np.subtract(one, other)
    found = interval(differences)
    if np.ptp(differences) == 0.0:
        return Paired(found, 1.0 if found.mean == 0.0 or found.count == 1 else 0.0)
    with warnings.catch_warnings(action="ignore"):  # of differences that hardly vary
        return Paired(found, float(stats.ttest_1samp(differences, 0.0).pvalue))


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


def normality_p(values: Values) -> float:
    """Give p of Shapiro and Wilk's test that values are normal; NaN for fewer than three, or equal ones."""
    if len(values) < FEWEST or np.ptp(values) == 0.0:
        return nan
    return float(stats.shapiro(values).pvalue)


def signed_rank_p(differences: Values) -> float:
    """Give p of Wilcoxon's test, which needs no normality; NaN where all differences are zero."""
    return float(stats.wilcoxon(differences).pvalue) if np.any(differences) else nan


@dataclass(frozen=True, slots=True)
class Effect:
    """How much a factor, or the two together, explain, and p of the F test."""

    squares: float
    freedom: int
    f: float
    p: float


@dataclass(frozen=True, slots=True)
class Anova:
    """The table of an analysis of variance, with tests of its assumptions.

    ``normal_p``        of Shapiro and Wilk's test that the residuals are normal
    ``equal_spread_p``  of Brown and Forsythe's test that all combinations have the same variance
    """

    first: Effect
    second: Effect
    together: Effect
    replications: Effect
    error_squares: float
    error_freedom: int
    normal_p: float
    equal_spread_p: float


def two_way(values: Values) -> Anova:
    """Analyse a complete block design, by first factor, second factor and replication.

    The model: value = first + second + first x second + replication + error. Replications are blocks: what
    all runs of one have in common, because they drew from the same random streams, is not an error.
    """
    of_first, of_second, blocks = values.shape
    mean = values.mean()
    first = values.mean(axis=(1, 2), keepdims=True) - mean
    second = values.mean(axis=(0, 2), keepdims=True) - mean
    together = values.mean(axis=2, keepdims=True) - mean - first - second
    block = values.mean(axis=(0, 1), keepdims=True) - mean
    residuals = values - mean - first - second - together - block
    error_squares, error_freedom = float((residuals**2).sum()), (of_first * of_second - 1) * (blocks - 1)

    def effect(part: Values, freedom: int) -> Effect:
        squares = float((np.broadcast_to(part, values.shape) ** 2).sum())
        if not freedom or not error_freedom or not error_squares:
            return Effect(squares, freedom, nan, nan)
        f = (squares / freedom) / (error_squares / error_freedom)
        return Effect(squares, freedom, f, float(stats.f.sf(f, freedom, error_freedom)))

    return Anova(
        effect(first, of_first - 1),
        effect(second, of_second - 1),
        effect(together, (of_first - 1) * (of_second - 1)),
        effect(block, blocks - 1),
        error_squares,
        error_freedom,
        normality_p(residuals.ravel()),
        _equal_spread_p(values.reshape(-1, blocks)),
    )


def _equal_spread_p(cells: Values) -> float:
    is_known = len(cells) > 1 and cells.shape[1] >= FEWEST and bool(np.any(np.ptp(cells, axis=1)))
    return float(stats.levene(*cells, center="median").pvalue) if is_known else nan


@dataclass(frozen=True, slots=True)
class RegressionLine:
    """y = intercept + slope x, by least squares, and the part of the variance of y that it explains."""

    intercept: Interval
    slope: Interval
    r_squared: Interval


def line(x: Values, y: Values) -> RegressionLine:
    """Fit a line to each replication, and take means over them; rows are replications, columns their runs.

    The runs of a replication draw from the same random streams, so that they are not independent points of one
    line; replications are independent.
    """
    intercepts, slopes, r_squareds = zip(*map(_fit, x, y), strict=True)
    return RegressionLine(interval(intercepts), interval(slopes), interval(r_squareds))


def _fit(x: Values, y: Values) -> tuple[float, float, float]:
    if np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
        return float(y.mean()), 0.0, 0.0
    found = stats.linregress(x, y)
    return found.intercept, found.slope, found.rvalue**2


ALPHA = 0.05


class Status(StrEnum):
    """How a printed number, or a claim, came out; each evaluation states the conditions."""

    REPRODUCED = "reproduced"
    IN_DIRECTION = "in direction"
    NOT_REPRODUCED = "not reproduced"
    NOT_COMPARABLE = "not comparable"


def counted(statuses: Iterable[Status]) -> dict[Status, int]:
    """Count each status, those that do not occur included."""
    found = Counter(statuses)
    return {status: found[status] for status in Status}


def in_words(statuses: Iterable[Status]) -> str:
    """Count the statuses that occur: ``3 reproduced, 1 in direction``."""
    return ", ".join(f"{count} {status}" for status, count in counted(statuses).items() if count)


@dataclass(frozen=True, slots=True)
class Tested:
    """A difference that is claimed to be above zero; ``p`` is adjusted by Holm's method."""

    found: Paired
    p: float
    values: Values = field(repr=False, compare=False)

    @property
    def difference(self) -> Interval:
        """The difference."""
        return self.found.difference

    @property
    def mean(self) -> float:
        """Its mean."""
        return self.difference.mean

    @property
    def is_zero(self) -> bool:
        """Whether it is zero in every replication: both sides are one and the same."""
        return self.difference.low == self.difference.high == 0.0

    @property
    def holds(self) -> bool:
        """Whether it holds in the mean."""
        return self.mean > 0

    @property
    def is_significant(self) -> bool:
        """Whether it differs significantly from zero, on either side."""
        return self.p < ALPHA

    @property
    def is_sure(self) -> bool:
        """Whether it holds significantly."""
        return self.holds and self.is_significant

    @property
    def is_refuted(self) -> bool:
        """Whether the opposite holds significantly: it is surely the other way."""
        return self.mean < 0 and self.is_significant


def tested(groups: Sequence[Sequence[Values]]) -> list[tuple[Tested, ...]]:
    """Test groups of differences, one value for each replication; all are one family of hypotheses."""
    found = [[paired(values, np.zeros(len(values))) for values in group] for group in groups]
    adjusted = iter(holm([one.p for group in found for one in group]))
    return [
        tuple(Tested(one, next(adjusted), values) for one, values in zip(group, of_group, strict=True))
        for group, of_group in zip(found, groups, strict=True)
    ]


def status_of(differences: Sequence[Tested]) -> Status:
    """Judge differences all of which are claimed: *in direction* where each holds, not each surely."""
    if all(one.is_sure for one in differences):
        return Status.REPRODUCED
    return Status.IN_DIRECTION if all(one.holds for one in differences) else Status.NOT_REPRODUCED


def is_equal_within(differences: Values, margin: float) -> bool:
    """Whether paired differences are surely smaller than a margin, on either side: two one-sided t-tests.

    Schuirmann: A comparison of the two one-sided tests procedure and the power approach for assessing the
    equivalence of average bioavailability, J. Pharmacokinet. Biopharm. 15 (1987). One value shows nothing.
    """
    mean = float(np.mean(differences))
    if len(differences) > 1 and np.ptp(differences) == 0.0:
        return abs(mean) < margin
    if len(differences) == 1 or np.isnan(mean):
        return False
    with warnings.catch_warnings(action="ignore"):  # of differences that hardly vary
        above = stats.ttest_1samp(differences, -margin, alternative="greater").pvalue
        below = stats.ttest_1samp(differences, margin, alternative="less").pvalue
    return float(max(above, below)) < ALPHA


def differing(differences: Sequence[Paired]) -> int:
    """Count those that differ significantly, where a claim says that none does: by Holm within the claim."""
    return sum(p < ALPHA for p in holm([one.p for one in differences]))


def status_of_equality(differences: Sequence[Paired], *, are_equal: bool) -> Status:
    """Judge a claim that there is no difference; ``are_equal``: each is equal within its margin.

    *In direction* where none differs significantly, and equality is not shown.
    """
    if are_equal:
        return Status.REPRODUCED
    return Status.NOT_REPRODUCED if differing(differences) else Status.IN_DIRECTION


def tally(differences: Sequence[Tested]) -> str:
    """Say in a sentence how many hold."""
    holding, sure = sum(one.holds for one in differences), sum(one.is_sure for one in differences)
    against = sum(one.is_refuted for one in differences)
    return f"{holding} of {len(differences)} hold, {sure} surely; {against} surely the other way"


C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class ClaimVerdict(Generic[C]):
    """A claim and how it came out; ``why`` says what decided."""

    claim: C
    status: Status
    why: str = ""
    tested: tuple[Tested, ...] = ()
