"""Numbers as the report writes them."""

from math import isnan

from leasehold.experiments.statistics import Interval

NOTHING = "-"
LEAST_P = 0.001


def printed(value: float | None) -> str:
    """Write a printed number, as it is printed."""
    return NOTHING if value is None else f"{value:.2f}"


def mean(found: Interval) -> str:
    """Write a mean."""
    return f"{found.mean:.2f}"


def bounds(found: Interval) -> str:
    """Write an interval by its bounds."""
    return f"{found.low:.2f} to {found.high:.2f}"


def probability(p: float) -> str:
    """Write a p-value."""
    return f"< {LEAST_P}" if p < LEAST_P else f"{p:.3f}"


def amount(found: Interval) -> str:
    """Write a mean and half the width of its interval, to the digits that matter: ``11,654 ± 812``."""
    if isnan(found.mean):
        return NOTHING
    digits = _digits(found.mean)
    return f"{found.mean:,.{digits}f} ± {found.half_width:,.{digits}f}"


def bounded(found: Interval) -> str:
    """Write a ratio with its bounds, as far as they are known."""
    if isnan(found.low):
        return NOTHING if isnan(found.mean) else f"{found.mean:.2f}"
    return f"{found.mean:.2f} ({found.low:.2f} to {found.high:.2f})"


def signed(found: Interval) -> str:
    """Write a difference with its bounds, each with its sign."""
    digits = _digits(max(abs(found.low), abs(found.high)))
    return f"{found.mean:+,.{digits}f} ({found.low:+,.{digits}f} to {found.high:+,.{digits}f})"


def _digits(value: float) -> int:
    """Say how many digits stand behind the point: none from a hundred on, so that about three are shown."""
    return sum(abs(value) < bound for bound in (100, 10, 0.1, 0.01)) if value else 0
