"""The reconciler of one site: who is told first and how often, what is passed on, and how often it looks."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.service.reconciler_fixtures import LOOK_EVERY_S, SITE, Office, now_ms, run

from leasehold.service.clock import SteadyClock
from leasehold.service.commands import MachinesAnswer, MachinesSilent, Observed, OrdersSent, SiteObserved
from leasehold.service.drivers.protocol import Observation, Order, Phase, Problem, Verb, order_id
from leasehold.service.engine.orders import PENDING
from leasehold.service.errors import Unavailable
from leasehold.service.site_reconciler import (
    ANSWER_WITHIN_S,
    MOST_AT_ONCE,
    SILENT_AFTER_MS,
    room_first,
)
from leasehold.service.store.rows import OrderRow
from leasehold.testing.live import BEGIN_MS

RUNNING = Observation(1, 1, Phase.RUNNING, 0)


def order(lease: int, verb: Verb = Verb.START, *, incarnation: int = 1, try_ms: int = 0, at: int = 0) -> OrderRow:
    """An order that was given at one time, and is to be told from another on."""
    given = Order(order_id(lease, incarnation, verb), verb, lease, incarnation, vms=1, memory_mib=64)
    return OrderRow(given, SITE, PENDING, 0, try_ms, "", at)


def in_the_office(play: Callable[[Office], Coroutine[None, None, None]]) -> Office:
    """Play a scene in an office of its own, and look at what it has left."""
    offices: list[Office] = []

    async def scene() -> None:
        offices.append(Office())
        await play(offices[0])

    run(scene())
    return offices[0]


class TestTheSequence:
    def test_who_leaves_comes_before_who_comes(self) -> None:
        rows = [
            order(1),
            order(2, Verb.SUSPEND),
            order(3, Verb.RECEIVE),
            order(4, Verb.STOP),
            order(5, Verb.SEND),
        ]
        assert [row.order.lease_id for row in room_first(rows)] == [2, 4, 5, 1, 3]

    def test_the_orders_of_a_lease_keep_their_turn(self) -> None:
        rows = [order(1), order(1, Verb.SUSPEND), order(2, Verb.SUSPEND)]
        assert [row.order.id for row in room_first(rows)] == ["2.1.suspend", "1.1.start", "1.1.suspend"]

    @given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(list(Verb))), max_size=12))
    def test_nobody_is_lost_or_out_of_turn(self, drawn: list[tuple[int, Verb]]) -> None:
        rows = [order(lease, verb, incarnation=turn) for turn, (lease, verb) in enumerate(drawn)]
        told = room_first(rows)
        assert sorted(row.order.id for row in told) == sorted(row.order.id for row in rows)
        for lease in range(1, 5):
            assert [row for row in told if row.order.lease_id == lease] == [
                row for row in rows if row.order.lease_id == lease
            ]
        makes_room = {Verb.SUSPEND, Verb.SEND, Verb.STOP}
        begun = [row for row in told if row.order.verb not in makes_room]
        if begun:
            waits_for = {row.order.lease_id for row in begun}
            behind = told[told.index(begun[0]) :]
            assert all(row.order.verb not in makes_room or row.order.lease_id in waits_for for row in behind)


class TestTelling:
    def test_what_is_delivered_is_told_at_once_and_said_to_be_told(self) -> None:
        async def play(office: Office) -> None:
            assert (office.reconciler.problem, office.reconciler.last_seen_ms) == ("", None)
            office.at(1, lambda: office.reconciler.deliver([order(1), order(2)]))
            await office.work_for(2)

        office = in_the_office(play)
        assert office.driver.told == [(1, ["1.1.start", "2.1.start"])]
        assert office.heard(OrdersSent) == [(1, OrdersSent(SITE, ("1.1.start", "2.1.start"), {}))]

    def test_what_is_to_be_tried_later_is_told_then(self) -> None:
        async def play(office: Office) -> None:
            office.reconciler.deliver([order(1, try_ms=5_000), order(2, try_ms=3_000)])
            await office.work_for(10)

        assert in_the_office(play).driver.told == [(3, ["2.1.start"]), (5, ["1.1.start"])]

    @pytest.mark.parametrize("jump_ms", [86_400_000, -86_400_000])
    def test_it_is_told_then_whatever_somebody_does_to_the_clock_on_the_wall(self, jump_ms: int) -> None:
        """An order that failed while the clock was a day off is told again in seconds."""
        off_ms = jump_ms
        offices: list[Office] = []

        async def play() -> None:
            nonlocal off_ms
            clock = SteadyClock(0, lambda: BEGIN_MS + now_ms() + off_ms, now_ms)
            offices.append(Office(clock))
            offices[0].reconciler.deliver([order(1, at=clock(), try_ms=clock() + 5_000)])
            off_ms = 0
            await offices[0].work_for(10)

        run(play())
        [(told_s, orders)] = offices[0].driver.told
        assert orders == ["1.1.start"]
        assert told_s == pytest.approx(5, rel=0.02)

    def test_a_later_order_of_a_lease_waits_for_the_earlier_one_and_others_do_not(self) -> None:
        async def play(office: Office) -> None:
            later = order(1, Verb.SUSPEND, at=2)
            office.reconciler.deliver([order(1, try_ms=4_000, at=1), later, order(2, at=3)])
            await office.work_for(10)

        assert in_the_office(play).driver.told == [(0, ["2.1.start"]), (4, ["1.1.start", "1.1.suspend"])]

    def test_who_is_to_be_stopped_is_told_nothing_else_any_more(self) -> None:
        async def play(office: Office) -> None:
            office.reconciler.deliver([order(1, try_ms=4_000), order(2, try_ms=4_000)])
            office.reconciler.deliver([order(1, Verb.STOP)])
            await office.work_for(5)

        assert in_the_office(play).driver.told == [(0, ["1.1.stop"]), (4, ["2.1.start"])]

    def test_the_same_order_delivered_again_is_told_as_it_is_now(self) -> None:
        async def play(office: Office) -> None:
            office.reconciler.deliver([order(1, try_ms=1_000)])
            office.reconciler.deliver([order(1, try_ms=2_000)])
            await office.work_for(3)

        assert in_the_office(play).driver.told == [(2, ["1.1.start"])]

    def test_only_so_many_at_once(self) -> None:
        async def play(office: Office) -> None:
            office.reconciler.deliver([order(lease, at=lease) for lease in range(1, MOST_AT_ONCE + 3)])
            await office.work_for(1)

        told = in_the_office(play).driver.told
        assert [len(orders) for _, orders in told] == [MOST_AT_ONCE, 2]
        assert told[1][1] == [f"{lease}.1.start" for lease in (MOST_AT_ONCE + 1, MOST_AT_ONCE + 2)]

    def test_problems_are_passed_on_by_order(self) -> None:
        async def refuse(orders: Sequence[Order]) -> dict[str, Problem]:
            return {orders[0].id: Problem("no room", again=False)}

        async def play(office: Office) -> None:
            office.driver.on_orders = refuse
            office.reconciler.deliver([order(1), order(2)])
            await office.work_for(1)

        office = in_the_office(play)
        [(_, told)] = office.heard(OrdersSent)
        assert told.problems == {"1.1.start": Problem("no room", again=False)}
        assert office.reconciler.problem == ""

    def test_an_driver_that_raises_has_not_taken_on_any(self) -> None:
        async def burn(_orders: Sequence[Order]) -> dict[str, Problem]:
            raise RuntimeError("on fire")

        async def play(office: Office) -> None:
            office.driver.on_orders = burn
            office.reconciler.deliver([order(1), order(2)])
            await office.work_for(1)
            assert office.reconciler.problem == "RuntimeError: on fire"

        [(_, told)] = in_the_office(play).heard(OrdersSent)
        assert set(told.problems) == {"1.1.start", "2.1.start"}
        assert told.problems["1.1.start"] == Problem("RuntimeError: on fire", again=True)

    def test_one_that_does_not_answer_is_waited_for_only_so_long(self) -> None:
        async def hang(_orders: Sequence[Order]) -> dict[str, Problem]:
            await asyncio.sleep(10 * ANSWER_WITHIN_S)
            return {}

        async def play(office: Office) -> None:
            office.driver.on_orders = hang
            office.reconciler.deliver([order(1)])
            await office.work_for(ANSWER_WITHIN_S + 1)

        [(at_s, told)] = in_the_office(play).heard(OrdersSent)
        why = Problem(f"no answer within {ANSWER_WITHIN_S:g} s", again=True)
        assert (at_s, told.problems) == (ANSWER_WITHIN_S, {"1.1.start": why})


class TestNews:
    def test_changes_are_passed_on_as_they_happen(self) -> None:
        async def play(office: Office) -> None:
            office.at(1, lambda: office.driver.news.put_nowait([RUNNING]))
            office.at(2, lambda: office.driver.news.put_nowait([]))
            await office.work_for(3)

        assert in_the_office(play).heard(Observed) == [(1, Observed(SITE, (RUNNING,)))]

    def test_who_cannot_tell_them_is_asked_again_after_a_while(self) -> None:
        async def play(office: Office) -> None:
            for news in (RuntimeError("away"), RuntimeError("away"), [RUNNING]):
                office.driver.news.put_nowait(news)
            await office.work_for(4)
            assert office.reconciler.problem == ""
            assert office.reconciler.last_seen_ms == 2_000

        assert [at_s for at_s, _ in in_the_office(play).heard(Observed)] == [2]

    @pytest.mark.parametrize("error", [Unavailable("the store does not answer"), RuntimeError("a defect")])
    def test_what_the_engine_cannot_take_in_is_seen_again_at_a_look_soon(self, error: Exception) -> None:
        async def play(office: Office) -> None:
            office.refuse.append(error)
            office.driver.news.put_nowait([RUNNING])
            await office.work_for(10)

        with capture_logs() as logs:
            office = in_the_office(play)
        assert office.driver.looks_s == [3]  # one second to let it recover, two to let more happen
        assert [log["event"] for log in logs] == (
            [] if isinstance(error, Unavailable) else ["failed to apply observations"]
        )


class TestLooking:
    def test_the_whole_site_is_looked_at_now_and_then(self) -> None:
        async def play(office: Office) -> None:
            office.driver.seen = [RUNNING]
            await office.work_for(3 * LOOK_EVERY_S + 1)

        office = in_the_office(play)
        assert office.driver.looks_s == [30, 60, 90]
        assert office.heard(SiteObserved)[0] == (30, SiteObserved(SITE, (RUNNING,), 30_000))

    def test_what_is_seen_of_very_many_is_told_in_parts_before_they_are_compared(self) -> None:
        seen = tuple(replace(RUNNING, lease_id=number) for number in range(1, 601))

        async def play(office: Office) -> None:
            office.driver.seen = [*seen]
            await office.work_for(LOOK_EVERY_S + 1)

        office = in_the_office(play)
        parts = [said.observations for _, said in office.heard(Observed)]
        assert [len(part) for part in parts] == [256, 256, 88]
        assert tuple(chain.from_iterable(parts)) == seen
        assert office.heard(SiteObserved) == [(30, SiteObserved(SITE, seen, 30_000, is_known=True))]

    @pytest.mark.parametrize("verb", [Verb.STOP, Verb.SEND])
    def test_soon_after_something_should_be_gone(self, verb: Verb) -> None:
        async def play(office: Office) -> None:
            office.at(5, lambda: office.reconciler.deliver([order(1, verb)]))
            await office.work_for(36)

        assert in_the_office(play).driver.looks_s == [7]  # and the next is 30 s later

    @pytest.mark.parametrize("verb", [Verb.START, Verb.SUSPEND, Verb.RESUME, Verb.RECEIVE])
    def test_but_not_for_what_can_be_seen(self, verb: Verb) -> None:
        async def play(office: Office) -> None:
            office.at(5, lambda: office.reconciler.deliver([order(1, verb)]))
            await office.work_for(29)

        assert in_the_office(play).driver.looks_s == []

    def test_a_look_says_when_it_began_and_not_when_it_ended(self) -> None:
        async def slowly() -> None:
            await asyncio.sleep(7)

        async def play(office: Office) -> None:
            office.driver.on_look = slowly
            survey = await office.reconciler.observe()
            assert (survey, now_ms()) == (SiteObserved(SITE, (), 0), 7_000)
            assert office.reconciler.last_seen_ms == 7_000

        in_the_office(play)

    def test_a_look_that_fails_tells_nothing_of_the_site(self) -> None:
        """Else everything that is there would be taken for lost."""

        async def fail() -> None:
            raise ConnectionError("cut off")

        async def play(office: Office) -> None:
            office.driver.on_look = fail
            await office.work_for(LOOK_EVERY_S + 1)
            assert office.reconciler.problem == "ConnectionError: cut off"
            assert office.reconciler.last_seen_ms is None
            office.driver.on_look = None
            await office.work_for(LOOK_EVERY_S + 1)
            assert office.reconciler.problem == ""

        assert [at_s for at_s, _ in in_the_office(play).heard(SiteObserved)] == [
            36
        ]  # silent sites are looked at more often

    def test_orders_and_news_go_on_while_a_look_takes_its_time(self) -> None:
        async def slowly() -> None:
            await asyncio.sleep(50)

        async def play(office: Office) -> None:
            office.driver.on_look = slowly
            office.at(40, lambda: office.reconciler.deliver([order(1)]))
            office.at(41, lambda: office.driver.news.put_nowait([RUNNING]))
            await office.work_for(45)

        assert [at_s for at_s, _ in in_the_office(play).passed_on] == [40, 41]


class TestSilence:
    """Who has not answered for long, or never, is silent; engine and log hear of it once."""

    @staticmethod
    async def fail(*_: object) -> Any:
        raise ConnectionError("cut off")

    def test_engine_and_log_hear_of_it_once_and_of_its_end(self) -> None:
        async def play(office: Office) -> None:
            office.driver.on_look = self.fail
            await office.reconciler.observe()
            assert office.reconciler.is_silent  # it has never answered
            office.at(200, lambda: setattr(office.driver, "on_look", None))
            await office.work_for(300)
            assert not office.reconciler.is_silent

        with capture_logs() as lines:
            office = in_the_office(play)
        assert [command for _, command in office.heard(MachinesSilent)] == [
            MachinesSilent(SITE, "ConnectionError: cut off")
        ]
        [(back_s, _)] = office.heard(MachinesAnswer)
        assert 200 <= back_s <= 210
        assert [(one["event"], one["site"]) for one in lines] == [
            ("site does not answer", SITE),
            ("site answers again", SITE),
        ]

    def test_the_log_has_it_once_however_often_the_engine_does_not_take_it_in(self) -> None:
        async def play(office: Office) -> None:
            office.driver.on_look = self.fail
            office.refuse += [Unavailable("the store does not answer")] * 5
            await office.reconciler.observe()
            await office.work_for(60)

        with capture_logs() as lines:
            office = in_the_office(play)
        assert not office.refuse
        assert len(office.heard(MachinesSilent)) == 1
        assert [one["event"] for one in lines] == ["site does not answer"]

    def test_who_has_answered_is_silent_only_after_a_while(self) -> None:
        async def play(office: Office) -> None:
            await office.reconciler.observe()
            office.driver.on_look = self.fail
            await office.work_for(SILENT_AFTER_MS / 1000 - 1)
            assert office.reconciler.problem
            assert not office.reconciler.is_silent
            await office.work_for(60)
            assert office.reconciler.is_silent

        assert len(in_the_office(play).heard(MachinesSilent)) == 1

    def test_that_nothing_changes_is_no_answer(self) -> None:
        async def play(office: Office) -> None:
            office.driver.on_look = self.fail
            await office.reconciler.observe()
            office.driver.news.put_nowait([])
            await office.work_for(20)
            assert office.reconciler.is_silent

        in_the_office(play)

    def test_what_the_engine_did_not_take_in_is_told_again(self) -> None:
        async def play(office: Office) -> None:
            office.driver.on_look = self.fail
            await office.reconciler.observe()
            office.refuse.append(Unavailable("the store does not answer"))
            await office.work_for(10)

        assert len(in_the_office(play).heard(MachinesSilent)) == 1

    def test_orders_say_whether_anybody_answered_and_what_was_wrong_last(self) -> None:
        async def refuse(orders: Sequence[Order]) -> dict[str, Problem]:
            return {orders[0].id: Problem("no disk")}

        async def play(office: Office) -> None:
            for answer in (self.fail, refuse, None):
                office.driver.on_orders = answer
                office.reconciler.deliver([order(1)])
                await office.work_for(1)
                told.append(office.reconciler.order_problem)

        told: list[str] = []
        answered = [command.answered for _, command in in_the_office(play).heard(OrdersSent)]
        assert answered == [False, True, True]
        assert told == ["", "start of lease 1: no disk", ""]

    def test_the_console_of_a_silent_site_is_not_waited_for(self) -> None:
        async def play(office: Office) -> None:
            office.driver.on_look = self.fail
            await office.reconciler.observe()
            began_ms = now_ms()
            with pytest.raises(Unavailable, match="machines of site das3 do not answer"):
                await office.reconciler.console(7)
            assert now_ms() == began_ms

        in_the_office(play)


class TestTheConsole:
    def test_is_what_the_driver_has_of_it(self) -> None:
        async def play(office: Office) -> None:
            assert await office.reconciler.console(7) == "lease 7"

        in_the_office(play)

    def test_is_text_that_can_be_sent_and_not_more_than_4_mib_of_it(self) -> None:
        async def play(office: Office) -> None:
            office.driver.written = "x" * 5_000_000 + "half \ud800, NUL \0"
            text = await office.reconciler.console(7)
            assert (len(text), text[-13:]) == (4 * 1024 * 1024, "half ?, NUL \ufffd")

        in_the_office(play)

    def test_who_does_not_answer_is_said_to_be_away_and_why(self) -> None:
        async def fail() -> None:
            raise ConnectionError("cut off")

        async def play(office: Office) -> None:
            office.driver.on_console = fail
            with pytest.raises(Unavailable, match="site das3 do not answer: ConnectionError: cut off"):
                await office.reconciler.console(7)

        in_the_office(play)
