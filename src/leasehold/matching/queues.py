"""In which order are waiting jobs looked at? Disciplines behind one small interface, and a literal dict of them."""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from leasehold.matching.needs import Job
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.policies import PolicyDescription, described


class JobQueue(ABC):
    """Jobs that wait. Each is in it once."""

    @abstractmethod
    def arrive(self, jobs: Iterable[Job]) -> None:
        """Take in the jobs of one instant. Raises InvalidField for one that waits already."""

    @abstractmethod
    def leave(self, job_id: int) -> Job:
        """Let a job go, and give it. Raises KeyError for one that does not wait."""

    @abstractmethod
    def order(self, now_ms: int) -> list[Job]:
        """List all jobs, the first to be looked at first."""

    def memory(self) -> dict[str, Any]:
        """Give what it has in mind beside the jobs themselves, as plain JSON; most have nothing."""
        return {}

    def recall(self, memory: Mapping[str, Any]) -> None:  # noqa: B027 - most have nothing to do
        """Go on with what was in mind, once the same jobs have arrived again."""


class SortedQueue(JobQueue):
    """A queue by one key that does not change while a job waits; of equal keys the earlier id is first.

    A subclass defines `key`, and a docstring with question, rule and source.
    """

    starves: ClassVar[bool] = False
    """Whether a steady stream of others can keep a job waiting for ever."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._keys: list[tuple[Any, int]] = []

    @staticmethod
    @abstractmethod
    def key(job: Job) -> Any:  # noqa: ANN401 - whatever can be ordered
        """Give what jobs are ordered by, the least first."""

    def arrive(self, jobs: Iterable[Job]) -> None:
        """Take them in, each at its place."""
        for job in jobs:
            refuse_twice(job, self._jobs)
            self._jobs[job.job_id] = job
            insort(self._keys, (self.key(job), job.job_id))

    def leave(self, job_id: int) -> Job:
        """Let a job go."""
        job = self._jobs.pop(job_id)
        del self._keys[bisect_left(self._keys, (self.key(job), job_id))]
        return job

    def order(self, now_ms: int) -> list[Job]:  # noqa: ARG002 - nothing changes with time here
        """List them by key."""
        return [self._jobs[job_id] for _, job_id in self._keys]


def refuse_twice(job: Job, waiting: Iterable[int]) -> None:
    """Raise InvalidField for a job that waits already."""
    if job.job_id in waiting:
        raise InvalidField("job_id", job.job_id, "a job that does not wait already")


class FirstComeFirstServed(SortedQueue):
    """Which job was submitted first?

    Rule: by the time of submission.
    Source: the plain baseline; no job starves.
    """

    @staticmethod
    def key(job: Job) -> int:
        """The time of submission, ms."""
        return job.submitted_ms


class ShortestJobFirst(SortedQueue):
    """Which job is done soonest once it runs?

    Rule: by the execution estimate, then by submission.
    Source: what Thamarai Selvi et al., section 4.1, compare with; long jobs starve behind short ones.
    """

    starves: ClassVar[bool] = True

    @staticmethod
    def key(job: Job) -> tuple[int, int]:
        """The execution estimate, ms, then the time of submission."""
        return job.needs.execution_ms, job.submitted_ms


class EarliestDeadlineFirst(SortedQueue):
    """Which job has to be done first?

    Rule: by the deadline as a moment, then by submission; jobs without one come last.
    Source: what Thamarai Selvi et al., section 4.1, compare with. Jobs without a deadline starve; those
        with one do not, because later submissions have later deadlines.
    """

    starves: ClassVar[bool] = True

    @staticmethod
    def key(job: Job) -> tuple[bool, int, int]:
        """The deadline, ms, then the time of submission."""
        return job.deadline_ms is None, job.deadline_ms or 0, job.submitted_ms


_TABLE_1_QUEUES = (1, 2, 3)


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
        arrive the means are recomputed, and only jobs between an old and a new threshold are
        reconsidered. Jobs without a deadline count as those with the longest.
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
        self._queues: dict[int, list[tuple[Fraction, int, int]]] = {number: [] for number in _TABLE_1_QUEUES}
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
        """Add jobs, recompute the means, and move jobs between an old and a new threshold."""
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
        return [job for number in _TABLE_1_QUEUES for job in self.queue(number)]

    def memory(self) -> dict[str, Any]:
        """Return the thresholds: they date from the last arrivals, whichever jobs have left since."""
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


class Patient(JobQueue):
    """Which jobs have waited too long?

    Rule: jobs that have waited for ``patience_ms`` or longer go before all others, these among themselves by
        submission and id; the rest follow in the order of the queue inside.
    Source: Leasehold's own remedy; the priorities of Thamarai Selvi et al., section 4.1, starve jobs
        without it.

    No job starves: once one has waited that long, only jobs that were submitted no later can be ahead
    of it, of which there are no more to come. So it is first after as many departures from the head as
    there were such jobs. This needs no bound on arrivals, only that jobs are submitted when they arrive
    and that the head of the queue leaves sooner or later.

    Raises InvalidField for a patience below 0.
    """

    def __init__(self, inside: JobQueue, patience_ms: int) -> None:
        if patience_ms < 0:
            raise InvalidField("patience_ms", patience_ms, "at least 0")
        self._inside = inside
        self._patience_ms = patience_ms

    def arrive(self, jobs: Iterable[Job]) -> None:
        """Take them in."""
        self._inside.arrive(jobs)

    def leave(self, job_id: int) -> Job:
        """Let a job go."""
        return self._inside.leave(job_id)

    def order(self, now_ms: int) -> list[Job]:
        """List the jobs that have waited too long, then the others."""
        jobs = self._inside.order(now_ms)
        too_long = [job for job in jobs if now_ms - job.submitted_ms >= self._patience_ms]
        too_long.sort(key=lambda job: (job.submitted_ms, job.job_id))
        ahead = {job.job_id for job in too_long}
        return [*too_long, *(job for job in jobs if job.job_id not in ahead)]

    def memory(self) -> dict[str, Any]:
        """Give what the queue inside has in mind."""
        return self._inside.memory()

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Restore the inner queue."""
        self._inside.recall(memory)


JOB_QUEUES: dict[str, type[JobQueue]] = {
    "min-wait-deadline-first": MinWaitDeadlineFirst,
    "fcfs": FirstComeFirstServed,
    "sjf": ShortestJobFirst,
    "edf": EarliestDeadlineFirst,
}


def job_queue(name: str, patience_ms: int | None = None) -> JobQueue:
    """Make an empty queue; with a patience no job starves (`Patient`). Raises UnknownName, InvalidField."""
    queue = _discipline(name)()
    return queue if patience_ms is None else Patient(queue, patience_ms)


def describe(name: str) -> PolicyDescription:
    """Describe a discipline: its question, rule and source. Raises UnknownName."""
    return described(name, _discipline(name).__doc__)


def _discipline(name: str) -> type[JobQueue]:
    if name not in JOB_QUEUES:
        raise UnknownName("queue", name, JOB_QUEUES)
    return JOB_QUEUES[name]
