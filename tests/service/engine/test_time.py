"""Alarms that are late, and gateways that were away."""

import pytest
from tests.service.engine.examples import S, end, guest, journal, lease, local, orders, state, submitted

from leasehold.model.request import LeaseType
from leasehold.service.drivers.protocol import Phase
from leasehold.service.engine.engine import MAX_LATENESS_MS
from leasehold.testing.live import BEGIN_MS, Live

HOUR = 3600 * S


def test_an_alarm_that_is_a_little_late_is_decided_at_its_time(live: Live) -> None:
    submitted(live, local(4, 10), local(4, 10), local(4, 10))
    live.now_ms += 10 * S + MAX_LATENESS_MS - 1
    live.do()
    starts = [line.at_ms - BEGIN_MS for line in journal(live) if line.what == "start"]
    assert starts == [0, 10 * S]
    assert lease(live, 1).metadata.end_ms == BEGIN_MS + 10 * S
    assert lease(live, 2).lease.first_start_ms == live.now_ms  # machines were not told before


def test_what_one_late_alarm_brings_may_be_late_too(live: Live) -> None:
    submitted(live, local(4, 1), local(2, 9), local(2, 9, ready_ms=BEGIN_MS + 3 * S))
    live.now_ms += 5 * S
    live.do()
    starts = {line.lease_id: line.at_ms - BEGIN_MS for line in journal(live) if line.what == "start"}
    assert starts == {1: 0, 2: 1 * S, 3: 3 * S}


def test_the_time_of_a_lease_counts_from_when_its_machines_were_told_late(live: Live) -> None:
    submitted(live, local(4, 1), local(4, 1), local(4, 60))
    live.now_ms += 5 * S
    live.do()
    assert [state(live, n) for n in (1, 2, 3)] == ["completed", "running", "waiting"]
    live.pass_time(1 * S)
    assert [state(live, n) for n in (1, 2, 3)] == ["completed", "completed", "running"]
    assert lease(live, 3).lease.first_start_ms == BEGIN_MS + 6 * S


def test_whoever_asks_meanwhile_is_decided_about_after_it(live: Live) -> None:
    submitted(live, local(4, 10), local(4, 10))
    live.now_ms += 12 * S
    [(row, _)] = live.do(guest(4, 10, LeaseType.NON_PREEMPTABLE, ready_ms=BEGIN_MS + 20 * S))
    assert (row.lease.request.submit_ms, row.lease.reserved_ms) == (BEGIN_MS + 12 * S, BEGIN_MS + 20 * S)
    [start] = [line.at_ms for line in journal(live, 2) if line.what == "start"]
    assert start == BEGIN_MS + 10 * S


def test_a_clock_that_goes_back_does_not_take_the_engine_along(live: Live) -> None:
    live.at(BEGIN_MS + 5 * S, guest(1, 10))
    live.now_ms = BEGIN_MS
    [(row, _)] = live.do(guest(1, 10))
    assert row.lease.request.submit_ms == BEGIN_MS + 5 * S


def test_nor_one_that_was_set_back_while_nobody_was_there(live: Live) -> None:
    live.at(BEGIN_MS + 5 * S, guest(1, 10), local(4, 10, site="b"))
    live.now_ms = BEGIN_MS
    live.restart()
    answers = live.do(guest(1, 10), local(1, 10, site="b"))
    assert [row.lease.request.submit_ms for row, _ in answers] == [BEGIN_MS + 5 * S] * 2
    live.pass_time(30 * S)
    assert [state(live, n) for n in (1, 2, 3, 4)] == ["completed"] * 4


