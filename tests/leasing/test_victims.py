"""Victims on up to ten leases, against looking at every subset there is."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from random import Random
from statistics import median
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.leasing.victims import minimal_sets
from leasehold.leasing.victims.candidate import Candidate
from leasehold.leasing.victims.exact_cover import ExactCover
from leasehold.leasing.victims.guard import RepreemptionSurcharge, Surcharge, by_value
from leasehold.leasing.victims.least_lost import LeastLost
from leasehold.leasing.victims.minimal_sets import MinimalSets, fewest_within, least_weight, two_lightest
from leasehold.leasing.victims.mlip import Mlip
from leasehold.leasing.victims.moml import Moml
from leasehold.leasing.victims.mov import Mov
from leasehold.leasing.victims.pareto import pareto
from leasehold.leasing.victims.policy import CannotCover, VictimPolicy
from leasehold.leasing.victims.youngest_first import YOUNGEST_FIRST
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType

Subset: TypeAlias = tuple[Candidate, ...]
Problem: TypeAlias = tuple[list[Candidate], int]

MANY = settings(max_examples=examples(600))
BASIC = [Mov(), Mlip(), Moml(), Moml(most_listed=0), ExactCover(), LeastLost(), YOUNGEST_FIRST]
OTHERS = [pareto(), pareto("excess,leases"), RepreemptionSurcharge(Moml(most_listed=0), Surcharge(0.5, 1))]
POLICIES = [*BASIC, *OTHERS, *(by_value(policy) for policy in BASIC)]
FIRST, SECOND, THIRD = LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE


def lease(lease_id: int, vms: int, cost: int = 0, lease_type: LeaseType = SECOND) -> Candidate:
    return Candidate(lease_id, lease_type, vms, cost, ends_ms=0)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Up to ten leases, alike enough for many ties, and a need that they can cover."""
    shapes = st.tuples(st.integers(1, 6), st.sampled_from([0, 0, 1, 2, 3, 7]), st.sampled_from(LeaseType))
    drawn = draw(st.lists(shapes.filter(lambda shape: shape[2] < 3), min_size=1, max_size=10))
    ids = draw(st.permutations(range(1, len(drawn) + 1)))
    leases = [lease(number, *shape) for number, shape in zip(ids, drawn, strict=True)]
    return leases, draw(st.integers(1, held(leases)))


def held(leases: Iterable[Candidate]) -> int:
    return sum(one.vms for one in leases)


def overhead(leases: Iterable[Candidate]) -> int:
    return sum(one.cost_vm_ms for one in leases)


def numbers(leases: Iterable[Candidate]) -> list[int]:
    return sorted(one.lease_id for one in leases)


def subsets(leases: list[Candidate]) -> list[Subset]:
    ordered = sorted(leases, key=lambda one: one.lease_id)
    return [subset for size in range(len(leases) + 1) for subset in combinations(ordered, size)]


def is_minimal(subset: Subset, needed: int) -> bool:
    total = held(subset)
    return total >= needed and all(total - one.vms < needed for one in subset)


def candidate_sets(leases: list[Candidate], needed: int) -> list[Subset]:
    return [subset for subset in subsets(leases) if is_minimal(subset, needed)]


def by_overhead(subset: Subset) -> tuple[int, int, list[int]]:
    return overhead(subset), len(subset), numbers(subset)


def by_leases(subset: Subset) -> tuple[int, int, list[int]]:
    return len(subset), overhead(subset), numbers(subset)


RANKS = [(Mov(), by_overhead), (Mlip(), by_leases)]


@pytest.mark.parametrize(("policy", "rank"), RANKS)
@MANY
@given(problems())
def test_mov_and_mlip_choose_the_best_set_and_name_the_second(
    policy: VictimPolicy, rank: object, problem: Problem
) -> None:
    assert callable(rank)
    ranked = sorted(candidate_sets(*problem), key=rank)
    choice = policy.choose(*problem)
    assert choice.victims == ranked[0]
    assert choice.runner_up == (ranked[1] if len(ranked) > 1 else None)
    assert (choice.exact, choice.bound_vm_ms, choice.considered) == (True, None, len(ranked))


