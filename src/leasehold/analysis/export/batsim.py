"""A run as Batsim's ``jobs.csv``, which Evalys and its kin open.

The clusters' processors are numbered one after the other, in the order of the run's sites. A lease
that was preempted is written as Batsim writes a resubmitted job: its first holding as ``17``,
killed, the next ones as ``17#1``, ``17#2``. A lease open at the horizon is left out, as Batsim does.
"""

from pathlib import Path

import polars as pl

from leasehold.analysis.export.processors import assign_processors, holdings, interval_set
from leasehold.analysis.facts import PARTY
from leasehold.analysis.run import Run

_SLICE_ROWS = 10_000
_FINAL_STATE = {
    "completed": "COMPLETED_SUCCESSFULLY",
    "killed": "WALLTIME_REACHED",
    "preempted": "KILLED",
    "cancelled": "KILLED",
    "refused": "REJECTED",
}
"""By how a holding ended; a lease that was never held counts as refused."""


def write_batsim_jobs(run: Run, path: Path) -> Path:
    """Write the run as one ``jobs.csv`` and return its path; times are in seconds."""
    table = _rows(run).sort("finish_ms", "lease_id", "part")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(table.clear().select(_columns()).write_csv())
        for rows in table.iter_slices(_SLICE_ROWS):
            file.write(rows.select(_columns()).write_csv(include_header=False, float_precision=3))
    return path


def _rows(run: Run) -> pl.DataFrame:
    held = _with_processors(holdings(run.segments), run.sites)
    never_held = run.leases.filter(pl.col("state").is_in(["refused", "cancelled"])).join(
        held, on="lease_id", how="anti"
    )
    rejected = never_held.select("lease_id", ended_by=pl.lit("refused"), end_ms="end_ms")
    parts = pl.concat([held.filter(pl.col("ended_by").is_in(list(_FINAL_STATE))), rejected], how="diagonal")
    asked = run.leases.select("lease_id", "source", "submit_ms", "requested_ms", asked_vms="vms", party=PARTY)
    return parts.join(asked, on="lease_id", how="left").with_columns(
        pl.col("part").fill_null(0), finish_ms=pl.col("end_ms")
    )


def _with_processors(held: pl.DataFrame, sites: pl.DataFrame) -> pl.DataFrame:
    numbered = []
    first = 0
    for site, slots in sites.select("site", "slots").iter_rows():
        here = held.filter(pl.col("site") == site)
        names = [interval_set(taken) for taken in assign_processors(here, slots, first)]
        numbered.append(here.with_columns(processors=pl.Series(names, dtype=pl.String)))
        first += slots
    return pl.concat(numbered)


def _columns() -> list[pl.Expr]:
    start, finish, submit = pl.col("start_ms"), pl.col("finish_ms"), pl.col("submit_ms")
    name = pl.col("lease_id").cast(pl.String)
    resubmitted = pl.format("{}#{}", "lease_id", "part")
    executed, turnaround = finish - start, finish - submit
    return [
        pl.when(pl.col("part") == 0).then(name).otherwise(resubmitted).alias("job_id"),
        pl.col("source").alias("workload_name"),
        pl.col("party").alias("profile"),
        _seconds(submit).alias("submission_time"),
        pl.col("asked_vms").alias("requested_number_of_resources"),
        _seconds(pl.col("requested_ms")).alias("requested_time"),
        (pl.col("ended_by") == "completed").cast(pl.Int8).alias("success"),
        pl.col("ended_by").replace_strict(_FINAL_STATE).alias("final_state"),
        _seconds(start).alias("starting_time"),
        _seconds(executed).alias("execution_time"),
        _seconds(finish).alias("finish_time"),
        _seconds(start - submit).alias("waiting_time"),
        _seconds(turnaround).alias("turnaround_time"),
        pl.when(executed > 0).then(turnaround / executed).alias("stretch"),
        pl.col("processors").fill_null("").alias("allocated_resources"),
        pl.lit(-1).alias("consumed_energy"),
        pl.lit("").alias("metadata"),
    ]


def _seconds(time_ms: pl.Expr) -> pl.Expr:
    return time_ms / 1_000
