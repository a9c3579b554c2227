"""Jobs on real machines: a cluster with a Slurm of its own, and a host where machines are built to order."""

import asyncio
import hashlib
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.service.drivers.qemu.conftest import need_programs
from tests.service.drivers.qemu.machines import cleared, now_ms
from tests.service.drivers.slurm.conftest import real_clusters
from tests.service.drivers.slurm.sites import guest_options
from tests.waiting import PATIENCE_S

from leasehold.jobs.job import Backup
from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.matching.software import software
from leasehold.service.commands import SubmitJob
from leasehold.service.config_file import config_from_dict
from leasehold.service.drivers.qemu.images.build import build_image
from leasehold.service.federation import Federation
from leasehold.service.jobs import JobResult
from leasehold.service.metrics import Metrics
from leasehold.service.store.rows import AttemptRow, JobRow
from leasehold.service.store.store import open_store
from leasehold.testing.slurm import SlurmCluster

pytestmark = pytest.mark.machines

SMALL_PACKAGES = ("figlet", "units", "sl", "bc")
"""Of these, one that is not installed here is built into a machine."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    """A cluster of three nodes, on which everything is installed that is installed here."""
    with real_clusters("alpha", SlurmdTimeout="5") as (alpha,):
        yield alpha


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the gateway with an image to build on, of which no machine is left afterwards."""
    need_programs()
    with cleared(tmp_path_factory.mktemp("gateway")) as place:
        yield place


@asynccontextmanager
async def hybrid(folder: Path, cluster: SlurmCluster) -> AsyncIterator[Federation]:
    """A gateway with the cluster, and with a host for machines."""
    image = build_image(folder / "images" / "debian", print).folder
    config = config_from_dict(
        {
            "service": {"reconcile_every_s": 1},
            "gateway": {"policy": "most-free"},
            "jobs": {"look_every_s": 1},
            "cluster": [
                {
                    "name": "alpha",
                    "slots": cluster.slots,
                    "driver": "slurm",
                    "slurm": guest_options(cluster) | {"look_every_s": 0.2, "probe_every_s": 3_600},
                },
                {
                    "name": "hosts",
                    "slots": 2,
                    "driver": "qemu",
                    "qemu": {"image": str(image), "accelerator": "tcg"},
                },
            ],
        },
        folder / "leasehold.toml",
    )
    with open_store(f"sqlite:///{folder / 'store.db'}") as store:
        async with Federation.open(config, store, folder, now_ms, Metrics()) as federation:
            yield federation


def asked(
    *command: str, needs: str = "", inputs: tuple[InputFile, ...] = (), outputs: tuple[str, ...] = (), **more: Any
) -> SubmitJob:
    """A small job with a command, which needs this software."""
    wanted = (software(needs),) if needs else ()
    machine = Needs(amounts=Amounts(1, 128, 0), execution_ms=60_000, software=wanted, inputs=inputs, outputs=outputs)
    return SubmitJob(consumer="physics", command=command, needs=machine, **more)


async def until(federation: Federation, job_id: int, holds: Callable[[JobRow, list[AttemptRow]], bool]) -> None:
    """Wait until something holds of a job and its attempts."""
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        row, attempts = await federation.jobs.job(job_id)
        if holds(row, attempts):
            return
        assert time.monotonic() < give_up_s, f"{row} {attempts}"
        await asyncio.sleep(0.2)  # other people's daemons tell nobody


async def result_of(federation: Federation, job_id: int) -> JobResult:
    """Wait until a job is over, and take its result."""
    await until(federation, job_id, lambda row, _: row.record.state.is_final)
    result = await federation.jobs.result(job_id)
    assert result is not None, await federation.jobs.job(job_id)
    return result


async def until_seen(federation: Federation) -> None:
    """Wait until it is known what is installed on the cluster's nodes."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not await _knows_software(federation):
        assert time.monotonic() < give_up_s, await federation.jobs.nodes()
        await asyncio.sleep(0.2)  # as above


async def until_measured(federation: Federation) -> None:
    """Wait until each node of the cluster says how fast inputs got there."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not all(node.bytes_per_s for node in await federation.jobs.nodes() if node.site == "alpha"):
        assert time.monotonic() < give_up_s, await federation.jobs.nodes()
        await asyncio.sleep(0.2)  # as above


async def _knows_software(federation: Federation) -> bool:
    nodes = [node for node in await federation.jobs.nodes() if node.name.startswith("alpha/")]
    return bool(nodes) and all(("coreutils" in dict(node.software)) for node in nodes)


