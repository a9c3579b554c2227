"""A guest whose machines are lost begins again wherever there is room, as often as it may, if it can be in time."""

import pytest
from hypothesis import given, settings
from tests.gateway.random_worlds import QUICK, three_sites
from tests.gateway.telling import Told, begun, closed, decided, lent, own
from tests.gateway.turbulence import Turmoil, live_through, turmoils
from tests.searching import examples

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.sites import RemoteSite
from leasehold.model.effect import Decision, Effect, LeaseClosed, OfferLease, WithdrawLease
from leasehold.model.event import (
    CancelRequested,
    LeaseEnded,
    LeaseFailed,
    LeaseSaved,
    Outage,
    OutagesChanged,
    SiteForgotten,
    SiteReported,
)
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.routing.view import SiteLive
from leasehold.testing.worlds import site

RESTARTED = Reason.MACHINES_LOST_RESTARTED


def two_sites(max_restarts: int = 2) -> Told:
    return Told(site("a", 4, overhead=QUICK), site("b", 4, overhead=QUICK), max_restarts=max_restarts)


class TestAGuestThatLosesItsMachines:
    @pytest.mark.parametrize("kind", ["cancelable", "suspendable", "migratable", "non-preemptable"])
    def test_begins_again_where_there_is_room_with_all_of_its_work(self, kind: str) -> None:
        told = two_sites()
        told.at(0, lent(1, 4, 10, kind))
        effects = told.at(6, LeaseFailed(1, 1), OutagesChanged("a", (Outage(4, 60_000),)))
        assert (1, Outcome.HOLD, RESTARTED) in decided(effects)
        assert [(one.site, one.incarnation) for one in effects if isinstance(one, WithdrawLease)] == [("a", 1)]
        lease = told.lease(1)
        assert (begun(effects), lease.incarnation, lease.restarts) == ([(1, "b")], 2, 1)
        assert (lease.first_start_ms, lease.end_ms) == (0, 16_000)
        assert closed(told.at(16, LeaseEnded(1, 2))) == [(1, Reason.COMPLETED)]

    @pytest.mark.parametrize("kind", ["cancelable", "suspendable", "migratable", "non-preemptable"])
    def test_waits_for_room_though_it_had_asked_for_a_time(self, kind: str) -> None:
        told = Told(site("a", 4), max_restarts=1)
        told.at(0, lent(1, 4, 10, kind))
        effects = told.at(6, LeaseFailed(1, 1), OutagesChanged("a", (Outage(2, 60_000),)))
        assert (begun(effects), closed(effects)) == ([], [])
        assert begun(told.at(60, OutagesChanged("a", ()))) == [(1, "a")]

    def test_has_failed_once_it_has_begun_again_as_often_as_it_may(self) -> None:
        told = two_sites(max_restarts=2)
        told.at(0, lent(1, 4, 10))
        told.at(1, LeaseFailed(1, 1))
        told.at(2, LeaseFailed(1, 2))
        assert closed(told.at(3, LeaseFailed(1, 3))) == [(1, Reason.RESTART_LIMIT_REACHED)]

    @pytest.mark.parametrize(("asked", "restarts"), [(0, 0), (1, 1), (5, 2)])
    def test_begins_again_as_often_as_its_user_wants_but_not_more_often_than_the_gateway_lets_it(
        self, asked: int, restarts: int
    ) -> None:
        told = two_sites(max_restarts=2)
        told.at(0, lent(1, 4, 10, max_restarts=asked))
        for failure in range(restarts):
            assert closed(told.at(failure + 1, LeaseFailed(1, failure + 1))) == []
        why = Reason.RESTART_LIMIT_REACHED if restarts else Reason.MACHINES_LOST
        assert closed(told.at(9, LeaseFailed(1, restarts + 1))) == [(1, why)]

    def test_has_failed_if_it_cannot_be_in_time_any_more(self) -> None:
        told = two_sites()
        told.at(0, lent(1, 4, 10, "migratable", deadline_s=15))
        effects = told.at(6, LeaseFailed(1, 1))
        assert closed(effects) == [(1, Reason.RESTART_TOO_LATE)]
        assert (1, Outcome.REFUSE, Reason.DEADLINE_TOO_TIGHT) in decided(effects)
        assert told.gateway.leases == {}

    def test_has_failed_once_it_has_waited_too_long_for_room(self) -> None:
        told = Told(site("a", 4), max_restarts=1)
        told.at(0, lent(1, 4, 10, "migratable", deadline_s=30))
        told.at(6, LeaseFailed(1, 1), OutagesChanged("a", (Outage(2, 60_000),)))
        assert closed(told.at(25, OutagesChanged("a", (Outage(2, 61_000),)))) == [(1, Reason.RESTART_TOO_LATE)]

    def test_begins_from_the_start_where_its_saved_memory_is_lost(self) -> None:
        told = two_sites()
        told.at(0, lent(1, 4, 10))
        told.at(2, own(2, 4, 10))
        told.at(4, LeaseSaved(1, 1))
        assert begun(told.at(5, LeaseFailed(1, 1))) == [(1, "b")]
        assert told.lease(1).work_left == 10_000

    def test_is_cancelled_while_it_waits_to_begin_again(self) -> None:
        told = Told(site("a", 4), max_restarts=1)
        told.at(0, lent(1, 4, 10))
        told.at(6, LeaseFailed(1, 1), OutagesChanged("a", (Outage(2, 60_000),)))
        assert closed(told.at(7, CancelRequested(1))) == [(1, Reason.CANCELLED_BY_USER)]

    def test_takes_no_notice_of_news_of_the_lost_machines(self) -> None:
        told = two_sites()
        told.at(0, lent(1, 4, 10))
        told.at(6, LeaseFailed(1, 1))
        assert closed(told.at(7, LeaseFailed(1, 1), LeaseEnded(1, 1))) == []


