"""BackgroundTasks are done once, however often they are asked for, and end also where nobody takes them in."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps

import pytest

from leasehold.gateway.planning import Prospect
from leasehold.service import discovery
from leasehold.service.commands import Command, JobOutput, Submit
from leasehold.service.config import JobsSpec
from leasehold.service.discovery import NodeDiscovery, report_until_accepted
from leasehold.service.drivers.facts import Output
from leasehold.service.engine.tasks import BackgroundTasks, Fetch
from leasehold.service.errors import Unavailable
from leasehold.service.messages.about_plans import Planned


async def unasked(_: Submit, _within_ms: int) -> tuple[Prospect, Planned | None]:
    raise AssertionError("nobody wants a plan")


def played(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())  # type: ignore[arg-type]

    return run


class Engine:
    """Takes in what it is told, unless a test has it fail first."""

    def __init__(self, *failures: Exception) -> None:
        self.heard: list[Command] = []
        self.news: asyncio.Queue[Command] = asyncio.Queue()
        self.failures = [*failures]

    async def do(self, command: Command) -> None:
        self.heard.append(command)
        self.news.put_nowait(command)
        if self.failures:
            raise self.failures.pop(0)


class Slow:
    """Machines that give what a command wrote when a test lets them."""

    def __init__(self) -> None:
        self.asked = 0
        self.may = asyncio.Event()

    async def output(self, _lease_id: int) -> Output:
        self.asked += 1
        await self.may.wait()
        return Output("42")


@played
async def test_what_is_under_way_is_not_begun_again_by_an_engine_that_reads_its_store_anew() -> None:
    engine, machines = Engine(), Slow()
    tasks = NodeDiscovery({"a": machines}, engine.do, lambda: 0, JobsSpec(), plan=unasked)  # type: ignore[dict-item]
    for _ in range(5):
        tasks.send(BackgroundTasks(fetches=[Fetch(7, "a")]))
        await asyncio.sleep(0)
    machines.may.set()
    await engine.news.get()
    await tasks.close()

    assert (machines.asked, len(engine.heard)) == (1, 1)


@played
async def test_what_is_done_may_be_asked_for_anew() -> None:
    engine, machines = Engine(), Slow()
    machines.may.set()
    tasks = NodeDiscovery({"a": machines}, engine.do, lambda: 0, JobsSpec(), plan=unasked)  # type: ignore[dict-item]
    for _ in range(2):
        tasks.send(BackgroundTasks(fetches=[Fetch(7, "a")]))
        await engine.news.get()
        await asyncio.sleep(0)
    await tasks.close()

    assert machines.asked == 2


OUTPUT = JobOutput(7, Output("42"))
LOST = JobOutput(7, Output("", is_whole=False), "the store cannot keep it")


@played
async def test_what_can_never_be_taken_in_is_told_once_and_a_fault_in_its_place() -> None:
    engine = Engine(ValueError("a row that no store can keep"))
    await report_until_accepted(engine.do, OUTPUT, LOST)

    assert engine.heard == [OUTPUT, LOST]


@played
async def test_what_cannot_be_taken_in_either_way_ends_all_the_same() -> None:
    engine = Engine(ValueError("no"), ValueError("no"), ValueError("no"))
    await report_until_accepted(engine.do, OUTPUT, LOST)

    assert engine.heard == [OUTPUT, LOST]


def test_an_engine_that_cannot_be_asked_now_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "PAUSE_S", 0.0)
    engine = Engine(Unavailable("the store is away"), Unavailable("the store is away"))
    asyncio.run(report_until_accepted(engine.do, OUTPUT, LOST))

    assert engine.heard == [OUTPUT, OUTPUT, OUTPUT]
