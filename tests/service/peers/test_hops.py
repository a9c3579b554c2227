"""Requests over several gateways, each with a store of its own, and what comes of them though any of them dies."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from tests.service.messages.line import rows_of
from tests.service.peers.triangle import World, site_of

from leasehold.gateway.sites import Reach
from leasehold.model.errors import InvalidField
from leasehold.model.event import SiteFellSilent
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType
from leasehold.service.api.views import show_lease
from leasehold.service.commands import Happened, KeepPeer, MessageBatch, RemovePeer
from leasehold.service.messages.endpoints import asking, gateways_passed
from leasehold.service.peers.summary import status_for
from leasehold.service.store.filters import EVERYTHING, UsageFilter
from leasehold.service.store.rows import LeaseRow

SLOTS = {"a": 1, "b": 2, "c": 3, "d": 4}
STEPS = 8
RUNS_MS = 4_000
S = LeaseState


def chain(folder: Path, names: str = "abcd", *, ring: bool = False, hops: int = 3) -> World:
    """Gateways of which each is the peer of the next, and the last that of the first in a ring."""
    lines = [*pairwise(names), *([(names[-1], names[0])] if ring else [])]
    ways = [way for line in lines for way in (line, line[::-1])]
    world = World(folder, slots={name: SLOTS[name] for name in names}, ways=ways, hops=hops)
    for _ in names:
        world.exchange_all()
    return world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = chain(tmp_path)
    yield one
    one.close()


def story(world: World, number: int = 1) -> list[LeaseRow]:
    """Follow a lease of ``a`` from gateway to gateway, as each of them has it."""
    row = world.row("a", number)
    found = [row]
    while row.lease.site in world.slots:
        before = list(world.slots)[len(found) - 1]
        there = world.guests(row.lease.site, before).get(row.lease.id, [])
        if not there:
            break
        [row] = there
        found.append(row)
    return found


def settle(world: World) -> None:
    """Carry messages until nothing new comes of it."""
    for _ in range(20):
        before = [rows_of(live) for live in world.gateways.values()]
        world.exchange_all()
        if before == [rows_of(live) for live in world.gateways.values()]:
            return


class TestAChainOfFour:
    def test_what_only_the_last_has_room_for_gets_there_and_everybody_follows_it(self, world: World) -> None:
        world.submit("a", 4, RUNS_MS)
        settle(world)
        rows = story(world)
        assert [row.lease.site for row in rows] == ["b", "c", "d", site_of("d")]
        assert {row.lease.state for row in rows} == {S.RUNNING}
        first = world.identity("a")
        assert [row.lease.request.global_id for row in rows] == ["", *[f"{first}/1"] * 3]
        assert [len(row.lease.request.via) for row in rows] == [0, 1, 2, 3]
        assert [row.lease.request.hop_limit for row in rows] == [0, 2, 1, 0]
        world.make_whole()
        world.check_that_all_agree()
        world.check_that_nothing_ran_twice()
        assert {row.lease.state for row in story(world)} == {S.COMPLETED}

    def test_each_shows_by_which_gateways_it_came_and_to_which_it_went_on(self, world: World) -> None:
        world.submit("a", 4, RUNS_MS)
        settle(world)
        shown = [show_lease(row) for row in story(world)]
        assert [one.came_by for one in shown] == [(), ("a",), ("a", "b"), ("a", "b", "c")]
        assert [one.onward for one in shown] == [("c", "d"), ("d",), (), ()]
        assert shown[3].consumer == "peer/c/peer/b/peer/a/physics"

    def test_each_accounts_for_what_its_own_neighbour_had(self, world: World) -> None:
        world.submit("a", 4, RUNS_MS)
        settle(world)
        for name, other in (("b", "a"), ("c", "b"), ("d", "c")):
            assert world.gateways[name].gateway.peering.vms_here(other) == 4
        world.make_whole()
        for name, other in (("b", "a"), ("c", "b"), ("d", "c")):
            asking_it = world.gateways[name].gateway.peering.asking[other]
            assert (asking_it.offered, asking_it.refused) == (1, 0)
            assert world.gateways[name].gateway.peering.vms_here(other) == 0

    def test_the_use_of_each_is_on_the_account_of_its_neighbour(self, world: World) -> None:
        """The first accounts for its user, from when it hears that the machines run until it hears that they do not."""
        world.submit("a", 4, RUNS_MS)
        world.make_whole()
        used = {name: store.usage(UsageFilter(EVERYTHING, 0, 1 << 60)) for name, store in world.stores.items()}
        paths = {name: [(row.path, row.site, row.vms) for row in rows] for name, rows in used.items()}
        assert paths == {
            "a": [("physics", "b", 4)],
            "b": [("peer/a/physics", "c", 4)],
            "c": [("peer/b/peer/a/physics", "d", 4)],
            "d": [("peer/c/peer/b/peer/a/physics", site_of("d"), 4)],
        }
        for rows in used.values():
            [row] = rows
            assert abs(row.end_ms - row.begin_ms - RUNS_MS) <= 5_000, "a second for each exchange that it takes"

    def test_a_preemption_at_the_last_is_told_to_the_first(self, world: World) -> None:
        world.submit("a", 4, RUNS_MS)
        settle(world)
        world.submit_at("d", 4, 1_000)
        settle(world)
        assert [row.lease.preemptions for row in story(world)] == [1] * 4
        assert {row.metadata.reason for row in story(world)} == {"local-needs-room"}
        world.make_whole()
        assert {row.lease.state for row in story(world)} == {S.COMPLETED}

    def test_an_extension_is_decided_by_the_last_and_known_to_all(self, world: World) -> None:
        world.submit("a", 4, RUNS_MS)
        settle(world)
        asked = world.extend("a", 1, RUNS_MS)
        assert isinstance(asked, LeaseRow)
        assert asked.lease.wanted_ms == 2 * RUNS_MS
        settle(world)
        assert [row.lease.request.duration_ms for row in story(world)] == [2 * RUNS_MS] * 4
        assert [row.metadata.reason for row in story(world)] == ["extended"] * 4
        world.make_whole()
        world.check_that_all_agree()
        assert {row.lease.state for row in story(world)} == {S.COMPLETED}

    def test_the_refusal_of_the_last_comes_back_with_its_reason(self, world: World) -> None:
        world.submit("a", 4, RUNS_MS, LeaseType.NON_PREEMPTABLE)
        settle(world)
        world.submit_at("d", 4, RUNS_MS)
        world.extend("a", 1, RUNS_MS)
        settle(world)
        assert [row.lease.request.duration_ms for row in story(world)] == [RUNS_MS] * 4
        decisions = [line for line in world.stores["a"].tail(1, 100) if line.what == "deny"]
        assert [(line.reason, line.site) for line in decisions] == [("room-in-use", "b")]

    def test_a_cancellation_goes_all_the_way_and_back(self, world: World) -> None:
        world.submit("a", 4, RUNS_MS)
        settle(world)
        world.cancel("a", 1)
        settle(world)
        assert [(row.lease.state, row.metadata.reason) for row in story(world)] == [
            (S.CANCELLED, "cancelled-by-user")
        ] * 4

    def test_what_is_at_a_peer_that_one_of_them_removes_has_failed_for_all_before_it(self, world: World) -> None:
        world.submit("a", 4, RUNS_MS)
        settle(world)
        world.do("c", RemovePeer("d", frozenset({"d", asking("d")}), "operator"))
        world.ways = [way for way in world.ways if "d" not in way]
        settle(world)
        assert {(row.lease.state, row.metadata.reason) for row in story(world)[:3]} == {(S.FAILED, "peer-removed")}

    def test_a_wider_one_is_refused_with_the_reason_of_the_last(self, world: World) -> None:
        row = world.submit("a", 5, RUNS_MS)
        assert row.metadata.reason == "wider-than-any-site", "nobody says that it had room for it"


class TestWhatIsTold:
    def test_a_gateway_tells_its_peer_what_is_beyond_it_but_not_what_is_the_peers_own(self, world: World) -> None:
        engine = world.gateways["b"].engine
        told = status_for(engine, engine.peers.rows["a"], "b")
        assert [place.slots for place in told.beyond] == [3, 4]
        told = status_for(engine, engine.peers.rows["c"], "b")
        assert [place.slots for place in told.beyond] == [1]

    def test_no_more_than_the_terms_with_both_allow(self, world: World) -> None:
        engine = world.gateways["b"].engine
        row = engine.peers.rows["a"]
        assert [one.slots for one in status_for(engine, replace(row, max_hops=2), "b").beyond] == [3]
        assert status_for(engine, replace(row, max_hops=1), "b").beyond == ()
        assert [one.slots for one in status_for(engine, replace(row, max_vms=2), "b").beyond] == [2, 2]
        assert not any(one.lends for one in status_for(engine, replace(row, max_vms=0), "b").beyond)

    def test_what_is_free_beyond_is_as_it_was_told_last(self, world: World) -> None:
        assert [place.free_vms for place in _beyond(world, "b", "a")] == [3, 4]
        world.submit_at("d", 4, RUNS_MS)
        for _ in range(3):
            world.exchange_all()
        assert [place.free_vms for place in _beyond(world, "b", "a")] == [3, 0]

    def test_what_waited_for_a_silent_peer_goes_on_though_only_something_beyond_it_lends(self, world: World) -> None:
        for name in "bc":
            world.drain_or_resume(name)
        for _ in range(3):
            world.exchange_all()
        world.do("a", Happened(SiteFellSilent("b")))
        assert world.submit("a", 4, RUNS_MS).lease.state is S.HELD
        world.exchange("b", "a")
        assert world.row("a", 1).lease.site == "b"

    def test_what_is_not_there_any_more_is_forgotten_in_a_ring_too(self, tmp_path: Path) -> None:
        """Each gateway hears of itself from behind, at most so many hops away: no number goes round for ever."""
        world = chain(tmp_path, ring=True, hops=7)
        settle(world)
        assert any(place.slots == 4 for place in _beyond(world, "b", "a"))
        for other in ("c", "a"):
            world.do("d", RemovePeer(other, frozenset({other, asking(other)}), "operator"))
            world.do(other, RemovePeer("d", frozenset({"d", asking("d")}), "operator"))
        world.ways = [way for way in world.ways if "d" not in way]
        for _ in range(8):
            world.exchange_all()
        assert not any(place.slots == 4 for place in _beyond(world, "b", "a"))
        world.close()


def _beyond(world: World, name: str, peer: str) -> tuple[Reach, ...]:
    """What ``peer`` knows of what is beyond ``name``."""
    return world.gateways[peer].gateway.registry.remotes[name].beyond


class TestARing:
    def test_a_request_that_nobody_takes_does_not_go_round(self, tmp_path: Path) -> None:
        world = chain(tmp_path, ring=True, hops=7)
        for name in "bcd":
            world.drain_or_resume(name)
        world.submit("a", 4, RUNS_MS)
        settle(world)
        world.check()
        assert world.row("a", 1).lease.state is S.HELD
        world.make_whole()
        world.check_that_all_agree()
        world.check_that_nothing_ran_twice()
        assert world.row("a", 1).lease.state is S.COMPLETED
        world.close()


class TestALyingPeer:
    def offer(self, world: World, **lie: object) -> tuple[str, str]:
        """Let ``b`` ask ``c`` for something, with a lie in it; gives what ``c`` made of it."""
        world.submit("b", 3, RUNS_MS)
        [message] = world.stores["b"].messages("c", 0, 10)
        said = MessageBatch(asking("b"), ((message.seq, json.dumps(json.loads(message.body) | lie)),), 0)
        assert world.do("c", said) is None
        [row] = rows_of(world.gateways["c"])
        return row.lease.state.value, row.metadata.reason

    def test_a_path_that_does_not_end_with_who_sends_it(self, world: World) -> None:
        assert self.offer(world, via=[world.identity("a")]) == ("refused", "untrusted-path")

    def test_a_path_that_passes_us(self, world: World) -> None:
        via = [world.identity("c"), world.identity("b")]
        lie = {"via": via, "global_id": f"{via[0]}/7"}
        assert self.offer(world, **lie) == ("refused", "request-loop")

    def test_its_gateway_is_told_and_goes_on_without_us(self, world: World) -> None:
        self.offer(world, via=[world.identity("a")])
        settle(world)
        assert world.row("b", 1).metadata.reason == "untrusted-path"

    def test_a_status_with_the_id_of_somebody_else(self, world: World) -> None:
        world.call("b", "c")
        mail = world.on_the_line.pop().mail
        assert mail.status is not None
        for lie in (world.identity("c"), world.identity("d"), "other"):
            answer = world.do("c", replace(mail, status=replace(mail.status, gateway_id=lie)))
            assert isinstance(answer, InvalidField)
            assert answer.field == "gateway_id"


@pytest.mark.storm
@pytest.mark.parametrize(("who", "lost", "cancels"), list(product("abc", [False, True], [False, True])))
def test_whoever_is_killed_or_cut_off_at_whatever_step_all_agree_and_nothing_runs_twice(
    tmp_path: Path,
    who: str,
    lost: bool,  # noqa: FBT001 - it is a case
    cancels: bool,  # noqa: FBT001 - it is a case
) -> None:
    for at_step in range(STEPS):
        folder = tmp_path / str(at_step)
        folder.mkdir()
        world = chain(folder, "abc", hops=2)
        world.submit("a", 3, RUNS_MS, LeaseType.SUSPENDABLE)
        for step in range(STEPS):
            way = world.ways[step % len(world.ways)]
            if step == at_step:
                _interrupt(world, who, way, lost=lost)
            else:
                world.exchange(*way)
            if cancels and step == STEPS // 2:
                world.cancel("a", 1)
            world.pass_time(200)
            world.check()
        world.make_whole()
        world.check()
        world.check_that_all_agree()
        world.check_that_nothing_ran_twice()
        rows = story(world)
        assert {row.lease.state for row in rows} == {S.CANCELLED if cancels else S.COMPLETED}
        assert cancels or len(rows) == 3
        for live in world.gateways.values():
            assert not any(live.gateway.peering.here.values())
            assert not live.gateway.peering.snapshot()["ids"].keys() ^ live.engine.peers.rows.keys()
        world.close()


@pytest.mark.storm
@pytest.mark.parametrize(("who", "lost"), list(product("abc", [False, True])))
def test_whoever_is_killed_or_cut_off_at_whatever_step_all_are_extended_by_the_same(
    tmp_path: Path,
    who: str,
    lost: bool,  # noqa: FBT001 - it is a case
) -> None:
    for at_step in range(STEPS):
        folder = tmp_path / str(at_step)
        folder.mkdir()
        world = chain(folder, "abc", hops=2)
        world.submit("a", 3, RUNS_MS)
        settle(world)
        world.extend("a", 1, RUNS_MS)
        for step in range(STEPS):
            way = world.ways[step % len(world.ways)]
            if step == at_step:
                _interrupt(world, who, way, lost=lost)
            else:
                world.exchange(*way)
            world.check()
        settle(world)
        assert [row.lease.request.duration_ms for row in story(world)] == [2 * RUNS_MS] * 3
        assert [line.what for line in world.stores["a"].tail(1, 100)].count("extend") == 1
        world.make_whole()
        world.check_that_all_agree()
        world.check_that_nothing_ran_twice()
        world.close()


def _interrupt(world: World, who: str, way: tuple[str, str], *, lost: bool) -> None:
    """Kill a gateway while one calls another; the call is lost, or its answer is."""
    world.call(*way)
    if not lost:
        world.deliver(0)
    world.on_the_line.clear()
    world.gateways[who].restart()
    world.gateways[who].look()


def test_a_request_over_several_gateways_carries_the_name_of_each() -> None:
    assert gateways_passed("peer/c/peer/b/peer/a/physics") == ("a", "b", "c")
    assert gateways_passed("peer/c/atlas/alice") == ("c",)
    assert gateways_passed("alice") == gateways_passed("atlas/peer/a/x") == ()


def test_terms_are_kept_over_a_restart(world: World) -> None:
    world.do("a", KeepPeer("b", "", "none-can", None, 5, "operator", "line"))
    world.gateways["a"].restart()
    peering = world.gateways["a"].gateway.peering
    assert peering.terms["b"].max_hops == 5
    assert peering.ids == {"b": world.identity("b")}
