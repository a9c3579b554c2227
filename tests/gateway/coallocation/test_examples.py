"""Co-allocation, worked out by hand: site a has 4 VMs, site b 6; a MiB travels for 1.048576 s."""

from dataclasses import replace
from random import Random

import pytest
from tests.gateway.coallocation.together import coallocation, lose, part, run_together, take_back, two_sites
from tests.gateway.telling import Told, begun, decided, lent, own

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.model.effect import StartLease
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.event import (
    CancelRequested,
    CoAllocationCancelled,
    CoAllocationSubmitted,
    Event,
    LeaseEnded,
    LeaseIsLate,
    LendingChanged,
    Outage,
    OutagesChanged,
    Submitted,
    Tick,
)
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.registry import routing_policy
from leasehold.testing.worlds import guest, live_site, local, site

BOTH = pytest.mark.parametrize("claim", ["incremental", "reservation"])


# All or nothing


@BOTH
def test_components_start_together_at_once_where_there_is_room(claim: str) -> None:
    history = run_together([coallocation(1, part(4), part(6), claim=claim)], two_sites())
    assert sorted(history.starts_s(1)) == [(0, "a", 4), (0, "b", 6)]
    assert history.began_s(1) == 0
    assert history.closed(1) == (10, Reason.COMPLETED, 0)


@BOTH
def test_no_component_starts_before_all_of_them_can(claim: str) -> None:
    jobs = [local(0, 5, 30, home="b")]
    history = run_together([coallocation(1, part(2), part(4), claim=claim, submit_s=1)], two_sites(), jobs)
    # 4 fit into a at once, but then the 2 do not, nor anything else into b before 30 s
    assert history.began_s(1) == 30
    assert {at for at, _, _ in history.starts_s(1)} == {30}


@BOTH
def test_components_that_never_fit_together_are_refused_at_once(claim: str) -> None:
    history = run_together([coallocation(1, part(6), part(6), claim=claim)], two_sites())
    assert history.closed(1) == (0, Reason.NO_COMMON_ROOM, 0)
    assert history.starts_s(1) == []


@BOTH
def test_who_finds_no_common_room_before_the_deadline_is_refused(claim: str) -> None:
    jobs = [local(0, 6, 55, home="b")]
    late = coallocation(1, part(4), part(6), claim=claim, submit_s=1, deadline_s=60)
    history = run_together([late], two_sites(), jobs)
    at_s, reason, _ = history.closed(1)
    assert reason is Reason.NO_COMMON_ROOM
    assert at_s == (1 if claim == "reservation" else 50.001)


@BOTH
def test_a_component_wider_than_any_site_is_refused_at_once(claim: str) -> None:
    history = run_together([coallocation(1, part(1), part(7), claim=claim)], two_sites())
    assert history.closed(1) == (0, Reason.WIDER_THAN_ANY_SITE, 0)


@BOTH
def test_a_component_goes_only_to_where_its_image_is(claim: str) -> None:
    sites = [site("a", 4, images=("debian",)), site("b", 6, images=("cuda", "debian"))]
    needs = replace(part(2), image="cuda"), replace(part(4), image="debian")
    history = run_together([coallocation(1, *needs, claim=claim)], sites)
    assert sorted(history.starts_s(1)) in ([(0, "a", 4), (0, "b", 2)], [(0, "b", 2), (0, "b", 4)])
    both = replace(part(4), image="cuda"), replace(part(4), image="cuda")
    assert run_together([coallocation(1, *both, claim=claim)], sites).closed(1) == (0, Reason.NO_COMMON_ROOM, 0)


@BOTH
@pytest.mark.parametrize("at", ["", "a"])
def test_a_component_whose_image_is_not_there_is_refused_at_once(claim: str, at: str) -> None:
    sites = [site("a", 4), site("b", 6, images=("cuda",) if at else ())]
    wanted = coallocation(1, part(1), replace(part(1, 10, at), image="cuda"), claim=claim)
    assert run_together([wanted], sites).closed(1) == (0, Reason.NO_SUCH_IMAGE, 0)


def test_a_component_wider_than_the_site_that_it_has_to_be_at_is_refused_at_once() -> None:
    history = run_together([coallocation(1, part(5, 10, "a"))], two_sites())
    assert history.closed(1) == (0, Reason.WIDER_THAN_SITE, 0)


@BOTH
def test_two_components_may_share_a_site_but_not_its_room(claim: str) -> None:
    history = run_together([coallocation(1, part(3), part(3), part(4), claim=claim)], two_sites())
    assert sorted(history.starts_s(1)) == [(0, "a", 4), (0, "b", 3), (0, "b", 3)]


