"""What each command means: which events it is for the decision core, and how it is answered."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, assert_never

import structlog

from leasehold.model.effect import Decision
from leasehold.model.errors import InvalidField
from leasehold.model.event import (
    CancelRequested,
    CoAllocationCancelled,
    CoAllocationSubmitted,
    Event,
    ExtendRequested,
    ExtensionAsked,
    LeaseEnded,
    LeaseFailed,
    LeaseNotStarted,
    LeaseStarted,
    NativeQueueSeen,
    SiteAnswered,
    SiteFellSilent,
    Submitted,
)
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome
from leasehold.model.request import MOST_DURATION_MS, LeaseType, Request
from leasehold.model.resources import MachineShape, nodes_of, room_for
from leasehold.service.commands import (
    AmendAgreement,
    AskForFiles,
    AskForOutput,
    AskForPlan,
    Cancel,
    CancelCoAllocation,
    CancelJob,
    Command,
    Drain,
    Extend,
    ForgetSite,
    GuestFiles,
    GuestOutput,
    GuestPlan,
    Happened,
    JobImageBuilt,
    JobImageFailed,
    JobImagesSeen,
    JobNodesOffered,
    JobNodesSeen,
    JobOutput,
    JobSiteSilent,
    KeepPeer,
    LiftPenalty,
    MachinesAnswer,
    MachinesSilent,
    MessageBatch,
    NativeJobsSeen,
    Observed,
    OrdersSent,
    ProposeAgreement,
    PublishAgreement,
    RemovePeer,
    ReportCheckpoint,
    ResumeAgreement,
    RevokeAgreement,
    SignAgreement,
    SiteObserved,
    Submit,
    SubmitCoAllocation,
    SubmitJob,
    SuspendAgreement,
    Undrain,
)
from leasehold.service.drivers.protocol import NativeJob, Observation, Phase, Problem, Verb
from leasehold.service.engine.agreements import AgreementRepository
from leasehold.service.engine.checkpoints import Checkpoints
from leasehold.service.engine.coallocations import CoAllocationRepository
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.jobs import JobController
from leasehold.service.engine.leases import LeaseRepository
from leasehold.service.engine.orders import DROPPED, PENDING, Comparison, confirm, news
from leasehold.service.engine.remote_sites import RemoteSiteProtocol
from leasehold.service.engine.sites import PeerRepository, SiteRepository
from leasehold.service.errors import (
    CannotCheckpoint,
    CannotExtend,
    CannotForget,
    CannotRemovePeer,
    Closed,
    IdempotencyConflict,
    NoSuchAgreement,
    NoSuchCoAllocation,
    NoSuchJob,
    NoSuchLease,
    NoSuchPeer,
    NoSuchPenalty,
    NoSuchSite,
    TooManyOpen,
)
from leasehold.service.metrics import Difference
from leasehold.service.store.rows import IDEMPOTENCY_KEYS, IdempotencyRow, LeaseMetadata, LeaseRow, OrderRow

_REFUSALS = (
    *(InvalidField, IdempotencyConflict, TooManyOpen, CannotCheckpoint, Closed),
    *(NoSuchLease, NoSuchSite, NoSuchPeer, CannotForget, CannotRemovePeer),
    *(NoSuchAgreement, NoSuchPenalty, NoSuchCoAllocation, NoSuchJob),
)
_UNSEEN = (LeaseState.STARTING, LeaseState.SUSPENDING)
"""A guest that gave way before its machines were seen is to be saved, if there is anything."""

Answer = Callable[[], Any]
Submission = Submit | SubmitCoAllocation | SubmitJob
_Key = tuple[str, str, bool]


@dataclass(slots=True)
class Handled:
    """A command as it was understood.

    ``terms``     what is agreed from now on: it holds for all that happens at this instant
    ``news``      events about machines, which come before whatever is due at this instant
    ``requests``  events that are asked for, which come after it
    ``answer``    gives the answer once everything is in the store
    """

    terms: list[Event] = field(default_factory=list)
    news: list[Event] = field(default_factory=list)
    requests: list[Event] = field(default_factory=list)
    answer: Answer = lambda: None


class CommandHandler:
    """Handles the commands of a step, one after the other."""

    def __init__(  # noqa: PLR0913, PLR0917 - a command may be about any of these
        self,
        context: EngineContext,
        leases: LeaseRepository,
        coallocations: CoAllocationRepository,
        jobs: JobController,
        agreements: AgreementRepository,
        peers: PeerRepository,
        remote_sites: RemoteSiteProtocol,
        checkpoints: Checkpoints,
    ) -> None:
        self._unit = context.unit
        self._core = context.core
        self._journal = context.journal
        self._outbox = context.outbox
        self._telemetry = context.telemetry
        self._keys = IdempotencyStore(context)
        self._leases = leases
        self._coallocations = coallocations
        self._jobs = jobs
        self._agreements = agreements
        self._sites = SiteRepository(context, remote_sites)
        self._peers = peers
        self._remote_sites = remote_sites
        self._checkpoints = checkpoints
        self._native_jobs = NativeJobs(context)
        self._extensions: Counter[int] = Counter()
        self._comparisons = {
            name: Comparison(name, self._outbox, partial(self._differs, name), leases.is_recorded, leases.is_native_job)
            for name in self._core.gateway.sites
        }

    def handle(self, commands: Sequence[Command], now_ms: int) -> list[Handled]:
        """Understand the commands of a step; what cannot be obeyed is answered with its exception."""
        self._keys.look_up(commands)
        self._extensions.clear()
        return [self._try(command, now_ms) for command in commands]

    def _try(self, command: Command, now_ms: int) -> Handled:
        try:
            return self._handle(command, now_ms)
        except _REFUSALS as error:
            return Handled(answer=_constantly(error))

    def _handle(self, command: Command, now_ms: int) -> Handled:  # noqa: C901, PLR0911, PLR0912, PLR0915 - one case for each
        match command:
            case Submit():
                return self._submit(command, now_ms)
            case Cancel(lease_id):
                self._leases.row(lease_id)
                return Handled(requests=[CancelRequested(lease_id)], answer=lambda: self._leases.row(lease_id))
            case ReportCheckpoint(lease_id):
                return self._report_checkpoint(lease_id, now_ms)
            case Extend():
                return self._extend(command)
            case SubmitCoAllocation():
                return self._submit_coallocation(command, now_ms)
            case CancelCoAllocation(number):
                self._coallocations.row(number)
                cancelled = CoAllocationCancelled(number)
                return Handled(requests=[cancelled], answer=lambda: self._coallocations.row(number))
            case SubmitJob():
                return self._submit_job(command, now_ms)
            case CancelJob(job_id):
                self._jobs.take_in(command, now_ms)
                return Handled(answer=lambda: self._jobs.kept.stored(job_id))
            case JobNodesOffered():
                self._jobs.take_in(command, now_ms)
                return Handled(answer=lambda: self._jobs.answer_offers(command, now_ms))
            case AskForOutput(lease_id):
                self._remote_sites.jobs.ask_for_output(lease_id, self._leases.row(lease_id), now_ms)
                return Handled()
            case GuestOutput(lease_id):
                self._remote_sites.jobs.output_read(command, self._leases.row(lease_id), now_ms)
                return Handled()
            case AskForFiles(lease_id):
                self._remote_sites.jobs.ask_for_files(lease_id, self._leases.row(lease_id), now_ms)
                return Handled()
            case GuestFiles(lease_id):
                self._remote_sites.jobs.files_sent(command, self._leases.row(lease_id), now_ms)
                return Handled()
            case AskForPlan():
                self._remote_sites.ask_for_plan(command, now_ms)
                return Handled()
            case GuestPlan():
                self._remote_sites.planned(command, now_ms)
                return Handled()
            case JobNodesSeen() | JobSiteSilent() | JobImagesSeen() | JobImageBuilt() | JobImageFailed() | JobOutput():
                self._jobs.take_in(command, now_ms)
                return Handled()
            case Observed(site, observations):
                return Handled(news=self._observed(site, observations, now_ms))
            case SiteObserved():
                return Handled(news=self._site_observed(command, now_ms))
            case OrdersSent():
                return Handled(news=self._orders_sent(command, now_ms))
            case MachinesSilent():
                return Handled(news=self._machines_silent(command, now_ms))
            case MachinesAnswer(site):
                self._core.silent.discard(site)
                self._journal.site(site, "reachable", now_ms)
                return Handled(news=[SiteAnswered(site)])
            case NativeJobsSeen():
                return self._native_jobs_seen(command, now_ms)
            case MessageBatch():
                news_of_leases, follow_ups = self._remote_sites.receive(command, now_ms)
                self._extensions.update(one.lease_id for one in follow_ups if isinstance(one, ExtensionAsked))
                return Handled(news=news_of_leases, requests=follow_ups)
            case Drain():
                return Handled(requests=self._sites.drain(command, now_ms))
            case Undrain():
                return Handled(requests=self._sites.undrain(command, now_ms))
            case ForgetSite():
                return Handled(requests=self._sites.forget(command, now_ms))
            case KeepPeer():
                return Handled(requests=self._peers.keep(command, now_ms))
            case RemovePeer():
                return Handled(requests=self._peers.remove(command, now_ms))
            case (
                ProposeAgreement()
                | AmendAgreement()
                | SignAgreement()
                | PublishAgreement()
                | SuspendAgreement()
                | ResumeAgreement()
                | RevokeAgreement()
            ):
                events, record = self._agreements.carry_out(command, now_ms)
                return Handled(terms=events, answer=_constantly(record))
            case LiftPenalty():
                events, penalty = self._agreements.penalties.lift(command, now_ms)
                return Handled(requests=events, answer=_constantly(penalty))
            case Happened(event):
                return Handled(news=[event])
        assert_never(command)

    # Requests

    def _submit(self, command: Submit, now_ms: int) -> Handled:
        before = self._keys.find(command)
        if before is not None:
            return self._repeated(lambda: self._leases.row(before))
        request = self._leases.submit(command, now_ms)
        self._keys.keep(command, request.id, now_ms)
        return Handled(requests=[Submitted(request)], answer=lambda: (self._leases.row(request.id), True))

    def _submit_coallocation(self, command: SubmitCoAllocation, now_ms: int) -> Handled:
        before = self._keys.find(command)
        if before is not None:
            return self._repeated(lambda: self._coallocations.row_with(before))
        request = self._coallocations.submit(command, now_ms)
        self._keys.keep(command, request.first_lease_id, now_ms)
        self._unit.after_commit(self._telemetry.accepted)
        submitted = CoAllocationSubmitted(request)
        return Handled(requests=[submitted], answer=lambda: (self._coallocations.row(request.id), True))

    def _submit_job(self, command: SubmitJob, now_ms: int) -> Handled:
        before = self._keys.find(command)
        if before is not None:
            return self._repeated(lambda: self._jobs.kept.stored(before))
        request = self._jobs.submit(command, now_ms)
        self._keys.keep(command, request.id, now_ms)
        self._unit.after_commit(self._telemetry.accepted)
        return Handled(answer=lambda: (self._jobs.kept.stored(request.id), True))

    def _repeated(self, row: Answer) -> Handled:
        self._unit.after_commit(self._telemetry.repeated)
        return Handled(answer=lambda: (row(), False))

    def _extend(self, command: Extend) -> Handled:
        lease_id = command.lease_id
        if command.by_ms < 1:
            raise InvalidField("by_ms", command.by_ms, "a whole number of at least 1")
        row = self._leases.row(lease_id)
        if lease_id not in self._core.gateway.leases:
            return Handled(answer=_constantly(Closed(lease_id, row.lease.state)))
        if row.lease.request.duration_ms + command.by_ms > MOST_DURATION_MS:
            # no site could read the order: it would be in the way of all that follow it
            raise InvalidField("by_ms", command.by_ms, "so little that the lease lasts at most 10 years in all")
        earlier = self._extensions[lease_id]
        self._extensions[lease_id] += 1
        requested = ExtendRequested(lease_id, command.by_ms)
        return Handled(requests=[requested], answer=lambda: self._extended(lease_id, earlier))

    def _extended(self, lease_id: int, earlier: int) -> LeaseRow | CannotExtend | Closed:
        """Answer the request that came after so many ``earlier`` ones of this step for the same lease.

        Where its site decides for itself and is asked, the row says so.
        """
        extensions = [one for one in self._unit.extensions if one.lease.id == lease_id]
        row = self._leases.row(lease_id)
        if len(extensions) <= earlier:
            return Closed(lease_id, row.lease.state)
        came_of_it = extensions[earlier]
        if isinstance(came_of_it, Decision) and came_of_it.outcome is Outcome.DENY:
            return CannotExtend(lease_id, came_of_it.reason)
        return row

    def _report_checkpoint(self, lease_id: int, now_ms: int) -> Handled:
        lease = self._leases.row(lease_id).lease
        if lease.site in self._core.gateway.registry.remotes and not lease.state.is_final:
            self._remote_sites.checkpointed(lease, now_ms)  # its site knows whether there is anything to save
            return Handled(answer=lambda: self._leases.row(lease_id))
        events = self._checkpoints.report(lease_id, now_ms)
        return Handled(news=events, answer=lambda: self._leases.row(lease_id))

    # Machines

    def _observed(self, site: str, observations: Sequence[Observation], now_ms: int) -> list[Event]:
        events: list[Event] = []
        for seen in observations:
            if self._outbox.has(seen.lease_id):
                events += confirm(self._outbox, site, seen)
            if self._jobs.is_used:
                self._jobs.saw(site, seen, now_ms)
            if seen.checkpointed_ms:
                events += self._checkpoints.saw(site, seen, now_ms)
            if seen.phase in {Phase.FAILED, Phase.ENDED} and self._outbox.has(seen.lease_id):
                self._outbox.end_notice(seen.lease_id, now_ms)  # there is nobody left to be told
            lease = self._core.gateway.leases.get(seen.lease_id)
            if lease is not None and lease.site == site:
                events += news(lease, seen, self.not_started)
                if seen.phase in {Phase.FAILED, Phase.ENDED} and seen.detail:
                    self._unit.causes[lease.id] = seen.detail
        return events

    def _site_observed(self, command: SiteObserved, now_ms: int) -> list[Event]:
        events = [] if command.is_known else self._observed(command.site, command.observations, now_ms)
        # No number is given out again that machines still know, whatever has become of the store.
        there = (seen.lease_id for seen in command.observations)
        self._leases.last_id = max(self._leases.last_id, *there, 0)
        comparison, leases = self._comparisons[command.site], self._core.gateway.leases
        return events + comparison.compare(leases, command.observations, command.asked_ms, now_ms)

    def _differs(self, site: str, kind: str) -> None:
        self._telemetry.difference(site, Difference(kind))

    def _machines_silent(self, command: MachinesSilent, now_ms: int) -> list[Event]:
        for lease in self._core.gateway.sites[command.site].allocations.held.values():
            if lease.state is LeaseState.STARTING:
                cause = f"the machines of {command.site} do not answer: {command.problem}"
                self._unit.causes[lease.id] = cause
        self._core.silent.add(command.site)
        self._journal.site(command.site, "unreachable", now_ms, problem=command.problem)
        return [SiteFellSilent(command.site)]

    def _native_jobs_seen(self, command: NativeJobsSeen, now_ms: int) -> Handled:
        handled = Handled(
            news=self._native_jobs.news(command), answer=lambda: self._native_jobs.with_room(command.site)
        )
        fresh: dict[str, int] = {}
        for submit in self._native_jobs.arrivals(command):
            request = self._leases.submit(submit, now_ms)
            handled.requests.append(Submitted(request))
            fresh[submit.metadata.native_job] = request.id
        handled.requests += self._native_jobs.followed(command, fresh)
        return handled

    def _orders_sent(self, command: OrdersSent, now_ms: int) -> list[Event]:
        """Note which orders a driver accepted, and which it refused."""
        events: list[Event] = []
        for order in command.orders:
            row = self._outbox.find(int(order.partition(".")[0]), order)
            if row is None or row.status != PENDING:
                continue
            problem = command.problems.get(order)
            if problem is None:
                self._outbox.taken(row, now_ms)
                continue
            is_start = row.order.verb == Verb.START
            if problem.nodes and is_start and self._jobs.attempts.send_back(row, problem):
                self._outbox.close(row, DROPPED)
                continue
            if problem.nodes and is_start and self._is_bound_guest(row.order.lease_id):
                events += self._nodes_are_full(row, problem)
                continue
            self._telemetry.order_failed(command.site, Verb(row.order.verb))
            is_first = row.attempts == 0
            is_sent_again = self._outbox.failed(row, problem, now_ms, answered=command.answered)
            if command.answered and (is_first or not is_sent_again):
                self._unit.after_commit(partial(_log_failure, row))
            if not is_sent_again:
                self._unit.causes[row.order.lease_id] = problem.text
                self._jobs.attempts.refused(row.order.lease_id, problem)
                events.append(self._given_up(row))
        return events

    def _nodes_are_full(self, row: OrderRow, problem: Problem) -> Iterable[Event]:
        """End an attempt of another gateway whose nodes others have taken: it is not tried here again."""
        lease_id = row.order.lease_id
        self._outbox.close(row, DROPPED)
        self._unit.causes[lease_id] = problem.text
        self._jobs.attempts.refused(lease_id, problem)
        lease = self._core.gateway.leases.get(lease_id)
        return () if lease is None or lease.incarnation != row.order.incarnation else [self.not_started(lease)]

    def _is_bound_guest(self, lease_id: int) -> bool:
        """Whether another gateway has sent a lease to nodes that it has chosen."""
        metadata = self._leases.metadata.get(lease_id)
        return metadata is not None and bool(metadata.origin and metadata.constraints.nodes)

    def _given_up(self, row: OrderRow) -> Event:
        """Say what it means that an order is not sent any more."""
        lease = self._core.gateway.leases.get(row.order.lease_id)
        is_start = row.order.verb == Verb.START and lease is not None and lease.state in _UNSEEN
        if lease is not None and is_start and lease.incarnation == row.order.incarnation:
            return self.not_started(lease)
        return LeaseFailed(row.order.lease_id, row.order.incarnation)

    def not_started(self, lease: Lease) -> LeaseNotStarted:
        """Say that the machines of a lease did not start; the attempt of a job is bound to its nodes."""
        elsewhere = self._leases.metadata[lease.id].job_id is None and not self._is_bound_guest(lease.id)
        return LeaseNotStarted(lease.id, lease.incarnation, elsewhere)


class IdempotencyStore:
    """What was taken in under which key: before, as far as a step asks for it, and in this step.

    A request that is repeated under its key gets the same answer, and nothing happens twice. Leases and jobs have
    their keys apart: the same key may be used for one of each.
    """

    def __init__(self, context: EngineContext) -> None:
        self._store = context.store
        self._unit = context.unit
        self._known: dict[_Key, IdempotencyRow] = {}

    def look_up(self, commands: Iterable[Command]) -> None:
        """Read, all at once, what was taken in before under the keys of these commands."""
        keys = [_key(one) for one in commands if isinstance(one, Submission) and one.key]
        self._known = self._store.idempotency_keys(keys) if keys else {}

    def find(self, command: Submission) -> int | None:
        """Give the lease or job that came of the same key before; raises IdempotencyConflict."""
        if not command.key:
            return None
        key = _key(command)
        row = self._unit.find(IDEMPOTENCY_KEYS, key) or self._known.get(key)
        if row is None:
            return None
        if row.request_hash != command.request_hash:
            raise IdempotencyConflict(command.key)
        return row.job_id if row.of_job else row.lease_id

    def keep(self, command: Submission, number: int, now_ms: int) -> None:
        """Remember the lease or job that came of a key."""
        if not command.key:
            return
        consumer, key, of_job = _key(command)
        lease_id, job_id = (None, number) if of_job else (number, None)
        row = IdempotencyRow(consumer, key, of_job, command.request_hash, lease_id, job_id, now_ms)
        self._unit.add(IDEMPOTENCY_KEYS, row)


def _key(command: Submission) -> _Key:
    return command.consumer, command.key, isinstance(command, SubmitJob)


def _constantly(value: object) -> Answer:
    return lambda: value


def _log_failure(row: OrderRow) -> None:
    """Log that an order fails: the first time, and when it is given up, not each time between."""
    is_over = row.status == DROPPED
    structlog.get_logger("leasehold.orders").warning(
        "order given up" if is_over else "order failed, will be sent again",
        site=row.site,
        order=row.order.verb,
        lease=row.order.lease_id,
        problem=row.problem,
    )


_LONGER_MS = 60_000
"""A scheduler takes its time to end what has reached its limit."""

_MAKES_ROOM = frozenset({Verb.SUSPEND, Verb.SEND, Verb.STOP})


class NativeJobs:
    """Compares the native jobs of sites with the leases that stand for them.

    Each native job that waits for room, or runs, is a local lease here; nothing is ever ordered for it. That it has
    started, changed or gone is seen, not decided.
    """

    def __init__(self, context: EngineContext) -> None:
        self._core = context.core
        self._metadata = context.metadata
        self._outbox = context.outbox

    def news(self, seen: NativeJobsSeen) -> list[Event]:
        """Say whose job is gone, or is not what it was: another lease will stand for it."""
        there = {job.name: job for job in seen.jobs}
        events: list[Event] = []
        for name, lease in self._leases(seen.site).items():
            job = there.get(name)
            if job is None:
                events += _ended(lease)
            elif self._is_another(lease, seen.site, job):
                events.append(CancelRequested(lease.id))
            elif job.running and lease.state is LeaseState.STARTING:
                events.append(LeaseStarted(lease.id, lease.incarnation))
        return events

    def arrivals(self, seen: NativeJobsSeen) -> list[Submit]:
        """Say for which jobs no lease stands yet."""
        known = self._leases(seen.site)
        return [
            self._request(seen.site, job)
            for job in seen.jobs
            if job.name not in known or self._is_another(known[job.name], seen.site, job)
        ]

    def followed(self, seen: NativeJobsSeen, fresh: dict[str, int]) -> Iterable[Event]:
        """Tell what its scheduler has decided, where that is not what was planned here."""
        known = {name: lease.id for name, lease in self._leases(seen.site).items()} | fresh
        held = self._core.gateway.sites[seen.site].allocations.held
        nodes = {known[job.name]: job.nodes for job in seen.jobs if job.running and job.nodes}
        elsewhere = any(lease_id in held and nodes_of(held[lease_id].placed) != on for lease_id, on in nodes.items())
        if elsewhere or any(job.running and known[job.name] not in held for job in seen.jobs):
            running = tuple(known[job.name] for job in seen.jobs if job.running)
            waiting = tuple(known[job.name] for job in seen.jobs if not job.running)
            yield NativeQueueSeen(seen.site, running, waiting, nodes)

    def with_room(self, site: str) -> frozenset[str]:
        """Give the native jobs for which there is room now: in the books, and no guest is still leaving."""
        if any(row.site == site and row.order.verb in _MAKES_ROOM for row in self._outbox):
            return frozenset()
        held = self._core.gateway.sites[site].allocations.held
        return frozenset(name for name, lease in self._leases(site).items() if lease.id in held)

    def _leases(self, name: str) -> dict[str, Lease]:
        """The open leases that stand for native jobs of a site."""
        metadata, site = self._metadata, self._core.gateway.sites[name]
        here = [*site.locals.waiting(), *site.allocations.held.values()]
        return {metadata[lease.id].native_job: lease for lease in here if metadata[lease.id].native_job}

    def _is_another(self, lease: Lease, site: str, job: NativeJob) -> bool:
        """Whether a job is not what its lease says: it has changed, or what it has is known now that it runs."""
        there, asked = lease.request, self._request(site, job).request
        return (lease.vms, MachineShape.of(there)) != (asked.vms, MachineShape.of(asked))

    def _shape(self, site: str, job: NativeJob) -> tuple[int, MachineShape]:
        """How much room is asked for it: never more than there is, for that would be refused."""
        settings = self._core.gateway.sites[site].settings
        shape = MachineShape(job.cores, max(1, job.memory_mib), job.gpu_model, job.gpu_milli)
        if not settings.nodes:
            return max(1, min(job.vms, settings.slots)), replace(shape, cores=1, gpu_model="", gpu_milli=0)
        most = room_for(settings.nodes, shape)
        if not most:  # as for a model that the configuration does not have: its cores are all that can be planned
            shape = MachineShape(1, 1)
            return max(1, min(job.vms * job.cores, settings.slots)), shape
        return max(1, min(job.vms, most)), shape

    def _request(self, site: str, job: NativeJob) -> Submit:
        vms, shape = self._shape(site, job)
        request = Request(
            id=0,
            lease_type=LeaseType.NON_PREEMPTABLE,
            vms=vms,
            duration_ms=max(1, job.duration_ms) + _LONGER_MS,
            submit_ms=0,
            ready_ms=0,
            site=site,
            consumer=job.user,
            memory_mib=shape.memory_mib,
            cores=shape.cores,
            gpu_model=shape.gpu_model,
            gpu_milli=shape.gpu_milli,
        )
        return Submit(request, LeaseMetadata(f"job {job.name}", native_job=job.name))


def _ended(lease: Lease) -> list[Event]:
    """Its job is gone: it ran, perhaps between two looks, or was taken back before that."""
    if lease.held_since_ms < 0:
        return [CancelRequested(lease.id)]
    began = [LeaseStarted(lease.id, lease.incarnation)] if lease.state is LeaseState.STARTING else []
    return [*began, LeaseEnded(lease.id, lease.incarnation)]
