"""From the decision that somebody starts until machines are seen: what counts, what moves, who gives way."""

import pytest
from tests.gateway.telling import Told, begun, closed, decided, lent, own

from leasehold.gateway.sites import RemoteSite
from leasehold.model.effect import StopLease, SuspendLease, Used, WithdrawLease
from leasehold.model.event import (
    CancelRequested,
    LeaseContinues,
    LeaseEnded,
    LeaseFailed,
    LeaseIsLate,
    LeaseNotStarted,
    LeaseSaved,
    LeaseStarted,
    Operation,
    OverheadMeasured,
    SiteAnswered,
    SiteFellSilent,
    SiteReported,
    Tick,
)
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.routing.view import SiteLive
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.parties import Provider
from leasehold.testing.worlds import live_site, site

STARTING, RUNNING, SUSPENDING, SUSPENDED, MIGRATING, WAITING, HELD = (
    LeaseState.STARTING,
    LeaseState.RUNNING,
    LeaseState.SUSPENDING,
    LeaseState.SUSPENDED,
    LeaseState.MIGRATING,
    LeaseState.WAITING,
    LeaseState.HELD,
)

USUALLY_30_S = OverheadMeasured("a", Operation.START, 1024, 1, 30_000)


def told(*slots: int) -> Told:
    """Sites a, b, ... of so many slots, and an account of what is used."""
    sites = [live_site(name, vms) for name, vms in zip("abc", slots, strict=False)]
    sharing = Sharing([Provider(one.name, {"cpus": one.slots}) for one in sites])
    return Told(*sites, sharing=sharing)


def state(told: Told, number: int) -> LeaseState:
    return told.lease(number).state


def used(effects: object) -> list[tuple[int, str, int, int]]:
    return [
        (one.lease.id, one.site, one.begin_ms, one.end_ms)
        for one in effects  # type: ignore[attr-defined]
        if isinstance(one, Used)
    ]


class TestTheClock:
    def test_nobody_runs_before_its_machines_were_seen(self) -> None:
        world = told(4)
        world.at(0, lent(1, 2, 60))
        assert (state(world, 1), world.lease(1).first_start_ms) == (STARTING, -1)
        world.at(20, LeaseStarted(1, 1))
        assert (state(world, 1), world.lease(1).first_start_ms) == (RUNNING, 20_000)

    @pytest.mark.parametrize("boot_s", [0, 20, 59, 61, 500])
    def test_its_time_counts_from_then_however_long_they_took(self, boot_s: int) -> None:
        world = told(4)
        world.at(0, lent(1, 2, 60))
        for at_s in range(60, boot_s + 1, 60):
            world.at(at_s, LeaseIsLate(1, 1))
        world.at(boot_s, LeaseStarted(1, 1))
        assert world.lease(1).end_ms == (boot_s + 60) * 1000

    def test_news_that_come_late_say_since_when(self) -> None:
        world = told(4)
        world.at(0, lent(1, 2, 60))
        world.at(30, LeaseStarted(1, 1, since_ms=10_000))
        assert (world.lease(1).first_start_ms, world.lease(1).end_ms) == (10_000, 70_000)

    def test_a_start_that_is_a_moment_late_lets_nobody_overtake(self) -> None:
        world = told(4)
        world.at(0, own(1, 4, 60))
        world.at(0.001, own(2, 2, 60))
        world.at(0.002, own(3, 3, 300))
        assert [world.lease(number).reserved_ms for number in (2, 3)] == [60_000, 120_000]
        world.at(0.005, LeaseStarted(1, 1))
        # Planned alone, the second had to wait until the third, which came after it, has ended: for six minutes.
        assert [world.lease(number).reserved_ms for number in (2, 3)] == [60_005, 120_005]

    @pytest.mark.parametrize("since_ms", [-5_000, 99_000])
    def test_but_no_site_moves_it_before_its_order_or_behind_now(self, since_ms: int) -> None:
        world = told(4)
        world.at(1, lent(1, 2, 60))
        world.at(30, LeaseStarted(1, 1, since_ms=since_ms))
        assert world.lease(1).first_start_ms == (1_000 if since_ms < 0 else 30_000)

    def test_what_is_used_counts_from_then_until_it_lets_go(self) -> None:
        world = told(4)
        world.at(0, lent(1, 2, 60))
        world.at(20, LeaseStarted(1, 1))
        assert used(world.at(50, LeaseEnded(1, 1))) == [(1, "a", 20_000, 50_000)]

    def test_who_never_began_has_used_nothing(self) -> None:
        world = told(4)
        world.at(0, lent(1, 2, 60))
        assert used(world.at(50, CancelRequested(1))) == []

    def test_a_resumed_lease_has_the_rest_of_its_time_from_when_it_works_again(self) -> None:
        world = told(4)
        world.at(0, lent(1, 2, 100))
        world.at(10, LeaseStarted(1, 1))
        effects = world.at(40, own(2, 4, 5))  # 30 s of work are done
        assert used(effects) == [(1, "a", 10_000, 40_000)]
        world.at(41, LeaseStarted(2, 1), LeaseSaved(1, 1))
        world.at(46, LeaseEnded(2, 1))
        resumed_s = world.gateway.sites["a"].next_wake_ms()
        assert resumed_s is not None
        world.at(resumed_s / 1000, Tick("a"))
        assert state(world, 1) is LeaseState.RESUMING
        world.at(5_000, LeaseIsLate(1, 2))
        world.at(6_000, LeaseContinues(1, 2))
        assert (state(world, 1), world.lease(1).end_ms) == (RUNNING, 6_070_000)

    def test_in_a_simulation_machines_start_at_once(self) -> None:
        world = Told(site("a", 4))
        world.at(0, lent(1, 2, 60))
        assert (state(world, 1), world.lease(1).end_ms) == (RUNNING, 60_000)


