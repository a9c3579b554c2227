"""The sets that no other one beats: none is beaten, none is missing; beyond the bound none is beaten."""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, ids_of, vms_of
from leasehold.leasing.victims.exact_cover import ExactCover
from leasehold.leasing.victims.front import Objective, Score, front, score
from leasehold.leasing.victims.mlip import Mlip
from leasehold.leasing.victims.mov import Mov
from leasehold.leasing.victims.pareto import pareto
from leasehold.leasing.victims.registry import describe, victim_policy
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LeaseType

FIRST, SECOND, THIRD = LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE
Problem = tuple[list[Candidate], int]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Up to nine leases, with ties and contradictions between the objectives, and a need."""
    shape = st.tuples(st.integers(1, 6), st.sampled_from([0, 1, 2, 5]), st.sampled_from([0, 1, 4]))
    shapes = draw(st.lists(shape, min_size=1, max_size=9))
    kinds = st.sampled_from([FIRST, SECOND, THIRD])
    leases = [Candidate(number, draw(kinds), vms, cost, 0, lost) for number, (vms, cost, lost) in enumerate(shapes)]
    return leases, draw(st.integers(1, vms_of(leases)))


def every_cover(leases: list[Candidate], needed_vms: int) -> list[CandidateSet]:
    every = (one for size in range(1, len(leases) + 1) for one in combinations(leases, size))
    return [one for one in every if vms_of(one) >= needed_vms]


def unbeaten(leases: list[Candidate], needed_vms: int) -> dict[Score, CandidateSet]:
    """By looking at everything that makes room, minimal or not; of equals the lowest numbers."""
    scores: dict[Score, CandidateSet] = {}
    for one in sorted(every_cover(leases, needed_vms), key=ids_of):
        scores.setdefault(score(one, needed_vms), one)
    return {mine: one for mine, one in scores.items() if not any(other.dominates(mine) for other in scores)}


@given(problems())
def test_none_is_beaten_and_none_is_missing(problem: Problem) -> None:
    found = front(*problem)
    assert found.exact
    assert dict(zip(found.scores, found.sets, strict=True)) == unbeaten(*problem)
    assert list(found.scores) == sorted(found.scores)


@given(problems())
def test_beyond_the_bound_none_is_beaten_and_each_optimum_is_there(problem: Problem) -> None:
    found, every = front(*problem, most_half_made=-1), unbeaten(*problem)
    assert not found.exact
    assert set(found.scores) <= set(every)
    for objective in Objective:
        assert found.least(objective) == min(one.of(objective) for one in every)


@given(problems())
def test_the_front_begins_and_ends_where_the_policies_of_one_objective_are(problem: Problem) -> None:
    found = front(*problem)
    leases, needed_vms = problem
    assert found.least(Objective.LEASES) == len(Mlip().choose(*problem).victims)
    assert found.least(Objective.OVERHEAD) == Mov().choose(*problem).cost_vm_ms
    assert found.least(Objective.EXCESS) == ExactCover().choose(*problem).vms - needed_vms
    everybody = score(leases, needed_vms)
    assert found.beats(everybody) == (everybody not in found.scores)


def a_crowd(number: int, seed: int) -> list[Candidate]:
    random = Random(seed)
    return [
        Candidate(
            lease_id,
            random.choice([FIRST, SECOND, THIRD]),
            random.randint(1, 30),
            random.randint(0, 9_000),
            0,
            lost_vm_ms=random.choice([0, random.randint(1, 9_000)]),
        )
        for lease_id in range(number)
    ]


@pytest.mark.parametrize("number", [60, 120])
def test_among_very_many_it_says_that_it_may_miss_some(number: int) -> None:
    leases = a_crowd(number, seed=number)
    found = front(leases, vms_of(leases) // 3)
    assert not found.exact
    assert found.least(Objective.OVERHEAD) == Mov().choose(leases, vms_of(leases) // 3).cost_vm_ms
    assert not any(found.beats(one) for one in found.scores)


class TestPareto:
    @given(problems(), st.permutations(list(Objective)))
    def test_an_order_takes_the_first_by_it(self, problem: Problem, order: list[Objective]) -> None:
        choice = pareto(",".join(order)).choose(*problem)
        scores = unbeaten(*problem)
        best = min(scores, key=lambda one: [one.of(objective) for objective in order])
        assert score(choice.victims, problem[1]) == best
        assert choice.exact
        assert (choice.runner_up is None) == (len(scores) == 1)

    @given(problems())
    def test_one_weight_alone_is_the_optimum_by_that_objective(self, problem: Problem) -> None:
        for objective in Objective:
            victims = pareto(f"{objective}=2").choose(*problem).victims
            assert score(victims, problem[1]).of(objective) == front(*problem).least(objective)

    @given(problems(), st.randoms(use_true_random=False))
    def test_it_never_takes_a_set_that_another_beats(self, problem: Problem, random: Random) -> None:
        leases, needed_vms = problem
        choice = pareto().choose(leases, needed_vms)
        assert score(choice.victims, needed_vms) in unbeaten(*problem)
        assert choice.considered == len(unbeaten(*problem))
        assert choice == pareto().choose(random.sample(leases, len(leases)), needed_vms)

    def test_the_compromise_lies_between_the_extremes(self) -> None:
        """One wide dear lease, four narrow free ones, or two of which each objective has a little."""
        leases = [
            Candidate(1, SECOND, 8, 90, 0),
            *(Candidate(number, SECOND, 2, 0, 0) for number in (2, 3, 4, 5)),
            Candidate(6, THIRD, 4, 10, 0),
            Candidate(7, THIRD, 4, 12, 0),
        ]
        assert ids_of(pareto().choose(leases, 8).victims) == (6, 7)
        assert ids_of(pareto("leases").choose(leases, 8).victims) == (1,)
        assert ids_of(pareto("overhead=1").choose(leases, 8).victims) == (2, 3, 4, 5)

    def test_a_crowd_makes_it_say_that_it_is_not_exact(self) -> None:
        leases = a_crowd(60, seed=1)
        choice = pareto().choose(leases, vms_of(leases) // 3)
        assert not choice.exact
        assert choice.bound_vm_ms == Mov().choose(leases, vms_of(leases) // 3).cost_vm_ms

    def test_names_say_weights_or_an_order(self) -> None:
        assert victim_policy("by-value:pareto:excess,leases").name == "by-value:pareto:excess,leases"
        assert victim_policy("pareto:leases=3, lost=0.5").name == "pareto:leases=3, lost=0.5"
        assert describe("pareto").question.startswith("Which candidate set is the best compromise")

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("pareto:leases,leases", "each once"),
            ("pareto:leases=1,lost", "all with a weight or none"),
            ("pareto:leases=0", "a number above 0"),
            ("pareto:leases=many", "a number above 0"),
            ("pareto:leases=nan", "a number above 0"),
            ("pareto:leases=inf", "a number above 0"),
            ("pareto:leases=1e13", "a number above 0"),
            ("pareto:leases=1e-13", "a number above 0"),
        ],
    )
    def test_what_is_neither_is_refused(self, name: str, problem: str) -> None:
        with pytest.raises(InvalidField, match=problem):
            victim_policy(name)

    def test_an_objective_that_does_not_exist_is_named(self) -> None:
        with pytest.raises(UnknownName, match="did you mean 'excess'"):
            victim_policy("pareto:exces")
