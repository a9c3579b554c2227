"""What does the state of a job mean for its lease, and what is to be done about it next?

Both are pure: they are told what is wanted, what Slurm says, and what the job has left behind. Whatever they
answer is right also when it was answered before, so that nobody has to remember what was done.
"""

from collections.abc import Callable

from leasehold.jobs.job import Fault
from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.slurm.commands import Step
from leasehold.service.drivers.slurm.holding import Holding, Wanted
from leasehold.service.drivers.slurm.job import Job, JobState
from leasehold.service.drivers.slurm.job_directory import RunRecord
from leasehold.service.drivers.slurm.options import OnSuspend

_MS = 1000
_COMING_BACK = frozenset({Phase.SAVED, Phase.RESUMING})

BEGINS_ANEW = "Slurm put it back into the queue, and it begins anew"


_FAULTS = {
    "OUT_OF_MEMORY": Fault.JOB_ERROR,
    "PREEMPTED": Fault.TAKEN_AWAY,
    "TIMEOUT": Fault.TIME_OVER,
    "DEADLINE": Fault.TAKEN_AWAY,
    "CANCELLED": Fault.TAKEN_AWAY,
    "REVOKED": Fault.TAKEN_AWAY,
    "BOOT_FAIL": Fault.NODE_DIED,
}
"""What the words of a job that did not end by itself mean; any other is a job that Slurm itself has lost."""

Read = Callable[[], RunRecord]
"""Reads what a job has left behind, where that matters: it may lie on slow disks far away."""


SETTLING_S = 4
"""By Slurm's clock, which knows whole seconds: three at least."""


_SWITCHES = frozenset({Step.SUSPEND, Step.RESUME})


def update(holding: Holding, job: Job | None, traces: Read, now_ms: int) -> None:
    """Bring a holding up to what there is of its job; None: Slurm knows nothing of it (any more)."""
    if holding.is_over or holding.wanted is Wanted.GONE:
        return
    if job is None:
        _without_a_job(holding, traces, now_ms)
        return
    holding.seen_on = job.nodes_of(holding.vms)
    if not job.is_live or job.lost_its_node:
        _over(holding, job, traces, now_ms)
    else:
        _live(holding, job, traces, now_ms)


def _without_a_job(holding: Holding, traces: Read, now_ms: int) -> None:
    if holding.job_id is None:
        return  # it was never told to Slurm, as far as anybody knows
    left = traces()
    if left.exit_status is None:
        detail = f"Slurm does not know job {holding.job_id} any more"
        holding.fail(Fault.SERVICE_STOPPED, now_ms, detail)
    else:
        holding.end(left.exit_status, min(left.ended_ms or now_ms, now_ms))


def _over(holding: Holding, job: Job, traces: Read, now_ms: int) -> None:
    left = traces()
    end_ms = min(left.ended_ms or job.end_s * _MS or now_ms, now_ms)
    if job.ended_by_itself:
        holding.end(job.exit_status or 0, end_ms)
    elif job.lost_its_node and left.exit_status is not None:
        holding.end(left.exit_status, end_ms)  # its node was lost before it could tell Slurm, and not us
    else:
        why = "" if job.reason == "None" else job.reason
        holding.fail(fault_of(job), end_ms, f"Slurm: {' '.join(job.flags)} {why}".rstrip())


def fault_of(job: Job) -> Fault:
    """Say as which fault it counts that a job is over which did not end by itself."""
    if job.lost_its_node:
        return Fault.NODE_DIED
    found = (fault for word, fault in _FAULTS.items() if word in job.flags)
    return next(found, Fault.SERVICE_STOPPED)


def _live(holding: Holding, job: Job, traces: Read, now_ms: int) -> None:
    was_lost = job.restarts > holding.restarts and holding.wanted is Wanted.RUNNING
    holding.restarts = job.restarts
    if was_lost and holding.phase is not Phase.STARTING:
        holding.become(Phase.STARTING, now_ms, BEGINS_ANEW)
    if holding.wanted is Wanted.PAUSED:
        _wanted_paused(holding, job, now_ms)
    else:
        _wanted_running(holding, job, traces, now_ms)


