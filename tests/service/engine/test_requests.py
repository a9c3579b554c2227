"""What can be asked for, and how it is answered: submit, cancel, extend."""

from dataclasses import replace

import pytest
from tests.service.engine.examples import (
    S,
    end,
    guest,
    journal,
    lease,
    local,
    state,
    story,
    submitted,
    two_sites,
)

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType
from leasehold.service.commands import Cancel, Extend
from leasehold.service.errors import CannotExtend, Closed, IdempotencyConflict, NoSuchLease, TooManyOpen
from leasehold.service.store.store import Store
from leasehold.testing.live import BEGIN_MS, Live
from leasehold.testing.rows import submit


class TestSubmit:
    def test_the_answer_is_the_lease_as_it_is_in_the_store(self, live: Live) -> None:
        [(row, is_new)] = live.do(guest(2, 60, name="fit", group="hep", needed_s=5))
        assert is_new
        assert (row.lease.id, row.lease.state, row.lease.site, row.metadata.reason) == (
            1,
            "starting",
            "a",
            "room-free",
        )
        assert (row.metadata.name, row.lease.request.group, row.metadata.command) == (
            "fit",
            "hep",
            ("sleep", "5"),
        )
        row.lease.state, row.lease.first_start_ms = LeaseState.RUNNING, BEGIN_MS  # as is seen at once
        assert row == live.store.lease(1)

    def test_numbers_count_up_in_the_order_of_asking_also_after_a_restart(self, live: Live) -> None:
        assert submitted(live, guest(1, 60), local(1, 60)) == [1, 2]
        live.do(Cancel(2))
        live.restart()
        assert submitted(live, guest(1, 60)) == [3]

    def test_a_request_that_can_never_run_is_a_lease_that_was_refused(self, live: Live) -> None:
        [(row, is_new)] = live.do(guest(5, 60))
        assert is_new
        assert (row.lease.state, row.metadata.reason) == ("refused", "wider-than-any-site")

    def test_every_line_of_its_journal_has_a_number_a_time_and_a_reason(self, live: Live) -> None:
        submitted(live, local(4, 10), local(4, 10))
        assert [(line.seq, line.what, line.reason) for line in journal(live, 2)] == [
            (2, "submitted", ""),
            (4, "wait", "room-in-use"),
        ]
        live.pass_time(10 * S)
        start, started = journal(live, 2)[-2:]
        assert (start.at_ms, start.what, start.reason) == (
            BEGIN_MS + 10 * S,
            "start",
            "reserved-start",
        )
        assert (started.at_ms, started.what, started.reason) == (BEGIN_MS + 10 * S, "started", "")
        assert (start.state, started.state) == ("starting", "running")

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            ({"vms": 0}, "vms"),
            ({"duration_ms": 0}, "duration_ms"),
            ({"memory_mib": 0}, "memory_mib"),
            ({"deadline_ms": BEGIN_MS - 1, "lease_type": LeaseType.MIGRATABLE}, "deadline_ms"),
            ({"deadline_ms": BEGIN_MS + 60 * S}, "deadline_ms"),
            ({"site": "a"}, "type"),
        ],
    )
    def test_what_makes_no_sense_is_said_and_leaves_nothing(
        self, live: Live, wrong: dict[str, object], field: str
    ) -> None:
        asked = guest(1, 60)
        unfit = replace(asked, request=replace(asked.request, **wrong))  # type: ignore[arg-type]
        [answer, (row, _)] = live.do(unfit, asked)
        assert isinstance(answer, InvalidField)
        assert answer.field == field
        assert row.lease.id == 1
        assert live.engine.leases.requests.counts == {"physics": 1}

    def test_a_home_that_is_not_there_is_said_with_those_that_are(self, live: Live) -> None:
        [answer] = live.do(local(1, 60, site="aa"))
        assert isinstance(answer, UnknownName)
        assert "did you mean 'a'" in str(answer)

    def test_a_ready_time_that_has_passed_is_now(self, live: Live) -> None:
        live.pass_time(10 * S)
        [(row, _)] = live.do(guest(1, 60, ready_ms=BEGIN_MS))
        assert row.lease.request.ready_ms == row.lease.request.submit_ms == BEGIN_MS + 10 * S

    def test_who_is_ready_later_starts_then(self, live: Live) -> None:
        [number] = submitted(live, local(4, 60, ready_ms=BEGIN_MS + 20 * S))
        live.pass_time(20 * S - 1)
        assert state(live, number) == "waiting"
        live.pass_time(1)
        assert state(live, number) == "running"


