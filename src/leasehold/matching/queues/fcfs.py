"""First come, first served."""

from leasehold.matching.needs import Job
from leasehold.matching.queues.job_queue import SortedQueue


class FirstComeFirstServed(SortedQueue):
    """Who came first?

    Rule: by the time of submission.
    Source: the plain comparison; nobody starves.
    """

    @staticmethod
    def key(job: Job) -> int:
        """The time of submission, ms."""
        return job.submitted_ms
