"""What a queue of jobs is: they arrive, they leave, and somebody asks in which order to look at them."""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from leasehold.matching.needs import Job
from leasehold.model.errors import InvalidField


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

    Whoever derives from it gives `key`, and a docstring with question, rule and source.
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
