"""An image built two hops away: three services at work, each with its store, and the lines between them."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import pytest
from tests.service.api.house import SETTINGS, opened
from tests.service.discovery.pretend import BASE, KIND, NODE, Pretence, WithImages, WithNodes, factory, until
from tests.service.engine.job_worlds import job
from tests.service.stores import store_at

from leasehold.configuration.tables import SharingSpec
from leasehold.jobs.job import JobState
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.config import JobsSpec, ServiceConfig, SiteSpec
from leasehold.service.drivers.facts import Buildable
from leasehold.service.drivers.protocol import DriverSetup
from leasehold.service.drivers.registry import DRIVERS
from leasehold.service.federation import Federation
from leasehold.service.jobs import JobResult
from leasehold.service.peers.peers import PeerTerms
from leasehold.service.store.store import Store
from leasehold.service.surroundings import Surroundings

BUILDABLE = Buildable("base", frozenset({("gromacs", "2022.5")}))
NAMES = "abc"


class Wire(httpx2.AsyncBaseTransport):
    """Leads to the service whose name is the host; to one that is not at work nothing leads."""

    def __init__(self, apps: Mapping[str, httpx2.ASGITransport]) -> None:
        self._apps = apps

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        app = self._apps.get(request.url.host)
        if app is None:
            raise httpx2.ConnectError("nobody listens there")
        return await app.handle_async_request(request)


@dataclass
class Three:
    """Gateways in a chain, and what their machines say; only those of the last boot from images."""

    folder: Path
    machines: dict[str, Pretence]
    stores: dict[str, Store]

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[dict[str, Federation]]:
        """Open all three, and make each the peer of the next."""
        apps: dict[str, httpx2.ASGITransport] = {}
        surroundings = Surroundings(transport=lambda: Wire(apps))
        async with AsyncExitStack() as stack:
            federations: dict[str, Federation] = {}
            tokens = {}
            for name in NAMES:
                config = ServiceConfig(
                    clusters=(SiteSpec(f"site-{name}", 4, driver=KIND),),
                    jobs=JobsSpec(look_every_ms=250),
                    sharing=SharingSpec(without_agreement="allow"),
                )
                parts = opened(self.stores[name], self.folder / name, SETTINGS, config, surroundings)
                federations[name], tokens[name], app = await stack.enter_async_context(parts)
                apps[name] = httpx2.ASGITransport(app)
            for name, other in ("ab", "bc", "cb", "ba"):
                _, token = tokens[other].issue(Principal(name, frozenset({Role.PEER}), sites=frozenset({name})))
                terms = PeerTerms(f"https://{other}", max_hops=2)
                await federations[name].peers.keep(other, terms, token, "operator")
            yield federations

    def images(self, name: str = "a") -> list[tuple[str, str, str]]:
        return [(row.name, row.site, row.state) for row in self.stores[name].images()]

    def state(self) -> str:
        row = self.stores["a"].job(1)
        return "" if row is None else row.record.state

    def knows(self) -> bool:
        """Whether the first has heard what is two hops away."""
        store = self.stores["a"]
        return bool(store.buildable()) and any(node.is_host for node in store.nodes()) and bool(self.images())


def _driver(setup: DriverSetup, machines: dict[str, Pretence]) -> WithNodes:
    kind = WithImages if setup.site == "site-c" else WithNodes
    return factory(machines, kind)(setup)  # type: ignore[return-value]


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Three]:
    machines = {f"site-{name}": Pretence() for name in NAMES}
    host = replace(NODE, name="h1", is_host=True, runs=False)
    machines["site-c"] = Pretence(there=[host], known=[BASE], recipe=BUILDABLE)
    monkeypatch.setitem(DRIVERS, KIND, lambda setup: _driver(setup, machines))
    with ExitStack() as stack:
        stores = {}
        for name in NAMES:
            (tmp_path / name).mkdir()
            stores[name] = stack.enter_context(store_at(tmp_path / f"{name}.db"))
        yield Three(tmp_path, machines, stores)


def test_a_job_gets_its_image_built_two_hops_away_and_runs_there(three: Three) -> None:
    async def play() -> None:
        async with three.at_work() as federations:
            ours = federations["a"]
            await until(ours, three.knows)
            plan = await ours.plan_job(job("gromacs"))
            [chosen] = plan.outcome.chosen
            assert (plan.outcome.state, chosen.site) == (JobState.BUILDING, "b:c:site-c")
            assert chosen.builds == (("gromacs", "2022.5"),)
            await ours.jobs.submit(job("gromacs", command=("fold",)))
            await until(ours, lambda: three.state() == "completed")
            assert await ours.jobs.result(1) == JobResult(1, 1, 0, "fold", is_whole=True)
            account, _ = await ours.explain_job(await ours.jobs.job(1))
            met = [(line.state, line.reason) for line in account.lines if line.what == "job"]
            assert (met[0], met[-1]) == (("building", "image-is-built"), ("completed", "completed"))
            assert ("starting", "runs-in-machines") in met

    asyncio.run(play())
    site = three.machines["site-c"]
    assert site.built == [BUILDABLE.packages]
    assert {order.constraints.image for order in site.orders if order.command} == {"base+gromacs"}
    assert three.images() == [
        ("b:c:base", "b:c:site-c", "there"),
        ("b:c:base+gromacs", "b:c:site-c", "there"),
    ]


def test_why_it_could_not_be_built_is_told_back(three: Three) -> None:
    three.machines["site-c"].flaw = "gromacs: unmet dependency; see build.log"

    async def play() -> None:
        async with three.at_work() as federations:
            await until(federations["a"], three.knows)
            await federations["a"].jobs.submit(job("gromacs"))
            await until(federations["a"], lambda: three.state() == "refused")
            row, attempts = await federations["a"].jobs.job(1)
            assert (row.record.reason, row.record.what, attempts) == (
                "image-failed", three.machines["site-c"].flaw, [],
            )  # fmt: skip

    asyncio.run(play())


def test_all_may_be_closed_while_it_is_asked_for(three: Three) -> None:
    """What was asked for, and answered, is in their stores."""

    async def ask() -> None:
        async with three.at_work() as federations:
            await until(federations["a"], three.knows)
            await federations["a"].jobs.submit(job("gromacs", command=("fold",)))

    async def wait() -> None:
        async with three.at_work() as federations:
            await until(federations["a"], lambda: three.state() == "completed")

    asyncio.run(ask())
    asyncio.run(wait())
    assert ("b:c:base+gromacs", "b:c:site-c", "there") in three.images()