@MANY
@given(problems(), st.data())
def test_least_lost_chooses_the_set_with_least_work_to_do_again(problem: Problem, data: st.DataObject) -> None:
    leases, needed = problem
    leases = [replace(one, lost_vm_ms=data.draw(st.sampled_from([0, 0, 1, 2, 5, 9])) * one.vms) for one in leases]

    def rank(subset: Subset) -> tuple[int, int, int, list[int]]:
        return sum(one.lost_vm_ms for one in subset), *by_overhead(subset)

    ranked = sorted(candidate_sets(leases, needed), key=rank)
    choice = LeastLost().choose(leases, needed)
    assert choice.victims == ranked[0]
    assert choice.runner_up == (ranked[1] if len(ranked) > 1 else None)
    assert (choice.exact, choice.bound_vm_ms, choice.considered) == (True, None, len(ranked))


@MANY
@given(problems())
def test_moml_chooses_fewest_leases_in_the_cheaper_half(problem: Problem) -> None:
    sets = candidate_sets(*problem)
    middle = median(overhead(one) for one in sets)

    def rank(one: Subset) -> tuple[bool, int, int, int, list[int]]:
        return overhead(one) > middle, len(one), overhead(one), held(one), numbers(one)

    ranked = sorted(sets, key=rank)
    choice = Moml().choose(*problem)
    assert choice.victims == ranked[0]
    assert choice.runner_up == (ranked[1] if len(ranked) > 1 else None)
    assert (choice.exact, choice.bound_vm_ms, choice.considered) == (True, None, len(sets))


@pytest.mark.parametrize(("policy", "rank"), RANKS)
@MANY
@given(problems())
def test_by_value_is_best_in_the_most_valuable_type_then_in_the_next(
    policy: VictimPolicy, rank: object, problem: Problem
) -> None:
    """Of all that make room, and not only of the minimal ones: what it spares, it spares by this order."""
    assert callable(rank)
    leases, needed = problem

    def rank_by_type(subset: Subset) -> list[object]:
        parts = [tuple(one for one in subset if one.lease_type is kind) for kind in (THIRD, SECOND, FIRST)]
        return [rank(part) for part in parts]

    best = min((one for one in subsets(leases) if held(one) >= needed), key=rank_by_type)
    assert by_value(policy).choose(leases, needed).victims == best


@pytest.mark.parametrize("policy", [by_value(policy) for policy in BASIC], ids=lambda policy: policy.name)
@given(problems())
def test_by_value_touches_a_type_only_if_the_ones_below_are_not_enough(policy: VictimPolicy, problem: Problem) -> None:
    leases, needed = problem
    dearest = max(one.lease_type for one in policy.choose(leases, needed).victims)
    assert held(one for one in leases if one.lease_type < dearest) < needed


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@given(problems(), st.randoms(use_true_random=False))
def test_every_choice_makes_room_with_no_lease_too_many_whatever_the_order(
    policy: VictimPolicy, problem: Problem, random: Random
) -> None:
    leases, needed = problem
    choice = policy.choose(leases, needed)
    assert is_minimal(choice.victims, needed)
    assert (choice.vms, choice.cost_vm_ms) == (held(choice.victims), overhead(choice.victims))
    assert choice.rule == policy.name
    if choice.runner_up:
        assert is_minimal(choice.runner_up, needed)
        assert choice.runner_up != choice.victims
    cheapest = min(overhead(one) for one in candidate_sets(leases, needed))
    assert choice.bound_vm_ms == (None if choice.exact else cheapest)
    assert choice == policy.choose(random.sample(leases, len(leases)), needed)


@pytest.mark.parametrize("moml", [Moml(), Moml(most_listed=0), Moml(most_listed=0, most_cells=0)])
@given(problem=problems())
def test_moml_lies_between_mlip_and_mov(moml: VictimPolicy, problem: Problem) -> None:
    mlip, middle, mov = (policy.choose(*problem) for policy in (Mlip(), moml, Mov()))
    assert len(mlip.victims) <= len(middle.victims) <= len(mov.victims)
    assert mov.cost_vm_ms <= middle.cost_vm_ms


@given(problems())
def test_candidate_sets_are_counted_and_listed_without_omission(problem: Problem) -> None:
    expected = [numbers(one) for one in candidate_sets(*problem)]
    sets = MinimalSets(*problem)
    assert sets.count == len(expected)
    assert sorted(map(numbers, sets.listed())) == sorted(expected)
    assert all(numbers(one) in expected for one in sets.drawn(20, Random(0)))