def missing_package() -> str:
    """Name a small package that is not installed here, so that no node of the cluster has it."""
    for name in SMALL_PACKAGES:
        if subprocess.run(["dpkg", "--status", name], capture_output=True, check=False).returncode:
            return name
    pytest.skip(f"all of {', '.join(SMALL_PACKAGES)} are installed here")


def test_a_job_runs_on_a_node_that_has_what_it_needs_and_in_a_machine_where_none_has(
    cluster: SlurmCluster, folder: Path
) -> None:
    missing = missing_package()

    async def story() -> None:
        async with hybrid(folder, cluster) as federation:
            await until_seen(federation)
            told = (("WHERE", "a place"), ("QUOTED", 'it\'s "so"'))
            script = "echo in $WHERE; echo $QUOTED >&2"
            (there, _), _ = await federation.jobs.submit(asked("sh", "-c", script, needs="coreutils", environment=told))
            (nowhere, _), _ = await federation.jobs.submit(
                asked("sh", "-c", f"command -v {missing} && {script}; exit 4", needs=missing, environment=told)
            )
            on_node = await result_of(federation, there.record.id)
            assert (on_node.exit_status, on_node.output, on_node.error) == (0, "in a place\n", 'it\'s "so"\n')
            _, [attempt] = await federation.jobs.job(there.record.id)
            assert (attempt.site, attempt.attempt.image) == ("alpha", "")
            in_machine = await result_of(federation, nowhere.record.id)
            assert in_machine.exit_status == 4
            assert in_machine.output.splitlines()[-1] == "in a place"
            assert in_machine.error == 'it\'s "so"\n'
            _, [attempt] = await federation.jobs.job(nowhere.record.id)
            assert attempt.site == "hosts"
            assert attempt.attempt.image

    asyncio.run(story())


def test_files_arrive_by_their_hash_on_a_node_and_what_a_command_leaves_comes_back(
    cluster: SlurmCluster, folder: Path
) -> None:
    content = bytes(range(256)) * 800
    sha256 = hashlib.sha256(content).hexdigest()

    async def story() -> None:
        async with hybrid(folder, cluster) as federation:
            await until_seen(federation)
            files = federation.files
            files.announce("physics", sha256, "sky.dat", len(content), now_ms())
            files.write("physics", sha256, 0, content)
            sky = InputFile("sky.dat", len(content), "", sha256=sha256)
            script = "sha256sum sky.dat; cat sky.dat sky.dat > two.dat; ln -s two.dat link"
            outputs = ("two.dat", "none", "link")
            (row, _), _ = await federation.jobs.submit(
                asked("sh", "-c", script, needs="coreutils", inputs=(sky,), outputs=outputs)
            )
            result = await result_of(federation, row.record.id)
            assert result.output.split() == [sha256, "sky.dat"]
            two, none, link = result.files
            assert (two.size_bytes, two.problem) == (2 * len(content), "")
            assert files.content("physics", two.sha256).read_bytes() == 2 * content
            assert (none.sha256, none.problem) == ("", "the command left no file of this name")
            assert (link.sha256, link.problem.startswith("it is not a file of the command's own")) == ("", True)
            await until_measured(federation)

    asyncio.run(story())


def test_the_result_of_a_job_arrives_once_whose_node_is_killed(cluster: SlurmCluster, folder: Path) -> None:
    async def story() -> None:
        async with hybrid(folder, cluster) as federation:
            await until_seen(federation)
            command = ("sh", "-c", "sleep 8; echo done on $SLURMD_NODENAME")
            (job, _), _ = await federation.jobs.submit(asked(*command, backup=Backup.COLD))
            await until(federation, job.record.id, lambda _, made: bool(made) and made[0].attempt.state == "running")
            _, [first] = await federation.jobs.job(job.record.id)
            [node] = first.attempt.nodes
            await asyncio.to_thread(cluster.kill_node, node.partition("/")[2])
            result = await result_of(federation, job.record.id)
            row, attempts = await federation.jobs.job(job.record.id)
            assert row.record.state == "completed"
            assert (result.attempt, result.output.startswith("done on ")) == (2, True)
            assert [attempt.attempt.state for attempt in attempts] == ["fenced", "succeeded"]
            assert attempts[0].attempt.fault
            assert node not in attempts[1].attempt.nodes

    asyncio.run(story())
