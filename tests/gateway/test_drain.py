"""An owner lends no more, and lends again: who stays, who goes elsewhere, who waits for a door to open."""

import pytest
from hypothesis import given, settings
from tests.gateway.random_worlds import PREEMPTABLE, QUICK, SLOTS, three_sites
from tests.gateway.telling import Told, begun, closed, decided, lent, own
from tests.gateway.turbulence import Turmoil, live_through, turmoils
from tests.searching import examples

from leasehold.gateway.gateway import Gateway
from leasehold.model.effect import Effect, MigrateLease, StartLease
from leasehold.model.event import CancelRequested, Event, LeaseEnded, LeaseSaved, LendingChanged, Tick
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.testing.worlds import site


def shut(name: str = "a") -> LendingChanged:
    return LendingChanged(name, lends=False)


def opened(name: str = "a") -> LendingChanged:
    return LendingChanged(name, lends=True)


def two_sites() -> Told:
    return Told(site("a", 4, overhead=QUICK), site("b", 4, overhead=QUICK), routing="most-free")


HELD = (Outcome.HOLD, Reason.NO_SITE_AVAILABLE)


class TestNewGuests:
    def test_go_to_sites_that_lend(self) -> None:
        told = two_sites()
        told.at(0, shut())
        assert begun(told.at(1, lent(1, 2, 10), lent(2, 2, 10))) == [(1, "b"), (2, "b")]

    def test_the_door_is_shut_for_who_comes_in_the_same_instant(self) -> None:
        told = two_sites()
        assert begun(told.at(0, lent(1, 2, 10), shut())) == [(1, "b")]

    def test_wait_at_the_gateway_where_nobody_lends(self) -> None:
        told = two_sites()
        told.at(0, shut("a"), shut("b"))
        assert decided(told.at(1, lent(1, 2, 10))) == [(1, *HELD)]
        assert told.lease(1).state is LeaseState.HELD
        assert told.at(2, Tick()) == []
        assert begun(told.at(3, opened("b"))) == [(1, "b")]

    def test_it_is_said_once_that_they_wait(self) -> None:
        told = two_sites()
        told.at(0, shut("a"), shut("b"), lent(1, 2, 10))
        assert decided(told.at(1, lent(2, 2, 10), shut("b"))) == [(2, *HELD)]

    def test_who_waits_at_the_gateway_may_be_taken_back(self) -> None:
        told = two_sites()
        told.at(0, shut("a"), shut("b"), lent(1, 2, 10))
        assert closed(told.at(1, CancelRequested(1))) == [(1, Reason.CANCELLED_BY_USER)]
        assert begun(told.at(2, opened("a"), opened("b"))) == []

    def test_who_fits_nowhere_is_refused_whether_anybody_lends_or_not(self) -> None:
        told = two_sites()
        told.at(0, shut("a"), shut("b"))
        assert closed(told.at(1, lent(1, 5, 10))) == [(1, Reason.WIDER_THAN_ANY_SITE)]

    def test_who_fits_only_where_nobody_lends_waits_for_that(self) -> None:
        told = Told(site("a", 8), site("b", 4))
        told.at(0, shut("a"))
        assert decided(told.at(1, lent(1, 5, 10))) == [(1, *HELD)]
        assert begun(told.at(2, opened("a"))) == [(1, "a")]


