"""How jobs look: in a line each, in full with every attempt, and what would become of one."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from shlex import join

from leasehold.cli.live.durations import show_duration
from leasehold.cli.live.job_states import CODES
from leasehold.cli.live.moments import show_distance, show_moment
from leasehold.cli.live.wording import show_times
from leasehold.client import Attempt, Job, JobNeeds

FAULTS = {
    "job-error": "its own code ended with an error",
    "software-gone": "the software that it needs was gone from the node",
    "network-failed": "the node could not be reached any more",
    "service-stopped": "the node's own manager stopped, or lost it",
    "node-died": "the node died",
    "taken-away": "its lease was taken back",
    "time-over": "it ran longer than it may",
}
"""What went wrong with an attempt, in words."""

_OPEN = frozenset({"queued", "ordered", "running", "suspended"})
"""The states of attempts of which something may still come."""

HEADS = ["ID", "NAME", "ST", "CONSUMER", "CORES", "MEM", "NODES", "SITE", "TRIES", "SUBMITTED", "DEADLINE"]
HEADS += ["REASON"]
FIGURES = (0, 4, 5, 6, 8)


def overview(jobs: Iterable[Job]) -> list[list[str]]:
    """Show each job in a line."""
    return [
        [
            str(job.id),
            job.name,
            CODES.get(job.state, job.state),
            job.consumer,
            str(job.needs.cores),
            str(job.needs.memory_mib),
            str(job.needs.nodes),
            _sites(job),
            str(len(job.attempts)),
            show_moment(job.submitted_at),
            "" if job.deadline is None else show_moment(job.deadline),
            job.reason,
        ]
        for job in jobs
    ]


def _sites(job: Job) -> str:
    """Say where it runs or ran: open attempts, or else the last."""
    shown = [one for one in job.attempts if one.state in _OPEN] or job.attempts[-1:]
    return ",".join(dict.fromkeys(one.site for one in shown))


def standing(job: Job) -> str:
    """Say in one sentence how a job stands, and why."""
    again = "" if job.next_try_at is None else f"; next try by {show_moment(job.next_try_at)}"
    stands = "has failed" if job.state == "failed" else f"is {job.state}"
    return f"job {job.id} {stands}{_at(job)}: it {job.explanation} ({job.reason}){again}"


def _at(job: Job) -> str:
    sites = _sites(job)
    is_tried = not job.is_over and any(one.state in _OPEN for one in job.attempts)
    is_there = is_tried or job.state in {"completed", "failed"}
    return f" at {sites}" if sites and is_there else ""


def account(job: Job, at: datetime) -> Iterator[str]:
    """Tell all that is known of a job, line by line."""
    yield standing(job)
    for name, value in (*_facts(job), *_times(job, at)):
        if value:
            yield f"  {name:<11}  {value}"
    for attempt in job.attempts:
        yield f"  {f'attempt {attempt.number}':<11}  {tried(attempt)}"


def _facts(job: Job) -> Iterator[tuple[str, str]]:
    yield "name", job.name
    yield "command", join(job.command)
    yield "consumer", f"{job.consumer}, group {job.group}" if job.group else job.consumer
    yield "needs", needed(job.needs)
    for text in job.needs.software:
        yield "software", text
    for file in job.needs.inputs:
        place = f" at {file.place}" if file.place else ""
        yield "input", f"{file.name}, {show_bytes(file.size_bytes)}{place}"
    yield "type", job.type
    yield "backup", job.backup if job.backup != "none" else ""
    yield "reliability", _sureness(job)
    yield "restarts", f"begun anew {show_times(job.restarts_used)}, at most {show_times(job.restarts)}"
    yield "exit status", "" if job.exit_status is None else str(job.exit_status)


def _times(job: Job, at: datetime) -> Iterator[tuple[str, str]]:
    for name, moment in (
        ("submitted", job.submitted_at),
        ("deadline", job.deadline),
        ("next try", job.next_try_at),
        ("ended", job.ended_at),
    ):
        if moment is not None:
            yield name, f"{show_moment(moment)} ({show_distance(moment, at)})"


def needed(needs: JobNeeds) -> str:
    """Say what each node must have, and for how long."""
    cores = "1 core" if needs.cores == 1 else f"{needs.cores} cores"
    disk = f", {needs.disk_mib} MiB of disk" if needs.disk_mib else ""
    speed = f", {needs.cpu_mhz} MHz" if needs.cpu_mhz else ""
    nodes = f", on {needs.nodes} nodes" if needs.nodes > 1 else ""
    time = show_duration(needs.execution_s)
    return f"{cores}, {needs.memory_mib} MiB of memory{disk}{speed}{nodes}, for {time}"


def _sureness(job: Job) -> str:
    if job.reliability is None:
        return ""
    plan = "" if job.surest is None else f"; by the present plan {job.surest:.6g}"
    return f"{job.reliability:g} is asked{plan}"


def tried(attempt: Attempt) -> str:
    """Say what became of an attempt: where, how it stands, and why."""
    what = "in machines on" if attempt.virtual else "on"
    image = f" from {attempt.image}" if attempt.image else ""
    role = ", a backup" if attempt.backup else ""
    lease = "" if attempt.lease is None else f", lease {attempt.lease}"
    return f"{what} {', '.join(attempt.nodes)}{image}{role}{lease}: {_became(attempt)}"


_STANDS = {"queued": "waits in the queue of its site", "suspended": "suspended"}


def _became(attempt: Attempt) -> str:
    why = FAULTS.get(attempt.fault, attempt.fault)
    detail = f" ({attempt.detail})" if attempt.detail else ""
    when = f" at {show_moment(attempt.ended_at)}" if attempt.ended_at is not None else ""
    match attempt.state:
        case "ordered":
            return "kept ready" if attempt.lease is None else "starts"
        case "running":
            since = "" if attempt.started_at is None else f" since {show_moment(attempt.started_at)}"
            return f"runs{since}"
        case "succeeded":
            return f"ran to its end{when}, with exit status {attempt.exit_status}"
        case "failed":
            return f"failed{when}: {why or 'it came to nothing'}{detail}"
        case "fenced":
            return f"no longer counts{when}: {why}{detail}" if why else f"sent back to the queue{when}{detail}"
    return _STANDS.get(attempt.state, attempt.state)


def show_bytes(count: float) -> str:
    """Write an amount of bytes with the unit that suits it: ``700 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:  # noqa: PLR2004 - the base of these units
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
