"""Requests over several gateways, as the decision core sees them: as far as terms allow, and never in circles."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.peering import MOST_HOPS, AskWhen, Terms
from leasehold.gateway.sites import Reach, RemoteSite
from leasehold.model.effect import Decision, Effect, LeaseClosed, OfferLease, RecallLease
from leasehold.model.errors import InvalidField
from leasehold.model.event import CancelRequested, Event, SiteForgotten, SiteReported, Submitted
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.registry import routing_policy
from leasehold.routing.view import SiteLive
from leasehold.testing.worlds import site

S = LeaseState
ANYTHING = (Reach(100, 100),) * (MOST_HOPS - 1)
"""What a peer promises that promises too much: room for everything, however far away."""

Way = tuple[str, str]


def gateway_of(name: str, slots: int) -> Gateway:
    routing = Routing(routing_policy("rr")(Random(0)))
    return Gateway([site(f"site-{name}", slots)], routing, gateway_id=name)


class Federation:
    """Gateways that are each other's peers; every one says that behind it there is room for everything.

    ``slots`` are those of the one site of each, ``terms`` are those of the first with the second. Messages between two
    of them keep their order; ``deliver`` lets the oldest of one way arrive.
    """

    def __init__(self, slots: Mapping[str, int], terms: Mapping[Way, Terms]) -> None:
        self.gateways = {name: gateway_of(name, size) for name, size in slots.items()}
        self.terms = terms
        self.on_the_way: dict[Way, deque[Event]] = {}
        self.offers: list[tuple[str, str, Request]] = []
        self.closed: dict[tuple[str, int], tuple[LeaseState, Reason]] = {}
        self._invariants = {name: Invariants(one) for name, one in self.gateways.items()}
        self._numbers = dict.fromkeys(slots, 0)
        self._there: dict[tuple[str, str, int], int] = {}
        self._origin: dict[tuple[str, int], tuple[str, int]] = {}
        self._told: dict[tuple[str, int], SiteReported] = {}
        self.now_ms = 0
        for (here, there), one in terms.items():
            gateway = self.gateways[here]
            gateway.peering.agree(there, one)
            gateway.peering.begin_to_count(there, 0)
            gateway.peering.identify(there, there)
            gateway.join(
                RemoteSite(
                    there,
                    slots[there],
                    1,
                    is_peer=True,
                    live=SiteLive(slots[there]),
                    gateway_id=there,
                    beyond=ANYTHING,
                )
            )

    def submit(self, at: str, vms: int, kind: LeaseType = LeaseType.CANCELABLE) -> int:
        self._numbers[at] += 1
        number = self._numbers[at]
        self.tell(at, Submitted(Request(number, kind, vms, 60_000, self.now_ms, self.now_ms)))
        return number

    def tell(self, name: str, *events: Event) -> None:
        """Let a gateway know, and put what it wants done on its way."""
        self.now_ms += 1
        gateway = self.gateways[name]
        effects = gateway.handle(events, self.now_ms)
        self._invariants[name].check(effects, self.now_ms)
        self._carry_out(name, effects)
        self._report(name, effects)

    def _carry_out(self, name: str, effects: Iterable[Effect]) -> None:
        for one in effects:
            if isinstance(one, OfferLease):
                to = one.lease.site
                hop = self.gateways[name].peering.hop(one.lease)
                offered = replace(one.lease.request, from_peer=name, max_restarts=0, goes_back=True, **asdict(hop))
                self.offers.append((name, to, offered))
                self._send(name, to, Submitted(offered))
            elif isinstance(one, RecallLease):
                self._send(name, one.lease.site, CancelRequested(one.lease.id))

    def _send(self, by: str, to: str, event: Event) -> None:
        self.on_the_way.setdefault((by, to), deque()).append(event)

    def _report(self, name: str, effects: Iterable[Effect]) -> None:
        gone = {one.lease.id: one.reason for one in effects if isinstance(one, LeaseClosed)}
        leases: dict[int, Lease] = {one.lease.id: one.lease for one in effects if isinstance(one, LeaseClosed)}
        for lease_id, lease in (self.gateways[name].leases | leases).items():
            if lease_id in gone:
                self.closed[name, lease_id] = (lease.state, gone[lease_id])
            origin = lease.request.from_peer
            if (name, lease_id) not in self._origin:
                continue  # it began here, or a test has sent it
            _, number = self._origin[name, lease_id]
            reason = gone.get(lease_id, Reason.ROUTED)
            report = SiteReported(number, name, lease.state, reason, lease.reserved_ms, lease.first_start_ms)
            if self._told.get((name, lease_id)) != report:
                self._told[name, lease_id] = report
                self._send(name, origin, report)

    def deliver(self, way: Way) -> None:
        by, to = way
        event = self.on_the_way[way].popleft()
        if isinstance(event, Submitted):
            self._numbers[to] += 1
            number = self._numbers[to]
            self._there[by, to, event.request.id] = number
            self._origin[to, number] = (by, event.request.id)
            event = Submitted(replace(event.request, id=number, submit_ms=self.now_ms, ready_ms=self.now_ms))
        elif isinstance(event, CancelRequested):
            event = CancelRequested(self._there[by, to, event.lease_id])
        self.tell(to, event)

    @property
    def ways(self) -> list[Way]:
        """Those on which something is under way, in order."""
        return sorted(way for way, there in self.on_the_way.items() if there)

    def settle(self, choose: Any = min) -> None:
        """Deliver everything, until nothing is on its way any more."""
        for _ in range(10_000):
            if not self.ways:
                return
            self.deliver(choose(self.ways))
            self.check()
        raise AssertionError("requests go on and on")

    def where(self, at: str, number: int) -> list[str]:
        """Follow a lease from gateway to gateway, to the one that has it."""
        found = [at]
        while (lease := self.gateways[at].leases.get(number)) and lease.site in self.gateways:
            number = self._there.get((at, lease.site, number), 0)
            at = lease.site
            found.append(at)
        return found

    def check(self) -> None:
        for name, gateway in self.gateways.items():
            ids = [one.request.global_id or f"{name}/{one.id}" for one in gateway.leases.values()]
            assert len(set(ids)) == len(ids), f"{name} holds a request twice: {ids}"
            for lease in gateway.leases.values():
                self._is_allowed([*lease.request.via, name])
        for by, to, request in self.offers:
            assert to not in request.via, f"{request.global_id} is offered to {to}, which is on its path {request.via}"
            assert request.via[-1] == by
            assert len(request.via) <= self.terms[by, to].max_hops
            self._is_allowed([*request.via])

    def _is_allowed(self, path: list[str]) -> None:
        """Whether both ends of every hop of a path allow as many as it has."""
        for here, there in pairwise(path):
            for terms in (self.terms[here, there], self.terms[there, here]):
                assert len(path) - 1 <= terms.max_hops, f"a request goes {path}"


def both_ways(*pairs: tuple[str, str, int]) -> dict[Way, Terms]:
    """These are peers, and requests between them may make so many hops in all."""
    terms = {(here, there): Terms(max_hops=hops) for here, there, hops in pairs}
    return terms | {(there, here): one for (here, there), one in terms.items()}


CHAIN = both_ways(("a", "b", 3), ("b", "c", 3), ("c", "d", 3))
RING = both_ways(("a", "b", 7), ("b", "c", 7), ("c", "d", 7), ("d", "a", 7))
LAST_IS_WIDE = {"a": 1, "b": 1, "c": 1, "d": 8}


class TestAChain:
    def test_a_request_goes_as_far_as_it_has_to(self) -> None:
        all_ = Federation(LAST_IS_WIDE, CHAIN)
        number = all_.submit("a", 8)
        all_.settle()
        assert all_.where("a", number) == ["a", "b", "c", "d"]
        assert [(by, to, request.via, request.hop_limit) for by, to, request in all_.offers] == [
            ("a", "b", ("a",), 2),
            ("b", "c", ("a", "b"), 1),
            ("c", "d", ("a", "b", "c"), 0),
        ]
        assert {request.global_id for _, _, request in all_.offers} == {"a/1"}
        assert all_.gateways["a"].leases[number].state is S.RUNNING

    def test_the_end_is_told_from_gateway_to_gateway(self) -> None:
        all_ = Federation(LAST_IS_WIDE, CHAIN)
        number = all_.submit("a", 8)
        all_.settle()
        all_.tell("a", CancelRequested(number))
        all_.settle()
        assert [all_.closed[name, 1] for name in "abcd"] == [(S.CANCELLED, Reason.CANCELLED_BY_USER)] * 4
        assert not any(gateway.leases for gateway in all_.gateways.values())

    def test_so_is_a_refusal_with_its_reason(self) -> None:
        all_ = Federation({"a": 1, "b": 1, "c": 1}, both_ways(("a", "b", 3), ("b", "c", 3)))
        number = all_.submit("a", 4)
        all_.settle()
        assert all_.closed["a", number] == (S.REFUSED, Reason.WIDER_THAN_ANY_SITE)
        assert len(all_.offers) == 2

    @pytest.mark.parametrize("way", [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")])
    def test_the_terms_of_both_ends_of_every_hop_have_to_allow_it(self, way: Way) -> None:
        terms = both_ways(("a", "b", 2), ("b", "c", 2)) | {way: Terms(max_hops=1)}
        all_ = Federation({"a": 1, "b": 1, "c": 4}, terms)
        number = all_.submit("a", 4)
        all_.settle()
        assert all_.closed["a", number] == (S.REFUSED, Reason.HOP_LIMIT_REACHED)

    def test_what_one_gateway_has_of_another_counts_against_its_quota_wherever_it_went(self) -> None:
        terms = both_ways(("a", "b", 2), ("b", "c", 2)) | {("b", "a"): Terms(max_vms=5, max_hops=2)}
        all_ = Federation({"a": 1, "b": 1, "c": 8}, terms)
        all_.submit("a", 4)
        number = all_.submit("a", 4)
        all_.settle()
        assert all_.gateways["b"].peering.vms_here("a") == 4
        assert all_.gateways["c"].peering.vms_here("b") == 4
        assert all_.closed["a", number] == (S.REFUSED, Reason.PEER_QUOTA_EXCEEDED)

    def test_nobody_on_the_path_begins_again_what_is_at_a_peer_that_was_removed(self) -> None:
        all_ = Federation({"a": 1, "b": 1, "c": 4}, both_ways(("a", "b", 2), ("b", "c", 2)))
        number = all_.submit("a", 4)
        all_.settle()
        all_.tell("b", SiteForgotten("c"))
        all_.settle()
        assert all_.closed["a", number] == (S.FAILED, Reason.PEER_REMOVED)
        assert all_.gateways["c"].leases, "c has not heard of it"


class TestARing:
    def test_it_ends_where_it_would_come_back(self) -> None:
        all_ = Federation(dict.fromkeys("abcd", 1), RING)
        number = all_.submit("a", 4)
        all_.settle()
        assert all_.closed["a", number][0] is S.REFUSED
        assert len(all_.offers) == 6, "three hops each way"

    def test_the_other_way_is_tried_when_one_refuses(self) -> None:
        terms = RING | both_ways(("a", "b", 1))
        all_ = Federation({"a": 1, "b": 1, "c": 8, "d": 1}, terms)
        number = all_.submit("a", 8)
        all_.settle()
        assert all_.where("a", number) == ["a", "d", "c"]


class TestALyingPeer:
    """`b` is a gateway whose peers are the liar `m`, which is really called so, and `c`."""

    def told(self, **lie: Any) -> tuple[LeaseState, Reason] | None:
        all_ = Federation({"b": 4, "c": 1, "m": 1}, both_ways(("b", "c", 3), ("b", "m", 3)))
        all_.tell("b", Submitted(self.offer(1)))
        all_.tell("b", Submitted(self.offer(2, **lie)))
        return all_.closed.get(("b", 2))

    @staticmethod
    def offer(number: int, **lie: Any) -> Request:
        usual: dict[str, Any] = {"via": ("a", "m"), "global_id": f"a/{number}", "hop_limit": 1, "from_peer": "m"} | lie
        return Request(number, LeaseType.CANCELABLE, 1, 1_000, 0, 0, **usual)

    def test_what_is_said_rightly_is_taken(self) -> None:
        assert self.told() is None

    @pytest.mark.parametrize(
        ("lie", "reason"),
        [
            ({"via": ("a", "x")}, Reason.UNTRUSTED_PATH),
            ({"via": ("a",)}, Reason.UNTRUSTED_PATH),
            ({"via": ()}, Reason.UNTRUSTED_PATH),
            ({"via": ("a", "c")}, Reason.UNTRUSTED_PATH),
            ({"via": ("x", "m")}, Reason.UNTRUSTED_PATH),
            ({"via": ("m",)}, Reason.UNTRUSTED_PATH),
            ({"via": ("a", "b", "m")}, Reason.REQUEST_LOOP),
            ({"via": ("b", "m"), "global_id": "b/1"}, Reason.REQUEST_LOOP),
            ({"via": ("a", "x", "a", "m")}, Reason.REQUEST_LOOP),
            ({"via": ("a", "x", "y", "m")}, Reason.HOP_LIMIT_REACHED),
            ({"global_id": "a/1"}, Reason.DUPLICATE_REQUEST),
        ],
    )
    def test_what_cannot_be_so_is_refused_with_its_reason(self, lie: dict[str, Any], reason: Reason) -> None:
        assert self.told(**lie) == (S.REFUSED, reason)

    def test_a_lie_about_the_hop_limit_does_not_get_further_than_our_terms(self) -> None:
        all_ = Federation({"b": 1, "c": 4, "m": 1}, both_ways(("b", "c", 7), ("b", "m", 2)))
        all_.tell("b", Submitted(replace(self.offer(1, hop_limit=MOST_HOPS - 1), vms=4)))
        assert all_.closed["b", 1] == (S.REFUSED, Reason.HOP_LIMIT_REACHED)

    def test_who_takes_itself_out_of_a_path_is_found_out_while_the_request_is_there(self) -> None:
        """a > b > m > c > b, and m has said that it got the request from a."""
        ring = both_ways(("a", "b", 7), ("b", "m", 7), ("m", "c", 7), ("c", "b", 7))
        all_ = Federation({"a": 1, "b": 1, "m": 1, "c": 1}, ring)
        all_.submit("a", 4)
        while all_.offers[-1][:2] != ("b", "m"):
            all_.deliver(all_.ways[0])
        [offer] = all_.on_the_way["b", "m"]
        assert isinstance(offer, Submitted)
        lied = replace(offer.request, via=("a", "m", "c"), from_peer="c", id=99)
        all_._there["c", "b", 0] = 99
        all_.tell("b", Submitted(lied))
        assert all_.closed["b", 99] == (S.REFUSED, Reason.DUPLICATE_REQUEST)

    def test_a_peer_keeps_its_id_and_takes_nobody_elses(self) -> None:
        peering = Federation({"b": 4, "c": 1}, both_ways(("b", "c", 3))).gateways["b"].peering
        for name, gateway_id in (("c", "x"), ("d", "c"), ("d", "b")):
            with pytest.raises(InvalidField, match="gateway_id"):
                peering.identify(name, gateway_id)
        peering.restore(peering.snapshot())
        assert peering.ids == {"c": "c"}


def test_who_is_nearer_is_asked_first() -> None:
    terms = both_ways(("a", "b", 2), ("a", "c", 2), ("b", "d", 2))
    all_ = Federation({"a": 1, "b": 1, "c": 8, "d": 8}, terms)
    all_.submit("a", 8)
    assert all_.offers[0][:2] == ("a", "c"), "b has more to spare, if one believes it, and not by itself"


def test_where_it_is_not_known_who_one_is_a_request_makes_one_hop() -> None:
    gateway = Gateway([site("own", 1)], Routing(routing_policy("rr")(Random(0))))
    for name in ("north", "south"):
        gateway.peering.agree(name, Terms(max_hops=MOST_HOPS))
        gateway.join(RemoteSite(name, 8, 1, is_peer=True, live=SiteLive(8)))
    request = Request(1, LeaseType.CANCELABLE, 4, 1_000, 0, 0, from_peer="north")
    effects = gateway.handle([Submitted(request)], 0)
    assert [one.reason for one in effects if isinstance(one, Decision)] == [Reason.HOP_LIMIT_REACHED]


NAMES = "abcde"
PAIRS = [(here, there) for here in NAMES for there in NAMES if here < there]
TERMS = st.builds(
    Terms,
    st.sampled_from([AskWhen.NONE_CAN, AskWhen.NONE_CAN_NOW, AskWhen.NEVER]),
    st.sampled_from([None, None, 2, 5]),
    st.integers(1, MOST_HOPS),
)


@given(
    st.fixed_dictionaries({name: st.integers(1, 5) for name in NAMES}),
    st.dictionaries(st.sampled_from(PAIRS), st.tuples(TERMS, TERMS), max_size=len(PAIRS)),
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 7), st.booleans()), max_size=6),
    st.randoms(use_true_random=False),
)
@settings(max_examples=examples(100), deadline=None)
def test_in_any_graph_and_on_any_terms_no_request_goes_in_circles_or_is_held_twice(
    slots: dict[str, int],
    graph: dict[Way, tuple[Terms, Terms]],
    asked: list[tuple[str, int, bool]],
    draw: Random,
) -> None:
    """Whatever peers say they have, and in whatever order messages arrive: `Federation.check` holds after each."""
    terms = {way: both[0] for way, both in graph.items()}
    terms |= {(there, here): both[1] for (here, there), both in graph.items()}
    all_ = Federation(slots, terms)
    numbers: list[tuple[str, int]] = []
    for at, vms, is_cancelled in asked:
        numbers.append((at, all_.submit(at, vms)))
        for _ in range(draw.randrange(4)):
            if all_.ways:
                all_.deliver(draw.choice(all_.ways))
                all_.check()
        if is_cancelled:
            all_.tell(at, CancelRequested(draw.choice([number for where, number in numbers if where == at])))
    all_.settle(draw.choice)
    for at, number in numbers:
        way = all_.where(at, number)
        assert len(set(way)) == len(way)
        if number in all_.gateways[at].leases:
            last = way[-1]
            there = [
                one
                for one in all_.gateways[last].leases.values()
                if (one.request.global_id or f"{last}/{one.id}") == f"{at}/{number}"
            ]
            assert len(there) == 1, f"lease {number} of {at} went {way}, and is not there"
