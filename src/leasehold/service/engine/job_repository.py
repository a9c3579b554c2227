"""The jobs and attempts of one engine as the store keeps them: which lease is which attempt."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from leasehold.jobs.job import Attempt, AttemptState, JobRecord, provider_of
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.errors import NoSuchJob
from leasehold.service.store.mapping import Values
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import ATTEMPTS, JOBS, AttemptRow, CommandEnd, JobRow, OutputRow, StoredJob
from leasehold.service.store.store import Batch

MAX_FENCED = 10_000
"""So many leases of jobs that are over are remembered, whose commands may still end."""

_Key = tuple[int, int]


class Try(NamedTuple):
    """An attempt with its job."""

    record: JobRecord
    attempt: Attempt

    @property
    def key(self) -> _Key:
        """The numbers of both."""
        return self.record.id, self.attempt.number


class OutputQuota:
    """What the outputs of each consumer take in the store; beyond the quota its oldest ones go.

    Not the new ones: a consumer that waits for a result gets it, and does not pay for what others write.
    """

    def __init__(self, store: Reading, most_bytes: int) -> None:
        """Begin with what is in the store; a quota of 0 bytes is none."""
        self._store = store
        self._most_bytes = most_bytes
        self._used: dict[str, int] = {}
        self.recount()

    def recount(self) -> None:
        """Outputs went for another reason."""
        self._used = self._store.output_bytes() if self._most_bytes else {}

    def make_room(self, batch: Batch, added: Iterable[OutputRow]) -> int:
        """Delete old outputs of those to whom these were added; gives how many went."""
        if not self._most_bytes:
            return 0
        consumers: dict[str, None] = {}
        for row in added:
            consumers[row.consumer] = None
            self._used[row.consumer] = self._used.get(row.consumer, 0) + row.size_bytes
        dropped = 0
        for consumer in consumers:
            excess = self._used[consumer] - self._most_bytes
            if excess > 0:
                count, freed = batch.drop_outputs(consumer, excess)
                self._used[consumer] -= freed
                dropped += count
        return dropped


class JobRepository:
    """All open jobs, and those of which machines may still say something.

    ``records``  as they were at the start
    ``last_id``  the highest number that was given out
    """

    def __init__(self, store: Reading, unit: UnitOfWork, in_orders: Iterable[int]) -> None:
        """Begin with what is in the store; ``in_orders`` are leases that machines may still have."""
        self._store = store
        self._unit = unit
        self.last_id = store.highest_job_id()
        rows = store.open_jobs()
        self._written: dict[int, Values] = {row.record.id: JOBS.values(row) for row in rows}
        self._written_attempts: defaultdict[int, dict[int, Values]] = defaultdict(dict)
        self._by_lease: dict[int, Try] = {}
        self._lease_of: dict[_Key, int] = {}
        self._ends: dict[_Key, CommandEnd] = {}
        self._late: deque[int] = deque()
        late = {row.job_id for row in store.attempts_of_leases(sorted(set(in_orders)))}
        rows += [row for job_id in sorted(late - self._written.keys()) if (row := store.job(job_id))]
        self.records = [row.record for row in rows]
        by_id = {record.id: record for record in self.records}
        for kept in store.attempts(list(by_id)):
            record = by_id[kept.job_id]
            record.attempts.append(kept.attempt)
            self._know(kept, Try(record, kept.attempt))

    def _know(self, row: AttemptRow, tried: Try) -> None:
        self._written_attempts[row.job_id][row.attempt.number] = ATTEMPTS.values(row)
        if row.lease_id is not None:
            self.tie(tried, row.lease_id)
        if row.end is not None:
            self._ends[tried.key] = row.end

    # What is known

    def row(self, job_id: int) -> JobRow:
        """A job as it is, open or over; raises NoSuchJob."""
        values = self._written.get(job_id)
        row = self._store.job(job_id) if values is None else JOBS.record(values)
        if row is None:
            raise NoSuchJob(job_id)
        return row

    def stored(self, job_id: int) -> StoredJob:
        """A job as it is, with its attempts in their order; raises NoSuchJob."""
        row = self.row(job_id)
        if job_id not in self._written:
            return row, self._store.attempts([job_id])
        written = self._written_attempts.get(job_id, {})
        return row, [ATTEMPTS.record(written[number]) for number in sorted(written)]

    def consumers(self) -> Iterator[str]:
        """Give the consumer of each job that was open at the start."""
        return (record.request.consumer for record in self.records if record.id in self._written)

    def find(self, lease_id: int) -> Try | None:
        """Give the attempt that a lease is; None for any other lease."""
        return self._by_lease.get(lease_id)

    def lease_of(self, tried: Try) -> int | None:
        """Give the lease of an attempt."""
        return self._lease_of.get(tried.key)

    def tie(self, tried: Try, lease_id: int) -> None:
        """An attempt has this lease."""
        self._by_lease[lease_id] = tried
        self._lease_of[tried.key] = lease_id

    # What is to be fetched

    def to_fetch(self) -> list[tuple[int, Try]]:
        """Give the leases whose commands ended, and whose output is not here yet, with their attempts."""
        return [(lease_id, one) for lease_id, one in self._by_lease.items() if self.end_of(one)]

    def end_of(self, tried: Try) -> CommandEnd | None:
        """How the command of an attempt ended, while its output is still to be fetched."""
        return self._ends.get(tried.key)

    def set_end(self, tried: Try, end: CommandEnd | None) -> None:
        """The command of an attempt has ended; or (None) its output is here."""
        if end is None:
            self._ends.pop(tried.key, None)
        else:
            self._ends[tried.key] = end
        self._follow_attempt(tried)

    # What is written

    def follow(self, moved: Iterable[JobRecord]) -> None:
        """Write those of these that stand otherwise than is written."""
        for record in moved:
            values = JOBS.values(JobRow(record, _exit_status(record)))
            if self._written.get(record.id) != values:
                self._written[record.id] = values
                self._unit.put(JOBS, JOBS.record(values))
                if record.state.is_final:
                    self._unit.after_commit(partial(self._forget, record.id))
            for attempt in record.attempts:
                self._follow_attempt(Try(record, attempt))

    def _follow_attempt(self, tried: Try) -> None:
        site = provider_of(tried.attempt.site)
        row = AttemptRow(tried.record.id, tried.attempt, site, self.lease_of(tried), self.end_of(tried))
        values = ATTEMPTS.values(row)
        job_id, number = tried.key
        written = self._written_attempts[job_id]
        if written.get(number) != values:
            written[number] = values
            self._unit.put(ATTEMPTS, ATTEMPTS.record(values))
            if job_id not in self._written:
                self._unit.after_commit(partial(self._written_attempts.pop, job_id, None))

    def _forget(self, job_id: int) -> None:
        """A job is over, and found in the store; of its attempts only fenced ones may still say something."""
        if self._written.pop(job_id, None) is None:
            return
        for number in self._written_attempts.pop(job_id, ()):
            lease_id = self._lease_of.pop((job_id, number), None)
            if lease_id is not None and self._by_lease[lease_id].attempt.state is not AttemptState.FENCED:
                del self._by_lease[lease_id]
                self._ends.pop((job_id, number), None)
            elif lease_id is not None:
                self._late.append(lease_id)
        while len(self._late) > MAX_FENCED:
            tried = self._by_lease.pop(self._late.popleft())
            self._ends.pop(tried.key, None)


def _exit_status(record: JobRecord) -> int | None:
    return record.attempt(record.delivered).exit_status if record.delivered else None
