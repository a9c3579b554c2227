"""Nodes offer themselves: a job that waits starts because of that alone, and every offer has an answer."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.api.house import now_ms
from tests.service.discovery.pretend import KIND, NODE, Pretence, WithNodes, factory, until
from tests.service.engine.job_worlds import Shop, facts, job, nodes

from leasehold.jobs.offers import OfferAnswer, OfferTerms
from leasehold.model.errors import InputError
from leasehold.service.commands import Command, Drain, JobNodesOffered
from leasehold.service.config import JobsSpec, ServiceConfig, SiteSpec
from leasehold.service.config_file import load_config
from leasehold.service.discovery import SiteOffers
from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.drivers.registry import DRIVERS
from leasehold.service.errors import Unavailable
from leasehold.service.federation import Federation
from leasehold.service.metrics import Metrics
from leasehold.service.store.store import Store

SELDOM = JobsSpec(look_every_ms=86_400_000)
"""The gateway looks at nodes when it begins, and tomorrow: what happens before that, an offer has brought about."""
BUSY = replace(NODE, free_cores=0)


def test_a_job_that_waits_starts_where_a_node_offers_itself_and_not_because_anybody_looked(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its load, which is not Leasehold's, the gateway learns only so."""
    pretence = Pretence(there=[BUSY])
    monkeypatch.setitem(DRIVERS, KIND, factory({"a": pretence}, WithNodes))
    site = SiteSpec("a", 4, driver=KIND, offer_every_ms=50)

    async def play() -> None:
        config = ServiceConfig(clusters=(site,), jobs=SELDOM)
        async with Federation.open(config, sqlite_store, tmp_path, now_ms, Metrics()) as federation:
            await federation.jobs.submit(job("python3"))
            await until(federation, lambda: sqlite_store.job(1).record.what == "cores-in-use")  # type: ignore[union-attr]
            pretence.there = [NODE]
            await until(federation, lambda: sqlite_store.job(1).record.state.is_final)  # type: ignore[union-attr]

    asyncio.run(play())
    assert [row.attempt.nodes for row in sqlite_store.attempts([1])] == [("a/n1",)]


def offered(*there: NodeFacts, at_ms: int, site: str = "a") -> JobNodesOffered:
    return JobNodesOffered(site, there, at_ms, at_ms + 60_000)


class TestAnswers:
    def test_one_is_taken_by_a_job_that_waits_and_the_next_one_stands(self, sqlite_store: Store) -> None:
        shop = Shop(sqlite_store)
        shop.do(nodes(facts(free_cores=0), facts("n2", free_cores=0)))
        shop.do(job())
        shop.now_ms += 1_000
        assert shop.ask(offered(facts(), at_ms=shop.now_ms)) == {"n1": OfferAnswer.TAKEN}
        assert shop.tried() == [("a/n1", "ordered", "")]
        assert shop.ask(offered(facts("n2"), at_ms=shop.now_ms)) == {"n2": OfferAnswer.STANDING}

    def test_a_closed_site_and_a_node_that_nobody_knows_are_declined(self, sqlite_store: Store) -> None:
        shop = Shop(sqlite_store)
        shop.do(nodes(facts(), facts("n2")))
        assert shop.ask(offered(facts("n9"), at_ms=shop.now_ms)) == {"n9": OfferAnswer.DECLINED}
        shop.do(Drain("a", "operator"))
        assert shop.ask(offered(facts(), at_ms=shop.now_ms)) == {"n1": OfferAnswer.DECLINED}

    def test_one_that_expires_is_not_looked_at_first_any_more(self, sqlite_store: Store) -> None:
        for pause_ms, where in ((59_000, "b/m1"), (60_000, "a/n1")):
            shop = Shop(sqlite_store)
            both = nodes(facts()), nodes(facts("m1"), site="b")
            shop.do(nodes(facts(free_cores=0)), nodes(facts("m1", free_cores=0), site="b"))
            shop.do(job())
            number = shop.engine.jobs.kept.last_id
            shop.ask(offered(facts("m1", free_cores=0), at_ms=shop.now_ms, site="b"))
            shop.now_ms += pause_ms
            shop.do(*both)
            assert [place for place, *_ in shop.tried(number)] == [where]
            shop.runs(number)
            shop.ends(number)
            shop.fetched(number)


class Machines:
    def __init__(self, there: list[NodeFacts]) -> None:
        self.there = there

    async def nodes(self) -> list[NodeFacts]:
        return self.there


def test_offers_that_the_engine_did_not_take_in_are_made_again() -> None:
    heard: list[Command] = []

    async def do(command: Command) -> dict[str, OfferAnswer]:
        heard.append(command)
        if len(heard) == 1:
            raise Unavailable("not now")
        return {"n1": OfferAnswer.STANDING}

    async def play() -> None:
        offers = SiteOffers("a", Machines([NODE]), do, lambda: 7, 1_000, OfferTerms())  # type: ignore[arg-type]
        for _ in range(3):
            await offers.look()

    asyncio.run(play())
    node = replace(NODE, takes_files=False)  # these machines take none
    assert heard == [JobNodesOffered("a", (node,), 7, 300_007)] * 2


def test_thresholds_without_hysteresis_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "leasehold.toml"
    path.write_text('[[cluster]]\nname = "a"\nslots = 1\noffer_below = 0.5\noffer_again_above = 0.4\n')
    with pytest.raises(InputError, match=r"5: cluster\[0\].offer_again_above: got 0.4, expected more than offer_below"):
        load_config(path)