class TestOthers:
    def test_waiting_guests_are_planned_behind_a_later_end_and_told_why(self) -> None:
        world = told(4)
        world.at(0, lent(1, 4, 60), lent(2, 4, 60))
        assert world.lease(2).reserved_ms == 60_000
        effects = world.at(20, LeaseStarted(1, 1))
        assert world.lease(2).reserved_ms == 80_000
        assert decided(effects) == [(2, Outcome.MOVE, Reason.DELAYED_BY_SLOW_START)]

    def test_so_are_local_leases_behind_a_local_one(self) -> None:
        world = told(4)
        world.at(0, own(1, 4, 60), own(2, 4, 60))
        effects = world.at(20, LeaseStarted(1, 1))
        assert world.lease(2).reserved_ms == 80_000
        assert decided(effects) == [(2, Outcome.MOVE, Reason.DELAYED_BY_SLOW_START)]

    def test_room_is_given_back_where_they_start_sooner_than_planned(self) -> None:
        world = told(4)
        world.at(0, USUALLY_30_S)
        world.at(0, lent(1, 4, 60), lent(2, 4, 60))
        assert world.lease(2).reserved_ms == 90_000  # 30 s to start, and 60 s of its own
        world.at(5, LeaseStarted(1, 1))
        assert world.lease(2).reserved_ms == 65_000

    def test_who_waits_for_room_is_promised_enough_to_start_in_too(self) -> None:
        world = told(4)
        world.at(0, own(1, 4, 60), USUALLY_30_S)
        world.at(1, lent(2, 4, 60, "migratable", ready_s=1, deadline_s=150, wait=True))
        assert (world.lease(2).reserved_ms, world.lease(2).end_ms) == (60_000, 150_000)

    def test_who_could_not_start_in_time_where_machines_take_so_long_is_promised_nothing(self) -> None:
        world = told(4)
        world.at(0, own(1, 4, 60), USUALLY_30_S)
        world.at(1, lent(2, 4, 60, "migratable", ready_s=1, deadline_s=149, wait=True))
        assert state(world, 2) is HELD

    def test_nobody_is_sent_on_to_where_its_machines_would_not_start_soon_enough(self) -> None:
        world = Told(live_site("a", 4), live_site("b", 4), use_free_room=True, try_elsewhere=True)
        world.at(0, own(1, 4, 60, "a"), own(2, 4, 70, "b"))
        world.at(1, lent(3, 4, 20, "migratable", ready_s=1, wait=True))
        assert world.lease(3).site == "a"
        world.at(2, lent(4, 4, 60, "non-preemptable", ready_s=40, domain="b", wait=True))
        assert world.lease(4).reserved_ms == 70_000
        world.at(3, OverheadMeasured("b", Operation.START, 1024, 1, 30_000))
        world.at(30, CancelRequested(2))  # b is free for 40 s: enough to run, but not to start as well
        assert (world.lease(3).site, state(world, 3)) == ("a", WAITING)

    @pytest.mark.parametrize(("span_s", "where"), [(60, "b"), (61, "a")])
    def test_the_time_to_start_counts_against_no_owners_limit_and_raises_none(self, span_s: int, where: str) -> None:
        world = Told(live_site("a", 4), live_site("b", 4, non_preemptable_max_ms=60_000))
        world.at(0, OverheadMeasured("b", Operation.START, 1024, 1, 30_000))
        world.at(1, own(1, 4, 600, "a"), own(2, 4, 60, "b"))
        world.at(2, lent(3, 4, span_s, "non-preemptable", ready_s=2, wait=True))
        assert world.lease(3).site == where

    def test_no_guest_that_is_late_delays_a_local_user(self) -> None:
        world = told(4)
        world.at(0, lent(1, 4, 60, "non-preemptable"))
        world.at(1, own(2, 4, 60))
        world.at(20, LeaseStarted(1, 1))
        assert (world.lease(1).end_ms, world.lease(2).reserved_ms) == (60_000, 60_000)
        world.at(60, LeaseEnded(1, 1, killed=True))
        assert state(world, 2) is STARTING

    def test_nor_does_one_that_gives_way(self) -> None:
        world = told(4)
        world.at(0, lent(1, 4, 60))
        world.at(1, LeaseStarted(1, 1), own(2, 4, 60))
        assert (state(world, 1), state(world, 2)) == (LeaseState.SUSPENDING, STARTING)

    def test_a_local_lease_does_not_take_what_a_guest_was_promised_for_good(self) -> None:
        world = told(4)
        world.at(0, own(1, 4, 60), lent(2, 4, 60, "non-preemptable", ready_s=60))
        world.at(20, LeaseStarted(1, 1))
        assert world.lease(1).end_ms == 60_000


