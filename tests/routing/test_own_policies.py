"""Policies of our own: who is sent where, who waits, and until when."""

from collections.abc import Callable
from itertools import product
from random import Random

import pytest

from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.demand import LocalDemand
from leasehold.routing.policies.back_off import BackOff
from leasehold.routing.policies.late_binding import LateBinding
from leasehold.routing.policies.price import Price
from leasehold.routing.policies.price_and_park import PriceAndPark
from leasehold.routing.policies.selective import Selective, SelectiveParameters
from leasehold.routing.policies.wait_for_idle import NOT_LEARNT, WaitForIdle
from leasehold.routing.policy import Dispatch, Hold, Refuse, RoutingPolicy, RoutingView, Waiting, newcomer
from leasehold.routing.pricing import PricedOffers
from leasehold.routing.view import FixedSources, SiteFacts, SiteHistory, SiteLive, SiteSet

SLOTS = 100
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
NOW_MS = 100 * HOUR_MS
BOTH = SiteSet(SiteFacts(name, SLOTS, 1, 1) for name in ("quiet", "busy"))


def learnt(vms: int) -> LocalDemand:
    """A site where a local lease of so many VMs comes every five minutes and stays for four; 0 for never."""
    table = LocalDemand(SLOTS)
    for number in range(NOW_MS // (5 * MINUTE_MS)):
        at_ms = number * 5 * MINUTE_MS
        if vms:
            table.began(number, vms, at_ms)
            table.ended(number, 4 * MINUTE_MS, at_ms + 4 * MINUTE_MS)
        table.advance(at_ms + 4 * MINUTE_MS)
    return table


TABLES = {"quiet": learnt(0), "busy": learnt(40)}


def view(
    policy: RoutingPolicy,
    quiet_vms: int,
    busy_vms: int,
    tables: dict[str, LocalDemand] | None = None,
    goes_to_all: Callable[[Request], bool] = lambda _: False,
) -> RoutingView:
    """Both sites, with so many VMs free."""
    sources = FixedSources(
        live_sites={"quiet": SiteLive(quiet_vms), "busy": SiteLive(busy_vms)}, demands=tables or TABLES
    )
    return RoutingView(BOTH, BOTH.sites, sources, policy.information, NOW_MS, goes_to_all=goes_to_all)


def request(kind: LeaseType = LeaseType.SUSPENDABLE, vms: int = 10, since_ms: int = NOW_MS) -> Request:
    return Request(1, kind, vms, MINUTE_MS, since_ms, since_ms)


def test_a_price_is_that_anybody_gives_way_and_that_these_vms_do() -> None:
    room = PricedOffers(BOTH.sites, view(Price(Random(0)), 100, 100)).rooms["busy"]
    assert room.price(60, 10 * MINUTE_MS) == pytest.approx(0, abs=0.01)
    assert room.price(61, 10 * MINUTE_MS) == pytest.approx(0.7 + 0.3 * 1 / 61, abs=0.03)
    assert room.price(100, 10 * MINUTE_MS) == pytest.approx(0.7 + 0.3 * 40 / 100, abs=0.03)
    assert room.price(101, MINUTE_MS) == float("inf")


def test_a_lower_price_goes_before_more_room() -> None:
    policy = Price(Random(0))
    assert policy.route(request(), view(policy, 11, 45), NOW_MS) == Dispatch("quiet")
    assert policy.route(request(), view(policy, 9, 45), NOW_MS) == Dispatch("busy")


@pytest.mark.parametrize("kind", [LeaseType.MIGRATABLE, LeaseType.NON_PREEMPTABLE])
def test_who_cannot_wait_is_sent_at_any_price(kind: LeaseType) -> None:
    policy = WaitForIdle(Random(0))
    assert policy.route(request(kind), view(policy, 0, 15), NOW_MS) == Dispatch("busy")


def test_best_effort_waits_for_a_low_price_and_pays_more_the_longer_it_has_waited() -> None:
    policy = WaitForIdle(Random(0))
    assert policy.route(request(), view(policy, 50, 15), NOW_MS) == Dispatch("quiet")
    assert policy.route(request(), view(policy, 0, 15), NOW_MS) == Hold()
    patient = request(since_ms=NOW_MS - 90 * HOUR_MS)
    assert policy.route(patient, view(policy, 0, 15), NOW_MS) == Dispatch("busy")
    assert policy.route(patient, view(policy, 0, 9), NOW_MS) == Hold()  # there is no room at any price


def test_before_it_is_ready_nobody_is_started() -> None:
    policy = WaitForIdle(Random(0))
    early = Request(1, LeaseType.SUSPENDABLE, 1, MINUTE_MS, NOW_MS, NOW_MS + 5_000)
    assert policy.route(early, view(policy, 90, 90), NOW_MS) == Hold(NOW_MS + 5_000)


def test_nobody_waits_for_prices_that_mean_nothing_yet() -> None:
    policy = WaitForIdle(Random(0))
    new = {"quiet": LocalDemand(SLOTS, NOW_MS), "busy": LocalDemand(SLOTS, NOW_MS)}
    assert policy.route(request(), view(policy, 15, 12, new), NOW_MS) == Dispatch("quiet", NOT_LEARNT)


def test_of_many_who_wait_those_are_asked_about_who_accept_a_price_but_not_at_every_instant() -> None:
    policy = WaitForIdle(Random(0))
    just_come, patient = newcomer(request()), newcomer(request(since_ms=NOW_MS - 90 * HOUR_MS))
    shown = view(policy, 0, 15)
    selection = policy.select([just_come, patient], shown, NOW_MS)
    assert (selection.ripe, selection.again_ms) == ([patient], NOW_MS)
    assert 0 < selection.rests_ms < MINUTE_MS


def test_who_may_go_to_all_sites_is_asked_about_exactly_where_it_would_start() -> None:
    policy = WaitForIdle(Random(0))
    some = [
        newcomer(Request(number, LeaseType.SUSPENDABLE, 10, 1_000 * asked_s, since_ms, since_ms))
        for number, (asked_s, minutes) in enumerate(product((30, 60, 110, 250), range(0, 360, 2)))
        for since_ms in [NOW_MS - minutes * MINUTE_MS]
    ]
    shown = view(policy, 0, 15)
    starts = [one for one in some if isinstance(policy.route(one.request, shown, NOW_MS), Dispatch)]
    bounded = policy.select(some, shown, NOW_MS).ripe
    exact = policy.select(some, view(policy, 0, 15, goes_to_all=lambda _: True), NOW_MS).ripe
    assert exact == starts != []
    assert [one for one in bounded if one in starts] == starts != bounded


def test_where_nobody_lends_nobody_is_asked_about() -> None:
    policy = WaitForIdle(Random(0))
    shown = RoutingView(BOTH, (), FixedSources(), policy.information, NOW_MS)
    assert policy.select([newcomer(request(since_ms=0))], shown, NOW_MS).ripe == []


def test_a_suspended_guest_goes_on_at_home_only_and_a_migratable_one_anywhere() -> None:
    policy = PriceAndPark(Random(0))
    shown = view(policy, 50, 15)
    suspended = Waiting(request(), NOW_MS, MINUTE_MS, "busy", 3_000)
    assert policy.resume(suspended, shown, NOW_MS) == Hold()
    movable = Waiting(request(LeaseType.MIGRATABLE), NOW_MS, MINUTE_MS, "busy", 3_000, 9_000)
    assert policy.resume(movable, shown, NOW_MS) == Dispatch("quiet")
    assert policy.select([suspended, movable], shown, NOW_MS).ripe == [movable]


def test_the_selective_refuse_who_would_most_likely_give_way_everywhere() -> None:
    policy = Selective(Random(0))
    long = Request(1, LeaseType.MIGRATABLE, 10, HOUR_MS, NOW_MS, NOW_MS)
    assert policy.route(long, view(policy, 0, 15), NOW_MS) == Refuse(Reason.TOO_RISKY)
    assert policy.route(long, view(policy, 20, 15), NOW_MS) == Dispatch("quiet")
    assert isinstance(policy.route(request(), view(policy, 0, 15), NOW_MS), Hold)


def test_the_selective_refuse_who_would_make_local_requests_wait_where_that_is_wanted() -> None:
    firm = Request(1, LeaseType.NON_PREEMPTABLE, 10, HOUR_MS, NOW_MS, NOW_MS)
    by_default, wary = Selective(Random(0)), Selective(Random(0), SelectiveParameters(np_refused_above=0.15))
    for policy, verdict in ((by_default, Dispatch("busy")), (wary, Refuse(Reason.TOO_RISKY))):
        assert policy.route(firm, view(policy, 0, 15), NOW_MS) == verdict
        assert policy.route(firm, view(policy, 20, 15), NOW_MS) == Dispatch("quiet")
    nowhere = wary.route(firm, view(wary, 0, 0), NOW_MS)
    assert nowhere == by_default.route(firm, view(by_default, 0, 0), NOW_MS), "what has no room is the site's to refuse"


def test_a_price_goes_by_the_time_that_is_likely_and_not_by_what_was_asked() -> None:
    long = Request(1, LeaseType.SUSPENDABLE, 10, HOUR_MS, NOW_MS, NOW_MS, consumer="careful")
    for part, is_dear in ((1.0, True), (0.02, False)):
        policy = Price(Random(0))
        sources = FixedSources(
            live_sites={"quiet": SiteLive(0), "busy": SiteLive(45)},
            demands=TABLES,
            needed_parts={"careful": part},
        )
        offers = PricedOffers(BOTH.sites, RoutingView(BOTH, BOTH.sites, sources, policy.information, NOW_MS))
        price, room = offers.cheapest(newcomer(long))[0]
        assert room.site.name == "busy"
        assert (price > 0.5) is is_dear
        assert (offers.least(newcomer(long)) > 0.5) is is_dear


def test_late_binding_leaves_a_reserve_that_is_gone_after_two_hours() -> None:
    policy = LateBinding(Random(0))
    assert policy.route(request(), view(policy, 50, 49), NOW_MS) == Dispatch("quiet")
    assert policy.route(request(), view(policy, 49, 49), NOW_MS) == Hold()
    hours = [newcomer(request(since_ms=NOW_MS - n * HOUR_MS)) for n in (0, 1, 2)]
    assert policy.select(hours, view(policy, 31, 29), NOW_MS).ripe == hours[1:]
    assert policy.select(hours, view(policy, 10, 9), NOW_MS).ripe == hours[2:]
    np = request(LeaseType.NON_PREEMPTABLE)
    assert policy.route(np, view(policy, 10, 12), NOW_MS) == Dispatch("busy")


def back_off_view(policy: BackOff, **histories: SiteHistory) -> RoutingView:
    return RoutingView(BOTH, BOTH.sites, FixedSources(histories=histories), policy.information, NOW_MS)


def test_back_off_grows_its_window_with_leases_that_are_over_and_cuts_it_with_each_preemption() -> None:
    policy = BackOff(Random(0))
    quiet = SiteHistory(in_flight_leases=5, in_flight_vms=45, sent=[5, 0, 0, 0])
    busy = SiteHistory(in_flight_leases=5, in_flight_vms=45, sent=[5, 0, 0, 0])
    assert policy.route(request(), back_off_view(policy, quiet=quiet, busy=busy), NOW_MS) == Hold()
    quiet.sent[0] += 25  # they have come and gone: 10 % of the slots more
    shown = back_off_view(policy, quiet=quiet, busy=busy)
    assert policy.select([newcomer(request())], shown, NOW_MS) == [newcomer(request())]
    assert policy.route(request(), shown, NOW_MS) == Dispatch("quiet")
    quiet.preempted_leases += 3
    assert policy.route(request(), shown, NOW_MS) == Hold()


def test_back_off_always_lets_one_alone() -> None:
    policy = BackOff(Random(0))
    idle = {name: SiteHistory(preempted_leases=50) for name in ("quiet", "busy")}
    assert policy.route(request(vms=90), back_off_view(policy, **idle), NOW_MS) == Dispatch("quiet")