def _wanted_paused(holding: Holding, job: Job, now_ms: int) -> None:
    at_rest = job.state is JobState.SUSPENDED or job.is_held
    detail = BEGINS_ANEW if job.is_held and job.restarts else ""
    holding.become(Phase.SAVED if at_rest else Phase.SAVING, now_ms, detail)


def _wanted_running(holding: Holding, job: Job, traces: Read, now_ms: int) -> None:
    match job.state:
        case JobState.RUNNING if holding.phase is Phase.RUNNING:
            holding.detail = ""
        case JobState.RUNNING:
            holding.become(Phase.RUNNING, _since_ms(holding, job, traces, now_ms))
        case JobState.SUSPENDED if holding.phase in _COMING_BACK:
            holding.become(Phase.RESUMING, now_ms)
        case JobState.SUSPENDED:
            holding.become(Phase.RUNNING, now_ms, "suspended for a while by Slurm")
        case JobState.PENDING if holding.phase in _COMING_BACK:
            holding.become(Phase.RESUMING, now_ms, job.reason)
        case JobState.PENDING:
            detail = BEGINS_ANEW if holding.restarts else f"waits in Slurm's queue: {job.reason}"
            holding.become(Phase.STARTING, now_ms, detail)
        case _:
            return  # its nodes are made ready, or cleaned up: it stays what it was


def _since_ms(holding: Holding, job: Job, traces: Read, now_ms: int) -> int:
    """Since when a job runs: to the millisecond from its own note, to the second from Slurm."""
    if holding.phase in _COMING_BACK:
        return now_ms
    start_ms = job.start_s * _MS
    begun_ms = traces().begun_ms
    if begun_ms is None or begun_ms < start_ms - _MS:  # it is not there yet, or of the run before
        begun_ms = start_ms
    return min(begun_ms, now_ms)


def is_settled(job: Job, now_ms: int) -> bool:
    """Whether a job has had the time to be suspended or resumed on all of its nodes.

    Slurm answers at once, and its nodes take two seconds to stop all processes. Where a job is told to go on
    and to stop again meanwhile, they may get to it in another sequence: it then "runs" with its processes
    stopped for ever, or the other way round.
    """
    return abs(now_ms // _MS - job.switched_s) >= SETTLING_S


def next_step(holding: Holding, job: Job, on_suspend: OnSuspend, now_ms: int) -> Step | None:
    """Say what brings a job nearer to how it is wanted; None where nothing has to, or nothing can now."""
    step = _step_towards(holding, job, on_suspend)
    return None if step in _SWITCHES and not is_settled(job, now_ms) else step


def _step_towards(holding: Holding, job: Job, on_suspend: OnSuspend) -> Step | None:
    if not job.is_live:
        return None
    match holding.wanted:
        case Wanted.GONE:
            return Step.CANCEL
        case Wanted.PAUSED:
            return _towards_rest(job, on_suspend)
        case Wanted.RUNNING:
            return _towards_running(holding, job)


def _towards_rest(job: Job, on_suspend: OnSuspend) -> Step | None:
    if job.state is JobState.PENDING and not job.is_held:
        return Step.HOLD
    if job.state is JobState.RUNNING:
        return Step.REQUEUE if on_suspend is OnSuspend.REQUEUE else Step.SUSPEND
    return None


def _towards_running(holding: Holding, job: Job) -> Step | None:
    """Undo what was done to let a lease rest, and nothing that others have done to its job."""
    if holding.phase is not Phase.RESUMING:
        return None
    if job.state is JobState.SUSPENDED:
        return Step.RESUME
    return Step.RELEASE if job.is_held else None
