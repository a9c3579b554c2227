"""Do the tables of a run agree with each other? Each number is counted in two independent ways."""

from collections.abc import Callable
from typing import Any

import polars as pl

from leasehold.analysis.run import Run

_IS_PREEMPTED = pl.col("ended_by") == "preempted"


def reconcile(run: Run) -> list[str]:
    """Return one sentence for each number on which two tables disagree; none when all agree.

    Totals only: which lease is wrong is the validator's to say.
    """
    found: list[str] = []
    for title, first, one, second, other in _PAIRS:
        left, right = one(run), other(run)
        if left != right:
            found.append(f"{title}: {left} by {first}, {right} by {second}")
    return found + _states(run)


def _sum(frame: pl.DataFrame, column: str) -> int:
    return int(frame[column].sum())


def _preempted_segments(run: Run) -> pl.DataFrame:
    return run.segments.filter(_IS_PREEMPTED)


def _preempt_decisions(run: Run) -> pl.DataFrame:
    return run.decisions.filter(pl.col("outcome") == "preempt")


def _decided_vms(run: Run) -> int:
    victims = _preempt_decisions(run).select("lease_id").join(run.leases, on="lease_id", how="left")
    return _sum(victims, "vms")


def _jobs(run: Run, key: str) -> int:
    jobs: dict[str, Any] = run.manifest.get("jobs", {})
    return int(jobs.get(key, 0))


def _started_by_lease(run: Run) -> int:
    return run.leases["first_start_ms"].drop_nulls().len()


_Count = Callable[[Run], int]

_PAIRS: tuple[tuple[str, str, _Count, str, _Count], ...] = (
    (
        "lease preemptions",
        "the leases' counters",
        lambda run: _sum(run.leases, "preemptions"),
        "segments that ended so",
        lambda run: _preempted_segments(run).height,
    ),
    (
        "lease preemptions",
        "segments that ended so",
        lambda run: _preempted_segments(run).height,
        "decisions",
        lambda run: _preempt_decisions(run).height,
    ),
    (
        "VMs preempted",
        "segments that ended so",
        lambda run: _sum(_preempted_segments(run), "vms"),
        "decisions",
        _decided_vms,
    ),
    (
        "leases that started",
        "their first start",
        _started_by_lease,
        "segments",
        lambda run: run.segments["lease_id"].n_unique(),
    ),
    (
        "local jobs",
        "the manifest",
        lambda run: _jobs(run, "local"),
        "leases",
        lambda run: run.leases.filter(pl.col("origin") == "local").height,
    ),
    (
        "external requests",
        "the manifest",
        lambda run: _jobs(run, "external"),
        "leases",
        lambda run: run.leases.filter(pl.col("origin") == "external").height,
    ),
)


def _states(run: Run) -> list[str]:
    stated: dict[str, int] = run.manifest.get("jobs", {}).get("by_state", {})
    counted = dict(run.leases.group_by("state").len().iter_rows())
    return [
        f"leases {state}: {stated.get(state, 0)} by the manifest, {counted.get(state, 0)} by leases"
        for state in sorted(stated.keys() | counted.keys())
        if stated.get(state, 0) != counted.get(state, 0)
    ]
