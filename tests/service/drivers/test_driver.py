"""The whole emulated driver: its file, its clock, its console, and the line to it."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest
from tests.service.drivers.sites import START_MS, Clock, setup

from leasehold.model.errors import InputError, InvalidField
from leasehold.service.drivers.emulated.driver import EmulatedDriver
from leasehold.service.drivers.emulated.fault_injection import Faults
from leasehold.service.drivers.emulated.record import FILE, Action, EmulatedStore, read_audit
from leasehold.service.drivers.protocol import Observation, Phase, Verb
from leasehold.testing.driver_rig import order

Test = Callable[[Path], Awaitable[None]]


def played(test: Test) -> Callable[[Path], None]:
    @wraps(test)
    def play(tmp_path: Path) -> None:
        async def until_done() -> None:
            await test(tmp_path)

        asyncio.run(until_done())

    return play


@asynccontextmanager
async def site(folder: Path, clock: Callable[[], int], **options: Any) -> AsyncIterator[EmulatedDriver]:
    opened = EmulatedDriver(setup(folder, clock, **options))
    try:
        yield opened
    finally:
        await opened.close()


def real_clock() -> int:
    return time.time_ns() // 1_000_000


async def lets_others_go_on() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


# --- its file ---------------------------------------------------------------------------------------------


@played
async def test_what_should_have_ended_meanwhile_has_ended_at_its_time(tmp_path: Path) -> None:
    clock = Clock()
    async with site(tmp_path, clock) as here:
        await here.carry_out([order(Verb.START, command=("sleep", 20))])
    clock.now_ms += 3_600_000
    async with site(tmp_path, clock) as here:
        ended = Observation(1, 1, Phase.ENDED, START_MS + 10_000, exit_status=0, nodes=("n1",))
        assert await here.changes() == [ended]
        assert await here.observe() == [ended]
    assert read_audit(tmp_path / FILE)[-1].at_ms == START_MS + 10_000


@played
async def test_an_order_that_could_not_be_written_was_not_carried_out(tmp_path: Path) -> None:
    async with site(tmp_path, Clock()) as here:
        await here.carry_out([order(Verb.START, 1)])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("leasehold.service.drivers.emulated.record.write_lines", disk_full)
            with pytest.raises(OSError, match="no space left"):
                await here.carry_out([order(Verb.STOP, 1), order(Verb.START, 2)])
        assert [one.lease_id for one in await here.observe()] == [1]
        assert await here.carry_out([order(Verb.STOP, 1), order(Verb.START, 2)]) == {}
    assert [line.action for line in read_audit(tmp_path / FILE)] == [
        Action.BOOT,
        Action.RUN,
        Action.STOP,
        Action.BOOT,
        Action.RUN,
    ]


def disk_full(*_: object) -> None:
    raise OSError("no space left on device")


@played
async def test_two_drivers_never_have_the_same_machines(tmp_path: Path) -> None:
    async with site(tmp_path, Clock()):
        with pytest.raises(InputError, match=r"emulated\.sqlite3: these emulated machines are locked by another"):
            EmulatedDriver(setup(tmp_path, Clock()))
    async with site(tmp_path, Clock()):
        pass


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("machines: none\n" * 100)
    for _ in range(2):
        with pytest.raises(InputError, match="this is not a record of emulated machines"):
            EmulatedDriver(setup(tmp_path, Clock()))


def test_a_full_disk_is_not_taken_for_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is a ledger, and nothing is wrong with it: whoever reads the error must not throw it away."""

    class Full(sqlite3.Connection):
        def executescript(self, *_: object) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("database or disk is full")

    EmulatedStore(tmp_path, 1).close()
    opened = partial(sqlite3.connect, factory=Full)
    monkeypatch.setattr("leasehold.service.drivers.reconciler.store.connect", opened)
    with pytest.raises(InputError, match="emulated machines cannot be used: database or disk is full"):
        EmulatedDriver(setup(tmp_path, Clock()))


