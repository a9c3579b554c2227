"""What may happen to a real Slurm and to us, and what becomes of leases: none is lost, and none doubled."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.service.drivers.slurm.killed import dies_after_submitting
from tests.service.drivers.slurm.sites import SlurmRig

from leasehold.service.drivers.protocol import Observation, Phase, Verb
from leasehold.service.drivers.slurm.commands import Slurm, SlurmUnavailable
from leasehold.service.drivers.slurm.instance import BEGINS_AGAIN
from leasehold.testing.driver_rig import Site, order, site
from leasehold.testing.killable import Killable
from leasehold.testing.slurm import SlurmCluster

pytestmark = pytest.mark.machines


def guests(cluster: SlurmCluster) -> list[str]:
    """The live jobs that carry our sign, by their numbers."""
    lines = cluster.run("squeue", "--noheader", "--format=%A %j").splitlines()
    return [line.split()[0] for line in lines if " leasehold-" in line]


async def started(here: Site, lease_id: int = 1, vms: int = 1, command: tuple[object, ...] = ()) -> Observation:
    await here.do(order(Verb.START, lease_id, vms=vms, command=command))
    return await here.until(Phase.RUNNING, lease_id)


class TestASubmissionThatWasInterrupted:
    def test_by_a_crash_is_found_again_and_never_made_twice(
        self, rig: SlurmRig, cluster: SlurmCluster, tmp_path: Path
    ) -> None:
        with Killable(dies_after_submitting, str(tmp_path), rig.options) as doomed:
            assert doomed.ended() == -9
        assert len(guests(cluster)) == 1

        async def go_on() -> None:
            async with site(rig) as here:
                await here.do(order(Verb.START))
                await here.until(Phase.RUNNING)
                assert len(guests(cluster)) == 1
                await here.do(order(Verb.STOP))
                await here.until_gone()
                assert guests(cluster) == []

        asyncio.run(go_on())

    def test_and_then_stopped_runs_no_longer(self, rig: SlurmRig, cluster: SlurmCluster, tmp_path: Path) -> None:
        with Killable(dies_after_submitting, str(tmp_path), rig.options) as doomed:
            assert doomed.ended() == -9

        async def go_on() -> None:
            async with site(rig) as here:
                await here.do(order(Verb.STOP))
                await here.until_gone()
                assert guests(cluster) == []

        asyncio.run(go_on())

    def test_by_silence_is_not_made_twice(
        self, rig: SlurmRig, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        submit = Slurm.submit

        def loses_the_answer(self: Slurm, *details: Any, **options: Any) -> int:
            submit(self, *details, **options)
            raise SlurmUnavailable("sbatch took longer than 1 s")

        async def play() -> None:
            async with site(rig) as here:
                with monkeypatch.context() as patched:
                    patched.setattr(Slurm, "submit", loses_the_answer)
                    problems = await here.tell(order(Verb.START))
                assert problems["1.1.start"].again
                await here.do(order(Verb.START))
                await here.until(Phase.RUNNING)
                assert len(guests(cluster)) == 1

        asyncio.run(play())

    def test_a_double_that_comes_late_waits_and_is_cancelled(self, rig: SlurmRig, cluster: SlurmCluster) -> None:
        async def play() -> None:
            async with site(rig) as here:
                running = await started(here)
                (first,) = guests(cluster)
                name = cluster.run("squeue", "--noheader", "--format=%j", "--jobs", first).strip()
                double = cluster.submit(f"--job-name={name}", "--dependency=singleton", "--uid=nobody", "--chdir=/")
                assert cluster.state_of(double) == "PENDING"
                await here.stays(running)
                assert cluster.state_of(double) == "CANCELLED"
                assert guests(cluster) == [first]

        asyncio.run(play())


def test_while_the_controller_is_down_nothing_is_taken_on_and_nothing_is_lost(
    rig: SlurmRig, cluster: SlurmCluster
) -> None:
    hasty = replace(rig, options=rig.options | {"answer_within_s": 0.5})

    async def play() -> None:
        async with site(rig) as here:
            running = await started(here)
        cluster.stop_controller()
        try:
            async with site(hasty) as here:
                problems = await here.tell(order(Verb.START, 2), order(Verb.STOP, 1))
                assert all(problem.again for problem in problems.values())
                assert problems.keys() == {"2.1.start", "1.1.stop"}
                for silent in (here.driver.observe(), here.driver.changes()):
                    with pytest.raises(ConnectionError):
                        await silent
        finally:
            cluster.start_controller()
        async with site(rig) as here:
            assert await here.seen(1) == running
            await here.do(order(Verb.START, 2))
            await here.until(Phase.RUNNING, 2)

    asyncio.run(play())


def test_a_controller_that_is_restarted_or_killed_knows_everybody_again(rig: SlurmRig, cluster: SlurmCluster) -> None:
    async def play() -> None:
        async with site(rig) as here:
            await started(here, 1)
            await started(here, 2)
            await here.do(order(Verb.SUSPEND, 2))
            await here.until(Phase.SAVED, 2)
            before = await here.driver.observe()
            cluster.stop_controller()
            cluster.start_controller()
            cluster.kill_controller()
            cluster.start_controller()
            assert await here.driver.observe() == before

    asyncio.run(play())


def test_when_a_node_dies_its_lease_starts_again_elsewhere_or_has_failed(rig: SlurmRig, cluster: SlurmCluster) -> None:
    """Two leases on one node: Slurm puts the job of the first back, and may not do so with the second's."""
    first, *others = cluster.nodes
    unlucky = replace(rig, options=rig.options | {"extra": ["--no-requeue"]})

    async def play() -> None:
        async with site(rig, "a") as here, site(unlucky, "b") as there:
            drain(cluster, *others)
            await started(here, 1)
            await started(there, 2)
            undrain(cluster, *others)
            assert {node_of(cluster, job) for job in guests(cluster)} == {first}
            cluster.kill_node(first)
            cluster.run("scontrol", "update", f"NodeName={first}", "State=DOWN", "Reason=lost")
            assert (await here.until(Phase.STARTING, 1)).detail == BEGINS_AGAIN
            assert (await there.until(Phase.FAILED, 2)).detail.startswith("Slurm: NODE_FAIL")
            assert (await here.until(Phase.RUNNING, 1)).incarnation == 1
            assert [node_of(cluster, job) in others for job in guests(cluster)] == [True]
            await there.do(order(Verb.STOP, 2))
            await there.until_gone(2)

    asyncio.run(play())


