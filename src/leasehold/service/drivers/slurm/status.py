"""What the state of a job means for the lease that it is for, and which step is next.

Both are pure: they take what is desired, what Slurm says, and what the job has left behind. Whatever they return is
right also when it was returned before, so that nothing has to remember what was done.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from leasehold.jobs.job import Fault
from leasehold.service.drivers.endings import fault_of_exit
from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.reconciler.instances import Instance
from leasehold.service.drivers.reconciler.provider import Desired
from leasehold.service.drivers.slurm.commands import Step
from leasehold.service.drivers.slurm.job import Job, JobState
from leasehold.service.drivers.slurm.job_directory import RunRecord
from leasehold.service.drivers.slurm.options import OnSuspend

BEGINS_AGAIN = "Slurm put it back into the queue, and it begins anew"
SETTLING_S = 4
"""By Slurm's clock, which knows whole seconds: three at least."""

_MS = 1000
_COMING_BACK = frozenset({Phase.SAVED, Phase.RESUMING})
_FAULTS = {
    "OUT_OF_MEMORY": Fault.JOB_ERROR,
    "PREEMPTED": Fault.TAKEN_AWAY,
    "TIMEOUT": Fault.TIME_OVER,
    "DEADLINE": Fault.TAKEN_AWAY,
    "CANCELLED": Fault.TAKEN_AWAY,
    "REVOKED": Fault.TAKEN_AWAY,
    "BOOT_FAIL": Fault.NODE_DIED,
}
"""What the flags of a job that did not end by itself mean; with any other, Slurm itself has lost it."""


@dataclass(slots=True, kw_only=True)
class JobInstance(Instance):
    """The job of one lease, from the order to start it until nothing is left of it.

    ``job_id``    None until Slurm is known to have it: then it is looked for by its tag
    ``restarts``  how often Slurm had requeued it when it was last observed
    ``on_nodes``  where it has to run, one VM on each, if its order names nodes; ``cores`` of each of its VMs
    ``user``      as whom it runs, with ``uid`` and ``gid``; no other user's job is ever taken for it
    ``secret``    what it carries, and did not exist before it was submitted
    """

    desired: Desired = Desired.UP
    job_id: int | None = None
    restarts: int = 0
    on_nodes: tuple[str, ...] = ()
    cores: int = 0
    user: str
    uid: int
    gid: int
    secret: str

    @property
    def is_leaving(self) -> bool:
        """Whether it is on its way out."""
        return self.desired is Desired.GONE

    @property
    def is_observed(self) -> bool:
        """Whether it is reported: not until Slurm is known to have it."""
        return self.job_id is not None


@dataclass(frozen=True, slots=True)
class Status:
    """What is observed of an instance; its fields have their names there."""

    phase: Phase
    since_ms: int
    detail: str = ""
    exit_status: int | None = None
    fault: str = ""
    nodes: tuple[str, ...] = ()
    restarts: int = 0

    @classmethod
    def of(cls, instance: JobInstance) -> "Status":
        """What was observed last."""
        ending = (instance.exit_status, instance.fault)
        return cls(instance.phase, instance.since_ms, instance.detail, *ending, instance.nodes, instance.restarts)

    def become(self, phase: Phase, since_ms: int, detail: str = "") -> "Status":
        """Move to another phase, never back in time; the same phase again keeps its time."""
        since_ms = self.since_ms if phase is self.phase else max(since_ms, self.since_ms)
        return replace(self, phase=phase, since_ms=since_ms, detail=detail)

    def end(self, exit_status: int, at_ms: int) -> "Status":
        """Its command has ended by itself."""
        ended = self.become(Phase.ENDED, at_ms, f"exit status {exit_status}" if exit_status else "")
        return replace(ended, exit_status=exit_status, fault=fault_of_exit(exit_status))

    def fail(self, fault: Fault, at_ms: int, detail: str) -> "Status":
        """Its job is lost."""
        return replace(self.become(Phase.FAILED, at_ms, detail), fault=fault.value)


def status_of(instance: JobInstance, job: Job | None, read_record: Callable[[], RunRecord], now_ms: int) -> Status:
    """Say what there is of an instance, given its job; None: Slurm knows nothing of it (any more).

    ``read_record`` is called where it matters: the record may lie on slow disks far away.
    """
    status = Status.of(instance)
    if instance.is_over or instance.is_leaving:
        return status
    if job is None:
        # Where it has no number, Slurm may never have had it.
        return status if instance.job_id is None else _forgotten(status, instance.job_id, read_record(), now_ms)
    status = replace(status, nodes=job.nodes_of(instance.vms))
    if not job.is_live or job.lost_its_node:
        return _finished(status, job, read_record(), now_ms)
    was_requeued = job.restarts > status.restarts
    status = replace(status, restarts=job.restarts)
    if instance.desired is Desired.SAVED:
        is_saved = job.state is JobState.SUSPENDED or job.is_held
        detail = BEGINS_AGAIN if job.is_held and job.restarts else ""
        return status.become(Phase.SAVED if is_saved else Phase.SAVING, now_ms, detail)
    if was_requeued and status.phase is not Phase.STARTING:
        status = status.become(Phase.STARTING, now_ms, BEGINS_AGAIN)
    return _desired_up(status, job, read_record, now_ms)


