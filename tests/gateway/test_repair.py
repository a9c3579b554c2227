"""Local repair: the site's own users took room, and the plan of waiting guests is made to fit again.

Part one repairs made-up plans, second by second on a grid that can be counted by hand; part two watches
whole random worlds. `replan_all` is the oracle of `repair_conflicts`: it may plan differently, never better
or worse for the site's own users, and both leave plans that fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import PREEMPTABLE, QUICK, Case, Chronicle, cases, three_sites, unfold
from tests.searching import examples

from leasehold.gateway.gateway import Gateway
from leasehold.leasing.backfill import REPAIRS, Backfiller, Repair, repair_conflicts, replan_all
from leasehold.leasing.kernel import Profile
from leasehold.model.effect import StartLease
from leasehold.model.lease import Lease
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.testing.worlds import History, guest, local, play, site

SLOTS = 6
END = 80
"""Time is counted in whole steps here; nothing is booked at or after this one."""

Booking = tuple[int, int, int]
"""Start, span and VMs."""


@dataclass
class Plan:
    """Guests with reservations, and what was booked over their heads since."""

    queue: Backfiller
    guests: list[Lease]
    booked: list[Booking]

    def used(self, leases: Sequence[Lease]) -> list[int]:
        """VMs booked at every step, by these leases and whatever cannot be moved."""
        bookings = [*self.booked, *((x.reserved_ms, x.span_ms, x.vms) for x in leases)]
        return [sum(vms for start, span, vms in bookings if start <= t < start + span) for t in range(END)]

    def starts(self) -> dict[int, int]:
        return {lease.id: lease.reserved_ms for lease in self.guests}


def lease(number: int, vms: int, span: int, earliest: int) -> Lease:
    request = Request(number, LeaseType.SUSPENDABLE, vms, span, 0, earliest)
    return Lease(number, request, vms, number, span, span_ms=span, earliest_ms=earliest)


sizes = st.tuples(st.integers(1, SLOTS), st.integers(1, 6), st.integers(0, 8))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Guests wait in a plan that fits; then bookings come that fit among themselves, but not with them."""
    queue = Backfiller(Profile(SLOTS), None)
    guests = []
    for number, (vms, span, earliest) in enumerate(draw(st.lists(sizes, min_size=1, max_size=7)), 1):
        one = lease(number, vms, span, earliest)
        queue.reserve(one, queue.earliest(one, draw(st.integers(0, 4))))
        guests.append(one)
    home, booked = Profile(SLOTS), []
    for vms, span, earliest in draw(st.lists(sizes, max_size=4)):
        start = home.earliest(earliest, span, vms)
        booked.append((start, span, vms))
        for profile in (home, queue.plan):
            profile.take(start, start + span, vms)
    return Plan(queue, guests, booked)


def overbooked(plan: Plan, guests: Sequence[Lease], one: Lease) -> bool:
    used = plan.used(guests)
    return any(used[t] > SLOTS for t in range(one.reserved_ms, one.reserved_ms + one.span_ms))


def those_to_move(plan: Plan) -> list[int]:
    """By hand: from the last to come to the first, whoever still stands in over-booked time is taken out."""
    staying = list(plan.guests)
    for one in reversed(plan.guests):
        if overbooked(plan, staying, one):
            staying.remove(one)
    return [one.id for one in plan.guests if one not in staying]


@settings(max_examples=examples(400))
@given(plan=plans())
def test_reservations_that_are_not_in_conflict_are_not_touched(plan: Plan) -> None:
    before, in_conflict = plan.starts(), those_to_move(plan)
    moved = repair_conflicts(plan.queue, 0)
    for number, start in plan.starts().items():
        assert start == before[number] or number in in_conflict
    assert [one.id for one in moved] == [n for n, start in plan.starts().items() if start > before[n]]


@pytest.mark.parametrize("repair", REPAIRS.values(), ids=REPAIRS)
@settings(max_examples=examples(200))
@given(plan=plans())
def test_afterwards_nobody_who_waits_stands_in_over_booked_time(repair: Repair, plan: Plan) -> None:
    repair(plan.queue, 0)
    used = plan.used(plan.guests)
    assert max(used) <= SLOTS
    assert [plan.queue.plan.free_at(t) for t in range(END)] == [SLOTS - vms for vms in used]
    assert all(one.reserved_ms >= one.earliest_ms for one in plan.guests)


@settings(max_examples=examples(200))
@given(plan=plans())
def test_replanning_everybody_is_planning_them_in_order_of_arrival(plan: Plan) -> None:
    before = plan.starts()
    moved = replan_all(plan.queue, 0)
    placed: list[Lease] = []
    for one in plan.guests:
        found, one.reserved_ms = one.reserved_ms, one.earliest_ms
        while overbooked(plan, [*placed, one], one):
            one.reserved_ms += 1
        assert one.reserved_ms == found
        placed.append(one)
    assert [one.id for one in moved] == [n for n, start in plan.starts().items() if start > before[n]]


@settings(max_examples=examples(200))
@given(plan=plans())
def test_a_plan_that_fits_is_left_alone(plan: Plan) -> None:
    assume(max(plan.used(plan.guests)) <= SLOTS)
    before = plan.starts()
    assert repair_conflicts(plan.queue, 0) == []
    assert plan.starts() == before


def test_of_those_in_conflict_the_last_to_come_gives_way() -> None:
    queue = Backfiller(Profile(SLOTS), None)
    guests = [lease(number, 2, 10, 0) for number in (1, 2, 3)]
    for one in guests:
        queue.reserve(one, 0)
    queue.plan.take(4, 8, 1)
    assert repair_conflicts(queue, 0) == [guests[2]]
    assert [one.reserved_ms for one in guests] == [0, 0, 8]


