"""How large the clusters of a log are: against counting by hand and by brute force."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.simulation.scenario.sources import ClusterDemand, cluster_sizes, local_demand
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.job_block import JobBlock, OfStream, block_of, blocks_of
from leasehold.simulation.workload.log_columns import Names


def job(submit_ms: int, vms: int, actual_ms: int, site: str | None = "a") -> WorkloadJob:
    return WorkloadJob(submit_ms, vms, actual_ms * 5, actual_ms, site=site)


def block(jobs: list[WorkloadJob]) -> JobBlock:
    return block_of(jobs, Names(), OfStream("log"))


def demand_of(jobs: list[WorkloadJob], jobs_per_block: int = 3) -> dict[str, ClusterDemand]:
    """Let the demand be counted in several blocks."""
    return local_demand(blocks_of(iter(jobs), Names(), OfStream("log"), jobs_per_block))


some_jobs = st.lists(
    st.builds(job, st.integers(0, 40), st.integers(1, 9), st.integers(1, 30), st.sampled_from(["a", "b", None])),
    max_size=25,
).map(lambda jobs: sorted(jobs, key=lambda one: one.submit_ms))


@given(some_jobs, st.integers(1, 9))
def test_peak_is_the_most_that_run_in_any_millisecond(jobs: list[WorkloadJob], jobs_per_block: int) -> None:
    assert list(demand_of(jobs, jobs_per_block)) == list(dict.fromkeys(one.site for one in jobs if one.site))
    for site, demand in demand_of(jobs, jobs_per_block).items():
        own = [one for one in jobs if one.site == site]
        busy = [
            sum(one.vms for one in own if one.submit_ms <= now < one.submit_ms + one.actual_ms) for now in range(71)
        ]

        assert demand.peak_vms == max(busy)
        assert demand.widest_vms == max(one.vms for one in own)


def test_a_job_that_ends_makes_room_for_one_that_comes_at_that_instant() -> None:
    demand = demand_of([job(0, 4, 10), job(10, 3, 10)])["a"]

    assert demand.peak_vms == 4


def test_external_jobs_have_no_home_to_size() -> None:
    assert demand_of([job(0, 4, 10, site=None)]) == {}


def test_memory_grows_with_running_jobs_only() -> None:
    demand = ClusterDemand()
    for number in range(1_000):
        demand.add(block([job(number * 10, 1, 10)]))

    assert len(demand._ends_ms) == 1
    assert demand.peak_vms == 1


JOBS = [job(0, 6, 10), job(5, 3, 10), job(7, 2, 10, site="b")]


@pytest.mark.parametrize(
    ("rule", "sizes"),
    [
        ("peak", {"a": 9, "b": 2}),
        ("max-procs", {"a": 8, "b": 8}),
        (7, {"a": 7, "b": 7}),
        (4, {"a": 6, "b": 4}),
    ],
)
def test_sizes_by_each_rule_are_never_below_the_widest_job(rule: str | int, sizes: dict[str, int]) -> None:
    assert cluster_sizes(demand_of(JOBS), rule, max_procs=8) == sizes


def test_max_procs_needs_a_header_that_says_it() -> None:
    with pytest.raises(InvalidField, match="MaxProcs"):
        cluster_sizes(demand_of(JOBS), "max-procs")


def test_a_misspelt_rule_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'max-procs'"):
        cluster_sizes(demand_of(JOBS), "max-proc")


@pytest.mark.parametrize("size", [0, -3])
def test_a_size_below_one_is_refused(size: int) -> None:
    with pytest.raises(InvalidField, match="size"):
        cluster_sizes(demand_of(JOBS), size)
