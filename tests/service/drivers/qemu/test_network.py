"""Machines of one lease reach each other, and nobody else; their user logs in by the key of the lease."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.drivers.qemu.machines import processes, setup
from tests.service.drivers.qemu.test_machines import Here
from tests.service.drivers.ssh import made_key, ssh

from leasehold.service.drivers.protocol import Order, Phase, PlacementConstraints, Verb
from leasehold.service.drivers.qemu.driver import QemuDriver
from leasehold.testing.driver_rig import order

pytestmark = pytest.mark.machines

PING = "reached() { ping -c 1 -W 2 $1 > /dev/null; }; until_reached() { until reached $1; do sleep 0.2; done; }; "
THIRD = "10.222.0.3"
"""The address of the third machine of any lease."""


@asynccontextmanager
async def opened(place: Path, image: Path, slots: int, **options: object) -> AsyncIterator[Here]:
    driver = QemuDriver(setup(place, "a", image, slots, **options))
    try:
        async with asyncio.timeout(400):
            yield Here(driver, place)
    finally:
        await driver.close()


async def until_said(here: Here, lease_id: int, word: str, times: int) -> str:
    console = ""
    while console.count(word) < times:
        await asyncio.sleep(0.1)
        console = await here.driver.console(lease_id)
    return console


def test_the_machines_of_a_lease_reach_each_other_and_those_of_no_other_lease(place: Path, image: Path) -> None:
    async def play() -> None:
        async with opened(place, image, slots=5) as here:
            to_next = "until_reached machine$(((LEASEHOLD_MACHINE + 1) % LEASEHOLD_MACHINES)); "
            three = f"{PING}{to_next} until_reached {THIRD}; echo ALL-THERE; exec sleep 600"
            await here.do(order(Verb.START, 1, vms=3, command=("sh", "-c", three)))
            await until_said(here, 1, "ALL-THERE", 3)
            # The third machine of the other lease is up, and answers those of its own lease.
            two = f"{PING}{to_next} echo $LEASEHOLD_ADDRESSES; reached {THIRD} && exit 8; exit 0"
            await here.do(order(Verb.START, 2, vms=2, command=("sh", "-c", two)))
            assert (await here.until(Phase.ENDED, 2)).detail == "exit status 0"
            assert (await here.driver.console(2)).count("10.222.0.1 10.222.0.2") == 2

    asyncio.run(play())


def test_machines_reach_each_other_again_after_they_were_suspended(place: Path, image: Path) -> None:
    async def play() -> None:
        async with opened(place, image, slots=2) as here:
            counts = f"{PING} n=0; while :; do until_reached machine$((1 - LEASEHOLD_MACHINE)); "
            command = ("sh", "-c", f"{counts} n=$((n + 1)); echo PING-$LEASEHOLD_MACHINE-$n.; sleep 0.2; done")
            await here.do(order(Verb.START, 1, vms=2, command=command))
            for machine in (0, 1):
                await until_said(here, 1, f"PING-{machine}-3.", 1)
            await here.do(order(Verb.SUSPEND, 1, vms=2, command=command))
            await here.until(Phase.SAVED)
            assert not processes(place)
            last = (await here.driver.console(1)).count("PING-0-")
            await here.do(order(Verb.RESUME, 1, 2, vms=2, command=command))
            await until_said(here, 1, f"PING-0-{last + 3}.", 1)

    asyncio.run(play())


def start_with(key: str, image: str = "") -> Order:
    return replace(order(Verb.START), constraints=PlacementConstraints(image=image), ssh_key=key)


def called_with(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def test_the_key_of_a_lease_opens_its_machine_and_no_other_key_does(place: Path, image: Path, tmp_path: Path) -> None:
    mine, theirs = made_key(tmp_path, "mine"), made_key(tmp_path, "theirs")

    async def play() -> None:
        async with opened(place, image, slots=1, images={"lab": str(image)}) as here:
            await here.do(start_with(mine.with_suffix(".pub").read_text().strip(), image="lab"))
            await here.until(Phase.RUNNING)
            [way] = await here.driver.access(1)
            assert (way.machine, way.host, way.user) == (0, "127.0.0.1", "root")
            assert await ssh(way, mine, "hostname; echo kept > note") == (0, "machine0\n")
            assert (await ssh(way, theirs, "hostname"))[0] == 255
            # Through the port that leads in, nothing leads out: not to this computer, where its own port answers.
            status, heard = await ssh(way, mine, f"nc -w 3 10.0.2.2 {way.port} < /dev/null")
            assert (status != 0, heard) == (True, "")
            await here.do(order(Verb.SUSPEND, 1))
            await here.until(Phase.SAVED)
            assert await here.driver.access(1) == []
            await here.do(order(Verb.RESUME, 1, 2))
            await here.until(Phase.RUNNING)
            [way] = await here.driver.access(1)
            assert await ssh(way, mine, "cat note") == (0, "kept\n")

    asyncio.run(play())


def test_a_lease_without_a_key_has_no_way_in(place: Path, image: Path) -> None:
    async def play() -> None:
        async with opened(place, image, slots=1) as here:
            await here.do(start_with(""))
            await here.until(Phase.RUNNING)
            assert await here.driver.access(1) == []
            [process] = processes(place)
            assert b"virtio-net" not in called_with(process)

    asyncio.run(play())
