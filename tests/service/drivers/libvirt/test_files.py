"""On real hosts: a command finds its inputs, and what it leaves is kept, also when it moved on the way."""

import asyncio
import json
import time
from dataclasses import replace

import pytest
from tests.service.drivers.files import left_by, random_bytes, staged, start_with
from tests.service.drivers.libvirt.rigs import LibvirtRig
from tests.waiting import PATIENCE_S

from leasehold.service.drivers.facts import HasNodes, HasOutput, Output
from leasehold.service.drivers.guest_files import WORK
from leasehold.service.drivers.protocol import Phase, PlacementConstraints, Verb
from leasehold.service.drivers.staging import JobFiles
from leasehold.testing.driver_rig import order, site

pytestmark = pytest.mark.machines


def test_a_command_finds_its_inputs_and_what_it_leaves_outlives_its_machines(real: LibvirtRig) -> None:
    content = random_bytes(3_000_000)

    async def play() -> None:
        async with site(real) as here:
            assert isinstance(here.driver, HasNodes)
            files = JobFiles((staged(here.driver, content), staged(here.driver, b"", "empty")), ("out.dat", "missing"))
            await here.do(start_with(files, ("sh", "-c", "test -f empty && cat in.dat > out.dat"), vms=2))
            assert (await here.until(Phase.ENDED)).exit_status == 0
            [node] = await here.driver.nodes()
            assert node.bytes_per_s > 0, "how fast the inputs got there is the estimate of the next"
            await here.do(order(Verb.STOP))
            await here.until_gone()
            await here.crash()
            kept = await left_by(here.driver)
            assert kept["out.dat"] == content
            assert "left no such file" in str(kept["missing"])

    asyncio.run(play())


def test_what_commands_write_is_told_apart_while_they_run_and_kept_when_their_machines_are_gone(
    real: LibvirtRig,
) -> None:
    begun = "--- machine 0 ---\nbegun\n--- machine 1 ---\nbegun\n"

    async def play() -> None:
        async with site(real) as here:
            assert isinstance(here.driver, HasOutput)
            says = "echo begun; echo oh >&2; until test -f go; do sleep 0.1; done; echo done"
            await here.do(order(Verb.START, command=("sh", "-c", says), vms=2))
            await here.until(Phase.RUNNING)
            wrote = await wrote_in_time(here.driver, begun)
            assert wrote.error == begun.replace("begun", "oh")
            for number in range(2):
                tell(real, "a", f"leasehold-a-1-1-{number}", "touch", f"{WORK}/go")
            assert (await here.until(Phase.ENDED)).exit_status == 0
            await here.do(order(Verb.STOP, vms=2))
            await here.until_gone()
            await here.crash()
            assert isinstance(here.driver, HasOutput)
            assert await here.driver.output(1) == replace(wrote, text=begun.replace("begun\n", "begun\ndone\n"))

    asyncio.run(play())


async def wrote_in_time(driver: HasOutput, text: str) -> Output:
    give_up_s = time.monotonic() + PATIENCE_S
    while (wrote := await driver.output(1)).text != text:
        assert time.monotonic() < give_up_s, wrote
        await asyncio.sleep(0.2)  # a guest tells nobody that its command has written something
    return wrote


def test_a_command_that_has_moved_keeps_what_it_made_of_its_inputs(real: LibvirtRig) -> None:
    content = random_bytes(300_000)

    async def play() -> None:
        async with site(real, "a") as here, site(real, "b") as there:
            files = JobFiles((staged(here.driver, content),), ("in.dat", "out.dat"))
            command = ("sh", "-c", "cat in.dat > out.dat; echo changed > in.dat; until test -f go; do sleep 0.1; done")
            await here.do(start_with(files, command))
            await here.until(Phase.RUNNING)
            await here.do(order(Verb.SUSPEND))
            await here.until(Phase.SAVED)
            await here.do(order(Verb.SEND, other_site="b"))
            staged(there.driver, content)
            await there.do(replace(order(Verb.RECEIVE, incarnation=2, other_site="a", command=command), files=files))
            await there.until(Phase.RUNNING)
            await there.do(order(Verb.SUSPEND, incarnation=2))
            await there.until(Phase.SAVED)
            await there.do(order(Verb.RESUME, incarnation=3))
            await there.until(Phase.RUNNING)
            tell(real, "b", "leasehold-b-1-2-0", "touch", f"{WORK}/go")
            assert (await there.until(Phase.ENDED)).exit_status == 0
            assert await left_by(there.driver) == {"in.dat": b"changed\n", "out.dat": content}

    asyncio.run(play())


def tell(rig: LibvirtRig, at: str, name: str, *command: str) -> None:
    """Run a program in a guest, beside what the driver does there."""
    import libvirt  # noqa: PLC0415 - it is there when its fixture is
    import libvirt_qemu  # noqa: PLC0415 - as above

    program, *words = command
    asked = json.dumps({"execute": "guest-exec", "arguments": {"path": program, "arg": words}})
    connection = libvirt.open(str(rig.more[at]["uri"]))
    libvirt_qemu.qemuAgentCommand(connection.lookupByName(name), asked, PATIENCE_S, 0)
    connection.close()


def test_a_job_has_the_cores_that_it_wants_on_the_host_that_it_names(real: LibvirtRig) -> None:
    async def play() -> None:
        async with site(real) as here:
            assert isinstance(here.driver, HasNodes)
            [node] = await here.driver.nodes()
            wanted = PlacementConstraints((node.name,), cores=2)
            counts = ("sh", "-c", "grep -c ^processor /proc/cpuinfo > out.dat")
            await here.do(replace(start_with(JobFiles(outputs=("out.dat",)), counts), constraints=wanted))
            await here.until(Phase.ENDED)
            assert await left_by(here.driver) == {"out.dat": b"2\n"}

    asyncio.run(play())
