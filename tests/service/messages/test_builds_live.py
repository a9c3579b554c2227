"""Images built by a manager for its gateway: two services at work, and the line between them."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import pytest
from tests.service.api.house import SETTINGS, opened
from tests.service.discovery.pretend import BASE, KIND, NODE, Pretence, WithImages, factory, until
from tests.service.engine.job_worlds import job
from tests.service.stores import store_at

from leasehold.jobs.job import JobState
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.config import JobsSpec, ServiceConfig, SiteSpec
from leasehold.service.drivers.facts import Buildable
from leasehold.service.drivers.registry import DRIVERS
from leasehold.service.federation import Federation
from leasehold.service.jobs import JobResult
from leasehold.service.messages.uplink import Uplink
from leasehold.service.store.store import Store

BUILDABLE = Buildable("base", frozenset({("gromacs", "2022.5")}))


@dataclass
class Two:
    """The stores of a gateway with site near and of the manager of site far, and what their machines say."""

    folder: Path
    near: Pretence
    far: Pretence
    gateway: Store
    manager: Store

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[tuple[Federation, Federation]]:
        """Open both, and let the manager call its gateway."""
        async with (
            opened(self.gateway, self.folder / "gateway", SETTINGS, _configured("near")) as (gateway, tokens, app),
            opened(self.manager, self.folder / "manager", SETTINGS, _configured("far")) as (manager, _, _),
        ):
            _, token = tokens.issue(Principal("far", frozenset({Role.PEER}), sites=frozenset({"far"})))
            uplink = Uplink(
                manager.messages,
                manager.gateway_files,
                manager.sites.own_status,
                "http://gateway",
                token,
                site="far",
                transport=httpx2.ASGITransport(app),
            )
            calling = asyncio.create_task(uplink.run())
            try:
                yield gateway, manager
            finally:
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)

    def state(self, job_id: int = 1) -> str:
        row = self.gateway.job(job_id)
        return "" if row is None else row.record.state

    def images(self) -> list[tuple[str, str, str]]:
        return [(row.name, row.site, row.state) for row in self.gateway.images()]


def _configured(site: str) -> ServiceConfig:
    return ServiceConfig(clusters=(SiteSpec(site, 4, driver=KIND),), jobs=JobsSpec(look_every_ms=250))


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    """Nothing can be built at the gateway's own site; beside the manager there is a host for machines."""
    near, far = Pretence(), Pretence(there=[replace(NODE, name="h1", is_host=True, runs=False)])
    far.known, far.recipe = [BASE], BUILDABLE
    monkeypatch.setitem(DRIVERS, KIND, factory({"near": near, "far": far}, WithImages))
    for name in ("gateway", "manager"):
        (tmp_path / name).mkdir()
    with (
        store_at(tmp_path / "gateway.db") as gateway,
        store_at(tmp_path / "manager.db") as manager,
    ):
        yield Two(tmp_path, near, far, gateway, manager)


def _knows(two: Two) -> bool:
    return bool(two.gateway.buildable()) and any(node.is_host for node in two.gateway.nodes()) and bool(two.images())


def test_a_job_gets_its_image_built_by_the_manager_and_runs_there(two: Two) -> None:
    async def play() -> None:
        async with two.at_work() as (gateway, _):
            await until(gateway, lambda: _knows(two))
            plan = await gateway.plan_job(job("gromacs"))
            [chosen] = plan.outcome.chosen
            assert (plan.outcome.state, chosen.nodes) == (JobState.BUILDING, ("far/h1",))
            assert chosen.builds == (("gromacs", "2022.5"),)
            await gateway.jobs.submit(job("gromacs", command=("fold",)))
            await until(gateway, lambda: two.state() == "completed")
            assert await gateway.jobs.result(1) == JobResult(1, 1, 0, "fold", is_whole=True)
            account, _ = await gateway.explain_job(await gateway.jobs.job(1))
            met = [(line.state, line.reason) for line in account.lines if line.what == "job"]
            assert met == [
                ("building", "image-is-built"),
                ("starting", "runs-in-machines"),
                ("completed", "completed"),
            ]
            assert json.loads(account.lines[0].detail) == {"what": "base+gromacs=2022.5"}

    asyncio.run(play())
    assert two.far.built == [BUILDABLE.packages]
    assert {order.constraints.image for order in two.far.orders if order.command} == {"base+gromacs"}
    assert two.images() == [("base", "far", "there"), ("base+gromacs", "far", "there")]


def test_why_it_could_not_be_built_is_told(two: Two) -> None:
    two.far.flaw = "gromacs: unmet dependency; see build.log"

    async def play() -> None:
        async with two.at_work() as (gateway, _):
            await until(gateway, lambda: _knows(two))
            await gateway.jobs.submit(job("gromacs"))
            await until(gateway, lambda: two.state() == "refused")
            row, attempts = await gateway.jobs.job(1)
            assert (row.record.reason, row.record.what, attempts) == ("image-failed", two.far.flaw, [])

    asyncio.run(play())


def test_both_may_be_closed_while_it_is_asked_for(two: Two) -> None:
    async def ask() -> None:
        async with two.at_work() as (gateway, _):
            await until(gateway, lambda: _knows(two))
            await gateway.jobs.submit(job("gromacs", command=("fold",)))

    async def go_on() -> None:
        async with two.at_work() as (gateway, _):
            await until(gateway, lambda: two.state() == "completed")

    asyncio.run(ask())
    asyncio.run(go_on())
    assert {order.constraints.image for order in two.far.orders if order.command} == {"base+gromacs"}