# Placement


def test_worst_fit_goes_where_most_is_free_and_counts_what_siblings_were_given() -> None:
    history = run_together([coallocation(1, part(1), part(1), part(2))], two_sites())
    # 2 of b's 6 first; then 1 of the 4 left at a and at b: a is listed first; then b has more
    assert sorted(history.starts_s(1)) == [(0, "a", 1), (0, "b", 1), (0, "b", 2)]


def test_worst_fit_is_left_where_it_leads_nowhere() -> None:
    # The 4 like b best, but then one of the 3 has no place: 4 at a, 3 and 3 at b is the only way.
    history = run_together([coallocation(1, part(4), part(3), part(3))], two_sites())
    assert sorted(history.starts_s(1)) == [(0, "a", 4), (0, "b", 3), (0, "b", 3)]


def test_close_to_files_goes_where_the_files_are() -> None:
    history = run_together([coallocation(1, part(1, 10, "", ("a", 5)), place="close-to-files")], two_sites())
    assert history.starts_s(1) == [(0, "a", 1)]


def test_close_to_files_takes_the_shortest_way_where_there_is_no_room() -> None:
    # 3 MiB are at a, 1 MiB is at b: at b only 3 MiB have to arrive, in 3.145728 s.
    component = part(5, 10, "", ("a", 3), ("b", 1))
    history = run_together([coallocation(1, component, place="close-to-files")], two_sites())
    assert history.began_s(1) == 3.146
    assert history.starts_s(1)[0][1] == "b"


@BOTH
def test_nothing_starts_before_all_files_have_arrived(claim: str) -> None:
    history = run_together([coallocation(1, part(2, 10, "a", ("b", 10)), part(2), claim=claim)], two_sites())
    assert history.began_s(1) == 10.486


@BOTH
def test_a_component_runs_at_the_site_that_it_names(claim: str) -> None:
    history = run_together([coallocation(1, part(1, 10, "a"), part(1, 10, "a"), claim=claim)], two_sites())
    assert {site for _, site, _ in history.starts_s(1)} == {"a"}


# Incremental claiming


def test_machines_are_claimed_when_three_quarters_of_the_time_have_passed() -> None:
    history = run_together([coallocation(1, part(4), part(6), margin_s=40)], two_sites())
    # placed at 0, start at 40, claimed at 30: 10 VMs are idle for 10 s
    assert sorted(history.starts_s(1)) == [(30, "a", 4), (30, "b", 6)]
    assert history.began_s(1) == 40
    assert history.closed(1) == (50, Reason.COMPLETED, 100_000)


def test_a_claim_that_fails_is_tried_for_again_closer_to_the_start_while_the_others_idle() -> None:
    # at 25 s a local job takes all of b, and ends before its time, at 37 s
    jobs = [local(25, 6, 60, 12, home="b")]
    history = run_together([coallocation(1, part(4, 10, "a"), part(6), margin_s=40)], two_sites(), jobs)
    # claimed at 30: only a; then at 30 + 7.5 = 37.5 s b too
    assert sorted(history.starts_s(1)) == [(30, "a", 4), (37.5, "b", 6)]
    assert history.began_s(1) == 40
    assert history.closed(1)[2] == 4 * 10_000 + 6 * 2_500


def test_a_claim_that_fails_is_placed_elsewhere() -> None:
    jobs = [local(25, 6, 60, home="b")]
    history = run_together([coallocation(1, part(2), margin_s=40)], two_sites(), jobs)
    assert history.starts_s(1) == [(30, "a", 2)]


def test_a_claim_is_placed_elsewhere_only_if_its_files_can_be_there_in_time() -> None:
    jobs = [local(25, 6, 60, home="b")]
    far = coallocation(1, part(2, 10, "", ("b", 20)), margin_s=40, place="close-to-files", tries=1)
    # 20 MiB to a take 21 s: too late from 30 s on; the start at 40 s is missed
    history = run_together([far], two_sites(), jobs)
    assert history.closed(1) == (40, Reason.NO_COMMON_ROOM, 0)


def test_where_a_claim_is_missing_at_the_start_all_are_given_back() -> None:
    jobs = [local(25, 6, 600, home="b")]
    lost = coallocation(1, part(4, 10, "a"), part(6), margin_s=40, tries=1)
    history = run_together([lost], two_sites(), jobs)
    assert history.closed(1) == (40, Reason.NO_COMMON_ROOM, 4 * 10_000)
    assert history.ends()[1_100] == (40, Reason.CLAIM_RELEASED)
    assert history.ends()[1_101] == (40, Reason.NO_COMMON_ROOM)


