"""Jobs: what is asked for, how one stands with all of its attempts, what came of it, or what would."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic.types import Strict

from leasehold.jobs.job import JobState
from leasehold.matching.software import software
from leasehold.model.errors import InvalidField
from leasehold.protocol.base import A_MOMENT, NextPage, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import (
    MAX_MEMORY_MIB,
    AnyNumberOf,
    CommandWords,
    Cursor,
    Duration,
    LeaseTypeName,
    MemoryMib,
    Moment,
    Name,
    OrEmpty,
    OrFalse,
    OrNone,
    OrZero,
    PageSize,
    Seconds,
    Text,
    Vms,
)

DEFAULT_MEMORY_MIB = 256
MAX_MHZ = 1_000_000
MAX_RESTARTS = 100
MAX_SOFTWARE = 100
MAX_INPUTS = 1000
MAX_FILE_BYTES = 2**50

_SPEC = {
    "name": "survey", "command": ["python3", "run.py"], "cores": 2, "memory_mib": 2048,
    "software": ["python3-numpy >= 1.24"], "execution_s": 600, "deadline": "2026-11-21T18:00:00Z",
    "reliability": 0.999, "backup": "hot",
}  # fmt: skip
_SMALL_SPEC = {"command": ["true"], "execution_s": 60}
_NEEDS = {
    "cores": 2, "memory_mib": 2048, "disk_mib": 0, "cpu_mhz": 0, "nodes": 1,
    "software": ["python3-numpy >= 1.24"], "inputs": [], "execution_s": 600,
}  # fmt: skip
_ATTEMPT = {
    "number": 1, "lease": 42, "site": "das3", "nodes": ["das3/node017"], "image": "", "virtual": False,
    "backup": False, "state": "succeeded", "fault": "", "detail": "", "exit_status": 0,
    "ordered_at": A_MOMENT, "started_at": A_MOMENT, "ended_at": "2026-11-21T10:53:01.004Z",
}  # fmt: skip
_JOB = {
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


class JobInput(RequestModel):
    """A file that the job reads."""

    name: Name = Field(description="What it is called.")
    size_bytes: int = Field(strict=True, ge=0, le=MAX_FILE_BYTES, description="How large it is.")
    place: Text = Field(default="", description="The site where it lies now; empty: with whoever asks.")


class JobSpec(RequestModel):
    """What is asked for: a command, what each of its nodes must have, and by when it has to be done."""

    model_config = examples(_SPEC, _SMALL_SPEC)

    command: CommandWords = Field(min_length=1, description="What to run, word by word.")
    cores: Cpus = Field(default=1, description="Cores on each node.")
    memory_mib: MemoryMib = Field(default=DEFAULT_MEMORY_MIB, description="Memory on each node, in MiB.")
    disk_mib: DiskMib = Field(default=0, description="Disk on each node, in MiB.")
    cpu_mhz: Mhz = Field(default=0, description="How fast the cores must be at least.")
    nodes: Vms = Field(default=1, description="On how many different nodes at once, all of one site.")
    software: list[SoftwareText] = Field(
        default=[],
        max_length=MAX_SOFTWARE,
        description="What must be installed, with constraints: `gcc >= 12, < 14`.",
    )
    inputs: list[JobInput] = Field(
        default=[], max_length=MAX_INPUTS, description="What it reads: it runs where that is soonest."
    )
    execution_s: Duration = Field(description="How long it is thought to run, in seconds.")
    deadline: Moment | None = Field(default=None, description="By when it has to be done.")
    reliability: Likely | None = Field(
        default=None, description="How sure it is to be done by its deadline, above 0 and below 1."
    )
    backup: Literal["none", "cold", "hot"] = Field(
        default="none",
        description="What is kept ready against a fault: nothing, a second place (`cold`), or a copy that "
        "runs along (`hot`).",
    )
    type: LeaseTypeName = Field(default="suspendable", description="What kind of guest its attempts are.")
    restarts: Restarts = Field(default=3, description="How often it may begin anew after faults that are not its own.")
    name: Text = Field(default="", description="A name to recognise it by; need not be unique.")
    group: Text | None = Field(
        default=None, description="The group that it is made for, one of the caller's; left out: the caller's first."
    )


class JobFilter(RequestModel):
    """Which jobs to list."""

    state: list[JobState] = Field(default=[], max_length=len(JobState), description="In one of these states.")
    site: Name | None = Field(default=None, description="That were tried at this site.")
    consumer: Name | None = Field(default=None, description="Of this consumer.")
    since: Moment | None = Field(default=None, description="Submitted at this time or later.")
    open: bool | None = Field(default=None, description="Whether something may still become of them.")
    limit: PageSize = 100
    cursor: Cursor = None


class JobNeeds(ResponseModel):
    """What each of a job's nodes must have, and what all of it reads."""

    cores: int = Field(description="On each node.")
    memory_mib: int
    disk_mib: OrZero = Field(description="On each node.")
    cpu_mhz: OrZero = Field(description="How fast the cores must be at least; 0: any.")
    nodes: int = Field(description="On how many different nodes at once.")
    software: AnyNumberOf[str] = Field(description="What must be installed, with constraints.")
    inputs: AnyNumberOf[JobInput] = Field(description="What it reads.")
    execution_s: Seconds = Field(description="How long it is thought to run.")


