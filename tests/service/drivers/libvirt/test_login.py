"""On real hosts: the user of a lease logs in by its key, also after its machines were suspended and have moved."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.drivers.libvirt.rigs import LibvirtRig
from tests.service.drivers.ssh import made_key, ssh

from leasehold.service.drivers.facts import Access, LetsIn
from leasehold.service.drivers.guest_files import WORK
from leasehold.service.drivers.protocol import Order, Phase, Verb
from leasehold.testing.driver_rig import Site, order, site

pytestmark = pytest.mark.machines

LOGIN: Mapping[str, object] = {"login_user": "root"}


def start_with(key: str, vms: int = 1, command: tuple[str, ...] = ()) -> Order:
    return replace(order(Verb.START, vms=vms, command=command), ssh_key=key)


async def ways_into(here: Site) -> list[Access]:
    assert isinstance(here.driver, LetsIn)
    return await here.driver.access(1)


async def when_it_answers(rig: LibvirtRig, way: Access, key: Path, *command: str) -> tuple[int, str]:
    """Log in as soon as the guest listens: that it is up says only that its agent answers."""
    for _ in range(rig.patience):
        status, heard = await ssh(way, key, *command)
        if status != 255:
            return status, heard
        await rig.pass_time()
    raise AssertionError(f"nobody gets in at {way}")


def test_the_key_of_a_lease_opens_its_machines_and_no_other_key_does(real: LibvirtRig, tmp_path: Path) -> None:
    real.options = {**real.options, **LOGIN}
    mine, theirs = made_key(tmp_path, "mine"), made_key(tmp_path, "theirs")

    async def play() -> None:
        async with site(real) as here:
            await here.do(start_with(mine.with_suffix(".pub").read_text().strip(), vms=2))
            await here.until(Phase.RUNNING)
            one, two = await ways_into(here)
            assert [(way.machine, way.host, way.user) for way in (one, two)] == [
                (0, "127.0.0.1", "root"),
                (1, "127.0.0.1", "root"),
            ]
            assert await ways_into(here) == [one, two], "it stays open where it is"
            for number, way in enumerate((one, two)):
                assert await when_it_answers(real, way, mine, f"echo {number} > note; cat note") == (0, f"{number}\n")
            assert (await ssh(one, theirs, "true"))[0] == 255
            # Through the port that leads in, nothing leads out: not to the host, where its own port answers.
            status, heard = await ssh(one, mine, f"nc -w 3 10.0.2.2 {one.port} < /dev/null")
            assert (status != 0, heard) == (True, "")
            await here.do(order(Verb.SUSPEND, vms=2))
            await here.until(Phase.SAVED)
            assert await ways_into(here) == []
            await here.do(order(Verb.RESUME, incarnation=2, vms=2))
            await here.until(Phase.RUNNING)
            for number, way in enumerate(await ways_into(here)):
                assert await when_it_answers(real, way, mine, "cat note") == (0, f"{number}\n")

    asyncio.run(play())


def test_its_user_gets_in_where_a_machine_has_moved(real: LibvirtRig, tmp_path: Path) -> None:
    real.options = {**real.options, **LOGIN}
    key = made_key(tmp_path, "key")
    text = key.with_suffix(".pub").read_text().strip()

    async def play() -> None:
        async with site(real, "a") as here, site(real, "b") as there:
            await here.do(start_with(text, command=("sh", "-c", "echo moved > note; exec sleep 600")))
            await here.until(Phase.RUNNING)
            await here.do(order(Verb.SEND, other_site="b"))
            await there.do(replace(order(Verb.RECEIVE, incarnation=2, other_site="a"), ssh_key=text))
            await there.until(Phase.RUNNING)
            assert await ways_into(here) == []
            [way] = await ways_into(there)
            assert await when_it_answers(real, way, key, f"cat {WORK}/note") == (0, "moved\n")
            await there.do(order(Verb.STOP, incarnation=2))
            await there.until_gone()

    asyncio.run(play())


def test_a_guest_without_that_user_fails_its_lease_and_says_so(real: LibvirtRig, tmp_path: Path) -> None:
    real.options = {**real.options, "login_user": "nobody-there"}
    key = made_key(tmp_path, "key").with_suffix(".pub").read_text().strip()

    async def play() -> None:
        async with site(real) as here:
            await here.do(start_with(key))
            assert "nobody-there" in (await here.until(Phase.FAILED)).detail

    asyncio.run(play())
