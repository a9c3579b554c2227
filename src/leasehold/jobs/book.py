"""The records of open jobs, what has changed in them, and what is to be done about it."""

from collections.abc import Iterable

from leasehold.jobs.effects import JobDecided, JobEffect
from leasehold.jobs.job import Attempt, JobRecord
from leasehold.jobs.why import JobReason

MOST_FENCED = 10_000
"""So many fenced attempts are remembered that nothing was heard of since; then the oldest is forgotten."""


class Book:
    """What the parts of the desk write into together."""

    def __init__(self) -> None:
        self.records: dict[int, JobRecord] = {}
        self.moved: dict[int, JobRecord] = {}
        self.effects: list[JobEffect] = []
        self.fenced: dict[tuple[int, int], JobRecord] = {}
        self.anything = False
        """Whether anything may have changed that decides about waiting jobs, since the last round."""
        self.roomier: set[str] = set()
        """Nodes that may have more room than then; nothing else about them has changed."""

    def begin(self) -> None:
        """Begin an instant; what the last one has given is its caller's."""
        self.moved = {}
        self.effects = []

    def decide(self, record: JobRecord, reason: JobReason, what: str = "", attempt: int = 0) -> None:
        """Say what was decided about a job."""
        self.moved[record.id] = record
        self.effects.append(JobDecided(record, reason, what, attempt))

    def fence(self, record: JobRecord, attempt: Attempt) -> None:
        """Remember that an attempt may still speak, and does not count."""
        self.fenced[record.id, attempt.number] = record
        if len(self.fenced) > MOST_FENCED:
            del self.fenced[next(iter(self.fenced))]

    def open(self) -> list[JobRecord]:
        """List the open jobs by number, so that nothing depends on when they came."""
        return [self.records[job_id] for job_id in sorted(self.records)]

    def fenced_on(self, node: str) -> list[tuple[JobRecord, Attempt]]:
        """List the fenced attempts that may still be on a node."""
        found = ((self.fenced[job_id, number], number) for job_id, number in sorted(self.fenced))
        attempts = ((record, record.attempt(number)) for record, number in found)
        return [(record, attempt) for record, attempt in attempts if node in attempt.nodes]

    def still_fenced(self, listed: Iterable[Iterable[int]]) -> None:
        """Forget all fenced attempts but these, of which nothing was heard yet."""
        kept = {tuple(one) for one in listed}
        self.fenced = {key: record for key, record in self.fenced.items() if key in kept}
