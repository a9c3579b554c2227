"""The job of one lease: how it is known among others, what its state means, and which step is next.

The latter two are pure: they take what is desired, what Slurm says, and what the job has left behind. Whatever they
return is right also when it was returned before, so that nothing has to remember what was done.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from leasehold.jobs.job import Fault
from leasehold.service.drivers.protocol import Phase, fault_of_exit
from leasehold.service.drivers.reconciler.desired import Desired, DesiredInstance
from leasehold.service.drivers.slurm.cluster import Job, JobState
from leasehold.service.drivers.slurm.commands import Step
from leasehold.service.drivers.slurm.options import OnSuspend

_MS = 1000
_IDS = r"(?P<lease>\d{1,18})\.(?P<generation>\d{1,18})"
_COMMENT = re.compile(rf"leasehold (?P<owner>\w+) lease {_IDS} (?P<secret>\w+)\b")
_NAME = re.compile(rf"leasehold-{_IDS}-(?P<owner>\w+)-(?P<secret>\w+)")


@dataclass(frozen=True, slots=True)
class Tag:
    """What a job carries: of which store and lease it is, with which incarnation it was started, and a secret.

    It is in the comment of the job, and in its name where the comment was changed. Every user of the cluster can read
    both, and can write the same. So they count for jobs of the users as whom we submit alone, and carry a secret that
    did not exist before the job was submitted.
    """

    owner: str
    lease_id: int
    generation: int
    secret: str

    @property
    def comment(self) -> str:
        """The comment of the job."""
        return f"leasehold {self.owner} lease {self.lease_id}.{self.generation} {self.secret}"

    @property
    def name(self) -> str:
        """The name of the job. No two leases have the same, so that ``singleton`` holds a double back."""
        return f"leasehold-{self.lease_id}.{self.generation}-{self.owner}-{self.secret}"


def tag_of(job: Job) -> Tag | None:
    """Read the tag of a job; None where it has none."""
    found = _COMMENT.match(job.comment) or _NAME.fullmatch(job.name)
    if found is None:
        return None
    return Tag(found["owner"], int(found["lease"]), int(found["generation"]), found["secret"])


@dataclass(slots=True, kw_only=True)
class JobInstance(DesiredInstance):
    """The job of one lease, from the order to start it until nothing is left of it.

    ``job_id``    None until Slurm is known to have it: then it is looked for by its tag
    ``restarts``  how often Slurm had requeued it when it was last observed
    ``on_nodes``  where it has to run, if its order names nodes, ``per_node`` VMs on each; 0: some on each, as they fit
    ``least``     with how many of these nodes left its command goes on when others fail; 0: with all of them
    ``cores``     of each of its VMs, and in ``gpus`` the GPUs, as ``a100:2``
    ``user``      as whom it runs, with ``uid`` and ``gid``; no other user's job is ever taken for it
    ``owner``     of its tag, with ``secret``
    ``notify``    how its guest is told before it is preempted
    """

    job_id: int | None = None
    restarts: int = 0
    on_nodes: tuple[str, ...] = ()
    per_node: int = 1
    least: int = 0
    gpus: str = ""
    cores: int = 1
    user: str
    uid: int
    gid: int
    owner: str
    secret: str
    notify: str = ""

    @property
    def is_observed(self) -> bool:
        """Whether it is reported: not until Slurm is known to have it."""
        return self.job_id is not None

    @property
    def outlives_nodes(self) -> bool:
        """Whether its job goes on when a node fails (``--no-kill``): it has one VM on each, and needs not all."""
        return self.per_node == 1 and 0 < self.least < len(self.on_nodes)

    @property
    def tag(self) -> Tag:
        """What its job carries."""
        return Tag(self.owner, self.lease_id, self.generation, self.secret)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a job's script has written down: when its command began and ended (Unix ms), and its exit status."""

    begun_ms: int | None = None
    ended_ms: int | None = None
    exit_status: int | None = None


# --- what the state of a job means --------------------------------------------------------------------------

BEGINS_AGAIN = "Slurm put it back into the queue, and it begins again"

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

ReadRecord = Callable[[], RunRecord]
"""Called where the record matters: it may lie on slow disks far away."""


def observed(instance: JobInstance, job: Job | None, read_record: ReadRecord, now_ms: int) -> JobInstance:
    """Return an instance as it is now, given its job; None: Slurm knows nothing of it (any more)."""
    if instance.is_over or instance.is_leaving:
        return instance
    if job is None:
        # Where it has no number, Slurm may never have had it.
        return instance if instance.job_id is None else _forgotten(instance, read_record(), now_ms)
    now = replace(instance, nodes=_nodes_of(instance, job))
    if not job.is_live or job.lost_its_node:
        return _finished(now, job, read_record(), now_ms)
    now.restarts = job.restarts
    if now.desired is Desired.SAVED:
        is_saved = job.state is JobState.SUSPENDED or job.is_held
        detail = BEGINS_AGAIN if job.is_held and job.restarts else ""
        return _become(now, Phase.SAVED if is_saved else Phase.SAVING, now_ms, detail)
    if job.restarts > instance.restarts and now.phase is not Phase.STARTING:
        now = _become(now, Phase.STARTING, now_ms, BEGINS_AGAIN)
    return _desired_up(now, job, read_record, now_ms)


