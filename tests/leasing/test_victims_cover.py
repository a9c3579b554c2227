"""Victims where several things are missing, against all subsets."""

from itertools import chain, combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from leasehold.leasing.victims.candidate import Candidate, ids_of
from leasehold.leasing.victims.cover import choose_cover, covers
from leasehold.leasing.victims.guard import Guard, by_value
from leasehold.leasing.victims.policy import CannotCover
from leasehold.leasing.victims.registry import VICTIM_POLICIES
from leasehold.model.request import LeaseType

KEYS = [(0, 0), (0, 2), (1, 0)]
AMOUNTS = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 4), max_size=3)
GUEST = st.tuples(st.sampled_from(list(LeaseType)[:3]), st.integers(0, 5), st.integers(0, 3), AMOUNTS)
GUESTS = st.lists(GUEST, min_size=1, max_size=8)
NEEDS = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 6), min_size=1, max_size=3)


def _weight(name: str, lease: Candidate) -> tuple[int, int]:
    return (1, lease.cost_vm_ms) if name == "mlip" else (lease.cost_vm_ms, 1)


@pytest.mark.parametrize("name", ["mov", "mlip"])
@given(guests=GUESTS, needs=NEEDS, in_order=st.booleans(), limit=st.integers(0, 2))
def test_the_set_is_the_best_of_all_that_free_the_vector(
    name: str,
    guests: list[tuple[LeaseType, int, int, dict[tuple[int, int], int]]],
    needs: dict[tuple[int, int], int],
    in_order: bool,  # noqa: FBT001 - by Hypothesis
    limit: int,
) -> None:
    leases = [Candidate(i, kind, 1, cost, 0, preemptions=often) for i, (kind, cost, often, _) in enumerate(guests, 1)]
    amounts = {i: of for i, (_, _, _, of) in enumerate(guests, 1)}
    assume(len(needs) > 1)  # of one thing alone the policy chooses, by how much each holds
    policy = VICTIM_POLICIES[name]
    if in_order:
        policy = by_value(policy)
    policy = Guard(most_preemptions=limit).around(policy)
    subsets = chain.from_iterable(combinations(leases, size) for size in range(1, len(leases) + 1))
    covering = [one for one in subsets if covers(one, amounts, needs)]
    if not covering:
        with pytest.raises(CannotCover):
            choose_cover(policy, leases, amounts, needs)
        return

    def rank(chosen: tuple[Candidate, ...]) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        """What is touched of each tier, the last tier first."""
        tiers = sorted({_tier(one, in_order=in_order, limit=limit) for one in leases}, reverse=True)
        touched = []
        for tier in tiers:
            weights = [_weight(name, one) for one in chosen if _tier(one, in_order=in_order, limit=limit) == tier]
            touched.append(tuple(map(sum, zip(*weights, strict=True))) if weights else (0, 0))
        return touched, ids_of(chosen)

    choice = choose_cover(policy, leases, amounts, needs)
    assert choice.exact
    assert ids_of(choice.victims) == ids_of(min(covering, key=lambda chosen: rank(tuple(chosen))))
    assert choice.rule == policy.name


def _tier(lease: Candidate, *, in_order: bool, limit: int) -> tuple[int, int]:
    often = max(0, lease.preemptions + 1 - limit) if limit else 0
    return often, int(lease.lease_type) if in_order else 0


@pytest.mark.parametrize("name", sorted(VICTIM_POLICIES))
@given(guests=GUESTS, needs=NEEDS)
def test_every_policy_frees_what_is_missing_and_spares_whom_it_can(
    name: str,
    guests: list[tuple[LeaseType, int, int, dict[tuple[int, int], int]]],
    needs: dict[tuple[int, int], int],
) -> None:
    leases = [Candidate(i, kind, 1, cost, 0) for i, (kind, cost, _, _) in enumerate(guests, 1)]
    amounts = {i: of for i, (_, _, _, of) in enumerate(guests, 1)}
    assume(covers(leases, amounts, needs))
    choice = choose_cover(VICTIM_POLICIES[name], leases, amounts, needs)
    assert covers(choice.victims, amounts, needs)
    for one in choice.victims:
        assert not covers([other for other in choice.victims if other is not one], amounts, needs)
