"""Under any order of submissions, refusals, failures, preemptions and changes of mind: all of it or nothing.

Every case runs to its end with every invariant checked after every instant (`Invariants`, with those of
co-allocations); `run_together` sees that no slot has leaked, that nothing of a co-allocation outlives it, and
that its idle time is what an independent count gives.
"""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.coallocation.together import (
    FIRST_LEASE,
    LEASES_EACH_COALLOCATION,
    Together,
    coallocation,
    lose,
    run_together,
    take_back,
    two_sites,
)

from leasehold.model.agreement import CPUS, Agreement, Commitment, NoLimit
from leasehold.model.coallocation import CoAllocationRequest, Component
from leasehold.model.event import CancelRequested, Event, LendingChanged
from leasehold.model.reason import Reason
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.parties import Provider
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import guest, local

ENDS = {
    Reason.COMPLETED,
    Reason.MACHINES_LOST,
    Reason.CANCELLED_BY_USER,
    Reason.NO_COMMON_ROOM,
    Reason.WIDER_THAN_ANY_SITE,
    Reason.WIDER_THAN_SITE,
    Reason.EXCEEDS_AGREEMENT,
    Reason.CONCURRENCY_LIMIT_REACHED,
    Reason.SHARE_EXHAUSTED,
}
KINDS = ["suspendable", "cancelable", "migratable", "non-preemptable"]


@dataclass(frozen=True, slots=True)
class Turmoil:
    """Co-allocations, jobs in order of submission, and what else happens at what time (s)."""

    coallocations: list[CoAllocationRequest]
    jobs: list[WorkloadJob]
    changes: list[tuple[float, Event]]

    def unfold(self, sharing: Sharing | None = None, **settings: int) -> Together:
        opened = [(200.0, LendingChanged(name, lends=True)) for name in "ab"]
        return run_together(self.coallocations, two_sites(**settings), self.jobs, [*self.changes, *opened], sharing)


SECONDS = st.integers(0, 60)
FILES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 12)), max_size=2, unique_by=lambda one: one[0])
COMPONENTS = st.builds(
    Component,
    vms=st.sampled_from([1, 1, 2, 2, 3, 4, 6]),
    duration_ms=st.integers(1, 30).map(lambda s: 1000 * s),
    site=st.sampled_from(["", "", "", "", "", "a", "b"]),
    files=FILES.map(tuple),
)


@st.composite
def coallocations(draw: st.DrawFn, number: int) -> CoAllocationRequest:
    """One co-allocation, nearly always with a deadline: else it might wait for a site that stays shut."""
    submit_s = draw(SECONDS)
    ready_s = submit_s + draw(st.sampled_from([0, 0, 0, 7]))
    return coallocation(
        number,
        *draw(st.lists(COMPONENTS, min_size=1, max_size=4)),
        submit_s=submit_s,
        ready_s=ready_s,
        claim=draw(st.sampled_from(["incremental", "reservation"])),
        place=draw(st.sampled_from(["worst-fit", "close-to-files"])),
        margin_s=draw(st.sampled_from([0, 0, 8, 20])),
        deadline_s=ready_s + draw(st.integers(5, 300)),
        tries=draw(st.integers(1, 3)),
        retries=draw(st.integers(0, 2)),
        wait_ppm=draw(st.sampled_from([0, 500_000, 750_000, 999_999])),
    )


@st.composite
def jobs(draw: st.DrawFn) -> list[WorkloadJob]:
    """Jobs of the sites' own users, and guests of every type; most need less or more than they ask for."""
    submits = sorted(draw(st.lists(SECONDS, max_size=10)))
    return [draw(_job(at_s)) for at_s in submits]


@st.composite
def _job(draw: st.DrawFn, at_s: int) -> WorkloadJob:
    asked_s, needed_s = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    home = draw(st.sampled_from(["a", "b", ""]))
    if home:
        return local(at_s, draw(st.integers(1, 4)), asked_s, needed_s, home=home)
    return guest(at_s, draw(st.integers(1, 5)), asked_s, draw(st.sampled_from(KINDS)), needed_s=needed_s)


@st.composite
def turmoils(draw: st.DrawFn) -> Turmoil:
    """Up to four co-allocations, ten jobs and twelve changes within two minutes."""
    count = draw(st.integers(1, 4))
    leases = st.builds(
        lambda number, lease: FIRST_LEASE + LEASES_EACH_COALLOCATION * number + lease,
        st.integers(1, count),
        st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 5]),
    )
    changes = st.one_of(
        leases.map(lose),
        leases.map(lose),
        leases.map(CancelRequested),
        st.integers(1, count).map(take_back),
        st.builds(LendingChanged, st.sampled_from("ab"), st.booleans()),
        st.builds(CancelRequested, st.integers(1, 10)),
    )
    halves = st.integers(0, 160).map(lambda half: half / 2 + 0.001)
    return Turmoil(
        [draw(coallocations(number)) for number in range(1, count + 1)],
        draw(jobs()),
        draw(st.lists(st.tuples(halves, changes), max_size=12)),
    )


@given(turmoils())
def test_whatever_happens_it_is_all_or_nothing(turmoil: Turmoil) -> None:
    history = turmoil.unfold()
    for request in turmoil.coallocations:
        _, reason, idle_vm_ms = history.closed(request.id)
        assert reason in ENDS
        assert idle_vm_ms == 0 or request.margin_ms or any(one.files for one in request.components)


@given(turmoils())
def test_all_components_of_a_coallocation_request_start_at_one_moment_or_idle_for_it(turmoil: Turmoil) -> None:
    history = turmoil.unfold()
    for request in turmoil.coallocations:
        began_s = history.began_s(request.id)
        if began_s is not None and request.claim == "reservation":
            first = [at for at, _, _ in history.starts_s(request.id)][: len(request.components)]
            assert set(first) == {began_s}


@given(turmoils())
def test_what_an_owner_lends_for_good_bounds_coallocation_requests_too(turmoil: Turmoil) -> None:
    turmoil.unfold(non_preemptable_share_vms=3, non_preemptable_max_ms=25_000)


def agreements() -> Sharing:
    """Agreements that co-allocations run into: a share, a limit at a time, and one for reservations."""
    limit = Commitment(300_000, 60_000, 500_000, 20_000)
    at_a_time = Agreement("at-a-time", "b", "*", NoLimit(), lending_limit=4)
    places = [Provider("a", {CPUS: 4}, "das"), Provider("b", {CPUS: 6}, "das")]
    return Sharing(places, None, [Agreement("share", "das", "*", limit), at_a_time])


@given(turmoils())
def test_agreements_hold_for_every_component(turmoil: Turmoil) -> None:
    history = turmoil.unfold(agreements())
    assert all(
        vms <= 4 for request in turmoil.coallocations for _, at, vms in history.starts_s(request.id) if at == "b"
    )
