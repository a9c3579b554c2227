"""The DAS-2 generator: its jobs, its independence of purposes, its moments."""

from itertools import accumulate, islice, pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workload.table2 import LOCAL_TABLE2, external_stream

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LeaseType, Request, check_request
from leasehold.simulation.workload.combine import within
from leasehold.simulation.workload.das2 import (
    PARAMETER_NAMES,
    Das2Parameters,
    LognormalDurations,
    WeibullGaps,
    das2_jobs,
)
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix
from leasehold.simulation.workload.streams import random_stream

DAY_MS = 86_400_000
EXTERNAL = external_stream()
NAMED = {
    "l": 0.8, "m": 2.75, "h": 6.0, "q": 0.9, "p_one": 0.2, "p_pow2": 0.5,
    "a": 4.595, "b": 1.7, "alpha": 3.8, "beta": 0.5,
}  # fmt: skip


def first(
    count: int,
    parameters: Das2Parameters = EXTERNAL,
    seed: int = 1,
    site: str | None = None,
    mix: LeaseMix = EVEN_MIX,
) -> list[WorkloadJob]:
    return list(islice(das2_jobs(parameters, seed, "s", site, mix), count))


@given(st.integers(), st.sampled_from([EXTERNAL, *LOCAL_TABLE2.values()]), st.sampled_from([None, "home"]))
def test_every_job_is_a_valid_request_in_order_of_submission(
    seed: int, parameters: Das2Parameters, site: str | None
) -> None:
    jobs = first(30, parameters, seed, site=site)

    for job in jobs:
        check_request(
            Request(
                1,
                job.lease_type,
                job.vms,
                job.requested_ms,
                job.submit_ms,
                job.ready_ms,
                job.deadline_ms,
                job.site,
            )
        )
        assert 1 <= job.actual_ms == job.requested_ms
    assert all(one.submit_ms <= other.submit_ms for one, other in pairwise(jobs))


def test_the_same_seed_gives_the_same_jobs() -> None:
    assert first(100) == first(100)
    assert first(100) != first(100, seed=2)


def test_each_purpose_draws_from_a_random_stream_of_its_own() -> None:
    jobs = first(40)
    sizes, durations, gaps = (random_stream(1, "s", purpose) for purpose in ("sizes", "durations", "gaps"))

    assert [job.vms for job in jobs] == [EXTERNAL.sizes.draw(sizes) for _ in jobs]
    assert [job.actual_ms for job in jobs] == [max(1, round(EXTERNAL.durations.draw(durations) * 1000)) for _ in jobs]
    submitted_s = accumulate(EXTERNAL.gaps.draw(gaps) for _ in jobs)
    assert [job.submit_ms for job in jobs] == [int(time_s * 1000) for time_s in submitted_s]


def test_streams_of_other_names_are_independent() -> None:
    one = [job.vms for job in islice(das2_jobs(EXTERNAL, 1, "a"), 50)]
    other = [job.vms for job in islice(das2_jobs(EXTERNAL, 1, "b"), 50)]

    assert one != other


def test_other_gaps_change_submission_only() -> None:
    rarer = Das2Parameters(EXTERNAL.sizes, EXTERNAL.durations, WeibullGaps(7.0, 1.1))

    for one, other in zip(first(200), first(200, rarer), strict=True):
        assert (one.vms, one.actual_ms, one.lease_type) == (other.vms, other.actual_ms, other.lease_type)
        assert one.submit_ms != other.submit_ms


def test_other_durations_stay_comparable_job_by_job() -> None:
    longer = Das2Parameters(EXTERNAL.sizes, LognormalDurations(6.0, 1.7), EXTERNAL.gaps)

    for one, other in zip(first(2_000), first(2_000, longer), strict=True):
        assert (one.submit_ms, one.vms, one.lease_type) == (other.submit_ms, other.vms, other.lease_type)
        assert one.actual_ms < other.actual_ms


