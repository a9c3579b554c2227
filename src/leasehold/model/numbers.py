"""Numbers in names that users write, as in ``pareto:leases=3`` and ``choosy:price=0.005``."""

from math import inf, nan


def number_above_0(text: str) -> float | None:
    """Read a finite number above 0; None for whatever else it is."""
    try:
        value = float(text)
    except ValueError:
        value = nan
    return value if 0 < value < inf else None
