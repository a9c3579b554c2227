"""Streams made from streams: merged, shifted, denser or thinner, cut to a window; each lazily.

Every job handed on is a new one; those that went in are left as they were.
"""

import heapq
from collections.abc import Iterator
from operator import attrgetter

from leasehold.simulation.workload.checks import check_number, check_positive
from leasehold.simulation.workload.job import Job


def merged(*streams: Iterator[Job]) -> Iterator[Job]:
    """Yield the jobs of all streams by submission; at equal times, the earlier stream's go first."""
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=attrgetter("submit_ms"))


def scaled(jobs: Iterator[Job], load: float) -> Iterator[Job]:
    """Yield the same jobs, ``load`` times as many in the same time: all gaps divided by it, from time zero.

    Sizes and durations stay. Raises InvalidField unless the load is above zero.
    """
    check_positive("load", load)
    return (_moved(job, round(job.submit_ms / load)) for job in jobs)


def shifted(jobs: Iterator[Job], by_ms: int) -> Iterator[Job]:
    """Yield the same jobs this much later, or earlier if negative.

    Raises InvalidField at a job that would be submitted before time zero.
    """
    for job in jobs:
        check_number("submit time after the shift", job.submit_ms + by_ms, 0)
        yield _moved(job, job.submit_ms + by_ms)


def from_zero(jobs: Iterator[Job]) -> Iterator[Job]:
    """Yield the same jobs with the first one submitted at time zero, as for a log that counts from 1970."""
    start_ms: int | None = None
    for job in jobs:
        if start_ms is None:
            start_ms = job.submit_ms
        yield _moved(job, job.submit_ms - start_ms)


def within(jobs: Iterator[Job], start_ms: int, end_ms: int | None = None) -> Iterator[Job]:
    """Yield the jobs submitted from ``start_ms`` until just before ``end_ms``; reads no further than that."""
    for job in jobs:
        if end_ms is not None and job.submit_ms >= end_ms:
            return
        if job.submit_ms >= start_ms:
            yield job


def _moved(job: Job, submit_ms: int) -> Job:
    """Return the job at another submit time, its ready time and deadline moved along."""
    later_ms = submit_ms - job.submit_ms
    deadline_ms = None if job.deadline_ms is None else job.deadline_ms + later_ms
    return Job(
        submit_ms,
        job.vms,
        job.requested_ms,
        job.actual_ms,
        job.consumer,
        job.source_id,
        job.lease_type,
        job.site,
        job.ready_ms + later_ms,
        deadline_ms,
        job.memory_mib,
        job.source,
        job.group,
        job.domain,
        job.claims,
        job.together,
    )
