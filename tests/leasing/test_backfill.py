"""One backfiller, four disciplines: each against an independent scheduler, on thousands of small logs."""

from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.leasing.schedulers import ByReservations, Task, classic_easy
from tests.searching import examples

from leasehold.leasing import kernel
from leasehold.leasing.backfill import reservation_depth
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.testing.worlds import local, play, site

SLOTS = 6

Row = tuple[int, int, int, int]
rows = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, SLOTS), st.integers(1, 9), st.integers(1, 9)),
    min_size=1,
    max_size=14,
)


def tasks_of(log: list[Row]) -> list[Task]:
    """Gaps become times; what is needed never exceeds what was asked."""
    tasks, now = [], 0
    for number, (gap, size, one, other) in enumerate(log, 1):
        now += gap
        tasks.append(Task(number, now, size, max(one, other), min(one, other)))
    return tasks


def starts(tasks: list[Task], policy: str) -> dict[int, int]:
    jobs = [local(task.submit, task.size, task.asked, task.needed) for task in tasks]
    found = play(jobs, [site("a", SLOTS, policy)]).starts_ms()
    return {number: start_ms // 1000 for number, start_ms in found.items()}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "hybrid:2", "hybrid:3", "conservative"])
@settings(max_examples=examples(600), deadline=None)
@given(log=rows)
def test_it_starts_jobs_when_the_brute_force_scheduler_does(policy: str, log: list[Row]) -> None:
    oracle = ByReservations(tasks_of(log), SLOTS, reservation_depth(policy)).run()
    assert starts(tasks_of(log), policy) == oracle


@settings(max_examples=examples(1000), deadline=None)
@given(log=rows)
def test_depth_one_is_easy_as_it_is_told_everywhere(log: list[Row]) -> None:
    assert starts(tasks_of(log), "easy") == classic_easy(tasks_of(log), SLOTS)


def test_fcfs_lets_nobody_overtake() -> None:
    log = [local(0, 4, 10), local(1, 4, 10), local(2, 2, 3)]
    history = play(log, [site("a", SLOTS, "fcfs")])
    assert [history.first_start_s(n) for n in (1, 2, 3)] == [0, 10, 10]


def test_easy_backfills_what_does_not_delay_the_head() -> None:
    log = [local(0, 4, 10), local(1, 4, 10), local(2, 2, 3)]
    history = play(log, [site("a", SLOTS, "easy")])
    assert [history.first_start_s(n) for n in (1, 2, 3)] == [0, 10, 2]


def test_easy_may_delay_the_second_where_conservative_does_not() -> None:
    log = [local(0, 5, 10), local(1, 6, 10), local(1, 5, 10), local(1, 1, 21)]
    by_policy = {
        policy: [play(log, [site("a", SLOTS, policy)]).first_start_s(n) for n in (1, 2, 3, 4)]
        for policy in ("easy", "conservative")
    }
    assert by_policy["conservative"] == [0, 10, 20, 20]
    assert by_policy["easy"] == [0, 10, 20, 20]


def test_a_job_that_ends_early_lets_the_plan_close_up() -> None:
    log = [local(0, 6, 100, 10), local(1, 6, 5), local(2, 6, 5)]
    history = play(log, [site("a", SLOTS)])
    assert [history.first_start_s(n) for n in (1, 2, 3)] == [0, 10, 15]


def test_a_reservation_made_for_a_later_ready_time_is_kept() -> None:
    log = [local(0, 6, 10, ready_s=20), local(1, 6, 25), local(1, 6, 15)]
    history = play(log, [site("a", SLOTS)])
    assert [history.first_start_s(n) for n in (1, 2, 3)] == [20, 30, 1]


@pytest.mark.parametrize("name", ["conservativ", "", "FCFS"])
def test_a_discipline_with_a_typo_is_refused(name: str) -> None:
    with pytest.raises(UnknownName, match="policy"):
        reservation_depth(name)


@pytest.mark.parametrize("name", ["hybrid:0", "hybrid:", "hybrid:x", "easy:2"])
def test_a_depth_that_makes_no_sense_is_refused(name: str) -> None:
    with pytest.raises(InvalidField, match="hybrid:N"):
        reservation_depth(name)


def reservations_of(seed: int, long: int) -> list[list[int]]:
    """Where the reservations of a queue are each time after room was given back; a queue is long from ``long`` on."""
    random, plan = Random(seed), kernel.Profile(2 * SLOTS)
    queue, held, found = kernel.ReservationQueue(plan, kernel.ALL), list[tuple[int, int]](), list[list[int]]()
    for _ in range(random.randint(1, 6)):
        vms, span = random.randint(1, SLOTS), random.randint(5, 60)
        if plan.lowest(0, span) >= vms:
            plan.take(0, span, vms)
            held.append((vms, span))
    for order in range(many := random.randint(5, 60)):
        vms, span = random.randint(1, random.choice((SLOTS, SLOTS, 2 * SLOTS))), random.randint(1, 20)
        queue.submit(queue.add_row(vms, span, random.choice((0, 0, random.randint(0, 9))), order))
    queue.step(0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernel, "_LONG_QUEUE", long)
        for now, (vms, span) in zip(accumulate(random.randint(1, 5) for _ in held), held, strict=False):
            plan.give(now, span, vms)
            queue.step(now)
            found.append([queue.start_of(row) for row in range(many)])
    return found


@settings(max_examples=examples(600), deadline=None)
@given(st.integers(0, 2**32))
def test_a_long_queue_closes_up_as_a_short_one_does(seed: int) -> None:
    assert reservations_of(seed, long=0) == reservations_of(seed, long=10**6)