@MANY
@pytest.mark.parametrize("many_alike", [0, 3, 48])
@given(problem=problems(), by_cost=st.booleans())
def test_the_two_lightest_whether_leases_of_a_width_are_taken_one_by_one_or_searched(
    many_alike: int, problem: Problem, *, by_cost: bool
) -> None:
    def first(lease: Candidate) -> int:
        return lease.cost_vm_ms if by_cost else lease.vms

    best, *others = sorted(candidate_sets(*problem), key=lambda one: (sum(map(first, one)), len(one), numbers(one)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(minimal_sets, "_MANY_ALIKE", many_alike)
        found, second = two_lightest(MinimalSets(*problem), first, lambda _: 1)
        assert least_weight(MinimalSets(*problem), first) == sum(map(first, best))
    assert numbers(found) == numbers(best)
    assert (numbers(second) if second else None) == (numbers(others[0]) if others else None)


@MANY
@given(problems(), st.integers(0, 40))
def test_the_fewest_leases_within_a_ceiling(problem: Problem, ceiling: int) -> None:
    def rank(one: Subset) -> tuple[int, int, int]:
        return len(one), overhead(one), held(one)

    affordable = [rank(one) for one in candidate_sets(*problem) if overhead(one) <= ceiling]
    found = fewest_within(MinimalSets(*problem), ceiling, most_cells=10**6)
    assert [rank(one) for one in found] == ([min(affordable)] if affordable else [])
    assert fewest_within(MinimalSets(*problem), ceiling, most_cells=0) == []


def test_the_fewest_leases_within_a_ceiling_free_as_few_vms_too_many_as_they_can() -> None:
    leases = [
        lease(1, vms=6, cost=1),
        lease(2, vms=4, cost=1),
        lease(3, vms=4, cost=1),
        lease(4, vms=1, cost=1),
    ]
    assert [numbers(one) for one in fewest_within(MinimalSets(leases, 7), 2, most_cells=10**6)] == [[1, 4]]


def test_the_three_policies_disagree() -> None:
    """One wide dear lease, four small free ones, and something between: the trade-off in one picture."""
    leases = [
        lease(1, vms=8, cost=90),
        *(lease(number, vms=2) for number in (2, 3, 4, 5)),
        lease(6, vms=4, cost=10),
        lease(7, vms=4, cost=40),
    ]
    chosen = {policy.name: numbers(policy.choose(leases, 8).victims) for policy in (Mov(), Mlip(), Moml())}
    assert chosen == {"mov": [2, 3, 4, 5], "mlip": [1], "moml": [2, 3, 6]}


def test_superfluous_less_valuable_leases_are_given_back() -> None:
    """The Suspendable lease 3 is needed, and so wide that 2 VMs of the Cancelable ones are not."""
    leases = [lease(1, 2, lease_type=FIRST), lease(2, 3, lease_type=FIRST), lease(3, 4, lease_type=SECOND)]
    assert numbers(by_value(Mov()).choose(leases, 6).victims) == [1, 3]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
class TestBadInput:
    def test_too_little_to_free(self, policy: VictimPolicy) -> None:
        with pytest.raises(CannotCover, match="8 VMs are needed, but all candidates hold only 7"):
            policy.choose([lease(1, 3), lease(2, 4)], 8)

    def test_no_candidates(self, policy: VictimPolicy) -> None:
        with pytest.raises(CannotCover):
            policy.choose([], 1)

    def test_nothing_needed(self, policy: VictimPolicy) -> None:
        with pytest.raises(InvalidField, match="needed_vms"):
            policy.choose([lease(1, 3)], 0)

    def test_a_lease_listed_twice(self, policy: VictimPolicy) -> None:
        with pytest.raises(InvalidField, match="each lease once"):
            policy.choose([lease(1, 3), lease(1, 4)], 2)

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            (lease(1, vms=0), "vms"),
            (lease(1, vms=1, cost=-1), "cost_vm_ms"),
            (lease(1, vms=1, lease_type=LeaseType.NON_PREEMPTABLE), "lease_type"),
        ],
    )
    def test_a_lease_that_cannot_be(self, policy: VictimPolicy, wrong: Candidate, field: str) -> None:
        with pytest.raises(InvalidField) as caught:
            policy.choose([wrong, lease(2, 4)], 2)
        assert caught.value.field == field
