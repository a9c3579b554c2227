"""May a lease last longer? Told as examples on one site of 4 VMs, and as what holds in random worlds."""

import pytest
from hypothesis import given, settings
from tests.gateway.random_worlds import PREEMPTABLE, QUICK, REFERENCE_MIPS, three_sites
from tests.gateway.telling import Told, begun, decided, lent, own
from tests.gateway.turbulence import Turmoil, live_through, turmoils
from tests.searching import examples

from leasehold.gateway.extensions import EXTENSION
from leasehold.model.effect import Decision, Effect
from leasehold.model.event import CancelRequested, Event, ExtendRequested, LeaseEnded, LeaseSaved, Tick
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.testing.worlds import site

GRANTED = (1, Outcome.EXTEND, Reason.EXTENDED)


def denied(reason: Reason) -> tuple[int, Outcome, Reason]:
    return 1, Outcome.DENY, reason


def longer(by_s: float, number: int = 1) -> ExtendRequested:
    return ExtendRequested(number, round(by_s * 1000))


def asked(told: Told, now_s: float, by_s: float) -> tuple[int, Outcome, Reason]:
    """Ask for more time for lease 1, and give the one answer that there must be."""
    [answer] = decided(told.at(now_s, longer(by_s)), Outcome.EXTEND, Outcome.DENY)
    return answer


class TestIntoFreeRoom:
    @pytest.mark.parametrize("kind", ["cancelable", "suspendable", "migratable", "non-preemptable"])
    def test_a_guest_lasts_longer(self, kind: str) -> None:
        told = Told(site("a", 4))
        told.at(0, lent(1, 2, 10, kind))
        assert asked(told, 4, 5) == GRANTED
        lease = told.lease(1)
        assert (lease.reserved_ms, lease.span_ms, lease.work_left) == (0, 15_000, 15_000)
        assert lease.request.duration_ms == 15_000

    def test_so_does_a_local_lease(self) -> None:
        told = Told(site("a", 4))
        told.at(0, own(1, 4, 10))
        assert asked(told, 9, 5) == GRANTED
        told.at(10, own(2, 4, 10))
        assert told.lease(2).reserved_ms == 15_000

    def test_time_is_asked_for_at_the_reference_speed(self) -> None:
        told = Told(site("a", 4, speed_mips=4), reference_mips=2)
        told.at(0, lent(1, 2, 10))
        assert asked(told, 1, 3) == GRANTED
        assert told.lease(1).span_ms == 6_500

    def test_it_may_be_extended_again_and_again(self) -> None:
        told = Told(site("a", 4))
        told.at(0, lent(1, 2, 10))
        assert [asked(told, now_s, 1) for now_s in (1, 2, 3)] == [GRANTED] * 3
        assert told.lease(1).span_ms == 13_000

    def test_the_decision_names_the_site_and_the_rule(self) -> None:
        told = Told(site("a", 4))
        told.at(0, lent(1, 2, 10))
        made = [one for one in told.at(1, longer(1)) if isinstance(one, Decision)]
        assert [(one.site, one.rule) for one in made] == [("a", EXTENSION)]


class TestOnlyWhileItHoldsMachines:
    def test_not_while_it_waits(self) -> None:
        told = Told(site("a", 4))
        told.at(0, own(2, 4, 10), lent(1, 2, 10))
        assert asked(told, 1, 5) == denied(Reason.NOT_RUNNING)
        assert told.lease(1).request.duration_ms == 10_000

    def test_not_while_it_is_suspended(self) -> None:
        told = Told(site("a", 4, overhead=QUICK))
        told.at(0, lent(1, 2, 10))
        told.at(2, own(2, 4, 10))
        assert asked(told, 3, 5) == denied(Reason.NOT_RUNNING)
        told.at(4, LeaseSaved(1, 1))
        assert asked(told, 5, 5) == denied(Reason.NOT_RUNNING)

    def test_but_while_it_is_being_resumed(self) -> None:
        told = Told(site("a", 4, overhead=QUICK))
        told.at(0, lent(1, 2, 10))
        told.at(2, own(2, 4, 10))
        told.at(4, LeaseSaved(1, 1))
        told.at(12, LeaseEnded(2, 1))
        assert told.lease(1).state is LeaseState.RESUMING
        assert asked(told, 13, 5) == GRANTED
        assert told.lease(1).span_ms == 3_000 + 8_000 + 5_000  # loading, what was left, what was added

    def test_of_a_lease_that_is_over_nothing_is_said(self) -> None:
        told = Told(site("a", 4))
        told.at(0, lent(1, 2, 10))
        told.at(1, CancelRequested(1))
        assert told.at(2, longer(1), longer(1, number=7)) == []