def test_a_local_request_has_failed() -> None:
    told = two_sites()
    told.at(0, own(1, 4, 10))
    assert closed(told.at(6, LeaseFailed(1, 1))) == [(1, Reason.MACHINES_LOST)]


class TestAtASiteThatDecidesForItself:
    def told(self) -> Told:
        """Lease 1 runs at `far`; the gateway has a site of its own that is free."""
        told = Told(site("a", 2), routing="most-free", max_restarts=1)
        told.gateway.join(RemoteSite("far", 4, 1, live=SiteLive(4)))
        told.at(0, own(9, 2, 5))
        told.at(0, lent(1, 2, 10))
        told.at(0.1, self.report(LeaseState.RUNNING, Reason.ROOM_FREE))
        assert (told.lease(1).site, told.lease(1).state) == ("far", LeaseState.RUNNING)
        return told

    def report(self, state: LeaseState, reason: Reason, first_start_ms: int = 50) -> SiteReported:
        return SiteReported(1, "far", state, reason, first_start_ms=first_start_ms)

    def test_it_begins_again_where_its_gateway_finds_room(self) -> None:
        told = self.told()
        told.at(5, LeaseEnded(9, 1))
        effects = told.at(6, self.report(LeaseState.FAILED, Reason.MACHINES_LOST))
        offers = [one.lease.site for one in effects if isinstance(one, OfferLease)]
        assert (begun(effects), offers) == ([(1, "a")], [])
        assert told.lease(1).restarts == 1
        assert (1, Outcome.HOLD, RESTARTED) in decided(effects)

    def test_it_begins_again_elsewhere_when_the_site_is_forgotten(self) -> None:
        told = self.told()
        told.at(5, LeaseEnded(9, 1))
        effects = told.at(6, SiteForgotten("far"))
        assert (begun(effects), closed(effects)) == ([(1, "a")], [])

    def test_a_start_that_fails_there_after_that_is_tried_elsewhere(self) -> None:
        told = self.told()
        told.at(4, self.report(LeaseState.FAILED, Reason.MACHINES_LOST))
        assert told.lease(1).site == "far"
        told.at(5, LeaseEnded(9, 1))
        effects = told.at(6, self.report(LeaseState.FAILED, Reason.NEVER_STARTED, -1))
        assert begun(effects) == [(1, "a")]

    def test_it_has_failed_where_its_user_had_cancelled_it(self) -> None:
        told = self.told()
        told.at(5, CancelRequested(1))
        effects = told.at(6, self.report(LeaseState.FAILED, Reason.MACHINES_LOST))
        assert closed(effects) == [(1, Reason.MACHINES_LOST)]


class Restarts:
    """Counts what is decided, to be compared with what the leases say."""

    def __init__(self) -> None:
        self.counted: dict[int, int] = {}
        self.told: dict[int, int] = {}

    def look(self, _gateway: Gateway, effects: list[Effect], _now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, Decision) and effect.reason is RESTARTED:
                assert not effect.lease.request.is_local
                self.counted[effect.lease.id] = self.counted.get(effect.lease.id, 0) + 1
            if isinstance(effect, LeaseClosed):
                self.told[effect.lease.id] = effect.lease.restarts


@settings(max_examples=examples(150))
@given(turmoil=turmoils())
def test_whatever_breaks_everybody_comes_to_one_end_and_begins_again_no_more_often_than_that(turmoil: Turmoil) -> None:
    restarts = Restarts()
    chronicle = live_through(turmoil.only(LeaseFailed), three_sites(), look=restarts.look, max_restarts=1)
    assert len(chronicle.ends()) == len(turmoil.jobs)
    assert all(count <= 1 for count in restarts.counted.values())
    assert {number: count for number, count in restarts.told.items() if count} == restarts.counted
    assert all(one.allocations.held == {} for one in chronicle.sites)
    for number, (_, reason) in chronicle.ends().items():
        if reason is Reason.COMPLETED and number not in restarts.counted:
            job = turmoil.jobs[number - 1]
            assert sum(stay.mips * (stay.end_ms - stay.start_ms) for stay in chronicle.stays(number)) >= job.actual_ms
