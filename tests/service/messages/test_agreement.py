"""Single courses of things between a gateway and its sites, each of which went wrong once or well could."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs
from tests.service.messages.line import World, live_of, rows_of
from tests.service.stores import store_at

from leasehold.configuration.tables import DomainSpec
from leasehold.model.errors import InputError, InvalidField
from leasehold.model.event import SiteFellSilent
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType
from leasehold.service.commands import Drain, ForgetSite, Happened, MessageBatch
from leasehold.service.config import ServiceConfig, SiteSpec
from leasehold.service.errors import CannotForget, NoSuchSite
from leasehold.service.messages.endpoints import GATEWAY
from leasehold.service.messages.files import GatewayFiles
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.messages.uplink import Uplink, check_gateway
from leasehold.service.opening import check_sites
from leasehold.service.store.rows import LeaseRow
from leasehold.testing.rows import submit

SUSPENDABLE, MIGRATABLE = LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, home_slots=1)
    world.exchange("far")
    yield world
    world.close()


def at_gateway(world: World, lease_id: int) -> LeaseRow:
    row = world.gateway.store.lease(lease_id)
    assert row is not None
    return row


def kept_messages(world: World) -> list[str]:
    rows = [*world.stores[GATEWAY].messages("far", 0, 100), *world.stores["far"].messages(GATEWAY, 0, 100)]
    return [json.loads(row.body)["kind"] for row in rows]


def test_messages_are_kept_until_they_were_acknowledged_and_no_longer(world: World) -> None:
    world.submit(SUSPENDABLE, 2, 500)
    assert kept_messages(world) == ["offer"]
    world.exchange("far")
    assert kept_messages(world) == ["offer", "report", "report"]  # that it starts, and that it runs
    world.exchange("far")  # the call acknowledges the offer, and its answer the reports
    assert kept_messages(world) == []


def test_a_deadline_that_passed_on_the_way_is_named(world: World) -> None:
    now_ms = world.gateway.now_ms
    [(row, _)] = world.gateway.do(submit("physics", MIGRATABLE, 2, 100, 64, deadline_ms=now_ms + 500))
    assert row.lease.site == "far"
    world.pass_time(1_000)
    world.exchange("far")
    world.exchange("far")
    late = at_gateway(world, row.lease.id)
    assert (late.lease.state, late.metadata.reason) == ("refused", "deadline-too-tight")


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 3_600_000])
def test_who_asks_for_now_starts_when_it_arrives_whatever_the_clocks_say(tmp_path: Path, ahead_ms: int) -> None:
    world = World(tmp_path, home_slots=1)
    world.sites["far"].pass_time_until(world.sites["far"].now_ms + max(0, -ahead_ms))
    world.gateway.pass_time_until(world.gateway.now_ms + max(0, ahead_ms))
    world.exchange("far")
    for kind in (SUSPENDABLE, MIGRATABLE):
        row = world.submit(kind, 2, 500)
        world.exchange("far")
        world.exchange("far")
        assert at_gateway(world, row.lease.id).lease.state == "running"
    world.close()


def test_guests_of_a_gateway_do_not_count_among_what_a_consumer_asks_for_itself(tmp_path: Path) -> None:
    world = World(tmp_path, home_slots=1)
    world.sites["far"] = live_of(world.stores["far"], "far", 4)
    world.sites["far"].engine.leases.requests.most = 1
    world.exchange("far")
    world.submit(SUSPENDABLE, 2, 500)
    world.submit(SUSPENDABLE, 2, 500)
    world.exchange("far")
    own = submit("physics", LeaseType.NON_PREEMPTABLE, 4, 500, 64, site="far")
    [(row, _)] = world.sites["far"].do(own)
    assert row.lease.state == "starting"
    world.sites["far"].pass_time(5_000)
    [(row, _)] = world.sites["far"].do(own)
    assert row.lease.state == "starting"
    world.close()


def test_a_drained_sites_guests_stay_its_own_over_a_restart_of_the_gateway(world: World) -> None:
    """They wait there in the state `held`, which at a gateway means something else."""
    row = world.submit(SUSPENDABLE, 4, 500)
    world.drain_or_resume("far")
    world.exchange("far")
    world.exchange("far")
    assert at_gateway(world, row.lease.id).lease.state == "held"
    world.gateway.restart()
    world.check()
    world.cancel(row.lease.id)
    world.make_whole()
    world.check_that_all_agree()
    assert at_gateway(world, row.lease.id).lease.state == "cancelled"


def test_after_a_restart_nothing_is_offered_before_a_site_was_heard_of(world: World) -> None:
    world.gateway.restart()
    row = world.submit(SUSPENDABLE, 4, 500)
    assert row.lease.state == "held"
    world.exchange("far")  # nothing but an about: and yet it is decided at once
    assert at_gateway(world, row.lease.id).lease.site == "far"


def test_a_message_that_is_not_understood_keeps_back_those_that_came_with_it(world: World) -> None:
    """Nothing is half taken in: after an update of the program all of them can be read."""
    far = world.sites["far"]
    world.submit(SUSPENDABLE, 2, 500)
    [offer] = world.stores[GATEWAY].messages("far", 0, 10)
    strangers: list[Any] = [
        {"kind": "song"},
        {},
        [],
        {"kind": "recall", "lease": "x"},
        {"kind": "offer", "lease": 2},
    ]
    for strange in strangers:
        messages = ((1, offer.body), (2, json.dumps(strange)))
        [answer] = far.do(MessageBatch(GATEWAY, messages, 0))
        assert isinstance(answer, InvalidField), strange
        assert rows_of(far) == []
        assert world.stores["far"].message_numbers(GATEWAY) == (0, 0)
    far.do(MessageBatch(GATEWAY, ((1, offer.body),), 0))
    assert len(rows_of(far)) == 1


def test_a_consumers_own_key_never_swallows_an_offer(world: World) -> None:
    far = world.sites["far"]
    far.do(submit("physics", LeaseType.NON_PREEMPTABLE, 1, 100, 64, site="far", key="gateway:1:0", request_hash="x"))
    world.submit(SUSPENDABLE, 2, 500)
    world.make_whole()
    world.check_that_all_agree()


def test_an_older_store_put_back_is_noticed_before_a_message_is_lost(world: World, tmp_path: Path) -> None:
    """A gateway that has forgotten what it wrote would write the same numbers again, unnoticed."""
    world.submit(SUSPENDABLE, 2, 500)
    world.exchange("far")
    world.call("far")
    call = world.on_the_line.pop().mail
    with store_at(tmp_path / "older.db") as older:
        gateway = live_of(older, "home", 1)
        [answer] = gateway.do(replace(call, messages=()))
    assert isinstance(answer, InvalidField)
    assert answer.field == "acknowledged"


def test_a_history_outlives_a_long_sleep(world: World) -> None:
    world.submit(SUSPENDABLE, 2, 500)
    before = list(world.gateway.gateway.knowledge.history("far").sent)
    world.gateway.now_ms += 3_600_000
    world.gateway.do()
    world.gateway.do(submit("physics", LeaseType.NON_PREEMPTABLE, 1, 100, 64, site="home"))
    world.gateway.now_ms += 3_600_000
    world.gateway.do()
    assert list(world.gateway.gateway.knowledge.history("far").sent) == before


class TestForgetting:
    def test_only_a_remote_site_that_is_silent(self, world: World) -> None:
        answers = world.gateway.do(*(ForgetSite(name, "operator") for name in ("far", "home", "nowhere")))
        assert [type(answer) for answer in answers] == [CannotForget, CannotForget, NoSuchSite]

    def test_everything_of_it_goes_and_what_was_there_has_failed(self, world: World) -> None:
        row = world.submit(SUSPENDABLE, 4, 500)
        world.gateway.do(Drain("far", "operator"), Happened(SiteFellSilent("far")))
        world.gateway.do(ForgetSite("far", "operator"))
        lost = at_gateway(world, row.lease.id)
        assert (lost.lease.state, lost.metadata.reason) == (LeaseState.FAILED, "machines-lost")
        assert world.stores[GATEWAY].message_numbers("far") == (0, 0)
        world.gateway.restart()
        assert "far" not in world.gateway.gateway.registry.remotes
        assert not world.gateway.gateway.registry.not_lending


class TestStarting:
    def test_a_gateway_starts_again_while_leases_are_at_sites_that_it_does_not_configure(self, world: World) -> None:
        world.submit(SUSPENDABLE, 4, 500)
        check_sites(ServiceConfig((SiteSpec("home", 2),)), world.stores[GATEWAY])

    def test_a_site_of_a_domain_that_nobody_knows_is_warned_of(self, world: World) -> None:
        """Neither `home`, which is configured, nor `far`, which has joined: only the one that is misspelt."""
        domains = (DomainSpec("both", ("home", "fra", "far")),)
        with capture_logs() as logs:
            check_sites(ServiceConfig((SiteSpec("home", 2),), domains=domains), world.stores[GATEWAY])
        (line,) = logs
        assert line["event"] == "a domain has a site that is not configured and has never joined"
        assert (line["log_level"], line["domain"], line["site"]) == ("warning", "both", "fra")

    def test_a_name_is_that_of_one_site_only(self, world: World) -> None:
        config = ServiceConfig((SiteSpec("home", 2), SiteSpec("far", 2)))
        with pytest.raises(InputError, match="'far' as a site that decides for itself"):
            check_sites(config, world.stores[GATEWAY])


class Line:
    """What an uplink needs of a federation, and a gateway that answers as it is told."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self.answers = list(answers)
        self.taken: list[MessageBatch] = []

    async def received(self, _endpoint: str) -> int:
        return 0

    async def status(self) -> SiteStatus:
        return SiteStatus("x", 1, 1, 1, "emulated", True, True, True, 0, 0, 0, 0, 0, 0)  # noqa: FBT003 - as it is told

    async def messages(self, *_which: object) -> list[Any]:
        await asyncio.Event().wait()
        return []

    async def receive(self, mail: MessageBatch) -> None:
        self.taken.append(mail)

    def answer(self, _request: httpx2.Request) -> httpx2.Response:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_an_uplink_outlives_whatever_is_answered_and_waits_longer_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = {"messages": [{"seq": 1, "body": {"kind": "recall", "lease": 1}}], "acknowledged": 0}
    line = Line(
        httpx2.ConnectError("nobody there"),
        httpx2.Response(200, text="<html>Sign in to this network</html>"),
        httpx2.Response(200, json={"messages": "none"}),
        httpx2.Response(503, text="later"),
        *[httpx2.Response(401)] * 3,
        httpx2.Response(200, json=good),
        httpx2.Response(401),
    )
    pauses: list[float] = []
    problems: list[str] = []

    async def lie_down(pause_s: float) -> None:
        pauses.append(pause_s)
        problems.append(uplink.problem)
        if not line.answers:
            raise asyncio.CancelledError

    uplink = Uplink(line, GatewayFiles(), line.status, "http://127.0.0.1:1", "secret", site="far")  # type: ignore[arg-type]  # as much as it needs
    transport = httpx2.MockTransport(line.answer)
    uplink._http = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:1")
    monkeypatch.setattr("leasehold.service.messages.uplink.asyncio.sleep", lie_down)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(uplink._again_and_again(uplink._ask_for_messages))
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 1]
    assert [mail.messages[0][0] for mail in line.taken] == [1]
    assert "nobody there" in problems[0]
    assert all(problems)


@pytest.mark.parametrize("url", ["http://gateway.example.org", "ftp://127.0.0.1", "gateway.example.org"])
def test_a_token_is_shown_only_where_nobody_can_read_it_on_the_way(url: str) -> None:
    with pytest.raises(InvalidField):
        check_gateway(url)


@pytest.mark.parametrize("url", ["https://gateway.example.org", "http://127.0.0.1:8470", "http://localhost:1"])
def test_and_there_it_is(url: str) -> None:
    check_gateway(url)
