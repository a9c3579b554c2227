"""Assignments and earliest common starts, compared with every second and every combination of sites."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.coallocation.together import coallocation, part, run_together, two_sites

from leasehold.gateway.coallocation.placement.close_to_files import close_to_files
from leasehold.gateway.coallocation.placement.policy import PlacementOption
from leasehold.gateway.coallocation.placement.registry import PLACEMENT_POLICIES, describe
from leasehold.gateway.coallocation.placement.worst_fit import worst_fit
from leasehold.gateway.coallocation.planner import could_fit
from leasehold.model.coallocation import Component
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import local

SLOTS = {"a": 4, "b": 6}
HORIZON_S = 120

Booking = tuple[str, int, int, int]
"""A site, from when until when (s), and how many VMs."""

JOBS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 4), st.integers(1, 12)), max_size=6)
WANTED = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 12), st.sampled_from(["", "", "a", "b"])),
    max_size=4,
    min_size=1,
)


def booked(jobs: Sequence[WorkloadJob], starts_ms: Mapping[int, int]) -> Iterator[Booking]:
    """What local jobs hold, from when they really started."""
    for number, job in enumerate(jobs, 1):
        begin_s = starts_ms[number] // 1000
        yield job.site or "", begin_s, begin_s + job.requested_ms // 1000, job.vms


def fits(bookings: Sequence[Booking]) -> bool:
    """Whether no site holds more than it has at any second."""
    return all(
        sum(vms for at, begin, end, vms in bookings if at == name and begin <= second < end) <= slots
        for name, slots in SLOTS.items()
        for second in {begin for _, begin, _, _ in bookings}
    )


def earliest_s(taken: Sequence[Booking], wanted: Sequence[Component]) -> int | None:
    """The first second at which some combination of sites has room for all."""
    places = [one.site or "ab" for one in wanted]
    for start in range(HORIZON_S):
        for sites in product(*places):
            mine = [
                (site, start, start + one.duration_ms // 1000, one.vms) for site, one in zip(sites, wanted, strict=True)
            ]
            if fits([*taken, *mine]):
                return start
    return None


@given(jobs=JOBS, wanted=WANTED)
def test_a_reservation_starts_as_early_as_any_combination_of_sites_allows(
    jobs: list[tuple[str, int, int]], wanted: list[tuple[int, int, str]]
) -> None:
    locals_ = [local(0, vms, asked_s, home=home) for home, vms, asked_s in jobs]
    components = [part(vms, asked_s, at) for vms, asked_s, at in wanted]
    reserved = coallocation(1, *components, claim="reservation")
    alone = run_together([], two_sites(), locals_)
    together = run_together([reserved], two_sites(), locals_)
    expected = earliest_s(list(booked(locals_, alone.starts_ms())), components)
    assert together.began_s(1) == expected
    assert {k: v for k, v in together.starts_ms().items() if k <= len(jobs)} == alone.starts_ms()


@given(wanted=WANTED)
def test_what_could_never_fit_is_what_no_combination_of_empty_sites_holds(
    wanted: list[tuple[int, int, str]],
) -> None:
    components = [part(vms, asked_s, at) for vms, asked_s, at in wanted]
    assert could_fit(components, SLOTS) is (earliest_s([], components) is not None)


# Placement policies by hand


def test_worst_fit_ranks_by_free_vms_alone() -> None:
    options = [PlacementOption("a", 3, 0), PlacementOption("b", 5, 99), PlacementOption("c", 5, 1)]
    assert [one.site for one in sorted(options, key=worst_fit)] == ["b", "c", "a"]


def test_close_to_files_ranks_by_transfer_and_then_by_free_vms() -> None:
    options = [
        PlacementOption("a", 3, 10),
        PlacementOption("b", 5, 99),
        PlacementOption("c", 4, 10),
        PlacementOption("d", 1, 0),
    ]
    assert [one.site for one in sorted(options, key=close_to_files)] == ["d", "c", "a", "b"]


def test_every_policy_says_what_it_asks_and_where_it_comes_from() -> None:
    for name in PLACEMENT_POLICIES:
        told = describe(name)
        assert told.question.endswith("?")
        assert told.rule
        assert told.source
