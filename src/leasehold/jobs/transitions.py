"""The transitions of jobs and attempts, each with all that belongs to it: record, promises, queue and effects."""

from collections.abc import Iterable

from leasehold.jobs.effects import JobClosed, LookAtNode, StartAttempt, StopAttempt
from leasehold.jobs.job import (
    NOT_YET,
    Attempt,
    AttemptState,
    JobReason,
    JobRecord,
    JobRequest,
    JobState,
    Place,
    edges_of,
    has_lost_a_place,
    last_call_ms,
    without,
)
from leasehold.jobs.settings import JobSettings
from leasehold.jobs.state import SchedulerState
from leasehold.matching.choice import Physical


class Transitions:
    """Carries out what was decided about jobs and attempts."""

    def __init__(self, state: SchedulerState) -> None:
        self._jobs = state.jobs
        self._inventory = state.inventory
        self._waiting = state.waiting
        self._images = state.images
        self._boot_ms = state.settings.making.boot_ms
        self._site_waits = state.site_waits

    def begin(self, request: JobRequest) -> None:
        """Take a job in."""
        record = JobRecord(request, since_ms=request.job.submitted_ms)
        self._jobs.add(record)
        self._jobs.moved[record.id] = record
        self._waiting.put(record)

    def take_up(self, record: JobRecord) -> None:
        """Go on with a job from its record."""
        self._jobs.add(record)
        for attempt in record.open_attempts:
            self.hold(record, attempt)
        if record.state is JobState.WAITING and not record.open_attempts:
            self._waiting.put(record, at_once=record.next_ms == NOT_YET)
        if record.state is JobState.BUILDING:
            self._images.resume(record)

    def start(
        self, record: JobRecord, place: Place, now_ms: int, reason: JobReason | None = None, what: str = ""
    ) -> Attempt:
        """Try to run a job at a place; ``reason`` is why, where it is more than that it runs there."""
        is_backup = reason is not None
        attempt = Attempt(len(record.attempts) + 1, place, now_ms, is_backup)
        record.attempts.append(attempt)
        self._waiting.drop(record.id)
        self._images.leave(record.id)
        self.hold(record, attempt)
        self._inventory.waits.ordered((record.id, attempt.number), attempt.nodes, now_ms + self._set_up_ms(place))
        _stand(record, *_standing(_furthest(record)))
        self._site_waits.ordered(place)
        self._jobs.effects.append(StartAttempt(record, attempt))
        self._jobs.decide(record, reason or where(place), what, attempt.number)
        return attempt

    def _set_up_ms(self, place: Place) -> int:
        """How long it takes until files and machines are there: its weight, less the waiting in it."""
        ready_ms = max(edge.weight_ms - (self._inventory.waiting_ms(edge.node)) for edge in edges_of(place))
        return max(0, ready_ms) + (0 if isinstance(place, Physical) else self._boot_ms)

    def hold(self, record: JobRecord, attempt: Attempt) -> None:
        """Promise an attempt what it needs."""
        amounts = self._images.amounts(record, attempt.place)
        self._inventory.hold((record.id, attempt.number), attempt.nodes, amounts, attempt.started_ms)

    def run(self, record: JobRecord, attempt: Attempt, now_ms: int) -> None:
        """Note that the command of an attempt has begun."""
        if attempt.started_ms == NOT_YET:
            attempt.started_ms = now_ms
            self._inventory.begins((record.id, attempt.number), attempt.nodes, now_ms)
            self._inventory.waits.begun((record.id, attempt.number), attempt.nodes, now_ms)
        self.stands(record, attempt, AttemptState.RUNNING)

    def stands(self, record: JobRecord, attempt: Attempt, state: AttemptState, why: str = "") -> None:
        """Set the state of an attempt that counts, and of its job."""
        if attempt.state is state and record.what == why:
            return
        attempt.state = state
        self.follow(record, why)

    def follow(self, record: JobRecord, why: str = "") -> None:
        """Set a job's state from the furthest of its open attempts, and report a changed reason."""
        self._jobs.moved[record.id] = record
        furthest = _furthest(record)
        state, reason = _standing(furthest)
        is_news = record.reason is not reason
        _stand(record, state, reason, why if reason in _AT_SITE else "")
        if is_news:
            self._jobs.decide(record, reason, record.what, furthest.number)

    def end(self, record: JobRecord, attempt: Attempt, state: AttemptState, now_ms: int) -> None:
        """End an attempt: nothing that it says from now on counts."""
        attempt.state, attempt.ended_ms = state, now_ms
        self._inventory.waits.left((record.id, attempt.number), attempt.nodes)
        self._inventory.release((record.id, attempt.number), attempt.nodes)
        self._jobs.moved[record.id] = record
        self._jobs.roomier.update(attempt.nodes)
        if state is AttemptState.FENCED:
            self._jobs.fence(record, attempt)
        elif self._waiting:
            self._jobs.effects += [LookAtNode(node) for node in attempt.nodes]

    def lose_node(self, record: JobRecord, attempt: Attempt, node: str) -> None:
        """Let an attempt go on without one of its nodes, which has nothing of it any more."""
        self._inventory.release((record.id, attempt.number), (node,))
        attempt.place = without(attempt.place, node)
        self._jobs.moved[record.id] = record
        self._jobs.decide(record, JobReason.GOES_ON_WITH_FEWER, node, attempt.number)

    def stop(self, record: JobRecord, attempts: Iterable[Attempt], now_ms: int) -> None:
        """Fence attempts, and have their leases taken back."""
        for attempt in attempts:
            self.end(record, attempt, AttemptState.FENCED, now_ms)
            self._jobs.effects.append(StopAttempt(record, attempt))

    def wait(self, record: JobRecord, reason: JobReason, what: str, next_ms: int) -> None:
        """Let a job wait until then, or until there is room."""
        self._images.leave(record.id)
        _stand(record, JobState.WAITING, reason, what, next_ms)
        if record.id not in self._waiting:
            self._waiting.put(record, at_once=False)
        self._jobs.decide(record, reason, what)

    def restart(self, record: JobRecord, reason: JobReason, what: str, now_ms: int) -> None:
        """Let a job look for a place at once, its tries counted from now on."""
        record.since_ms = now_ms
        self.requeue(record, reason, what)

    def requeue(self, record: JobRecord, reason: JobReason, what: str) -> None:
        """Let a job look for a place at once."""
        self._images.leave(record.id)
        _stand(record, JobState.WAITING, reason, what)
        self._waiting.put(record)
        self._jobs.moved[record.id] = record

    def build(self, record: JobRecord, key: str, next_ms: int) -> None:
        """Let a job wait for an image."""
        self._waiting.drop(record.id)
        is_new = record.state is not JobState.BUILDING
        _stand(record, JobState.BUILDING, JobReason.IMAGE_IS_BUILT, key, next_ms)
        if is_new:
            self._jobs.decide(record, JobReason.IMAGE_IS_BUILT, key)

    def close(self, record: JobRecord, state: JobState, reason: JobReason, now_ms: int, what: str = "") -> None:
        """End a job; whatever still runs for it is stopped."""
        self.stop(record, record.open_attempts, now_ms)
        self._waiting.drop(record.id)
        self._images.leave(record.id)
        _stand(record, state, reason, what)
        record.standby, record.ended_ms = None, now_ms
        self._jobs.remove(record)
        self._jobs.decide(record, reason, what, record.delivered)
        self._jobs.effects.append(JobClosed(record))

    def give_up(self, record: JobRecord, reason: JobReason, now_ms: int, what: str = "") -> None:
        """End a job without a result: one that never lost a place is refused, any other has failed."""
        state = JobState.FAILED if has_lost_a_place(record) else JobState.REFUSED
        self.close(record, state, reason, now_ms, what)


