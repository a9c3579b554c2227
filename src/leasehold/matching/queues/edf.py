"""Earliest deadline first."""

from typing import ClassVar

from leasehold.matching.needs import Job
from leasehold.matching.queues.job_queue import SortedQueue


class EarliestDeadlineFirst(SortedQueue):
    """Which job has to be done first?

    Rule: by the deadline as a moment, then by submission; jobs without one come last.
    Source: what Thamarai Selvi et al., section 4.1, compare with. Jobs without a deadline starve; those
        with one do not, because whoever comes after it has a later one.
    """

    starves: ClassVar[bool] = True

    @staticmethod
    def key(job: Job) -> tuple[bool, int, int]:
        """The deadline, ms, then the time of submission."""
        return job.deadline_ms is None, job.deadline_ms or 0, job.submitted_ms
