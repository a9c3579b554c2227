"""A gateway's time passes as real time does, whatever somebody does to the machine's clock."""

import asyncio
import re
import time
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import leasehold.service
from leasehold.service.clock import SLEW, SteadyClock, since_boot_ms, wall_ms
from leasehold.service.engine.engine import Done, Engine
from leasehold.service.engine_thread import EngineThread

START_MS = 1_800_000_000_000
DAY_MS = 86_400_000


class Machine:
    """A machine with a clock on the wall that can be set, and one that counts since it was booted."""

    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.steady_ms = 12_345

    def passes(self, ms: int) -> None:
        self.wall_ms += ms
        self.steady_ms += ms

    def clock(self, at_least_ms: int = 0) -> SteadyClock:
        return SteadyClock(at_least_ms, lambda: self.wall_ms, lambda: self.steady_ms)


def test_it_begins_with_the_time_on_the_wall() -> None:
    machine = Machine()
    clock = machine.clock()
    assert clock() == START_MS
    machine.passes(5_000)
    assert clock() == START_MS + 5_000
    assert clock.ahead_s() == 0


def test_an_hour_is_an_hour_when_the_clock_jumps_a_day_forward_and_back() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_ms += DAY_MS
    machine.passes(1_800_000)
    assert clock() - START_MS <= 1_800_000 * 1.01
    machine.wall_ms -= 2 * DAY_MS
    machine.passes(1_800_000)
    assert abs(clock() - START_MS - 3_600_000) <= 36_000


def test_after_a_start_behind_what_was_written_time_goes_on() -> None:
    machine = Machine()
    clock = machine.clock(at_least_ms=START_MS + DAY_MS)
    assert (clock(), clock.ahead_s()) == (START_MS + DAY_MS, 86_400)
    machine.passes(100_000)
    assert clock() == START_MS + DAY_MS + 99_000
    assert clock.ahead_s() == 86_399


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(-2 * DAY_MS, 2 * DAY_MS) | st.just(0)), max_size=40))
def test_time_passes_by_at_most_one_part_in_a_hundred_faster_or_slower(steps: list[tuple[int, int]]) -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock()
    began_ms, passed_ms = before, 0
    for ms, jump_ms in steps:
        machine.passes(ms)
        machine.wall_ms += jump_ms
        passed_ms += ms
        now = clock()
        assert now >= before
        before = now
        assert abs(now - began_ms - passed_ms) <= passed_ms / SLEW + 1


@given(st.integers(-600_000, 600_000), st.integers(1, 5_000))
def test_it_comes_to_agree_with_the_clock_on_the_wall_again(jump_ms: int, every_ms: int) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_ms += jump_ms
    for _ in range(20):
        machine.passes(every_ms)
        clock()
    machine.passes(abs(jump_ms) * SLEW)
    assert clock() == machine.wall_ms
    assert clock.ahead_s() == 0


def test_the_clocks_of_this_machine() -> None:
    assert abs(SteadyClock()() - time.time() * 1000) < 60_000
    assert wall_ms() > START_MS - 10 * 365 * DAY_MS
    assert since_boot_ms() <= since_boot_ms()


def test_what_came_due_while_the_machine_slept_is_seen_to_when_it_wakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The event loop's own clock stands still in a sleep: waiting for the alarm in one go would add it on."""
    monkeypatch.setattr("leasehold.service.engine_thread.PROBE_EVERY_S", 0.001)
    machine = Machine()
    steps: list[int] = []

    class Watching:
        def prove_store(self, thoroughly: bool) -> None:  # noqa: FBT001 - as the engine's
            """Take whatever is written."""

        def finish(self) -> None:
            """Nothing is learnt here."""

        def step(self, _commands: object, now_ms: int) -> Done:
            steps.append(now_ms)
            return Done([], [], 0, START_MS + DAY_MS if len(steps) == 1 else None)

    async def play() -> None:
        done: asyncio.Queue[Done] = asyncio.Queue()
        engine_thread = EngineThread(cast("Engine", Watching()), machine.clock(), done.put_nowait)
        working = asyncio.create_task(engine_thread.run())
        await done.get()
        machine.passes(DAY_MS)  # the lid was closed
        while steps[-1] == START_MS:  # steps in which nothing was due
            await done.get()
        engine_thread.stop()
        await working

    asyncio.run(play())
    assert {*steps} == {START_MS, START_MS + DAY_MS}


READS_THE_WALL = re.compile(r"\btime\.time\b|time_ns\(|datetime\.now\(|date\.today\(|import wall_ms")
MAY = {
    "clock.py",  # makes the one clock that everything else is given
    "doctor/gateway.py",  # compares the clock with the store, and certificates are valid by it
}


def test_nothing_in_a_gateway_reads_the_clock_on_the_wall_but_its_clock() -> None:
    """SiteReconcilers, uplinks, peers' lines, discovery and upkeep live by the time that they are given."""
    folder = Path(leasehold.service.__file__).parent
    reading = {
        str(path.relative_to(folder)) for path in folder.rglob("*.py") if READS_THE_WALL.search(path.read_text())
    }
    assert reading == MAY