def test_a_file_that_a_newer_leasehold_wrote_is_refused(tmp_path: Path) -> None:
    EmulatedStore(tmp_path, 1).close()
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(InputError, match="was written by a newer Leasehold"):
        EmulatedDriver(setup(tmp_path, Clock()))


def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "site").touch()
    with pytest.raises(InputError, match="cannot be locked"):
        EmulatedDriver(setup(tmp_path / "site", Clock()))


def test_without_a_file_there_is_no_audit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no record of emulated machines"):
        read_audit(tmp_path / FILE)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_option_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match="crash_per_hour"):
        EmulatedDriver(setup(tmp_path / "a", Clock(), crash_per_hour=-1))
    assert list(tmp_path.iterdir()) == []


# --- its clock --------------------------------------------------------------------------------------------


@played
async def test_who_waits_is_told_when_it_is_time(tmp_path: Path) -> None:
    asked = []

    def clock() -> int:
        asked.append(real_clock())
        return asked[-1]

    async with site(tmp_path, clock, observations_late_s=0.03) as here:
        await here.carry_out([order(Verb.START, command=("sleep", "0.1"))])
        assert [one.phase for one in await here.changes()] == [Phase.RUNNING]
        assert [one.phase for one in await here.changes()] == [Phase.ENDED]
        assert len(asked) < 30, "it asks for the time again and again"


@played
async def test_who_waits_is_told_when_somebody_does_something(tmp_path: Path) -> None:
    async with site(tmp_path, Clock()) as here:
        waiting = asyncio.create_task(here.changes())
        await lets_others_go_on()
        await here.carry_out([order(Verb.START)])
        assert [one.phase for one in await waiting] == [Phase.RUNNING]
        waiting = asyncio.create_task(here.changes())
        await lets_others_go_on()
        await here.crash(1)
        assert [one.phase for one in await waiting] == [Phase.FAILED]


@played
async def test_who_waits_is_told_when_the_clock_was_moved(tmp_path: Path) -> None:
    clock = Clock()
    async with site(tmp_path, clock) as here:
        await here.carry_out([order(Verb.START, command=("sleep", 20))])
        await here.changes()
        waiting = asyncio.create_task(here.changes())
        await lets_others_go_on()
        clock.now_ms += 10_000
        here.clock_was_moved()
        assert [one.phase for one in await waiting] == [Phase.ENDED]


@played
async def test_a_clock_that_was_set_back_undoes_nothing(tmp_path: Path) -> None:
    clock = Clock()
    async with site(tmp_path, clock) as here:
        await here.carry_out([order(Verb.START, command=("sleep", 20))])
        clock.now_ms -= 3_600_000
        await here.carry_out([order(Verb.SUSPEND)])
        assert [one.phase for one in await here.observe()] == [Phase.SAVING]
        clock.now_ms += 60_000
        await here.carry_out([order(Verb.RESUME, 1, 2)])
        clock.now_ms += 60_000
        ended = [one for one in await here.observe() if one.phase is Phase.ENDED]
        assert len(ended) == 1
        assert ended[0].since_ms == START_MS - 3_600_000 + 60_000 + 7_875 + 10_000


# --- its console ------------------------------------------------------------------------------------------


@played
async def test_the_console_says_what_was_done_and_when(tmp_path: Path) -> None:
    clock = Clock()
    async with site(tmp_path, clock) as here:
        await here.carry_out([order(Verb.START, vms=2, command=("sleep", 20)), order(Verb.START, 2)])
        clock.now_ms += 4_000
        await here.carry_out([order(Verb.SUSPEND)])
        clock.now_ms += 60_000
        await here.carry_out([order(Verb.RESUME, 1, 2)])
        clock.now_ms += 60_000
        assert await here.console(1) == (
            "2026-11-21T10:43:36.120Z  boots 2 VMs of 64 MiB\n"
            "2026-11-21T10:43:36.120Z  runs sleep 20\n"
            "2026-11-21T10:43:40.120Z  saves the memory of 2 VMs of 64 MiB\n"
            "2026-11-21T10:43:50.120Z  has saved its memory\n"
            "2026-11-21T10:44:40.120Z  loads the memory of 2 VMs of 64 MiB\n"
            "2026-11-21T10:44:47.995Z  runs sleep 20\n"
            "2026-11-21T10:44:53.995Z  has ended\n"
        )
        assert await here.console(3) == ""


