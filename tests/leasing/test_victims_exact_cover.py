"""Exact cover: against every subset there is, among many leases, and with the lease types before it."""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, cost_of, ids_of, vms_of
from leasehold.leasing.victims.exact_cover import ExactCover
from leasehold.leasing.victims.guard import by_value
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.request import LeaseType

PREEMPTABLE = (LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE)
LAST_END_MS = 1_000


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Candidate], int]:
    """Up to nine leases, alike enough for every tie, and a need that they can cover."""
    shape = st.tuples(
        st.sampled_from(PREEMPTABLE),
        st.integers(1, 6),
        st.sampled_from([0, 2, 3]),
        st.sampled_from([0, 500, LAST_END_MS]),
    )
    shapes = draw(st.lists(shape, min_size=1, max_size=9))
    leases = [Candidate(number, *one) for number, one in enumerate(shapes, 1)]
    return leases, draw(st.integers(1, vms_of(leases)))


def covering(leases: list[Candidate], needed_vms: int) -> list[CandidateSet]:
    every = (chosen for size in range(1, len(leases) + 1) for chosen in combinations(leases, size))
    return [
        chosen
        for chosen in every
        if vms_of(chosen) >= needed_vms and all(vms_of(chosen) - lease.vms < needed_vms for lease in chosen)
    ]


def rank(chosen: CandidateSet) -> tuple[int, int, int, tuple[int, ...]]:
    held = -sum(lease.vms * lease.ends_ms for lease in chosen)
    return vms_of(chosen), held, cost_of(chosen), ids_of(chosen)


@given(problems())
def test_it_is_the_first_of_all_candidate_sets_and_names_the_second(
    problem: tuple[list[Candidate], int],
) -> None:
    ranked = sorted(covering(*problem), key=rank)
    choice = ExactCover().choose(*problem)
    assert choice.victims == ranked[0]
    assert choice.runner_up == (ranked[1] if len(ranked) > 1 else None)
    assert (choice.exact, choice.considered) == (True, len(ranked))


@given(problems())
def test_with_the_types_before_it_no_choice_within_the_last_type_frees_fewer(
    problem: tuple[list[Candidate], int],
) -> None:
    leases, needed_vms = problem
    victims = by_value(ExactCover()).choose(leases, needed_vms).victims
    last = max(lease.lease_type for lease in victims)
    below = sum(lease.vms for lease in leases if lease.lease_type < last)
    assert below < needed_vms
    of_last = [lease for lease in leases if lease.lease_type is last]
    fewest = min(vms_of(chosen) for chosen in covering(of_last, needed_vms - below))
    assert vms_of([lease for lease in victims if lease.lease_type is last]) == fewest
    assert all(vms_of(victims) - lease.vms < needed_vms for lease in victims)


@given(problems(), st.integers(1, 10**9))
def test_it_does_not_matter_what_time_it_is(problem: tuple[list[Candidate], int], later_ms: int) -> None:
    leases, needed_vms = problem
    later = [Candidate(one.lease_id, one.lease_type, one.vms, one.cost_vm_ms, one.ends_ms + later_ms) for one in leases]
    chosen, then = (ExactCover().choose(guests, needed_vms).victims for guests in (leases, later))
    assert ids_of(chosen) == ids_of(then)


@pytest.mark.parametrize("number", [40, 120])
def test_among_many_leases_it_frees_what_subset_sums_say(number: int) -> None:
    random = Random(number)
    leases = [
        Candidate(lease_id, LeaseType.SUSPENDABLE, random.choice([3, 6, 9, 16, 33]), lease_id % 5, lease_id)
        for lease_id in range(number)
    ]
    needed_vms = vms_of(leases) // 3
    sums = 1
    for lease in leases:
        sums |= sums << lease.vms
    least = next(total for total in range(needed_vms, vms_of(leases) + 1) if sums >> total & 1)
    assert ExactCover().choose(leases, needed_vms).vms == least


def test_one_type_pays_for_being_wide() -> None:
    """Cancelable leases 1 and 2 are not enough; of the Suspendable ones 4 VMs fit best; 1 is given back."""
    first, second = LeaseType.CANCELABLE, LeaseType.SUSPENDABLE
    leases = [
        Candidate(1, first, 1, 0, 0),
        Candidate(2, first, 3, 0, 0),
        Candidate(3, second, 8, 0, 900),
        Candidate(4, second, 4, 0, 100),
    ]
    choice = victim_policy("by-value:exact-cover").choose(leases, 7)
    assert ids_of(choice.victims) == (2, 4)
    assert choice.vms == 7