def _forgotten(status: Status, job_id: int, record: RunRecord, now_ms: int) -> Status:
    if record.exit_status is None:
        return status.fail(Fault.SERVICE_STOPPED, now_ms, f"Slurm does not know job {job_id} any more")
    return status.end(record.exit_status, min(record.ended_ms or now_ms, now_ms))


def _finished(status: Status, job: Job, record: RunRecord, now_ms: int) -> Status:
    end_ms = min(record.ended_ms or job.end_s * _MS or now_ms, now_ms)
    if job.ended_by_itself:
        return status.end(job.exit_status or 0, end_ms)
    if job.lost_its_node and record.exit_status is not None:
        return status.end(record.exit_status, end_ms)  # the node was lost before Slurm heard of it
    why = "" if job.reason == "None" else job.reason
    return status.fail(_fault_of(job), end_ms, f"Slurm: {' '.join(job.flags)} {why}".rstrip())


def _fault_of(job: Job) -> Fault:
    if job.lost_its_node:
        return Fault.NODE_DIED
    return next((fault for flag, fault in _FAULTS.items() if flag in job.flags), Fault.SERVICE_STOPPED)


def _desired_up(status: Status, job: Job, read_record: Callable[[], RunRecord], now_ms: int) -> Status:
    is_coming_back = status.phase in _COMING_BACK
    match job.state:
        case JobState.RUNNING if status.phase is Phase.RUNNING:
            return replace(status, detail="")
        case JobState.RUNNING:
            since_ms = now_ms if is_coming_back else _begun_ms(job, read_record(), now_ms)
            return status.become(Phase.RUNNING, since_ms)
        case JobState.SUSPENDED | JobState.PENDING if is_coming_back:
            return status.become(Phase.RESUMING, now_ms, job.reason if job.state is JobState.PENDING else "")
        case JobState.SUSPENDED:
            return status.become(Phase.RUNNING, now_ms, "suspended for a while by Slurm")
        case JobState.PENDING:
            detail = BEGINS_AGAIN if job.restarts else f"waits in Slurm's queue: {job.reason}"
            return status.become(Phase.STARTING, now_ms, detail)
    return status  # its nodes are made ready, or cleaned up: it stays what it was


def _begun_ms(job: Job, record: RunRecord, now_ms: int) -> int:
    """Since when a job runs: to the millisecond from its own record, to the second from Slurm."""
    start_ms, begun_ms = job.start_s * _MS, record.begun_ms
    if begun_ms is None or begun_ms < start_ms - _MS:  # it is not there yet, or of the run before
        begun_ms = start_ms
    return min(begun_ms, now_ms)


# --- steps --------------------------------------------------------------------------------------------------


def is_settled(job: Job, now_ms: int) -> bool:
    """Whether a job has had the time to be suspended or resumed on all of its nodes.

    Slurm answers at once, and its nodes take two seconds to stop all processes. Where a job is to go on and to stop
    again meanwhile, they may get to it in another order: it then "runs" with its processes stopped for ever, or the
    other way round.
    """
    return abs(now_ms // _MS - job.switched_s) >= SETTLING_S


def next_step(instance: JobInstance, job: Job, on_suspend: OnSuspend, now_ms: int) -> Step | None:
    """Choose the step that brings a job nearer to how it is desired; None: none is needed, or possible now."""
    if not job.is_live:
        return None
    if instance.is_leaving:
        return Step.CANCEL
    step = _towards_rest(job, on_suspend) if instance.desired is Desired.SAVED else _towards_running(instance, job)
    return None if step in {Step.SUSPEND, Step.RESUME} and not is_settled(job, now_ms) else step


def _towards_rest(job: Job, on_suspend: OnSuspend) -> Step | None:
    if job.state is JobState.PENDING and not job.is_held:
        return Step.HOLD
    if job.state is JobState.RUNNING:
        return Step.REQUEUE if on_suspend is OnSuspend.REQUEUE else Step.SUSPEND
    return None


def _towards_running(instance: JobInstance, job: Job) -> Step | None:
    """Undo what was done to save an instance, and nothing that others have done to its job."""
    if instance.phase is not Phase.RESUMING:
        return None
    if job.state is JobState.SUSPENDED:
        return Step.RESUME
    return Step.RELEASE if job.is_held else None
