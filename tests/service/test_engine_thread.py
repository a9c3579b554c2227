"""The engine thread asks the engine in the order of what came, and lets nobody wait for all that takes long."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from leasehold.service.commands import Cancel, Command, JobNodesSeen
from leasehold.service.engine.engine import Done, Engine
from leasehold.service.engine_thread import MOST_LONG_QUESTIONS, EngineThread, TooManyQuestions
from leasehold.service.errors import Unavailable


class Recorder:
    """Stands in for an engine: answers each command with itself, and notes which came together."""

    def __init__(self) -> None:
        self.steps: list[list[Command]] = []

    def prove_store(self, thoroughly: bool) -> None:  # noqa: FBT001 - as the engine's
        """Take whatever is written."""

    def finish(self) -> None:
        """Nothing is learnt here."""

    def step(self, commands: Sequence[Command], now_ms: int) -> Done:
        assert now_ms == 7
        if commands:
            self.steps.append([*commands])
        return Done(answers=[*commands], orders=[], last_seq=0, next_alarm_ms=None)


def steps_for(*commands: Command) -> list[list[Command]]:
    """Ask for all of these at once; gives what the engine was asked together."""
    recorder = Recorder()

    async def play() -> list[Any]:
        engine_thread = EngineThread(cast("Engine", recorder), lambda: 7, lambda _: None)
        asked = asyncio.gather(*(engine_thread.do(command) for command in commands))
        await asyncio.sleep(0)
        working = asyncio.create_task(engine_thread.run())
        answers = await asked
        engine_thread.stop()
        await working
        return answers

    assert asyncio.run(play()) == [*commands]
    return recorder.steps


@pytest.mark.parametrize("stops", ["when idle", "before it began"])
def test_a_clean_stop_writes_what_was_learnt_after_everything_was_answered(stops: str) -> None:
    class Learner(Recorder):
        learnt = 0
        written: int | None = None

        def step(self, commands: Sequence[Command], now_ms: int) -> Done:
            assert self.written is None, "nothing is decided after the last snapshot"
            self.learnt += len(commands)
            return super().step(commands, now_ms)

        def finish(self) -> None:
            self.written = self.learnt

    learner = Learner()

    async def play() -> None:
        engine_thread = EngineThread(cast("Engine", learner), lambda: 7, lambda _: None)
        asked = asyncio.gather(*(engine_thread.do(Cancel(number)) for number in (1, 2)))
        await asyncio.sleep(0)
        if stops == "before it began":
            engine_thread.stop()
        working = asyncio.create_task(engine_thread.run())
        assert await asked == [Cancel(1), Cancel(2)]
        engine_thread.stop()
        await working
        with pytest.raises(Unavailable):
            await engine_thread.do(Cancel(3))

    asyncio.run(play())
    assert (learner.learnt, learner.written) == (2, 2)


class FailingEngine(Recorder):
    """Its store fails: in every step that has something to write, and where a write is to be proved."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure: Exception | None = failure
        self.proofs: list[bool] = []

    def prove_store(self, thoroughly: bool) -> None:  # noqa: FBT001 - as the engine's
        self.proofs.append(thoroughly)
        if thoroughly and self.failure is not None:
            raise self.failure

    def step(self, commands: Sequence[Command], now_ms: int) -> Done:
        if commands and self.failure is not None:
            raise self.failure
        return super().step(commands, now_ms)


def test_a_store_that_failed_is_trusted_again_only_when_it_takes_a_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps without commands would succeed all the time."""
    monkeypatch.setattr("leasehold.service.engine_thread._PAUSE_AFTER_FAILURE_S", 0.0)
    engine = FailingEngine(Unavailable("the disk is full"))
    told: list[str | None] = []

    async def play() -> None:
        engine_thread = EngineThread(
            cast("Engine", engine),
            lambda: 7,
            lambda _: None,
            lambda error: told.append(None if error is None else str(error)),
        )
        working = asyncio.create_task(engine_thread.run())
        with pytest.raises(Unavailable, match="the disk is full"):
            await engine_thread.do(Cancel(1))
        while engine.proofs.count(True) < 5:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0)
        assert engine_thread.trouble == "the disk is full"
        engine.failure = None
        while engine_thread.trouble:  # noqa: ASYNC110 - as before
            await asyncio.sleep(0)
        assert await engine_thread.do(Cancel(2)) == Cancel(2)
        engine_thread.stop()
        await working

    asyncio.run(play())
    assert told == ["the disk is full", None]


def test_how_long_the_engine_has_been_at_work_is_known_without_asking_it() -> None:
    going_on = threading.Event()

    def looked(_: Engine) -> str:
        going_on.wait()
        return "looked"

    async def play() -> None:
        engine_thread = EngineThread(cast("Engine", Recorder()), lambda: 7, lambda _: None)
        working = asyncio.create_task(engine_thread.run())
        looking = asyncio.create_task(engine_thread.ask(looked))
        spans = [0.0]
        while len(spans) < 5:
            await asyncio.sleep(0)
            if engine_thread.busy_s > spans[-1]:
                spans.append(engine_thread.busy_s)
        assert not looking.done()
        going_on.set()
        assert await looking == "looked"
        engine_thread.stop()
        await working
        assert engine_thread.busy_s == 0

    asyncio.run(play())


def nodes(site: str) -> JobNodesSeen:
    return JobNodesSeen(site, ())


def test_what_came_together_is_decided_together_in_its_order() -> None:
    assert steps_for(Cancel(3), nodes("a"), Cancel(1)) == [[Cancel(3), nodes("a"), Cancel(1)]]


def test_requests_wait_for_the_nodes_of_one_site_and_not_for_those_of_all() -> None:
    assert steps_for(nodes("a"), nodes("b"), Cancel(1), nodes("c"), Cancel(2)) == [
        [nodes("a"), Cancel(1), Cancel(2)],
        [nodes("b")],
        [nodes("c")],
    ]


# Questions


class Busy(Recorder):
    """An engine that notes the order in which it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def step(self, commands: Sequence[Command], now_ms: int) -> Done:
        self.order += [f"cancel {one.lease_id}" for one in commands if isinstance(one, Cancel)]
        return super().step(commands, now_ms)