class TestAskedTwice:
    REQUEST = guest(1, 60, key="k1", request_hash="h1")

    def test_the_same_key_is_the_same_lease(self, live: Live) -> None:
        [(first, _)] = live.do(self.REQUEST)
        live.pass_time(5 * S)
        [(again, is_new)] = live.do(self.REQUEST)
        assert not is_new
        assert again.lease.id == first.lease.id
        assert len(live.gateway.leases) == 1

    def test_the_answer_says_how_it_is_now(self, live: Live) -> None:
        [number] = submitted(live, self.REQUEST)
        live.do(Cancel(number))
        [(again, _)] = live.do(self.REQUEST)
        assert again.lease.state == "cancelled"

    def test_also_within_one_batch(self, live: Live) -> None:
        answers = live.do(self.REQUEST, self.REQUEST, guest(1, 60), self.REQUEST)
        assert [(row.lease.id, is_new) for row, is_new in answers] == [
            (1, True),
            (1, False),
            (2, True),
            (1, False),
        ]

    def test_also_after_a_restart(self, live: Live) -> None:
        submitted(live, self.REQUEST)
        live.restart()
        [(row, is_new)] = live.do(self.REQUEST)
        assert (row.lease.id, is_new) == (1, False)

    def test_another_request_under_that_key_is_a_conflict(self, live: Live) -> None:
        other = replace(guest(2, 60), key="k1", request_hash="h2")
        for _ in range(2):  # within one batch, and after it
            answers = live.do(self.REQUEST, other)
            assert isinstance(answers[1], IdempotencyConflict)
        assert len(live.gateway.leases) == 1

    def test_keys_are_each_consumers_own(self, live: Live) -> None:
        of_another = guest(1, 60, consumer="climate", key="k1", request_hash="h1")
        assert submitted(live, self.REQUEST, of_another) == [1, 2]

    def test_without_a_key_it_is_another_request(self, live: Live) -> None:
        assert submitted(live, guest(1, 60), guest(1, 60)) == [1, 2]

    def test_the_key_of_a_request_that_was_not_taken_in_may_be_used_again(self, live: Live) -> None:
        [answer] = live.do(guest(0, 60, key="k1", request_hash="h1"))
        assert isinstance(answer, InvalidField)
        assert live.do(self.REQUEST)[0][1]


class TestLimit:
    @pytest.fixture
    def live(self, sqlite_store: Store) -> Live:
        return two_sites(sqlite_store, most_open=2)

    def test_a_consumer_has_so_many_open_requests_and_no_more(self, live: Live) -> None:
        answers = live.do(guest(1, 60), guest(1, 60), guest(1, 60), guest(1, 60, consumer="climate"))
        assert [isinstance(answer, TooManyOpen) for answer in answers] == [False, False, True, False]
        assert str(answers[2]) == "physics has 2 open requests, which is as many as it may have at a time"

    @pytest.mark.parametrize("restarts", [False, True])
    def test_one_that_is_over_makes_room_for_another(self, live: Live, *, restarts: bool) -> None:
        submitted(live, guest(1, 10), guest(1, 60))
        if restarts:
            live.restart()
        live.pass_time(10 * S)
        assert submitted(live, guest(1, 60)) == [3]
        assert isinstance(live.do(guest(1, 60))[0], TooManyOpen)

    def test_so_does_one_that_was_refused_at_once(self, live: Live) -> None:
        submitted(live, guest(1, 60))
        for _ in range(3):
            [(row, _)] = live.do(guest(9, 60))
            assert row.lease.state == "refused"

    def test_whoever_has_none_open_is_not_kept_in_mind(self, live: Live) -> None:
        submitted(live, guest(1, 10), guest(1, 20), guest(1, 30, consumer="climate"))
        assert live.engine.leases.requests.counts == {"physics": 2, "climate": 1}
        live.pass_time(20 * S)
        assert live.engine.leases.requests.counts == {"climate": 1}

    def test_a_repeated_request_is_no_further_one(self, live: Live) -> None:
        request = guest(1, 60, key="k", request_hash="h")
        submitted(live, request, guest(1, 60))
        assert live.do(request)[0][1] is False

    def test_requests_that_come_from_another_gateway_count_there(self, live: Live) -> None:
        forwarded = guest(1, 60, origin="north", origin_id=7)
        submitted(live, guest(1, 60), guest(1, 60))
        assert submitted(live, forwarded) == [3]


class TestCancel:
    @pytest.mark.parametrize("when_s", [0, 1, 10, 12, 13, 16])
    def test_a_lease_can_be_taken_back_in_every_state(self, live: Live, when_s: int) -> None:
        [number] = submitted(live, guest(4, 60, needed_s=50))
        live.at(BEGIN_MS + 10 * S, local(1, 3)) if when_s >= 10 else None
        live.pass_time_until(BEGIN_MS + when_s * S)
        [row] = live.do(Cancel(number))
        assert (row.lease.state, row.metadata.reason, row.metadata.end_ms) == (
            "cancelled",
            "cancelled-by-user",
            live.now_ms,
        )
        live.look()
        assert [one.lease_id for one in live.sites["a"].machines.observe() if one.lease_id == number] == []

    def test_waiting_and_held_ones_too(self, live: Live) -> None:
        submitted(live, local(4, 60), local(4, 60))
        live.do(Cancel(2))
        assert end(live, 2) == ("cancelled", "cancelled-by-user")
        assert "start" not in story(live, 2)

    def test_one_that_is_over_stays_as_it_is(self, live: Live) -> None:
        submitted(live, guest(1, 10))
        live.pass_time(10 * S)
        [row, again] = live.do(Cancel(1), Cancel(1))
        assert row == again == lease(live, 1)
        assert row.lease.state == "completed"

    def test_the_room_is_free_for_who_comes_at_the_same_time(self, live: Live) -> None:
        submitted(live, local(4, 60))
        [_, (row, _)] = live.do(Cancel(1), local(4, 60))
        assert row.lease.state == "starting"

    def test_a_number_that_nobody_has(self, live: Live) -> None:
        [answer] = live.do(Cancel(7))
        assert isinstance(answer, NoSuchLease)
        assert journal(live) == []


