"""A gateway with a site under libvirt: jobs find the host, their files get there and back, and users log in."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.service.drivers.files import random_bytes
from tests.service.drivers.libvirt.rigs import LibvirtRig, wall_clock
from tests.waiting import PATIENCE_S

from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.matching.software import software
from leasehold.service.commands import SubmitJob
from leasehold.service.config import ServiceConfig
from leasehold.service.config_file import config_from_dict
from leasehold.service.federation import Federation
from leasehold.service.jobs import JobResult
from leasehold.service.metrics import Metrics
from leasehold.service.store.store import open_store

pytestmark = pytest.mark.machines


def test_a_job_with_files_runs_in_a_machine_of_the_host(real: LibvirtRig) -> None:
    content = random_bytes(50_000)
    sha256 = hashlib.sha256(content).hexdigest()
    site = {"name": "rack", "slots": 2, "driver": "libvirt", "libvirt": {**real.options, **real.more["a"]}}
    config = config_from_dict({"jobs": {"look_every_s": 1}, "cluster": [site]}, real.folder / "leasehold.toml")
    needs = Needs(
        amounts=Amounts(1, 112, 0),
        execution_ms=60_000,
        inputs=(InputFile("sky.dat", len(content), "", sha256=sha256),),
        outputs=("two.dat", "none"),
    )
    job = SubmitJob(
        consumer="physics",
        command=("sh", "-c", "cat sky.dat sky.dat > two.dat; echo well; echo ill >&2; exit 3"),
        needs=needs,
    )

    async def play(federation: Federation) -> None:
        files = federation.files
        files.announce("physics", sha256, "sky.dat", len(content), wall_clock())
        files.write("physics", sha256, 0, content)
        (row, _), _ = await federation.jobs.submit(job)
        result = await result_of(federation, row.record.id)
        assert result.exit_status == 3, result
        assert (result.output, result.error, result.is_whole) == ("well\n", "ill\n", True)
        two, none = result.files
        assert files.content("physics", two.sha256).read_bytes() == 2 * content
        assert "left no such file" in none.problem
        [node] = await federation.jobs.nodes()
        assert (node.takes_files, node.software) == (True, frozenset())

    asyncio.run(story(real, config, play))


def test_a_job_finds_its_software_on_the_host_or_in_an_image(real: LibvirtRig, pool: Path) -> None:
    options = {
        **real.options,
        "software": ["make 4.3"],
        "images": {"lab": "base.qcow2"},
        "image_software": {"lab": ["gcc 12.2"]},
    }
    site = {"name": "rack", "slots": 2, "driver": "libvirt", "libvirt": {**options, **real.more["a"]}}
    config = config_from_dict({"jobs": {"look_every_s": 1}, "cluster": [site]}, real.folder / "leasehold.toml")

    async def image_for(federation: Federation, needed: str) -> str:
        needs = Needs(amounts=Amounts(1, 112, 0), software=(software(needed),), execution_ms=60_000)
        job = SubmitJob(consumer="physics", command=("true",), needs=needs)
        (row, _), _ = await federation.jobs.submit(job)
        result = await result_of(federation, row.record.id)
        assert result.exit_status == 0, result
        _, attempts = await federation.jobs.job(row.record.id)
        return attempts[-1].attempt.image

    async def play(federation: Federation) -> None:
        assert await image_for(federation, "make >= 4") == ""
        assert await image_for(federation, "gcc >= 12") == "lab"
        [image] = await federation.jobs.images()
        assert (image.name, image.size_bytes) == ("lab", (pool / "base.qcow2").stat().st_blocks * 512)

    asyncio.run(story(real, config, play))


async def story(rig: LibvirtRig, config: ServiceConfig, play: Callable[[Federation], Awaitable[None]]) -> None:
    with open_store(f"sqlite:///{rig.folder / 'store.db'}") as store:
        async with Federation.open(config, store, rig.folder, wall_clock, Metrics()) as federation:
            await play(federation)


async def result_of(federation: Federation, job_id: int) -> JobResult:
    give_up_s = time.monotonic() + PATIENCE_S
    while (result := await federation.jobs.result(job_id)) is None:
        assert time.monotonic() < give_up_s, await federation.jobs.job(job_id)
        await asyncio.sleep(0.2)
    return result
