"""Jobs on the wire: what is asked for, how one stands with all of its attempts, and what came of it."""

from collections.abc import Iterable
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, Field
from pydantic.types import Strict

from leasehold.jobs.job import JobState
from leasehold.jobs.why import JobReason
from leasehold.matching.needs import Needs
from leasehold.matching.software import software
from leasehold.model.errors import InvalidField
from leasehold.service.api.fields import (
    MAX_MEMORY_MIB,
    CommandWords,
    DurationMs,
    LeaseTypeName,
    MemoryMib,
    MomentMs,
    Name,
    PageSize,
    Text,
    Vms,
)
from leasehold.service.api.models.base import A_MOMENT, Asked, Shown, examples
from leasehold.service.api.models.explaining import explain_job
from leasehold.service.api.moments import show_duration, show_moment, show_planned
from leasehold.service.engine.needs import needs_of
from leasehold.service.jobs import JobResult
from leasehold.service.store.rows import AttemptRow, JobRow

DEFAULT_MEMORY_MIB = 256
MAX_MHZ = 1_000_000
MAX_RESTARTS = 100
MAX_SOFTWARE = 100
MAX_INPUTS = 1000
MAX_FILE_BYTES = 2**50

_ASKED = {
    "name": "survey", "command": ["python3", "run.py"], "cores": 2, "memory_mib": 2048,
    "software": ["python3-numpy >= 1.24"], "execution_s": 600, "deadline": "2026-11-21T18:00:00Z",
    "reliability": 0.999, "backup": "hot",
}  # fmt: skip
_ASKED_LITTLE = {"command": ["true"], "execution_s": 60}
_NEEDS = {
    "cores": 2, "memory_mib": 2048, "disk_mib": 0, "cpu_mhz": 0, "nodes": 1,
    "software": ["python3-numpy >= 1.24"], "inputs": [], "execution_s": 600,
}  # fmt: skip
_ATTEMPT = {
    "number": 1, "lease": 42, "site": "das3", "nodes": ["das3/node017"], "image": "", "virtual": False,
    "backup": False, "state": "succeeded", "fault": "", "detail": "", "exit_status": 0,
    "ordered_at": A_MOMENT, "started_at": A_MOMENT, "ended_at": "2026-11-21T10:53:01.004Z",
}  # fmt: skip
_SHOWN = {
    "id": 7, "name": "survey", "state": "completed", "reason": "completed", "explanation": "ran to its end",
    "what": "", "consumer": "physics", "group": "", "submitted_at": A_MOMENT, "deadline": None,
    "ended_at": "2026-11-21T10:53:01.004Z", "next_try_at": None,
    "command": ["python3", "run.py"], "type": "suspendable", "backup": "none", "reliability": None,
    "surest": None, "needs": _NEEDS, "restarts": 3, "restarts_used": 0, "exit_status": 0,
    "attempts": [_ATTEMPT],
}  # fmt: skip

Cpus = Annotated[int, Strict(), Field(ge=1, le=1_000_000)]
DiskMib = Annotated[int, Strict(), Field(ge=0, le=MAX_MEMORY_MIB)]
Mhz = Annotated[int, Strict(), Field(ge=0, le=MAX_MHZ)]
Restarts = Annotated[int, Strict(), Field(ge=0, le=MAX_RESTARTS)]
Likely = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False, strict=True)]


def _readable(text: str) -> str:
    try:
        software(text)
    except InvalidField as error:
        where = "" if error.value == text else f" where it says {error.value!r}"
        raise ValueError(f"{error.expected}{where}") from None
    return text


SoftwareText = Annotated[Text, Field(min_length=1), AfterValidator(_readable)]
"""A piece of software with what its version has to be."""


class JobInput(Asked):
    """A file that the job reads."""

    name: Name = Field(description="What it is called.")
    size_bytes: int = Field(strict=True, ge=0, le=MAX_FILE_BYTES, description="How large it is.")
    place: Text = Field("", description="The site where it lies now; empty: with whoever asks.")


