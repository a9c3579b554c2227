"""Who waits, who is looked at now, and in which order?"""

from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.jobs.job import NOT_YET, JobRecord
from leasehold.jobs.settings import JobSettings
from leasehold.jobs.why import JobReason
from leasehold.matching.queues import job_queue

_WAITS_FOR_ITS_TIME = {JobReason.SITE_SAID_NOT_NOW, JobReason.IMAGE_FAILED}
"""Why room is not what a job waits for."""


class WaitingLine:
    """Jobs that wait for room, in the order of the queue that the operator chose."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._queue = job_queue(settings.queue, settings.patience_ms)
        self._waiting: dict[int, JobRecord] = {}
        self._arriving: dict[int, JobRecord] = {}
        self._afresh: set[int] = set()

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._waiting or job_id in self._arriving

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting or self._arriving)

    def put(self, record: JobRecord, *, at_once: bool = True) -> None:
        """Let a job wait; ``at_once`` says whether it is looked at in the next round whatever its times."""
        self._arriving[record.id] = record
        if at_once:
            self._afresh.add(record.id)

    def drop(self, job_id: int) -> None:
        """Let a job go, where it waits."""
        self._afresh.discard(job_id)
        if self._arriving.pop(job_id, None) is None and self._waiting.pop(job_id, None) is not None:
            self._queue.leave(job_id)

    def round(self, now_ms: int, *, room: bool) -> list[JobRecord]:
        """List who is looked at now, the first to choose first; ``room``: whether there may be more of it.

        Rule: whoever is new or lost its place, whoever's time has come, and, where the operator wants it, all
        others as soon as there may be room. Whom a site would not take, or whose image could not be built,
        waits for its time.
        """
        self._let_in()
        if not room and not any(self.is_due(record, now_ms) for record in self._waiting.values()):
            return []
        listed = [self._waiting[job.job_id] for job in self._queue.order(now_ms)]
        eager = room and self._settings.eager
        return [
            record
            for record in listed
            if self.is_due(record, now_ms) or (eager and record.reason not in _WAITS_FOR_ITS_TIME)
        ]

    def is_due(self, record: JobRecord, now_ms: int) -> bool:
        """Whether this try counts: an answer is owed to it now."""
        return record.id in self._afresh or NOT_YET < record.next_ms <= now_ms

    def looked_at(self, records: Iterable[JobRecord]) -> None:
        """End a round."""
        self._afresh.difference_update(record.id for record in records)

    def _let_in(self) -> None:
        self._queue.arrive(record.request.job for record in self._arriving.values())
        self._waiting |= self._arriving
        self._arriving.clear()

    def memory(self) -> dict[str, Any]:
        """Give what the queue has in mind beside who waits, as plain JSON."""
        return self._queue.memory()

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on with what was kept; the jobs must be there before."""
        self._let_in()
        self._queue.recall(memory)