class TestGivingWay:
    def test_who_may_have_begun_is_saved_and_not_begun_again(self) -> None:
        world = told(4)
        world.at(0, lent(1, 4, 60, "suspendable"))
        effects = world.at(5, own(2, 4, 10))
        assert [one.lease.id for one in effects if isinstance(one, SuspendLease)] == [1]
        assert not [one for one in effects if isinstance(one, WithdrawLease | StopLease)]
        assert state(world, 1) is SUSPENDING
        world.at(5, LeaseStarted(2, 1), LeaseStarted(1, 1))  # too late: it is being saved
        assert state(world, 1) is SUSPENDING
        world.at(6, LeaseSaved(1, 1))
        assert state(world, 1) is SUSPENDED

    def test_who_had_never_begun_is_tried_elsewhere(self) -> None:
        world = told(4, 4)
        world.at(0, lent(1, 4, 60, "suspendable"))
        here = world.lease(1).site
        world.at(5, own(2, 4, 10, here))
        effects = world.at(9, LeaseNotStarted(1, 1))
        assert [one.site for one in effects if isinstance(one, WithdrawLease)] == [here]
        assert (world.lease(1).site != here, state(world, 1)) == (True, STARTING)

    def test_who_is_cancelable_is_terminated(self) -> None:
        world = told(4)
        world.at(0, lent(1, 4, 60, "cancelable"))
        assert closed(world.at(5, own(2, 4, 10))) == [(1, Reason.TERMINATED)]

    def test_a_migratable_one_goes_on_elsewhere(self) -> None:
        world = told(4, 4)
        world.at(0, lent(1, 4, 60, "migratable"))
        here = world.lease(1).site
        world.at(5, own(2, 4, 10, here))
        assert (world.lease(1).site, state(world, 1)) == ("b" if here == "a" else "a", MIGRATING)
        assert world.lease(1).migrations == 1

    def test_or_is_saved_where_it_is_if_there_is_no_elsewhere(self) -> None:
        world = told(4)
        world.at(0, lent(1, 4, 60, "migratable", deadline_s=600))
        world.at(5, own(2, 4, 10))
        assert state(world, 1) is SUSPENDING

    def test_a_local_one_that_may_have_begun_keeps_its_room_even_before_what_was_promised(self) -> None:
        world = told(4)
        world.at(0, own(1, 4, 60), lent(2, 4, 60, "non-preemptable", ready_s=60))
        world.at(1, lent(3, 1, 30, "non-preemptable", ready_s=400))
        effects = world.at(60, LeaseIsLate(1, 1))
        assert (state(world, 1), state(world, 2)) == (STARTING, WAITING)
        assert decided(effects) == [(2, Outcome.MOVE, Reason.DELAYED_BY_SLOW_START)]
        assert [world.lease(number).reserved_ms for number in (2, 3)] == [120_000, 400_000]
        world.at(70, LeaseStarted(1, 1, since_ms=55_000))
        world.at(115, LeaseEnded(1, 1))
        assert (state(world, 2), state(world, 3)) == (WAITING, WAITING)
        world.at(120, Tick("a"))
        assert state(world, 2) is STARTING

    def test_guests_that_wait_get_room_behind_what_was_promised_later_for_it(self) -> None:
        world = told(4)
        world.at(0, own(1, 4, 60), lent(2, 1, 60, "non-preemptable", ready_s=60))
        world.at(1, lent(3, 4, 30))
        effects = world.at(60, LeaseIsLate(1, 1))
        assert [world.lease(number).reserved_ms for number in (2, 3)] == [120_000, 180_000]
        assert decided(effects) == [(number, Outcome.MOVE, Reason.DELAYED_BY_SLOW_START) for number in (2, 3)]

    def test_a_guest_whose_room_a_local_user_needs_has_failed_and_is_not_begun_again(self) -> None:
        world = told(4, 4)
        world.at(0, lent(1, 4, 60, "non-preemptable"))
        world.at(1, own(2, 4, 60, world.lease(1).site))
        effects = world.at(60, LeaseIsLate(1, 1))
        assert closed(effects) == [(1, Reason.NEVER_STARTED)]
        assert state(world, 2) is STARTING