class JobSubmission(Asked):
    """What is asked for: a command, what each of its nodes must have, and by when it has to be done."""

    model_config = examples(_ASKED, _ASKED_LITTLE)

    command: CommandWords = Field(min_length=1, description="What to run, word by word.")
    cores: Cpus = Field(1, description="Cores on each node.")
    memory_mib: MemoryMib = Field(DEFAULT_MEMORY_MIB, description="Memory on each node, in MiB.")
    disk_mib: DiskMib = Field(0, description="Disk on each node, in MiB.")
    cpu_mhz: Mhz = Field(0, description="How fast the cores must be at least.")
    nodes: Vms = Field(1, description="On how many different nodes at once, all of one site.")
    software: list[SoftwareText] = Field(
        [],
        max_length=MAX_SOFTWARE,
        description="What must be installed, with constraints: `gcc >= 12, < 14`.",
    )
    inputs: list[JobInput] = Field(
        [], max_length=MAX_INPUTS, description="What it reads: it runs where that is soonest."
    )
    execution_ms: DurationMs = Field(alias="execution_s", description="How long it is thought to run, in seconds.")
    deadline_ms: MomentMs | None = Field(None, alias="deadline", description="By when it has to be done.")
    reliability: Likely | None = Field(
        None, description="How sure it is to be done by its deadline, above 0 and below 1."
    )
    backup: Literal["none", "cold", "hot"] = Field(
        "none",
        description="What is kept ready against a fault: nothing, a second place (`cold`), or a copy that "
        "runs along (`hot`).",
    )
    type: LeaseTypeName = Field("suspendable", description="What kind of guest its attempts are.")
    restarts: Restarts = Field(3, description="How often it may begin anew after faults that are not its own.")
    name: Text = Field("", description="A name to recognise it by; need not be unique.")
    group: Text | None = Field(
        None, description="The group that it is made for, one of the caller's; left out: the caller's first."
    )


class JobQuery(Asked):
    """Which jobs to list."""

    states: list[JobState] = Field([], alias="state", max_length=len(JobState), description="In one of these states.")
    site: Name | None = Field(None, description="That were tried at this site.")
    consumer: Name | None = Field(None, description="Of this consumer.")
    since_ms: MomentMs | None = Field(None, alias="since", description="Submitted at this time or later.")
    open: bool | None = Field(None, description="Whether something may still become of them.")
    limit: PageSize = Field(100, description="How many at most.")
    cursor: Text | None = Field(None, description="Where the page before ended: its `next`.")


class JobInputShown(Shown):
    """A file that the job reads."""

    name: str
    size_bytes: int = Field(description="How large it is.")
    place: str = Field(description="The site where it lies; empty: with whoever asked.")


class JobNeeds(Shown):
    """What each of a job's nodes must have, and what all of it reads."""

    cores: int = Field(description="On each node.")
    memory_mib: int
    disk_mib: int = Field(description="On each node.")
    cpu_mhz: int = Field(description="How fast the cores must be at least; 0: any.")
    nodes: int = Field(description="On how many different nodes at once.")
    software: list[str] = Field(description="What must be installed, with constraints.")
    inputs: list[JobInputShown] = Field(description="What it reads.")
    execution_s: int | float = Field(description="How long it is thought to run.")


class Attempt(Shown):
    """One try to run a job."""

    model_config = examples(_ATTEMPT)

    number: int = Field(description="Counts up within the job.")
    lease: int | None = Field(description="Its lease; null: it is a place that is only kept ready.")
    site: str
    nodes: list[str] = Field(description="Its nodes, or the hosts of its machines, as `site/node`.")
    image: str = Field(description="What its machines boot from; empty: it runs on the nodes as they are.")
    virtual: bool = Field(description="Whether machines are built for it.")
    backup: bool = Field(description="Whether it stands or runs beside another one.")
    state: str = Field(
        description="`queued` (at its site), `ordered`, `running`, `suspended`, `succeeded`, `failed`, or "
        "`fenced`: does not count."
    )
    fault: str = Field(description="What went wrong, one of a closed list; empty: nothing.")
    detail: str = Field(description="What was said of it.")
    exit_status: int | None = Field(description="Of its command; null: it did not end by itself.")
    ordered_at: str = Field(description="When it was decided upon.")
    started_at: str | None = Field(description="When its command began.")
    ended_at: str | None