class Attempt(ResponseModel):
    """One try to run a job."""

    model_config = examples(_ATTEMPT)

    number: int = Field(description="Counts up within the job.")
    lease: OrNone[int] = Field(description="Its lease; null: it is a place that is only kept ready.")
    site: str
    nodes: tuple[str, ...] = Field(description="Its nodes, or the hosts of its machines, as `site/node`.")
    image: OrEmpty = Field(description="What its machines boot from; empty: it runs on the nodes as they are.")
    virtual: OrFalse = Field(description="Whether machines are built for it.")
    backup: OrFalse = Field(description="Whether it stands or runs beside another one.")
    state: str = Field(
        description="`queued` (at its site), `ordered`, `running`, `suspended`, `succeeded`, `failed`, or "
        "`fenced`: does not count."
    )
    fault: OrEmpty = Field(description="What went wrong, one of a closed list; empty: nothing.")
    detail: OrEmpty = Field(description="What was said of it.")
    exit_status: OrNone[int] = Field(description="Of its command; null: it did not end by itself.")
    ordered_at: Moment = Field(description="When it was decided upon.")
    started_at: OrNone[Moment] = Field(description="When its command began.")
    ended_at: OrNone[Moment]


class Job(ResponseModel):
    """One job: what was asked for, and where it is in its life."""

    model_config = examples(_JOB)

    id: int
    name: OrEmpty
    state: JobState
    reason: str = Field(description="Why it is so: one of a closed list.")
    explanation: OrEmpty = Field(description="The reason as a sentence, with what is lacking.")
    what: OrEmpty = Field(description="What is lacking, where something is: a reason of matching, and the thing.")
    consumer: str
    group: OrEmpty
    submitted_at: Moment
    deadline: OrNone[Moment] = Field(description="By when it has to be done.")
    ended_at: OrNone[Moment]
    next_try_at: OrNone[Moment] = Field(description="When it is tried next at the latest; sooner if room comes free.")
    command: tuple[str, ...]
    type: LeaseTypeName
    backup: str = Field(description="What is kept ready against a fault: `none`, `cold` or `hot`.")
    reliability: OrNone[float] = Field(description="How sure it is to be done by its deadline.")
    surest: OrNone[float] = Field(description="How sure the present plan is.")
    needs: JobNeeds = Field(description="What each of its nodes must have.")
    restarts: OrZero = Field(description="How often it may begin anew after faults.")
    restarts_used: OrZero = Field(description="How often it has.")
    exit_status: OrNone[int] = Field(description="Of the attempt whose result is the job's.")
    attempts: tuple[Attempt, ...] = Field(description="All tries, the oldest first.")

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state.is_final


