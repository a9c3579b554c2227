"""The printed Algorithm 1 (MOML), transcribed with its loops as they are indented, and what is wrong with it.

What is used instead: the median once, after all overheads are known; ties by a stated order; candidate sets
that are inclusion-minimal.
"""

from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import TypeAlias

import pytest

from leasehold.leasing.victims.candidate import Candidate, cost_of, ids_of, vms_of
from leasehold.leasing.victims.minimal_sets import MinimalSets
from leasehold.leasing.victims.moml import Moml
from leasehold.leasing.victims.policy import CannotCover
from leasehold.model.request import LeaseType

Subset: TypeAlias = tuple[Candidate, ...]


def lease(lease_id: int, vms: int, cost: int) -> Candidate:
    return Candidate(lease_id, LeaseType.SUSPENDABLE, vms, cost, ends_ms=0)


def selections_as_printed(candidate_sets: Sequence[Subset]) -> list[Subset]:
    """Lines 1-11: the median (line 5) and the selection (6-11) stand inside the first loop; one per round."""
    overheads: list[int] = []
    rounds: list[Subset] = []
    for seen in candidate_sets:
        overheads.append(cost_of(seen))
        fewest = float("inf")
        alpha = median(overheads)
        selected: Subset = ()
        for one in candidate_sets:
            if cost_of(one) <= alpha and len(one) < fewest:
                selected = one
                fewest = len(one)
        rounds.append(selected)
    return rounds


def test_before_the_last_round_the_printed_median_lets_dear_sets_pass() -> None:
    """The median of the overheads so far is not the median: only the last of the n rounds counts."""
    dear, cheap_a, cheap_b = (
        (lease(1, 4, 90),),
        (lease(2, 2, 1), lease(3, 2, 1)),
        (lease(4, 2, 2), lease(5, 2, 2)),
    )
    assert selections_as_printed([dear, cheap_a, cheap_b]) == [dear, cheap_a, cheap_a]
    assert selections_as_printed([cheap_a, dear, cheap_b])[0] == cheap_a


def test_a_tie_goes_to_the_set_that_happens_to_come_first() -> None:
    leases = [lease(1, 3, 5), lease(2, 3, 4), lease(3, 3, 9)]
    one, two, three = ((each,) for each in leases)
    assert selections_as_printed([one, two, three])[-1] == one
    assert selections_as_printed([two, one, three])[-1] == two
    assert Moml().choose(leases, 3).victims == Moml().choose(leases[::-1], 3).victims == two


def test_with_less_than_as_the_text_says_equal_overheads_select_nothing() -> None:
    """The text pre-selects overheads "less than" the threshold, the algorithm "at most", which is right."""
    leases = [lease(1, 3, 5), lease(2, 3, 5), lease(3, 3, 5)]
    alpha = median(one.cost_vm_ms for one in leases)
    assert not [one for one in leases if one.cost_vm_ms < alpha]
    assert ids_of(Moml().choose(leases, 3).victims) == (1,)


def test_sets_with_superfluous_leases_inflate_the_median() -> None:
    """Any set that covers the need is a candidate set as printed; then the dearest single lease is chosen."""
    leases = [lease(1, 4, 90), lease(2, 2, 10), lease(3, 2, 10), lease(4, 2, 10)]
    covering = [one for size in range(1, 5) for one in combinations(leases, size) if vms_of(one) >= 4]
    assert ids_of(selections_as_printed(covering)[-1]) == (1,)
    minimal = MinimalSets(leases, 4).listed()
    assert len(selections_as_printed(minimal)[-1]) == 2
    assert ids_of(Moml().choose(leases, 4).victims) == (2, 3)


def test_without_candidate_sets_it_selects_nothing_and_does_not_say_so() -> None:
    assert selections_as_printed([]) == []
    with pytest.raises(CannotCover):
        Moml().choose([], 1)
