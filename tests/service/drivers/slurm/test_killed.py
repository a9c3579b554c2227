"""A manager that is killed again and again, wherever it is: no lease is lost, and none comes up twice."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.service.drivers.slurm.killed import gives_orders, lives_of_leases
from tests.service.drivers.slurm.sites import SlurmRig

from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.testing.driver_rig import Site, order, site
from leasehold.testing.killable import Killable
from leasehold.testing.slurm import SlurmCluster

LEASES = 4
KILLS = 20
LONGEST_S = 0.4
PATIENCE_S = 30


@pytest.mark.machines
def test_a_manager_that_is_killed_again_and_again_is_missed_by_nobody(
    rig: SlurmRig, cluster: SlurmCluster, tmp_path: Path
) -> None:
    told = 0
    for seed in range(KILLS):
        with Killable(gives_orders, str(tmp_path), rig.options, told, LEASES) as manager:
            told = max([told, *manager.hear(PATIENCE_S if seed == 0 else Random(seed).uniform(0, LONGEST_S))])
            manager.kill()
    asyncio.run(live_on(rig, cluster, told))


async def said(here: Site, rig: SlurmRig, lease_id: int) -> str:
    """What a lease has written, as soon as it has written something."""
    for _ in range(rig.patience):
        if text := await here.driver.console(lease_id):
            return text
        await rig.pass_time()
    raise AssertionError(f"lease {lease_id} says nothing")


async def live_on(rig: SlurmRig, cluster: SlurmCluster, told: int) -> None:
    everybody = range(1, LEASES + 1)
    async with site(rig) as here:
        await here.do(*lives_of_leases(LEASES)[max(0, told - LEASES) :])
        for lease_id in everybody:
            running = await here.until(Phase.RUNNING, lease_id)
            assert running.incarnation == 3
            assert await said(here, rig, lease_id) == "up\n", "it came up twice"
        live = Counter(cluster.run("squeue", "--noheader", "--format=%j").split())
        assert len(live) == LEASES
        assert set(live.values()) == {1}
        await here.do(*(order(Verb.STOP, lease_id, 3) for lease_id in everybody))
        for lease_id in everybody:
            await here.until_gone(lease_id)
        assert cluster.run("squeue", "--noheader") == ""