class JobPage(NextPage):
    """Some jobs, newest first."""

    jobs: tuple[Job, ...] = Field(description="The jobs.")


class JobResult(ResponseModel):
    """What came of a job; once it is there it never changes, but that its output is let go of some day."""

    model_config = examples(
        {"job": 7, "attempt": 1, "exit_status": 0, "output": "42\n", "is_whole": True, "is_kept": True}
    )

    job: int = Field(description="The job.")
    attempt: int = Field(description="The number of the attempt whose result is the job's.")
    exit_status: OrNone[int] = Field(description="Of its command.")
    output: str = Field(description="What its command wrote.")
    is_whole: bool = Field(description="Whether that is all of it; of very long output only a part is kept.")
    is_kept: bool = Field(
        description="Whether the output is still kept; one that is old, or beyond the quota of its consumer, "
        "is let go of."
    )


_LACKS = {
    "answer": "never", "reason": "software-not-there", "explanation": "lacks the required software",
    "what": "python3-numpy >= 1.24",
}  # fmt: skip
_FITS = {
    "answer": "fit", "reason": "fits", "explanation": "has all that is required, and it is free", "what": ""
}  # fmt: skip
_GROUP = {
    "site": "das3", "nodes": ["das3/node017", "das3/node018"], "count": 2, "problem": "",
    "as_node": _LACKS, "as_host": _FITS,
}  # fmt: skip
_PLACE = {
    "site": "das3", "nodes": ["das3/node017"], "image": "", "virtual": True,
    "builds": ["python3-numpy 1:1.24.2-1"], "reason": "no-physical-node",
    "explanation": "gets a virtual machine, because no physical node has what it needs",
}  # fmt: skip
_PROSPECT = {
    "state": "building", "reason": "image-is-built",
    "explanation": "waits until an image with its software is built", "what": "", "surest": None,
    "places": [_PLACE], "groups": [_GROUP],
}  # fmt: skip


class NodeVerdict(ResponseModel):
    """What nodes say to a job."""

    answer: Literal["never", "wait", "fit"] = Field(description="`never` here, not now (`wait`), or `fit`.")
    reason: str
    explanation: OrEmpty
    what: OrEmpty = Field(description="What is missing, where something is.")


class NodeGroup(ResponseModel):
    """Nodes of a site that say the same to a job."""

    model_config = examples(_GROUP)

    site: str
    nodes: tuple[str, ...] = Field(description="The first of them by name, as `site/node`: five at most.")
    count: int = Field(description="How many they are in all.")
    problem: OrEmpty = Field(description="Why nothing can run there now; empty: nothing is known against it.")
    as_node: OrNone[NodeVerdict] = Field(description="To run there as it is; null: no jobs run there so.")
    as_host: OrNone[NodeVerdict] = Field(description="In a machine on it; null: none can be built there.")


class JobPlace(ResponseModel):
    """Where a job would begin, or a copy of it."""

    model_config = examples(_PLACE)

    site: str
    nodes: tuple[str, ...] = Field(description="Its nodes, or the hosts of its machines, as `site/node`.")
    image: OrEmpty = Field(description="What its machines would boot from; empty: none, or it is not there yet.")
    virtual: OrFalse = Field(description="Whether machines would be built for it.")
    builds: AnyNumberOf[str] = Field(description="Packages of an image that would be built first.")
    reason: str
    explanation: OrEmpty


class JobProspect(ResponseModel):
    """What would become of a job."""

    model_config = examples(_PROSPECT)

    state: JobState = Field(description="`running`, `building`, `waiting` or `refused`.")
    reason: str
    explanation: OrEmpty
    what: OrEmpty = Field(description="What is missing, where something is.")
    surest: OrNone[float] = Field(description="How sure it is to be done by its deadline; null: not asked.")
    places: tuple[JobPlace, ...] = Field(description="Where it would begin, and its copies.")
    groups: tuple[NodeGroup, ...] = Field(
        description="What the nodes say to it: those that would do first, then the many before the few."
    )
