"""The invariants themselves: each notices what it is there for, and in a random world none has to.

The patient for the first half, at 2 s on a site `a` of 6 VMs (whole plan, by request number):

    1  local,  3 VMs   runs        0 .. 10 s
    2  guest,  2 VMs   runs        0 .. 20 s
    3  local,  4 VMs   waits for  10 .. 15 s
    4  guest,  3 VMs   waits for  20 .. 25 s
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.by_slots import slots
from tests.gateway.random_worlds import (
    QUICK,
    REFERENCE_MIPS,
    SLOTS,
    ByTheView,
    Case,
    Chronicle,
    Stay,
    cases,
    moving_cases,
    three_sites,
    to_the_first,
    unfold,
)
from tests.searching import examples

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.guests import Guests
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.site import Site
from leasehold.leasing.backfill import REPAIRS
from leasehold.model.effect import Decision, Effect, LeaseClosed, StartLease
from leasehold.model.errors import InvariantBroken, UnknownName
from leasehold.model.event import CancelRequested, Event, LeaseEnded, Submitted, Tick
from leasehold.model.lease import Lease
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policy import Dispatch, Hold, RoutingView, Verdict
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import guest, local, play, site

OVERHEAD_MS = {"start": 0, "resume": 3_000, "migrate": 7_000}
OWN, GUEST, FIXED = None, LeaseType.SUSPENDABLE, LeaseType.NON_PREEMPTABLE
NOW_MS = 2_000


def request(number: int, vms: int, span_s: int, kind: LeaseType | None = GUEST, at_ms: int = 0) -> Request:
    """A request at site a or, with a lease type, from outside."""
    home = "a" if kind is OWN else None
    return Request(number, FIXED if kind is None else kind, vms, span_s * 1000, at_ms, at_ms, site=home)


class Patient:
    """The gateway of the example, alive and well, with invariants that have seen its promises."""

    def __init__(self) -> None:
        self.gateway = Gateway([site("a", 6, overhead=QUICK)], Routing(to_the_first()))
        self.invariants = Invariants(self.gateway)
        first = [Submitted(request(1, 3, 10, OWN)), Submitted(request(2, 2, 20))]
        second = [Submitted(request(3, 4, 5, OWN, 1000)), Submitted(request(4, 5, 5, at_ms=1000))]
        for at_ms, events in ((0, first), (1000, second), (NOW_MS, [])):
            self.invariants.check(self.gateway.handle(events, at_ms), at_ms)

    @property
    def site(self) -> Site:
        return self.gateway.sites["a"]

    @property
    def guests(self) -> Guests:
        guests = self.site.guests
        assert guests is not None
        return guests

    def lease(self, number: int) -> Lease:
        return self.gateway.leases[number]

    def promise(self, number: int, start_ms: int) -> None:
        """Move what a waiting lease was promised, with all books kept."""
        lease = self.lease(number)
        queue = self.site.locals if lease.request.is_local else self.guests.queue
        queue.withdraw(lease, NOW_MS)
        queue.reserve(lease, start_ms)

    def check(self, *effects: Effect, now_ms: int = NOW_MS) -> None:
        self.invariants.check(effects, now_ms)


def test_the_patient_is_as_described_and_well() -> None:
    patient = Patient()
    assert {n: lease.reserved_ms for n, lease in patient.gateway.leases.items()} == {
        1: 0, 2: 0, 3: 10_000, 4: 20_000,
    }  # fmt: skip
    assert sorted(patient.site.allocations.held) == [1, 2]
    patient.check()


def forget_to_count(patient: Patient) -> None:
    patient.site.allocations.guest_vms -= 2


def start_who_has_no_room(patient: Patient) -> None:
    patient.site.allocations.enter(patient.lease(4), NOW_MS)


def book_at_home_for_nobody(patient: Patient) -> None:
    slots(patient.site.home).take(5_000, 6_000, 1)


def forget_to_release_at_home(patient: Patient) -> None:
    slots(patient.site.home).take(30_000, 40_000, 1)


def give_a_running_guest_s_room_back(patient: Patient) -> None:
    slots(patient.guests.full).give(5_000, 20_000, 2)


def lose_a_step_of_the_full_plan(patient: Patient) -> None:
    slots(patient.guests.full).take(20_000, 25_000, 1)


def promise_a_local_what_another_has(patient: Patient) -> None:
    patient.promise(3, 9_999)


def promise_a_guest_room_that_is_booked_now(patient: Patient) -> None:
    patient.promise(4, NOW_MS)


def promise_a_guest_room_that_is_booked_later(patient: Patient) -> None:
    patient.promise(4, 19_999)


def note_as_held_who_is_at_a_site(patient: Patient) -> None:
    patient.gateway.pending.held[4] = patient.lease(4)


def lose_a_waiting_guest(patient: Patient) -> None:
    patient.guests.queue.withdraw(patient.lease(4), NOW_MS)


def lose_a_waiting_local(patient: Patient) -> None:
    patient.site.locals.withdraw(patient.lease(3), NOW_MS)


def forget_one_who_runs(patient: Patient) -> None:
    del patient.gateway.leases[2]


def promise_a_guest_a_later_start(patient: Patient) -> None:
    patient.promise(4, 20_001)


def promise_a_local_a_later_start(patient: Patient) -> None:
    patient.promise(3, 10_001)


@pytest.mark.parametrize(
    ("harm", "diagnosis"),
    [
        (forget_to_count, "a: 5 VMs held, 3 counted"),
        (start_who_has_no_room, "a: 10 VMs held on 6 slots"),
        (book_at_home_for_nobody, "a: the home profile has 2 VMs free at 5000 ms, the leases leave 3"),
        (forget_to_release_at_home, "a: the home profile has 5 VMs free at 30000 ms, the leases leave 6"),
        (promise_a_local_what_another_has, "a: the home profile is over-booked"),
        (give_a_running_guest_s_room_back, "a: the full profile has"),
        (lose_a_step_of_the_full_plan, "a: the full profile has 0 VMs free at 20000 ms, the leases leave 1"),
        (promise_a_guest_room_that_is_booked_now, "a: more VMs booked now than there are"),
        (promise_a_guest_room_that_is_booked_later, "a: guest 4 is promised room that is taken"),
        (note_as_held_who_is_at_a_site, r"lease 4 \(waiting\) is in 2 places"),
        (lose_a_waiting_guest, r"lease 4 \(waiting\) is in 0 places"),
        (lose_a_waiting_local, r"lease 3 \(waiting\) is in 0 places"),
        (forget_one_who_runs, "lease 2 is over and still holds a place"),
        (promise_a_guest_a_later_start, "lease 4: its promise moved later without a cause"),
        (promise_a_local_a_later_start, "lease 3: its promise moved later without a cause"),
    ],
)
def test_harm_is_noticed_and_named(harm: Callable[[Patient], None], diagnosis: str) -> None:
    patient = Patient()
    harm(patient)
    with pytest.raises(InvariantBroken, match=diagnosis):
        patient.check()


def test_a_local_request_that_is_due_and_waits_is_noticed() -> None:
    patient = Patient()
    patient.check(now_ms=9_999)
    with pytest.raises(InvariantBroken, match="a: local lease 3 is due and has not started"):
        patient.check(now_ms=10_000)


def test_a_promise_may_move_later_with_a_decision_that_says_so() -> None:
    patient = Patient()
    promise_a_guest_a_later_start(patient)
    patient.check(Decision(patient.lease(4), "a", Outcome.MOVE, Reason.LOCAL_PLAN_CHANGED, "repair", 20_001))


def test_but_not_with_a_decision_about_somebody_else() -> None:
    patient = Patient()
    promise_a_guest_a_later_start(patient)
    with pytest.raises(InvariantBroken, match="lease 4: its promise moved later"):
        patient.check(Decision(patient.lease(2), "a", Outcome.MOVE, Reason.LOCAL_PLAN_CHANGED, "repair"))


def test_a_promise_may_move_earlier_without_a_word() -> None:
    patient = Patient()
    patient.gateway.handle([LeaseEnded(2, 1)], 3_000)
    assert patient.lease(4).reserved_ms == 15_000
    patient.check(now_ms=3_000)


# Random worlds


def hesitant(limit_ms: int) -> ByTheView:
    """Hold every third request for a while."""

    def decide(request: Request, view: RoutingView, now_ms: int) -> Verdict:
        if request.id % 3 == 0 and now_ms < request.submit_ms + limit_ms:
            return Hold(now_ms + 700)
        return Dispatch(view.sites[request.id % len(view.sites)].name)

    return ByTheView(decide)


terms = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["fcfs", "easy", "hybrid:2", "conservative"]),
        "guest_depth": st.sampled_from([0, 1, 2, None]),
        "victims": st.sampled_from(["mov", "mlip", "moml", "by-value:moml", "youngest-first"]),
        "repair": st.sampled_from(list(REPAIRS.values())),
        "queues_locals": st.booleans(),
        "non_preemptable_share_vms": st.sampled_from([None, 0, 2]),
        "non_preemptable_max_ms": st.sampled_from([None, 3_000]),
    }
)


def all_is_as_before(sites: list[Site]) -> None:
    """Nobody holds anything, nobody waits, and every plan is empty again."""
    for one in sites:
        assert (one.allocations.held, one.allocations.local_vms, one.allocations.guest_vms) == ({}, 0, 0)
        assert slots(one.home).free == [SLOTS[one.name]]
        assert not one.locals.waiting()
        if one.guests is not None:
            assert slots(one.guests.full).free == [SLOTS[one.name]]
            assert not one.guests.waiting()
            assert (one.allocations.changes.displaced, one.guests.non_preemptable_vms) == ([], 0)


class TestInARandomWorld:
    @settings(max_examples=examples(250))
    @given(case=cases(), own=terms)
    def test_nothing_breaks_and_everybody_comes_to_one_end(self, case: Case, own: dict[str, Any]) -> None:
        sites = three_sites(**own)
        chronicle = unfold(case, sites, try_elsewhere=True)
        assert len(chronicle.ends()) == len(case.jobs)
        all_is_as_before(chronicle.sites)

    @settings(max_examples=examples(120))
    @given(case=cases(), limit_ms=st.integers(0, 9_000), tick_ms=st.sampled_from([300, 2_000, 10_000]))
    def test_nor_when_requests_are_held(self, case: Case, limit_ms: int, tick_ms: int) -> None:
        sites = three_sites()
        chronicle = unfold(case, sites, hesitant(limit_ms), tick_ms=tick_ms)
        assert len(chronicle.ends()) == len(case.jobs)
        all_is_as_before(chronicle.sites)

    @settings(max_examples=examples(120))
    @given(case=cases(most_jobs=12))
    def test_nor_when_all_that_can_happen_at_once_does(self, case: Case) -> None:
        """Every job on the same second: arrivals, ends, ticks and cancellations fall together."""
        jobs = tuple(sorted((rounded(job) for job in case.jobs), key=lambda job: job.submit_ms))
        cancels = tuple({(4_000 * round(at_ms / 4_000), number) for at_ms, number in case.cancels})
        sites = three_sites()
        for one in sites:
            one.speed_mips = 2
        chronicle = unfold(Case(jobs, tuple(sorted(cancels))), sites)
        assert len(chronicle.ends()) == len(jobs)
        all_is_as_before(chronicle.sites)


def rounded(job: WorkloadJob) -> WorkloadJob:
    """The same job on a grid of four seconds."""
    at_ms = 4_000 * round(job.submit_ms / 4_000)
    span_ms = 4_000 * -(-job.requested_ms // 4_000)
    return WorkloadJob(at_ms, job.vms, span_ms, span_ms, site=job.site, lease_type=job.lease_type)


class TestWork:
    """What a lease does, from its starts and ends alone: all of its work, and only that."""

    @settings(max_examples=examples(120))
    @given(case=cases())
    def test_is_done_to_the_last_bit_in_a_random_world(self, case: Case) -> None:
        check_work(case, unfold(case, three_sites()))

    @settings(max_examples=examples(200))
    @given(case=moving_cases())
    def test_also_when_guests_move_between_clusters(self, case: Case) -> None:
        check_work(case, unfold(case, three_sites(), to_the_first()))


def check_work(case: Case, chronicle: Chronicle) -> None:
    for number, (end_ms, reason) in chronicle.ends().items():
        job, lease, stays = case.jobs[number - 1], chronicle.leases[number], chronicle.stays(number)
        assert lease.overhead_vm_ms == overhead_vm_ms(lease, stays)
        if reason not in (Reason.COMPLETED, Reason.WALLTIME_REACHED):
            continue
        needed = min(job.actual_ms, job.requested_ms) * REFERENCE_MIPS
        done = sum(max(0, stay.end_ms - stay.start_ms - OVERHEAD_MS[stay.kind]) * stay.mips for stay in stays)
        # Every stay ends at a whole millisecond.
        assert 0 <= done - needed < sum(stay.mips for stay in stays)
        assert (reason is Reason.WALLTIME_REACHED) == (job.actual_ms > job.requested_ms)
        assert job.deadline_ms is None or end_ms <= job.deadline_ms
        for before, after in pairwise(stays):
            saved_ms = before.end_ms + QUICK.suspend_ms(job.memory_mib)
            assert after.start_ms >= (saved_ms if after.kind == "resume" else before.end_ms)


def overhead_vm_ms(lease: Lease, stays: list[Stay]) -> int:
    """What was charged: five seconds for each time it was suspended, seven for each migration."""
    suspended = sum(stay.ended_by == "suspend" for stay in stays)
    migrated = sum(stay.kind == "migrate" for stay in stays)
    return (5_000 * suspended + OVERHEAD_MS["migrate"] * migrated) * lease.vms


class TestReadyLater:
    @pytest.mark.parametrize("kind", ["cancelable", "suspendable", "migratable"])
    def test_an_reservation_is_kept_although_a_local_request_took_the_room_beside_it(self, kind: str) -> None:
        log = [guest(0, 2, 100, kind), guest(1, 2, 50, "non-preemptable", ready_s=50), local(10, 2, 100)]
        history = play(log, [site("a", 4, overhead=QUICK)])
        assert [history.first_start_s(n) for n in (2, 3)] == [50, 10]

    @pytest.mark.parametrize("job", [local(0, 1, 5, ready_s=20), guest(0, 1, 5, ready_s=20)])
    def test_first_come_first_served_does_not_forget_who_is_ready_later(self, job: WorkloadJob) -> None:
        history = play([job], [site("a", 4, "fcfs", guest_depth=0)])
        assert history.first_start_s(1) == 20

    def test_who_is_ready_later_is_backfilled_then(self) -> None:
        log = [local(0, 3, 100), local(1, 4, 10), local(2, 1, 5, ready_s=20)]
        assert play(log, [site("a", 4, "easy")]).first_start_s(3) == 20


class TestAllOfAnInstant:
    """News of one instant come in whatever order: each lease comes to one end, and all is well."""

    CANCELLED_TWICE = (CancelRequested(1), CancelRequested(1))
    ENDED_AND_CANCELLED = (LeaseEnded(1, 1), CancelRequested(1))
    CANCELLED_AND_ENDED = (CancelRequested(1), LeaseEnded(1, 1))

    @pytest.mark.parametrize("kind", [OWN, *LeaseType])
    @pytest.mark.parametrize(
        ("news", "why"),
        [
            (CANCELLED_AND_ENDED, Reason.CANCELLED_BY_USER),
            (ENDED_AND_CANCELLED, Reason.COMPLETED),
            (CANCELLED_TWICE, Reason.CANCELLED_BY_USER),
        ],
    )
    def test_of_a_lease_that_runs(self, news: tuple[Event, ...], why: Reason, kind: LeaseType | None) -> None:
        gateway = Gateway([site("a", 6)], Routing(to_the_first()))
        gateway.handle([Submitted(request(1, 3, 10, kind))], 0)
        assert closings(gateway, news, 4_000) == [(1, why)]

    @pytest.mark.parametrize(
        ("kind", "vms", "queues_locals"),
        [
            pytest.param(OWN, 3, True, id="local"),
            pytest.param(OWN, 3, False, id="local, at a site without a queue"),
            pytest.param(OWN, 7, True, id="local, and too wide"),
            pytest.param(GUEST, 3, True, id="guest"),
        ],
    )
    def test_a_request_may_be_cancelled_in_the_instant_in_which_it_comes(
        self, kind: LeaseType | None, vms: int, *, queues_locals: bool
    ) -> None:
        gateway = Gateway([site("a", 6, queues_locals=queues_locals)], Routing(to_the_first()))
        effects = gateway.handle([Submitted(request(1, vms, 10, kind)), CancelRequested(1)], 0)
        Invariants(gateway).check(effects, 0)
        assert isinstance(effects[-1], LeaseClosed)
        assert not gateway.leases

    def test_a_tick_that_comes_late_still_counts(self) -> None:
        gateway = Gateway([site("a", 4)], Routing(to_the_first()))
        later = Request(1, LeaseType.NON_PREEMPTABLE, 4, 1_000, 0, 20_000, site="a")
        gateway.handle([Submitted(later)], 0)
        effects = gateway.handle([Tick("a")], 20_003)
        assert [e.lease.id for e in effects if isinstance(e, StartLease)] == [1]

    def test_a_request_for_a_site_that_does_not_exist_leaves_nothing_behind(self) -> None:
        gateway = Gateway([site("a", 4)], Routing(to_the_first()))
        with pytest.raises(UnknownName, match="did you mean 'a'"):
            gateway.handle([Submitted(Request(1, FIXED, 1, 1_000, 0, 0, site="aa"))], 0)
        assert gateway.leases == {}


def closings(gateway: Gateway, news: tuple[Event, ...], now_ms: int) -> list[tuple[int, Reason]]:
    effects = gateway.handle(news, now_ms)
    Invariants(gateway).check(effects, now_ms)
    return [(effect.lease.id, effect.reason) for effect in effects if isinstance(effect, LeaseClosed)]