def test_another_mix_changes_types_only() -> None:
    migratable = first(200, mix=LeaseMix.only(LeaseType.MIGRATABLE))
    cancelable = first(200, mix=LeaseMix.only(LeaseType.CANCELABLE))

    assert {job.lease_type for job in migratable} == {LeaseType.MIGRATABLE}
    assert {job.lease_type for job in cancelable} == {LeaseType.CANCELABLE}
    for one, other in zip(migratable, cancelable, strict=True):
        assert (one.submit_ms, one.vms, one.actual_ms) == (other.submit_ms, other.vms, other.actual_ms)


def test_local_jobs_are_non_preemptable_at_their_site() -> None:
    for job in first(50, site="C64"):
        assert (job.site, job.lease_type, job.deadline_ms) == ("C64", LeaseType.NON_PREEMPTABLE, None)


def test_external_jobs_are_a_quarter_of_each_type() -> None:
    types = [job.lease_type for job in first(8_000)]

    for kind in LeaseType:
        assert types.count(kind) / len(types) == pytest.approx(0.25, abs=0.02)


def test_only_migratable_jobs_have_deadlines_two_to_four_durations_after_ready() -> None:
    jobs = first(4_000)
    slack = [(job.deadline_ms - job.ready_ms) / job.requested_ms for job in jobs if job.deadline_ms is not None]

    assert all((job.deadline_ms is not None) == (job.lease_type is LeaseType.MIGRATABLE) for job in jobs)
    assert 2.0 <= min(slack) < 2.05
    assert 3.95 < max(slack) <= 4.0 + 0.001
    assert fmean(slack) == pytest.approx(3.0, abs=0.06)


def test_two_days_hold_as_many_jobs_as_the_rate_says() -> None:
    counts = [sum(1 for _ in within(das2_jobs(EXTERNAL, seed, "s"), 0, 2 * DAY_MS)) for seed in range(4)]

    assert fmean(counts) == pytest.approx(0.15 * 2 * 86_400, rel=0.03)


def test_jobs_have_the_moments_that_a_policy_is_told() -> None:
    jobs = first(60_000)
    moments = EXTERNAL.moments()

    assert fmean(job.vms for job in jobs) == pytest.approx(moments.mean_vms, rel=0.02)
    assert fmean(job.vms**2 for job in jobs) == pytest.approx(moments.mean_square_vms, rel=0.05)
    assert fmean(job.actual_ms / 1000 for job in jobs) == pytest.approx(moments.mean_s, rel=0.05)
    assert len(jobs) / (jobs[-1].submit_ms / 1000) == pytest.approx(moments.rate_per_s, rel=0.03)
    assert moments.mean_work_vm_s == pytest.approx(moments.mean_vms * moments.mean_s)
    assert moments.mean_square_work_vm2_s2 == pytest.approx(moments.mean_square_vms * moments.mean_square_s2)


def test_parameters_can_be_given_under_the_names_of_the_table() -> None:
    parameters = Das2Parameters.named(NAMED)

    assert (parameters.sizes.low, parameters.sizes.medium, parameters.sizes.high) == (0.8, 2.75, 6.0)
    assert (parameters.sizes.low_share, parameters.sizes.one, parameters.sizes.power_of_two) == (
        0.9,
        0.2,
        0.5,
    )
    assert (parameters.durations.log_mean, parameters.durations.log_deviation) == (4.595, 1.7)
    assert (parameters.gaps.scale_s, parameters.gaps.shape) == (3.8, 0.5)
    assert Das2Parameters.named({**NAMED, "longest_s": 3600}).durations.longest_s == 3600


@pytest.mark.parametrize("name", PARAMETER_NAMES)
def test_a_missing_parameter_is_named(name: str) -> None:
    with pytest.raises(InvalidField) as refusal:
        Das2Parameters.named({key: value for key, value in NAMED.items() if key != name})

    assert refusal.value.field == name


def test_a_misspelt_parameter_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'alpha'"):
        Das2Parameters.named({**NAMED, "alfa": 1.0})
