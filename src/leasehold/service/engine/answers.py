"""What was answered under an Idempotency-Key, so that whoever asks again gets the same, and nothing twice.

Leases and jobs have their keys apart: the same key may be used for one of each.
"""

from collections.abc import Iterable

from leasehold.service.commands import Command, Submit, SubmitCoAllocation, SubmitJob
from leasehold.service.errors import IdempotencyConflict
from leasehold.service.store.batch import Batch
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import ANSWERS, JOB_ANSWERS, AnswerRow, JobAnswerRow

Asked = Submit | SubmitCoAllocation | SubmitJob
Key = tuple[str, str]


class Answers:
    """Those given before, as far as they are asked for, and those of this step."""

    def __init__(self, store: Reading) -> None:
        """Begin with nothing to write."""
        self._store = store
        self._known: dict[Key, AnswerRow] = {}
        self._known_jobs: dict[Key, JobAnswerRow] = {}
        self._fresh: dict[Key, AnswerRow] = {}
        self._fresh_jobs: dict[Key, JobAnswerRow] = {}

    def begin(self, commands: Iterable[Command]) -> None:
        """Look up, all at once, what was answered before under the keys of these commands."""
        asking = [one for one in commands if isinstance(one, Asked) and one.key]
        leases = [_key(one) for one in asking if not isinstance(one, SubmitJob)]
        jobs = [_key(one) for one in asking if isinstance(one, SubmitJob)]
        self._known = self._store.answers(leases) if leases else {}
        self._known_jobs = self._store.job_answers(jobs) if jobs else {}

    def find(self, command: Asked) -> int | None:
        """Give the lease or job that was answered with before; raises IdempotencyConflict."""
        if not command.key:
            return None
        key = _key(command)
        if isinstance(command, SubmitJob):
            job = self._fresh_jobs.get(key) or self._known_jobs.get(key)
            return None if job is None else _same(command, job.request_hash, job.job_id)
        lease = self._fresh.get(key) or self._known.get(key)
        return None if lease is None else _same(command, lease.request_hash, lease.lease_id)

    def keep(self, command: Asked, number: int, now_ms: int) -> None:
        """Remember, for who asks again under the same key, what came of it."""
        if not command.key:
            return
        if isinstance(command, SubmitJob):
            self._fresh_jobs[_key(command)] = JobAnswerRow(
                consumer=command.consumer,
                key=command.key,
                request_hash=command.request_hash,
                job_id=number,
                created_ms=now_ms,
            )
            return
        self._fresh[_key(command)] = AnswerRow(
            consumer=command.consumer,
            key=command.key,
            request_hash=command.request_hash,
            lease_id=number,
            created_ms=now_ms,
        )

    def save(self, batch: Batch) -> None:
        """Write everything into the store."""
        batch.insert(ANSWERS, list(self._fresh.values()))
        batch.insert(JOB_ANSWERS, list(self._fresh_jobs.values()))

    def saved(self) -> None:
        """Everything is in the store."""
        self._fresh.clear()
        self._fresh_jobs.clear()


def _key(command: Asked) -> Key:
    return command.consumer, command.key


def _same(command: Asked, request_hash: str, number: int) -> int:
    if request_hash != command.request_hash:
        raise IdempotencyConflict(command.key)
    return number
