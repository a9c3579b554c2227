"""Peer gateways, as the decision core sees them: own sites first, one hop, so much and no more, and rates."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.peering import PEERS, AskWhen, Terms
from leasehold.gateway.restart import take_up
from leasehold.gateway.sites import RemoteSite
from leasehold.model.effect import Decision, Effect, LeaseClosed, OfferLease, StartLease
from leasehold.model.event import (
    CancelRequested,
    Event,
    LeaseEnded,
    LendingChanged,
    SiteFellSilent,
    SiteForgotten,
    SiteReported,
    Submitted,
    Tick,
)
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.estimators import StreamEstimator
from leasehold.routing.moments import StreamMoments, together
from leasehold.routing.registry import ROUTING_POLICIES, routing_policy
from leasehold.routing.view import SiteLive
from leasehold.testing.worlds import site

S = LeaseState
KINDS = st.sampled_from(list(LeaseType))
DAY_MS = 86_400_000
Step = tuple[int, LeaseType] | tuple[LeaseState, Reason] | bool
REPORTS = [
    (S.RUNNING, Reason.ROOM_FREE),
    (S.FAILED, Reason.MACHINES_LOST),
    (S.REFUSED, Reason.ROOM_IN_USE),
    (S.CANCELLED, Reason.HANDED_BACK),
]
STEPS: st.SearchStrategy[Step] = st.one_of(st.tuples(st.integers(1, 8), KINDS), st.sampled_from(REPORTS), st.booleans())
"""A request; what the peer says of the last lease that it has; whether the own site lends."""


def peer(name: str = "north", slots: int = 8, free: int | None = None) -> RemoteSite:
    return RemoteSite(name, slots, 1, is_peer=True, live=SiteLive(slots if free is None else free))


def begun_by(effects: Iterable[Effect]) -> list[int]:
    return [one.lease.id for one in effects if isinstance(one, StartLease)]


class Told:
    """A gateway with one site of its own, whose every instant is checked, and what it wanted done."""

    def __init__(
        self, *peers: RemoteSite, own: int = 4, policy: str = "rr", try_elsewhere: bool = True, **terms: Terms
    ) -> None:
        self._own, self._policy, self._try_elsewhere = own, policy, try_elsewhere
        self._terms = {one.name: terms.get(one.name, Terms()) for one in peers} | terms
        self.gateway = self._make()
        for one in peers:
            self.gateway.join(one)
        self.now_ms = 0
        self._numbers = 0
        self._invariants = Invariants(self.gateway)

    def _make(self) -> Gateway:
        policy = routing_policy(self._policy)(Random(0))
        routing = Routing(policy, try_elsewhere=self._try_elsewhere, max_restarts=3)
        gateway = Gateway([site("own", self._own)], routing)
        for name, terms in self._terms.items():
            gateway.peering.agree(name, terms)
            gateway.peering.begin_to_count(name, 0)
        return gateway

    def tell(self, *events: Event) -> list[Effect]:
        self.now_ms += 1
        effects = self.gateway.handle(events, self.now_ms)
        self._invariants.check(effects, self.now_ms)
        return effects

    def submit(self, vms: int = 2, kind: LeaseType = LeaseType.SUSPENDABLE, via: str = "", **said: Any) -> list[Effect]:
        self._numbers += 1
        now_ms = self.now_ms + 1
        request = Request(self._numbers, kind, vms, 60_000, now_ms, now_ms, from_peer=via, **said)
        return self.tell(Submitted(request))

    def report(self, state: LeaseState, reason: Reason = Reason.ROOM_FREE, number: int = 0) -> list[Effect]:
        """Whoever has it says what has become of a lease, the last one unless another is named."""
        lease = self.gateway.leases[number or self._numbers]
        first_ms = -1 if state in (S.WAITING, S.REFUSED, S.HELD) else 1
        return self.tell(SiteReported(lease.id, lease.site, state, reason, first_start_ms=first_ms))

    def where(self, number: int = 0) -> str:
        return self.gateway.leases[number or self._numbers].site

    def restart(self) -> None:
        before = self.gateway
        self.gateway = self._make()
        for remote in before.registry.remotes.values():
            self.gateway.join(replace(remote, leases={}))
        self.gateway.registry.not_lending = before.registry.not_lending
        self.gateway.restore(before.snapshot())
        self.gateway.knowledge.restore(before.knowledge.snapshot())
        take_up(self.gateway, before.leases.values(), self.now_ms)
        self._invariants = Invariants(self.gateway)
        self.tell(Tick())


def decisions(effects: Iterable[Effect]) -> list[tuple[Outcome, Reason, str, str]]:
    return [(one.outcome, one.reason, one.site, one.rule) for one in effects if isinstance(one, Decision)]


def closed(effects: Iterable[Effect]) -> list[tuple[LeaseState, Reason]]:
    return [(one.lease.state, one.reason) for one in effects if isinstance(one, LeaseClosed)]


def offered(effects: Iterable[Effect]) -> list[str]:
    return [one.lease.site for one in effects if isinstance(one, OfferLease)]


class TestOwnSitesComeFirst:
    def test_what_an_own_site_can_take_goes_there_though_the_peer_is_idle(self) -> None:
        told = Told(peer(slots=100))
        assert any(isinstance(one, StartLease) for one in told.submit(4))
        told.submit(4)  # waits at our own site: it can take it, only not now
        assert told.where() == "own"

    def test_what_none_of_them_can_goes_to_the_peer_and_says_why(self) -> None:
        told = Told(peer())
        effects = told.submit(8)
        assert offered(effects) == ["north"]
        assert decisions(effects) == [(Outcome.DISPATCH, Reason.SENT_TO_PEER, "north", PEERS)]
        assert told.gateway.leases[1].state is S.WAITING

    def test_what_not_even_a_peer_could_take_is_refused_as_ever(self) -> None:
        assert closed(Told(peer()).submit(9)) == [(S.REFUSED, Reason.WIDER_THAN_ANY_SITE)]

    def test_what_its_machines_cannot_do_is_not_asked_of_it(self) -> None:
        told = Told(replace(peer(), can_suspend=False))
        assert closed(told.submit(8)) == [(S.REFUSED, Reason.WIDER_THAN_ANY_SITE)]
        assert offered(told.submit(8, LeaseType.CANCELABLE)) == ["north"]

    def test_what_is_bound_to_an_own_site_that_is_too_small_is_refused_and_waits_for_no_peer(self) -> None:
        assert closed(Told(peer()).submit(8, domain="own")) == [(S.REFUSED, Reason.WIDER_THAN_ANY_SITE)]
        assert offered(Told(peer()).submit(8, domain="north")) == ["north"]

    def test_a_drained_site_can_take_nothing(self) -> None:
        told = Told(peer())
        told.tell(LendingChanged("own", lends=False))
        assert offered(told.submit(2)) == ["north"]

    @pytest.mark.parametrize(("try_elsewhere", "asked"), [(True, ["north"]), (False, [])])
    def test_what_an_own_site_has_refused_goes_on_where_that_is_usual(
        self,
        try_elsewhere: bool,  # noqa: FBT001 - it is a case
        asked: list[str],
    ) -> None:
        told = Told(peer(), try_elsewhere=try_elsewhere)
        told.submit(4, LeaseType.NON_PREEMPTABLE)
        assert offered(told.submit(4, LeaseType.NON_PREEMPTABLE)) == asked

    @pytest.mark.parametrize("policy", sorted(ROUTING_POLICIES))
    def test_no_routing_policy_ever_sees_a_peer(self, policy: str) -> None:
        told = Told(peer(slots=64), policy=policy)
        for _ in range(8):
            told.submit(1)
            assert told.where() in {"own", ""}  # some policies let best effort wait

    def test_local_requests_never_leave(self) -> None:
        told = Told(peer())
        request = Request(1, LeaseType.NON_PREEMPTABLE, 8, 1000, 0, 0, site="own")
        assert closed(told.tell(Submitted(request))) == [(S.REFUSED, Reason.WIDER_THAN_SITE)]


class TestAskedEarly:
    """Where the terms say so, a peer is asked already for what no own site can start now."""

    EARLY = Terms(AskWhen.NONE_CAN_NOW)

    def test_for_what_would_wait_here_and_starts_there(self) -> None:
        told = Told(peer(), north=self.EARLY)
        told.submit(4)
        assert told.where() == "own"
        assert offered(told.submit(3)) == ["north"]

    def test_but_not_where_it_would_wait_there_too(self) -> None:
        told = Told(peer(free=2), north=self.EARLY)
        told.submit(4)
        assert offered(told.submit(3)) == []
        assert told.where() == "own"

    def test_nor_for_more_than_is_free_there_before_it_has_answered(self) -> None:
        told = Told(peer(free=4), north=self.EARLY)
        told.submit(4)
        assert [offered(told.submit(2)) for _ in range(3)] == [["north"], ["north"], []]

    def test_what_it_refuses_waits_here(self) -> None:
        told = Told(peer(), north=self.EARLY, try_elsewhere=False)
        told.submit(4)
        told.submit(3)
        assert not closed(told.report(S.REFUSED, Reason.ROOM_IN_USE))
        assert told.where() == "own"

    def test_nor_for_what_is_not_to_start_yet(self) -> None:
        told = Told(peer(), north=self.EARLY)
        told.submit(4)
        told.tell(Submitted(Request(2, LeaseType.SUSPENDABLE, 2, 1000, 2, 500)))
        assert told.where(2) == "own"

    def test_one_that_is_never_to_be_asked_is_never_asked(self) -> None:
        told = Told(peer(), north=Terms(AskWhen.NEVER))
        assert closed(told.submit(8)) == [(S.REFUSED, Reason.WIDER_THAN_ANY_SITE)]


class TestOneHop:
    @pytest.mark.parametrize("ask", [AskWhen.NONE_CAN, AskWhen.NONE_CAN_NOW])
    def test_what_came_from_a_peer_goes_to_none(self, ask: AskWhen) -> None:
        told = Told(peer("north"), peer("south"), north=Terms(ask), south=Terms(ask))
        assert closed(told.submit(8, via="north")) == [(S.REFUSED, Reason.HOP_LIMIT_REACHED)]
        assert closed(told.submit(9, via="north")) == [(S.REFUSED, Reason.WIDER_THAN_ANY_SITE)]
        told.submit(4)
        assert offered(told.submit(4, via="north")) == []
        assert told.where() == "own"

    def test_not_even_when_all_of_ones_own_are_drained(self) -> None:
        told = Told(peer("north"), peer("south"))
        told.tell(LendingChanged("own", lends=False))
        assert decisions(told.submit(2, via="north"))[-1][:2] == (Outcome.HOLD, Reason.NO_SITE_AVAILABLE)

    def test_but_to_sites_of_ones_own_that_decide_for_themselves(self) -> None:
        told = Told(peer())
        told.gateway.join(RemoteSite("far", 16, 1, live=SiteLive(16)))
        assert offered(told.submit(12, via="north")) == ["far"]


class TestWhoIsAsked:
    def test_the_one_with_most_to_spare(self) -> None:
        told = Told(peer("a", free=1), peer("b", free=5), peer("c", free=5))
        assert offered(told.submit(5)) == ["b"]
        assert offered(told.submit(5)) == ["c"]  # b has not answered yet

    def test_and_the_next_when_that_refuses_even_where_that_is_not_usual(self) -> None:
        told = Told(peer("a"), peer("b"), try_elsewhere=False)
        told.submit(8)
        assert offered(told.report(S.REFUSED, Reason.NO_ROOM_AT_READY_TIME)) == ["b"]
        effects = told.report(S.REFUSED, Reason.PEER_QUOTA_EXCEEDED)
        assert closed(effects) == [(S.REFUSED, Reason.PEER_QUOTA_EXCEEDED)]

    @pytest.mark.parametrize("policy", sorted(ROUTING_POLICIES))
    @pytest.mark.parametrize("kind", list(LeaseType))
    def test_what_all_of_them_refuse_is_refused_whatever_the_policy_would_wait_for(
        self, policy: str, kind: LeaseType
    ) -> None:
        told = Told(peer("a"), policy=policy)
        told.submit(8, kind)
        assert closed(told.report(S.REFUSED, Reason.ROOM_IN_USE)) == [(S.REFUSED, Reason.ROOM_IN_USE)]

    @pytest.mark.parametrize("policy", sorted(ROUTING_POLICIES))
    def test_what_lost_its_machines_there_is_offered_again_whatever_the_policy_would_wait_for(
        self, policy: str
    ) -> None:
        told = Told(peer(), policy=policy)
        told.submit(8)
        told.report(S.RUNNING)
        assert offered([*told.report(S.FAILED, Reason.MACHINES_LOST), *told.tell(Tick())]) == ["north"]

    @given(st.sampled_from(sorted(ROUTING_POLICIES)), st.lists(STEPS, max_size=12))
    @settings(max_examples=examples(150), deadline=None)
    def test_a_policy_holds_only_what_it_could_send_somewhere(self, policy: str, steps: list[Step]) -> None:
        told, lends = Told(peer(), policy=policy), True
        for step in steps:
            match step:
                case int() as vms, LeaseType() as kind:
                    told.submit(vms, kind)
                case LeaseState() as state, reason:
                    for lease in [one for one in told.gateway.leases.values() if one.site == "north"][-1:]:
                        told.report(state, reason, lease.id)
                case bool():
                    lends = step
                    told.tell(LendingChanged("own", lends=step))
            while running := [one for one in told.gateway.leases.values() if one.held_since_ms >= 0]:
                told.tell(*(LeaseEnded(one.id, one.incarnation) for one in running))
            told.now_ms += DAY_MS
            told.tell(Tick())
            pending = told.gateway.pending
            left_to_it = [lease.vms for number, lease in pending.held.items() if number not in pending.awaits_room]
            assert not left_to_it or (lends and max(left_to_it) <= 4), left_to_it

    def test_a_silent_one_is_waited_for(self) -> None:
        told = Told(peer())
        told.tell(SiteFellSilent("north"))
        assert decisions(told.submit(8)) == [(Outcome.HOLD, Reason.NO_SITE_AVAILABLE, "", "drained")]
        told.restart()
        told.gateway.registry.remotes["north"].silent = False
        told.gateway.retry_all()
        assert offered(told.tell(Tick())) == ["north"]

    def test_but_not_once_somebody_has_refused(self) -> None:
        told = Told(peer("a"), peer("b"))
        told.tell(SiteFellSilent("b"))
        told.submit(8)
        assert closed(told.report(S.REFUSED, Reason.ROOM_IN_USE)) == [(S.REFUSED, Reason.ROOM_IN_USE)]


class TestALeaseIsInOnePlace:
    def test_one_that_is_at_a_peer_stays_there_however_long_that_is_silent(self) -> None:
        told = Told(peer("a"), peer("b"))
        told.submit(8)
        told.tell(SiteFellSilent("a"))
        told.gateway.retry_all()
        for _ in range(3):
            assert offered(told.tell(Tick())) == []
        assert told.where() == "a"

    def test_one_that_is_taken_back_is_over_only_when_the_peer_says_so(self) -> None:
        told = Told(peer())
        told.submit(8)
        told.report(S.RUNNING)
        assert not closed(told.tell(CancelRequested(1)))
        assert closed(told.report(S.CANCELLED, Reason.CANCELLED_BY_USER)) == [(S.CANCELLED, Reason.CANCELLED_BY_USER)]

    def test_one_that_is_parted_with_has_failed_and_begins_nowhere_else(self) -> None:
        told = Told(peer("a"), peer("b"))
        told.submit(8)
        effects = told.tell(SiteForgotten("a"))
        assert closed(effects) == [(S.FAILED, Reason.PEER_REMOVED)]
        assert offered(effects) == []


class TestSoMuchAndNoMore:
    def test_what_would_be_more_is_refused_with_its_own_reason(self) -> None:
        told = Told(peer(), own=8, north=Terms(max_vms=4))
        assert not closed(told.submit(3, via="north"))
        effects = told.submit(2, via="north")
        assert closed(effects) == [(S.REFUSED, Reason.PEER_QUOTA_EXCEEDED)]
        assert decisions(effects) == [(Outcome.REFUSE, Reason.PEER_QUOTA_EXCEEDED, "", PEERS)]
        assert not closed(told.submit(1, via="north"))

    def test_who_waits_is_let_in_when_something_of_its_gateway_is_over(self) -> None:
        told = Told(peer(), own=8, north=Terms(max_vms=4))
        told.submit(3, via="north", wait=True)
        effects = told.submit(2, via="north", wait=True)
        assert decisions(effects) == [(Outcome.HOLD, Reason.PEER_QUOTA_REACHED, "", PEERS)]
        told.restart()
        assert told.gateway.leases[2].state is S.HELD
        assert (2, Outcome.START) in [
            (one.lease.id, one.outcome) for one in told.tell(CancelRequested(1)) if isinstance(one, Decision)
        ]

    def test_who_waits_does_not_keep_out_who_has_room(self) -> None:
        told = Told(peer(), own=8, north=Terms(max_vms=4))
        told.submit(3, via="north", wait=True)
        told.submit(2, via="north", wait=True)
        assert begun_by(told.submit(1, via="north", wait=True)) == [3]

    def test_more_than_it_may_ever_have_is_refused_at_once(self) -> None:
        told = Told(peer(), own=8, north=Terms(max_vms=4))
        effects = told.submit(5, via="north", wait=True)
        assert closed(effects) == [(S.REFUSED, Reason.PEER_QUOTA_EXCEEDED)]

    def test_others_are_not_bound_by_it(self) -> None:
        told = Told(peer(), own=8, north=Terms(max_vms=1), south=Terms())
        assert not closed(told.submit(4, via="south"))
        assert not closed(told.submit(4))

    def test_there_is_room_again_when_something_is_over(self) -> None:
        told = Told(peer(), own=8, north=Terms(max_vms=4))
        told.submit(4, via="north")
        told.restart()
        assert closed(told.submit(1, via="north"))
        told.tell(LeaseEnded(1, told.gateway.leases[1].incarnation))
        assert not closed(told.submit(4, via="north"))

    @given(st.lists(st.tuples(st.integers(1, 5), KINDS, st.booleans()), max_size=25), st.integers(0, 9))
    @settings(max_examples=examples(40), deadline=None)
    def test_it_never_has_more(self, steps: list[tuple[int, LeaseType, bool]], most: int) -> None:
        told = Told(peer(), own=10, north=Terms(max_vms=most))
        for vms, kind, ends_one in steps:
            told.submit(vms, kind, via="north")
            running = [one for one in told.gateway.leases.values() if one.held_since_ms >= 0]
            if ends_one and running:
                told.tell(LeaseEnded(running[0].id, running[0].incarnation))
            theirs = [lease.vms for lease in told.gateway.leases.values() if lease.request.from_peer]
            assert sum(theirs) <= most


class TestRates:
    """JPDC 2012, section 2.1: what arrives from outside is what all peers send together."""

    @given(st.lists(st.tuples(st.integers(1, 60_000), st.sampled_from(["", "a", "b", "c"])), min_size=9))
    @settings(max_examples=examples(40), deadline=None)
    def test_the_external_rate_is_the_sum_of_the_peers_and_of_ones_own(self, arrivals: list[tuple[int, str]]) -> None:
        told = Told(peer("a"), peer("b"), peer("c"), own=100)
        told.submit(1)  # one's own stream is watched from the first request on, those of peers from the beginning
        alone = {name: StreamEstimator(told.now_ms if not name else 0) for name in ("", "a", "b", "c")}
        alone[""].observe(1, 60, told.now_ms)
        for gap_ms, via in arrivals:
            told.now_ms += gap_ms
            told.submit(1 + len(via), via=via)
            alone[via].observe(1 + len(via), 60, told.now_ms)
        measured = told.gateway.knowledge.external(told.now_ms)
        rates = [one.moments(told.now_ms) for one in alone.values()]
        assert measured.rate_per_s == pytest.approx(sum(one.rate_per_s for one in rates))
        assert measured.seen == len(arrivals) + 1
        weighted = sum(one.rate_per_s * one.mean_vms for one in rates) / measured.rate_per_s
        assert measured.mean_vms == pytest.approx(weighted)

    def test_a_peer_that_is_parted_with_counts_no_longer(self) -> None:
        told = Told(peer("a"), peer("b"), own=100)
        for via in ("a", "b", "b"):
            told.submit(1, via=via)
        told.now_ms += 10_000
        before = told.gateway.knowledge.external(told.now_ms).rate_per_s
        told.tell(SiteForgotten("b"))
        assert told.gateway.knowledge.external(told.now_ms).rate_per_s == pytest.approx(before / 3, rel=1e-3)

    def test_both_ways_are_counted_over_a_restart(self) -> None:
        told = Told(peer(), own=4)
        told.submit(8)
        told.report(S.REFUSED, Reason.ROOM_IN_USE)
        told.submit(8)
        told.report(S.RUNNING)
        told.submit(8)
        told.submit(3, via="north")
        told.submit(9, via="north")
        told.restart()
        peering = told.gateway.peering
        asked, asking = peering.asked["north"], peering.asking["north"]
        assert (asked.offered, asked.refused, told.gateway.registry.offers.leases_at("north")) == (3, 1, 1)
        assert (asking.offered, asking.refused, peering.vms_here("north")) == (2, 1, 3)


class Counted(dict[int, Lease]):
    """Leases, and how many were looked at when all of them were."""

    looked_at = 0

    def values(self) -> Any:
        self.looked_at += len(self)
        return super().values()


def test_however_many_of_a_peer_wait_only_what_counts_against_its_limit_is_looked_at() -> None:
    told = Told(peer(), own=4, north=Terms(max_vms=2))
    for _ in range(100):
        told.submit(1, via="north", wait=True)
    peering = told.gateway.peering
    kept = [peering.here, peering._within]
    for leases in kept:
        leases["north"] = Counted(leases["north"])
    told.gateway.retry_all()
    told.gateway.handle([Tick()], told.now_ms + 1)
    assert len(told.gateway.pending.held) == 98
    looked_at = sum(leases["north"].looked_at for leases in kept)  # type: ignore[attr-defined]
    assert 98 * 2 <= looked_at <= 100 * 3


class TestStreamsTogether:
    MOMENTS = st.builds(
        StreamMoments,
        st.floats(0, 10), st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.1, 100), st.floats(0, 3),
        st.integers(1, 100),
    )  # fmt: skip

    @given(MOMENTS)
    def test_one_stream_is_itself(self, stream: StreamMoments) -> None:
        assert together([stream]) is stream

    @given(MOMENTS, MOMENTS, MOMENTS)
    def test_it_does_not_matter_in_which_order_they_flow_together(
        self, a: StreamMoments, b: StreamMoments, c: StreamMoments
    ) -> None:
        one, other = together([together([a, b]), c]), together([c, together([b, a])])
        assert one.rate_per_s == pytest.approx(other.rate_per_s)
        assert one.mean_vm_s == pytest.approx(other.mean_vm_s)
        assert one.rate_per_s == pytest.approx(a.rate_per_s + b.rate_per_s + c.rate_per_s)

    def test_the_moments_are_those_of_all_requests(self) -> None:
        """Two requests of 1 and two of 3 VM-seconds a second: their mean is 2, their deviation 1."""
        both = together([StreamMoments(2, 1, 1, 1, 0.0, 2), StreamMoments(2, 3, 1, 3, 0.0, 2)])
        assert (both.mean_vms, both.mean_vm_s, both.cv_vm_s) == pytest.approx((2, 2, 0.5))