def question(name: str) -> Any:
    """A question that is noted, and answered with its name."""

    def ask(engine: Any) -> str:
        engine.order.append(name)
        return name

    return ask


async def played(engine_thread: EngineThread, *asked: Any) -> list[Any]:
    answers = asyncio.gather(*asked, return_exceptions=True)
    await asyncio.sleep(0)
    working = asyncio.create_task(engine_thread.run())
    told = await answers
    engine_thread.stop()
    await working
    return told


def test_of_long_questions_one_is_answered_between_two_steps_and_consumers_take_turns() -> None:
    engine = Busy()

    async def play() -> None:
        engine_thread = EngineThread(cast("Engine", engine), lambda: 7, lambda _: None)

        async def submits() -> None:
            for number in range(3):
                await engine_thread.do(Cancel(number))

        await played(
            engine_thread,
            *(engine_thread.ask(question(f"greedy {number}"), whose="greedy") for number in range(4)),
            engine_thread.ask(question("modest"), whose="modest"),
            engine_thread.ask(question("short")),
            submits(),
        )

    asyncio.run(play())
    assert engine.order[:4] == ["cancel 0", "short", "greedy 0", "cancel 1"]
    assert engine.order.index("modest") < engine.order.index("greedy 1")
    between = "".join("c" if one.startswith("cancel") else "q" for one in engine.order if one != "short")
    assert "cqcqcq" in between


def test_who_asks_too_much_at_once_is_told_so_and_nobody_else_is() -> None:
    async def play() -> list[Any]:
        engine_thread = EngineThread(cast("Engine", Busy()), lambda: 7, lambda _: None)
        many = [engine_thread.ask(question(str(n)), whose="greedy") for n in range(MOST_LONG_QUESTIONS + 1)]
        return await played(engine_thread, *many, engine_thread.ask(question("modest"), whose="modest"))

    *many, modest = asyncio.run(play())
    assert [type(one) for one in many if not isinstance(one, str)] == [TooManyQuestions]
    assert modest == "modest"


def test_a_question_whose_asker_has_gone_is_not_answered() -> None:
    engine = Busy()

    async def play() -> None:
        engine_thread = EngineThread(cast("Engine", engine), lambda: 7, lambda _: None)
        gone = asyncio.ensure_future(engine_thread.ask(question("gone"), whose="a"))
        await asyncio.sleep(0)
        gone.cancel()
        await played(engine_thread, engine_thread.ask(question("there"), whose="a"))

    asyncio.run(play())
    assert engine.order == ["there"]


def test_long_questions_that_wait_when_the_driver_stops_are_still_answered() -> None:
    async def play() -> list[Any]:
        engine_thread = EngineThread(cast("Engine", Busy()), lambda: 7, lambda _: None)
        asked = asyncio.gather(*(engine_thread.ask(question(str(n)), whose="a") for n in range(3)))
        await asyncio.sleep(0)
        engine_thread.stop()
        await engine_thread.run()
        return await asked

    assert asyncio.run(play()) == ["0", "1", "2"]


def test_long_questions_are_told_that_the_store_is_down_and_do_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("leasehold.service.engine_thread._PAUSE_AFTER_FAILURE_S", 0.0)

    class Down(FailingEngine):
        def prove_store(self, thoroughly: bool) -> None:  # noqa: FBT001 - as the engine's
            if len(self.proofs) == 50:
                self.failure = None  # else a engine_thread that waits for this store would never end
            super().prove_store(thoroughly)

    engine = Down(Unavailable("the disk is full"))

    async def play() -> list[Any]:
        engine_thread = EngineThread(cast("Engine", engine), lambda: 7, lambda _: None)
        long = [engine_thread.ask(lambda _: "answered", whose=whose) for whose in ("a", "a", "b")]
        told = asyncio.gather(engine_thread.do(Cancel(1)), *long, return_exceptions=True)
        await asyncio.sleep(0)
        engine_thread.stop()
        await engine_thread.run()
        return await told

    assert [str(one) for one in asyncio.run(play())] == ["the disk is full"] * 4
    assert not engine.proofs[1:], "the store is not asked again when nobody waits"
