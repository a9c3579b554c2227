"""Numbers in names that users write, as in ``pareto:leases=3`` and ``selective:price=0.005``."""

from math import nan

MOST_NUMBER = 1e12
"""The largest fractional number accepted."""

ABOVE_0 = f"a number above 0, from {1 / MOST_NUMBER:g} to {MOST_NUMBER:g}"


def number_above_0(text: str) -> float | None:
    """Read what `ABOVE_0` says; None for whatever else it is.

    What is next to nothing is not taken either: divided by it, most numbers would be infinite.
    """
    try:
        value = float(text)
    except ValueError:
        value = nan
    return value if 1 / MOST_NUMBER <= value <= MOST_NUMBER else None
