"""What follows a fault? One line for each class, and what the lines have in common.

Source: Thamarai Selvi et al., section 4.6; the death of a node, a lease that is taken away and one whose time
is over are Leasehold's own.
"""

from dataclasses import dataclass

from leasehold.jobs.effects import LookAtNode, StopAttempt
from leasehold.jobs.job import Attempt, AttemptState, Fault, JobRecord, JobState
from leasehold.jobs.life import Lives
from leasehold.jobs.office import Office
from leasehold.jobs.why import JobReason
from leasehold.matching.choice import Virtual


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
}
"""All but an error of the job itself: that is a result, and its user's (`Faults.error`)."""


class Faults:
    """Reacts to faults of attempts and of nodes."""

    def __init__(self, office: Office, lives: Lives) -> None:
        self._book = office.book
        self._floor = office.floor
        self._images = office.images
        self._offers = office.offers
        self._watching = office.watching
        self._lives = lives

    def failed(self, record: JobRecord, attempt: Attempt, fault: Fault, detail: str, now_ms: int) -> None:
        """An attempt came to nothing."""
        if fault is Fault.JOB_ERROR:
            self.error(record, attempt, detail, now_ms)
            return
        self._lose(record, attempt, fault, detail, now_ms)
        reaction = REACTIONS[fault]
        if reaction.software:
            self._forget_software(record, attempt, now_ms)
            self._book.anything = True
        if reaction.node_is_out:
            self._suspect(attempt, fault, detail, now_ms)

    def error(self, record: JobRecord, attempt: Attempt, detail: str, now_ms: int) -> None:
        """The job's own code ended with an error: that is its result, and it is not tried again."""
        attempt.fault, attempt.detail = Fault.JOB_ERROR, detail
        self._lives.end(record, attempt, AttemptState.FAILED, now_ms)
        record.delivered = attempt.number
        self._lives.close(record, JobState.FAILED, JobReason.JOB_ERROR, now_ms, detail)

    def fell(self, node: str, fault: Fault, detail: str, now_ms: int) -> None:
        """A node is silent, stopped or dead: all that runs there has that fault. Once for each fall."""
        if self._floor.has_fallen(node):
            return
        self._watching.failed(node, now_ms)
        self._put_out(node, fault, detail, now_ms)

    def gone(self, node: str, now_ms: int) -> None:
        """A node is not among those of its site any more: it died, and is not waited for."""
        self.fell(node, Fault.NODE_DIED, "is not among the nodes of its site any more", now_ms)
        self._floor.forget(node)

    def seen_again(self, node: str) -> None:
        """A node is back: what still runs there of what does not count is stopped."""
        for record, attempt in self._book.fenced_on(node):
            self._book.effects.append(StopAttempt(record, attempt))

    def _suspect(self, attempt: Attempt, fault: Fault, detail: str, now_ms: int) -> None:
        """Do not use the nodes of an attempt that failed for a fault of theirs, and look at them.

        Which of several it was nobody knows: each is charged its share of one failure.
        """
        for node in attempt.nodes:
            if not self._floor.has_fallen(node):
                self._watching.failed(node, now_ms, 1 / len(attempt.nodes))
                self._put_out(node, fault, detail, now_ms)
            self._book.effects.append(LookAtNode(node))

    def _put_out(self, node: str, fault: Fault, detail: str, now_ms: int) -> None:
        self._offers.drop(node)
        self._floor.fall(node, fault, now_ms)
        self._book.anything = True
        for record in self._book.open():
            for attempt in record.open_attempts:
                if node in attempt.nodes:
                    self._lose(record, attempt, fault, detail, now_ms)

    def _lose(self, record: JobRecord, attempt: Attempt, fault: Fault, detail: str, now_ms: int) -> None:
        """End an attempt with a fault; if nothing else of its job runs, that begins anew, or has failed."""
        attempt.fault, attempt.detail = fault, detail
        reaction, reason = REACTIONS[fault], JobReason(fault.value)
        if reaction.may_go_on:
            self._lives.stop(record, [attempt], now_ms)
        else:
            self._lives.end(record, attempt, AttemptState.FAILED, now_ms)
        if reaction.is_its_own and not record.open_attempts:
            self._lives.close(record, JobState.FAILED, reason, now_ms, detail)
            return
        self._book.decide(record, reason, detail, attempt.number)
        if record.open_attempts:
            self._lives.follow(record)
            return
        if record.restarts == record.request.restarts:
            self._lives.give_up(record, JobReason.TOO_MANY_FAULTS, now_ms, fault.value)
            return
        record.restarts += 1
        self._lives.afresh(record, reason, detail, now_ms)

    def _forget_software(self, record: JobRecord, attempt: Attempt, now_ms: int) -> None:
        """Believe that the software is gone: from the image of machines, or from the nodes themselves."""
        if isinstance(attempt.place, Virtual):
            self._images.forget(attempt.place.image_name)
            return
        names = frozenset(one.name for one in record.request.job.needs.software)
        for node in attempt.nodes:
            self._floor.forget_software(node, names, now_ms)
            self._book.effects.append(LookAtNode(node))