@played
async def test_the_console_of_a_lease_that_moved_names_the_other_site(tmp_path: Path) -> None:
    async with site(tmp_path, Clock()) as here:
        await here.carry_out([order(Verb.RECEIVE, other_site="b"), order(Verb.SEND, 1, 2, other_site="c")])
        assert await here.console(1) == (
            "2026-11-21T10:43:36.120Z  takes over 1 VM of 64 MiB from b\n2026-11-21T10:43:36.120Z  goes to c\n"
        )


@played
async def test_the_console_of_machines_without_a_command_says_why_they_failed(tmp_path: Path) -> None:
    async with site(tmp_path, Clock()) as here:
        await here.carry_out([order(Verb.START)])
        await here.crash(1)
        await here.carry_out([order(Verb.STOP)])
        said = (await here.console(1)).splitlines()
        assert [line.split("  ")[1] for line in said[1:]] == [
            "runs until it is stopped",
            "has failed: emulated fault: crash",
            "is stopped",
        ]


# --- the line to it ---------------------------------------------------------------------------------------


@played
async def test_over_a_line_that_is_cut_nothing_is_told_and_nothing_is_done(tmp_path: Path) -> None:
    async with site(tmp_path, Clock()) as here:
        here.line.cut()
        for asked in (here.carry_out([order(Verb.START)]), here.observe(), here.changes(), here.console(1)):
            with pytest.raises(ConnectionError, match="site a does not answer"):
                await asked
        here.line.mend()
        assert await here.observe() == []


@played
async def test_over_a_line_that_hangs_everything_waits_until_it_is_mended(tmp_path: Path) -> None:
    async with site(tmp_path, Clock()) as here:
        here.line.hang()
        asked = [
            asyncio.create_task(here.carry_out([order(Verb.START)])),
            asyncio.create_task(here.observe()),
        ]
        await lets_others_go_on()
        assert not any(one.done() for one in asked)
        here.line.mend()
        assert await asked[0] == {}
        await asked[1]
        assert [one.phase for one in await here.observe()] == [Phase.RUNNING]


@played
async def test_a_call_that_is_given_up_while_the_line_hangs_does_nothing(tmp_path: Path) -> None:
    async with site(tmp_path, Clock()) as here:
        here.line.hang()
        asked = asyncio.create_task(here.carry_out([order(Verb.START)]))
        await lets_others_go_on()
        asked.cancel()
        here.line.mend()
        assert await here.observe() == []


@played
async def test_a_bad_line_answers_now_and_then(tmp_path: Path) -> None:
    async with site(tmp_path, Clock(), no_answer=0.5) as here:
        answers = await asyncio.gather(*(here.observe() for _ in range(200)), return_exceptions=True)
        assert 60 < sum(isinstance(answer, ConnectionError) for answer in answers) < 140


@played
async def test_news_that_is_lost_can_be_observed_all_the_same(tmp_path: Path) -> None:
    async with site(tmp_path, Clock(), lose_observations=1) as here:
        await here.carry_out([order(Verb.START, 1)])
        assert [one.phase for one in await here.observe()] == [Phase.RUNNING]
        here.faults = Faults(repeat_observations=1)
        await here.carry_out([order(Verb.START, 2)])
        assert [one.lease_id for one in await here.changes()] == [2, 2]


@played
async def test_late_news_comes_late_and_is_of_when_it_happened(tmp_path: Path) -> None:
    clock = Clock()
    async with site(tmp_path, clock, observations_late_s=5) as here:
        await here.carry_out([order(Verb.START)])
        waiting = asyncio.create_task(here.changes())
        for _ in range(2):
            clock.now_ms += 2_499
            here.clock_was_moved()
            await here.observe()
            assert not waiting.done()
        clock.now_ms += 2
        here.clock_was_moved()
        assert await waiting == [Observation(1, 1, Phase.RUNNING, START_MS, nodes=("n1",))]
