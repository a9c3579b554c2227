"""Aging: nobody waits for ever, whatever the queue's own rule is."""

from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.matching.needs import Job
from leasehold.matching.queues.job_queue import JobQueue
from leasehold.model.errors import InvalidField


class Patient(JobQueue):
    """Who has waited too long?

    Rule: whoever has waited for ``patience_ms`` or longer goes before all others, these among themselves by
        submission and id; the rest follow in the order of the queue inside.
    Source: Leasehold's own remedy; the priorities of Thamarai Selvi et al., section 4.1, starve jobs
        without it.

    Nobody starves: once a job has waited that long, only jobs that were submitted no later can be ahead
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
        """List those who have waited too long, then the others."""
        jobs = self._inside.order(now_ms)
        too_long = [job for job in jobs if now_ms - job.submitted_ms >= self._patience_ms]
        too_long.sort(key=lambda job: (job.submitted_ms, job.job_id))
        ahead = {job.job_id for job in too_long}
        return [*too_long, *(job for job in jobs if job.job_id not in ahead)]

    def memory(self) -> dict[str, Any]:
        """Give what the queue inside has in mind."""
        return self._inside.memory()

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Let the queue inside go on."""
        self._inside.recall(memory)
