"""What a site guarantees its guests: it never costs the owner's users room, and its bounds hold."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.leasing.victims.candidate import Candidate, cost_of, ids_of, vms_of
from leasehold.leasing.victims.exact_cover import ExactCover
from leasehold.leasing.victims.guard import Guard, LeastRun, PreemptionLimit, RepreemptionSurcharge, Surcharge, by_value
from leasehold.leasing.victims.mlip import Mlip
from leasehold.leasing.victims.moml import Moml
from leasehold.leasing.victims.mov import Mov
from leasehold.leasing.victims.policy import CannotCover, VictimPolicy
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType

PREEMPTABLE = (LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE)
LEAST_RUN_MS, MOST = 100, 2
INNER: list[VictimPolicy] = [Mov(), ExactCover(), Moml(most_listed=0), by_value(Mlip())]
GUARDS = [
    Guard(least_run_ms=LEAST_RUN_MS),
    Guard(most_preemptions=MOST),
    Guard(surcharge=1.0),
    Guard(LEAST_RUN_MS, MOST, 0.5),
]
Problem = tuple[list[Candidate], int]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Guests with a past: for how long they have worked, how often they were preempted."""
    shape = st.tuples(
        st.sampled_from(PREEMPTABLE),
        st.integers(1, 6),
        st.sampled_from([0, 3, 10]),
        st.sampled_from([0, LEAST_RUN_MS - 1, LEAST_RUN_MS, 900]),
        st.integers(0, 4),
    )
    leases = [
        Candidate(number, kind, vms, cost, 0, 0, ran_ms, preemptions)
        for number, (kind, vms, cost, ran_ms, preemptions) in enumerate(draw(st.lists(shape, min_size=1, max_size=9)))
    ]
    return leases, draw(st.integers(1, vms_of(leases)))


def guarded(guard: Guard, policy: VictimPolicy) -> VictimPolicy:
    return guard.around(guard.within(policy))


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("policy", INNER, ids=lambda policy: policy.name)
@given(problem=problems())
def test_whatever_could_be_covered_is_covered_with_nobody_in_vain(
    guard: Guard, policy: VictimPolicy, problem: Problem
) -> None:
    leases, needed_vms = problem
    choice = guarded(guard, policy).choose(leases, needed_vms)
    assert choice.vms >= needed_vms
    assert all(choice.vms - lease.vms < needed_vms for lease in choice.victims)
    assert set(choice.victims) <= set(leases)
    if choice.runner_up:
        assert vms_of(choice.runner_up) >= needed_vms
    if not choice.exact:
        assert choice.bound_vm_ms == Mov().choose(leases, needed_vms).cost_vm_ms
    assert choice == guarded(guard, policy).choose(leases[::-1], needed_vms)


@pytest.mark.parametrize("policy", INNER, ids=lambda policy: policy.name)
@given(problem=problems())
def test_who_has_just_begun_is_preempted_only_where_the_others_are_not_enough(
    policy: VictimPolicy, problem: Problem
) -> None:
    leases, needed_vms = problem
    victims = LeastRun(policy, LEAST_RUN_MS).choose(leases, needed_vms).victims
    begun = [lease for lease in victims if lease.ran_ms < LEAST_RUN_MS]
    others = vms_of(lease for lease in leases if lease.ran_ms >= LEAST_RUN_MS)
    assert not begun or others < needed_vms


@pytest.mark.parametrize("policy", INNER, ids=lambda policy: policy.name)
@given(problem=problems())
def test_beyond_the_bound_those_go_first_who_gave_way_less_often(policy: VictimPolicy, problem: Problem) -> None:
    leases, needed_vms = problem
    most = max(lease.preemptions for lease in PreemptionLimit(policy, MOST).choose(leases, needed_vms).victims)
    if most >= MOST:
        assert vms_of(lease for lease in leases if lease.preemptions < most) < needed_vms


@pytest.mark.parametrize("policy", INNER, ids=lambda policy: policy.name)
@given(
    widths=st.lists(st.integers(1, 4), min_size=2, max_size=7),
    needs=st.lists(st.integers(1, 6), min_size=1, max_size=30),
)
def test_turns_go_round_however_often_room_is_needed(policy: VictimPolicy, widths: list[int], needs: list[int]) -> None:
    """Guests that always come back at once: each time, who is at the bound goes after all who are not."""
    preempted = dict.fromkeys(range(len(widths)), 0)
    for needed_vms in needs:
        guests = [
            Candidate(number, PREEMPTABLE[1], vms, vms, 0, preemptions=preempted[number])
            for number, vms in enumerate(widths)
        ]
        if vms_of(guests) < needed_vms:
            continue
        victims = PreemptionLimit(policy, MOST).choose(guests, needed_vms).victims
        worst = max(victim.preemptions for victim in victims)
        fresher = vms_of(guest for guest in guests if guest.preemptions < worst)
        assert worst < MOST or fresher < needed_vms
        for victim in victims:
            preempted[victim.lease_id] += 1


