"""What only virtual machines do: commands with an end, guests that die, limits, and nothing left behind."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.service.drivers.qemu.machines import files, processes, setup, until

from leasehold.service.drivers.protocol import Observation, Order, Phase, Verb
from leasehold.service.drivers.qemu import qmp
from leasehold.service.drivers.qemu.driver import QemuDriver
from leasehold.service.drivers.qemu.limits import OVERHEAD_MIB
from leasehold.service.drivers.qemu.qmp import agent_at
from leasehold.testing.driver_rig import order

pytestmark = pytest.mark.machines


class Here:
    """A site under test."""

    def __init__(self, driver: QemuDriver, folder: Path) -> None:
        self.driver = driver
        self.folder = folder

    async def do(self, *orders: Order) -> None:
        assert await self.driver.carry_out(orders) == {}

    async def until(self, phase: Phase, lease_id: int = 1) -> Observation:
        while True:
            for seen in await self.driver.changes():
                if (seen.lease_id, seen.phase) == (lease_id, phase):
                    return seen

    async def until_gone(self) -> None:
        seen = await self.driver.observe()
        while seen:
            await asyncio.sleep(0.05)
            seen = await self.driver.observe()

    async def console(self) -> str:
        return await self.driver.console(1)


@asynccontextmanager
async def opened(place: Path, image: Path, **options: Any) -> AsyncIterator[Here]:
    driver = QemuDriver(setup(place, "a", image, **options))
    try:
        async with asyncio.timeout(400):
            yield Here(driver, place)
    finally:
        await driver.close()


def start(*command: object, vms: int = 1) -> Order:
    return order(Verb.START, 1, vms=vms, command=command)


def test_a_machine_boots_runs_its_command_and_says_how_that_ended(place: Path, image: Path) -> None:
    """All of it without a copy of one that has booted."""

    async def play() -> None:
        async with opened(place, image, warm_start=False) as here:
            script = "import json, sys; print(json.dumps({'answer': 6 * 7})); sys.exit(3)"
            await here.do(start("python3", "-c", script))
            assert (await here.until(Phase.ENDED)).detail == "exit status 3"
            console = await here.console()
            assert "leasehold: up" in console
            assert '{"answer": 42}' in console
            await until(lambda: not processes(place))
            await here.do(order(Verb.STOP))
            await here.until_gone()
            assert files(place) == set()
            assert await here.console() == console, "what it wrote is kept"

    asyncio.run(play())


def test_each_machine_of_a_lease_knows_which_it_is(place: Path, image: Path) -> None:
    async def play() -> None:
        async with opened(place, image) as here:
            who = "echo $LEASEHOLD_LEASE/$LEASEHOLD_MACHINE/$LEASEHOLD_MACHINES"
            chance = "head -c 8 /dev/urandom | xxd -p"
            await here.do(start("sh", "-c", f"sleep 2; {who}; {chance}; exit $LEASEHOLD_MACHINE", vms=2))
            assert (await here.until(Phase.ENDED)).detail == "exit status 0, 1"
            words = (await here.console()).split()
            assert {"1/0/2", "1/1/2"} <= set(words)
            drawn = [words[words.index(one) + 1] for one in ("1/0/2", "1/1/2")]
            assert drawn[0] != drawn[1], "copies of one machine draw the same numbers"

    asyncio.run(play())


@pytest.mark.parametrize(
    ("does", "phase", "detail"),
    [
        ("poweroff -f", Phase.ENDED, "the guest has shut down"),
        ("echo c > /proc/sysrq-trigger", Phase.FAILED, "the guest's kernel has panicked"),
    ],
)
def test_a_guest_that_is_over_by_itself(does: str, phase: Phase, detail: str, place: Path, image: Path) -> None:
    """Without a command it may shut down when it likes; told by its agent, as its user would at a prompt."""

    async def play() -> None:
        async with opened(place, image) as here:
            await here.do(start())
            await here.until(Phase.RUNNING)
            site, reconciler = here.driver._site, here.driver._reconciler
            [instance] = site.instances.all()
            await reconciler.interrupt(instance.key)
            async with agent_at(site.machines(instance)[0].files.agent) as agent:
                await agent.run_once("end", ["sh", "-c", does], {})
            reconciler.start(instance)
            assert (await here.until(phase)).detail == detail

    asyncio.run(play())


def test_a_machine_that_is_killed_has_failed_whether_or_not_it_was_watched(place: Path, image: Path) -> None:
    async def play() -> None:
        async with opened(place, image) as here:
            await here.do(start("sleep", 1000))
            await here.until(Phase.RUNNING)
            kill_all(processes(place))
            assert "QEMU is dead" in (await here.until(Phase.FAILED)).detail
            await here.do(order(Verb.STOP), order(Verb.STOP, incarnation=2))
            await here.until_gone()
            await here.do(order(Verb.START, 1, 3))
            await here.until(Phase.RUNNING)
        kill_all(processes(place))
        async with opened(place, image) as here:
            assert (await here.until(Phase.FAILED)).incarnation == 3

    asyncio.run(play())


def kill_all(pids: Iterable[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_a_machine_that_hangs_is_not_waited_for_for_ever(
    place: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with opened(place, image) as here:
            await here.do(start())
            await here.until(Phase.RUNNING)
            monkeypatch.setattr(qmp, "QMP_TIMEOUT_S", 0.2)
            for pid in processes(place):
                os.kill(pid, signal.SIGSTOP)
            await here.do(order(Verb.SUSPEND))
            assert "QEMU hangs" in (await here.until(Phase.FAILED)).detail
            await here.do(order(Verb.STOP))
            await here.until_gone()
            assert processes(place) == []

    asyncio.run(play())


@pytest.mark.skipif(
    not os.access("/sys/fs/cgroup/memory", os.W_OK),
    reason="no control groups (version 1) that can be written",
)
def test_what_a_machine_may_use_is_bounded(place: Path, image: Path) -> None:
    def groups() -> list[Path]:
        return [group for group in Path("/sys/fs/cgroup/memory").glob("leasehold-*/1.1.0") if pids(group) & mine]

    def pids(group: Path) -> set[int]:
        return {int(pid) for pid in (group / "cgroup.procs").read_text().split()}

    async def play() -> None:
        async with opened(place, image) as here:
            await here.do(start())
            await here.until(Phase.RUNNING)
            mine.update(processes(place))
            [group] = groups()
            assert int((group / "memory.limit_in_bytes").read_text()) == (128 + OVERHEAD_MIB) << 20
            cpu = Path("/sys/fs/cgroup/cpu") / group.parent.name / group.name
            assert int((cpu / "cpu.cfs_quota_us").read_text()) == 100_000
            await here.do(order(Verb.STOP))
            await here.until_gone()
            assert not group.parent.exists()

    mine: set[int] = set()
    asyncio.run(play())


def test_what_belongs_to_no_lease_is_removed(place: Path, image: Path) -> None:
    """As after an older store was restored."""

    async def play() -> None:
        async with opened(place, image) as here:
            await here.do(start())
            await here.until(Phase.RUNNING)
        for store in (place / "machines/a").glob("qemu.sqlite3*"):
            store.unlink()
        assert len(processes(place)) == 1
        async with opened(place, image) as here:
            assert await here.driver.observe() == []
            assert (processes(place), files(place)) == ([], set())

    asyncio.run(play())


def test_a_folder_that_is_reached_by_a_link_makes_no_difference(place: Path, image: Path, tmp_path: Path) -> None:
    async def play() -> None:
        async with opened(tmp_path / "link", image) as here:
            await here.do(start())
            await here.until(Phase.RUNNING)
            await here.do(order(Verb.STOP))
            await here.until_gone()

    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    asyncio.run(play())
