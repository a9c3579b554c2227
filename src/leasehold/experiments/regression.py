"""Straight lines through what several runs of each replication measured."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leasehold.experiments.anova import Values
from leasehold.experiments.statistics import Interval, interval


@dataclass(frozen=True, slots=True)
class Line:
    """y = intercept + slope x, by least squares; ``r_squared`` is how much of y's variance it explains."""

    intercept: Interval
    slope: Interval
    r_squared: Interval


def line(x: Values, y: Values) -> Line:
    """Fit a line to each replication, and take means over them; rows are replications, columns their runs.

    The runs of a replication draw from the same random streams, so that they are no independent points of one
    line; replications are independent.
    """
    fits = [_fit(*pair) for pair in zip(x, y, strict=True)]
    intercept, slope, r_squared = (interval(_column(fits, index)) for index in range(3))
    return Line(intercept, slope, r_squared)


def _fit(x: Values, y: Values) -> tuple[float, float, float]:
    away_x, away_y = x - x.mean(), y - y.mean()
    together, of_x, of_y = (float(np.sum(part)) for part in (away_x * away_y, away_x**2, away_y**2))
    slope = together / of_x if of_x else 0.0
    r_squared = together**2 / (of_x * of_y) if of_x and of_y else 0.0
    return float(y.mean()) - slope * float(x.mean()), slope, r_squared


def _column(fits: Sequence[tuple[float, float, float]], index: int) -> list[float]:
    return [fit[index] for fit in fits]