def _nodes_of(instance: JobInstance, job: Job) -> tuple[str, ...]:
    """Say on which node each of its VMs is; where nodes have failed that its job outlives, only those that are left."""
    if instance.outlives_nodes:
        return tuple(node for node in instance.on_nodes if node in job.cpus_by_node)
    return job.nodes_of(instance.vms)


def _become(instance: JobInstance, phase: Phase, since_ms: int, detail: str = "") -> JobInstance:
    """Move to another phase, never back in time; the same phase again keeps its time."""
    since_ms = instance.since_ms if phase is instance.phase else max(since_ms, instance.since_ms)
    return replace(instance, phase=phase, since_ms=since_ms, detail=detail)


def _end(instance: JobInstance, exit_status: int, at_ms: int) -> JobInstance:
    """Its command has ended by itself."""
    ended = _become(instance, Phase.ENDED, at_ms, f"exit status {exit_status}" if exit_status else "")
    return replace(ended, exit_status=exit_status, fault=fault_of_exit(exit_status))


def _fail(instance: JobInstance, fault: Fault, at_ms: int, detail: str) -> JobInstance:
    """Its job is lost."""
    return replace(_become(instance, Phase.FAILED, at_ms, detail), fault=fault.value)


def _forgotten(instance: JobInstance, record: RunRecord, now_ms: int) -> JobInstance:
    if record.exit_status is None:
        return _fail(instance, Fault.SERVICE_STOPPED, now_ms, f"Slurm does not know job {instance.job_id} any more")
    return _end(instance, record.exit_status, min(record.ended_ms or now_ms, now_ms))


def _finished(instance: JobInstance, job: Job, record: RunRecord, now_ms: int) -> JobInstance:
    end_ms = min(record.ended_ms or job.end_s * _MS or now_ms, now_ms)
    if job.ended_by_itself:
        return _end(instance, job.exit_status or 0, end_ms)
    if job.lost_its_node and record.exit_status is not None:
        return _end(instance, record.exit_status, end_ms)  # the node was lost before Slurm heard of it
    fault = next((fault for flag, fault in _FAULTS.items() if flag in job.flags), Fault.SERVICE_STOPPED)
    why = "" if job.reason == "None" else job.reason
    detail = f"Slurm: {' '.join(job.flags)} {why}".rstrip()
    return _fail(instance, Fault.NODE_DIED if job.lost_its_node else fault, end_ms, detail)


def _desired_up(instance: JobInstance, job: Job, read_record: ReadRecord, now_ms: int) -> JobInstance:
    is_coming_back = instance.phase in _COMING_BACK
    match job.state:
        case JobState.RUNNING if instance.phase is Phase.RUNNING:
            return replace(instance, detail="")
        case JobState.RUNNING:
            since_ms = now_ms if is_coming_back else _begun_ms(job, read_record(), now_ms)
            return _become(instance, Phase.RUNNING, since_ms)
        case JobState.SUSPENDED | JobState.PENDING if is_coming_back:
            detail = job.reason if job.state is JobState.PENDING else instance.detail  # why it was not resumed
            return _become(instance, Phase.RESUMING, now_ms, detail)
        case JobState.SUSPENDED:
            return _become(instance, Phase.RUNNING, now_ms, "suspended for a while by Slurm")
        case JobState.PENDING:
            detail = BEGINS_AGAIN if job.restarts else f"waits in Slurm's queue: {job.reason}"
            return _become(instance, Phase.STARTING, now_ms, detail)
    return instance  # its nodes are made ready, or cleaned up: it stays what it was


def _begun_ms(job: Job, record: RunRecord, now_ms: int) -> int:
    """Since when a job runs: to the millisecond from its own record, to the second from Slurm."""
    start_ms, begun_ms = job.start_s * _MS, record.begun_ms
    if begun_ms is None or begun_ms < start_ms - _MS:  # it is not there yet, or of the run before
        begun_ms = start_ms
    return min(begun_ms, now_ms)


# --- which step is next -------------------------------------------------------------------------------------

SETTLING_S = 4
"""By Slurm's clock, which knows whole seconds: three at least."""


def is_settled(job: Job, now_ms: int) -> bool:
    """Whether a job has had the time to be suspended or resumed on all of its nodes.

    Slurm answers at once, and its nodes take two seconds to stop all processes. If a job is resumed and
    suspended again meanwhile, they may process that in another order: it then "runs" with its processes stopped
    forever, or the other way round.
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
