"""Two runs side by side: every metric with its difference and ratio."""

import polars as pl

from leasehold.analysis.metrics import CATALOGUE, Better, Number, totals
from leasehold.analysis.run import Run


def compare(first: Run, second: Run) -> pl.DataFrame:
    """Return one row for each metric: both values, ``difference``, ``ratio`` and ``verdict``.

    ``difference`` is second less first, ``ratio`` is second over first (null where first is zero),
    ``verdict`` says whether the second run is ``better``, ``worse``, the ``same``, or ``n/a``: one of
    them has no value, or neither direction is welcome.
    """
    ours, theirs = totals(first), totals(second)
    return pl.DataFrame([_row(key, ours[key], theirs[key]) for key in CATALOGUE], infer_schema_length=None)


def _row(key: str, first: Number, second: Number) -> dict[str, object]:
    measure = CATALOGUE[key]
    both = first is not None and second is not None
    difference = float(second) - float(first) if first is not None and second is not None else None
    return {
        "metric": key,
        "title": measure.title,
        "unit": measure.unit,
        "first": None if first is None else float(first),
        "second": None if second is None else float(second),
        "difference": difference,
        "ratio": float(second or 0) / float(first) if both and first else None,
        "verdict": _verdict(measure.better, difference),
    }


def _verdict(better: Better, difference: float | None) -> str:
    if difference is None or better is Better.NEITHER:
        return "n/a"
    if difference == 0:
        return "same"
    return "better" if (difference < 0) is (better is Better.LOWER) else "worse"