class TestNeverStarted:
    @pytest.mark.parametrize("kind", ["cancelable", "suspendable", "migratable", "non-preemptable"])
    def test_a_guest_is_tried_elsewhere(self, kind: str) -> None:
        world = told(4, 4)
        world.at(0, lent(1, 2, 60, kind))
        first = world.lease(1).site
        effects = world.at(9, LeaseNotStarted(1, 1))
        assert [one.site for one in effects if isinstance(one, WithdrawLease)] == [first]
        assert decided(effects, Outcome.HOLD) == [(1, Outcome.HOLD, Reason.NEVER_STARTED)]
        assert (world.lease(1).site != first, state(world, 1), world.lease(1).incarnation) == (
            True,
            STARTING,
            2,
        )

    def test_who_has_been_everywhere_has_failed(self) -> None:
        world = told(4, 4)
        world.at(0, lent(1, 2, 60))
        world.at(9, LeaseNotStarted(1, 1))
        assert closed(world.at(18, LeaseNotStarted(1, 2))) == [(1, Reason.NEVER_STARTED)]

    @pytest.mark.parametrize("kind", ["cancelable", "suspendable", "migratable", "non-preemptable"])
    def test_so_has_who_is_then_refused_by_a_site_that_decides_for_itself(self, kind: str) -> None:
        world = told(4)
        world.gateway.join(RemoteSite("far", 4, 1, live=SiteLive(4)))
        world.at(0, lent(1, 2, 60, kind))
        world.at(9, LeaseNotStarted(1, 1))
        assert world.lease(1).site == "far"
        refused = SiteReported(1, "far", LeaseState.REFUSED, Reason.ROOM_IN_USE)
        assert closed(world.at(18, refused)) == [(1, Reason.NEVER_STARTED)]

    def test_a_local_one_has_failed(self) -> None:
        world = told(4, 4)
        world.at(0, own(1, 2, 60))
        assert closed(world.at(9, LeaseNotStarted(1, 1))) == [(1, Reason.NEVER_STARTED)]

    def test_news_of_an_earlier_start_are_none(self) -> None:
        world = told(4)
        world.at(0, lent(1, 2, 60))
        world.at(1, LeaseNotStarted(1, 0), LeaseStarted(1, 0))
        assert state(world, 1) is STARTING

    def test_what_was_refused_with_its_start_is_no_failure(self) -> None:
        """A site refuses the start and the suspension that was to follow it: there is nothing to save."""
        world = told(4, 4)
        world.at(0, lent(1, 4, 60, "suspendable"))
        here = world.lease(1).site
        world.at(5, own(2, 4, 10, here))
        world.at(9, LeaseNotStarted(1, 1), LeaseFailed(1, 1))
        assert (world.lease(1).site != here, state(world, 1)) == (True, STARTING)

    def test_nor_where_another_site_decides_for_itself(self) -> None:
        world = told(4)
        world.gateway.join(RemoteSite("far", 4, 1, live=SiteLive(4)))
        world.at(0, lent(1, 2, 60))
        world.at(9, LeaseNotStarted(1, 1))
        world.at(10, LeaseFailed(1, 1))
        assert (world.lease(1).site, state(world, 1)) == ("far", WAITING)

    def test_who_was_seen_is_not_taken_back(self) -> None:
        world = told(4)
        world.at(0, lent(1, 2, 60))
        world.at(1, LeaseStarted(1, 1))
        world.at(2, LeaseNotStarted(1, 1))
        assert state(world, 1) is RUNNING


