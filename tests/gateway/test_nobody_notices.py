"""The promise: the site's own users never notice the guests. Job by job, on thousands of random cases."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.backfill import REPAIRS
from leasehold.leasing.overhead import OverheadModel
from leasehold.model.request import LeaseType
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import History, play, site

# Seconds in which small cases have suspensions and migrations of the same order as their jobs.
QUICK = OverheadModel(suspend_ms_per_gib=2_000, resume_ms_per_gib=3_000, network_mbps=10_000, migrate_fixed_ms=1_141)
PREEMPTABLE = (LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE)
SIZES = {"a": 6, "b": 4}


@st.composite
def job_lists(draw: st.DrawFn, kinds: tuple[LeaseType, ...]) -> list[WorkloadJob]:
    """Local and outside jobs in order of submission, for sites a and b."""
    jobs, now_s = [], 0
    for _ in range(draw(st.integers(1, 16))):
        now_s += draw(st.integers(0, 3))
        home = draw(st.sampled_from(["a", "b", None, None]))
        asked_s = draw(st.integers(1, 12))
        vms = draw(st.integers(1, 6 if home is None else SIZES[home]))
        job = WorkloadJob(now_s * 1000, vms, asked_s * 1000, draw(st.integers(1, asked_s)) * 1000, site=home)
        job.ready_ms += 1000 * draw(st.sampled_from([0, 0, 0, 4]))
        if home is None:
            job.lease_type = draw(st.sampled_from(kinds))
            if not job.lease_type.is_best_effort and draw(st.booleans()):
                job.deadline_ms = job.ready_ms + job.requested_ms + draw(st.integers(0, 20)) * 1000
        jobs.append(job)
    return jobs


def two_sites(policy: str, **settings_: Any) -> list[SiteSettings]:
    return [
        site("a", SIZES["a"], policy, overhead=QUICK, speed_mips=2, **settings_),
        site("b", SIZES["b"], policy, overhead=QUICK, speed_mips=3, **settings_),
    ]


def local_starts(history: History, jobs: list[WorkloadJob]) -> dict[int, int]:
    numbers = {number for number, job in enumerate(jobs, 1) if job.site is not None}
    return {number: start for number, start in history.starts_ms().items() if number in numbers}


def without_guests(jobs: list[WorkloadJob], sites: list[SiteSettings]) -> dict[int, int]:
    """The starts of the same local jobs, under the same numbers, with no guest in the world."""
    own = {number: job for number, job in enumerate(jobs, 1) if job.site is not None}
    starts = play([replace(job) for job in own.values()], sites, reference_mips=2).starts_ms()
    numbers = list(own)
    return {numbers[position - 1]: start for position, start in starts.items()}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "hybrid:2", "conservative"])
@pytest.mark.parametrize("repair", ["conflicts", "replan"])
@settings(max_examples=examples(250), deadline=None)
@given(jobs=job_lists(PREEMPTABLE))
def test_local_jobs_start_as_if_there_were_no_guests(policy: str, repair: str, jobs: list[WorkloadJob]) -> None:
    history = play(jobs, two_sites(policy, repair=REPAIRS[repair]), reference_mips=2)
    assert local_starts(history, jobs) == without_guests(jobs, two_sites(policy))


@settings(max_examples=examples(300), deadline=None)
@given(jobs=job_lists(PREEMPTABLE))
def test_nor_does_it_matter_when_the_site_refuses_whom_it_cannot_start(jobs: list[WorkloadJob]) -> None:
    history = play(jobs, two_sites("conservative", queues_locals=False), reference_mips=2)
    expected = without_guests(jobs, two_sites("conservative", queues_locals=False))
    assert local_starts(history, jobs) == expected


@settings(max_examples=examples(500), deadline=None)
@given(jobs=job_lists(tuple(LeaseType)))
def test_every_request_comes_to_an_end_whatever_the_mix(jobs: list[WorkloadJob]) -> None:
    """With Non-preemptable guests too: every invariant holds, and nobody is forgotten."""
    history = play(jobs, two_sites("conservative"), reference_mips=2)
    assert not history.unfinished
    assert len(history.ends()) == len(jobs)


@settings(max_examples=examples(300), deadline=None)
@given(jobs=job_lists(tuple(LeaseType)), share=st.integers(0, 3))
def test_non_preemptable_guests_never_hold_more_than_their_share(jobs: list[WorkloadJob], share: int) -> None:
    sites = two_sites("conservative", non_preemptable_share_vms=share)
    history = play(jobs, sites, reference_mips=2)
    if share == 0:
        assert local_starts(history, jobs) == without_guests(jobs, two_sites("conservative"))
    assert most_held_by_non_preemptable_guests(history, jobs) <= share


def most_held_by_non_preemptable_guests(history: History, jobs: list[WorkloadJob]) -> int:
    """The most VMs that they held at one site at one time, from starts and ends alone."""
    starts, ends = history.starts_ms(), history.ends()
    guests = [
        number
        for number, job in enumerate(jobs, 1)
        if job.site is None and job.lease_type is LeaseType.NON_PREEMPTABLE and number in starts
    ]
    where = {number: history.moves(number)[0][2] for number in guests}
    return max(
        (
            sum(
                jobs[other - 1].vms
                for other in guests
                if where[other] == where[number] and starts[other] <= starts[number] < round(ends[other][0] * 1000)
            )
            for number in guests
        ),
        default=0,
    )


@settings(max_examples=examples(300), deadline=None)
@given(jobs=job_lists((LeaseType.NON_PREEMPTABLE,)))
def test_locals_that_leave_the_share_alone_are_never_delayed(jobs: list[WorkloadJob]) -> None:
    """What the cap allows: guests cannot delay local users who never need the capped part of the site."""
    share = 2
    narrow = [job for job in jobs if job.site is None]
    own: list[WorkloadJob] = []
    for job in jobs:
        # Keep only local jobs that fit into the uncapped rest whatever else runs: one at a time, one VM.
        if job.site is not None and all(o.site != job.site for o in own):
            own.append(replace(job, vms=min(job.vms, SIZES[job.site] - share)))
    mixed = sorted(narrow + own, key=lambda job: job.submit_ms)
    sites = two_sites("conservative", non_preemptable_share_vms=share)
    history = play(mixed, sites, reference_mips=2)
    assert local_starts(history, mixed) == without_guests(mixed, two_sites("conservative"))


@settings(max_examples=examples(300), deadline=None)
@given(jobs=job_lists((LeaseType.NON_PREEMPTABLE,)), longest_s=st.integers(1, 6))
def test_a_lone_local_job_waits_no_longer_than_the_longest_guest_allowed(
    jobs: list[WorkloadJob], longest_s: int
) -> None:
    own = next((job for job in jobs if job.site is not None and job.ready_ms == job.submit_ms), None)
    if own is None:
        return
    mixed = [job for job in jobs if job is own or (job.site is None and job.ready_ms == job.submit_ms)]
    sites = two_sites("conservative", non_preemptable_max_ms=longest_s * 1000)
    history = play(mixed, sites, reference_mips=2)
    start_ms = local_starts(history, mixed)[mixed.index(own) + 1]
    assert start_ms - own.submit_ms <= longest_s * 1000