class TestExtend:
    def test_a_lease_lasts_longer(self, live: Live) -> None:
        submitted(live, guest(1, 10))
        [row] = live.do(Extend(1, 5 * S))
        assert (row.lease.request.duration_ms, row.metadata.reason) == (15 * S, "extended")
        live.pass_time(15 * S - 1)
        assert state(live, 1) == "running"
        live.pass_time(1)
        assert end(live, 1) == ("completed", "completed")

    def test_a_command_is_cut_off_only_then(self, live: Live) -> None:
        submitted(live, guest(1, 10, needed_s=12), guest(1, 10, needed_s=20))
        live.do(Extend(1, 5 * S), Extend(2, 5 * S))
        live.pass_time(15 * S)
        assert lease(live, 1).metadata.end_ms == BEGIN_MS + 12 * S
        assert end(live, 1) == ("completed", "completed")
        assert end(live, 2) == ("killed", "walltime-reached")

    def test_also_after_a_restart(self, live: Live) -> None:
        submitted(live, guest(1, 10))
        live.do(Extend(1, 5 * S))
        live.restart()
        live.pass_time(14 * S)
        assert state(live, 1) == "running"
        live.pass_time(1 * S)
        assert state(live, 1) == "completed"

    def test_not_where_somebody_has_the_room(self, live: Live) -> None:
        submitted(live, local(4, 10), local(4, 10))
        before = lease(live, 1)
        [answer] = live.do(Extend(1, 1 * S))
        assert isinstance(answer, CannotExtend)
        assert answer.reason is Reason.ROOM_IN_USE
        assert lease(live, 1) == before
        assert story(live, 1)[-1] == "deny"

    def test_each_of_several_in_one_batch_has_its_own_answer(self, live: Live) -> None:
        submitted(live, local(4, 10), local(4, 10, ready_ms=BEGIN_MS + 15 * S))
        granted, denied = live.do(Extend(1, 5 * S), Extend(1, 1 * S))
        assert granted.lease.request.duration_ms == 15 * S
        assert isinstance(denied, CannotExtend)

    def test_not_while_it_waits(self, live: Live) -> None:
        submitted(live, local(4, 10), local(4, 10))
        [answer] = live.do(Extend(2, 1 * S))
        assert isinstance(answer, CannotExtend)
        assert answer.reason is Reason.NOT_RUNNING

    def test_not_when_it_is_over_or_about_to_be(self, live: Live) -> None:
        submitted(live, guest(1, 10), guest(1, 60))
        live.pass_time(10 * S)
        [over] = live.do(Extend(1, S))
        _, cancelled = live.do(Cancel(2), Extend(2, S))
        assert isinstance(over, Closed)
        assert isinstance(cancelled, Closed)

    def test_time_that_is_asked_for_in_the_instant_in_which_it_is_over_comes_too_late(self, live: Live) -> None:
        submitted(live, guest(1, 10))
        [answer] = live.at(BEGIN_MS + 10 * S, Extend(1, S))
        assert isinstance(answer, Closed)

    @pytest.mark.parametrize("by_ms", [0, -1])
    def test_by_no_time_at_all(self, live: Live, by_ms: int) -> None:
        submitted(live, guest(1, 10))
        [answer] = live.do(Extend(1, by_ms))
        assert isinstance(answer, InvalidField)

    def test_who_has_to_give_way_in_that_instant_is_extended_for_later(self, live: Live) -> None:
        submitted(live, guest(4, 10, needed_s=18))
        [row, _] = live.at(BEGIN_MS + 5 * S, Extend(1, 10 * S), local(1, 5))
        assert row.lease.state == "suspending"
        live.pass_time(60 * S)
        # 5 s done; the local one ends at 10 s, loading takes 3 s, 13 s are left of what it needs.
        assert lease(live, 1).metadata.end_ms == BEGIN_MS + 26 * S


def test_a_request_for_nothing_writes_nothing(live: Live) -> None:
    before = live.store.last_seq()
    live.do()
    live.do(Cancel(4), Extend(4, 1), submit("physics", LeaseType.CANCELABLE, 0, 0))
    assert live.store.last_seq() == before
