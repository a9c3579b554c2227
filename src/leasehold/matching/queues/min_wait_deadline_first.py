"""Min-wait deadline-first: dynamic priorities (Thamarai Selvi et al., section 4.1, Table 1)."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from leasehold.matching.needs import Job
from leasehold.matching.queues.job_queue import JobQueue, refuse_twice

QUEUES = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The exact means of execution estimates and allowances; none where there is nothing to take it of."""

    execution_ms: Fraction | None = None
    allowance_ms: Fraction | None = None

    def queue_of(self, job: Job) -> int:
        """Give the queue of a job by Table 1: 1 is looked at first."""
        is_long = self.execution_ms is not None and job.needs.execution_ms > self.execution_ms
        return _TABLE_1[self._is_urgent(job), is_long]

    def _is_urgent(self, job: Job) -> bool:
        if job.allowance_ms is None or self.allowance_ms is None:
            return False
        return job.allowance_ms <= self.allowance_ms


_TABLE_1 = {(True, True): 1, (True, False): 2, (False, True): 2, (False, False): 3}
"""The queue for (deadline <= its threshold, execution > its threshold)."""


class MinWaitDeadlineFirst(JobQueue):
    """Which jobs are long and urgent, compared with those that wait now?

    Rule: the mean execution estimate and the mean time from submission to deadline of all that wait are the
        thresholds. Queue 1 has jobs with a short allowance and a long execution, queue 2 those with both
        short or both long, queue 3 those with a long allowance and a short execution. Within a queue, the
        greatest execution / allowance is first, then the earlier submission, then the lower id. When jobs
        arrive the means are taken anew, and only jobs between an old and a new threshold are looked at
        again. Jobs without a deadline count as those with the longest.
    Source: Thamarai Selvi et al., section 4.1, Table 1. Their Algorithm 1 contradicts it (its second
        condition can hold at equality only, so that most jobs are in no queue) and is not used.

    The paper says that moving thresholds prevent starvation. They do not where arrivals keep them where they
    are: see `Patient` for the remedy.
    """

    starves: ClassVar[bool] = True

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._executions: list[tuple[int, int]] = []
        self._allowances: list[tuple[int, int]] = []
        self._queues: dict[int, list[tuple[Fraction, int, int]]] = {number: [] for number in QUEUES}
        self._queue_of: dict[int, int] = {}
        self._execution_sum_ms = 0
        self._allowance_sum_ms = 0
        self.thresholds = Thresholds()
        self.looked_at_again: frozenset[int] = frozenset()
        """The jobs that waited before the last arrivals and whose queue was worked out again then."""

    def queue(self, number: int) -> list[Job]:
        """List the jobs of one of the three queues in their order."""
        return [self._jobs[job_id] for _, _, job_id in self._queues[number]]

    def arrive(self, jobs: Iterable[Job]) -> None:
        """Take jobs in, take the means anew, and move whoever lies between an old and a new one."""
        new = list(jobs)
        for job in new:
            refuse_twice(job, self._jobs)
            self._count(job)
        old, self.thresholds = self.thresholds, self._means()
        fresh = {job.job_id for job in new}
        self.looked_at_again = frozenset(self._between(old, self.thresholds)) - fresh
        for job_id in sorted(self.looked_at_again):
            self._move(self._jobs[job_id])
        for job in new:
            self._put(job)

    def leave(self, job_id: int) -> Job:
        """Let a job go; thresholds stay as they are until others arrive."""
        job = self._jobs.pop(job_id)
        self._take_out(job)
        _drop(self._executions, (job.needs.execution_ms, job_id))
        self._execution_sum_ms -= job.needs.execution_ms
        if job.allowance_ms is not None:
            _drop(self._allowances, (job.allowance_ms, job_id))
            self._allowance_sum_ms -= job.allowance_ms
        return job

    def order(self, now_ms: int) -> list[Job]:  # noqa: ARG002 - it changes with arrivals, not with time
        """List queue 1, then 2, then 3."""
        return [job for number in QUEUES for job in self.queue(number)]

    def memory(self) -> dict[str, Any]:
        """Give the thresholds: they are those of the last arrivals, whoever has left since."""
        means = (self.thresholds.execution_ms, self.thresholds.allowance_ms)
        return {"thresholds_ms": [None if mean is None else str(mean) for mean in means]}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Put the thresholds back as they were, and each job where it was."""
        if "thresholds_ms" not in memory:
            return
        means = (None if mean is None else Fraction(mean) for mean in memory["thresholds_ms"])
        self.thresholds = Thresholds(*means)
        for job in self._jobs.values():
            self._move(job)

    def _count(self, job: Job) -> None:
        self._jobs[job.job_id] = job
        insort(self._executions, (job.needs.execution_ms, job.job_id))
        self._execution_sum_ms += job.needs.execution_ms
        if job.allowance_ms is not None:
            insort(self._allowances, (job.allowance_ms, job.job_id))
            self._allowance_sum_ms += job.allowance_ms

    def _means(self) -> Thresholds:
        return Thresholds(
            _mean(self._execution_sum_ms, len(self._executions)),
            _mean(self._allowance_sum_ms, len(self._allowances)),
        )

    def _between(self, old: Thresholds, new: Thresholds) -> Iterator[int]:
        yield from _ids_between(self._executions, old.execution_ms, new.execution_ms)
        yield from _ids_between(self._allowances, old.allowance_ms, new.allowance_ms)

    def _move(self, job: Job) -> None:
        if self.thresholds.queue_of(job) != self._queue_of[job.job_id]:
            self._take_out(job)
            self._put(job)

    def _put(self, job: Job) -> None:
        number = self._queue_of[job.job_id] = self.thresholds.queue_of(job)
        insort(self._queues[number], _place(job))

    def _take_out(self, job: Job) -> None:
        _drop(self._queues[self._queue_of.pop(job.job_id)], _place(job))


def _drop(entries: list[Any], entry: Any) -> None:  # noqa: ANN401 - whatever can be ordered
    del entries[bisect_left(entries, entry)]


def _mean(total_ms: int, count: int) -> Fraction | None:
    return Fraction(total_ms, count) if count else None


def _place(job: Job) -> tuple[Fraction, int, int]:
    """Order within a queue: the greatest ratio first, so its negative."""
    ratio = Fraction(job.needs.execution_ms, job.allowance_ms) if job.allowance_ms else Fraction(0)
    return -ratio, job.submitted_ms, job.job_id


def _ids_between(entries: list[tuple[int, int]], old_ms: Fraction | None, new_ms: Fraction | None) -> Iterator[int]:
    """Give the jobs that changed sides, old < value <= new or the other way round; all where one is none."""
    if old_ms is None or new_ms is None:
        bounds = (0, len(entries)) if old_ms != new_ms else (0, 0)
    else:
        low_ms, high_ms = sorted((old_ms, new_ms))
        bounds = (_first_above(entries, low_ms), _first_above(entries, high_ms))
    return (job_id for _, job_id in entries[bounds[0] : bounds[1]])


def _first_above(entries: list[tuple[int, int]], value_ms: Fraction) -> int:
    """Give the place of the first entry with a value above; values are whole, so its floor decides."""
    return bisect_right(entries, int(value_ms), key=_value)


def _value(entry: tuple[int, int]) -> int:
    return entry[0]