def next_try_ms(settings: JobSettings, record: JobRecord, now_ms: int) -> int | None:
    """Give when a job is tried again, or is too late if it did not begin before; None for no more."""
    at_ms = settings.retrying.next_ms(record.since_ms, now_ms)
    last_ms = last_call_ms(record)
    return at_ms if at_ms is None or last_ms == NOT_YET else min(at_ms, last_ms)


_FURTHER = (AttemptState.QUEUED, AttemptState.SUSPENDED, AttemptState.ORDERED, AttemptState.RUNNING)
_AT_SITE = frozenset({JobReason.WAITS_AT_SITE, JobReason.SUSPENDED})
"""Reasons that have one of the site beside them."""


def _how_far(attempt: Attempt) -> int:
    return _FURTHER.index(attempt.state)


def _furthest(record: JobRecord) -> Attempt:
    """Give the open attempt of a job that has come furthest; there must be one."""
    return max(record.open_attempts, key=_how_far)


def _standing(furthest: Attempt) -> tuple[JobState, JobReason]:
    """Return a job's state and reason by its furthest open attempt."""
    match furthest.state:
        case AttemptState.QUEUED:
            return JobState.WAITING, JobReason.WAITS_AT_SITE
        case AttemptState.SUSPENDED:
            return JobState.SUSPENDED, JobReason.SUSPENDED
        case AttemptState.ORDERED:
            return JobState.STARTING, where(furthest.place)
        case _:
            return JobState.RUNNING, where(furthest.place)


def where(place: Place) -> JobReason:
    """Say whether a job runs on nodes or in machines."""
    return JobReason.RUNS_ON_NODES if isinstance(place, Physical) else JobReason.RUNS_IN_MACHINES


def _stand(record: JobRecord, state: JobState, reason: JobReason, what: str = "", next_ms: int = NOT_YET) -> None:
    record.state, record.reason, record.what, record.next_ms = state, reason, what, next_ms
