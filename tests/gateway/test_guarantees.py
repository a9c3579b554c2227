"""What a site guarantees its guests, through the whole decision code: whom it spares, and what it says."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import PREEMPTABLE, Case, cases, three_sites, unfold
from tests.searching import examples

from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.victims.candidate import Candidate, VictimChoice
from leasehold.leasing.victims.exact_cover import ExactCover
from leasehold.leasing.victims.guard import Guard
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.registry import VICTIM_POLICIES
from leasehold.model.reason import Outcome, Reason
from leasehold.testing.worlds import History, guest, local, play, site

SLOW = settings(max_examples=examples(60), deadline=None)


def told(history: History) -> list[tuple[float, int, Reason]]:
    return [(now_s, made.lease.id, made.reason) for now_s, made in history.decisions(Outcome.PREEMPT)]


def at_home(guard: Guard, slots: int = 4) -> SiteSettings:
    return site("a", slots, victims=guard.around(ExactCover()))


def test_who_has_just_begun_is_spared_while_another_could_go() -> None:
    """Exact cover takes the guest that would stay longest: the second. It began 5 s ago."""
    jobs = [guest(0, 2, 200), guest(15, 2, 200), local(20, 2, 5)]
    assert told(play(jobs, [at_home(Guard())])) == [(20, 2, Reason.LOCAL_NEEDS_ROOM)]
    assert told(play(jobs, [at_home(Guard(least_run_ms=10_000))])) == [(20, 1, Reason.LOCAL_NEEDS_ROOM)]


def test_where_nobody_else_is_left_the_promise_is_broken_and_that_is_said() -> None:
    jobs = [guest(0, 2, 200), guest(15, 2, 200), local(20, 4, 5)]
    assert told(play(jobs, [at_home(Guard(least_run_ms=10_000))])) == [
        (20, 1, Reason.LOCAL_NEEDS_ROOM),
        (20, 2, Reason.NO_OTHER_VICTIM),
    ]


def test_loading_saved_memory_is_not_work() -> None:
    """Saved in 160 s, loaded in 126 s: at 300 s it has held its VMs again, and worked for some seconds."""
    jobs = [guest(0, 2, 900), local(10, 4, 5), guest(200, 2, 900), local(300, 2, 5)]
    history = play(jobs, [at_home(Guard(least_run_ms=60_000))])
    assert told(history)[-1] == (300, 3, Reason.LOCAL_NEEDS_ROOM)


def test_who_has_come_back_works_as_long_as_that_took_while_another_could_go() -> None:
    """Lease 1 is loaded again from 170 s on, for 126 s: spared meanwhile, and as long again, until 422 s."""

    def victim(at_s: float, guard: Guard) -> int:
        jobs = [guest(0, 2, 5_000), local(10, 4, 5), guest(20, 2, 900), local(at_s, 2, 5)]
        return told(play(jobs, [at_home(guard)]))[-1][1]

    assert [victim(at_s, Guard()) for at_s in (200, 300, 421, 423)] == [1, 1, 1, 1]
    assert [victim(at_s, Guard(least_run_resumes=1)) for at_s in (200, 300, 421, 423)] == [3, 3, 3, 1]


def test_turns_are_taken() -> None:
    """Two guests of two VMs, one of which has to go each time: each of them once."""
    jobs = [guest(0, 2, 5_000), guest(1, 2, 9_000), *(local(1_000 * n, 2, 5) for n in (1, 2, 3, 4))]
    always = [lease_id for _, lease_id, _ in told(play(jobs, [at_home(Guard())]))]
    turns = [lease_id for _, lease_id, _ in told(play(jobs, [at_home(Guard(most_preemptions=1))]))]
    assert always == [2, 2, 2, 2]
    assert sorted(turns) == [1, 1, 2, 2]


class Watched(VictimPolicy):
    """A policy whose questions and answers are kept."""

    def __init__(self, policy: VictimPolicy) -> None:
        self.policy = policy
        self.name = policy.name
        self.asked: list[tuple[list[Candidate], int, VictimChoice]] = []

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        choice = self.policy.choose(candidates, needed_vms)
        self.asked.append((list(candidates), needed_vms, choice))
        return choice


@SLOW
@given(case=cases(PREEMPTABLE), name=st.sampled_from(list(VICTIM_POLICIES)), most=st.integers(1, 2))
def test_in_random_worlds_both_promises_are_kept_wherever_they_can_be(case: Case, name: str, most: int) -> None:
    guard = Guard(least_run_ms=2_000, most_preemptions=most, surcharge=1.0)
    watched = Watched(guard.around(guard.within(VICTIM_POLICIES[name])))
    unfold(case, three_sites(victims=watched))
    for candidates, needed_vms, choice in watched.asked:
        begun = {one.lease_id for one in choice.victims if one.ran_ms < guard.least_run_ms}
        able = sum(one.vms for one in candidates if one.ran_ms >= guard.least_run_ms)
        assert not begun or able < needed_vms
        assert begun <= choice.despite
        assert choice.despite <= {one.lease_id for one in choice.victims}
        assert choice.vms >= needed_vms
