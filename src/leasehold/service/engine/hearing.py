"""What machines and the gateway say of the leases of attempts, and what that is for the desk of jobs.

The end of a command is told to the desk only with what it wrote, in the transaction that keeps that: a job
is completed with its output in the store, or not yet.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leasehold.jobs.events import (
    AttemptEnded,
    AttemptFailed,
    AttemptNotNow,
    AttemptRuns,
    AttemptStands,
    JobEvent,
)
from leasehold.jobs.job import AttemptState, Fault
from leasehold.model.effect import Decision, Effect, LeaseClosed
from leasehold.model.event import CancelRequested
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.service.commands import JobOutput
from leasehold.service.drivers.protocol import Observation, Phase, Problem
from leasehold.service.engine.attempting import Heard, came_to_nothing, lost_its_software
from leasehold.service.engine.errands import Errands, Fetch
from leasehold.service.engine.job_records import JobRecords, Tried
from leasehold.service.engine.job_rows import CameTo
from leasehold.service.store.rows import OrderRow, OutputRow

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine

NOT_FETCHED = "what it wrote could not be fetched: {}"
_SENT_BACK = frozenset({Reason.NO_SITE_AVAILABLE, Reason.SITE_DRAINED, Reason.SITE_UNREACHABLE})


_STANDS = {
    **dict.fromkeys((LeaseState.SUBMITTED, LeaseState.HELD, LeaseState.WAITING), AttemptState.QUEUED),
    **dict.fromkeys((LeaseState.SUSPENDING, LeaseState.SUSPENDED), AttemptState.SUSPENDED),
}
"""How an attempt stands whose lease is in these states; in others it has machines, or is to have them."""


class Hearing:
    """Listens for attempts; ``inbox`` is for the desk, ``withdrawn`` for the gateway."""

    def __init__(self, engine: "Engine", kept: JobRecords, errands: Errands) -> None:
        """Have what was to be fetched fetched again."""
        self.inbox: list[JobEvent] = []
        self.withdrawn: list[CancelRequested] = []
        self._engine = engine
        self._kept = kept
        self._errands = errands
        self._heard: dict[int, Heard] = {}
        errands.fetches += [Fetch(lease_id, site) for lease_id, site in kept.to_fetch()]

    # Machines

    def saw(self, seen: Observation) -> None:
        """Machines say something of a lease; what comes of one that is over is told, and counts no more."""
        tried = self._kept.find(seen.lease_id)
        if tried is None:
            return
        lease = self._engine.gateway.leases.get(seen.lease_id)
        if lease is not None and lease.incarnation == seen.incarnation:
            self._follow(tried, seen)
        elif lease is None and seen.phase is Phase.ENDED and not tried.attempt.state.is_open:
            self.inbox.append(AttemptEnded(*tried.key, seen.exit_status or 0, seen.detail))

    def _follow(self, tried: Tried, seen: Observation) -> None:
        if seen.phase in {Phase.RUNNING, Phase.ENDED} and tried.attempt.started_ms < 0:
            self.inbox.append(AttemptRuns(*tried.key))
        if seen.phase is Phase.STARTING and tried.attempt.started_ms >= 0:
            self._hear(seen.lease_id).began_anew = True
        if seen.phase is Phase.RUNNING and seen.detail:
            self._hear(seen.lease_id).while_it_ran = seen.detail
        if seen.phase in {Phase.ENDED, Phase.FAILED}:
            self._hear(seen.lease_id).take(seen, ended=seen.phase is Phase.ENDED)

    def sent_back(self, row: OrderRow, problem: Problem) -> bool:
        """Others have the nodes of an attempt: it goes back into the queue; False where it is none."""
        tried = self._kept.find(row.order.lease_id)
        if tried is None or not tried.attempt.state.is_open or tried.attempt.started_ms >= 0:
            return False
        nodes = tuple(f"{row.site}/{name}" for name in problem.nodes)
        self.inbox.append(AttemptNotNow(*tried.key, problem.text, full=nodes))
        self.withdrawn.append(CancelRequested(row.order.lease_id))
        return True

    def refused(self, lease_id: int, problem: Problem) -> None:
        """Machines cannot be told to start, for good."""
        if self._kept.find(lease_id) is not None:
            heard = self._hear(lease_id)
            heard.refused, heard.full = problem.text, problem.full

    def _hear(self, lease_id: int) -> Heard:
        return self._heard.setdefault(lease_id, Heard())

    # The gateway

    def follow(self, effects: Iterable[Effect], moved: Iterable[Lease], now_ms: int) -> None:
        """See what the gateway's decisions mean for attempts."""
        for lease in moved:
            self._stands(lease)
        for effect in effects:
            if isinstance(effect, LeaseClosed):
                self._closed(effect, now_ms)
            elif isinstance(effect, Decision) and effect.outcome is Outcome.HOLD:
                self._held(effect)

    def _stands(self, lease: Lease) -> None:
        """How the lease of an attempt stands, where its machines do not say more."""
        tried = self._kept.find(lease.id)
        state = _STANDS.get(lease.state, AttemptState.ORDERED)
        if tried is None or lease.state.is_final or not tried.attempt.state.is_open:
            return
        if lease.state is LeaseState.RUNNING:
            state = AttemptState.RUNNING  # its machines were seen
        elif state is AttemptState.QUEUED and tried.attempt.started_ms >= 0:
            state = AttemptState.SUSPENDED
        is_waiting = state in {AttemptState.QUEUED, AttemptState.SUSPENDED}
        why = self._engine.about[lease.id].reason if is_waiting else ""
        self.inbox.append(AttemptStands(*tried.key, state, why))

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        lease = effect.lease
        tried, heard = self._kept.find(lease.id), self._heard.pop(lease.id, Heard())
        if tried is None or not tried.attempt.state.is_open:
            return  # it is nobody's attempt, or was fenced and its lease taken back
        if effect.reason is not Reason.COMPLETED or not heard.ended:
            self.inbox.append(came_to_nothing(*tried, lease, effect.reason, heard, now_ms))
        elif lost_its_software(tried.record, heard):
            self.inbox.append(AttemptFailed(*tried.key, Fault.SOFTWARE_GONE, heard.detail))
        else:
            self._kept.set_came_to(tried, CameTo(heard.exit_status or 0, heard.detail))
            self._errands.fetches.append(Fetch(lease.id, tried.attempt.site))

    def _held(self, effect: Decision) -> None:
        """A site that takes nobody now has no room; what was chosen by its nodes waits for no other."""
        tried = self._kept.find(effect.lease.id)
        if tried is not None and effect.reason in _SENT_BACK and tried.attempt.state.is_open:
            self.inbox.append(AttemptNotNow(*tried.key, f"{tried.attempt.site} takes nobody now"))
            self.withdrawn.append(CancelRequested(effect.lease.id))

    # What was fetched

    def take(self, command: JobOutput, now_ms: int) -> None:
        """Take in what a command wrote: now its end is told. A second time it is nobody's."""
        tried = self._kept.find(command.lease_id)
        came_to = None if tried is None else self._kept.came_to(tried)
        if tried is None or came_to is None:
            return
        self._kept.set_came_to(tried, None)
        detail = [came_to.detail] if came_to.detail else []
        if command.problem:
            detail.append(NOT_FETCHED.format(command.problem))
        self.inbox.append(AttemptEnded(*tried.key, came_to.exit_status, "; ".join(detail)))
        if tried.attempt.state.is_open:
            self._keep(tried, command, now_ms)

    def _keep(self, tried: Tried, command: JobOutput, now_ms: int) -> None:
        text, is_cut = shortened(command.output.text, self._engine.setup.output_kib << 10)
        job_id, number = tried.key
        self._kept.outputs.append(
            OutputRow(
                job_id=job_id,
                number=number,
                text=text,
                is_whole=command.output.is_whole and not is_cut and not command.problem,
                fetched_ms=now_ms,
                consumer=self._kept.row(job_id).consumer,
                size_bytes=len(text.encode()),
            )
        )


def shortened(text: str, most_bytes: int) -> tuple[str, bool]:
    """Keep the end of a text that is too long, as a database can keep it; whether anything was cut off."""
    told = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    return told[-most_bytes:].decode("utf-8", "ignore"), len(told) > most_bytes
