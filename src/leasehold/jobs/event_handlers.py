"""What follows from each event, before anything is decided; and from each fault of an attempt or a node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

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
from leasehold.jobs.job import NOT_YET, Attempt, AttemptState, Fault, JobReason, JobRecord, JobState
from leasehold.jobs.state import SchedulerState, key_of
from leasehold.jobs.transitions import Transitions, next_try_ms
from leasehold.matching.choice import Virtual
from leasehold.matching.images import Recipe
from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True)
class Reaction:
    """What is believed after a fault.

    ``may_go_on``    whether what was begun may still run, and has to be fenced and stopped
    ``node_is_out``  whether the node is not used until it is seen again
    ``software``     whether what the job needs is thought to be gone from the node
    ``is_its_own``   whether the job itself is the cause, which would meet it again wherever it began
    """

    may_go_on: bool
    node_is_out: bool
    software: bool = False
    is_its_own: bool = False


REACTIONS: dict[Fault, Reaction] = {
    Fault.SOFTWARE_GONE: Reaction(may_go_on=False, node_is_out=False, software=True),
    Fault.NETWORK_FAILED: Reaction(may_go_on=True, node_is_out=True),
    Fault.SERVICE_STOPPED: Reaction(may_go_on=True, node_is_out=True),
    Fault.NODE_DIED: Reaction(may_go_on=True, node_is_out=True),
    Fault.TAKEN_AWAY: Reaction(may_go_on=False, node_is_out=False),
    Fault.TIME_OVER: Reaction(may_go_on=False, node_is_out=False, is_its_own=True),
    Fault.INPUT_GONE: Reaction(may_go_on=False, node_is_out=False, is_its_own=True),
}
"""All but an error of the job itself: that is a result, and its user's (`FaultHandlers.error`).

