"""The driver asks the engine in the order of what came, and lets nobody wait for all that takes long."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from leasehold.service.commands import Cancel, Command, JobNodesSeen
from leasehold.service.driver import Driver
from leasehold.service.engine.engine import Done, Engine


class Recorder:
    """Stands in for an engine: answers each command with itself, and notes which came together."""

    def __init__(self) -> None:
        self.steps: list[list[Command]] = []

    def step(self, commands: Sequence[Command], now_ms: int) -> Done:
        assert now_ms == 7
        if commands:
            self.steps.append([*commands])
        return Done(answers=[*commands], orders=[], last_seq=0, next_alarm_ms=None)


def steps_for(*commands: Command) -> list[list[Command]]:
    """Ask for all of these at once; gives what the engine was asked together."""
    recorder = Recorder()

    async def play() -> list[Any]:
        driver = Driver(cast("Engine", recorder), lambda: 7, lambda _: None)
        asked = asyncio.gather(*(driver.do(command) for command in commands))
        await asyncio.sleep(0)
        working = asyncio.create_task(driver.run())
        answers = await asked
        driver.stop()
        await working
        return answers

    assert asyncio.run(play()) == [*commands]
    return recorder.steps


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
