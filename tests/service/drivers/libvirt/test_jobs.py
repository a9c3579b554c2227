"""A gateway with a site under libvirt: jobs find the host, their files get there and back, and users log in."""

import asyncio
import hashlib
import time
from pathlib import Path

import pytest
from tests.service.drivers.files import random_bytes
from tests.service.drivers.libvirt.rigs import LibvirtRig, wall_clock
from tests.waiting import PATIENCE_S

from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.service.commands import SubmitJob
from leasehold.service.config_file import config_from_dict
from leasehold.service.federation import Federation
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
        give_up_s = time.monotonic() + PATIENCE_S
        while (result := await federation.jobs.result(row.record.id)) is None:
            assert time.monotonic() < give_up_s, await federation.jobs.job(row.record.id)
            await asyncio.sleep(0.2)
        assert result.exit_status == 3, result
        assert (result.output, result.error, result.is_whole) == ("well\n", "ill\n", True)
        two, none = result.files
        assert files.content("physics", two.sha256).read_bytes() == 2 * content
        assert "left no such file" in none.problem
        [node] = await federation.jobs.nodes()
        assert (node.takes_files, node.software) == (True, frozenset())

    async def story(folder: Path) -> None:
        with open_store(f"sqlite:///{folder / 'store.db'}") as store:
            async with Federation.open(config, store, folder, wall_clock, Metrics()) as federation:
                await play(federation)

    asyncio.run(story(real.folder))
