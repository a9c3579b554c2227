"""GPUs of a Slurm cluster: what is read of them, and a cluster whose nodes have some, by hand and for real."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.service.drivers.sites import Clock, setup
from tests.service.drivers.slurm.conftest import real_clusters
from tests.service.drivers.slurm.sites import LOOK_EVERY_S, REFERENCE_MIPS, guest_options, now_ms
from tests.service.drivers.slurm.test_lending import until
from tests.service.drivers.slurm.test_native_queue import job, running, waiting
from tests.waiting import PATIENCE_S

from leasehold.configuration.terms import ClusterTerms
from leasehold.leasing.overhead import OverheadModel
from leasehold.matching.devices import Devices
from leasehold.matching.needs import Amounts, Needs
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType
from leasehold.model.resources import NodeResources
from leasehold.service.commands import SubmitJob
from leasehold.service.config import JobsSpec, ServiceConfig, ServiceSpec, SiteSpec
from leasehold.service.config_file import config_from_dict
from leasehold.service.drivers.protocol import NativeJob
from leasehold.service.drivers.registry import driver
from leasehold.service.drivers.slurm.cluster import NO_GPUS, Gpus, Node, read_gpus
from leasehold.service.drivers.slurm.driver import gpus_lent
from leasehold.service.drivers.slurm.options import SlurmOptions
from leasehold.service.drivers.slurm.queue import NativeQueue
from leasehold.service.federation import Federation
from leasehold.service.metrics import Metrics
from leasehold.service.store.rows import LeaseRow
from leasehold.service.store.store import open_store
from leasehold.testing.rows import submit
from leasehold.testing.slurm import CPUS_PER_NODE, SlurmCluster


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("(null)", NO_GPUS),
        ("", NO_GPUS),
        ("gpu:2", Gpus("", 2)),
        ("gpu", Gpus("", 1)),
        ("gpu:a100:2", Gpus("a100", 2)),
        ("gpu:a100:2(S:0-1)", Gpus("a100", 2)),
        ("gpu:a100:2(IDX:0-1)", Gpus("a100", 2)),
        ("gres:gpu:a100:4", Gpus("a100", 4)),
        ("gres/gpu:a100=4", Gpus("a100", 4)),
        ("gres:gpu:1,gres:nvme:1", Gpus("", 1)),
        ("nvme:1,gpu:a100_1g.10gb:7", Gpus("a100_1g.10gb", 7)),
        ("gpumem:80", NO_GPUS),
    ],
)
def test_generic_resources_are_read_as_slurm_writes_them(text: str, gpus: Gpus) -> None:
    assert read_gpus(text) == gpus


def listed(*jobs: Any) -> list[NativeJob]:
    nodes = {name: Node(name, 8, 16_384, frozenset({"main"})) for name in ("n1", "n2", "n3")}
    return NativeQueue(nodes, {"main": None}, SlurmOptions(), slots=24, by_nodes=True).of(jobs)


def size(one: NativeJob) -> tuple[int, int, str, int]:
    return one.vms, one.cores, one.gpu_model, one.gpu_milli


def test_a_job_is_as_many_vms_as_it_has_cpus_or_where_it_has_gpus_one_on_each_node() -> None:
    a100 = Gpus("a100", 2)
    of = {
        one.name: one
        for one in listed(
            running(1, {"n1": 3, "n2": 1}),
            running(2, {"n1": 2, "n3": 4}, gpus_by_node={"n1": a100, "n3": a100}),
            waiting(3, cpus=6),
            waiting(4, cpus=4, nodes_wanted=2, gpus=Gpus("", 2)),
        )
    }
    assert {name: size(one) for name, one in of.items()} == {
        "1": (4, 1, "", 0),
        "2": (2, 4, "a100", 2_000),  # as much on each as on the one with most
        "3": (6, 1, "", 0),
        "4": (2, 2, "", 1_000),
    }
    assert [of[name].nodes for name in "1234"] == [(("n1", 3), ("n2", 1)), (("n1", 1), ("n3", 1)), (), ()]
    assert job(5).gpus == NO_GPUS


def test_a_site_that_is_planned_by_nodes_pauses_no_jobs(tmp_path: Path) -> None:
    given = replace(setup(tmp_path, Clock()), nodes=(NodeResources("n1", 4),))
    with pytest.raises(
        InvalidField, match=r"slurm\.suspend: got 'pause', expected requeue or none where a site is planned by nodes"
    ):
        driver("slurm", given)


@pytest.mark.parametrize(
    ("there", "planned", "lent"),
    [
        (Gpus("a100", 4), NodeResources("n", 8, 0, "a100", 4), Gpus("a100", 4)),
        (Gpus("a100", 4), NodeResources("n", 8, 0, "a100", 2), Gpus("a100", 2)),
        (Gpus("a100", 1), NodeResources("n", 8, 0, "a100", 2), Gpus("a100", 1)),
        (Gpus("a100", 0), NodeResources("n", 8, 0, "a100", 2), NO_GPUS),
        (Gpus("a100+", 2), NodeResources("n", 8, 0, "a100", 2), NO_GPUS),
        (Gpus("a100", 2), NodeResources("n", 8), NO_GPUS),
        (Gpus("a100", 2), None, NO_GPUS),
        (NO_GPUS, NodeResources("n", 8), NO_GPUS),
    ],
)
def test_jobs_can_have_the_gpus_that_slurm_and_the_plan_both_know(
    there: Gpus, planned: NodeResources | None, lent: Gpus
) -> None:
    assert gpus_lent(there, planned) == lent


def test_of_its_gpus_no_fractions_are_lent(tmp_path: Path) -> None:
    def nodes(**gpus: Any) -> tuple[NodeResources, ...]:
        node = {"name": "n1", "cores": 4, "gpus": {"model": "a100", "count": 2, **gpus}}
        slurm = {"job_folder": str(tmp_path), "user": "daemon", "suspend": "none"}
        site = {"name": "hpc", "driver": "slurm", "nodes": [node, {"name": "n2", "cores": 4}], "slurm": slurm}
        return config_from_dict({"cluster": [site]}).clusters[0].nodes

    assert nodes() == nodes(shares=0) == (NodeResources("n1", 4, 0, "a100", 2, 0), NodeResources("n2", 4))
    with pytest.raises(InvalidField, match="got 'shares', expected none: Slurm is asked for whole GPUs"):
        nodes(shares=2)


# --- for real -------------------------------------------------------------------------------------------------

GPUS = ("a100:2", "", "t4:1")
HOUR_MS = 3_600_000
WORK = ("sh", "-c", "while sleep 0.2; do :; done")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    """Three nodes of four CPUs: with two A100, with none, and with one T4."""
    with real_clusters("alpha", gpus=GPUS) as (found,):
        yield found


@asynccontextmanager
async def lending(folder: Path, cluster: SlurmCluster, suspend: str = "none") -> AsyncIterator[Federation]:
    """A gateway in front of the cluster, which plans it by its nodes."""
    kinds = [text.partition(":") for text in GPUS]
    nodes = tuple(
        NodeResources(name, CPUS_PER_NODE, 0, model, int(count or 0))
        for name, (model, _, count) in zip(cluster.nodes, kinds, strict=True)
    )
    terms = ClusterTerms(speed_mips=REFERENCE_MIPS, overhead=OverheadModel(), non_preemptable_share=1.0)
    options = guest_options(cluster) | {"look_every_s": LOOK_EVERY_S, "probe_every_s": 0, "suspend": suspend}
    site = SiteSpec(cluster.name, cluster.slots, terms, driver="slurm", options=options, nodes=nodes)
    service = ServiceSpec(reference_mips=REFERENCE_MIPS, reconcile_every_ms=500)
    with open_store(f"sqlite:///{folder / 'store.db'}") as store:
        config = ServiceConfig(clusters=(site,), service=service, jobs=JobsSpec(look_every_ms=500))
        async with Federation.open(config, store, folder, now_ms, Metrics()) as federation:
            yield federation


def row_of(federation: Federation, lease_id: int) -> LeaseRow:
    row = federation.store.lease(lease_id)
    assert row is not None
    return row


async def guest(
    federation: Federation, vms: int, gpus: str = "", kind: LeaseType = LeaseType.CANCELABLE, **values: Any
) -> int:
    model, _, count = gpus.partition(":")
    asked: dict[str, Any] = {"gpu_model": model, "gpu_milli": int(count) * 1_000} if gpus else {}
    row, _ = await federation.submit(submit("physics", kind, vms, HOUR_MS, command=WORK, **asked | values))
    return row.lease.id


def gres_of_guests(cluster: SlurmCluster) -> set[tuple[str, str]]:
    """On which nodes guests' jobs run, and with which GPUs, as Slurm says it."""
    told = cluster.run("squeue", "--noheader", "--states=RUNNING", "--format=%j|%N|%b|%C").splitlines()
    words = [line.split("|") for line in told]
    return {(nodes, gpus) for name, nodes, gpus, _ in words if name.startswith("leasehold-")}


