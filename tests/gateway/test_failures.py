"""Machines are lost, or what was saved of them: the lease has failed, and nobody else pays for it."""

import pytest
from hypothesis import given, settings
from tests.gateway.random_worlds import QUICK, three_sites
from tests.gateway.telling import Told, begun, closed, decided, lent, own
from tests.gateway.turbulence import Turmoil, live_through, moving_turmoils, turmoils
from tests.searching import examples

from leasehold.gateway.gateway import Gateway
from leasehold.model.effect import Effect, LeaseClosed, StopLease
from leasehold.model.event import CancelRequested, LeaseEnded, LeaseFailed, LeaseSaved, Outage, OutagesChanged
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.testing.worlds import site

LOST = (1, Reason.MACHINES_LOST)


def stopped(effects: list[Effect]) -> list[int]:
    return [effect.lease.id for effect in effects if isinstance(effect, StopLease)]


def at_home() -> Told:
    return Told(site("a", 4, overhead=QUICK))


def suspended() -> Told:
    """Lease 1 ran for 2 s, and has given way to lease 2 until 12 s."""
    told = at_home()
    told.at(0, lent(1, 4, 10))
    told.at(2, own(2, 4, 10))
    return told


class TestARunningLease:
    @pytest.mark.parametrize("kind", ["cancelable", "suspendable", "migratable", "non-preemptable"])
    def test_has_failed_and_is_stopped(self, kind: str) -> None:
        told = at_home()
        told.at(0, lent(1, 4, 10, kind))
        effects = told.at(3, LeaseFailed(1, 1))
        assert (closed(effects), stopped(effects)) == ([LOST], [1])
        assert told.gateway.leases == {}

    def test_may_be_a_local_one(self) -> None:
        told = at_home()
        told.at(0, own(1, 4, 10))
        assert closed(told.at(3, LeaseFailed(1, 1))) == [LOST]

    def test_leaves_its_room_to_whoever_waits_in_that_instant(self) -> None:
        told = at_home()
        told.at(0, own(1, 4, 10), own(2, 4, 10), lent(3, 2, 10))
        assert begun(told.at(3, LeaseFailed(1, 1))) == [(2, "a")]
        assert begun(told.at(4, LeaseFailed(2, 1))) == [(3, "a")]

    def test_gives_back_its_part_of_what_is_lent_for_good(self) -> None:
        told = Told(site("a", 4, non_preemptable_share_vms=2))
        told.at(0, lent(1, 2, 10, "non-preemptable"))
        assert decided(told.at(1, lent(2, 2, 10, "non-preemptable")), Outcome.START) == []
        told.at(2, LeaseFailed(1, 1))
        assert begun(told.at(3, lent(3, 2, 10, "non-preemptable"))) == [(3, "a")]


def test_a_guest_that_nodes_that_are_down_keep_from_its_deadline_is_told_so() -> None:
    told = at_home()
    told.at(0, own(1, 2, 50))
    told.at(0, lent(2, 4, 20, "migratable", deadline_s=80, wait=True))
    assert told.lease(2).reserved_ms == 50_000
    effects = told.at(10, OutagesChanged("a", (Outage(2, 70_000),)))
    assert (2, Outcome.HOLD, Reason.SITE_SHRANK) in decided(effects)


class TestSavedMemory:
    def test_may_be_lost_while_it_is_saved(self) -> None:
        told = suspended()
        assert closed(told.at(3, LeaseFailed(1, 1))) == [LOST]

    def test_or_afterwards(self) -> None:
        told = suspended()
        told.at(4, LeaseSaved(1, 1))
        effects = told.at(5, LeaseFailed(1, 1))
        assert closed(effects) == [LOST]
        assert begun(told.at(12, LeaseEnded(2, 1))) == []

    def test_or_while_it_is_loaded(self) -> None:
        told = suspended()
        told.at(4, LeaseSaved(1, 1))
        told.at(12, LeaseEnded(2, 1))
        assert told.lease(1).state is LeaseState.RESUMING
        effects = told.at(13, LeaseFailed(1, 2))
        assert (closed(effects), stopped(effects)) == ([LOST], [1])

    def test_or_on_its_way_to_another_site(self) -> None:
        told = Told(site("a", 4, overhead=QUICK), site("b", 4, overhead=QUICK))
        told.at(0, lent(1, 4, 10, "migratable"))
        told.at(2, own(2, 4, 10))
        assert (told.lease(1).state, told.lease(1).site) == (LeaseState.MIGRATING, "b")
        effects = told.at(3, LeaseFailed(1, 2), lent(3, 4, 10))
        assert closed(effects) == [LOST]
        assert begun(effects) == [(3, "b")]


