"""A run as a Standard Workload Format log (version 2.2), for whatever reads the workload archives.

One line for each lease. The format has no word for a preemption: a lease that was preempted and went
on runs from its first start to its end. Partitions number the clusters, queues the parties.
"""

from pathlib import Path

import polars as pl

from leasehold.analysis.facts import PARTIES, PARTY
from leasehold.analysis.run import Run

_SLICE_ROWS = 10_000
_UNKNOWN = -1
_STATUS = {"completed": 1, "killed": 0, "terminated": 0, "failed": 0, "refused": 5, "cancelled": 5}
_QUEUES = {party: number for number, party in enumerate(PARTIES, start=1)}


def write_swf(run: Run, path: Path) -> Path:
    """Write the run as one SWF file and return its path; times are rounded to seconds."""
    partitions = {site: number for number, site in enumerate(run.sites["site"], start=1)}
    consumers = sorted(set(run.leases["consumer"]))
    users = {name: number for number, name in enumerate(consumers, start=1)}
    fields = [_job_number(run), *_fields(partitions, users)]
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"; {line}\n" for line in _header(run, partitions, len(users)))
        for rows in run.leases.sort("submit_ms", "lease_id").iter_slices(_SLICE_ROWS):
            file.write(rows.select(fields).write_csv(separator=" ", include_header=False))
    return path


def _header(run: Run, partitions: dict[str, int], users: int) -> list[str]:
    slots = run.sites["slots"]
    names = zip(run.sites["site"], slots, strict=True)
    return [
        "Version: 2.2",
        "Computer: Leasehold simulation",
        f"Note: run {run.name}, seed {run.manifest.get('seed')}, {run.manifest.get('command', '')}",
        f"MaxJobs: {run.leases.height}",
        f"MaxRecords: {run.leases.height}",
        "UnixStartTime: 0",
        "TimeZoneString: UTC",
        f"MaxNodes: {slots.sum()}",
        f"MaxProcs: {slots.sum()}",
        f"MaxPartitions: {len(partitions)}",
        *(f"Partition: {partitions[site]} {site}, {count} processors" for site, count in names),
        f"MaxQueues: {len(_QUEUES)}",
        *(f"Queue: {number} {party}" for party, number in _QUEUES.items()),
        f"Note: {users} consumers are numbered as users in alphabetical order",
        "Note: a lease that was preempted and went on runs from its first start to its end",
    ]


def _job_number(run: Run) -> pl.Expr:
    """Return the lease's own number; where leases count from 0, one more, as the format counts from 1."""
    lowest = run.leases["lease_id"].min()
    return pl.col("lease_id") + (1 if lowest == 0 else 0)


def _fields(partitions: dict[str, int], users: dict[str, int]) -> list[pl.Expr]:
    run_ms = pl.col("end_ms") - pl.col("first_start_ms")
    unknown = pl.lit(_UNKNOWN)
    return [
        _seconds(pl.col("submit_ms")).alias("submit"),
        _seconds(pl.col("first_start_ms") - pl.col("submit_ms")).alias("wait"),
        _seconds(run_ms).alias("run"),
        pl.when(pl.col("first_start_ms").is_not_null()).then("vms").otherwise(_UNKNOWN).alias("allocated"),
        unknown.alias("cpu_used"),
        unknown.alias("memory_used"),
        pl.col("vms").alias("asked"),
        _seconds(pl.col("requested_ms")).alias("time_asked"),
        (pl.col("memory_mib") * 1024).alias("memory_asked_kib"),
        _number("state", _STATUS).alias("status"),
        _number("consumer", users).alias("user"),
        unknown.alias("group"),
        unknown.alias("executable"),
        PARTY.replace_strict(_QUEUES, default=_UNKNOWN, return_dtype=pl.Int64).alias("queue"),
        _number("site", partitions).alias("partition"),
        unknown.alias("preceding"),
        unknown.alias("think_time"),
    ]


def _seconds(time_ms: pl.Expr) -> pl.Expr:
    return (time_ms / 1_000).round().cast(pl.Int64).fill_null(_UNKNOWN)


def _number(column: str, numbers: dict[str, int]) -> pl.Expr:
    return pl.col(column).replace_strict(numbers, default=_UNKNOWN, return_dtype=pl.Int64)