Source: Thamarai Selvi et al., section 4.6; the death of a node, a lease that is taken away, one whose time is over and
an input that is gone are Leasehold's own.
"""


class FaultHandlers:
    """Reacts to faults of attempts and of nodes."""

    def __init__(self, state: SchedulerState, transitions: Transitions) -> None:
        self._jobs = state.jobs
        self._inventory = state.inventory
        self._images = state.images
        self._offers = state.offers
        self._failures = state.failures
        self._transitions = transitions

    def failed(self, record: JobRecord, attempt: Attempt, fault: Fault, detail: str, now_ms: int) -> None:
        """An attempt came to nothing."""
        if fault is Fault.JOB_ERROR:
            self.error(record, attempt, detail, now_ms)
            return
        self._lose(record, attempt, fault, detail, now_ms)
        reaction = REACTIONS[fault]
        if reaction.software:
            self._forget_software(record, attempt, now_ms)
            self._jobs.dirty = True
        if reaction.node_is_out:
            self._suspect(attempt, fault, detail, now_ms)

    def error(self, record: JobRecord, attempt: Attempt, detail: str, now_ms: int) -> None:
        """The job's own code ended with an error: that is its result, and it is not tried again."""
        attempt.fault, attempt.detail = Fault.JOB_ERROR, detail
        self._transitions.end(record, attempt, AttemptState.FAILED, now_ms)
        record.delivered = attempt.number
        self._transitions.close(record, JobState.FAILED, JobReason.JOB_ERROR, now_ms, detail)

    def fell(self, node: str, fault: Fault, detail: str, now_ms: int) -> None:
        """A node is silent, stopped or dead: all that runs there has that fault. Once for each fall."""
        if self._inventory.has_fallen(node):
            return
        self._failures.failed(node, now_ms)
        self._put_out(node, fault, detail, now_ms)

    def gone(self, node: str, now_ms: int) -> None:
        """A node is not among those of its site any more: it died, and is not waited for."""
        self.fell(node, Fault.NODE_DIED, "is not among the nodes of its site any more", now_ms)
        self._inventory.forget(node)

    def seen_again(self, node: str) -> None:
        """A node is back: what still runs there of what does not count is stopped."""
        for record, attempt in self._jobs.fenced_on(node):
            self._jobs.effects.append(StopAttempt(record, attempt))

    def _suspect(self, attempt: Attempt, fault: Fault, detail: str, now_ms: int) -> None:
        """Do not use the nodes of an attempt that failed for a fault of theirs, and look at them.

        Which of several it was is not known: each is charged its share of one failure.
        """
        for node in attempt.nodes:
            if not self._inventory.has_fallen(node):
                self._failures.failed(node, now_ms, 1 / len(attempt.nodes))
                self._put_out(node, fault, detail, now_ms)
            self._jobs.effects.append(LookAtNode(node))

    def _put_out(self, node: str, fault: Fault, detail: str, now_ms: int) -> None:
        self._offers.drop(node)
        self._inventory.fall(node, fault, now_ms)
        self._jobs.dirty = True
        for record in self._jobs.open():
            for attempt in record.open_attempts:
                if node not in attempt.nodes:
                    continue
                if _goes_on_without_one(record, attempt):
                    self._transitions.lose_node(record, attempt, node)
                else:
                    self._lose(record, attempt, fault, detail, now_ms)

    def _lose(self, record: JobRecord, attempt: Attempt, fault: Fault, detail: str, now_ms: int) -> None:
        """End an attempt with a fault; if nothing else of its job runs, that restarts, or has failed."""
        attempt.fault, attempt.detail = fault, detail
        reaction, reason = REACTIONS[fault], JobReason(fault.value)
        if reaction.may_go_on:
            self._transitions.stop(record, [attempt], now_ms)
        else:
            self._transitions.end(record, attempt, AttemptState.FAILED, now_ms)
        if reaction.is_its_own and not record.open_attempts:
            self._transitions.close(record, JobState.FAILED, reason, now_ms, detail)
            return
        self._jobs.decide(record, reason, detail, attempt.number)
        if record.open_attempts:
            self._transitions.follow(record)
            return
        if record.restarts == record.request.restarts:
            self._transitions.give_up(record, JobReason.TOO_MANY_FAULTS, now_ms, fault.value)
            return
        record.restarts += 1
        self._transitions.restart(record, reason, detail, now_ms)

    def _forget_software(self, record: JobRecord, attempt: Attempt, now_ms: int) -> None:
        """Believe that the software is gone: from the image of machines, or from the nodes themselves."""
        if isinstance(attempt.place, Virtual):
            self._images.forget(attempt.place.image_name)
            return
        names = frozenset(one.name for one in record.request.job.needs.software)
        for node in attempt.nodes:
            self._inventory.forget_software(node, names, now_ms)
            self._jobs.effects.append(LookAtNode(node))


def _goes_on_without_one(record: JobRecord, attempt: Attempt) -> bool:
    """Whether a command that runs on several nodes goes on when it loses one: if as many are left as it needs."""
    need = record.request.job.needs.need
    return attempt.state is AttemptState.RUNNING and 0 < need < len(attempt.nodes)