def test_after_a_try_that_failed_there_is_another_with_new_leases() -> None:
    jobs = [local(25, 6, 600, 30, home="b")]
    history = run_together([coallocation(1, part(4, 10, "a"), part(6), margin_s=40)], two_sites(), jobs)
    # given back at 40; b is free from 55 on: placed then, start 95, claimed at 85
    assert history.began_s(1) == 95
    assert history.ends()[1_100] == (40, Reason.CLAIM_RELEASED)
    assert history.ends()[1_102] == (105, Reason.COMPLETED)
    assert history.closed(1)[2] == 4 * 10_000 + 10 * 10_000


def test_what_is_given_back_is_the_owners_at_once() -> None:
    jobs = [local(25, 6, 600, home="b"), local(35, 4, 5, home="a")]
    run = run_together([coallocation(1, part(4, 10, "a"), part(6), margin_s=40, tries=1)], two_sites(), jobs)
    assert run.first_start_s(2) == 40


def test_nothing_is_held_before_the_ready_time() -> None:
    history = run_together([coallocation(1, part(4), ready_s=20)], two_sites())
    assert history.starts_s(1) == [(20, "b", 4)]


# Reservations


def test_a_reservation_is_for_the_earliest_common_start() -> None:
    jobs = [local(0, 4, 20, home="a"), local(0, 6, 50, home="b"), local(0, 4, 20, home="a")]
    # a is free from 40 on, b from 50 on
    history = run_together([coallocation(1, part(4), part(6), claim="reservation", submit_s=1)], two_sites(), jobs)
    assert history.began_s(1) == 50


def test_a_reservation_stands_against_who_comes_later() -> None:
    jobs = [local(1, 4, 15, home="a"), guest(1, 6, 15)]
    booked = coallocation(1, part(4), part(6), claim="reservation", ready_s=10)
    history = run_together([booked], two_sites(), jobs)
    assert history.began_s(1) == 10
    assert history.first_start_s(1) == 20  # the owner's job, which waits for what is lent for good


def test_a_reservation_that_cannot_end_by_its_deadline_is_refused() -> None:
    jobs = [local(0, 6, 50, home="b")]
    late = coallocation(1, part(6), claim="reservation", submit_s=1, deadline_s=55)
    history = run_together([late], two_sites(), jobs)
    assert history.closed(1) == (1, Reason.NO_COMMON_ROOM, 0)


def test_what_the_owner_does_not_lend_for_good_is_not_promised() -> None:
    sites = two_sites(non_preemptable_share_vms=3)
    history = run_together([coallocation(1, part(2), part(2), part(2), claim="reservation")], sites)
    assert history.closed(1)[1] is Reason.NO_COMMON_ROOM
    history = run_together(
        [coallocation(1, part(2), part(3), claim="reservation")], two_sites(non_preemptable_share_vms=3)
    )
    assert history.began_s(1) == 0


@BOTH
def test_while_a_site_is_shut_its_room_does_not_count(claim: str) -> None:
    shut = [(0.0, LendingChanged("b", lends=False)), (30.0, LendingChanged("b", lends=True))]
    history = run_together([coallocation(1, part(4), part(6), claim=claim, submit_s=1)], two_sites(), (), shut)
    assert history.began_s(1) == 30


# Failures, and changes of mind


@BOTH
def test_a_component_that_loses_its_machines_stops_the_others(claim: str) -> None:
    history = run_together([coallocation(1, part(4), part(6), claim=claim)], two_sites(), (), [(5, lose(1_101))])
    assert history.closed(1) == (5, Reason.MACHINES_LOST, 0)
    assert history.ends()[1_100] == (5, Reason.COMPONENT_LOST)


@BOTH
def test_a_component_that_loses_its_machines_is_placed_again_if_the_request_says_so(claim: str) -> None:
    history = run_together(
        [coallocation(1, part(2), part(4), claim=claim, retries=1)], two_sites(), (), [(5, lose(1_100))]
    )
    assert (5, "a", 2) in history.starts_s(1)
    assert history.closed(1) == (15, Reason.COMPLETED, 0)


