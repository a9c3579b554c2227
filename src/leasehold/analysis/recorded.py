"""The waits that accounting recorded, against those of its simulation without guests: how far to believe a run."""

from dataclasses import dataclass

import polars as pl

from leasehold.analysis.run import Run, streamed

_FEWEST = 0.9
"""Fewer of its own jobs found in the accounting: the run is not of this log as it was (a load, a window)."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits of many jobs, in seconds."""

    mean_s: float
    median_s: float
    p95_s: float


@dataclass(frozen=True, slots=True)
class RecordedWaits:
    """How long the same jobs waited, as recorded and as simulated.

    ``error_pct``    of the simulated mean, relative to the recorded one; None where nobody waited
    ``mean_off_s``, ``median_off_s``, ``p95_off_s``  how far the simulated wait of a job is from the recorded one
    ``late_pct``     jobs that the simulation starts later than recorded
    """

    jobs: int
    recorded: Waits
    simulated: Waits
    error_pct: float | None
    mean_off_s: float
    median_off_s: float
    p95_off_s: float
    late_pct: float


def recorded_waits(run: Run) -> RecordedWaits | None:
    """Compare the waits of a run's own jobs with those that its log recorded; None for a run of another log."""
    pairs = waits_of_each(run)
    if pairs is None:
        return None
    recorded, simulated = pairs["recorded_ms"] / 1000, pairs["simulated_ms"] / 1000
    off = (simulated - recorded).abs()
    mean_s = _float(recorded.mean())
    return RecordedWaits(
        len(pairs),
        _waits(recorded),
        _waits(simulated),
        100 * (_float(simulated.mean()) - mean_s) / mean_s if mean_s else None,
        _float(off.mean()),
        _float(off.median()),
        _float(off.quantile(0.95)),
        100 * _float((simulated > recorded).mean()),
    )


def waits_of_each(run: Run) -> pl.DataFrame | None:
    """Give the wait of each job without guests: ``source_id``, ``recorded_ms`` and ``simulated_ms``; None as above."""
    logged = streamed(
        run.scan("log")
        .filter(~pl.col("never_began"), pl.col("wait_ms") >= 0)
        .select("source_id", "submit_ms", "wait_ms")
    )
    own = (
        run.scan("leases")
        .filter(pl.col("origin") == "local")
        .select("lease_id", "source_id", "submit_ms", "first_start_ms")
    )
    if run.height("baseline"):
        start = run.scan("baseline").select("lease_id", first_start_ms="start_ms")
        own = own.drop("first_start_ms").join(start, on="lease_id", how="left")
    jobs = streamed(own).sort("lease_id")
    if not len(jobs) or not len(logged):
        return None
    # The run begins with the first job that the log has in common with it.
    first = logged.filter(pl.col("source_id") == jobs["source_id"][0])
    if not len(first):
        return None
    zero_ms = int(first["submit_ms"][0]) - int(jobs["submit_ms"][0])
    pairs = jobs.join(logged.with_columns(pl.col("submit_ms") - zero_ms), on=["source_id", "submit_ms"])
    if len(pairs) < _FEWEST * len(jobs):
        return None
    return pairs.drop_nulls("first_start_ms").select(
        "source_id", recorded_ms="wait_ms", simulated_ms=pl.col("first_start_ms") - pl.col("submit_ms")
    )


def _waits(seconds: pl.Series) -> Waits:
    return Waits(_float(seconds.mean()), _float(seconds.median()), _float(seconds.quantile(0.95)))


def _float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
