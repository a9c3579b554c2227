"""Maps attempts to the leases they run on, and the events of those leases back to the attempts.

The end of a command is passed to the job scheduler only together with its output, in the transaction that stores
it: a completed job has its output in the store.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from leasehold.jobs.events import (
    AttemptEnded,
    AttemptFailed,
    AttemptNotNow,
    AttemptRuns,
    AttemptStands,
    JobEvent,
)
from leasehold.jobs.job import (
    NOT_YET,
    Attempt,
    AttemptState,
    Fault,
    JobRecord,
    JobRequest,
    image_there,
    name_there,
    provider_of,
)
from leasehold.matching.choice import Physical
from leasehold.matching.images import Image
from leasehold.model.effect import Decision, Effect, LeaseClosed
from leasehold.model.event import CancelRequested
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason, sentence
from leasehold.model.request import Request, check_request
from leasehold.service.commands import JobOutput
from leasehold.service.drivers.protocol import Observation, Phase, PlacementConstraints, Problem
from leasehold.service.drivers.staging import JobFiles, StagedFile
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.job_repository import JobRepository, Try
from leasehold.service.engine.tasks import BackgroundTasks, Fetch
from leasehold.service.store.rows import OUTPUTS, CommandEnd, LeaseMetadata, OrderRow, OutputRow

FAULTS = {fault.value: fault for fault in Fault}
ORDER_REFUSED = "its machines could not be started: {}"
NOT_FETCHED = "its output could not be fetched: {}"
_SENT_BACK = frozenset({Reason.NO_SITE_AVAILABLE, Reason.SITE_DRAINED, Reason.SITE_UNREACHABLE})


_STANDS = {
    **dict.fromkeys((LeaseState.SUBMITTED, LeaseState.HELD, LeaseState.WAITING), AttemptState.QUEUED),
    **dict.fromkeys((LeaseState.SUSPENDING, LeaseState.SUSPENDED), AttemptState.SUSPENDED),
}
"""How an attempt stands whose lease is in these states; in others it has machines, or is to have them."""


@dataclass(slots=True)
class AttemptStatus:
    """What machines have reported of an attempt's lease, until that is over.

    ``ended``         how its command ended by itself, if it did
    ``fault``         the fault that it counts as, if the machines know
    ``refused``       why the order to start or resume was refused
    ``full``          whether that was because other jobs had their room
    ``while_it_ran``  what was reported of its command while it ran
    ``restarted``     whether it had run, and its machines were restarted (a node of a Slurm cluster died)
    ``ran_ms``        for how long it ran, where the manager of its site has told that; -1: it is known here
    """

    ended: bool = False
    exit_status: int | None = None
    detail: str = ""
    fault: str = ""
    refused: str = ""
    full: bool = False
    while_it_ran: str = ""
    restarted: bool = False
    ran_ms: int = -1

    def see(self, seen: Observation, *, has_begun: bool) -> None:
        """Take in an observation of the present start; ``has_begun`` says whether its command has run before."""
        if seen.phase is Phase.STARTING and has_begun:
            self.restarted = True
        if seen.phase is Phase.RUNNING and seen.detail:
            self.while_it_ran = seen.detail
        if seen.phase in {Phase.ENDED, Phase.FAILED}:
            self.take(seen, ended=seen.phase is Phase.ENDED)

    def take(self, seen: Observation, *, ended: bool) -> None:
        """Take in the last thing that was seen of it."""
        self.ended, self.exit_status, self.detail, self.fault = (
            ended,
            seen.exit_status,
            seen.detail,
            seen.fault,
        )


@dataclass(frozen=True, slots=True)
class Speeds:
    """Of a site, and the one that durations refer to, in MIPS."""

    site: int = 1
    reference: int = 1


def request_of(
    record: JobRecord,
    attempt: Attempt,
    lease_id: int,
    wall_ms: int,
    speeds: Speeds,
    now_ms: int,
    *,
    by_nodes: bool = False,
) -> Request:
    """Make the request for the lease of an attempt, bound to its site. Raises InvalidField if no lease can be so.

    It takes ``wall_ms`` by the clock: its duration is given at the reference speed, since leases are shorter on
    faster sites and jobs are not. ``by_nodes`` says that the site is planned by nodes: it is told which ones matching
    has chosen, and all that is needed there.
    """
    bare = request_at(record.request, attempt.site, lease_id, wall_ms, speeds, now_ms)
    needs = record.request.job.needs
    memory_mib = max(1, needs.amounts.memory_mib + _of_its_system_mib(attempt))
    request = replace(bare, vms=len(attempt.nodes), memory_mib=memory_mib)
    if by_nodes:
        request = replace(
            request,
            cores=max(1, needs.amounts.cores),
            gpu_model=needs.gpu_model,
            gpu_milli=needs.gpu_milli,
            on_nodes=_names_at_site(attempt),
        )
    return check_request(request)


def _names_at_site(attempt: Attempt) -> tuple[str, ...]:
    """Name the nodes as their site does."""
    return tuple(map(name_there, attempt.nodes))


def request_at(request: JobRequest, site: str, lease_id: int, wall_ms: int, speeds: Speeds, now_ms: int) -> Request:
    """Make the request that a job makes where it runs on nodes as they are, at this site; "" for any."""
    return Request(
        id=lease_id,
        lease_type=request.lease_type,
        vms=request.job.needs.nodes,
        duration_ms=-(-wall_ms * speeds.site // speeds.reference),
        submit_ms=now_ms,
        ready_ms=now_ms,
        consumer=request.consumer,
        memory_mib=max(1, request.job.needs.amounts.memory_mib),
        group=request.group,
        domain=provider_of(site),
        is_foreign=request.is_foreign,
        max_restarts=0,
    )


def metadata_of(record: JobRecord, attempt: Attempt) -> LeaseMetadata:
    """Return the metadata of an attempt's lease: its machines and its command."""
    request = record.request
    needs = request.job.needs
    carried = (file for file in needs.inputs if file.sha256)
    inputs = tuple(StagedFile(file.name, file.sha256, file.size_bytes) for file in carried)
    files = JobFiles(inputs, needs.outputs)
    image = image_there(attempt.image, attempt.site)
    constraints = PlacementConstraints(_names_at_site(attempt), image, needs.amounts.cores, least=needs.need)
    return LeaseMetadata(request.name, request.words, job_id=record.id, constraints=constraints, files=files)