class TestAway:
    """Longer than anybody has patience: what was planned meanwhile is planned anew from now on."""

    @pytest.fixture(params=["asleep", "dead"])
    def away(self, request: pytest.FixtureRequest) -> bool:
        return bool(request.param == "dead")

    @staticmethod
    def come_back(live: Live, *, was_dead: bool, after_ms: int = HOUR) -> None:
        live.now_ms += after_ms
        if was_dead:
            live.restart()
        live.do()

    def test_reservations_that_came_due_start_now_for_their_whole_time(self, live: Live, *, away: bool) -> None:
        submitted(live, local(4, 10), local(4, 10), local(4, 10))
        self.come_back(live, was_dead=away)
        assert (state(live, 2), lease(live, 2).lease.first_start_ms) == ("running", live.now_ms)
        assert (state(live, 3), lease(live, 3).lease.reserved_ms) == ("waiting", live.now_ms + 10 * S)
        assert {line.lease_id for line in journal(live) if line.reason == "missed-start"} == {2, 3}
        live.engine.check()
        live.pass_time(20 * S)
        assert [state(live, n) for n in (1, 2, 3)] == ["completed"] * 3

    def test_machines_without_a_command_have_served_their_time(self, live: Live, *, away: bool) -> None:
        submitted(live, guest(1, 10))
        self.come_back(live, was_dead=away)
        assert end(live, 1) == ("completed", "completed")

    def test_a_command_that_ended_meanwhile_has_ended_although_its_time_is_over(
        self, live: Live, *, away: bool
    ) -> None:
        submitted(live, guest(1, 10, needed_s=10), guest(1, 10, needed_s=11), guest(1, 10, needed_s=9))
        self.come_back(live, was_dead=away)
        assert [end(live, n)[1] for n in (1, 2, 3)] == ["completed", "completed", "completed"]

    def test_one_that_still_runs_is_cut_off(self, live: Live, *, away: bool) -> None:
        submitted(live, guest(1, 10, needed_s=2 * 3600))
        self.come_back(live, was_dead=away)
        assert end(live, 1) == ("killed", "walltime-reached")

    def test_who_has_time_left_goes_on(self, live: Live, *, away: bool) -> None:
        submitted(live, guest(1, 7200, needed_s=5400))
        live.at(BEGIN_MS + 5 * S, local(4, 10), local(4, 10))
        self.come_back(live, was_dead=away)
        assert state(live, 1) in ("running", "suspending", "suspended", "resuming")
        live.pass_time(3 * HOUR)
        assert end(live, 1) == ("completed", "completed")

    def test_it_is_no_absence_when_nothing_came_due(self, live: Live, *, away: bool) -> None:
        submitted(live, local(4, 7200), local(4, 10))
        before = journal(live)
        self.come_back(live, was_dead=away)
        assert journal(live) == before
        live.pass_time(HOUR)
        assert (state(live, 2), lease(live, 2).lease.first_start_ms) == ("running", BEGIN_MS + 2 * HOUR)

    def test_requests_that_are_held_are_asked_about_again(self, live: Live, *, away: bool) -> None:
        submitted(live, local(4, 10), guest(4, 10), guest(4, 10))
        self.come_back(live, was_dead=away)
        live.pass_time(60 * S)
        assert [state(live, n) for n in (1, 2, 3)] == ["completed"] * 3
        live.look()
        assert orders(live) == []

    def test_saved_memory_is_still_there(self, live: Live, *, away: bool) -> None:
        submitted(live, guest(4, 60, needed_s=30))
        live.at(BEGIN_MS + 10 * S, local(4, 20))
        self.come_back(live, was_dead=away)
        assert state(live, 1) == "resuming"
        live.pass_time(23 * S)
        assert end(live, 1) == ("completed", "completed")

    def test_a_promise_that_nobody_kept_is_kept_elsewhere_or_said_to_be_broken(self, live: Live, *, away: bool) -> None:
        migratable = LeaseType.MIGRATABLE
        soon = BEGIN_MS + 60 * S
        submitted(
            live,
            guest(1, 10, migratable, ready_ms=soon, deadline_ms=soon + 2 * HOUR),
            guest(1, 10, migratable, ready_ms=soon, deadline_ms=soon + 30 * S),
        )
        self.come_back(live, was_dead=away)
        assert state(live, 1) == "running"
        assert end(live, 2) == ("failed", "deadline-lost")


def test_after_a_restart_a_lease_is_not_cut_off_before_its_machines_were_heard(live: Live) -> None:
    """What came due while nobody was there is decided with what is told first, not before it."""
    submitted(live, guest(4, 10, needed_s=10))
    live.now_ms += 11 * S
    live.restart()
    live.now_ms += 250  # it took a while to look at every site
    [survey] = list(live.sites["a"].look(live.now_ms))
    [seen] = survey.observations  # type: ignore[union-attr]
    assert seen.phase is Phase.ENDED
    live.engine.step([survey], live.now_ms)
    assert end(live, 1) == ("completed", "completed")
