"""A run in the formats of other people's tools: the Standard Workload Format and Batsim's jobs.csv.

A Standard Workload Format log has one line a lease. Batsim's ``jobs.csv`` is what Evalys and its kin open: the
clusters' processors are numbered one after the other, in the order of the run's sites. A lease that was preempted is
written as Batsim writes a resubmitted job: its first holding as ``17``, killed, the next ones as ``17#1``, ``17#2``.
A lease open at the horizon is left out, as Batsim does.

Both are sorted otherwise than the tables are. They are made of one window of time after the other, with what is open
between two of them in memory, so that memory does not grow with the run.
"""

from bisect import bisect_left
from heapq import heappop, heappush
from pathlib import Path

import polars as pl

from leasehold.analysis.facts import PARTIES, PARTY
from leasehold.analysis.run import Run, Window, streamed

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
    """The free processors of one cluster, as the bits of one number."""

    def __init__(self, first: int, count: int) -> None:
        self._first = first
        self._free = (1 << count) - 1

    def take(self, count: int) -> list[Interval]:
        """Take ``count`` free processors in one row if possible; fewer where there are not as many."""
        free = self._free
        begins, width = free, 1  # a bit where so many processors in a row are free
        while width < count and begins:
            step = width if 2 * width <= count else count - width
            begins &= begins >> step
            width += step
        if begins and count > 0:
            low = (begins & -begins).bit_length() - 1
            self._free = free ^ (1 << count) - 1 << low
            low += self._first
            return [(low, low + count - 1)]
        pieces: list[Interval] = []
        while count > 0 and free:
            low = (free & -free).bit_length() - 1
            above = free >> low
            long = ((above + 1) & ~above).bit_length() - 1
            if long > count:
                long = count
            free ^= (1 << long) - 1 << low
            low += self._first
            pieces.append((low, low + long - 1))
            count -= long
        self._free = free
        return pieces

    def give_back(self, taken: list[Interval]) -> None:
        """Free intervals that were taken."""
        for low, high in taken:
            self._free |= (1 << high - low + 1) - 1 << low - self._first


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
            free.give_back(heappop(ending)[2])
        taken = free.take(vms)
        heappush(ending, (end_ms, len(assigned), taken))
        assigned.append(taken)
    return assigned


def interval_set(intervals: list[Interval]) -> str:
    """Write intervals as Batsim does: ``0-3 7 9-11``."""
    return " ".join([str(low) if low == high else f"{low}-{high}" for low, high in intervals])


_ROWS_PER_WINDOW = 5_000


_UNKNOWN = -1
_STATUS = {"completed": 1, "killed": 0, "terminated": 0, "failed": 0, "refused": 5, "cancelled": 5}
_QUEUES = {party: number for number, party in enumerate(PARTIES, start=1)}


def write_swf(run: Run, path: Path) -> Path:
    """Write the run as one SWF file and return its path; times are rounded to seconds."""
    partitions = {site: number for number, site in enumerate(run.sites["site"], start=1)}
    consumers = streamed(run.scan("leases").select(pl.col("consumer").unique()))["consumer"].sort()
    users = {name: number for number, name in enumerate(consumers, start=1)}
    fields = [_job_number(run), *_fields(partitions, users)]
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"; {line}\n" for line in _header(run, partitions, len(users)))
        for window in run.windows("leases", "submit_ms", _ROWS_PER_WINDOW):
            rows = run.within("leases", "submit_ms", window).sort("submit_ms", "lease_id").select(fields)
            file.write(rows.collect().write_csv(separator=" ", include_header=False))
    return path