class TestNobodyBeforeItIsInTheWay:
    """At 0 s lease 1 starts, 2 VMs for 10 s; another of 2 VMs runs beside it until 10 s; a third waits."""

    def world(self, *requests: Event) -> Told:
        told = Told(site("a", 4))
        told.at(0, *requests)
        return told

    def test_a_local_lease_is_not_extended_into_a_local_reservation(self) -> None:
        told = self.world(own(1, 2, 10), own(2, 2, 10), own(3, 4, 10))
        assert asked(told, 1, 0.001) == denied(Reason.ROOM_IN_USE)
        assert told.lease(3).reserved_ms == 10_000

    def test_but_up_to_it(self) -> None:
        told = self.world(own(1, 2, 5), own(2, 2, 10), own(3, 4, 10))
        assert asked(told, 1, 5.001) == denied(Reason.ROOM_IN_USE)
        assert asked(told, 2, 5) == GRANTED

    def test_beside_it_where_there_is_room_for_both(self) -> None:
        told = self.world(own(1, 2, 10), own(2, 2, 10), own(3, 2, 10))
        assert asked(told, 1, 8) == GRANTED

    def test_a_guest_waits_for_a_local_lease_that_lasts_longer(self) -> None:
        told = self.world(own(1, 2, 10), own(2, 2, 10), lent(3, 4, 10))
        effects = told.at(1, longer(5))
        assert decided(effects) == [(3, Outcome.MOVE, Reason.LOCAL_PLAN_CHANGED), GRANTED]
        assert told.lease(3).reserved_ms == 15_000

    def test_a_guest_that_runs_gives_way_only_when_somebody_starts(self) -> None:
        told = self.world(own(1, 2, 10), lent(2, 2, 60))
        assert asked(told, 1, 50) == GRANTED
        assert told.lease(2).state is LeaseState.RUNNING

    @pytest.mark.parametrize("kind", ["cancelable", "suspendable", "migratable"])
    @pytest.mark.parametrize("third", [own(3, 4, 10), lent(3, 4, 10)])
    def test_a_preemptable_guest_is_extended_into_nobodys_reservation(self, kind: str, third: Event) -> None:
        told = self.world(lent(1, 2, 10, kind), own(2, 2, 10), third)
        assert asked(told, 1, 0.001) == denied(Reason.ROOM_IN_USE)

    @pytest.mark.parametrize("third", [own(3, 4, 10), lent(3, 4, 10)])
    def test_nor_is_a_non_preemptable_one(self, third: Event) -> None:
        told = self.world(lent(1, 2, 10, "non-preemptable"), own(2, 2, 10), third)
        assert asked(told, 1, 0.001) == denied(Reason.ROOM_IN_USE)

    def test_local_plans_wait_for_a_non_preemptable_guest_that_lasts_longer(self) -> None:
        told = self.world(lent(1, 2, 10, "non-preemptable"))
        assert asked(told, 1, 5) == GRANTED
        told.at(2, own(2, 4, 10))
        assert told.lease(2).reserved_ms == 15_000

    def test_room_that_is_freed_in_the_same_instant_counts(self) -> None:
        told = self.world(own(1, 2, 10), own(2, 2, 10), own(3, 4, 10))
        effects = told.at(1, CancelRequested(3), longer(50))
        assert GRANTED in decided(effects)


class TestPromisesAndCaps:
    @pytest.mark.parametrize("kind", ["migratable", "non-preemptable"])
    def test_never_past_its_own_deadline(self, kind: str) -> None:
        told = Told(site("a", 4))
        told.at(0, lent(1, 2, 10, kind, deadline_s=15))
        assert asked(told, 1, 5.001) == denied(Reason.DEADLINE_TOO_TIGHT)
        assert asked(told, 2, 5) == GRANTED

    def test_never_longer_than_the_owner_lends_for_good(self) -> None:
        told = Told(site("a", 4, non_preemptable_max_ms=15_000))
        told.at(0, lent(1, 2, 10, "non-preemptable"))
        assert asked(told, 1, 5.001) == denied(Reason.NON_PREEMPTABLE_TOO_LONG)
        assert asked(told, 2, 5) == GRANTED

    @pytest.mark.parametrize("request_1", [own(1, 2, 10), lent(1, 2, 10)])
    def test_that_cap_is_for_no_others(self, request_1: Event) -> None:
        told = Told(site("a", 4, non_preemptable_max_ms=15_000))
        told.at(0, request_1)
        assert asked(told, 1, 50) == GRANTED