def _of_its_system_mib(attempt: Attempt) -> int:
    place = attempt.place
    if isinstance(place, Physical) or not isinstance(place.image, Image):
        return 0
    return place.image.needs.memory_mib


def came_to_nothing(
    record: JobRecord, attempt: Attempt, lease: Lease, reason: Reason, status: AttemptStatus, now_ms: int
) -> JobEvent:
    """Return the event for an attempt whose lease is over although its command has not ended by itself.

    Rule: an attempt that never began counts as *not now*, and so does one whose room is taken when it should
    resume. Lost machines count as the fault that they report, else as a stopped service if they could not be
    started, and as dead if they were lost. Any other lease was taken away, unless its command has used up its time.
    """
    job_id, number = record.id, attempt.number
    if reason in {Reason.MACHINES_LOST, Reason.PEER_REMOVED, Reason.NEVER_STARTED}:
        if status.full:
            return AttemptNotNow(job_id, number, status.refused, full=attempt.nodes)
        if status.refused:
            detail = ORDER_REFUSED.format(status.refused)
            return AttemptFailed(job_id, number, FAULTS.get(status.fault, Fault.SERVICE_STOPPED), detail)
        fault = FAULTS.get(status.fault, Fault.NODE_DIED)
        return AttemptFailed(job_id, number, fault, status.detail)
    detail = f"its lease {lease.id} {sentence(reason)}"
    if attempt.started_ms < 0 and lease.first_start_ms < 0:
        return AttemptNotNow(job_id, number, detail)
    if reason is Reason.WALLTIME_REACHED and _had_its_time(record, attempt, status, now_ms):
        detail = "; ".join(filter(None, (detail, status.while_it_ran)))
        return AttemptFailed(job_id, number, Fault.TIME_OVER, detail)
    return AttemptFailed(job_id, number, Fault.TAKEN_AWAY, detail)


def _had_its_time(record: JobRecord, attempt: Attempt, status: AttemptStatus, now_ms: int) -> bool:
    """Whether a command ran for its full time: its machines did not start late, or restart."""
    ran_ms = now_ms - attempt.started_ms if status.ran_ms < 0 else status.ran_ms
    return not status.restarted and ran_ms >= record.request.job.needs.execution_ms


def lost_its_software(record: JobRecord, status: AttemptStatus) -> bool:
    """Whether a command ended because something it needs is missing, and not through its own fault."""
    return bool(record.request.job.needs.software) and status.fault == Fault.SOFTWARE_GONE


def fetch_of(lease_id: int, tried: Try) -> Fetch:
    """Say what is to be fetched of an attempt, be its site one's own or not."""
    request = tried.record.request
    outputs = request.job.needs.outputs
    return Fetch(lease_id, provider_of(tried.attempt.site), request.consumer if outputs else "", outputs)


