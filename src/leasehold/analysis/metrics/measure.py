"""A measure: a number with its name, unit, meaning, source and formula in one place."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from leasehold.analysis.facts import lease_facts, segment_facts
from leasehold.analysis.run import Run

MS_PER_HOUR = 3_600_000


class Stage(StrEnum):
    """What a formula is taken over."""

    LEASES = "leases"
    SEGMENTS = "segments"
    COALLOCATIONS = "coallocations"
    DERIVED = "derived"


class Better(StrEnum):
    """Which direction is welcome, where one is."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number about a run, a cluster or a party.

    ``key`` ends in its unit where it has one; ``stage`` says what ``formula`` is evaluated over: the
    leases or the segments of a group (`leasehold.analysis.facts`), the co-allocations of a run, or the
    measures already made of it. ``source`` cites where a definition comes from.
    """

    key: str
    title: str
    unit: str
    meaning: str
    stage: Stage
    formula: pl.Expr
    better: Better = Better.NEITHER
    source: str = ""


def measure(run: Run, measures: Sequence[Measure], by: Sequence[str]) -> pl.DataFrame:
    """Evaluate measures for each group of ``by``, a choice of ``run``, ``site``, ``origin``, ``party``.

    A lease counts at the cluster where it was last; a segment counts where it was held.
    """
    leases = _of_stage(lease_facts(run), measures, Stage.LEASES, by)
    segments = _of_stage(segment_facts(run), measures, Stage.SEGMENTS, by)
    groups = leases.join(segments, on=by, how="full", coalesce=True).drop_nulls(list(by))
    counted = [m.key for m in measures if m.stage is Stage.SEGMENTS or m.unit == "leases"]
    frame = groups.with_columns(pl.col(counted).fill_null(0))
    return _with_derived(_with_capacity(run, frame), measures).sort(by)


def _of_stage(facts: pl.DataFrame, measures: Sequence[Measure], stage: Stage, by: Sequence[str]) -> pl.DataFrame:
    # In order, so that sums of floats come out the same every time.
    return facts.group_by(by, maintain_order=True).agg(m.formula.alias(m.key) for m in measures if m.stage is stage)


def _with_capacity(run: Run, frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``slots`` (of the group's own cluster, or of all of them) and ``span_h``."""
    if "site" in frame.columns:
        frame = frame.join(run.sites.select("site", "slots"), on="site", how="left")
    else:
        frame = frame.with_columns(slots=pl.lit(run.sites["slots"].sum()))
    return frame.with_columns(span_h=pl.lit(run.span_ms / MS_PER_HOUR))


def _with_derived(frame: pl.DataFrame, measures: Sequence[Measure]) -> pl.DataFrame:
    """Add the derived measures one after the other: each may stand on those before it."""
    for m in measures:
        if m.stage is Stage.DERIVED:
            frame = frame.with_columns(m.formula.alias(m.key))
    return frame