def test_a_component_that_finds_no_room_after_a_loss_stops_the_others() -> None:
    jobs = [local(4, 2, 20, home="b"), local(4, 2, 20, home="a")]
    history = run_together(
        [coallocation(1, part(2, 10, "a"), part(4), retries=1)],
        two_sites(),
        jobs,
        [(5, lose(1_100)), (4.5, lose(2, 1))],
    )
    assert history.closed(1)[1] is Reason.COMPLETED  # its own machines are free again
    jobs = [local(1, 4, 3, home="a")]
    shut = (4.0, LendingChanged("a", lends=False))
    history = run_together(
        [coallocation(1, part(2, 10, "a"), part(4), retries=1)], two_sites(), jobs, [shut, (5, lose(1_100))]
    )
    assert history.closed(1) == (5, Reason.MACHINES_LOST, 0)


def test_machines_lost_while_idle_are_claimed_again() -> None:
    history = run_together(
        [coallocation(1, part(4), part(6), margin_s=40, retries=1)], two_sites(), (), [(32, lose(1_100))]
    )
    assert history.began_s(1) == 40
    # the 4 of a: from 30 to 32, and from 32 on; nothing was lost but a beginning
    assert history.closed(1)[2] == 10 * 10_000


def test_all_machines_that_are_lost_in_one_instant_were_idle_until_then() -> None:
    both_lost: list[tuple[float, Event]] = [(32, lose(1_100)), (32, lose(1_101))]
    history = run_together([coallocation(1, part(4), part(6), margin_s=40)], two_sites(), (), both_lost)
    assert history.closed(1)[1] is Reason.COMPLETED  # at the next try
    lost_and_cancelled: list[tuple[float, Event]] = [(32, lose(1_100)), (32, take_back(1))]
    history = run_together([coallocation(1, part(4), part(6), margin_s=40)], two_sites(), (), lost_and_cancelled)
    assert history.closed(1) == (32, Reason.CANCELLED_BY_USER, 10 * 2_000)


@BOTH
def test_who_takes_a_coallocation_request_back_takes_all_of_it_back(claim: str) -> None:
    history = run_together([coallocation(1, part(4), part(6), claim=claim)], two_sites(), (), [(5, take_back(1))])
    assert history.closed(1) == (5, Reason.CANCELLED_BY_USER, 0)
    assert {history.ends()[1_100], history.ends()[1_101]} == {(5, Reason.CANCELLED_BY_USER)}


@BOTH
def test_who_takes_a_component_back_takes_all_of_it_back(claim: str) -> None:
    history = run_together(
        [coallocation(1, part(4), part(6), claim=claim, ready_s=4)], two_sites(), (), [(2, CancelRequested(1_101))]
    )
    assert history.closed(1) == (2, Reason.CANCELLED_BY_USER, 0)


# What is said


def test_each_component_is_told_what_it_waits_for_and_where_it_goes() -> None:
    history = run_together([coallocation(1, part(4), part(6))], two_sites())
    assert {one.reason for _, one in history.decisions(Outcome.HOLD)} == {Reason.WAITING_FOR_COMPONENTS}
    assert {one.reason for _, one in history.decisions(Outcome.DISPATCH)} == {Reason.COALLOCATED}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tries": 0}, "tries: got 0, expected a whole number of at least 1"),
        ({"wait_ppm": 1_000_000}, "wait_ppm: got 1000000, expected a part of the time"),
        ({"margin_s": -1}, "margin_ms: got -1000, expected a whole number of at least 0"),
    ],
)
def test_a_coallocation_request_that_makes_no_sense_is_refused_with_its_field(
    fields: dict[str, int], said: str
) -> None:
    with pytest.raises(InvalidField, match=said):
        run_together([coallocation(1, part(1), **fields)], two_sites())


def test_names_that_there_are_not_are_refused() -> None:
    with pytest.raises(UnknownName, match="site: got 'c', expected one of a, b"):
        run_together([coallocation(1, part(1, 10, "", ("c", 1)))], two_sites())
    with pytest.raises(UnknownName, match="did you mean 'worst-fit'"):
        run_together([coallocation(1, part(1), place="best-fit")], two_sites())


# Promises that are called off


def test_who_was_called_off_starts_at_the_new_time_and_not_at_the_old_one() -> None:
    gateway = Gateway(two_sites(), Routing(routing_policy("most-free")(Random(0))))
    gateway.handle([CoAllocationSubmitted(coallocation(1, part(4), part(6), claim="reservation", ready_s=10))], 0)
    gateway.coallocations._reservation.call_off(gateway.coallocations.open[1], 2_000)
    owner = Request(1, LeaseType.NON_PREEMPTABLE, 4, 30_000, 2_000, 2_000, site="a")
    gateway.handle([Submitted(owner)], 2_000)
    assert gateway.coallocations.open[1].start_ms == 32_000
    for name in "ab":
        gateway.handle([Tick(name)], 10_000)
        assert list(gateway.sites[name].allocations.held) == ([1] if name == "a" else [])
    Invariants(gateway).check([], 10_000)


