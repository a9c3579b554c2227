"""What would become of a request is what becomes of it; and asking changes nothing."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.coallocation.together import coallocation, part, two_sites
from tests.gateway.random_worlds import REFERENCE_MIPS, SLOTS, Case, Chronicle, cases, drive, three_sites
from tests.searching import examples

from leasehold.gateway.explaining import Elsewhere, explain_coallocation, explain_request
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.peering import AskWhen, Terms
from leasehold.gateway.sites import RemoteSite
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
    told = explain_request(gateway("most-free", at_most("b", 1)), request(), 0)
    assert told.view.virtual.sites == ("a", "b")
    assert told.view.extended.sites == ("a",)
    assert told.view.extended.breaches["b"].reason is Reason.EXCEEDS_AGREEMENT
    assert (told.state, told.site, told.reason) == (LeaseState.RUNNING, "a", Reason.ROOM_FREE)
    assert (told.start_ms, told.end_ms) == (0, 10_000)
    assert [(offer.domain, offer.score) for offer in told.brokered.offers] == [("das", 4)]


def test_a_site_that_is_too_narrow_is_none_where_it_could_run() -> None:
    told = explain_request(gateway(), request(5), 0)
    assert told.view.virtual.sites == ("b",)
    told = explain_request(gateway(), request(7), 0)
    assert (told.view.virtual.sites, told.state, told.reason) == (
        (),
        LeaseState.REFUSED,
        Reason.WIDER_THAN_ANY_SITE,
    )


def test_where_no_agreement_opens_a_site_the_breach_is_the_reason() -> None:
    told = explain_request(gateway("most-free", at_most("*", 1)), request(), 0)
    assert (told.state, told.reason) == (LeaseState.REFUSED, Reason.EXCEEDS_AGREEMENT)
    assert told.breach is not None
    assert told.breach.agreement == "few"


def test_the_broker_is_asked_just_what_the_gateway_asks() -> None:
    there = gateway(without_agreement="preemptable")
    told = explain_request(there, request(kind=LeaseType.NON_PREEMPTABLE), 0)
    assert (told.reason, told.brokered.offers) == (Reason.PREEMPTABLE_ONLY, ())
    assert explain_request(there, request(), 0).brokered.offers
    told = explain_request(there, replace(request(), is_foreign=True), 0)
    assert (told.reason, told.brokered.offers) == (Reason.NOT_A_MEMBER, ())


def test_where_nobody_lends_that_is_the_reason() -> None:
    there = gateway()
    there.handle([LendingChanged(name, lends=False) for name in "ab"], 0)
    told = explain_request(there, request(), 0)
    assert (told.state, told.reason, told.start_ms) == (LeaseState.HELD, Reason.NO_SITE_AVAILABLE, None)


def test_policies_that_take_turns_name_the_site_whose_turn_it_is() -> None:
    there = Gateway([*two_sites()], Routing(routing_policy("rr")(Random(0))))
    for number in range(1, 7):
        asked = Request(number, LeaseType.SUSPENDABLE, 1, 10_000, number, number)
        told = explain_request(there, asked, number)
        assert explain_request(there, asked, number).site == told.site
        there.handle([Submitted(asked)], number)
        assert there.leases[number].site == told.site
    assert {lease.site for lease in there.leases.values()} == {"a", "b"}


def test_a_migratable_lease_without_room_at_its_ready_time_is_refused_in_both() -> None:
    there = gateway()
    there.handle([Submitted(local("b", 6)), Submitted(local("a", 4, number=8))], 0)
    told = explain_request(there, request(2, kind=LeaseType.MIGRATABLE), 0)
    assert told.state is LeaseState.REFUSED
    assert told.reason is Reason.NO_ROOM_AT_READY_TIME


def test_who_would_give_way_to_a_local_request() -> None:
    there = gateway()
    there.handle([Submitted(replace(request(4), id=5))], 0)
    ((guest),) = there.leases.values()
    told = explain_request(there, local(guest.site, SLOTS_OF_TWO[guest.site]), 1_000)
    assert (told.state, told.reason, told.preempted) == (LeaseState.RUNNING, Reason.ROOM_MADE, (4,))
    assert guest.state is LeaseState.RUNNING


def test_one_that_waits_is_told_its_planned_start_and_end() -> None:
    there = gateway()
    there.handle([Submitted(local("b", 6)), Submitted(local("a", 4, number=8))], 0)
    told = explain_request(there, local("b", 6, number=10), 0)
    assert (told.state, told.site) == (LeaseState.WAITING, "b")
    assert (told.start_ms, told.end_ms) == (30_000, 60_000)


def test_a_peer_and_a_site_with_a_manager_decide_by_themselves() -> None:
    there = gateway()
    live = SiteLive(9)
    there.join(RemoteSite("north", 12, 1, live=live))
    told = explain_request(there, request(8), 0)
    assert (told.elsewhere, told.start_ms) == (Elsewhere("north", is_peer=False, free_vms=9), None)
    there.join(RemoteSite("lyon", 40, 1, is_peer=True, live=live))
    there.peering.agree("lyon", Terms(AskWhen.NONE_CAN))
    told = explain_request(there, request(30), 0)
    assert told.elsewhere == Elsewhere("lyon", is_peer=True, free_vms=9)


# Co-allocations


def test_a_coallocation_request_has_the_stages_of_each_component() -> None:
    told = explain_coallocation(
        gateway("most-free", at_most("b", 3)), coallocation(1, part(4), part(3), consumer="atlas"), 0
    )
    assert [view.extended.sites for view in told.components] == [("a",), ("a", "b")]
    assert told.sites == ("a", "b")
    assert told.start_ms == 0


def test_a_reservation_is_explained_with_its_start() -> None:
    there = gateway()
    there.handle([Submitted(local("b", 6))], 0)
    told = explain_coallocation(there, coallocation(1, part(4), part(6), claim="reservation"), 0)
    assert (told.sites, told.start_ms) == (("a", "b"), 30_000)
    told = explain_coallocation(there, coallocation(1, part(4), part(6)), 0)
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
        told = [explain_request(there, asked, number).site for _ in range(3)]
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
    told = explain_request(there, request, now_ms)
    assert pickle.dumps(there) == before
    assert told == explain_request(there, request, now_ms)
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
    assert len(told.preempted) == len(victims)


def as_said_together(there: Gateway, number: int, asked: Asked, now_ms: int) -> None:
    claim = "reservation" if asked.reserves else "incremental"
    components = [part(vms, asked.duration_ms / 1000) for vms in asked.parts]
    wanted = coallocation(number, *components, submit_s=now_ms / 1000, claim=claim, consumer=asked.consumer)
    before = pickle.dumps(there)
    told = explain_coallocation(there, wanted, now_ms)
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
        explain_request(there, local("nowhere", 1), 0)
    except LeaseholdError as error:
        assert "nowhere" in str(error)  # noqa: PT017 - what matters is what comes after it
    assert pickle.dumps(there) == before
