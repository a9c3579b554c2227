"""A real Slurm: its nodes are found with what they have, jobs run on chosen ones, lost nodes are noticed."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.drivers.slurm.sites import SlurmRig

from leasehold.jobs.job import Fault
from leasehold.service.drivers.facts import HasNodes, HasOutput, NodeFacts
from leasehold.service.drivers.protocol import Order, Phase, PlacementConstraints, Verb
from leasehold.service.drivers.slurm import job_directory
from leasehold.testing.driver_rig import Site, order, site
from leasehold.testing.slurm import SlurmCluster

pytestmark = pytest.mark.machines


def start_on(*nodes: str, command: tuple[object, ...], lease_id: int = 1) -> Order:
    told = order(Verb.START, lease_id, vms=len(nodes), command=command)
    return replace(told, constraints=PlacementConstraints(nodes))


async def nodes_of(here: Site) -> dict[str, NodeFacts]:
    assert isinstance(here.driver, HasNodes)
    return {node.name: node for node in await here.driver.nodes()}


async def until_found(here: Site, rig: SlurmRig, what: Callable[[dict[str, NodeFacts]], bool]) -> None:
    nodes: dict[str, NodeFacts] = {}
    for _ in range(rig.patience):
        nodes = await nodes_of(here)
        if what(nodes):
            return
        await rig.pass_time()
    raise AssertionError(f"never so: {nodes}")


def test_nodes_are_found_with_features_modules_and_what_is_installed_on_them(
    rig: SlurmRig, cluster: SlurmCluster, tmp_path: Path
) -> None:
    first, second, third = cluster.nodes
    (tmp_path / "modulefiles" / "gcc").mkdir(parents=True)
    (tmp_path / "modulefiles" / "gcc" / "12.2").touch()
    rig.options |= {"probe_every_s": 3600, "modules": [str(tmp_path / "modulefiles")]}
    features = "AvailableFeatures=cuda=12.1,avx2", "ActiveFeatures=cuda=12.1,avx2"
    cluster.run("scontrol", "update", f"NodeName={first}", *features)
    cluster.run("scontrol", "update", f"NodeName={third}", "State=DRAIN", "Reason=new disks")

    async def play() -> None:
        async with site(rig) as here:
            await until_found(here, rig, lambda nodes: all(nodes[name].cpu_mhz for name in (first, second)))
            nodes = await nodes_of(here)
            assert {("cuda", "12.1"), ("avx2", ""), ("gcc", "12.2")} <= nodes[first].software
            assert "bash" in {name for name, _ in nodes[second].software}
            assert ("cuda", "12.1") not in nodes[second].software
            assert (nodes[first].cores, nodes[first].memory_mib, nodes[first].unknown) == (4, 2000, "")
            assert (nodes[third].problem, nodes[third].fault) == ("Slurm: the node is drained: new disks", "")
            assert await here.driver.native_jobs() == []  # type: ignore[attr-defined]

    try:
        asyncio.run(play())
    finally:
        cluster.run("scontrol", "update", f"NodeName={first}", "AvailableFeatures=", "ActiveFeatures=")


def test_a_job_runs_where_it_is_told_to_and_its_output_comes_back(rig: SlurmRig, cluster: SlurmCluster) -> None:
    first, second, third = cluster.nodes

    async def play() -> None:
        async with site(rig) as here:
            assert isinstance(here.driver, HasOutput)
            where = ("sh", "-c", "echo on $SLURMD_NODENAME; exit 3")
            await here.do(start_on(third, first, command=where), start_on(second, command=where, lease_id=2))
            assert (await here.until(Phase.ENDED, 1)).exit_status == 3
            assert (await here.until(Phase.ENDED, 2)).exit_status == 3
            assert (await here.driver.output(1)).text == f"on {third}\non {first}\n"
            assert (await here.driver.output(2)).text == f"on {second}\n"

    asyncio.run(play())


def test_it_is_told_on_which_node_each_vm_is(rig: SlurmRig, cluster: SlurmCluster) -> None:
    first, second, third = cluster.nodes

    async def play() -> None:
        async with site(rig) as here:
            await here.do(start_on(third, first, command=("sleep", 300)))
            assert sorted((await here.until(Phase.RUNNING)).nodes) == [first, third]
            await here.do(order(Verb.START, 2, vms=10, command=("sleep", 300)))
            running = await here.until(Phase.RUNNING, 2)
            assert Counter(running.nodes) == {first: 3, second: 4, third: 3}
            await here.do(order(Verb.SUSPEND, 2))
            assert (await here.until(Phase.SAVED, 2)).nodes == running.nodes

    asyncio.run(play())


def test_a_software_that_is_gone_is_told_and_the_node_looked_at_again(rig: SlurmRig, cluster: SlurmCluster) -> None:
    first = cluster.nodes[0]
    rig.options["probe_every_s"] = 3600

    async def play() -> None:
        async with site(rig) as here:
            await until_found(here, rig, lambda nodes: bool(nodes[first].cpu_mhz))
            await here.do(start_on(first, command=("no-such-program",)))
            assert (await here.until(Phase.ENDED)).fault == Fault.SOFTWARE_GONE
            assert (await nodes_of(here))[first].cpu_mhz == 0
            await until_found(here, rig, lambda nodes: bool(nodes[first].cpu_mhz))

    asyncio.run(play())


def test_a_slurmd_that_is_killed_is_noticed_and_its_lease_has_failed(rig: SlurmRig, cluster: SlurmCluster) -> None:
    first = cluster.nodes[0]

    async def play() -> None:
        async with site(rig) as here:
            await here.do(start_on(first, command=("sleep", 300)))
            await here.until(Phase.RUNNING)
            cluster.kill_slurmd(first)
            await until_found(here, rig, lambda nodes: nodes[first].fault == Fault.SERVICE_STOPPED)
            failed = await here.until(Phase.FAILED)
            assert failed.fault == Fault.NODE_DIED
            assert failed.detail.startswith("Slurm: NODE_FAIL")
            others = [node for name, node in (await nodes_of(here)).items() if name != first]
            assert [node.problem for node in others] == ["", ""]

    asyncio.run(play())


def test_a_command_goes_on_when_a_node_fails_where_it_needs_fewer(rig: SlurmRig, cluster: SlurmCluster) -> None:
    """It is in the batch script, on the first node, that the command is waited for."""
    first, second, third = cluster.nodes
    folder = Path(tempfile.mkdtemp(dir=cluster.folder))  # its user, nobody, cannot reach that of a test
    folder.chmod(0o777)
    go_on = folder / "go-on"
    work = f"touch {folder}/$SLURMD_NODENAME; while [ ! -e {go_on} ]; do sleep 0.2; done; echo on $SLURMD_NODENAME"
    command = ("sh", "-c", work)
    told = start_on(first, second, third, command=command)

    async def play() -> None:
        async with site(rig) as here:
            await here.do(replace(told, constraints=replace(told.constraints, least=2)))
            running = await here.until(Phase.RUNNING)
            assert running.nodes == (first, second, third)
            await until_found(here, rig, lambda nodes: all((folder / name).exists() for name in nodes))
            cluster.kill_slurmd(second)
            await until_found(here, rig, lambda nodes: nodes[second].fault == Fault.SERVICE_STOPPED)
            left = running
            while left.nodes == running.nodes:
                await rig.pass_time()
                left = await here.until_any({Phase.RUNNING, Phase.ENDED, Phase.FAILED})
            assert left == replace(running, nodes=(first, third))
            go_on.touch()
            ended = await here.until(Phase.ENDED)
            assert (ended.exit_status, ended.fault) == (0, "")
            assert isinstance(here.driver, HasOutput)
            written = (await here.driver.output(1)).text.splitlines()  # what is cut off may write to the end
            assert {f"on {first}", f"on {third}"} <= set(written)

    asyncio.run(play())


def test_a_command_begins_on_the_nodes_that_are_left_where_it_needs_fewer(
    rig: SlurmRig, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node fails when the batch script runs, and before it has asked for the command to run on each node."""
    first, second, third = cluster.nodes
    folder = Path(tempfile.mkdtemp(dir=cluster.folder))  # its user, nobody, cannot reach that of a test
    folder.chmod(0o777)
    go_on = folder / "go-on"
    waits = f"touch {folder}/begun; while [ ! -e {go_on} ]; do sleep 0.2; done\n"
    monkeypatch.setattr(job_directory, "_ON_THOSE_LEFT", waits + job_directory._ON_THOSE_LEFT)
    told = start_on(first, second, third, command=("sh", "-c", "echo on $SLURMD_NODENAME"))

    async def play() -> None:
        async with site(rig) as here:
            await here.do(replace(told, constraints=replace(told.constraints, least=2)))
            await until_found(here, rig, lambda _: (folder / "begun").exists())
            cluster.kill_node(second)
            await until_found(here, rig, lambda nodes: bool(nodes[second].fault))
            while (await here.until(Phase.RUNNING)).nodes != (first, third):
                await rig.pass_time()
            go_on.touch()
            ended = await here.until(Phase.ENDED)
            assert (ended.exit_status, ended.fault) == (0, "")
            assert isinstance(here.driver, HasOutput)
            assert (await here.driver.output(1)).text == f"on {first}\non {third}\n"

    asyncio.run(play())


def test_while_the_controller_is_silent_nothing_is_said_of_nodes(rig: SlurmRig, cluster: SlurmCluster) -> None:
    rig.options["answer_within_s"] = 0.5

    async def play() -> None:
        async with site(rig) as here:
            cluster.stop_controller()
            try:
                with pytest.raises(ConnectionError):
                    await nodes_of(here)
            finally:
                cluster.start_controller()

    asyncio.run(play())