class EventHandlers:
    """Applies events, in the order in which they arrive."""

    def __init__(self, state: SchedulerState, transitions: Transitions, faults: FaultHandlers) -> None:
        self._state = state
        self._jobs = state.jobs
        self._transitions = transitions
        self._faults = faults
        self._falling: frozenset[str] = frozenset()

    def handle(self, events: Iterable[JobEvent], now_ms: int) -> None:
        """Take note of all events of an instant; a node that falls in it was not seen well in it."""
        listed = list(events)
        self._falling = frozenset(event.node for event in listed if isinstance(event, NodeFell))
        for event in listed:
            self._note(event, now_ms)

    def _note(self, event: JobEvent, now_ms: int) -> None:  # noqa: C901, PLR0912 - one line for each kind of event
        match event:
            case JobSubmitted():
                self._submitted(event)
            case JobCancelled():
                self._cancelled(event, now_ms)
            case NodesSeen():
                self._nodes_seen(event, now_ms)
            case NodeOffers():
                self._offers(event, now_ms)
            case NodeFell():
                self._faults.fell(event.node, event.fault, event.detail, now_ms)
            case ImagesSeen():
                self._images_seen(event, now_ms)
            case ImageBuilt():
                self._image_built(event, now_ms)
            case ImageFailed():
                self._image_failed(event, now_ms)
            case AttemptStands():
                self._stands(event)
            case AttemptRuns():
                self._runs(event, now_ms)
            case AttemptEnded():
                self._ended(event, now_ms)
            case AttemptFailed():
                self._failed(event, now_ms)
            case AttemptNotNow():
                self._not_now(event, now_ms)
            case RoomTaken():
                # What was promised of nodes whose occupant is known better than before may be more, or less.
                self._jobs.roomier.update(self._state.inventory.take(event))
            case RoomLeft():
                self._jobs.roomier.update(self._state.inventory.leave(event))
            case JobTick():
                pass  # nothing happened but time
            case _:
                assert_never(event)

    # --- jobs ----------------------------------------------------------------------------------------------

    def _submitted(self, event: JobSubmitted) -> None:
        if event.request.id in self._jobs.records:
            raise InvalidField("job_id", event.request.id, "a job that is not here already")
        self._transitions.begin(event.request)

    def _cancelled(self, event: JobCancelled, now_ms: int) -> None:
        record = self._jobs.records.get(event.job_id)
        if record is not None:
            self._transitions.close(record, JobState.CANCELLED, JobReason.CANCELLED_BY_USER, now_ms)

    # --- nodes ---------------------------------------------------------------------------------------------

    def _nodes_seen(self, event: NodesSeen, now_ms: int) -> None:
        inventory = self._state.inventory
        there = {seen.node.name for seen in event.nodes} if event.names is None else event.names
        for name in inventory.names_but(event.site, there):
            self._faults.gone(name, now_ms)
        if inventory.take_turn(event.site, event.turn):
            self._jobs.dirty = True
        self._see(event.nodes, now_ms)
        if event.names is None or inventory.has_all(event.site, event.names):
            inventory.expect_no_more(event.site)

    def _see(self, nodes: Sequence[SeenNode], now_ms: int) -> None:
        inventory = self._state.inventory
        seen = [one for one in nodes if not self._is_falling(one.node.name)]
        for one in seen:
            if one.fault is not None:
                self._faults.fell(one.node.name, one.fault, one.problem, now_ms)
        before = {one.node.name: inventory.kind(one.node.name) for one in seen}
        back = inventory.see(seen, now_ms)
        for name, kind in before.items():
            if name in back:
                self._faults.seen_again(name)
            if not inventory.has_fallen(name):
                self._state.failures.well(name, now_ms)
            if inventory.kind(name) == kind:
                self._jobs.roomier.add(name)
            else:
                self._jobs.dirty = True

    def _is_falling(self, name: str) -> bool:
        return name in self._falling and self._state.inventory.has_fallen(name)

    def _offers(self, event: NodeOffers, now_ms: int) -> None:
        self._see([event.seen], now_ms)
        if event.seen.is_usable and not self._state.inventory.has_fallen(event.seen.node.name):
            self._state.offers.make(event.seen.node.name, now_ms, event.until_ms)

    # --- images --------------------------------------------------------------------------------------------

    def _images_seen(self, event: ImagesSeen, now_ms: int) -> None:
        """Reconsider jobs waiting for an image, too: it may exist now, or be built from another one."""
        is_news = self._state.images.see(event)
        self._jobs.dirty = True
        for record in self._jobs.open():
            if record.state is JobState.BUILDING:
                self._look_for_image(record, now_ms, is_news=is_news)

    def _look_for_image(self, record: JobRecord, now_ms: int, *, is_news: bool) -> None:
        """Let a job wait for the image that is being built, be it so that no other could be; or take one that is there.

        After a restart it is asked for again where it can be.
        """
        found = self._state.images.catalogue.find(record.request.job.needs.software)
        recipes = [one for one in found if isinstance(one, Recipe)]
        if is_news and len(recipes) < len(found):
            self._transitions.restart(record, JobReason.IMAGE_IS_BUILT, "", now_ms)
            return
        same = next((one for one in recipes if key_of(one) == record.what), None)
        if same is not None:
            self._state.images.want(record, same)

    def _image_built(self, event: ImageBuilt, now_ms: int) -> None:
        for record in self._state.images.built(event.key, event.image):
            self._transitions.restart(record, JobReason.IMAGE_IS_BUILT, event.key, now_ms)

    def _image_failed(self, event: ImageFailed, now_ms: int) -> None:
        for record in self._state.images.over(event.key):
            next_ms = next_try_ms(self._state.settings, record, now_ms) if event.again else None
            if next_ms is None:
                self._transitions.give_up(record, JobReason.IMAGE_FAILED, now_ms, event.why)
            else:
                self._transitions.wait(record, JobReason.IMAGE_FAILED, event.why, next_ms)

    # --- attempts ------------------------------------------------------------------------------------------

    def _open(self, job_id: int, number: int) -> tuple[JobRecord, Attempt] | None:
        """Give an attempt that counts; None for one that does not, or is unknown."""
        record = self._jobs.records.get(job_id)
        if record is None or not 1 <= number <= len(record.attempts):
            return None
        attempt = record.attempt(number)
        return (record, attempt) if attempt.state.is_open else None

    def _stands(self, event: AttemptStands) -> None:
        found = self._open(event.job_id, event.number)
        if found is not None:
            if event.begins_ms != NOT_YET:
                record, attempt = found
                self._state.inventory.waits.promised((record.id, attempt.number), attempt.nodes, event.begins_ms)
            self._transitions.stands(*found, event.state, event.why)

    def _runs(self, event: AttemptRuns, now_ms: int) -> None:
        found = self._open(event.job_id, event.number)
        if found is not None:
            self._transitions.run(*found, now_ms)
        elif record := self._jobs.fenced.get((event.job_id, event.number)):
            self._jobs.effects.append(StopAttempt(record, record.attempt(event.number)))

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
        self._transitions.end(record, attempt, AttemptState.SUCCEEDED, now_ms)
        self._state.warm_hosts.leave(attempt, now_ms)
        record.delivered = attempt.number
        self._transitions.close(record, JobState.COMPLETED, JobReason.COMPLETED, now_ms)

    def _fenced_result(self, event: AttemptEnded) -> None:
        record = self._jobs.fenced.pop((event.job_id, event.number), None)
        if record is not None:
            self._jobs.decide(record, JobReason.RESULT_FENCED, event.detail, event.number)

    def _failed(self, event: AttemptFailed, now_ms: int) -> None:
        self._jobs.fenced.pop((event.job_id, event.number), None)
        found = self._open(event.job_id, event.number)
        if found is not None:
            self._faults.failed(*found, event.fault, event.detail, now_ms)

    def _not_now(self, event: AttemptNotNow, now_ms: int) -> None:
        """The site has no room after all: what is known of its nodes has proved wrong.

        If they were full it is no fault of theirs nor of the job, which looks for others at once.
        """
        self._jobs.fenced.pop((event.job_id, event.number), None)
        found = self._open(event.job_id, event.number)
        if found is None:
            return
        record, attempt = found
        attempt.detail = event.detail
        self._transitions.end(record, attempt, AttemptState.FENCED, now_ms)
        del self._jobs.fenced[record.id, attempt.number]
        for node in event.full or attempt.nodes:
            self._state.inventory.doubt(node, now_ms)
            self._jobs.effects.append(LookAtNode(node))
        reason = JobReason.NODE_FULL if event.full else JobReason.SITE_SAID_NOT_NOW
        self._jobs.decide(record, reason, event.detail, attempt.number)
        if record.open_attempts:
            self._transitions.follow(record)
        elif event.full:
            self._transitions.requeue(record, reason, event.detail)
        else:
            self._try_again(record, event.detail, now_ms)

    def _try_again(self, record: JobRecord, detail: str, now_ms: int) -> None:
        next_ms = next_try_ms(self._state.settings, record, now_ms)
        if next_ms is None:
            self._transitions.give_up(record, JobReason.WAITED_TOO_LONG, now_ms, detail)
        else:
            self._transitions.wait(record, JobReason.SITE_SAID_NOT_NOW, detail, next_ms)
