"""What would become of a request is what becomes of it; and asking changes nothing."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.coallocation.together import coallocation, part, two_sites
from tests.gateway.random_worlds import REFERENCE_MIPS, SLOTS, Case, Chronicle, cases, drive, three_sites
from tests.searching import examples

from leasehold.gateway import planning
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.peering import AskWhen, Terms
from leasehold.gateway.planning import (
    Change,
    Consequence,
    Elsewhere,
    Plan,
    Prospect,
    plan_coallocation,
    plan_instead,
    plan_request,
)
from leasehold.gateway.sites import Reach, RemoteSite
from leasehold.gateway.snapshot import undone
from leasehold.model.agreement import CPUS, Agreement, NoLimit
from leasehold.model.effect import Decision, Effect, LeaseClosed, OfferLease, StartLease
from leasehold.model.errors import LeaseholdError
from leasehold.model.event import CoAllocationSubmitted, Event, LeaseEnded, LendingChanged, Submitted
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policy import Dispatch, Information, RoutingPolicy, RoutingView
from leasehold.routing.registry import routing_policy
from leasehold.routing.view import SiteLive
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.parties import Provider

PLACES = [Provider("a", {CPUS: 4}, "das"), Provider("b", {CPUS: 6})]


def gateway(policy: str = "most-free", *agreements: Agreement, **how: Any) -> Gateway:
    sharing = Sharing(PLACES, SharingSettings(**how), agreements)
    return Gateway(two_sites(), Routing(routing_policy(policy)(Random(0))), sharing=sharing)


def request(vms: int = 2, consumer: str = "atlas", kind: LeaseType = LeaseType.SUSPENDABLE) -> Request:
    return Request(1, kind, vms, 10_000, 0, 0, consumer=consumer)


SLOTS_OF_TWO = {"a": 4, "b": 6}


def local(home: str, vms: int, number: int = 9) -> Request:
    return Request(number, LeaseType.NON_PREEMPTABLE, vms, 30_000, 0, 0, site=home)


def at_most(site: str, vms: int) -> Agreement:
    return Agreement("few", site, "atlas", NoLimit(), lending_limit=vms)


def test_a_site_that_an_agreement_closes_is_not_where_it_would_run() -> None:
    told = plan_request(gateway("most-free", at_most("b", 1)), request(), 0)
    assert told.view.virtual.sites == ("a", "b")
    assert told.view.extended.sites == ("a",)
    assert told.view.extended.breaches["b"].reason is Reason.EXCEEDS_AGREEMENT
    assert (told.prospect.state, told.prospect.site, told.prospect.reason) == (
        LeaseState.RUNNING,
        "a",
        Reason.ROOM_FREE,
    )
    assert (told.prospect.start_ms, told.prospect.end_ms) == (0, 10_000)
    assert [(offer.domain, offer.score) for offer in told.brokered.offers] == [("das", 4)]


def test_a_site_that_is_too_narrow_is_none_where_it_could_run() -> None:
    told = plan_request(gateway(), request(5), 0)
    assert told.view.virtual.sites == ("b",)
    told = plan_request(gateway(), request(7), 0)
    assert (told.view.virtual.sites, told.prospect.state, told.prospect.reason) == (
        (),
        LeaseState.REFUSED,
        Reason.WIDER_THAN_ANY_SITE,
    )


def test_where_no_agreement_opens_a_site_the_breach_is_the_reason() -> None:
    told = plan_request(gateway("most-free", at_most("*", 1)), request(), 0)
    assert (told.prospect.state, told.prospect.reason) == (LeaseState.REFUSED, Reason.EXCEEDS_AGREEMENT)
    assert told.prospect.breach is not None
    assert told.prospect.breach.agreement == "few"


def test_the_broker_is_asked_just_what_the_gateway_asks() -> None:
    there = gateway(without_agreement="preemptable")
    told = plan_request(there, request(kind=LeaseType.NON_PREEMPTABLE), 0)
    assert (told.prospect.reason, told.brokered.offers) == (Reason.PREEMPTABLE_ONLY, ())
    assert plan_request(there, request(), 0).brokered.offers
    told = plan_request(there, replace(request(), is_foreign=True), 0)
    assert (told.prospect.reason, told.brokered.offers) == (Reason.NOT_A_MEMBER, ())


def test_where_nobody_lends_that_is_the_reason() -> None:
    there = gateway()
    there.handle([LendingChanged(name, lends=False) for name in "ab"], 0)
    told = plan_request(there, request(), 0)
    assert (told.prospect.state, told.prospect.reason, told.prospect.start_ms) == (
        LeaseState.HELD,
        Reason.NO_SITE_AVAILABLE,
        None,
    )


def test_policies_that_take_turns_name_the_site_whose_turn_it_is() -> None:
    there = Gateway([*two_sites()], Routing(routing_policy("rr")(Random(0))))
    for number in range(1, 7):
        asked = Request(number, LeaseType.SUSPENDABLE, 1, 10_000, number, number)
        told = plan_request(there, asked, number)
        assert plan_request(there, asked, number).prospect.site == told.prospect.site
        there.handle([Submitted(asked)], number)
        assert there.leases[number].site == told.prospect.site
    assert {lease.site for lease in there.leases.values()} == {"a", "b"}


def test_a_migratable_lease_without_room_at_its_ready_time_is_refused_in_both() -> None:
    there = gateway()
    there.handle([Submitted(local("b", 6)), Submitted(local("a", 4, number=8))], 0)
    told = plan_request(there, request(2, kind=LeaseType.MIGRATABLE), 0)
    assert told.prospect.state is LeaseState.REFUSED
    assert told.prospect.reason is Reason.NO_ROOM_AT_READY_TIME


def test_who_would_give_way_to_a_local_request() -> None:
    there = gateway()
    there.handle([Submitted(replace(request(4), id=5))], 0)
    ((guest),) = there.leases.values()
    told = plan_request(there, local(guest.site, SLOTS_OF_TWO[guest.site]), 1_000)
    assert (told.prospect.state, told.prospect.reason, [one.vms for one in told.prospect.victims]) == (
        LeaseState.RUNNING,
        Reason.ROOM_MADE,
        [4],
    )
    assert guest.state is LeaseState.RUNNING


def test_one_that_waits_is_told_its_planned_start_and_end() -> None:
    there = gateway()
    there.handle([Submitted(local("b", 6)), Submitted(local("a", 4, number=8))], 0)
    told = plan_request(there, local("b", 6, number=10), 0)
    assert (told.prospect.state, told.prospect.site) == (LeaseState.WAITING, "b")
    assert (told.prospect.start_ms, told.prospect.end_ms) == (30_000, 60_000)


def test_a_peer_and_a_site_with_a_manager_decide_by_themselves() -> None:
    there = gateway()
    live = SiteLive(9)
    there.join(RemoteSite("north", 12, 1, live=live))
    told = plan_request(there, request(8), 0)
    assert (told.prospect.elsewhere, told.prospect.start_ms) == (Elsewhere("north", is_peer=False, free_vms=9), None)
    there.join(RemoteSite("lyon", 40, 1, is_peer=True, live=live))
    there.peering.agree("lyon", Terms(AskWhen.NONE_CAN))
    told = plan_request(there, request(30), 0)
    assert told.prospect.elsewhere == Elsewhere("lyon", is_peer=True, free_vms=9)


def test_what_only_a_gateway_beyond_the_peer_has_room_for_is_said_to_be_there() -> None:
    there = gateway()
    lyon = RemoteSite("lyon", 4, 1, is_peer=True, live=SiteLive(4), gateway_id="lyon", beyond=(Reach(40, 31),))
    there.join(lyon)
    there.peering.agree("lyon", Terms(max_hops=2))
    told = plan_request(there, request(30), 0)
    assert told.prospect.elsewhere == Elsewhere("lyon", is_peer=True, free_vms=31, hops=1)
    there.peering.agree("lyon", Terms(max_hops=1))
    assert plan_request(there, request(30), 0).prospect.reason is Reason.HOP_LIMIT_REACHED


# What would go better


def changed(told: Plan) -> dict[Change, Prospect]:
    return {one.change: one.prospect for one in told.alternatives}


def test_where_all_is_as_asked_nothing_else_is_tried() -> None:
    told = plan_request(gateway(), request(), 0)
    assert (told.prospect.consequences, told.alternatives, told.untried) == ((), (), 0)


def test_fewer_vms_and_a_later_start_where_there_is_no_room_at_the_ready_time() -> None:
    there = gateway()
    there.handle([Submitted(local("b", 5)), Submitted(local("a", 2, number=8))], 0)
    told = plan_request(there, request(4, kind=LeaseType.MIGRATABLE), 0)
    assert told.prospect.is_refused
    better = changed(told)
    assert (better[Change.VMS].request.vms, better[Change.VMS].start_ms) == (2, 0)
    assert (better[Change.READY].request.ready_ms, better[Change.READY].state) == (30_000, LeaseState.WAITING)
    types = {one.prospect.request.lease_type for one in told.alternatives if one.change is Change.TYPE}
    assert types == {LeaseType.SUSPENDABLE}


def test_a_shorter_lease_fits_before_what_is_reserved() -> None:
    there = gateway()
    there.handle([Submitted(replace(local(site, vms, number), ready_ms=6_000)) for number, (site, vms) in enumerate(
        SLOTS_OF_TWO.items(), 20)], 0)  # fmt: skip
    told = plan_request(there, request(4), 0)
    assert told.prospect.consequences == (Consequence.WAITS,)
    shorter = changed(told)[Change.DURATION]
    assert (shorter.request.duration_ms, shorter.start_ms) == (6_000, 0)


def test_a_local_request_that_would_preempt_is_told_when_it_would_not() -> None:
    there = gateway()
    there.handle([Submitted(replace(request(4), id=5))], 0)
    ((guest),) = there.leases.values()
    asked = replace(local(guest.site, SLOTS_OF_TWO[guest.site]), submit_ms=1_000, ready_ms=1_000)
    told = plan_request(there, asked, 1_000)
    assert told.prospect.consequences == (Consequence.PREEMPTS,)
    assert [one.lease_id for one in told.prospect.victims] == [5]
    later = changed(told)[Change.READY]
    assert (later.request.ready_ms, later.victims) == (10_000, ())


def test_who_waits_is_told_of_when_it_would_start_later_by_a_request() -> None:
    there = gateway()
    there.handle([Submitted(local("b", 6)), Submitted(local("a", 4, number=8))], 0)
    there.handle([Submitted(replace(request(4), id=10, domain="a", lease_type=LeaseType.SUSPENDABLE))], 0)
    waiting = there.leases[10]
    assert (waiting.site, waiting.reserved_ms) == ("a", 30_000)
    told = plan_request(there, local("a", 4, number=11), 0).prospect
    assert told.consequences == (Consequence.WAITS, Consequence.DELAYS)
    assert [(one.lease_id, one.from_ms, one.to_ms) for one in told.delays] == [(10, 30_000, 60_000)]


def test_another_site_is_named_where_it_would_start_sooner() -> None:
    there = gateway("rr")
    there.handle([Submitted(local("a", 4, number=8))], 0)
    told = plan_request(there, request(4), 0)
    assert told.prospect.site == "a"
    assert (changed(told)[Change.SITE].site, changed(told)[Change.SITE].start_ms) == ("b", 0)


def test_with_many_leases_fewer_are_tried_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    there = gateway("rr")
    there.handle([Submitted(local("b", 5)), Submitted(local("a", 2, number=8))], 0)
    asked = request(4, kind=LeaseType.MIGRATABLE)
    whole = plan_request(there, asked, 0)
    monkeypatch.setattr(planning, "_LEASES_TRIED", 1)
    told = plan_request(there, asked, 0)
    assert (told.prospect, whole.untried) == (whole.prospect, 0)
    assert told.untried > 0
    assert len(told.alternatives) < len(whole.alternatives)
    assert all(one in whole.alternatives for one in told.alternatives)


def test_what_a_waiting_lease_could_be_instead() -> None:
    there = gateway()
    there.handle([Submitted(local("b", 5)), Submitted(local("a", 2, number=8))], 0)
    there.handle([Submitted(replace(request(4), id=10))], 0)
    before = pickle.dumps(there)
    better, _ = plan_instead(there, there.leases[10], 0)
    assert pickle.dumps(there) == before
    assert {one.change: one.prospect.request.vms for one in better}[Change.VMS] == 2


# Co-allocations


def test_a_coallocation_request_has_the_stages_of_each_component() -> None:
    told = plan_coallocation(
        gateway("most-free", at_most("b", 3)), coallocation(1, part(4), part(3), consumer="atlas"), 0
    )
    assert [view.extended.sites for view in told.components] == [("a",), ("a", "b")]
    assert told.sites == ("a", "b")
    assert told.start_ms == 0


def test_a_reservation_is_explained_with_its_start() -> None:
    there = gateway()
    there.handle([Submitted(local("b", 6))], 0)
    told = plan_coallocation(there, coallocation(1, part(4), part(6), claim="reservation"), 0)
    assert (told.sites, told.start_ms) == (("a", "b"), 30_000)
    told = plan_coallocation(there, coallocation(1, part(4), part(6)), 0)
    assert told.sites == ("", "")
    assert told.reason is Reason.WAITING_FOR_COMPONENTS


# The same as what follows, and nothing is changed


class Stubborn(RoutingPolicy):
    """Takes turns by an iterator, which nobody can look into, and by what a function closes over."""

    name = "stubborn"
    information = Information.STATIC

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._numbers = count()
        turns: list[int] = []

        def turn() -> int:
            turns.append(len(turns))
            return turns[-1]

        self._turn = turn

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Dispatch:  # noqa: ARG002
        return Dispatch(view.sites[(next(self._numbers) + self._turn() // 2) % len(view.sites)].name)


def test_a_policy_of_which_part_cannot_be_looked_into_is_left_as_it_was() -> None:
    there = Gateway(three_sites(), Routing(Stubborn(Random(0))), REFERENCE_MIPS)
    sites = []
    for number in range(1, 9):
        asked = Request(number, LeaseType.SUSPENDABLE, 1, 10_000, number, number)
        told = [plan_request(there, asked, number).prospect.site for _ in range(3)]
        there.handle([Submitted(asked)], number)
        sites.append(there.leases[number].site)
        assert told == [sites[-1]] * 3
    assert len(set(sites)) > 1


@dataclass(frozen=True)
class Asked:
    """One thing that happens ``after_ms``: a request, or, without one, the end of somebody who runs."""

    after_ms: int
    kind: LeaseType | None
    vms: int = 1
    duration_ms: int = 1_000
    ready_after_ms: int = 0
    spare_ms: int | None = None
    home: str | None = None
    consumer: str = ""
    parts: tuple[int, ...] = ()
    reserves: bool = False

    def request(self, number: int, now_ms: int) -> Request:
        assert self.kind is not None
        ready_ms = now_ms + self.ready_after_ms
        kind = LeaseType.NON_PREEMPTABLE if self.home else self.kind
        deadline_ms = None
        if self.spare_ms is not None and not kind.is_best_effort and not self.home:
            deadline_ms = ready_ms + self.duration_ms + self.spare_ms
        return Request(
            number, kind, self.vms, self.duration_ms, now_ms, ready_ms, deadline_ms, self.home, self.consumer
        )


ASKED = st.builds(
    Asked,
    after_ms=st.sampled_from([0, 1, 500, 2_000, 7_000]),
    kind=st.sampled_from([*LeaseType, None]),
    vms=st.integers(1, 8),
    duration_ms=st.integers(1, 12).map(lambda s: s * 1_000),
    ready_after_ms=st.sampled_from([0, 0, 0, 3_000]),
    spare_ms=st.none() | st.integers(0, 15_000),
    home=st.sampled_from([None, None, *SLOTS]),
    consumer=st.sampled_from(["atlas", "cms"]),
    parts=st.sampled_from([(), (), (), ()]) | st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    reserves=st.booleans(),
)
THREE_PLACES = [Provider("a", {CPUS: 6}, "das"), Provider("b", {CPUS: 4}, "das"), Provider("c", {CPUS: 3})]
AGREED = [
    Agreement("everybody", "*", "*", NoLimit()),
    Agreement("few", "a", "atlas", NoLimit(), lending_limit=3),
]


def federation(policy: str, *, agreed: bool, elsewhere: bool, closed: Sequence[str]) -> Gateway:
    sharing = Sharing(THREE_PLACES, SharingSettings(), AGREED) if agreed else None
    routing = Routing(routing_policy(policy)(Random(7)), try_elsewhere=elsewhere)
    there = Gateway(three_sites(), routing, REFERENCE_MIPS, sharing)
    if elsewhere:
        there.join(RemoteSite("north", 7, 2, live=SiteLive(5)))
        there.join(RemoteSite("lyon", 8, 2, is_peer=True, live=SiteLive(4)))
        there.peering.agree("lyon", Terms(AskWhen.NONE_CAN_NOW))
    there.handle([LendingChanged(name, lends=False) for name in closed], 0)
    return there


@settings(max_examples=examples(120))
@given(
    st.sampled_from(["pap-rtdp", "pap-rnd", "rr", "most-free", "selective"]),
    st.lists(ASKED, min_size=1, max_size=16),
    st.booleans(),
    st.booleans(),
    st.lists(st.sampled_from("abc"), max_size=1),
)
def test_what_is_said_is_what_follows_and_asking_leaves_no_trace(
    policy: str,
    story: list[Asked],
    agreed: bool,  # noqa: FBT001 - drawn by Hypothesis
    elsewhere: bool,  # noqa: FBT001 - drawn by Hypothesis
    closed: list[str],
) -> None:
    there, now_ms = federation(policy, agreed=agreed, elsewhere=elsewhere, closed=closed), 0
    for number, asked in enumerate(story, 1):
        now_ms += asked.after_ms
        if asked.kind is None:
            there.handle(ends(there, asked), now_ms)
        elif asked.parts:
            as_said_together(there, number, asked, now_ms)
        else:
            as_said(there, asked.request(number, now_ms), now_ms)


def ends(there: Gateway, asked: Asked) -> list[Event]:
    """The end of one of those who run, if anybody does."""
    running = [lease for lease in there.leases.values() if lease.state is LeaseState.RUNNING]
    chosen = running[asked.vms % len(running)] if running else None
    return [] if chosen is None else [LeaseEnded(chosen.id, chosen.incarnation)]


def as_said(there: Gateway, request: Request, now_ms: int) -> None:
    before = pickle.dumps(there)
    told = plan_request(there, request, now_ms)
    assert pickle.dumps(there) == before
    assert told == plan_request(there, request, now_ms)
    for one in told.alternatives:
        assert one.prospect.is_better_than(told.prospect)
        with undone(there, there.leases.values()):
            follows(there, one.prospect, now_ms)
    follows(there, told.prospect, now_ms)


def follows(there: Gateway, told: Prospect, now_ms: int) -> None:
    """Make the request that something was told of, and see that just that becomes of it."""
    reserved_ms = {lease.id: lease.reserved_ms for lease in there.leases.values()}
    request = told.request
    effects = there.handle([Submitted(request)], now_ms)
    mine = [one for one in effects if isinstance(one, Decision) and one.lease.id == request.id]
    lease = mine[0].lease
    closings = [one.reason for one in effects if isinstance(one, LeaseClosed) and one.lease is lease]
    starts = [one for one in effects if isinstance(one, StartLease) and one.lease is lease]
    offers = [one for one in effects if isinstance(one, OfferLease) and one.lease is lease]
    assert (told.state, told.site) == (lease.state, lease.site)
    assert told.reason is (closings or [mine[-1].reason])[-1]
    assert (told.elsewhere is not None) == bool(offers)
    if starts:
        assert told.start_ms == now_ms
    elif offers or lease.state is not LeaseState.WAITING or lease.reserved_ms < 0:
        assert told.start_ms is None
    else:
        assert told.start_ms == lease.reserved_ms
    victims = {v for one in effects if isinstance(one, Decision) and one.preemption
               for v in one.preemption.victims if one.preemption.beneficiary == lease.id}  # fmt: skip
    assert {one.lease_id for one in told.victims} == victims
    for delay in told.delays:
        assert delay.from_ms == reserved_ms[delay.lease_id] >= 0
        assert there.leases[delay.lease_id].reserved_ms == (-1 if delay.to_ms is None else delay.to_ms)
        assert delay.to_ms is None or delay.to_ms > delay.from_ms
    later = {
        one.id for one in there.leases.values()
        if one.held_since_ms < 0 and one.reserved_ms > reserved_ms.get(one.id, -1) >= 0
    }  # fmt: skip
    assert later - victims <= {one.lease_id for one in told.delays}
    took_others = told.victims or told.delays
    if request.ready_ms <= now_ms:
        is_as_asked = bool(starts) and not took_others and not told.penalised
        assert (not told.is_refused and not told.consequences) == is_as_asked


def as_said_together(there: Gateway, number: int, asked: Asked, now_ms: int) -> None:
    claim = "reservation" if asked.reserves else "incremental"
    components = [part(vms, asked.duration_ms / 1000) for vms in asked.parts]
    wanted = coallocation(number, *components, submit_s=now_ms / 1000, claim=claim, consumer=asked.consumer)
    before = pickle.dumps(there)
    told = plan_coallocation(there, wanted, now_ms)
    assert pickle.dumps(there) == before
    there.handle([CoAllocationSubmitted(wanted)], now_ms)
    found = there.coallocations.moved[number]
    assert (told.state, told.reason) == (found.state, found.reason)
    assert told.sites == tuple(one.site for one in found.parts)
    assert told.start_ms == (found.start_ms if found.start_ms >= 0 else None)


class Curious(Gateway):
    """A gateway that is asked what would happen before and after every instant."""

    def handle(self, events: Any, now_ms: int) -> list[Effect]:
        """Ask, handle, ask again."""
        events = list[Event](events)
        self._be_asked(now_ms)
        effects = super().handle(events, now_ms)
        moved = dict(self.moved)
        self._be_asked(now_ms)
        assert self.moved == moved
        return effects

    def _be_asked(self, now_ms: int) -> None:
        with undone(self, self.leases.values()):
            super().handle([Submitted(Request(9_999, LeaseType.SUSPENDABLE, 2, 5_000, now_ms, now_ms))], now_ms)
            super().handle(
                [
                    CoAllocationSubmitted(
                        coallocation(99, part(2), part(3), submit_s=now_ms / 1000, claim="reservation")
                    )
                ],
                now_ms,
            )


@settings(max_examples=examples(8))
@given(cases(most_jobs=8))
def test_asking_changes_nothing_that_follows(case: Case) -> None:
    def run(kind: type[Gateway], policy: str) -> Chronicle:
        routing = Routing(routing_policy(policy)(Random(0)), try_elsewhere=True)
        return drive(kind(three_sites(), routing, REFERENCE_MIPS), case)

    for policy in ("pap-rtdp", "most-free", "selective"):
        assert run(Curious, policy).told == run(Gateway, policy).told


def test_a_request_that_makes_no_sense_leaves_no_trace() -> None:
    there = gateway()
    before = pickle.dumps(there)
    try:
        plan_request(there, local("nowhere", 1), 0)
    except LeaseholdError as error:
        assert "nowhere" in str(error)  # noqa: PT017 - what matters is what comes after it
    assert pickle.dumps(there) == before
