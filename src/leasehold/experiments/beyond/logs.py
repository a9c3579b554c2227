"""Local jobs from public logs: for each cluster a window of its own, as wide as the cluster is large."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from leasehold.experiments.beyond.settings import Log
from leasehold.model.errors import InvalidField
from leasehold.simulation.scenario.sources import open_log
from leasehold.simulation.scenario.spec import LogStream
from leasehold.simulation.workload.combine import merged, shifted, within
from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.notes import ReadingNotes
from leasehold.simulation.workload.streams import random_stream

ANY = "any"
BY_SITE = "partition"


def is_there(log: Log, folder: Path | None) -> bool:
    """Whether the log is in this folder."""
    return folder is not None and (folder / log.file).is_file()


def local_jobs(
    log: Log, folder: Path, slots: Mapping[str, int], span_ms: int, replication: int
) -> Iterator[Job]:
    """Give the local jobs of all clusters by time, ``span_ms`` of them.

    Raises InvalidField where the log is shorter than that.
    """
    path = folder / log.file
    whole = _whole(path, by_site=log.procs is None)
    ours = _dealt(path, log, tuple(slots.items()))
    return merged(*(_window(whole, ours[name], name, span_ms, replication) for name in slots))


Widths = Mapping[str, float]
"""How many times as wide the jobs of a site of the log are here; sites that are not named are left out."""


def _window(
    whole: "tuple[Job, ...]", ours: Widths, cluster: str, span_ms: int, replication: int
) -> Iterator[Job]:
    first_ms, last_ms = whole[0].submit_ms, whole[-1].submit_ms
    if last_ms - first_ms < span_ms:
        raise InvalidField("log", f"{(last_ms - first_ms) // 3_600_000} h long", "longer than what is run")
    begin_ms = random_stream(replication, "window", cluster).randrange(first_ms, last_ms - span_ms + 1)
    jobs = within(iter(whole), begin_ms, begin_ms + span_ms)
    return shifted((_here(job, cluster, ours[str(job.site)]) for job in jobs if job.site in ours), -begin_ms)


def _here(job: Job, cluster: str, width: float) -> Job:
    return replace(job, site=cluster, vms=max(1, round(job.vms * width)))


@cache
def _whole(path: Path, *, by_site: bool) -> tuple[Job, ...]:
    """Read a log once in each process."""
    site, field = (None, BY_SITE) if by_site else (ANY, None)
    stream = LogStream("locals", str(path), "swf", site, field)
    jobs = open_log(stream, 1, ReadingNotes(stream.name))
    return tuple(sorted(jobs, key=lambda job: job.submit_ms))


@cache
def _dealt(path: Path, log: Log, slots: tuple[tuple[str, int], ...]) -> dict[str, Widths]:
    """Say which sites of the log are whose, and how wide their jobs are."""
    if log.procs is not None:
        return {name: {ANY: count / log.procs} for name, count in slots}
    assert log.load is not None
    busy = _mean_busy(_whole(path, by_site=True))
    left = {name: log.load * count for name, count in slots}
    dealt: dict[str, dict[str, float]] = {name: {} for name in left}
    for site in sorted(busy, key=lambda site: (-busy[site], site)):
        name = max(left, key=left.__getitem__)
        if busy[site] <= left[name]:
            left[name] -= busy[site]
            dealt[name][site] = 1.0
    return dict(dealt)


def _mean_busy(whole: tuple[Job, ...]) -> Mapping[str, float]:
    """Say how many processors the jobs of each site of a log keep busy on average."""
    work = Counter[str]()
    for job in whole:
        work[str(job.site)] += job.vms * min(job.actual_ms, job.requested_ms)
    length_ms = whole[-1].submit_ms - whole[0].submit_ms
    return {site: of_site / length_ms for site, of_site in work.items()}
