"""Guests that are saved and wait for the routing policy's word: who goes on when, and that nobody is lost."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import (
    QUICK,
    Case,
    cases,
    moving_cases,
    three_sites,
    unfold,
)
from tests.gateway.telling import Told, begun, lent, own
from tests.gateway.test_restart import ForgetfulWorld
from tests.searching import examples

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.restart import take_up
from leasehold.gateway.settings import SiteSettings
from leasehold.model.effect import SuspendLease
from leasehold.model.event import CancelRequested, LeaseEnded, LeaseSaved, SiteFellSilent, Submitted, Tick
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policy import Dispatch, Hold, Information, RoutingPolicy, RoutingView, Verdict, Waiting
from leasehold.routing.registry import routing_policy
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import guest, local, play, site


class Stingy(RoutingPolicy):
    """Sends to the first site, and lets nobody go on before a number of seconds."""

    name: ClassVar[str] = "stingy"
    information: ClassVar[Information] = Information.LIVE
    delays_resume: ClassVar[bool] = True

    def __init__(self, patience_s: float, *, moves: bool = False) -> None:
        super().__init__(Random(0))
        self.patience_ms, self.moves = round(1000 * patience_s), moves
        self.seen: list[Waiting] = []

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:  # noqa: ARG002
        return Dispatch(view.sites[0].name)

    def resume(self, saved: Waiting, view: RoutingView, now_ms: int) -> Verdict:
        self.seen.append(saved)
        if now_ms < saved.since_ms + self.patience_ms:
            return Hold()
        return Dispatch(view.sites[-1].name if self.moves else saved.home)


def three(slots: int = 4) -> list[SiteSettings]:
    return [site(name, slots, overhead=QUICK) for name in ("a", "b", "c")]


def preempted(kind: str, deadline_s: float | None = None) -> Sequence[WorkloadJob]:
    """A guest of 4 VMs for 20 s, preempted at 5 s by a local lease of 10 s; saving takes 2 s, loading 3 s."""
    return [guest(0, 4, 20, kind, deadline_s=deadline_s), local(5, 4, 10)]


def test_a_suspended_guest_waits_for_the_policys_word() -> None:
    history = play(preempted("suspendable"), three(), Stingy(30), tick_ms=1_000)
    assert history.moves(1) == [(0, "start", "a"), (37, "resume", "a")]
    assert history.ends()[1] == (37 + 3 + 15, Reason.COMPLETED)
    resumed = history.decisions(Outcome.START)[-1][1]
    assert (resumed.reason, resumed.rule) == (Reason.LOW_PREEMPTION_RISK, "stingy")


def test_without_a_policy_that_parks_it_goes_on_as_soon_as_there_is_room() -> None:
    history = play(preempted("suspendable"), [site("a", 4, overhead=QUICK)], "rr")
    assert history.moves(1) == [(0, "start", "a"), (15, "resume", "a")]


def test_the_policy_is_told_what_is_left_and_what_going_on_would_take() -> None:
    policy = Stingy(30)
    play(preempted("migratable", deadline_s=200), three(), policy, tick_ms=1_000)
    saved = policy.seen[0]
    assert (saved.home, saved.since_ms, saved.left_ms) == ("a", 7_000, 15_000)
    assert saved.resume_ms == 3_000
    assert saved.move_ms is not None
    assert saved.move_ms > 5_000


def test_a_migratable_guest_is_parked_instead_of_moved_and_the_reason_is_told() -> None:
    history = play(preempted("migratable", deadline_s=200), three(), Stingy(30), tick_ms=1_000)
    assert history.moves(1) == [(0, "start", "a"), (37, "resume", "a")]
    waits = [made for _, made in history.decisions(Outcome.WAIT) if made.lease.id == 1]
    assert [(made.reason, made.rule) for made in waits] == [(Reason.SUSPENDED_UNTIL_QUIET, "parking")]


def test_it_can_go_on_elsewhere_when_the_policy_says_so() -> None:
    history = play(preempted("migratable", deadline_s=200), three(), Stingy(30, moves=True), tick_ms=1_000)
    assert history.moves(1) == [(0, "start", "c"), (37, "migrate", "c")]
    moved = next(made for _, made in history.decisions(Outcome.MOVE))
    assert moved.reason is Reason.LOW_PREEMPTION_RISK


def test_a_deadline_is_not_waited_away() -> None:
    """Moved from 38 s on it would be too late, and it is saved at 7 s: it waits half of the time between."""
    history = play(preempted("migratable", deadline_s=60), three(), Stingy(1e6), tick_ms=1_000)
    (resumed_s, what, where) = history.moves(1)[-1]
    assert (what, where) == ("resume", "a")
    assert 20 < resumed_s <= 23
    assert history.ends()[1] == (resumed_s + 3 + 15, Reason.COMPLETED)
    resumed = history.decisions(Outcome.START)[-1][1]
    assert (resumed.reason, resumed.rule) == (Reason.DEADLINE_FORCES_RESUME, "stingy")


def test_it_is_moved_when_its_deadline_presses_and_its_home_has_no_room() -> None:
    jobs = [guest(0, 4, 20, "migratable", deadline_s=60), local(5, 4, 100)]
    history = play(jobs, three(), Stingy(1e6), tick_ms=1_000)
    assert [(what, where) for _, what, where in history.moves(1)][-1][0] == "migrate"
    assert history.ends()[1][1] is Reason.COMPLETED


def test_it_is_moved_when_its_deadline_presses_and_its_home_does_not_answer() -> None:
    told = Told(*three(), routing=Stingy(1_000))
    told.at(0, lent(1, 4, 20, "migratable", deadline_s=200))
    told.at(5, own(2, 4, 10))
    told.at(7, LeaseSaved(1, 1))
    told.at(15, LeaseEnded(2, 1), SiteFellSilent("a"))
    assert begun(told.at(100, Tick("a"))) == [(1, "b")]


def test_it_has_failed_once_no_place_could_meet_its_deadline_and_not_before() -> None:
    jobs = [guest(0, 4, 20, "migratable", deadline_s=60), local(5, 4, 300)]
    history = play(jobs, [site("a", 4, overhead=QUICK)], Stingy(1e6), tick_ms=1_000)
    at_s, why = history.ends()[1]
    assert why is Reason.DEADLINE_LOST
    assert 60 - 15 - 3 < at_s <= 60 - 15 - 3 + 1


def test_without_time_to_spare_it_is_moved_at_once_as_ever() -> None:
    jobs = [guest(0, 4, 20, "migratable", deadline_s=28), local(5, 4, 10)]
    history = play(jobs, three(), Stingy(1e6), tick_ms=1_000)
    assert [what for _, what, _ in history.moves(1)] == ["start", "migrate"]


def test_a_parked_guest_can_be_cancelled() -> None:
    gateway = Gateway([site("a", 4, overhead=QUICK)], Routing(Stingy(1e6)))
    gateway.handle([Submitted(Request(1, LeaseType.SUSPENDABLE, 4, 20_000, 0, 0))], 0)
    own = Request(2, LeaseType.NON_PREEMPTABLE, 4, 10_000, 5_000, 5_000, site="a")
    effects = gateway.handle([Submitted(own)], 5_000)
    assert any(isinstance(effect, SuspendLease) for effect in effects)
    assert list(gateway.suspended.leases) == [1]
    gateway.handle([CancelRequested(1)], 6_000)
    assert not gateway.suspended.leases
    assert gateway.leases.keys() == {2}


@pytest.mark.parametrize("policy", ["price-and-park", "rr"])
@given(case=st.one_of(cases(), moving_cases()))
@settings(max_examples=examples(60))
def test_nobody_is_forgotten_and_every_promise_is_kept(policy: str, case: Case) -> None:
    """Invariants are checked after every instant, and at the end that nobody is left."""
    unfold(case, three_sites(), policy, tick_ms=1_000)


@given(st.one_of(cases(), moving_cases()), st.integers(0, 40), st.booleans())
@settings(max_examples=examples(120))
def test_a_policy_may_be_as_stingy_as_it_likes(case: Case, patience_s: int, moves: bool) -> None:  # noqa: FBT001
    chronicle = unfold(case, three_sites(), Stingy(patience_s, moves=moves), tick_ms=1_000)
    for now_ms, made in chronicle.decisions(Outcome.START, Outcome.MOVE):
        if made.reason is Reason.LOW_PREEMPTION_RISK:
            assert made.lease.request.lease_type is not LeaseType.NON_PREEMPTABLE
        if made.reason is Reason.DEADLINE_FORCES_RESUME:
            assert made.lease.request.deadline_ms is not None
            assert now_ms < made.lease.request.deadline_ms


@given(st.one_of(cases(), moving_cases()), st.sets(st.integers(1, 60), max_size=6))
@settings(max_examples=examples(80))
def test_a_restart_loses_nobody_who_is_parked(case: Case, restarts: set[int]) -> None:
    world = ForgetfulWorld(case, Routing(Stingy(7), tick_ms=1_000), restarts, "conservative")
    for _ in world.run():
        pass
    assert not world.gateway.leases
    assert not world.gateway.suspended.leases


def test_who_was_parked_under_another_policy_goes_on_as_soon_as_there_is_room() -> None:
    parked = Gateway([site("a", 4, overhead=QUICK)], Routing(Stingy(1e6)))
    parked.handle([Submitted(Request(1, LeaseType.SUSPENDABLE, 4, 20_000, 0, 0))], 0)
    own = Request(2, LeaseType.NON_PREEMPTABLE, 4, 10_000, 5_000, 5_000, site="a")
    parked.handle([Submitted(own)], 5_000)
    leases = list(parked.leases.values())
    for lease in leases:
        if lease.state is LeaseState.SUSPENDING:
            lease.state = LeaseState.SUSPENDED
    anew = Gateway([site("a", 4, overhead=QUICK)], Routing(routing_policy("rr")(Random(0))))
    take_up(anew, leases, 8_000)
    anew.handle([], 8_000)
    assert not anew.suspended.leases
    assert leases[0].reserved_ms == 15_000
