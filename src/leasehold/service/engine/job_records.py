"""The records of jobs and their rows: which lease is whose attempt, and what of that is to be written."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from leasehold.jobs.job import Attempt, AttemptState, JobRecord
from leasehold.service.engine.job_rows import (
    CameTo,
    by_job,
    came_to_of,
    record_of_job,
    row_of_attempt,
    row_of_job,
)
from leasehold.service.errors import NoSuchJob
from leasehold.service.store.batch import Batch
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import ATTEMPTS, JOBS, OUTPUTS, AttemptRow, JobRow, OutputRow

MOST_FENCED = 10_000
"""So many leases of jobs that are over are remembered, whose commands may still end."""

_Key = tuple[int, int]


class Tried(NamedTuple):
    """An attempt with its job."""

    record: JobRecord
    attempt: Attempt

    @property
    def key(self) -> _Key:
        """The numbers of both."""
        return self.record.id, self.attempt.number


class OutputQuota:
    """What the outputs of each consumer take in the store; beyond the quota its oldest ones go.

    Not the new ones: whoever waits for a result gets it, and nobody pays for what others write.

    ``dropped``  how many went with what is being written
    """

    def __init__(self, store: Reading, most_bytes: int) -> None:
        """Begin with what is in the store; a quota of 0 bytes is none."""
        self._store = store
        self._most_bytes = most_bytes
        self._used: dict[str, int] = {}
        self._next: dict[str, int] = {}
        self.dropped = 0
        self.recount()

    def recount(self) -> None:
        """Outputs went for another reason."""
        self._used = self._store.output_bytes() if self._most_bytes else {}

    def make_room(self, batch: Batch, added: Iterable[OutputRow]) -> None:
        """Delete old outputs of those to whom these were added."""
        self._next, self.dropped = {}, 0
        for row in added if self._most_bytes else ():
            whose = row.consumer
            self._next[whose] = self._next.get(whose, self._used.get(whose, 0)) + row.size_bytes
        for whose, used in self._next.items():
            if used > self._most_bytes:
                count, freed = batch.drop_outputs(whose, used - self._most_bytes)
                self._next[whose] = used - freed
                self.dropped += count

    def saved(self) -> None:
        """What was added and what was deleted is so in the store."""
        self._used |= self._next
        self._next, self.dropped = {}, 0


class JobRecords:
    """All open jobs, and those of which something may still be heard.

    ``outputs``  what commands wrote, to be kept
    """

    def __init__(self, store: Reading, in_orders: Iterable[int], most_output_bytes: int) -> None:
        """Begin with what is in the store; ``in_orders`` are leases that machines may still have.

        So much is kept of the outputs of one consumer; 0: everything.
        """
        self._store = store
        self.quota = OutputQuota(store, most_output_bytes)
        self.last_id = store.highest_job_id()
        self._rows: dict[int, JobRow] = {row.id: row for row in store.open_jobs()}
        late = {row.job_id for row in store.attempts_of_leases(sorted(set(in_orders)))}
        over = [row for job_id in sorted(late - self._rows.keys()) if (row := store.job(job_id))]
        attempts = by_job(store.attempts([*self._rows, *(row.id for row in over)]))
        jobs = [*self._rows.values(), *over]
        self.records = [record_of_job(row, attempts.get(row.id, ())) for row in jobs]
        self._attempts: dict[_Key, AttemptRow] = {}
        self._by_lease: dict[int, Tried] = {}
        self._lease_of: dict[_Key, int] = {}
        self._came_to: dict[_Key, CameTo] = {}
        for record in self.records:
            for kept, attempt in zip(attempts.get(record.id, ()), record.attempts, strict=True):
                self._know(kept, Tried(record, attempt))
        self._changed_jobs: dict[int, JobRow] = {}
        self._changed_attempts: dict[_Key, AttemptRow] = {}
        self._late: deque[int] = deque()
        self.outputs: list[OutputRow] = []

    def _know(self, row: AttemptRow, tried: Tried) -> None:
        self._attempts[tried.key] = row
        if row.lease_id is not None:
            self.tie(tried, row.lease_id)
        came_to = came_to_of(row)
        if came_to is not None:
            self._came_to[tried.key] = came_to

    # What is known

    def row(self, job_id: int) -> JobRow:
        """A job as it is, open or over; raises NoSuchJob."""
        row = self._rows.get(job_id) or self._store.job(job_id)
        if row is None:
            raise NoSuchJob(job_id)
        return row

    def open_of(self) -> Iterator[str]:
        """Give the consumer of each open job."""
        return (row.consumer for row in self._rows.values())

    def find(self, lease_id: int) -> Tried | None:
        """Give the attempt that a lease is; None for any other lease."""
        return self._by_lease.get(lease_id)

    def lease_of(self, tried: Tried) -> int | None:
        """Give the lease of an attempt."""
        return self._lease_of.get(tried.key)

    def tie(self, tried: Tried, lease_id: int) -> None:
        """An attempt has this lease."""
        self._by_lease[lease_id] = tried
        self._lease_of[tried.key] = lease_id

    # What is to be fetched

    def to_fetch(self) -> list[tuple[int, str]]:
        """Give the leases whose commands ended, and what they wrote is not here yet, with their sites."""
        return [(lease_id, one.attempt.site) for lease_id, one in self._by_lease.items() if self.came_to(one)]

    def came_to(self, tried: Tried) -> CameTo | None:
        """How the command of an attempt ended, while what it wrote is still to be fetched."""
        return self._came_to.get(tried.key)

    def set_came_to(self, tried: Tried, came_to: CameTo | None) -> None:
        """The command of an attempt has ended; or (None) what it wrote is here."""
        if came_to is None:
            self._came_to.pop(tried.key, None)
        else:
            self._came_to[tried.key] = came_to
        self._follow_attempt(tried)

    # What is written

    def follow(self, moved: Iterable[JobRecord]) -> None:
        """See which of these stand otherwise than is written."""
        for record in moved:
            row = row_of_job(record)
            if self._rows.get(record.id) != row:
                self._rows[record.id] = self._changed_jobs[record.id] = row
            for attempt in record.attempts:
                self._follow_attempt(Tried(record, attempt))

    def _follow_attempt(self, tried: Tried) -> None:
        row = row_of_attempt(tried.record.id, tried.attempt, self.lease_of(tried), self.came_to(tried))
        if self._attempts.get(tried.key) != row:
            self._attempts[tried.key] = self._changed_attempts[tried.key] = row

    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changed_jobs or self._changed_attempts or self.outputs)

    def save(self, batch: Batch) -> None:
        """Write everything into the store."""
        batch.upsert(JOBS, list(self._changed_jobs.values()))
        batch.upsert(ATTEMPTS, list(self._changed_attempts.values()))
        batch.insert(OUTPUTS, self.outputs)
        self.quota.make_room(batch, self.outputs)

    def saved(self) -> None:
        """Everything is in the store; jobs that are over are found there."""
        self.quota.saved()
        for job_id, row in self._changed_jobs.items():
            if row.ended_ms is not None:
                self._forget(job_id)
        for key in self._changed_attempts:
            if key[0] not in self._rows:
                self._attempts.pop(key, None)
        self._changed_jobs.clear()
        self._changed_attempts.clear()
        self.outputs.clear()

    def _forget(self, job_id: int) -> None:
        """A job is over; of its attempts only those may still be heard of that were fenced."""
        del self._rows[job_id]
        for key in [key for key in self._attempts if key[0] == job_id]:
            del self._attempts[key]
            lease_id = self._lease_of.pop(key, None)
            if lease_id is not None and self._by_lease[lease_id].attempt.state is not AttemptState.FENCED:
                del self._by_lease[lease_id]
                self._came_to.pop(key, None)
            elif lease_id is not None:
                self._late.append(lease_id)
        while len(self._late) > MOST_FENCED:
            tried = self._by_lease.pop(self._late.popleft())
            self._came_to.pop(tried.key, None)
