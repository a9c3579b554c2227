"""Clusters whose users go on with `sbatch`, full of guests: a user's job starts, and the guests come back."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
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


@pytest.mark.example
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
