"""Shortest job first."""

from typing import ClassVar

from leasehold.matching.needs import Job
from leasehold.matching.queues.job_queue import SortedQueue


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