class Job(Shown):
    """One job: what was asked for, and where it is in its life."""

    model_config = examples(_SHOWN)

    id: int
    name: str
    state: JobState
    reason: str = Field(description="Why it is so: one of a closed list.")
    explanation: str = Field(description="The reason as a sentence, with what is lacking.")
    what: str = Field(description="What is lacking, where something is: a reason of matching, and the thing.")
    consumer: str
    group: str
    submitted_at: str
    deadline: str | None = Field(description="By when it has to be done.")
    ended_at: str | None
    next_try_at: str | None = Field(description="When it is tried next at the latest; sooner if room comes free.")
    command: list[str]
    type: LeaseTypeName
    backup: str = Field(description="What is kept ready against a fault: `none`, `cold` or `hot`.")
    reliability: float | None = Field(description="How sure it is to be done by its deadline.")
    surest: float | None = Field(description="How sure the present plan is.")
    needs: JobNeeds = Field(description="What each of its nodes must have.")
    restarts: int = Field(description="How often it may begin anew after faults.")
    restarts_used: int = Field(description="How often it has.")
    exit_status: int | None = Field(description="Of the attempt whose result is the job's.")
    attempts: list[Attempt] = Field(description="All tries, the oldest first.")


class JobPage(Shown):
    """Some jobs, newest first."""

    jobs: list[Job] = Field(description="The jobs.")
    next: str | None = Field(description="The `cursor` of the next page; null: this was the last.")


class Result(Shown):
    """What came of a job; once it is there it never changes, but that its output is let go of some day."""

    model_config = examples(
        {"job": 7, "attempt": 1, "exit_status": 0, "output": "42\n", "is_whole": True, "is_kept": True}
    )

    job: int = Field(description="The job.")
    attempt: int = Field(description="The number of the attempt whose result is the job's.")
    exit_status: int | None = Field(description="Of its command.")
    output: str = Field(description="What its command wrote.")
    is_whole: bool = Field(description="Whether that is all of it; of very long output only a part is kept.")
    is_kept: bool = Field(
        description="Whether the output is still kept; one that is old, or beyond the quota of its consumer, "
        "is let go of."
    )


def show_job(row: JobRow, attempts: Iterable[AttemptRow]) -> Job:
    """Show a job as it is in the store."""
    return Job(
        id=row.id,
        name=row.name,
        state=JobState(row.state),
        reason=row.reason,
        explanation=explain_job(JobReason(row.reason), row.what),
        what=row.what,
        consumer=row.consumer,
        group=row.group,
        submitted_at=show_moment(row.submitted_ms),
        deadline=show_planned(row.deadline_ms),
        ended_at=show_planned(row.ended_ms),
        next_try_at=show_planned(row.next_ms),
        command=list(row.command),
        type=cast("LeaseTypeName", row.lease_type),
        backup=row.backup,
        reliability=row.reliability,
        surest=row.surest,
        needs=_needs(needs_of(row.needs)),
        restarts=row.restarts,
        restarts_used=row.restarts_used,
        exit_status=row.exit_status,
        attempts=[_attempt(attempt) for attempt in attempts],
    )


def _needs(needs: Needs) -> JobNeeds:
    return JobNeeds(
        cores=needs.amounts.cores,
        memory_mib=needs.amounts.memory_mib,
        disk_mib=needs.amounts.disk_mib,
        cpu_mhz=needs.cpu_mhz,
        nodes=needs.nodes,
        software=[str(one) for one in needs.software],
        inputs=[JobInputShown(name=file.name, size_bytes=file.size_bytes, place=file.place) for file in needs.inputs],
        execution_s=show_duration(needs.execution_ms),
    )


def _attempt(row: AttemptRow) -> Attempt:
    return Attempt(
        number=row.number,
        lease=row.lease_id,
        site=row.site,
        nodes=list(row.nodes),
        image=row.image,
        virtual=bool(row.image),
        backup=bool(row.is_backup),
        state=row.state,
        fault=row.fault,
        detail=row.detail,
        exit_status=row.exit_status,
        ordered_at=show_moment(row.ordered_ms),
        started_at=show_planned(row.started_ms),
        ended_at=show_planned(row.ended_ms),
    )


def show_result(result: JobResult) -> Result:
    """Show what came of a job."""
    return Result(
        job=result.job_id,
        attempt=result.attempt,
        exit_status=result.exit_status,
        output=result.output,
        is_whole=result.is_whole,
        is_kept=result.is_kept,
    )
