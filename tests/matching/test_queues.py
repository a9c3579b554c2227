"""Queues: the order by hand, who moves when others come, and that nobody has to wait for ever."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.matching.literal import queue_as_printed
from tests.matching.making import make_job

from leasehold.matching.needs import Job
from leasehold.matching.queues import (
    JOB_QUEUES,
    JobQueue,
    MinWaitDeadlineFirst,
    Patient,
    Thresholds,
    describe,
    job_queue,
)
from leasehold.model.errors import InvalidField, UnknownName


def job(job_id: int, execution_ms: int, allowance_ms: int | None, submitted_ms: int = 0) -> Job:
    deadline_ms = None if allowance_ms is None else submitted_ms + allowance_ms
    return make_job(job_id, execution_ms=execution_ms, submitted_ms=submitted_ms, deadline_ms=deadline_ms)


def ids(jobs: list[Job]) -> list[int]:
    return [one.job_id for one in jobs]


FOUR = [job(1, 10, 100), job(2, 50, 20), job(3, 20, 40), job(4, 40, 160)]
"""Means: execution 30, allowance 80. So 2 is long and urgent, 3 short and urgent, 4 long, 1 short."""


class TestTable1:
    def test_by_hand(self) -> None:
        queue = MinWaitDeadlineFirst()
        queue.arrive(FOUR)
        assert queue.thresholds == Thresholds(Fraction(30), Fraction(80))
        assert [ids(queue.queue(number)) for number in (1, 2, 3)] == [[2], [3, 4], [1]]
        assert ids(queue.order(0)) == [2, 3, 4, 1]

    @pytest.mark.parametrize(
        ("execution_ms", "allowance_ms", "number"),
        [(31, 80, 1), (30, 80, 2), (31, 81, 2), (30, 81, 3), (31, None, 2), (30, None, 3)],
    )
    def test_every_cell_and_both_edges(self, execution_ms: int, allowance_ms: int | None, number: int) -> None:
        assert Thresholds(Fraction(30), Fraction(80)).queue_of(job(1, execution_ms, allowance_ms)) == number

    def test_within_a_queue_the_greatest_ratio_is_first_then_the_earlier_then_the_lower_id(self) -> None:
        queue = MinWaitDeadlineFirst()
        queue.arrive([job(4, 5, 10, 7), job(3, 4, 10), job(2, 5, 10, 9), job(1, 5, 10, 9)])
        assert ids(queue.order(0)) == [4, 1, 2, 3]

    def test_the_printed_algorithm_contradicts_it(self) -> None:
        """Its second condition holds at equality only: a short urgent and a long late job are in no queue."""
        assert queue_as_printed(20, 40, 30, 80) is None
        assert queue_as_printed(40, 160, 30, 80) is None
        means = Thresholds(Fraction(30), Fraction(80))
        assert [means.queue_of(job(1, 20, 40)), means.queue_of(job(1, 40, 160))] == [2, 2]


class TestArrivals:
    def test_only_jobs_between_an_old_and_a_new_threshold_are_looked_at_again(self) -> None:
        """Job 5 raises the mean execution from 30 to 44 and the mean allowance from 80 to 84."""
        queue = MinWaitDeadlineFirst()
        queue.arrive(FOUR)
        queue.arrive([job(5, 100, 100)])
        assert queue.thresholds == Thresholds(Fraction(44), Fraction(84))
        assert queue.looked_at_again == {4}
        assert [ids(queue.queue(number)) for number in (1, 2, 3)] == [[2], [5, 3], [4, 1]]

    def test_a_job_that_leaves_moves_nobody(self) -> None:
        queue = MinWaitDeadlineFirst()
        queue.arrive(FOUR)
        assert queue.leave(2).job_id == 2
        assert ids(queue.order(0)) == [3, 4, 1]
        assert queue.thresholds == Thresholds(Fraction(30), Fraction(80))


SIZES = st.tuples(st.integers(1, 12), st.one_of(st.none(), st.integers(1, 12)))
ROUNDS = st.lists(st.tuples(st.lists(SIZES, max_size=6), st.integers(0, 3)), max_size=8)


@given(ROUNDS)
def test_exactly_those_between_the_thresholds_move(
    rounds: list[tuple[list[tuple[int, int | None]], int]],
) -> None:
    """Against working everything out anew: who changes sides of a mean is looked at, nobody else."""
    queue, waiting, number = MinWaitDeadlineFirst(), dict[int, Job](), 0
    for sizes, leaving in rounds:
        new = [job(number + place, *size) for place, size in enumerate(sizes, 1)]
        number += len(new)
        old = queue.thresholds
        queue.arrive(new)
        crossed = {one for one in waiting if sides(old, waiting[one]) != sides(queue.thresholds, waiting[one])}
        assert queue.looked_at_again == crossed
        waiting |= {one.job_id: one for one in new}
        assert queue.thresholds == means_of(waiting)
        assert {one: queue.thresholds.queue_of(waiting[one]) for one in waiting} == {
            one.job_id: place for place in (1, 2, 3) for one in queue.queue(place)
        }
        for one in ids(queue.order(0))[:leaving]:
            del waiting[queue.leave(one).job_id]


def sides(means: Thresholds, one: Job) -> tuple[bool | None, bool | None]:
    """Whether a job is above each threshold; unknown where there is no threshold or no deadline."""
    execution = None if means.execution_ms is None else one.needs.execution_ms > means.execution_ms
    if one.allowance_ms is None:
        return execution, None
    return execution, None if means.allowance_ms is None else one.allowance_ms > means.allowance_ms


def means_of(waiting: dict[int, Job]) -> Thresholds:
    executions = [one.needs.execution_ms for one in waiting.values()]
    allowances = [one.allowance_ms for one in waiting.values() if one.allowance_ms is not None]
    return Thresholds(*(Fraction(sum(of), len(of)) if of else None for of in (executions, allowances)))


class TestTheOthers:
    @pytest.mark.parametrize(
        ("name", "order"),
        [("fcfs", [3, 1, 2]), ("sjf", [2, 3, 1]), ("edf", [1, 3, 2]), ("min-wait-deadline-first", [1, 2, 3])],
    )
    def test_order_by_hand(self, name: str, order: list[int]) -> None:
        """Means: execution 8, allowance 10: 1 is long and urgent, 2 short and endless, 3 short and late."""
        queue = job_queue(name)
        queue.arrive([job(1, 15, 5, 5), job(2, 3, None, 6), job(3, 6, 15, 0)])
        expected = [1, 3, 2] if name == "min-wait-deadline-first" else order
        assert ids(queue.order(10)) == expected

    @pytest.mark.parametrize("name", JOB_QUEUES)
    def test_a_job_waits_once_and_leaves_once(self, name: str) -> None:
        queue = job_queue(name)
        queue.arrive(FOUR)
        with pytest.raises(InvalidField, match="does not wait already"):
            queue.arrive([FOUR[0]])
        assert queue.leave(1) is FOUR[0]
        with pytest.raises(KeyError):
            queue.leave(1)

    @pytest.mark.parametrize("name", JOB_QUEUES)
    def test_each_says_its_question_rule_and_source(self, name: str) -> None:
        told = describe(name)
        assert told.question.endswith("?")
        assert told.rule
        assert told.source

    def test_a_name_that_is_none_is_refused(self) -> None:
        with pytest.raises(UnknownName, match="did you mean 'fcfs'"):
            job_queue("fcf")


def served_in_a_stream(queue: JobQueue, one: Job, others: list[tuple[int, int]], rounds: int) -> int | None:
    """In which round a job is served, if any, when others of these sizes come and so many leave in each."""
    queue.arrive([one])
    for number in range(rounds):
        new = [job(1_000 + number * len(others) + place, *size, number) for place, size in enumerate(others)]
        queue.arrive(new)
        for head in queue.order(number)[: len(others)]:
            if queue.leave(head.job_id) is one:
                return number
    return None


class TestStarvation:
    """One urgent long job and one long-term long job come in each round, and two are served."""

    others = [(100, 50), (100, 200)]  # noqa: RUF012 - a test's constant

    def test_the_printed_rule_starves_a_short_job_with_time(self) -> None:
        """The paper says that moving thresholds prevent it. Where arrivals keep them, nothing moves."""
        assert served_in_a_stream(MinWaitDeadlineFirst(), job(1, 10, 300), self.others, 500) is None

    def test_with_patience_it_is_served_when_that_is_over(self) -> None:
        queue = job_queue("min-wait-deadline-first", patience_ms=40)
        assert served_in_a_stream(queue, job(1, 10, 300), self.others, 500) == 40

    @pytest.mark.parametrize("name", JOB_QUEUES)
    def test_each_discipline_says_rightly_whether_it_starves(self, name: str) -> None:
        long, endless = job(1, 1_000, 10_000), job(1, 10, None)
        starved = any(served_in_a_stream(job_queue(name), one, self.others, 100) is None for one in (long, endless))
        assert starved == getattr(JOB_QUEUES[name], "starves")  # noqa: B009 - not a part of the interface


SIZED = st.tuples(st.integers(1, 50), st.integers(1, 50))
STREAM = st.lists(st.lists(SIZED, max_size=4), min_size=1, max_size=20)


@given(STREAM, st.sampled_from(list(JOB_QUEUES)), st.integers(0, 6))
def test_with_patience_nobody_starves(arrivals: list[list[tuple[int, int]]], name: str, patience_ms: int) -> None:
    """Whoever has waited that long is behind earlier ones alone, fewer in each round, and gets out."""
    queue, number = job_queue(name, patience_ms), 0
    ahead_before: dict[int, int] = {}
    for now_ms in range(len(arrivals) + 100):
        sizes = arrivals[now_ms] if now_ms < len(arrivals) else []
        new = [job(number + place, *size, now_ms) for place, size in enumerate(sizes, 1)]
        number += len(new)
        queue.arrive(new)
        order = queue.order(now_ms)
        for ahead, one in enumerate(order):
            if now_ms - one.submitted_ms >= patience_ms:
                assert all(other.submitted_ms <= one.submitted_ms for other in order[:ahead])
                assert ahead <= ahead_before.get(one.job_id, ahead)
                ahead_before[one.job_id] = ahead - 1
        if order:
            queue.leave(order[0].job_id)
    assert queue.order(0) == []


def test_a_patience_below_nothing_is_refused() -> None:
    with pytest.raises(InvalidField, match="patience_ms"):
        Patient(MinWaitDeadlineFirst(), -1)