class AttemptTracker:
    """Follows the leases of attempts; ``inbox`` is for the job scheduler, ``withdrawn`` for the gateway."""

    def __init__(self, context: EngineContext, jobs: JobRepository, tasks: BackgroundTasks, output_kib: int) -> None:
        """Request again the outputs that were still to be fetched."""
        self.inbox: list[JobEvent] = []
        self.withdrawn: list[CancelRequested] = []
        self._unit = context.unit
        self._core = context.core
        self._metadata = context.metadata
        self._jobs = jobs
        self._tasks = tasks
        self._most_bytes = output_kib << 10
        self._statuses: dict[int, AttemptStatus] = {}
        tasks.fetches += [fetch_of(lease_id, tried) for lease_id, tried in jobs.to_fetch()]

    # Machines

    def saw(self, seen: Observation) -> None:
        """Take in an observation of a lease; one of a lease that is over no longer counts."""
        tried, lease = self._jobs.find(seen.lease_id), self._core.gateway.leases.get(seen.lease_id)
        if tried is None:
            self._follow_guest(lease, seen)
            return
        if lease is not None and lease.incarnation == seen.incarnation:
            self._follow(tried, seen)
        elif lease is None and seen.phase is Phase.ENDED and not tried.attempt.state.is_open:
            self.inbox.append(AttemptEnded(*tried.key, seen.exit_status or 0, seen.detail))

    def _follow(self, tried: Try, seen: Observation) -> None:
        if seen.phase in {Phase.RUNNING, Phase.ENDED} and tried.attempt.started_ms < 0:
            self.inbox.append(AttemptRuns(*tried.key))
        self._status(seen.lease_id).see(seen, has_begun=tried.attempt.started_ms >= 0)

    def _follow_guest(self, lease: Lease | None, seen: Observation) -> None:
        """Follow the command of a lease for the gateway that has sent it here: it may be an attempt there."""
        if lease is not None and lease.incarnation == seen.incarnation and self._metadata[lease.id].origin:
            self._status(lease.id).see(seen, has_begun=lease.first_start_ms >= 0)

    def send_back(self, row: OrderRow, problem: Problem) -> bool:
        """Requeue an attempt whose nodes others have taken; False if the lease is not an attempt of a job here."""
        tried = self._jobs.find(row.order.lease_id)
        if tried is None or not tried.attempt.state.is_open or tried.attempt.started_ms >= 0:
            return False
        nodes = tuple(f"{row.site}/{name}" for name in problem.nodes)
        self.inbox.append(AttemptNotNow(*tried.key, problem.text, full=nodes))
        self.withdrawn.append(CancelRequested(row.order.lease_id))
        return True

    def refused(self, lease_id: int, problem: Problem) -> None:
        """Note that the start order of a lease has failed permanently."""
        metadata = self._metadata.get(lease_id)
        if self._jobs.find(lease_id) is not None or (metadata is not None and metadata.origin):
            status = self._status(lease_id)
            status.refused, status.full = problem.text, problem.full or bool(problem.nodes)
            status.fault = problem.fault

    # Sites with managers of their own

    def command_of(self, lease: Lease, now_ms: int) -> AttemptStatus:
        """Say what is known of the command of a lease that another gateway has sent here."""
        status = self._statuses.get(lease.id, AttemptStatus())
        if status.ran_ms >= 0 or lease.first_start_ms < 0:
            return status
        return replace(status, ran_ms=max(0, now_ms - lease.first_start_ms))

    def forget(self, lease_id: int) -> None:
        """Forget the command of such a lease: it is over, and that was reported."""
        self._statuses.pop(lease_id, None)

    def told(self, lease_id: int, site: str, status: AttemptStatus) -> None:
        """Take in what a site or peer tells of the command of an attempt there, be the job here or further back."""
        lease = self._core.gateway.leases.get(lease_id)
        if lease is None or lease.site != site:
            return
        if self._jobs.find(lease_id) is not None or self._metadata[lease_id].origin:
            self._statuses[lease_id] = status

    def _status(self, lease_id: int) -> AttemptStatus:
        return self._statuses.setdefault(lease_id, AttemptStatus())

    # The gateway

    def follow(self, effects: Iterable[Effect], moved: Iterable[Lease], now_ms: int) -> None:
        """Apply the gateway's decisions to attempts."""
        for lease in moved:
            self._stands(lease)
        for effect in effects:
            if isinstance(effect, LeaseClosed):
                self._closed(effect, now_ms)
            elif isinstance(effect, Decision) and effect.outcome is Outcome.HOLD:
                self._held(effect)

    def _stands(self, lease: Lease) -> None:
        """Note the state of an attempt's lease, where its machines do not report more."""
        tried = self._jobs.find(lease.id)
        state = _STANDS.get(lease.state, AttemptState.ORDERED)
        if tried is None or lease.state.is_final or not tried.attempt.state.is_open:
            return
        is_told = self._is_told(lease)
        if is_told and lease.state is LeaseState.HELD and self._metadata[lease.id].reason in _SENT_BACK:
            self._closed_to(tried, lease)
            return
        if is_told and tried.attempt.started_ms < 0 and lease.first_start_ms >= 0:
            self.inbox.append(AttemptRuns(*tried.key))
        if lease.state is LeaseState.RUNNING:
            state = AttemptState.RUNNING  # its machines were seen
        elif state is AttemptState.QUEUED and tried.attempt.started_ms >= 0:
            state = AttemptState.SUSPENDED
        is_waiting = state in {AttemptState.QUEUED, AttemptState.SUSPENDED}
        why = self._metadata[lease.id].reason if is_waiting else ""
        begins_ms = lease.reserved_ms if state is AttemptState.QUEUED else NOT_YET
        self.inbox.append(AttemptStands(*tried.key, state, why, begins_ms))

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        lease = effect.lease
        tried = self._jobs.find(lease.id)
        if tried is None:
            return  # no attempt of a job here; it may be one of its gateway's, which is still to be told
        status = self._statuses.pop(lease.id, AttemptStatus())
        if not tried.attempt.state.is_open:  # it was fenced, and its lease cancelled: too late perhaps
            if status.ended and self._is_told(lease):
                self.inbox.append(AttemptEnded(*tried.key, status.exit_status or 0, status.detail))
            return
        if tried.attempt.started_ms < 0 and lease.first_start_ms >= 0 and self._is_told(lease):
            self.inbox.append(AttemptRuns(*tried.key))
        if effect.reason is not Reason.COMPLETED or not status.ended:
            self.inbox.append(came_to_nothing(*tried, lease, effect.reason, status, now_ms))
        elif lost_its_software(tried.record, status):
            self.inbox.append(AttemptFailed(*tried.key, Fault.SOFTWARE_GONE, status.detail))
        else:
            self._jobs.set_end(tried, CommandEnd(status.exit_status or 0, status.detail))
            self._tasks.fetches.append(fetch_of(lease.id, tried))

    def _held(self, effect: Decision) -> None:
        """Report *not now* for an attempt at a closed site: it was placed by node, and waits for no other site."""
        tried = self._jobs.find(effect.lease.id)
        if tried is not None and effect.reason in _SENT_BACK and tried.attempt.state.is_open:
            self._closed_to(tried, effect.lease)

    def _closed_to(self, tried: Try, lease: Lease) -> None:
        self.inbox.append(AttemptNotNow(*tried.key, f"{tried.attempt.site} takes no leases now"))
        self.withdrawn.append(CancelRequested(lease.id))

    def _is_told(self, lease: Lease) -> bool:
        """Whether a lease is, or was last, where only reports tell what becomes of it."""
        return lease.site not in self._core.gateway.sites

    # What was fetched

    def take(self, command: JobOutput, now_ms: int) -> None:
        """Take in the output of a command, and report its end. A repeated output matches no attempt."""
        tried = self._jobs.find(command.lease_id)
        end = None if tried is None else self._jobs.end_of(tried)
        if tried is None or end is None:
            return
        self._jobs.set_end(tried, None)
        detail = [end.detail] if end.detail else []
        if command.problem:
            detail.append(NOT_FETCHED.format(command.problem))
        self.inbox.append(AttemptEnded(*tried.key, end.exit_status, "; ".join(detail)))
        if tried.attempt.state.is_open:
            self._keep(tried, command, now_ms)

    def _keep(self, tried: Try, command: JobOutput, now_ms: int) -> None:
        text, is_cut = shortened(command.output.text, self._most_bytes)
        error, is_error_cut = shortened(command.output.error, self._most_bytes)
        job_id, number = tried.key
        self._unit.add(
            OUTPUTS,
            OutputRow(
                job_id=job_id,
                number=number,
                text=text,
                error=error,
                files=command.files,
                is_whole=command.output.is_whole and not (is_cut or is_error_cut or command.problem),
                fetched_ms=now_ms,
                consumer=tried.record.request.consumer,
                size_bytes=len(text.encode()) + len(error.encode()),
            ),
        )


def shortened(text: str, most_bytes: int) -> tuple[str, bool]:
    """Return the end of a text in a form that a database can store, and whether anything was cut off."""
    stored = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    return stored[-most_bytes:].decode("utf-8", "ignore"), len(stored) > most_bytes
