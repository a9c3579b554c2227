"""Which queue disciplines are there? A literal dict, and one function that makes a queue."""

from leasehold.matching.queues.edf import EarliestDeadlineFirst
from leasehold.matching.queues.fcfs import FirstComeFirstServed
from leasehold.matching.queues.job_queue import JobQueue
from leasehold.matching.queues.min_wait_deadline_first import MinWaitDeadlineFirst
from leasehold.matching.queues.patient import Patient
from leasehold.matching.queues.sjf import ShortestJobFirst
from leasehold.model.description import PolicyDescription, described
from leasehold.model.errors import UnknownName

JOB_QUEUES: dict[str, type[JobQueue]] = {
    "min-wait-deadline-first": MinWaitDeadlineFirst,
    "fcfs": FirstComeFirstServed,
    "sjf": ShortestJobFirst,
    "edf": EarliestDeadlineFirst,
}


def job_queue(name: str, patience_ms: int | None = None) -> JobQueue:
    """Make an empty queue; with a patience nobody starves (`Patient`). Raises UnknownName, InvalidField."""
    queue = _kind(name)()
    return queue if patience_ms is None else Patient(queue, patience_ms)


def describe(name: str) -> PolicyDescription:
    """Describe a discipline: its question, rule and source. Raises UnknownName."""
    return described(name, _kind(name).__doc__)


def _kind(name: str) -> type[JobQueue]:
    if name not in JOB_QUEUES:
        raise UnknownName("queue", name, JOB_QUEUES)
    return JOB_QUEUES[name]