def test_room_over_booked_by_guests_who_run_is_left_to_preemption() -> None:
    queue = Backfiller(Profile(SLOTS), None)
    running = lease(1, 4, 10, 0)
    queue.book(0, running)
    waiting = lease(2, 3, 5, 0)
    queue.reserve(waiting, 10)
    queue.plan.take(5, 12, 4)
    assert repair_conflicts(queue, 0) == [waiting]
    assert waiting.reserved_ms == 12
    assert queue.plan.lowest(5, 10) < 0


# Whole worlds


def local_starts(chronicle: Chronicle) -> dict[int, int]:
    starts = [(now_ms, e.lease) for now_ms, e in chronicle.effects if isinstance(e, StartLease)]
    return {started.id: now_ms for now_ms, started in starts if started.request.is_local}


@settings(max_examples=examples(100))
@given(case=cases(PREEMPTABLE))
def test_both_ways_to_repair_start_the_same_local_requests_at_the_same_times(case: Case) -> None:
    ways = [local_starts(unfold(case, three_sites(repair=repair))) for repair in REPAIRS.values()]
    assert ways[0] == ways[1]


class Promises:
    """Sees after every instant what waiting guests are promised, and who is told that it got worse."""

    def __init__(self) -> None:
        self.later: list[tuple[int, int, int]] = []
        self._promised: dict[int, tuple[str, int]] = {}

    def watch(self, gateway: Gateway, now_ms: int) -> None:
        seen = {
            one.id: (one.site, one.reserved_ms)
            for one in gateway.leases.values()
            if not one.request.is_local and one.reserved_ms >= 0 and one.held_since_ms < 0
        }
        for number, (name, start_ms) in seen.items():
            known, before_ms = self._promised.get(number, (name, start_ms))
            if start_ms > before_ms and known == name:
                self.later.append((now_ms, number, start_ms))
        self._promised = seen


@pytest.mark.parametrize("repair", REPAIRS.values(), ids=REPAIRS)
@settings(max_examples=examples(100))
@given(case=cases())
def test_a_guest_s_promise_moves_later_only_with_a_decision_that_says_so(repair: Repair, case: Case) -> None:
    promises = Promises()
    chronicle = unfold(case, three_sites(repair=repair), watch=promises.watch)
    told = chronicle.decisions(Outcome.MOVE, Outcome.WAIT)
    for now_ms, number, start_ms in promises.later:
        # The plan may close up again in the same instant: nobody starts later than they were told then.
        worst = [made.planned_ms or 0 for at_ms, made in told if (at_ms, made.lease.id) == (now_ms, number)]
        assert worst
        assert start_ms <= max(worst)


def test_a_guest_who_waits_is_moved_and_told_why_and_until_when() -> None:
    log = [guest(0, 3, 10), guest(1, 2, 10), local(2, 1, 30), local(3, 2, 5, ready_s=12)]
    history = play(log, [site("a", 4)])
    moves = history.decisions(Outcome.MOVE)
    # Promised 10; from 12 to 17 s the site's own users have three of its four VMs.
    assert [(now_s, m.lease.id, m.planned_ms) for now_s, m in moves] == [(3, 2, 17_000)]
    assert {(m.reason, m.rule, m.site) for _, m in moves} == {(Reason.LOCAL_PLAN_CHANGED, "repair", "a")}


class TestDeadlinesToTheMillisecond:
    """A Migratable guest of 100 s is preempted at 10 s; it needs 3 s to resume and 90 s to end.

    It is parked until 15 s. At 12 s the site's own users push that to 22 s: it can end at 115 s.
    """

    log = (local(10, 1, 5), local(12, 1, 10))

    def play(self, deadline_s: float) -> History:
        guests = [guest(0, 4, 100, "migratable", deadline_s=deadline_s)]
        return play([*guests, *self.log], [site("a", 4, overhead=QUICK)])

    def test_a_parked_lease_that_can_just_be_finished_is_moved_and_finished(self) -> None:
        history = self.play(115)
        assert history.ends()[1] == (115, Reason.COMPLETED)
        assert [(at_s, made.planned_ms) for at_s, made in history.decisions(Outcome.MOVE)] == [(12, 22_000)]

    def test_one_that_cannot_is_given_up_when_that_is_clear(self) -> None:
        assert self.play(114.999).ends()[1] == (12, Reason.DEADLINE_LOST)

    def test_nobody_is_parked_who_could_not_end_in_time(self) -> None:
        assert self.play(107.999).ends()[1] == (10, Reason.DEADLINE_LOST)

    @pytest.mark.parametrize(("deadline_s", "end"), [(10, Reason.COMPLETED), (9.999, Reason.DEADLINE_TOO_TIGHT)])
    @pytest.mark.parametrize("kind", ["migratable", "non-preemptable"])
    def test_nobody_is_taken_who_could_not(self, kind: str, deadline_s: float, end: Reason) -> None:
        history = play([guest(0, 4, 10, kind, deadline_s=deadline_s)], [site("a", 4)])
        assert history.ends()[1][1] is end

    @pytest.mark.parametrize(("deadline_s", "end"), [(107, Reason.COMPLETED), (106.999, Reason.DEADLINE_LOST)])
    def test_it_moves_where_it_can_just_be_finished(self, deadline_s: float, end: Reason) -> None:
        """Seven seconds to migrate, and ninety to end."""
        jobs = [guest(0, 4, 100, "migratable", deadline_s=deadline_s), local(10, 1, 5)]
        history = play(jobs, [site("a", 4, overhead=QUICK), site("b", 4, overhead=QUICK)])
        assert history.ends()[1][1] is end
