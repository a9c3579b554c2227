"""Files of commands in real guests of QEMU: inputs arrive, and what a command leaves is kept."""

import asyncio
from pathlib import Path

import pytest
from tests.service.drivers.files import left_by, random_bytes, staged, start_with
from tests.service.drivers.qemu.test_network import opened

from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.service.drivers.staging import JobFiles
from leasehold.testing.driver_rig import order

pytestmark = pytest.mark.machines


def test_a_command_finds_its_inputs_and_what_it_leaves_outlives_its_machines(place: Path, image: Path) -> None:
    content = random_bytes(20_000)

    async def play() -> None:
        async with opened(place, image, slots=2) as here:
            files = JobFiles((staged(here.driver, content), staged(here.driver, b"", "empty")), ("out.dat", "missing"))
            command = ("sh", "-c", "test -f empty && cat in.dat > out.dat")
            await here.do(start_with(files, command, vms=2))
            assert (await here.until(Phase.ENDED)).exit_status == 0
            await here.do(order(Verb.STOP))
            await here.until_gone()
            kept = await left_by(here.driver)
            assert kept["out.dat"] == content
            assert "left no such file" in str(kept["missing"])

    asyncio.run(play())
