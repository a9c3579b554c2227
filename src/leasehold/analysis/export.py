"""A run in the formats of other people's tools: the Standard Workload Format and Batsim's jobs.csv.

A Standard Workload Format log has one line a lease. Batsim's ``jobs.csv`` is what Evalys and its kin open: the
clusters' processors are numbered one after the other, in the order of the run's sites. A lease that was preempted is
written as Batsim writes a resubmitted job: its first holding as ``17``, killed, the next ones as ``17#1``, ``17#2``.
A lease open at the horizon is left out, as Batsim does.
"""

import heapq
from bisect import bisect_left
from pathlib import Path

import polars as pl

from leasehold.analysis.facts import PARTIES, PARTY
from leasehold.analysis.run import Run

Interval = tuple[int, int]
"""First and last processor of an unbroken row of them, both included."""


def holdings(segments: pl.DataFrame) -> pl.DataFrame:
    """Join each resume, migrate or claim segment to the run segment that it goes over into.

    Returns ``lease_id``, ``site``, ``part`` (from 0, counts a lease's holdings), ``start_ms``,
    ``end_ms``, ``run_from_ms`` (when its work began, null if it never did), ``vms``, ``ended_by``;
    in order of start.
    """
    continued = (pl.col("ended_by") == "phase").shift(1, fill_value=False).over("lease_id")
    is_run = pl.col("kind") == "run"
    return (
        segments.sort("lease_id", "start_ms", "end_ms")
        .with_columns(part=(~continued).cast(pl.Int64).cum_sum().over("lease_id") - 1)
        .group_by("lease_id", "part", maintain_order=True)
        .agg(
            pl.col("site", "start_ms", "vms").first(),
            pl.col("end_ms", "ended_by").last(),
            run_from_ms=pl.col("start_ms").filter(is_run).first(),
        )
        .sort("start_ms", "lease_id", "part")
    )


class FreeProcessors:
    """The free processors of one cluster as disjoint intervals in ascending order."""

    def __init__(self, first: int, count: int) -> None:
        self._free: list[Interval] = [(first, first + count - 1)] if count else []

    def take(self, count: int) -> list[Interval]:
        """Take ``count`` free processors in one row if possible; fewer where there are not as many."""
        for at, (low, high) in enumerate(self._free):
            if high - low + 1 >= count > 0:
                self._free[at : at + 1] = [(low + count, high)] if high - low + 1 > count else []
                return [(low, low + count - 1)]
        return self._take_pieces(count)

    def _take_pieces(self, count: int) -> list[Interval]:
        taken: list[Interval] = []
        while count > 0 and self._free:
            low, high = self._free.pop(0)
            last = min(high, low + count - 1)
            taken.append((low, last))
            if last < high:
                self._free.insert(0, (last + 1, high))
            count -= last - low + 1
        return taken

    def give_back(self, taken: list[Interval]) -> None:
        """Free intervals that were taken, joined to their neighbours."""
        for low, high in taken:
            at = bisect_left(self._free, (low, high))
            if at < len(self._free) and self._free[at][0] == high + 1:
                high = self._free.pop(at)[1]  # noqa: PLW2901 - the interval grows to the right
            if at > 0 and self._free[at - 1][1] == low - 1:
                low = self._free.pop(at - 1)[0]  # noqa: PLW2901 - and to the left
                at -= 1
            self._free.insert(at, (low, high))


def assign_processors(holdings: pl.DataFrame, slots: int, first: int = 0) -> list[list[Interval]]:
    """Give each holding of one cluster, in order of start, processors ``first`` to ``first + slots - 1``.

    What ends at an instant is free for what starts at it. A run that holds more VMs than there are
    slots gets the rest.
    """
    free = FreeProcessors(first, slots)
    ending: list[tuple[int, int, list[Interval]]] = []
    assigned: list[list[Interval]] = []
    for start_ms, end_ms, vms in holdings.select("start_ms", "end_ms", "vms").iter_rows():
        while ending and ending[0][0] <= start_ms:
            free.give_back(heapq.heappop(ending)[2])
        taken = free.take(vms)
        heapq.heappush(ending, (end_ms, len(assigned), taken))
        assigned.append(taken)
    return assigned


def interval_set(intervals: list[Interval]) -> str:
    """Write intervals as Batsim does: ``0-3 7 9-11``."""
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in intervals)


_LOG_SLICE_ROWS = 10_000
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
        for rows in run.leases.sort("submit_ms", "lease_id").iter_slices(_LOG_SLICE_ROWS):
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
        _whole_seconds(pl.col("submit_ms")).alias("submit"),
        _whole_seconds(pl.col("first_start_ms") - pl.col("submit_ms")).alias("wait"),
        _whole_seconds(run_ms).alias("run"),
        pl.when(pl.col("first_start_ms").is_not_null()).then("vms").otherwise(_UNKNOWN).alias("allocated"),
        unknown.alias("cpu_used"),
        unknown.alias("memory_used"),
        pl.col("vms").alias("asked"),
        _whole_seconds(pl.col("requested_ms")).alias("time_asked"),
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


def _whole_seconds(time_ms: pl.Expr) -> pl.Expr:
    return (time_ms / 1_000).round().cast(pl.Int64).fill_null(_UNKNOWN)


def _number(column: str, numbers: dict[str, int]) -> pl.Expr:
    return pl.col(column).replace_strict(numbers, default=_UNKNOWN, return_dtype=pl.Int64)


_SLICE_ROWS = 10_000
_FINAL_STATE = {
    "completed": "COMPLETED_SUCCESSFULLY",
    "killed": "WALLTIME_REACHED",
    "preempted": "KILLED",
    "cancelled": "KILLED",
    "failed": "KILLED",
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
    requests = run.leases.select("lease_id", "source", "submit_ms", "requested_ms", asked_vms="vms", party=PARTY)
    return parts.join(requests, on="lease_id", how="left").with_columns(
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
