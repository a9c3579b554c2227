"""Single courses of things between two peers, each of which could well go wrong."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.service.messages.line import rows_of
from tests.service.peers.triangle import World, site_of

from leasehold.gateway.peering import AskWhen
from leasehold.model.errors import InvalidField
from leasehold.model.event import SiteFellSilent
from leasehold.model.lease import LeaseState
from leasehold.service.commands import Drain, ForgetSite, Happened, KeepPeer, MessageBatch, RemovePeer
from leasehold.service.engine.engine import Engine
from leasehold.service.errors import CannotForget, CannotRemovePeer, NoSuchPeer, NoSuchSite
from leasehold.service.messages.endpoints import asking
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.peers.summary import add_up, status_for
from leasehold.service.store.rows import LeaseRow

BOTH_SILENT = frozenset({"b", asking("b"), "a", asking("a"), "c", asking("c")})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.exchange_all()
    yield world
    world.close()


def sent_to_c(world: World) -> tuple[LeaseRow, LeaseRow]:
    """A lease of `a` that only `c` is wide enough for, and what `c` made of it."""
    row = world.submit("a", 4, 60_000)
    world.exchange("c", "a")
    world.exchange("c", "a")
    [guest] = world.guests("c", "a")[row.lease.id]
    return world.row("a", row.lease.id), guest


class TestTheirs:
    def test_a_guest_is_nobodys_here_but_the_peers(self, world: World) -> None:
        lease, guest = sent_to_c(world)
        assert (lease.lease.site, lease.lease.state) == ("c", "running")
        assert (guest.lease.request.consumer, guest.lease.request.group) == ("peer/a/physics", "")
        assert (guest.metadata.origin, guest.metadata.origin_id) == ("peer/a", lease.lease.id)

    def test_it_says_so_in_the_journal_of_who_sent_it(self, world: World) -> None:
        lease, _ = sent_to_c(world)
        lines = world.stores["a"].journal(0, 100, lease_id=lease.lease.id)
        assert [(line.what, line.reason, line.rule) for line in lines[1:2]] == [("dispatch", "sent-to-peer", "peers")]

    def test_an_owner_of_the_lender_comes_first(self, world: World) -> None:
        lease, _ = sent_to_c(world)
        world.submit_at("c", 4, 1_000)
        world.exchange("c", "a")
        assert world.row("a", lease.lease.id).lease.preemptions == 1

    def test_what_is_more_than_agreed_is_refused_and_comes_back(self, world: World) -> None:
        world.agree("c", "a", max_vms=3)
        row = world.submit("a", 4, 1_000)
        assert row.lease.site == "c"  # it has not heard of that yet
        for _ in range(2):
            world.exchange("c", "a")
        refused = world.row("a", row.lease.id)
        assert (refused.lease.state, refused.metadata.reason) == ("refused", "peer-quota-exceeded")
        world.exchange("c", "a")
        assert world.submit("a", 4, 1_000).metadata.reason == "wider-than-any-site"

    def test_a_message_that_is_not_understood_breaks_nothing(self, world: World) -> None:
        world.submit("a", 4, 1_000)
        [message] = world.stores["a"].messages("c", 0, 10)
        for field in ("vms", "duration_ms", "ready_ms", "name", "command", "consumer"):
            for value in (2**80, {"x": 1}, "\0", [3]):
                strange = json.loads(message.body) | {field: value}
                answer = world.do("c", MessageBatch(asking("a"), ((1, json.dumps(strange)),), 0))
                assert isinstance(answer, InvalidField), (field, value)
                assert rows_of(world.gateways["c"]) == []
                assert world.stores["c"].message_numbers(asking("a")) == (0, 0)

    def test_what_asks_for_nonsense_is_refused(self, world: World) -> None:
        world.submit("a", 4, 1_000)
        [message] = world.stores["a"].messages("c", 0, 10)
        strange = json.loads(message.body) | {"vms": -1}
        assert world.do("c", MessageBatch(asking("a"), ((1, json.dumps(strange)),), 0)) is None
        world.exchange("c", "a")
        [row] = rows_of(world.gateways["a"])
        assert (row.lease.state, row.metadata.reason) == ("refused", "policy-refused")


class TestNobodyElse:
    def test_a_gateway_that_is_no_peer_is_not_heard(self, world: World) -> None:
        world.do("a", RemovePeer("c", frozenset(), "operator"))
        world.call("c", "a")
        answer = world.do("a", world.on_the_line.pop().mail)
        assert isinstance(answer, InvalidField)
        assert "leasehold peer add c" in str(answer)

    def test_nor_does_one_that_is_no_peer_get_anything(self, world: World) -> None:
        world.submit("a", 4, 1_000)
        world.call("c", "a")
        world.deliver(0)
        world.do("c", RemovePeer("a", frozenset(), "operator"))
        [offers] = world.on_the_line
        assert isinstance(world.do("c", offers.mail), InvalidField)
        assert rows_of(world.gateways["c"]) == []

    def test_a_site_is_no_peer(self, world: World) -> None:
        world.call("c", "a")
        mail = world.on_the_line.pop().mail
        assert mail.status is not None
        answer = world.do("a", replace(mail, status=replace(mail.status, gateway_id="")))
        assert isinstance(answer, InvalidField)

    @pytest.mark.parametrize("name", ["gateway", site_of("a")])
    def test_a_peer_has_a_name_of_its_own(self, world: World, name: str) -> None:
        answer = world.do("a", KeepPeer(name, "", "none-can", None, 1, "operator", "line"))
        assert isinstance(answer, InvalidField)

    def test_a_peer_is_no_site_to_be_drained_or_forgotten(self, world: World) -> None:
        assert isinstance(world.do("a", Drain("c", "operator")), NoSuchSite)
        assert isinstance(world.do("a", ForgetSite("c", "operator")), NoSuchSite | CannotForget)

    def test_whatever_is_agreed_is_there_again_after_a_restart(self, world: World) -> None:
        world.agree("a", "c", AskWhen.NONE_CAN_NOW, 7)
        world.gateways["a"].restart()
        terms = world.gateways["a"].gateway.peering.terms["c"]
        assert (terms.ask, terms.max_vms) == (AskWhen.NONE_CAN_NOW, 7)
        assert world.submit("a", 4, 1_000).lease.state == "held"  # until it has been heard of
        world.exchange("c", "a")
        assert world.row("a", 1).lease.site == "c"


class TestParting:
    def test_with_somebody_unknown(self, world: World) -> None:
        assert isinstance(world.do("a", RemovePeer("x", BOTH_SILENT, "operator")), NoSuchPeer)

    def test_not_while_leases_are_there_and_it_is_in_touch(self, world: World) -> None:
        sent_to_c(world)
        for name, other in (("a", "c"), ("c", "a")):
            answer = world.do(name, RemovePeer(other, frozenset(), "operator"))
            assert isinstance(answer, CannotRemovePeer)
        assert "leases of ours are there (1)" in str(world.do("a", RemovePeer("c", frozenset(), "operator")))
        assert "leases of its own are here (1)" in str(world.do("c", RemovePeer("a", frozenset(), "operator")))

    def test_what_is_there_has_failed_and_what_is_here_is_ended(self, world: World) -> None:
        lease, guest = sent_to_c(world)
        world.do("a", RemovePeer("c", BOTH_SILENT, "operator"))
        lost = world.row("a", lease.lease.id)
        assert (lost.lease.state, lost.metadata.reason) == (LeaseState.FAILED, "peer-removed")
        world.do("c", RemovePeer("a", BOTH_SILENT, "operator"))
        assert world.row("c", guest.lease.id).lease.state == LeaseState.CANCELLED
        for name, other in (("a", "c"), ("c", "a")):
            for endpoint in (other, asking(other)):
                assert world.stores[name].message_numbers(endpoint) == (0, 0)
                assert not world.stores[name].messages(endpoint, 0, 10)
            world.gateways[name].restart()
            assert other not in world.gateways[name].gateway.registry.remotes
            assert other not in {row.name for row in world.stores[name].peers()}

    def test_both_may_begin_anew(self, world: World) -> None:
        sent_to_c(world)
        for name, other in (("a", "c"), ("c", "a")):
            world.do(name, RemovePeer(other, BOTH_SILENT, "operator"))
            world.agree(name, other)
        world.exchange_all()
        lease, _ = sent_to_c(world)
        world.make_whole()
        world.check()
        assert world.row("a", lease.lease.id).lease.state == "completed"
        assert not world.stores["c"].messages(asking("a"), 0, 10)

    @pytest.mark.parametrize(
        ("who", "other", "refused"), [("a", "c", [("a", "c"), ("c", "a")]), ("c", "a", [("c", "a")])]
    )
    def test_where_only_one_begins_anew_nothing_is_passed_over_in_silence(
        self, world: World, who: str, other: str, refused: list[tuple[str, str]]
    ) -> None:
        sent_to_c(world)
        world.do(who, RemovePeer(other, BOTH_SILENT, "operator"))
        world.agree(who, other)
        for by, to in ((who, other), (other, who)):
            world.on_the_line.clear()
            world.call(by, to)
            answer = world.do(to, world.on_the_line.pop().mail)
            assert isinstance(answer, InvalidField) == ((by, to) in refused)

    def test_a_peer_that_is_silent_keeps_what_it_has(self, world: World) -> None:
        lease, _ = sent_to_c(world)
        world.do("a", Happened(SiteFellSilent("c")))
        world.pass_time(30_000)
        assert world.row("a", lease.lease.id).lease.site == "c"
        assert world.submit("a", 4, 1_000).lease.state == "held"
        world.make_whole()
        world.check_that_all_agree()


COUNTS = (
    "local_vms",
    "guest_vms",
    "waiting_local",
    "waiting_guests",
    "waiting_local_vms",
    "waiting_guest_vms",
)


def place(slots: int, speed_mips: int = 1, *, can: str = "suspend migrate", **said: Any) -> SiteStatus:
    counts = dict.fromkeys(COUNTS, 0)
    able: dict[str, Any] = {"can_suspend": "suspend" in can, "can_migrate": "migrate" in can, "lends": True}
    return SiteStatus("", slots, speed_mips, 1, "emulated", **counts | able | said)


class TestWhatAPeerIsTold:
    def told(self, *lending: SiteStatus, most_vms: int | None = None, here_vms: int = 0) -> Any:
        return add_up(list(lending), "x", 1, most_vms=most_vms, here_vms=here_vms)

    def test_how_much_there_is_and_how_much_of_it_for_one_lease(self) -> None:
        told = self.told(place(8, local_vms=6), place(4, guest_vms=1))
        assert (told.slots, told.free_vms, told.widest_vms, told.widest_free_vms) == (12, 5, 8, 3)

    def test_the_speed_that_holds_wherever_a_lease_is_put(self) -> None:
        assert self.told(place(8, 4), place(4, 2)).speed_mips == 2

    def test_what_some_site_can_do_and_never_two_sites_halves_of_it(self) -> None:
        told = self.told(place(8, can="suspend"), place(4, can="migrate"))
        assert (told.can_suspend, told.can_migrate) == (True, False)
        assert self.told(place(8, can=""), place(4)).can_migrate

    def test_no_more_than_was_agreed(self) -> None:
        told = self.told(place(8), most_vms=5, here_vms=2)
        assert (told.slots, told.widest_vms, told.widest_free_vms, told.lends) == (8, 5, 3, True)
        assert not self.told(place(8), most_vms=0).lends

    def test_nothing_of_a_site_that_does_not_lend_unless_none_does(self) -> None:
        told = self.told(place(8, lends=False), place(4))
        assert (told.slots, told.widest_vms, told.lends) == (4, 4, True)
        told = self.told(place(8, lends=False), place(4, lends=False))
        assert (told.slots, told.widest_vms, told.widest_free_vms, told.lends) == (12, 8, 0, False)

    def test_that_nothing_is_lent_where_no_site_lends(self, world: World) -> None:
        world.drain_or_resume("c")
        engine: Engine = world.gateways["c"].engine
        assert not status_for(engine, engine.peers.rows["a"], "x").lends
        world.exchange("c", "a")
        assert world.submit("a", 4, 1_000).lease.state == "held"
        world.drain_or_resume("c")
        world.exchange("c", "a")
        assert world.row("a", 1).lease.site == "c"
