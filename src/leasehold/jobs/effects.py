"""What is to be done about jobs, and what has become known of them."""

from dataclasses import dataclass

from leasehold.jobs.job import Attempt, JobReason, JobRecord
from leasehold.matching.images import Recipe


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Ask for a lease at the site of the attempt, on its nodes, and run the command."""

    record: JobRecord
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """Take the lease of an attempt back; nothing that it still says counts."""

    record: JobRecord
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class BuildImage:
    """Build an image; `ImageBuilt` or `ImageFailed` with the same key answers."""

    key: str
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class LookAtNode:
    """What is known of a node has proved wrong: look at it again."""

    node: str


@dataclass(frozen=True, slots=True)
class JobDecided:
    """Something was decided about a job: for its journal. ``attempt`` is 0 where it is about none."""

    record: JobRecord
    reason: JobReason
    what: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class JobClosed:
    """A job is over; where it is completed, or its own code failed, ``record.delivered`` has its result."""

    record: JobRecord


@dataclass(frozen=True, slots=True)
class WakeJobsAt:
    """Send a `JobTick` then."""

    at_ms: int


JobEffect = StartAttempt | StopAttempt | BuildImage | LookAtNode | JobDecided | JobClosed | WakeJobsAt
