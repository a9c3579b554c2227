"""The documented rules of others: an example for each sentence of the documentation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.experiments.victims.rules import Rule, haizea, kueue, slurm, slurm_youngest_first
from leasehold.leasing.victims.candidate import Candidate, vms_of
from leasehold.leasing.victims.from_function import without_superfluous
from leasehold.model.request import LeaseType

FIRST, SECOND, THIRD = LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE
RULES: list[Rule] = [kueue, slurm, slurm_youngest_first, haizea]


def lease(lease_id: int, vms: int, kind: LeaseType = SECOND, ran_ms: int = 0) -> Candidate:
    return Candidate(lease_id, kind, vms, 0, 0, ran_ms=ran_ms)


def ids(rule: Rule, candidates: list[Candidate], needed_vms: int) -> list[int]:
    return sorted(one.lease_id for one in rule(candidates, needed_vms))


class TestKueue:
    def test_the_lowest_priority_comes_first(self) -> None:
        assert ids(kueue, [lease(1, 2, SECOND, 5), lease(2, 2, FIRST, 900)], 2) == [2]

    def test_of_equal_priority_the_most_recently_admitted(self) -> None:
        assert ids(kueue, [lease(1, 2, ran_ms=5), lease(2, 2, ran_ms=900)], 2) == [1]

    def test_whoever_is_not_needed_in_the_end_is_taken_off_the_list(self) -> None:
        candidates = [lease(1, 1, ran_ms=1), lease(2, 2, ran_ms=2), lease(3, 4, ran_ms=3)]
        assert ids(kueue, candidates, 4) == [3]
        assert ids(kueue, candidates, 5) == [1, 3]

    @given(st.data())
    def test_it_leaves_nobody_out_that_could_be(self, data: st.DataObject) -> None:
        candidates, needed_vms = data.draw(problems())
        chosen = kueue(candidates, needed_vms)
        assert without_superfluous(chosen, needed_vms) == chosen


class TestSlurm:
    def test_the_lowest_priority_comes_first_and_then_the_narrowest(self) -> None:
        assert ids(slurm, [lease(1, 4, FIRST), lease(2, 2, SECOND)], 2) == [1]
        assert ids(slurm, [lease(1, 4), lease(2, 2)], 2) == [2]

    def test_it_is_reordered_once_so_that_fewer_are_preempted(self) -> None:
        candidates = [lease(1, 1), lease(2, 2), lease(3, 4)]
        assert ids(slurm, candidates, 4) == [3]

    def test_youngest_first_looks_at_the_start_alone(self) -> None:
        assert ids(slurm_youngest_first, [lease(1, 2, THIRD, 5), lease(2, 2, FIRST, 900)], 2) == [1]


class TestHaizea:
    def test_the_most_recently_submitted_comes_first_whatever_it_is(self) -> None:
        assert ids(haizea, [lease(1, 2, FIRST), lease(2, 9, THIRD)], 2) == [2]

    def test_one_more_is_added_until_it_fits_and_nobody_is_spared_then(self) -> None:
        assert ids(haizea, [lease(1, 4), lease(2, 2), lease(3, 1)], 4) == [1, 2, 3]


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Candidate], int]:
    shape = st.tuples(st.integers(1, 6), st.sampled_from([FIRST, SECOND, THIRD]), st.integers(0, 9))
    shapes = draw(st.lists(shape, min_size=1, max_size=9))
    leases = [lease(number, *one) for number, one in enumerate(shapes)]
    return leases, draw(st.integers(1, vms_of(leases)))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@given(problem=problems())
def test_every_rule_makes_room_whatever_the_order_of_the_list(rule: Rule, problem: tuple[list[Candidate], int]) -> None:
    candidates, needed_vms = problem
    chosen = rule(candidates, needed_vms)
    assert vms_of(chosen) >= needed_vms
    assert len(set(chosen)) == len(chosen)
    assert ids(rule, candidates[::-1], needed_vms) == ids(rule, candidates, needed_vms)