def test_a_drained_node_keeps_what_it_has_and_gets_nothing_new(rig: SlurmRig, cluster: SlurmCluster) -> None:
    async def play() -> None:
        async with site(rig) as here:
            await started(here, 1)
            (first,) = guests(cluster)
            drain(cluster, node_of(cluster, first))
            running = await started(here, 2, vms=8)
            assert not re.search(node_of(cluster, first), node_of(cluster, guests(cluster)[-1]))
            await here.do(order(Verb.START, 3))
            waits = await here.until(Phase.STARTING, 3)
            assert waits.detail.startswith("waits in Slurm's queue: ")
            await here.do(order(Verb.STOP, 2))
            assert (await here.until(Phase.RUNNING, 3)).since_ms > running.since_ms
            assert (await here.seen(1)) is not None

    asyncio.run(play())


class TestWhatAJobIs:
    def test_a_command_runs_once_for_each_vm_and_its_exit_status_is_known(self, rig: SlurmRig) -> None:
        says = "echo $LEASEHOLD_LEASE $SECRET at $SLURMD_NODENAME; exit 3"

        async def play() -> None:
            async with site(rig) as here:
                await here.do(order(Verb.START, 7, vms=5, command=("sh", "-c", says)))
                ended = await here.until(Phase.ENDED, 7)
                assert ended.detail == "exit status 3"
                said = {line for line in (await here.driver.console(7)).splitlines() if " at " in line}
                assert {line[: line.index(" at ")] for line in said} == {f"{n}: 7" for n in range(5)}
                assert len({line.split()[-1] for line in said}) == 2

        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("SECRET", "of the gateway's")
            asyncio.run(play())

    def test_what_slurm_does_not_take_is_refused_with_its_words(self, rig: SlurmRig) -> None:
        rig.options["partition"] = "no-such-partition"

        async def play() -> None:
            async with site(rig) as here:
                problem = (await here.tell(order(Verb.START)))["1.1.start"]
                assert not problem.again
                assert "invalid partition specified: no-such-partition" in problem.text
                assert await here.driver.observe() == []

        asyncio.run(play())

    def test_one_that_an_operator_cancels_has_failed(self, rig: SlurmRig, cluster: SlurmCluster) -> None:
        async def play() -> None:
            async with site(rig) as here:
                await started(here)
                cluster.run("scancel", *guests(cluster))
                assert (await here.until(Phase.FAILED)).detail == "Slurm: CANCELLED"

        asyncio.run(play())


def node_of(cluster: SlurmCluster, job: str) -> str:
    """The node of a job, or its nodes as ``alpha[1-2]``, which makes a pattern of it."""
    return cluster.run("squeue", "--noheader", "--format=%N", "--jobs", job).strip()


def drain(cluster: SlurmCluster, *nodes: str) -> None:
    cluster.run("scontrol", "update", f"NodeName={','.join(nodes)}", "State=DRAIN", "Reason=maintenance")


def undrain(cluster: SlurmCluster, *nodes: str) -> None:
    cluster.run("scontrol", "update", f"NodeName={','.join(nodes)}", "State=RESUME")
