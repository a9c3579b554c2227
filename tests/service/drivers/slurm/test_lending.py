"""Clusters whose users go on with `sbatch`, full of guests: a user's job starts, and the guests come back."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.drivers.slurm.conftest import real_clusters
from tests.service.drivers.slurm.sites import LOOK_EVERY_S, REFERENCE_MIPS, guest_options, now_ms
from tests.waiting import PATIENCE_S

from leasehold.configuration.tables import GatewaySpec
from leasehold.configuration.terms import ClusterTerms
from leasehold.leasing.overhead import OverheadModel
from leasehold.model.request import LeaseType
from leasehold.service.config import ServiceConfig, ServiceSpec, SiteSpec
from leasehold.service.federation import Federation
from leasehold.service.metrics import Metrics
from leasehold.service.store.filters import EVERYTHING, LeaseFilter
from leasehold.service.store.store import open_store
from leasehold.testing.rows import submit
from leasehold.testing.slurm import SlurmCluster

_AT_ONCE = OverheadModel(suspend_ms_per_gib=0, resume_ms_per_gib=0)

pytestmark = pytest.mark.machines


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[SlurmCluster, ...]]:
    """Two clusters of three nodes of four CPUs each."""
    with real_clusters("alpha", "beta") as found:
        yield found


@asynccontextmanager
async def lending(folder: Path, clusters: tuple[SlurmCluster, ...]) -> AsyncIterator[Federation]:
    """A gateway in front of both."""
    terms = ClusterTerms(speed_mips=REFERENCE_MIPS, overhead=_AT_ONCE)
    sites = tuple(
        SiteSpec(
            one.name,
            one.slots,
            terms,
            driver="slurm",
            options=guest_options(one) | {"look_every_s": LOOK_EVERY_S, "probe_every_s": 0},
        )
        for one in clusters
    )
    service = ServiceSpec(reference_mips=REFERENCE_MIPS, reconcile_every_ms=500)
    config = ServiceConfig(clusters=sites, service=service, gateway=GatewaySpec(policy="most-free"))
    with open_store(f"sqlite:///{folder / 'store.db'}") as store:
        async with Federation.open(config, store, folder, now_ms, Metrics()) as federation:
            yield federation


@asynccontextmanager
async def lending_with_notice(folder: Path, cluster: SlurmCluster) -> AsyncIterator[Federation]:
    """A gateway in front of one cluster, whose owner lets preemption wait longer than any test takes."""
    terms = ClusterTerms(speed_mips=REFERENCE_MIPS, overhead=_AT_ONCE, notice_ms=600_000)
    options = guest_options(cluster) | {"look_every_s": LOOK_EVERY_S, "probe_every_s": 0}
    site = SiteSpec(cluster.name, cluster.slots, terms, driver="slurm", options=options)
    service = ServiceSpec(reference_mips=REFERENCE_MIPS, reconcile_every_ms=500)
    with open_store(f"sqlite:///{folder / 'store.db'}") as store:
        config = ServiceConfig(clusters=(site,), service=service)
        async with Federation.open(config, store, folder, now_ms, Metrics()) as federation:
            yield federation


SAVES_ON_SIGNAL = """
save() { echo saved; touch "$LEASEHOLD_CHECKPOINTED"; }
trap save USR1
echo ready
while :; do sleep 0.2; done
"""
SAVES_ON_FILE = """
echo ready
until [ -s "$LEASEHOLD_NOTICE" ]; do sleep 0.2; done
echo saved
touch "$LEASEHOLD_CHECKPOINTED"
while :; do sleep 0.2; done
"""


async def until(what: Callable[[], bool], why: str) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(what):
        assert time.monotonic() < give_up_s, why
        await asyncio.sleep(0.1)  # other people's daemons tell nobody


def states(federation: Federation) -> list[str]:
    """The states of all guests."""
    rows = federation.store.leases(LeaseFilter(EVERYTHING), 1_000)
    return [row.lease.state for row in rows if not row.metadata.native_job]


def running_vms(cluster: SlurmCluster) -> int:
    told = cluster.run("squeue", "--noheader", "--states=RUNNING", "--format=%C").split()
    return sum(map(int, told))


async def fill(federation: Federation, clusters: tuple[SlurmCluster, ...]) -> None:
    """Guests of one VM each, until both clusters are full of them."""
    for _ in range(sum(one.slots for one in clusters)):
        work = ("sh", "-c", "while sleep 0.2; do :; done")
        await federation.submit(submit("physics", LeaseType.SUSPENDABLE, 1, 3_600_000, command=work))
    for one in clusters:
        await until(lambda one=one: running_vms(one) == one.slots, f"{one.name} is not full")  # type: ignore[misc]


def test_a_users_job_that_wants_whole_nodes_starts_although_guests_are_everywhere(
    clusters: tuple[SlurmCluster, ...], tmp_path: Path
) -> None:
    alpha, beta = clusters

    async def story() -> None:
        async with lending(tmp_path, clusters) as federation:
            await fill(federation, clusters)
            job = await asyncio.to_thread(
                alpha.submit, "--nodes=2", "--exclusive", "--output=/dev/null", command="sleep 3"
            )
            await until(lambda: alpha.state_of(job) in ("RUNNING", "COMPLETED"), "it does not start")
            assert running_vms(beta) == beta.slots  # nobody there had to notice
            await until(lambda: running_vms(alpha) == alpha.slots, "guests do not come back")
            await until(lambda: set(states(federation)) == {"running"}, str(states(federation)))
            for row in federation.store.leases(LeaseFilter(EVERYTHING), 1_000):
                await federation.cancel(row.lease.id)
            await until(lambda: running_vms(alpha) + running_vms(beta) == 0, "guests do not go")

    asyncio.run(story())


@pytest.mark.parametrize(("how", "script"), [("SIGUSR1", SAVES_ON_SIGNAL), ("file", SAVES_ON_FILE)])
def test_a_guest_that_is_told_saves_its_work_and_says_so_from_its_job(
    clusters: tuple[SlurmCluster, ...], tmp_path: Path, how: str, script: str
) -> None:
    """The user's job starts because the guest has reported, long before the time for that is over."""
    asyncio.run(is_told(clusters[0], tmp_path, how, script))


async def is_told(cluster: SlurmCluster, tmp_path: Path, how: str, script: str) -> None:
    async with lending_with_notice(tmp_path, cluster) as federation:
        asked = submit("physics", LeaseType.CANCELABLE, cluster.slots, 3_600_000, command=("bash", "-c", script))
        row, _ = await federation.submit(replace(asked, metadata=replace(asked.metadata, notify=how)))
        number = row.lease.id

        async def writes(word: str) -> None:
            give_up_s = time.monotonic() + PATIENCE_S
            while word not in await federation.console(number):
                assert time.monotonic() < give_up_s, f"the guest never wrote {word}"
                await asyncio.sleep(0.1)  # other people's daemons tell nobody

        await writes("ready")
        job = cluster.run("sbatch", "--parsable", "--exclusive", "--wrap", "true").strip()
        await until(lambda: cluster.run("squeue", "--noheader", "--jobs", job).strip() == "", "the job never ran")
        await writes("saved")
        told = [line.what for line in federation.store.journal(0, 1_000, lease_id=number)]
        assert told.index("notified") < told.index("checkpointed")
