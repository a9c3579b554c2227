"""What happened, taken note of before anything is decided: one short method for each event."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from leasehold.jobs.effects import LookAtNode, StopAttempt
from leasehold.jobs.events import (
    AttemptEnded,
    AttemptFailed,
    AttemptNotNow,
    AttemptRuns,
    AttemptStands,
    ImageBuilt,
    ImageFailed,
    ImagesSeen,
    JobCancelled,
    JobEvent,
    JobSubmitted,
    JobTick,
    NodeFell,
    NodeOffers,
    NodesSeen,
    RoomLeft,
    RoomTaken,
    SeenNode,
)
from leasehold.jobs.faults import Faults
from leasehold.jobs.job import Attempt, AttemptState, JobRecord, JobState
from leasehold.jobs.life import Lives
from leasehold.jobs.office import Office
from leasehold.jobs.rounds import next_try_ms
from leasehold.jobs.why import JobReason
from leasehold.matching.images import Recipe
from leasehold.model.errors import InvalidField


class Notes:
    """Takes note of events, in the order in which they are told."""

    def __init__(self, office: Office, lives: Lives, faults: Faults) -> None:
        self._office = office
        self._book = office.book
        self._lives = lives
        self._faults = faults
        self._falling: frozenset[str] = frozenset()
        self._note: dict[type, Callable[[Any, int], None]] = {
            JobSubmitted: self._submitted,
            JobCancelled: self._cancelled,
            NodesSeen: self._nodes_seen,
            NodeOffers: self._offers,
            NodeFell: self._node_fell,
            ImagesSeen: self._images_seen,
            ImageBuilt: self._image_built,
            ImageFailed: self._image_failed,
            AttemptStands: self._stands,
            AttemptRuns: self._runs,
            AttemptEnded: self._ended,
            AttemptFailed: self._failed,
            AttemptNotNow: self._not_now,
            RoomTaken: self._room_taken,
            RoomLeft: self._room_left,
            JobTick: self._tick,
        }

    def take(self, events: Iterable[JobEvent], now_ms: int) -> None:
        """Take note of all events of an instant; a node that falls in it was not seen well in it."""
        listed = list(events)
        self._falling = frozenset(event.node for event in listed if isinstance(event, NodeFell))
        for event in listed:
            self._note[type(event)](event, now_ms)

    # --- jobs ----------------------------------------------------------------------------------------------

    def _submitted(self, event: JobSubmitted, _now_ms: int) -> None:
        if event.request.id in self._book.records:
            raise InvalidField("job_id", event.request.id, "a job that is not here already")
        self._lives.begin(event.request)

    def _cancelled(self, event: JobCancelled, now_ms: int) -> None:
        record = self._book.records.get(event.job_id)
        if record is not None:
            self._lives.close(record, JobState.CANCELLED, JobReason.CANCELLED_BY_USER, now_ms)

    def _tick(self, _event: JobTick, _now_ms: int) -> None:
        """Nothing happened but time."""

    # --- nodes ---------------------------------------------------------------------------------------------

    def _nodes_seen(self, event: NodesSeen, now_ms: int) -> None:
        floor = self._office.floor
        there = {seen.node.name for seen in event.nodes} if event.names is None else event.names
        for name in floor.names(event.site):
            if name not in there:
                self._faults.gone(name, now_ms)
        self._see(event.nodes, now_ms)
        if event.names is None or event.names.issubset(floor.names(event.site)):
            floor.expect_no_more(event.site)

    def _see(self, nodes: Sequence[SeenNode], now_ms: int) -> None:
        floor = self._office.floor
        seen = [one for one in nodes if not self._is_falling(one.node.name)]
        for one in seen:
            if one.fault is not None:
                self._faults.fell(one.node.name, one.fault, one.problem, now_ms)
        before = {one.node.name: floor.kind(one.node.name) for one in seen}
        back = floor.see(seen, now_ms)
        for name, kind in before.items():
            if name in back:
                self._faults.seen_again(name)
            if not floor.has_fallen(name):
                self._office.watching.well(name, now_ms)
            if floor.kind(name) == kind:
                self._book.roomier.add(name)
            else:
                self._book.anything = True

    def _is_falling(self, name: str) -> bool:
        return name in self._falling and self._office.floor.has_fallen(name)

    def _offers(self, event: NodeOffers, now_ms: int) -> None:
        self._see([event.seen], now_ms)
        if not self._office.floor.has_fallen(event.seen.node.name):
            self._office.offers.make(event.seen.node.name, now_ms)

    def _node_fell(self, event: NodeFell, now_ms: int) -> None:
        self._faults.fell(event.node, event.fault, event.detail, now_ms)

    def _room_taken(self, event: RoomTaken, _now_ms: int) -> None:
        """What was promised of nodes whose occupant is known better than before may be more, or less."""
        self._book.roomier.update(self._office.floor.take(event))

    def _room_left(self, event: RoomLeft, _now_ms: int) -> None:
        self._book.roomier.update(self._office.floor.leave(event))

    # --- images --------------------------------------------------------------------------------------------

    def _images_seen(self, event: ImagesSeen, now_ms: int) -> None:
        """Also those who wait for an image look again: it may be there, or be built from something else."""
        self._office.images.see(event)
        self._book.anything = True
        for record in self._book.open():
            if record.state is JobState.BUILDING:
                self._look_for_image(record, now_ms)

    def _look_for_image(self, record: JobRecord, now_ms: int) -> None:
        found = self._office.images.catalogue.find(record.request.job.needs.software)
        if isinstance(found, Recipe):
            self._office.images.want(record, found)
        else:
            self._lives.afresh(record, JobReason.IMAGE_IS_BUILT, "", now_ms)

    def _image_built(self, event: ImageBuilt, now_ms: int) -> None:
        for record in self._office.images.built(event.key, event.image):
            self._lives.afresh(record, JobReason.IMAGE_IS_BUILT, event.key, now_ms)

    def _image_failed(self, event: ImageFailed, now_ms: int) -> None:
        for record in self._office.images.over(event.key):
            next_ms = next_try_ms(self._office.settings, record, now_ms) if event.again else None
            if next_ms is None:
                self._lives.give_up(record, JobReason.IMAGE_FAILED, now_ms, event.why)
            else:
                self._lives.wait(record, JobReason.IMAGE_FAILED, event.why, next_ms)

    # --- attempts ------------------------------------------------------------------------------------------

    def _open(self, job_id: int, number: int) -> tuple[JobRecord, Attempt] | None:
        """Give an attempt that counts; None for one that does not, or that nobody knows."""
        record = self._book.records.get(job_id)
        if record is None or not 1 <= number <= len(record.attempts):
            return None
        attempt = record.attempt(number)
        return (record, attempt) if attempt.state.is_open else None

    def _stands(self, event: AttemptStands, _now_ms: int) -> None:
        found = self._open(event.job_id, event.number)
        if found is not None:
            self._lives.stands(*found, event.state, event.why)

    def _runs(self, event: AttemptRuns, now_ms: int) -> None:
        found = self._open(event.job_id, event.number)
        if found is not None:
            self._lives.run(*found, now_ms)
        elif record := self._book.fenced.get((event.job_id, event.number)):
            self._book.effects.append(StopAttempt(record, record.attempt(event.number)))

    def _ended(self, event: AttemptEnded, now_ms: int) -> None:
        found = self._open(event.job_id, event.number)
        if found is None:
            self._fenced_result(event)
            return
        record, attempt = found
        attempt.exit_status, attempt.detail = event.exit_status, event.detail
        if event.exit_status != 0:
            self._faults.error(record, attempt, event.detail or f"exit status {event.exit_status}", now_ms)
            return
        self._lives.end(record, attempt, AttemptState.SUCCEEDED, now_ms)
        self._office.warmth.leave(attempt, now_ms)
        record.delivered = attempt.number
        self._lives.close(record, JobState.COMPLETED, JobReason.COMPLETED, now_ms)

    def _fenced_result(self, event: AttemptEnded) -> None:
        record = self._book.fenced.pop((event.job_id, event.number), None)
        if record is not None:
            self._book.decide(record, JobReason.RESULT_FENCED, event.detail, event.number)

    def _failed(self, event: AttemptFailed, now_ms: int) -> None:
        self._book.fenced.pop((event.job_id, event.number), None)
        found = self._open(event.job_id, event.number)
        if found is not None:
            self._faults.failed(*found, event.fault, event.detail, now_ms)

    def _not_now(self, event: AttemptNotNow, now_ms: int) -> None:
        """The site has no room after all: what is known of its nodes has proved wrong.

        If they were full it is no fault of theirs nor of the job, which looks for others at once.
        """
        self._book.fenced.pop((event.job_id, event.number), None)
        found = self._open(event.job_id, event.number)
        if found is None:
            return
        record, attempt = found
        attempt.detail = event.detail
        self._lives.end(record, attempt, AttemptState.FENCED, now_ms)
        del self._book.fenced[record.id, attempt.number]
        for node in event.full or attempt.nodes:
            self._office.floor.doubt(node, now_ms)
            self._book.effects.append(LookAtNode(node))
        reason = JobReason.NODE_FULL if event.full else JobReason.SITE_SAID_NOT_NOW
        self._book.decide(record, reason, event.detail, attempt.number)
        if record.open_attempts:
            self._lives.follow(record)
        elif event.full:
            self._lives.requeue(record, reason, event.detail)
        else:
            self._try_again(record, event.detail, now_ms)

    def _try_again(self, record: JobRecord, detail: str, now_ms: int) -> None:
        next_ms = next_try_ms(self._office.settings, record, now_ms)
        if next_ms is None:
            self._lives.give_up(record, JobReason.WAITED_TOO_LONG, now_ms, detail)
        else:
            self._lives.wait(record, JobReason.SITE_SAID_NOT_NOW, detail, next_ms)