class TestNewsThatMeanNothing:
    @pytest.mark.parametrize("incarnation", [0, 1, 3])
    def test_of_another_incarnation_than_there_is(self, incarnation: int) -> None:
        told = suspended()
        told.at(4, LeaseSaved(1, 1))
        told.at(12, LeaseEnded(2, 1))
        assert told.lease(1).incarnation == 2
        assert told.at(13, LeaseFailed(1, incarnation)) == []

    def test_of_a_lease_that_never_had_machines(self) -> None:
        told = at_home()
        told.at(0, own(1, 4, 10), lent(2, 4, 10))
        assert told.at(1, LeaseFailed(2, 0)) == []
        assert told.lease(2).state is LeaseState.WAITING

    def test_of_a_lease_that_is_over(self) -> None:
        told = at_home()
        told.at(0, own(1, 4, 10))
        told.at(1, CancelRequested(1))
        assert told.at(2, LeaseFailed(1, 1), LeaseFailed(7, 1)) == []

    def test_of_a_lease_that_ends_in_that_instant(self) -> None:
        told = at_home()
        told.at(0, own(1, 4, 10))
        assert closed(told.at(1, LeaseEnded(1, 1), LeaseFailed(1, 1))) == [(1, Reason.COMPLETED)]


class Losses:
    """Whoever is told to have failed while it has machines is over in that instant, for that reason."""

    def __init__(self) -> None:
        self.lost: set[int] = set()

    def look(self, _gateway: Gateway, effects: list[Effect], _now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, LeaseClosed) and effect.reason is Reason.MACHINES_LOST:
                assert effect.lease.state is LeaseState.FAILED
                assert effect.lease.incarnation > 0
                assert effect.lease.id not in self.lost
                self.lost.add(effect.lease.id)


class TestInRandomWorlds:
    @settings(max_examples=examples(150))
    @given(turmoil=turmoils())
    def test_everybody_comes_to_one_end_and_nothing_is_left(self, turmoil: Turmoil) -> None:
        breaking = turmoil.only(LeaseFailed)
        sites, losses = three_sites(), Losses()
        chronicle = live_through(breaking, sites, look=losses.look)
        assert len(chronicle.ends()) == len(turmoil.jobs)
        named = {change.lease_id for _, change in breaking.changes if isinstance(change, LeaseFailed)}
        assert losses.lost <= named
        assert all(one.allocations.held == {} for one in chronicle.sites)

    @settings(max_examples=examples(150))
    @given(turmoil=moving_turmoils())
    def test_also_when_machines_move(self, turmoil: Turmoil) -> None:
        chronicle = live_through(turmoil.only(LeaseFailed), three_sites())
        assert len(chronicle.ends()) == len(turmoil.jobs)

    @settings(max_examples=examples(100))
    @given(turmoil=turmoils())
    def test_who_has_not_failed_does_all_of_its_work(self, turmoil: Turmoil) -> None:
        chronicle = live_through(turmoil.only(LeaseFailed), three_sites())
        for number, (_, reason) in chronicle.ends().items():
            job = turmoil.jobs[number - 1]
            if reason is Reason.COMPLETED:
                held_ms = sum(stay.mips * (stay.end_ms - stay.start_ms) for stay in chronicle.stays(number))
                assert held_ms >= job.actual_ms