def test_reserved_components_are_called_off_together_where_machines_of_one_site_are_late() -> None:
    told = Told(live_site("a", 4), site("b", 6), routing="most-free")
    together = coallocation(1, part(4, 10, "a"), part(6, 10, "b"), claim="reservation")
    told.at(0, own(1, 4, 50, "a"), own(2, 6, 60, "b"), CoAllocationSubmitted(together))
    assert told.gateway.coallocations.open[1].start_ms == 60_000
    told.at(50, LeaseIsLate(1, 1))
    assert told.gateway.coallocations.open[1].start_ms == 100_000


def test_no_guest_gives_way_to_a_component_that_is_called_off_in_that_instant() -> None:
    told = Told(site("a", 4), site("b", 6), routing="most-free")
    together = coallocation(1, part(4, 10, "a"), part(4, 10, "b"), claim="reservation")
    told.at(0, own(1, 4, 60, "a"), lent(2, 2, 200, "cancelable"), CoAllocationSubmitted(together))
    assert (told.lease(2).site, told.gateway.coallocations.open[1].start_ms) == ("b", 60_000)
    down = [OutagesChanged("a", (Outage(1, 100_000),)), OutagesChanged("b", (Outage(2, 90_000),))]
    effects = told.at(60, LeaseEnded(1, 1), *down)
    assert (begun(effects), decided(effects, Outcome.PREEMPT)) == ([], [])
    assert told.gateway.coallocations.open[1].start_ms == 100_000


@BOTH
def test_owners_who_allow_no_such_guests_are_the_reason_and_not_the_room(claim: str) -> None:
    history = run_together([coallocation(1, part(1), part(1), claim=claim)], two_sites(non_preemptable_share_vms=0))
    assert history.closed(1) == (0, Reason.NON_PREEMPTABLE_NOT_ALLOWED, 0)


# Room that comes free before a promised start


def reserved_behind_another() -> Gateway:
    """CoAllocation 1 runs on everything for 60 s; coallocation 2 is promised its room for then."""
    gateway = Gateway(two_sites(), Routing(routing_policy("most-free")(Random(0))))
    for number in (1, 2):
        wanted = coallocation(number, part(4, 60), part(6, 60), claim="reservation")
        gateway.handle([CoAllocationSubmitted(wanted)], 0)
    assert gateway.coallocations.open[2].start_ms == 60_000
    return gateway


def test_a_reservation_is_brought_forward_when_room_comes_free() -> None:
    gateway = reserved_behind_another()
    effects = gateway.handle([CoAllocationCancelled(1)], 5_000)
    Invariants(gateway).check(effects, 5_000)
    assert gateway.coallocations.open[2].start_ms == 5_000
    started = {effect.lease.site for effect in effects if isinstance(effect, StartLease)}
    assert started == {"a", "b"}


def test_but_not_before_its_ready_time_nor_before_it_fits() -> None:
    gateway = Gateway(two_sites(), Routing(routing_policy("most-free")(Random(0))))
    owner = Request(1, LeaseType.NON_PREEMPTABLE, 6, 20_000, 0, 0, site="b")
    first = coallocation(1, part(4, 60), part(4, 60), claim="reservation", ready_s=20)
    second = coallocation(2, part(4, 60), part(6, 60), claim="reservation", ready_s=10)
    gateway.handle([Submitted(owner), CoAllocationSubmitted(first), CoAllocationSubmitted(second)], 0)
    assert [gateway.coallocations.open[number].start_ms for number in (1, 2)] == [20_000, 80_000]
    gateway.handle([CoAllocationCancelled(1)], 5_000)
    assert gateway.coallocations.open[2].start_ms == 20_000
    effects = gateway.handle([CancelRequested(1)], 6_000)
    Invariants(gateway).check(effects, 6_000)
    assert gateway.coallocations.open[2].start_ms == 10_000


def test_where_no_earlier_start_is_possible_every_promise_stays() -> None:
    gateway = reserved_behind_another()
    guest_ = Request(1, LeaseType.SUSPENDABLE, 1, 1_000, 0, 0)
    gateway.handle([Submitted(guest_)], 1_000)
    effects = gateway.handle([CancelRequested(1)], 2_000)
    Invariants(gateway).check(effects, 2_000)
    assert gateway.coallocations.open[2].start_ms == 60_000