class TestThoseWhoAreThere:
    def test_run_on(self) -> None:
        told = two_sites()
        told.at(0, lent(1, 4, 10), shut("b"))
        assert told.lease(1).site == "a"
        assert told.at(1, shut("a")) == []
        assert closed(told.at(10, LeaseEnded(1, 1))) == [(1, Reason.COMPLETED)]

    def test_go_elsewhere_when_they_have_only_waited(self) -> None:
        told = Told(site("a", 4), site("b", 4), routing="rr")
        told.at(0, own(1, 4, 10, "a"), lent(2, 4, 10))
        assert told.lease(2).site == "a"
        effects = told.at(1, shut("a"))
        assert decided(effects, Outcome.HOLD) == [(2, Outcome.HOLD, Reason.SITE_DRAINED)]
        assert begun(effects) == [(2, "b")]

    def test_keep_the_time_that_they_were_promised(self) -> None:
        told = two_sites()
        told.at(0, shut("b"), lent(1, 4, 10, "non-preemptable", ready_s=5))
        told.at(1, shut("a"))
        assert begun(told.at(5, Tick("a"))) == [(1, "a")]

    def test_are_resumed_where_they_were_suspended(self) -> None:
        told = two_sites()
        told.at(0, lent(1, 4, 10), shut("b"))
        told.at(2, own(2, 4, 10, "a"), shut("a"))
        told.at(4, LeaseSaved(1, 1))
        assert begun(told.at(12, LeaseEnded(2, 1))) == [(1, "a")]
        assert told.lease(1).state is LeaseState.RESUMING

    def test_do_not_move_to_where_nobody_lends(self) -> None:
        told = two_sites()
        told.at(0, lent(1, 4, 10, "migratable"), shut("b"))
        effects = told.at(2, own(2, 4, 10, "a"))
        assert not [effect for effect in effects if isinstance(effect, MigrateLease)]
        assert told.lease(1).state is LeaseState.SUSPENDING


def test_its_own_users_do_not_mind() -> None:
    told = two_sites()
    told.at(0, shut("a"))
    assert begun(told.at(1, own(1, 4, 10, "a"))) == [(1, "a")]


@pytest.mark.parametrize("change", [shut("a"), opened("a")])
def test_told_twice_is_told_once(change: Event) -> None:
    told = two_sites()
    told.at(0, own(1, 4, 10, "a"), own(2, 4, 10, "b"), lent(3, 2, 10), lent(4, 2, 10), change)
    assert told.at(1, change) == []


class Doors:
    """Follows who lends, and notices whoever comes in through a shut door."""

    def __init__(self, turmoil: Turmoil) -> None:
        self._changes = [one for one in turmoil.to_the_end() if isinstance(one[1], LendingChanged)]
        self._shut: set[str] = set()

    def look(self, gateway: Gateway, effects: list[Effect], now_ms: int) -> None:
        while self._changes and self._changes[0][0] <= now_ms:
            change = self._changes.pop(0)[1]
            assert isinstance(change, LendingChanged)
            (self._shut.discard if change.lends else self._shut.add)(change.site)
        for effect in effects:
            if isinstance(effect, StartLease) and effect.lease.site in self._shut:
                assert effect.lease.request.is_local or not effect.lease.request.lease_type.is_best_effort
            if isinstance(effect, MigrateLease):
                assert effect.lease.site not in self._shut
        assert set(gateway.pending.unschedulable) == set() or self._shut


class TestInRandomWorlds:
    @settings(max_examples=examples(200))
    @given(turmoil=turmoils())
    def test_nobody_comes_in_through_a_shut_door(self, turmoil: Turmoil) -> None:
        slamming = turmoil.only(LendingChanged, CancelRequested)
        chronicle = live_through(slamming, three_sites(), look=Doors(slamming).look)
        assert len(chronicle.ends()) == len(turmoil.jobs)

    @settings(max_examples=examples(150))
    @given(turmoil=turmoils(PREEMPTABLE))
    def test_nobody_at_home_notices_who_lends(self, turmoil: Turmoil) -> None:
        slamming = turmoil.only(LendingChanged)
        alone = live_through(slamming, three_sites(), only=lambda job: job.site is not None)
        crowded = live_through(slamming, three_sites())
        at_home = [number for number, job in enumerate(turmoil.jobs, 1) if job.site is not None]
        assert [crowded.stays(number) for number in at_home] == [alone.stays(number) for number in at_home]

    @settings(max_examples=examples(50))
    @given(turmoil=turmoils())
    def test_with_all_doors_shut_no_guest_begins(self, turmoil: Turmoil) -> None:
        shut_for_good = Turmoil(turmoil.jobs, tuple((0, shut(name)) for name in SLOTS))
        firsts: list[int] = []

        def look(_gateway: Gateway, effects: list[Effect], now_ms: int) -> None:
            if now_ms <= turmoil.jobs[-1].submit_ms:
                firsts.extend(number for number, _ in begun(effects))

        live_through(shut_for_good, three_sites(), look=look)
        assert all(turmoil.jobs[number - 1].site is not None for number in firsts)
