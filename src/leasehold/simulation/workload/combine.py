"""Streams made from streams: merged, shifted, denser or thinner, cut to a window, split into components; each lazily.

Every job handed on is a new one; those that went in are left as they were.
"""

import heapq
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter

from leasehold.model.agreement import MILLION
from leasehold.model.coallocation import CoAllocationRequest, Component
from leasehold.model.request import LeaseType
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.streams import check_number, check_positive, random_stream
from leasehold.simulation.workload.together import StreamCoAllocations


def merged(*streams: Iterator[WorkloadJob]) -> Iterator[WorkloadJob]:
    """Yield the jobs of all streams by submission; at equal times, the earlier stream's go first."""
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=attrgetter("submit_ms"))


def scaled(jobs: Iterator[WorkloadJob], load: float) -> Iterator[WorkloadJob]:
    """Yield the same jobs, ``load`` times as many in the same time: all gaps divided by it, from time zero.

    Sizes and durations stay. Raises InvalidField unless the load is above zero.
    """
    check_positive("load", load)
    return (_moved(job, round(job.submit_ms / load)) for job in jobs)


def shifted(jobs: Iterator[WorkloadJob], by_ms: int) -> Iterator[WorkloadJob]:
    """Yield the same jobs this much later, or earlier if negative.

    Raises InvalidField at a job that would be submitted before time zero.
    """
    for job in jobs:
        check_number("submit time after the shift", job.submit_ms + by_ms, 0)
        yield _moved(job, job.submit_ms + by_ms)


def from_zero(jobs: Iterator[WorkloadJob]) -> Iterator[WorkloadJob]:
    """Yield the same jobs with the first one submitted at time zero, as for a log that counts from 1970."""
    start_ms: int | None = None
    for job in jobs:
        if start_ms is None:
            start_ms = job.submit_ms
        yield _moved(job, job.submit_ms - start_ms)


def within(jobs: Iterator[WorkloadJob], start_ms: int, end_ms: int | None = None) -> Iterator[WorkloadJob]:
    """Yield the jobs submitted from ``start_ms`` until just before ``end_ms``; reads no further than that."""
    for job in jobs:
        if end_ms is not None and job.submit_ms >= end_ms:
            return
        if job.submit_ms >= start_ms:
            yield job


def _moved(job: WorkloadJob, submit_ms: int) -> WorkloadJob:
    """Return the job at another submit time, its ready time and deadline moved along."""
    later_ms = submit_ms - job.submit_ms
    deadline_ms = None if job.deadline_ms is None else job.deadline_ms + later_ms
    return replace(job, submit_ms=submit_ms, ready_ms=job.ready_ms + later_ms, deadline_ms=deadline_ms)


def split_some(
    jobs: Iterator[WorkloadJob], together: StreamCoAllocations, seed: int, stream: str
) -> Iterator[WorkloadJob]:
    """Mark the share of the jobs from outside that are co-allocations.

    Chosen by a random stream of its own, which advances with every job from outside: another share or number
    of components changes no other job's draw. Components are Non-preemptable, and a deadline that was drawn
    for another type does not hold for them.
    """
    draws = random_stream(seed, stream, "together")
    for job in jobs:
        if job.site is None and draws.random() < together.share and job.vms >= together.components:
            job.together, job.lease_type, job.deadline_ms = together, LeaseType.NON_PREEMPTABLE, None
        yield job


def widest_part(job: WorkloadJob) -> int:
    """Give the VMs that a job has to have at one cluster."""
    return job.vms if job.together is None else job.together.widths(job.vms)[0]


def numbered(jobs: Iterator[WorkloadJob]) -> Iterator[tuple[int, WorkloadJob]]:
    """Number the jobs from 1; one that is split takes a number for each lease that it may come to have."""
    number = 1
    for job in jobs:
        yield number, job
        together = job.together
        number += 1 if together is None else together.components * together.tries


def coallocation_request(
    job: WorkloadJob, together: StreamCoAllocations, coallocation_id: int, first_lease_id: int
) -> CoAllocationRequest:
    """Make the co-allocation that a job is."""
    files = tuple(together.files.items())
    return CoAllocationRequest(
        coallocation_id,
        tuple(Component(vms, job.requested_ms, "", files, job.memory_mib) for vms in together.widths(job.vms)),
        job.submit_ms,
        job.ready_ms,
        first_lease_id,
        consumer=job.consumer,
        group=job.group,
        claim=together.claim,
        place=together.place,
        tries=together.tries,
        margin_ms=together.margin_ms,
        wait_ppm=round(together.claim_part * MILLION),
    )


def component_of(job: WorkloadJob, vms: int) -> WorkloadJob:
    """Give the job that a component of a split job is: as long as the whole, and only narrower."""
    return replace(job, vms=vms, together=None)