def test_equal_guests_are_preempted_equally_often() -> None:
    """Without turns the exact cover of equal guests would always be the first of them."""
    preempted = dict.fromkeys(range(5), 0)
    for _ in range(50):
        guests = [Candidate(number, PREEMPTABLE[1], 2, 7, 0, preemptions=many) for number, many in preempted.items()]
        (victim,) = PreemptionLimit(ExactCover(), 1).choose(guests, 2).victims
        preempted[victim.lease_id] += 1
    assert preempted == dict.fromkeys(range(5), 10)


class TestDearerAgain:
    @given(problems())
    def test_it_is_the_cheapest_set_at_the_higher_costs_and_charges_the_plain_ones(self, problem: Problem) -> None:
        leases, needed_vms = problem
        surcharge = Surcharge(share=1.0, halves_ms=LEAST_RUN_MS)
        choice = RepreemptionSurcharge(Mov(), surcharge).choose(leases, needed_vms)
        every = (one for size in range(1, len(leases) + 1) for one in combinations(leases, size))
        covers = [one for one in every if vms_of(one) >= needed_vms]
        dear = min(sum(lease.cost_vm_ms + surcharge.on(lease) for lease in one) for one in covers)
        assert sum(lease.cost_vm_ms + surcharge.on(lease) for lease in choice.victims) == dear
        assert choice.cost_vm_ms == cost_of(choice.victims)

    def test_the_surcharge_grows_with_preemptions_and_fades_with_work(self) -> None:
        surcharge = Surcharge(share=0.5, halves_ms=1_000)

        def on(ran_ms: int, preemptions: int) -> int:
            return surcharge.on(Candidate(1, PREEMPTABLE[1], 1, 800, 0, 0, ran_ms, preemptions))

        assert [on(0, preemptions) for preemptions in range(4)] == [0, 400, 800, 1_200]
        assert [on(ran_ms, 1) for ran_ms in (0, 1_000, 3_000)] == [400, 200, 100]

    def test_a_victim_that_came_back_is_not_the_cheapest_any_more(self) -> None:
        again = Candidate(1, PREEMPTABLE[1], 4, 100, 0, preemptions=3)
        fresh = Candidate(2, PREEMPTABLE[1], 4, 150, 0)
        plain, dearer = Mov(), RepreemptionSurcharge(Mov(), Surcharge(0.5, 1_000))
        assert ids_of(plain.choose([again, fresh], 4).victims) == (1,)
        assert ids_of(dearer.choose([again, fresh], 4).victims) == (2,)

    def test_a_cost_that_makes_no_sense_is_still_refused(self) -> None:
        wrong = Candidate(1, PREEMPTABLE[1], 4, -1, 0, preemptions=3)
        with pytest.raises(InvalidField, match="cost_vm_ms"):
            RepreemptionSurcharge(Mov(), Surcharge(0.5, 1_000)).choose([wrong], 4)


class TestGuard:
    def test_without_guarantees_the_policy_is_left_as_it_is(self) -> None:
        policy = Mov()
        assert guarded(Guard(), policy) is policy

    def test_the_rule_names_every_guarantee(self) -> None:
        assert guarded(Guard(1, 2, 0.5), Mov()).name == "least-run:in-turns:dearer-again:mov"

    def test_what_nobody_can_cover_is_said_so(self) -> None:
        with pytest.raises(CannotCover):
            guarded(Guard(1, 2, 0.5), Mov()).choose([Candidate(1, PREEMPTABLE[0], 1, 0, 0)], 2)

    def test_time_to_work_comes_before_turns_and_before_the_value_of_the_type(self) -> None:
        """The Cancelable guest has just come, the Suspendable one has had its turns: the Migratable goes."""
        leases = [
            Candidate(1, PREEMPTABLE[0], 2, 0, 0, ran_ms=5),
            Candidate(2, PREEMPTABLE[1], 2, 0, 0, ran_ms=500, preemptions=MOST),
            Candidate(3, PREEMPTABLE[2], 2, 0, 0, ran_ms=500),
        ]
        policy = guarded(Guard(LEAST_RUN_MS, MOST), by_value(ExactCover()))
        assert [ids_of(policy.choose(leases, need).victims) for need in (2, 4, 6)] == [
            (3,),
            (2, 3),
            (1, 2, 3),
        ]