def _header(run: Run, partitions: dict[str, int], users: int) -> list[str]:
    slots, leases = run.sites["slots"], run.height("leases")
    names = zip(run.sites["site"], slots, strict=True)
    return [
        "Version: 2.2",
        "Computer: Leasehold simulation",
        f"Note: run {run.name}, seed {run.manifest.get('seed')}, {run.manifest.get('command', '')}",
        f"MaxJobs: {leases}",
        f"MaxRecords: {leases}",
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
    lowest = streamed(run.scan("leases").select(pl.col("lease_id").min())).item()
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


_FINAL_STATE = {
    "completed": "COMPLETED_SUCCESSFULLY",
    "killed": "WALLTIME_REACHED",
    "preempted": "KILLED",
    "cancelled": "KILLED",
    "failed": "KILLED",
    "refused": "REJECTED",
}
"""By how a holding ended; a lease that was never held counts as refused."""


_GOES_ON = ("preempted", "failed")
"""How a holding ends of a lease that may hold machines again."""

_Row = tuple[int, int, int, int | None, str, str]
"""Of a holding: end, lease, part, start, processors, what ended it."""

_ROW = {
    "finish_ms": pl.Int64,
    "lease_id": pl.Int64,
    "part": pl.Int64,
    "start_ms": pl.Int64,
    "processors": pl.String,
    "ended_by": pl.String,
}
_NEVER_HELD = {"part": 0, "start_ms": None, "processors": "", "ended_by": "refused"}


def write_batsim_jobs(run: Run, path: Path) -> Path:
    """Write the run as one ``jobs.csv`` and return its path; times are in seconds."""
    held = _Held(run.sites)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(_described(run, pl.DataFrame(schema=_ROW)).select(_columns()).write_csv())
        for window in run.windows("segments", "start_ms", _ROWS_PER_WINDOW):
            held.begin(run.within("segments", "start_ms", window))
            ended = pl.DataFrame(held.ended_before(window[1]), _ROW, orient="row")
            rows = _described(run, pl.concat([ended, _never_held(run, window)])).sort("finish_ms", "lease_id", "part")
            held.forget(rows.filter(pl.col("end_ms") == pl.col("finish_ms"))["lease_id"])
            file.write(rows.select(_columns()).write_csv(include_header=False, float_precision=3))
    return path


_Ending = list[tuple[int, int, list[Interval]]]
"""When which holding ends, and its processors; a heap."""


class _Held:
    """The holdings of leases and their processors, while segments come in order of their start."""

    def __init__(self, sites: pl.DataFrame) -> None:
        self._clusters: dict[str, tuple[FreeProcessors, _Ending]] = {}
        self._goes_over: dict[int, tuple[int, int, list[Interval], _Ending]] = {}
        self._parts: dict[int, int] = {}
        self._ended: list[_Row] = []
        first = 0
        for site, slots in sites.select("site", "slots").iter_rows():
            self._clusters[site] = FreeProcessors(first, slots), []
            first += slots

    def begin(self, segments: pl.LazyFrame) -> None:
        """Take up segments that start no earlier than those before; what ends at an instant is free at that instant."""
        columns = ("lease_id", "site", "start_ms", "end_ms", "vms", "ended_by")
        clusters, goes_over, parts, ended = self._clusters, self._goes_over, self._parts, self._ended
        for lease_id, site, start_ms, end_ms, vms, ended_by in (
            segments.sort("start_ms", "lease_id", "end_ms").select(columns).collect().iter_rows()
        ):
            if lease_id in goes_over:
                part, began_ms, taken, ending = goes_over.pop(lease_id)
            elif site in clusters:
                free, ending = clusters[site]
                while ending and ending[0][0] <= start_ms:
                    free.give_back(heappop(ending)[2])
                part, began_ms, taken = parts.get(lease_id, 0) if parts else 0, start_ms, free.take(vms)
            else:
                continue
            if ended_by == "phase":
                goes_over[lease_id] = part, began_ms, taken, ending
                continue
            heappush(ending, (end_ms, lease_id, taken))
            if ended_by in _FINAL_STATE:
                ended.append((end_ms, lease_id, part, began_ms, interval_set(taken), ended_by))
            if ended_by in _GOES_ON:
                parts[lease_id] = part + 1

    def ended_before(self, time_ms: int | None) -> list[_Row]:
        """Give the holdings that ended before that, in order."""
        self._ended.sort()
        at = len(self._ended) if time_ms is None else bisect_left(self._ended, (time_ms,))
        ended, self._ended = self._ended[:at], self._ended[at:]
        return ended

    def forget(self, lease_ids: pl.Series) -> None:
        """Forget leases that are over."""
        if self._parts:
            for lease_id in lease_ids:
                self._parts.pop(lease_id, None)


def _never_held(run: Run, window: Window) -> pl.DataFrame:
    """Return the leases that were refused or cancelled in that time and never held anything."""
    refused = pl.col("state").is_in(["refused", "cancelled"])
    found = run.within("leases", "end_ms", window).filter(refused).select("lease_id", finish_ms="end_ms")
    leases = found.collect()
    if not leases.is_empty():
        held = run.of_leases("segments", leases["lease_id"]).select("lease_id").collect()
        leases = leases.join(held, on="lease_id", how="anti")
    rest = [pl.lit(value, _ROW[name]).alias(name) for name, value in _NEVER_HELD.items()]
    return leases.select("finish_ms", "lease_id", *rest)


def _described(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """Add what was requested."""
    asked = ("lease_id", "source", "submit_ms", "requested_ms", "end_ms")
    leases = run.of_leases("leases", rows["lease_id"]).select(*asked, asked_vms="vms", party=PARTY)
    return rows.join(leases.collect(), on="lease_id", how="left")


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
        pl.col("processors").alias("allocated_resources"),
        pl.lit(-1).alias("consumed_energy"),
        pl.lit("").alias("metadata"),
    ]


def _seconds(time_ms: pl.Expr) -> pl.Expr:
    return time_ms / 1_000