def test_who_is_extended_ends_by_its_new_time_and_the_next_starts_then() -> None:
    told = Told(site("a", 4))
    told.at(0, own(1, 4, 10), lent(2, 4, 10))
    told.at(1, longer(5))
    assert begun(told.at(10, Tick("a"))) == []
    assert begun(told.at(15, LeaseEnded(1, 1, killed=True))) == [(2, "a")]


class Answers:
    """Every request for more time has one answer, and whoever was granted it has it."""

    def __init__(self, turmoil: Turmoil) -> None:
        self._turmoil = turmoil
        self.granted_ms: dict[int, int] = {}

    def look(self, _gateway: object, effects: list[Effect], now_ms: int) -> None:
        made = [(lease, outcome) for lease, outcome, _ in decided(effects, Outcome.EXTEND, Outcome.DENY)]
        wished = [
            (change.lease_id, change.by_ms)
            for at_ms, change in self._turmoil.to_the_end()
            if at_ms == now_ms and isinstance(change, ExtendRequested)
        ]
        assert len(made) <= len(wished)
        for lease, outcome in made:
            by_ms = next(by_ms for number, by_ms in wished if number == lease)
            wished.remove((lease, by_ms))
            if outcome is Outcome.EXTEND:
                self.granted_ms[lease] = self.granted_ms.get(lease, 0) + by_ms


class TestInRandomWorlds:
    @settings(max_examples=examples(150))
    @given(turmoil=turmoils())
    def test_whoever_is_granted_time_has_it(self, turmoil: Turmoil) -> None:
        asking = turmoil.only(ExtendRequested)
        answers = Answers(asking)
        chronicle = live_through(asking, three_sites(), look=answers.look)
        for number, lease in chronicle.leases.items():
            asked_ms = turmoil.jobs[number - 1].requested_ms
            assert lease.request.duration_ms == asked_ms + answers.granted_ms.get(number, 0)
            reason = chronicle.ends()[number][1]
            if reason is Reason.WALLTIME_REACHED:
                done = sum(stay.mips * (stay.end_ms - stay.start_ms) for stay in chronicle.stays(number))
                assert done >= lease.request.duration_ms * REFERENCE_MIPS

    @settings(max_examples=examples(150))
    @given(turmoil=turmoils(PREEMPTABLE))
    def test_nobody_at_home_notices_that_guests_are_extended(self, turmoil: Turmoil) -> None:
        """Whatever is asked for, local leases start, last and end as if there were no guests."""
        asking = turmoil.only(ExtendRequested)
        alone = live_through(asking, three_sites(), only=lambda job: job.site is not None)
        crowded = live_through(asking, three_sites())
        at_home = [number for number, job in enumerate(turmoil.jobs, 1) if job.site is not None]
        assert [crowded.stays(number) for number in at_home] == [alone.stays(number) for number in at_home]


class TestBeyondTheOwnersWord:
    """A Non-preemptable guest gets no more time than the owner allows now, whatever was allowed before."""

    @pytest.mark.parametrize(
        ("share_vms", "longest_s", "reason"),
        [
            (0, None, Reason.NON_PREEMPTABLE_NOT_ALLOWED),
            (1, 60, Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED),
            (2, 12, Reason.NON_PREEMPTABLE_TOO_LONG),
        ],
    )
    def test_it_keeps_what_it_was_promised_and_gets_no_more(
        self, share_vms: int, longest_s: int | None, reason: Reason
    ) -> None:
        told = Told(site("a", 4, non_preemptable_share_vms=2))
        told.at(0, lent(1, 2, 10, "non-preemptable"))
        settings = told.gateway.sites["a"].settings  # as its owner has written it down since
        settings.non_preemptable_share_vms = share_vms
        settings.non_preemptable_max_ms = None if longest_s is None else longest_s * 1000
        assert asked(told, 4, 5) == denied(reason)
        assert told.lease(1).span_ms == 10_000

    def test_guests_that_give_way_are_not_meant(self) -> None:
        told = Told(site("a", 4, non_preemptable_share_vms=0, non_preemptable_max_ms=1))
        told.at(0, lent(1, 2, 10))
        assert asked(told, 4, 5) == GRANTED
