"""What follows from one lease or one segment alone; every metric is a sum or a mean over these.

A *party* holds VMs: ``local``, or the lease type of a guest. Durations of a request are at the
reference speed; ``service_ms`` is the same on the machines of the lease's last cluster.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from leasehold.analysis.run import Run

PARTIES = ("local", "cancelable", "suspendable", "migratable", "non-preemptable")
GUESTS = PARTIES[1:]
SLOWDOWN_FLOOR_MS = 10_000
"""Bounded slowdown takes shorter leases as ten seconds long, as is usual for workload logs."""

SERVED_STATES = ("completed", "killed")
"""The states of a lease that got all the time it asked for."""

LOST_STATES = ("terminated", "failed")
"""The states of a lease whose work was thrown away."""

LOST_REASONS = ("machines-lost", "never-started", "component-lost")
"""Why leases fail that were not preempted."""

PARTY = pl.when(pl.col("origin") == "local").then(pl.lit("local")).otherwise(pl.col("lease_type"))


def lease_facts(run: Run) -> pl.DataFrame:
    """Return the leases with what follows from each alone.

    Adds ``run``, ``party``, ``wait_ms`` (ready to first start), ``served`` (got all its time),
    ``service_ms`` (undisturbed time on its cluster), ``response_ms`` (ready to end), ``slowdown``,
    ``work_vm_ms`` (at the reference speed) and ``delay_ms`` (behind the run without guests).
    """
    speeds = run.sites.select("site", "speed_mips", "reference_mips")
    frame = (
        run.leases.lazy()
        .with_columns(run=pl.lit(run.name), party=PARTY, site=pl.coalesce("site", "home"))
        .join(speeds.lazy(), on="site", how="left", maintain_order="left")
        .join(
            run.baseline.lazy().rename({"start_ms": "baseline_ms"}),
            on="lease_id",
            how="left",
            maintain_order="left",
        )
    )
    return _with_outcome(_with_times(frame)).collect()


def _with_times(frame: pl.LazyFrame) -> pl.LazyFrame:
    granted_ms = pl.min_horizontal("actual_ms", "requested_ms")
    return frame.with_columns(
        wait_ms=pl.col("first_start_ms") - pl.col("ready_ms"),
        delay_ms=pl.col("first_start_ms") - pl.col("baseline_ms"),
        work_vm_ms=granted_ms * pl.col("vms"),
        service_ms=granted_ms * pl.col("reference_mips") / pl.col("speed_mips"),
        served=pl.col("state").is_in(SERVED_STATES),
    )


def _with_outcome(frame: pl.LazyFrame) -> pl.LazyFrame:
    response_ms = pl.when("served").then(pl.col("end_ms") - pl.col("ready_ms"))
    slowdown = response_ms / pl.max_horizontal("service_ms", pl.lit(SLOWDOWN_FLOOR_MS))
    return frame.with_columns(
        response_ms=response_ms,
        slowdown=pl.when(slowdown.is_not_null()).then(pl.max_horizontal(slowdown, pl.lit(1.0))),
    )


def segment_facts(run: Run) -> pl.DataFrame:
    """Return the segments with the party that held them and what they were good for.

    Adds ``run``, ``party``, ``origin``, ``held_vm_ms``, ``useful_vm_ms`` (held while working on a lease
    whose work was not thrown away), ``is_preempted`` and ``overhead_vm_ms``: the overhead charged to
    the lease, in equal parts on each of its preemptions, so that a cluster bears what it caused.
    """
    owners = run.leases.select(
        "lease_id",
        "origin",
        "state",
        "preemptions",
        party=PARTY,
        charged_vm_ms="overhead_vm_ms",
    )
    held_vm_ms = (pl.col("end_ms") - pl.col("start_ms")) * pl.col("vms")
    is_useful = (pl.col("kind") == "run") & ~pl.col("state").is_in(LOST_STATES)
    is_preempted = pl.col("ended_by") == "preempted"
    return run.segments.join(owners, on="lease_id", how="left", maintain_order="left").with_columns(
        run=pl.lit(run.name),
        held_vm_ms=held_vm_ms,
        useful_vm_ms=pl.when(is_useful).then(held_vm_ms).otherwise(0),
        is_preempted=is_preempted,
        overhead_vm_ms=pl.when(is_preempted).then(pl.col("charged_vm_ms") / pl.col("preemptions")).otherwise(0.0),
    )


def held_over_time(segments: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return ``time_ms`` and ``held_vms`` from that instant on, for each group of ``by``.

    All that begins and ends at one instant counts together: room given up at an instant is free for
    leases that start at it.
    """
    began = segments.select(*by, "vms", time_ms="start_ms")
    ended = segments.select(*by, vms=-pl.col("vms"), time_ms="end_ms")
    return (
        pl.concat([began, ended])
        .group_by(*by, "time_ms")
        .agg(pl.col("vms").sum())
        .sort(*by, "time_ms")
        .with_columns(held_vms=pl.col("vms").cum_sum().over(by))
        .drop("vms")
    )


def mean_held(run: Run, bins: int, sites: Sequence[str] | None = None) -> pl.DataFrame:
    """Return, for each of ``bins`` stretches of the run, the mean VMs held by each party and left idle.

    Columns ``from_ms``, ``to_ms``, one for each party, ``idle``; over ``sites`` or all of them.
    """
    chosen = run.sites if sites is None else run.sites.filter(pl.col("site").is_in(list(sites)))
    segments = segment_facts(run).filter(pl.col("site").is_in(chosen["site"].implode()))
    held = held_over_time(segments, ["party"])
    edges = np.linspace(run.begin_ms, max(run.end_ms, run.begin_ms + 1), bins + 1)
    means = {party: _means(held.filter(pl.col("party") == party), edges) for party in PARTIES}
    idle = np.maximum(float(chosen["slots"].sum()) - sum(means.values()), 0.0)
    return pl.DataFrame({"from_ms": edges[:-1], "to_ms": edges[1:]} | means | {"idle": idle})


def _means(held: pl.DataFrame, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average a step function over the bins: its integral is piecewise linear, so interpolation is exact."""
    if held.is_empty():
        return np.zeros(len(edges) - 1)
    times = held["time_ms"].to_numpy().astype(np.float64)
    levels = held["held_vms"].to_numpy().astype(np.float64)
    integral = np.concatenate([[0.0], np.cumsum(levels[:-1] * np.diff(times))])
    return np.asarray(np.diff(np.interp(edges, times, integral)) / np.diff(edges))
