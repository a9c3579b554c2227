"""Jobs in a federation: nodes are found, images built, outputs fetched, and nothing of it is done twice."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import now_ms
from tests.service.discovery.pretend import (
    BASE,
    KIND,
    NODE,
    WAITS,
    Pretence,
    PretendDriver,
    WithImages,
    WithNodes,
    factory,
    federation,
    until,
)
from tests.service.engine.job_worlds import job

from leasehold.jobs.job import JobState
from leasehold.matching.verdict import Why
from leasehold.model.errors import InvalidField
from leasehold.service.commands import SubmitJob
from leasehold.service.config import JobsSpec
from leasehold.service.drivers.facts import Buildable
from leasehold.service.drivers.registry import DRIVERS
from leasehold.service.errors import NoSuchJob
from leasehold.service.federation import Federation
from leasehold.service.jobs import JobResult
from leasehold.service.store.filters import EVERYTHING, JobFilter
from leasehold.service.store.retention import Cutoffs
from leasehold.service.store.store import Store

BUILDABLE = Buildable("base", frozenset({("gromacs", "2022.5")}))


class Sites:
    """Opens federations over the same store and machines, one after the other."""

    def __init__(self, store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.folder = folder
        self.a, self.b = Pretence(), Pretence(there=[replace(NODE, name="m1")])
        self._patch = monkeypatch
        self.be(WithNodes)

    def be(self, kind: type[PretendDriver]) -> None:
        """Let the machines be of this kind."""
        self._patch.setitem(DRIVERS, KIND, factory({"a": self.a, "b": self.b}, kind))

    def run(self, play: Callable[[Federation], Awaitable[None]], *sites: str, jobs: JobsSpec | None = None) -> None:
        """Let something happen in a federation of these sites, and close it."""

        async def opened() -> None:
            async with federation(self.store, self.folder, *(sites or ("a",)), jobs=jobs) as one:
                await play(one)

        asyncio.run(opened())

    def state(self, job_id: int = 1) -> str:
        row = self.store.job(job_id)
        return "" if row is None else row.record.state

    def is_over(self) -> bool:
        return self.state() in {"completed", "failed", "refused", "cancelled"}

    def tried(self) -> list[str]:
        return ["+".join(row.attempt.nodes) for row in self.store.attempts([1])]


@pytest.fixture
def sites(sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sites:
    """Sites a and b, with a node each."""
    return Sites(sqlite_store, tmp_path, monkeypatch)


def waiting(**said: Any) -> SubmitJob:
    """A job whose command ends when the test says so."""
    return job(command=WAITS, **said)


def test_a_job_runs_where_a_node_was_found_and_its_output_comes_back(sites: Sites) -> None:
    async def play(fed: Federation) -> None:
        (row, _), is_new = await fed.jobs.submit(job("python3 >= 3.11", command=("hello", "world"), name="wave"))
        assert (row.record.id, is_new) == (1, True)
        await until(fed, sites.is_over)
        assert await fed.jobs.result(1) == JobResult(1, 1, 0, "hello world", is_whole=True)
        assert await fed.jobs.result(1) == await fed.jobs.result(1)
        row, [attempt] = await fed.jobs.job(1)
        assert (row.record.state, attempt.attempt.nodes, attempt.attempt.state) == ("completed", ("a/n1",), "succeeded")
        [(listed, _)] = await fed.jobs.jobs(JobFilter(EVERYTHING), 10)
        assert listed == row
        [node] = await fed.jobs.nodes()
        assert (node.name, node.cores, node.problem) == ("a/n1", 4, "")

    sites.run(play)
    assert sites.a.orders[0].constraints.nodes == ("n1",)


def test_who_asks_for_what_is_not_there_hears_so(sites: Sites) -> None:
    async def play(fed: Federation) -> None:
        with pytest.raises(NoSuchJob):
            await fed.jobs.job(7)
        with pytest.raises(NoSuchJob):
            await fed.jobs.result(7)
        with pytest.raises(NoSuchJob):
            await fed.jobs.cancel(7)
        await fed.jobs.submit(waiting())
        assert await fed.jobs.result(1) is None
        assert (await fed.jobs.cancel(1))[0].record.state == "cancelled"

    sites.run(play)


def test_an_output_that_cannot_be_fetched_at_once_is_fetched_later(sites: Sites) -> None:
    sites.a.unread = 1

    async def play(fed: Federation) -> None:
        await fed.jobs.submit(job(command=("hello",)))
        await until(fed, sites.is_over)
        assert await fed.jobs.result(1) == JobResult(1, 1, 0, "hello", is_whole=True)

    sites.run(play)


def test_an_output_that_the_store_let_go_of_is_said_to_be(sites: Sites) -> None:
    async def play(fed: Federation) -> None:
        await fed.jobs.submit(job(command=("hello",)))
        await until(fed, sites.is_over)
        await fed.ask(lambda engine: engine.prune(Cutoffs(outputs_ms=engine.now_ms + 1)))
        assert await fed.jobs.result(1) == JobResult(1, 1, 0, "", is_whole=False, is_kept=False)

    sites.run(play)


def test_an_output_that_is_lost_is_said_to_be(sites: Sites) -> None:
    sites.a.unread = 1000

    async def play(fed: Federation) -> None:
        await fed.jobs.submit(job(command=("hello",)))
        await until(fed, sites.is_over)
        assert await fed.jobs.result(1) == JobResult(1, 1, 0, "", is_whole=False)
        _, [attempt] = await fed.jobs.job(1)
        assert "could not be fetched: ConnectionError: reset by peer" in attempt.attempt.detail

    sites.run(play, jobs=JobsSpec(look_every_ms=250, output_for_ms=0))


def test_what_was_being_fetched_when_the_service_stopped_is_fetched_when_it_goes_on(sites: Sites) -> None:
    sites.a.unread = 1000

    async def begin(fed: Federation) -> None:
        await fed.jobs.submit(job(command=("hello",)))
        await until(fed, lambda: bool(sites.store.attempts([1]) and sites.store.attempts([1])[0].end))

    async def go_on(fed: Federation) -> None:
        await until(fed, sites.is_over)
        assert await fed.jobs.result(1) == JobResult(1, 1, 0, "hello", is_whole=True)

    sites.run(begin)
    sites.a.unread = 0
    sites.run(go_on)
    assert [order.verb.value for order in sites.a.orders].count("start") == 1


def test_a_node_that_dies_while_the_service_is_away_loses_its_job(sites: Sites) -> None:
    async def begin(fed: Federation) -> None:
        await until(fed, lambda: len(sites.store.nodes()) == 2)
        await fed.jobs.submit(waiting())
        await until(fed, lambda: sites.tried() == ["a/n1"])

    async def go_on(fed: Federation) -> None:
        await until(fed, lambda: len(sites.tried()) == 2)
        [lease_id] = [row.lease_id for row in sites.store.attempts([1]) if row.attempt.state == "ordered"]
        assert lease_id is not None
        await until(fed, lambda: lease_id in sites.b.seen)
        sites.b.end(lease_id, "from b")
        await until(fed, sites.is_over)
        assert await fed.jobs.result(1) == JobResult(1, 2, 0, "from b", is_whole=True)

    sites.run(begin, "a", "b")
    sites.a.there = [replace(NODE, problem="is down", fault="node-died")]
    sites.run(go_on, "a", "b")


def test_a_site_that_falls_silent_loses_its_jobs_and_its_late_result_does_not_count(sites: Sites) -> None:
    quick = JobsSpec(look_every_ms=100, silent_after_ms=300)

    async def play(fed: Federation) -> None:
        await fed.jobs.submit(waiting())
        await until(fed, lambda: 1 in sites.a.seen)
        sites.a.silent = True
        await until(fed, lambda: len(sites.tried()) == 2)
        first, _ = sites.store.attempts([1])
        assert (first.attempt.state, first.attempt.fault) == ("fenced", "network-failed")
        assert first.attempt.detail.startswith("the site does not answer: no answer for ")
        await until(fed, lambda: 2 in sites.b.seen)
        sites.b.end(2, "from b")
        await until(fed, sites.is_over)
        assert await fed.jobs.result(1) == JobResult(1, 2, 0, "from b", is_whole=True)

    sites.run(play, "a", "b", jobs=quick)


def test_an_image_is_built_once_and_the_job_runs_in_a_machine_with_it(sites: Sites) -> None:
    sites.be(WithImages)
    sites.a.known, sites.a.recipe = [BASE], BUILDABLE
    sites.a.there = [replace(NODE, is_host=True)]

    async def play(fed: Federation) -> None:
        await fed.jobs.submit(job("gromacs >= 2022", command=("fold",)))
        await until(fed, sites.is_over)
        assert await fed.jobs.result(1) == JobResult(1, 1, 0, "fold", is_whole=True)
        await fed.jobs.submit(job("gromacs", command=("fold", "again")))
        await until(fed, lambda: sites.state(2) == "completed")
        assert [(row.name, row.state) for row in await fed.jobs.images()] == [
            ("base", "there"),
            ("base+gromacs", "there"),
        ]

    sites.run(play)
    assert sites.a.built == [BUILDABLE.packages]
    assert {order.constraints.image for order in sites.a.orders if order.command} == {"base+gromacs"}
    assert sites.a.orders[0].memory_mib == 1024 + 128


def test_an_image_that_cannot_be_built_is_refused_with_why(sites: Sites) -> None:
    sites.be(WithImages)
    sites.a.known, sites.a.recipe = [BASE], BUILDABLE
    sites.a.there, sites.a.flaw = [replace(NODE, is_host=True)], "gromacs: unmet dependency; see build.log"

    async def play(fed: Federation) -> None:
        await fed.jobs.submit(job("gromacs"))
        await until(fed, sites.is_over)
        row, attempts = await fed.jobs.job(1)
        assert (row.record.state, row.record.reason, attempts) == ("refused", "image-failed", [])
        assert row.record.what == sites.a.flaw
        assert [(one.state, one.problem) for one in await fed.jobs.images()] == [
            ("there", ""),
            ("failed", sites.a.flaw),
        ]

    sites.run(play)


def test_where_there_is_no_output_apart_the_console_has_to_do(sites: Sites) -> None:
    class Silent(PretendDriver):
        async def nodes(self) -> object:
            return list(self.pretence.there)

    sites.be(Silent)

    async def play(fed: Federation) -> None:
        await fed.jobs.submit(job(command=("hello",)))
        await until(fed, sites.is_over)
        assert await fed.jobs.result(1) == JobResult(1, 1, 0, "login: hello", is_whole=False)

    sites.run(play)


def test_a_plan_is_made_at_the_time_of_the_last_step_however_early_it_was_asked_for(sites: Sites) -> None:
    """Plans forget what is past: who asks at a time before the last step asks about what they no longer know."""
    ticks = count(now_ms(), 100)

    async def play() -> None:
        async with federation(sites.store, sites.folder, "a", clock=lambda: next(ticks)) as fed:
            plan, taken = await asyncio.gather(fed.plan_job(job(command=("later",))), fed.jobs.submit(job()))
            assert plan.outcome.made_ms >= taken[0][0].record.since_ms

    asyncio.run(play())


def test_what_would_become_of_a_job_is_said_without_making_it(sites: Sites) -> None:
    sites.be(WithImages)
    sites.a.known, sites.a.recipe = [BASE], BUILDABLE
    sites.a.there = [NODE, replace(NODE, name="h1", is_host=True, runs=False)]

    async def play(fed: Federation) -> None:
        await until(fed, lambda: len(sites.store.nodes()) == 2 and bool(sites.store.images()))
        on_nodes = await fed.plan_job(job("python3"))
        assert (on_nodes.outcome.state, on_nodes.outcome.chosen[0].nodes) == (JobState.RUNNING, ("a/n1",))
        in_machines = await fed.plan_job(job("gromacs"))
        [chosen] = in_machines.outcome.chosen
        assert (in_machines.outcome.state, chosen.nodes) == (JobState.BUILDING, ("a/h1",))
        assert chosen.builds == (("gromacs", "2022.5"),)
        assert chosen.why is Why.NO_PHYSICAL_NODE
        host, node = in_machines.groups
        assert (host.nodes, host.says.as_node, node.says.as_host) == (("a/h1",), None, None)
        assert host.says.as_host is not None
        assert node.says.as_node is not None
        assert (host.says.as_host.why, node.says.as_node.why) == (Why.FITS, Why.SOFTWARE_NOT_THERE)
        nowhere = await fed.plan_job(job("fortran-77"))
        assert (nowhere.outcome.state, nowhere.outcome.chosen) == (JobState.REFUSED, ())
        with pytest.raises(InvalidField):
            await fed.plan_job(job(command=()))
        assert sites.store.highest_job_id() == 0

    sites.run(play)