@pytest.mark.machines
def test_leases_get_their_gpus_and_give_way_where_an_owner_asks_for_these(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    first, second, third = cluster.nodes

    async def play() -> None:
        async with lending(tmp_path, cluster) as federation:
            a100, t4, cpus = (
                await guest(federation, 1, "a100:2", cores=2),
                await guest(federation, 1, "t4:1"),
                await guest(federation, 1, cores=4),
            )
            await until(lambda: len(gres_of_guests(cluster)) == 3, "not all three run")
            places = {
                name: row_of(federation, one).lease.placed for name, one in {"a": a100, "t": t4, "c": cpus}.items()
            }
            assert places == {"a": ((first, 1, (0, 1)),), "t": ((third, 1, (0,)),), "c": ((second, 1, ()),)}
            assert {nodes for nodes, _ in gres_of_guests(cluster)} == {first, second, third}
            # A model that nobody has is refused, and what no node has room for, too.
            with pytest.raises(InvalidField, match="expected one of a100, t4"):
                await guest(federation, 1, "h100:1")
            # An owner's job for an A100 takes those of the first guest alone.
            theirs = cluster.submit("--gres=gpu:a100:1", "--ntasks=1", "--time=5")
            await asyncio.to_thread(cluster.until_state, theirs, "RUNNING")
            assert row_of(federation, a100).lease.state == "terminated"
            assert [row_of(federation, one).lease.state for one in (t4, cpus)] == ["running", "running"]
            # It is known to be there: one A100 is left for guests, and who wants both waits.
            one = await guest(federation, 1, "a100:1")
            await until(lambda: row_of(federation, one).lease.state == "running", "no A100 is left")
            both = await guest(federation, 1, "a100:2")
            assert row_of(federation, both).lease.state in {"held", "waiting"}
            assert "(null)" not in cluster.run(
                "squeue", "--noheader", "--states=RUNNING", "--format=%b", "--jobs", theirs
            )

    asyncio.run(play())
    cluster.clear()


@pytest.mark.machines
def test_who_gives_way_is_requeued_and_begins_again_on_other_nodes_with_their_gpus(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Two machines with a GPU each, of whatever model, share the node that has two, and come back on one node each."""
    first, _, third = cluster.nodes

    def state(federation: Federation, lease_id: int) -> tuple[str, set[str]]:
        lease = row_of(federation, lease_id).lease
        return lease.state, {name for name, _, _ in lease.placed}

    async def play() -> None:
        async with lending(tmp_path, cluster, suspend="requeue") as federation:
            t4 = cluster.submit("--gres=gpu:t4:1", "--ntasks=1", "--time=5")
            await asyncio.to_thread(cluster.until_state, t4, "RUNNING")
            two = await guest(federation, 2, ":1", kind=LeaseType.SUSPENDABLE, memory_mib=128)
            await until(lambda: state(federation, two) == ("running", {first}), "it does not run")
            a100 = cluster.submit("--gres=gpu:a100:1", "--ntasks=1", "--time=5")
            await asyncio.to_thread(cluster.until_state, a100, "RUNNING")
            await until(lambda: state(federation, two)[0] == "suspended", "it did not give way")
            assert gres_of_guests(cluster) == set()
            cluster.run("scancel", t4)
            await until(lambda: state(federation, two) == ("running", {first, third}), "it does not go on")
            assert {nodes for nodes, _ in gres_of_guests(cluster)} == {f"{cluster.name}[1,3]"}

    asyncio.run(play())
    cluster.clear()


@pytest.mark.machines
def test_a_job_gets_gpus_of_the_node_that_was_chosen_for_it(cluster: SlurmCluster, tmp_path: Path) -> None:
    first, second, third = cluster.nodes

    async def free(federation: Federation) -> dict[str, tuple[str, int, Devices]]:
        return {
            node.name.partition("/")[2]: (node.gpu_model, node.gpus, node.free_gpus)
            for node in await federation.jobs.nodes()
        }

    async def play() -> None:
        async with lending(tmp_path, cluster) as federation:
            idle = {first: ("a100", 2, (1_000, 1_000)), second: ("", 0, ()), third: ("t4", 1, (1_000,))}
            await until_true(lambda: free(federation), idle)
            needs = Needs(amounts=Amounts(2, 128, 0, (1_000,)), execution_ms=HOUR_MS, gpu_model="a100")
            job = SubmitJob(consumer="physics", command=WORK, needs=needs, lease_type=LeaseType.CANCELABLE)
            (row, _), *_ = await federation.jobs.submit(job)
            await until(lambda: gres_of_guests(cluster) != set(), "it does not run")
            assert {node for node, _ in gres_of_guests(cluster)} == {first}
            await until_true(lambda: free(federation), idle | {first: ("a100", 2, (1_000, 0))})
            half = replace(job, needs=replace(needs, amounts=Amounts(2, 128, 0, (500,))))
            (told, _), *_ = await federation.jobs.submit(half)
            await until_true(lambda: what_became(federation, told.record.id), ("refused", "gpus-lent-whole"))
            await federation.jobs.cancel(row.record.id)
            await until_true(lambda: free(federation), idle)

    asyncio.run(play())
    cluster.clear()


async def what_became(federation: Federation, job_id: int) -> tuple[str, str]:
    found = federation.store.job(job_id)
    assert found is not None
    return found.record.state.value, found.record.what


async def until_true(ask: Callable[[], Awaitable[object]], answer: object) -> None:
    """Ask until the answer is this one: nodes are looked at now and then."""
    give_up_s = time.monotonic() + PATIENCE_S
    while (found := await ask()) != answer:
        assert time.monotonic() < give_up_s, found
        await asyncio.sleep(0.2)  # nodes tell nobody
