"""Co-allocations under agreements: each component is asked about, and those before it count."""

from collections.abc import Iterable
from random import Random

import pytest
from tests.gateway.coallocation.together import Together, coallocation, part, run_together, two_sites

from leasehold.gateway.coallocation.reservation import _Search
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.model.agreement import CPUS, MILLION, Agreement, Breach, DailyHours, NoLimit, Rules, TimeDecay
from leasehold.model.coallocation import CoAllocationState
from leasehold.model.effect import WakeAt
from leasehold.model.event import Agreed, CancelRequested, CoAllocationSubmitted, Submitted
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.registry import routing_policy
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.parties import Provider

BOTH = pytest.mark.parametrize("claim", ["incremental", "reservation"])
HOUR_S = 3_600
PLACES = [Provider("a", {CPUS: 4}, "das"), Provider("b", {CPUS: 6}, "das")]


def under(*agreements: Agreement, **settings: int) -> Sharing:
    return Sharing(PLACES, SharingSettings(**settings), agreements)  # type: ignore[arg-type]


def at_a_time(vms: int, provider: str = "das") -> Agreement:
    return Agreement("at-a-time", provider, "physics", NoLimit(), lending_limit=vms)


def refusals(history: Together) -> Iterable[tuple[str, Reason]]:
    return {(one.site, one.reason) for _, one in history.decisions(Outcome.REFUSE)}


@BOTH
def test_two_components_do_not_both_fit_under_a_limit_for_one(claim: str) -> None:
    asked = coallocation(1, part(3), part(3), claim=claim, consumer="physics", tries=1)
    history = run_together([asked], two_sites(), sharing=under(at_a_time(5)))
    assert Reason.CONCURRENCY_LIMIT_REACHED in {reason for _, reason in refusals(history)}
    assert history.closed(1)[1] in {Reason.CONCURRENCY_LIMIT_REACHED, Reason.NO_COMMON_ROOM}
    assert history.began_s(1) is None


@BOTH
def test_a_component_that_its_site_refuses_is_placed_again(claim: str) -> None:
    # Both like b; of the 4 that may be had there, the first takes 2: the second 3 go to a.
    asked = coallocation(1, part(2), part(3), claim=claim, consumer="physics")
    history = run_together([asked], two_sites(), sharing=under(at_a_time(4, "b")))
    assert sorted((site, vms) for _, site, vms in history.starts_s(1)) == [("a", 2), ("b", 3)]
    assert history.began_s(1) == 0


@BOTH
def test_what_no_agreement_ever_gives_is_refused_with_the_reason(claim: str) -> None:
    asked = coallocation(1, part(3), part(6), claim=claim, consumer="physics")
    history = run_together([asked], two_sites(), sharing=under(at_a_time(5)))
    assert history.closed(1) == (0, Reason.EXCEEDS_AGREEMENT, 0)


@BOTH
def test_a_share_that_is_used_up_keeps_all_of_it_waiting(claim: str) -> None:
    # 10% of 10 CPUs over a minute are 60 CPU-seconds; the first request takes 100.
    share = Agreement("share", "das", "physics", TimeDecay(100_000, 60_000, (MILLION,)))
    asked = [
        coallocation(1, part(4), part(6), consumer="physics"),
        coallocation(2, part(1), part(1), submit_s=20, claim=claim, consumer="physics"),
    ]
    history = run_together(asked, two_sites(), sharing=under(share))
    assert (history.began_s(1), history.began_s(2)) == (0, 60)
    held = [one for at, one in history.decisions(Outcome.HOLD) if at == 20 and one.breach is not None]
    assert {one.reason for one in held} == {Reason.SHARE_EXHAUSTED}
    assert {(one.breach.used, one.breach.limit) for one in held if one.breach} == {(166_666, 100_000)}


def test_a_reservation_may_be_for_hours_at_which_it_is_allowed() -> None:
    # Nothing runs for longer than 15 minutes from 8 to 20 o'clock, of which 19:45 is 15 minutes away.
    das = Rules(longest_ms=900_000, hours=DailyHours(8 * 60, 20 * 60))
    rule = Agreement("das-rule", "das", "*", NoLimit(), rules=das)
    asked = coallocation(1, part(4, HOUR_S), part(6, HOUR_S), claim="reservation", ready_s=10 * HOUR_S)
    history = run_together([asked], two_sites(), sharing=under(rule))
    assert history.began_s(1) == 19.75 * HOUR_S


def test_time_held_idle_counts_as_used() -> None:
    sharing = under(Agreement("share", "das", "physics", TimeDecay(MILLION, 60_000, (MILLION,))))
    run_together([coallocation(1, part(4), part(6), margin_s=40, consumer="physics")], two_sites(), sharing=sharing)
    used = sharing.ledger.used(("physics", "das", CPUS), 0, 60_000)
    assert used == 10 * (10_000 + 10_000)  # idle from 30 to 40 s, at work until 50 s


def test_only_the_domains_that_the_broker_recommends_are_used() -> None:
    places = [Provider("a", {CPUS: 4}), Provider("b", {CPUS: 6})]
    sharing = Sharing(places, SharingSettings(top_n=1))
    history = run_together([coallocation(1, part(2), part(2), part(2))], two_sites(), sharing=sharing)
    assert {site for _, site, _ in history.starts_s(1)} == {"b"}


def test_a_time_that_an_agreement_names_at_many_starts_is_tried_once() -> None:
    search = _Search(0)
    for next_ms in (60_000, 90_000, 60_000, 90_000, 60_000):
        search.met(Breach("hours", "das", "physics", CPUS, Reason.OUTSIDE_AGREED_HOURS, 1, 0, next_ms=next_ms))
    assert search.others == [60_000, 90_000]


def test_a_promise_that_is_lost_on_the_way_to_an_earlier_one_is_looked_for_again_at_once() -> None:
    gateway = Gateway(two_sites(), Routing(routing_policy("most-free")(Random(0))), sharing=under())
    owners = [
        Request(number, LeaseType.NON_PREEMPTABLE, vms, span_ms, 0, 0, site=home)
        for number, vms, span_ms, home in [(1, 4, 60_000, "a"), (2, 6, 900_000, "b")]
    ]
    asked = coallocation(1, part(2), part(2), claim="reservation", consumer="physics")
    gateway.handle([*map(Submitted, owners), CoAllocationSubmitted(asked)], 0)
    assert gateway.coallocations.open[1].start_ms == 60_000
    gateway.coallocations.moved.clear()
    # At b there is room now for both, but not by what is agreed; and a promises nothing in advance any more.
    no_longer = Agreement("not-ahead", "a", "physics", NoLimit(), rules=Rules(reserved_longest_ms=1))
    effects = gateway.handle([Agreed((at_a_time(3, "b"), no_longer)), CancelRequested(2)], 5_000)
    Invariants(gateway).check(effects, 5_000)
    assert gateway.coallocations.open[1].state is CoAllocationState.HELD
    assert 1 in gateway.coallocations.moved
    assert 5_001 in {one.at_ms for one in effects if isinstance(one, WakeAt)}
