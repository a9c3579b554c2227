"""Where Slurm gives memory out, a job that is only paused would keep it from the site's own users."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.drivers.slurm.conftest import real_clusters
from tests.service.drivers.slurm.sites import SlurmRig

from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.service.drivers.slurm.instance import BEGINS_AGAIN
from leasehold.service.drivers.slurm.job_directory import WORK
from leasehold.testing.driver_rig import order, site
from leasehold.testing.slurm import SlurmCluster

pytestmark = pytest.mark.machines


@pytest.fixture(scope="module")
def alpha() -> Iterator[SlurmCluster]:
    """The cluster of this file."""
    with real_clusters("alpha", SelectTypeParameters="CR_Core_Memory") as (cluster,):
        yield cluster


def test_a_job_that_asks_for_no_memory_is_not_given_to_such_a_cluster(rig: SlurmRig) -> None:
    async def play() -> None:
        async with site(rig) as here:
            problem = (await here.tell(order(Verb.START)))["1.1.start"]
            assert problem.again
            assert problem.text.endswith("set memory = true")

    asyncio.run(play())


def test_a_requeued_job_leaves_its_memory_and_begins_anew(rig: SlurmRig, cluster: SlurmCluster) -> None:
    rig.options |= {"memory": True, "suspend": "requeue"}
    says = ("sh", "-c", "echo up; exec tail -f /dev/null")

    async def play() -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, vms=12, command=says))
            await here.until(Phase.RUNNING)
            cluster.until(lambda: _said(rig) == 12)
            native = cluster.submit("--nodes=3", "--mem=2000", command="sleep 1")
            assert cluster.state_of(native) == "PENDING"
            await here.do(order(Verb.SUSPEND, vms=12))
            assert (await here.until(Phase.SAVED)).detail == BEGINS_AGAIN
            cluster.until_state(native, "RUNNING", "COMPLETED")
            cluster.until_state(native, "COMPLETED")
            await here.do(order(Verb.RESUME, incarnation=2, vms=12))
            await here.until(Phase.RUNNING)
            cluster.until(lambda: _said(rig) == 24)
            await here.do(order(Verb.STOP, incarnation=2))
            await here.until_gone()

    asyncio.run(play())


def _said(rig: SlurmRig) -> int:
    """How often a VM has come up: what it wrote before it began anew is on its console."""
    folder = Path(rig.options["job_folder"]) / "a" / "1.1" / WORK
    return sum(file.read_text().count("up\n") for file in folder.glob("[co]*") if file.is_file())
