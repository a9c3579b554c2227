"""Requests that are split into components: which of a stream, and what each of them is."""

from collections.abc import Iterator
from dataclasses import replace

from leasehold.model.agreement import MILLION
from leasehold.model.coallocation import CoAllocationRequest, Component
from leasehold.model.request import LeaseType
from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.streams import random_stream
from leasehold.simulation.workload.together import Together


def split_some(jobs: Iterator[Job], together: Together, seed: int, stream: str) -> Iterator[Job]:
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


def widest_part(job: Job) -> int:
    """Give the VMs that a job has to have at one cluster."""
    return job.vms if job.together is None else job.together.widths(job.vms)[0]


def numbered(jobs: Iterator[Job]) -> Iterator[tuple[int, Job]]:
    """Number the jobs from 1; one that is split takes a number for each lease that it may come to have."""
    number = 1
    for job in jobs:
        yield number, job
        together = job.together
        number += 1 if together is None else together.components * together.tries


def coallocation_request(
    job: Job, together: Together, coallocation_id: int, first_lease_id: int
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


def component_of(job: Job, vms: int) -> Job:
    """Give the job that a component of a split job is: as long as the whole, and only narrower."""
    return replace(job, vms=vms, together=None)