class TestSilence:
    def test_a_silent_site_gets_no_guests(self) -> None:
        world = told(4, 4)
        world.at(0, SiteFellSilent("a"))
        world.at(1, *(lent(n, 1, 60) for n in range(1, 5)))
        assert {world.lease(n).site for n in range(1, 5)} == {"b"}

    def test_nor_are_guests_moved_there(self) -> None:
        world = told(4, 4)
        world.at(0, lent(1, 4, 60, "migratable"))
        here = world.lease(1).site
        world.at(1, LeaseStarted(1, 1), SiteFellSilent("b" if here == "a" else "a"))
        world.at(2, own(2, 4, 10, here))
        assert (world.lease(1).site, state(world, 1)) == (here, LeaseState.SUSPENDING)

    def test_who_was_told_to_start_there_or_waits_goes_elsewhere(self) -> None:
        world = told(4, 4)
        world.at(0, own(9, 4, 600, "b"), lent(1, 4, 60), lent(2, 4, 60), lent(3, 4, 60))
        at_a = [number for number in (1, 2, 3) if world.lease(number).site == "a"]
        assert STARTING in {state(world, number) for number in at_a}
        effects = world.at(1, SiteFellSilent("a"))
        held = decided(effects, Outcome.HOLD)
        assert sorted(held) == [(number, Outcome.HOLD, Reason.SITE_UNREACHABLE) for number in at_a]
        assert {world.lease(number).site for number in (1, 2, 3)} == {"b"}

    def test_who_runs_stays(self) -> None:
        world = told(4)
        world.at(0, lent(1, 2, 60))
        world.at(1, LeaseStarted(1, 1))
        world.at(2, SiteFellSilent("a"))
        assert state(world, 1) is RUNNING

    def test_a_local_lease_waits_for_its_own_machines(self) -> None:
        world = told(4)
        world.at(0, SiteFellSilent("a"), own(1, 2, 60))
        for at_s in (60, 120):
            world.at(at_s, LeaseIsLate(1, 1))
        assert state(world, 1) is STARTING
        world.at(150, SiteAnswered("a"), LeaseStarted(1, 1))
        assert (state(world, 1), world.lease(1).end_ms) == (RUNNING, 210_000)

    def test_who_has_nowhere_to_go_waits_until_it_answers(self) -> None:
        world = told(4)
        world.at(0, lent(1, 2, 60))
        world.at(1, SiteFellSilent("a"))
        assert state(world, 1) is HELD
        assert begun(world.at(2, SiteAnswered("a"))) == [(1, "a")]

    def test_nobody_is_resumed_there_until_it_answers(self) -> None:
        world = told(4)
        world.at(0, lent(1, 4, 600))
        world.at(1, LeaseStarted(1, 1))
        world.at(2, own(2, 4, 5))
        world.at(3, LeaseStarted(2, 1), LeaseSaved(1, 1))
        world.at(4, SiteFellSilent("a"))
        effects = world.at(5, LeaseEnded(2, 1))
        for at_s in range(600, 2_000, 100):
            effects += world.at(at_s, Tick("a"))
        assert begun(effects) == []
        assert decided(effects).count((1, Outcome.WAIT, Reason.SITE_UNREACHABLE)) <= 1
        effects = world.at(3_000, SiteAnswered("a"))
        assert begun(effects) == [(1, "a")]
