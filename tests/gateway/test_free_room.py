"""Guests go where they can start now, and who cannot waits where others would be refused."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from tests.by_slots import slots
from tests.gateway.random_worlds import (
    REFERENCE_MIPS,
    SLOTS,
    SPEEDS,
    Case,
    cases,
    three_sites,
    unfold,
)
from tests.gateway.telling import Told, begun, closed, decided, lent, own
from tests.searching import examples

from leasehold.gateway.gateway import Gateway
from leasehold.model.event import CancelRequested, LeaseEnded, LeaseSaved, Tick
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.testing.worlds import site

LIVE: dict[str, Any] = {"try_elsewhere": True, "use_free_room": True}


class TestGoingWhereThereIsRoom:
    def test_a_policy_chooses_among_the_sites_that_can_start_it(self) -> None:
        told = Told(site("a", 4), site("b", 4), **LIVE)  # in turn: to a first
        told.at(0, own(1, 3, 60, "a"))
        assert begun(told.at(1, lent(2, 2, 10))) == [(2, "b")]

    def test_where_none_can_it_chooses_among_all(self) -> None:
        told = Told(site("a", 4), site("b", 4), **LIVE)
        told.at(0, own(1, 3, 60, "a"), own(2, 3, 60, "b"))
        told.at(1, lent(3, 2, 10))
        assert (told.lease(3).site, told.lease(3).state) == ("a", LeaseState.WAITING)

    def test_who_waits_goes_to_another_site_in_the_instant_in_which_that_has_room(self) -> None:
        told = Told(site("a", 4), site("b", 4), **LIVE)
        told.at(0, own(1, 3, 60, "a"), own(2, 3, 60, "b"))
        told.at(1, lent(3, 2, 10))
        effects = told.at(5, LeaseEnded(2, 1))
        assert (3, Outcome.DISPATCH, Reason.ROOM_ELSEWHERE) in decided(effects)
        assert begun(effects) == [(3, "b")]

    def test_without_it_a_guest_stays_where_it_was_sent(self) -> None:
        told = Told(site("a", 4), site("b", 4))
        told.at(0, own(1, 3, 60, "a"), own(2, 3, 60, "b"))
        told.at(1, lent(3, 2, 10))
        assert begun(told.at(5, LeaseEnded(2, 1))) == []

    def test_of_several_it_goes_to_where_it_is_done_first(self) -> None:
        told = Told(site("a", 4), site("b", 4), site("c", 4, speed_mips=2), **LIVE)
        told.at(0, own(1, 4, 60, "a"), own(2, 4, 60, "b"), own(3, 4, 60, "c"))
        told.at(1, lent(4, 2, 10))
        assert begun(told.at(5, LeaseEnded(2, 1), LeaseEnded(3, 1))) == [(4, "c")]

    def test_who_has_started_stays_where_its_memory_is(self) -> None:
        told = Told(site("a", 4), site("b", 4), **LIVE)
        told.at(0, own(1, 4, 60, "b"))
        told.at(1, lent(2, 4, 100))
        told.at(2, own(3, 4, 60, "a"))
        told.at(4, LeaseSaved(2, 1))
        assert begun(told.at(5, LeaseEnded(1, 1))) == []
        assert told.lease(2).site == "a"

    def test_who_is_bound_to_a_site_stays_there(self) -> None:
        told = Told(site("a", 4), site("b", 4), **LIVE)
        told.at(0, own(1, 4, 60, "a"))
        told.at(1, lent(2, 2, 10, domain="a"))
        assert told.lease(2).site == "a"
        assert begun(told.at(5, Tick())) == []

    @settings(max_examples=examples(150), deadline=None)
    @given(cases())
    def test_nobody_waits_who_could_start_elsewhere(self, case: Case) -> None:
        def watch(gateway: Gateway, now_ms: int) -> None:
            for lease in gateway.leases.values():
                is_new = lease.state is LeaseState.WAITING and lease.first_start_ms < 0
                is_guest = lease.request.lease_type.is_best_effort and lease.site
                if is_new and is_guest and lease.earliest_ms <= now_ms:
                    assert not could_start_elsewhere(gateway, lease.id, now_ms)

        unfold(case, three_sites(), "rr", watch=watch, **LIVE)


def could_start_elsewhere(gateway: Gateway, number: int, now_ms: int) -> list[str]:
    """The sites whose plan has room from now on for as long as a waiting guest would take there."""
    lease, found = gateway.leases[number], []
    for name, place in gateway.sites.items():
        wall_ms = -(-lease.request.duration_ms * REFERENCE_MIPS // SPEEDS[name])
        full = slots(place.open_to_guests(now_ms).full)
        if name != lease.site and full.lowest(now_ms, now_ms + wall_ms) >= lease.vms:
            found.append(name)
    return found


class TestWaiting:
    def test_a_migratable_request_is_queued_where_it_ends_first(self) -> None:
        told = Told(site("a", 4), site("b", 4), **LIVE)
        told.at(0, own(1, 4, 60, "a"), own(2, 4, 30, "b"))
        told.at(1, lent(3, 2, 10, "migratable", ready_s=1, wait=True))
        assert (told.lease(3).site, told.lease(3).reserved_ms) == ("b", 30_000)

    @pytest.mark.parametrize("options", [{}, LIVE])
    def test_who_does_not_wait_is_refused(self, options: dict[str, Any]) -> None:
        told = Told(site("a", 4), **options)
        told.at(0, own(1, 4, 60))
        effects = told.at(1, lent(2, 2, 10, "migratable", ready_s=1))
        assert closed(effects) == [(2, Reason.NO_ROOM_AT_READY_TIME)]

    def test_with_a_deadline_it_is_promised_a_start_in_time(self) -> None:
        told = Told(site("a", 4))
        told.at(0, own(1, 4, 60))
        told.at(1, lent(2, 2, 10, "migratable", ready_s=1, deadline_s=70, wait=True))
        assert (told.lease(2).state, told.lease(2).reserved_ms) == (LeaseState.WAITING, 60_000)

    def test_where_no_plan_is_in_time_it_is_refused_when_that_is_certain_and_not_before(self) -> None:
        told = Told(site("a", 4))
        told.at(0, own(1, 4, 60))
        told.at(1, lent(2, 2, 10, "migratable", ready_s=1, deadline_s=40, wait=True))
        assert told.lease(2).state is LeaseState.HELD
        assert closed(told.at(30, Tick(""))) == []
        assert closed(told.at(30.001, Tick(""))) == [(2, Reason.DEADLINE_TOO_TIGHT)]

    def test_and_starts_if_the_others_end_before_that(self) -> None:
        told = Told(site("a", 4))
        told.at(0, own(1, 4, 60))
        told.at(1, lent(2, 2, 10, "migratable", ready_s=1, deadline_s=40, wait=True))
        assert begun(told.at(30, LeaseEnded(1, 1))) == [(2, "a")]

    def test_a_promise_that_the_owners_users_undo_is_looked_for_again(self) -> None:
        told = Told(site("a", 4))
        told.at(0, own(1, 4, 20))
        told.at(1, lent(2, 2, 10, "migratable", ready_s=1, deadline_s=60, wait=True))
        told.at(2, own(3, 4, 35))
        assert told.lease(2).state is LeaseState.HELD  # 20 + 35 + 10 s are too late, by now
        told.at(3, CancelRequested(3))
        assert (told.lease(2).state, told.lease(2).reserved_ms) == (LeaseState.WAITING, 20_000)

    def test_a_non_preemptable_request_is_promised_the_first_room(self) -> None:
        told = Told(site("a", 4))
        told.at(0, own(1, 4, 60))
        told.at(1, lent(2, 2, 10, "non-preemptable", ready_s=1, wait=True))
        told.at(2, own(3, 4, 60))
        assert (told.lease(2).reserved_ms, told.lease(3).reserved_ms) == (60_000, 70_000)

    def test_where_the_share_is_used_it_waits_at_the_gateway(self) -> None:
        told = Told(site("a", 4, non_preemptable_share_vms=2))
        told.at(0, lent(1, 2, 60, "non-preemptable"))
        effects = told.at(1, lent(2, 2, 10, "non-preemptable", ready_s=1, wait=True))
        assert (2, Outcome.HOLD, Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED) in decided(effects)
        assert begun(told.at(9, LeaseEnded(1, 1))) == [(2, "a")]

    def test_what_is_more_than_the_share_is_refused(self) -> None:
        told = Told(site("a", 4, non_preemptable_share_vms=2))
        effects = told.at(1, lent(2, 3, 10, "non-preemptable", ready_s=1, wait=True))
        assert closed(effects) == [(2, Reason.WIDER_THAN_NON_PREEMPTABLE_SHARE)]

    @settings(max_examples=examples(150), deadline=None)
    @given(cases(cancels=False))
    def test_whoever_waits_is_refused_only_for_a_deadline_that_nobody_can_keep(self, case: Case) -> None:
        jobs = tuple(replace(job, wait=job.site is None) for job in case.jobs)
        chronicle = unfold(Case(jobs), three_sites(), "rr", **LIVE)
        for number, job in enumerate(jobs, 1):
            end_ms, reason = chronicle.ends()[number]
            if chronicle.leases[number].state is not LeaseState.REFUSED:
                continue
            assert reason is Reason.DEADLINE_TOO_TIGHT
            assert job.deadline_ms is not None
            speeds = [SPEEDS[name] for name, slots in SLOTS.items() if slots >= job.vms]
            wall_ms = -(-job.requested_ms * REFERENCE_MIPS // max(speeds))
            assert max(end_ms, job.ready_ms) + wall_ms > job.deadline_ms
