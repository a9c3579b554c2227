"""Jobs: requests, state with all attempts, results, and dry runs."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic.types import Strict

from leasehold.jobs.job import HIGHEST_INDEX, MOST_IN_ARRAY, JobState
from leasehold.matching.software import software
from leasehold.model.errors import InvalidField
from leasehold.protocol.base import A_MOMENT, NextPage, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import (
    MAX_MEMORY_MIB,
    AnyNumberOf,
    CommandWords,
    Cursor,
    Duration,
    Environment,
    FileName,
    GpusText,
    LeaseTypeName,
    MemoryMib,
    Moment,
    Name,
    Number,
    OptionalVms,
    OrEmpty,
    OrFalse,
    OrNone,
    OrZero,
    PageSize,
    Seconds,
    Text,
    Vms,
)
from leasehold.protocol.files import MAX_FILE_BYTES, Sha256
from leasehold.protocol.leases import ExpectedStart
from leasehold.protocol.plans import Elsewhere, PlannedOutcome

DEFAULT_MEMORY_MIB = 256
MAX_MHZ = 1_000_000
MAX_RESTARTS = 100
MAX_SOFTWARE = 100
MAX_INPUTS = 1000

_SPEC = {
    "name": "survey", "command": ["python3", "run.py"], "cores": 2, "memory_mib": 2048,
    "software": ["python3-numpy >= 1.24"], "execution_s": 600, "deadline": "2026-11-21T18:00:00Z",
    "reliability": 0.999, "backup": "hot",
}  # fmt: skip
_SMALL_SPEC = {"command": ["true"], "execution_s": 60}
_NEEDS = {
    "cores": 2, "memory_mib": 2048, "disk_mib": 0, "cpu_mhz": 0, "gpus": "a100:1", "nodes": 1, "need": 0,
    "software": ["python3-numpy >= 1.24"], "inputs": [], "execution_s": 600,
}  # fmt: skip
_ATTEMPT = {
    "number": 1, "lease": 42, "site": "das3", "nodes": ["das3/node017"], "image": "", "virtual": False,
    "backup": False, "state": "succeeded", "fault": "", "explanation": "", "detail": "", "exit_status": 0,
    "ordered_at": A_MOMENT, "started_at": A_MOMENT, "ended_at": "2026-11-21T10:53:01.004Z",
}  # fmt: skip
_JOB = {
    "id": 7, "name": "survey", "state": "completed", "reason": "completed", "explanation": "ran to its end",
    "consumer": "physics", "submitted_at": A_MOMENT, "ended_at": "2026-11-21T10:53:01.004Z",
    "command": ["python3", "run.py"], "type": "suspendable", "backup": "none", "needs": _NEEDS, "restarts": 3,
    "exit_status": 0, "attempts": [_ATTEMPT],
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


def _each_once(indexes: list[int]) -> list[int]:
    if len(set(indexes)) < len(indexes):
        raise ValueError("each index once")
    return sorted(indexes)


Indexes = Annotated[
    list[Annotated[int, Strict(), Field(ge=0, le=HIGHEST_INDEX)]],
    Field(max_length=MOST_IN_ARRAY, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_each_once),
]
"""The indexes of an array of jobs."""

SoftwareText = Annotated[Text, Field(min_length=1), AfterValidator(_readable)]
"""A piece of software with a version constraint."""


class JobInput(RequestModel):
    """A file that the job reads."""

    name: Name = Field(description="File name.")
    size_bytes: int = Field(strict=True, ge=0, le=MAX_FILE_BYTES, description="Size in bytes.")
    place: Text = Field(
        default="", description="The site that stores it; empty: with the submitter, or at the gateway."
    )
    sha256: Sha256 | None = Field(
        default=None,
        description="SHA-256 of a stored file of the caller (`/v1/files`), which is brought to the working folder of "
        "the command; null: it is only taken into account.",
    )


class JobSpec(RequestModel):
    """A job request: a command, what each node must have, and a deadline."""

    model_config = examples(_SPEC, _SMALL_SPEC)

    command: CommandWords = Field(min_length=1, description="The command, as a list of words.")
    cores: Cpus = Field(default=1, description="Cores on each node.")
    memory_mib: MemoryMib = Field(default=DEFAULT_MEMORY_MIB, description="Memory on each node, in MiB.")
    disk_mib: DiskMib = Field(default=0, description="Disk on each node, in MiB.")
    cpu_mhz: Mhz = Field(default=0, description="Minimum clock rate of the cores, in MHz.")
    gpus: GpusText = Field(
        default="",
        description="GPUs on each node: `a100:2`, `a100:0.5` (half of one device) or `2` (of any model); empty: none. "
        "Only nodes of sites that are planned by nodes have some.",
    )
    nodes: Vms = Field(default=1, description="Number of distinct nodes, all at one site.")
    need: OptionalVms = Field(
        default=0,
        description="How many of its nodes must be left for its command to go on when others fail; 0: all of them.",
    )
    software: list[SoftwareText] = Field(
        default=[],
        max_length=MAX_SOFTWARE,
        description="Required software, with constraints: `gcc >= 12, < 14`.",
    )
    inputs: list[JobInput] = Field(
        default=[], max_length=MAX_INPUTS, description="Input files; the job runs where they are available soonest."
    )
    execution_s: Duration = Field(description="Estimated run time, in seconds.")
    deadline: Moment | None = Field(default=None, description="When it must be finished.")
    reliability: Likely | None = Field(
        default=None, description="Required probability of finishing by the deadline, above 0 and below 1."
    )
    backup: Literal["none", "cold", "hot"] = Field(
        default="none",
        description="Backup against faults: none, a second place held ready (`cold`), or a copy that "
        "runs in parallel (`hot`).",
    )
    type: LeaseTypeName = Field(default="suspendable", description="The lease type of its attempts.")
    restarts: Restarts = Field(default=3, description="Maximum restarts after faults not caused by the job.")
    name: Text = Field(default="", description="A display name; need not be unique.")
    environment: Environment = Field(default={}, description="Environment variables of the command, by name.")
    outputs: list[FileName] = Field(
        default=[],
        max_length=MAX_INPUTS,
        description="Names of files in the working folder that are kept when the command has ended.",
    )
    array: Indexes = Field(
        default=[],
        description="Indexes of an array: one job for each, which finds its index in `LEASEHOLD_ARRAY_INDEX`, and the "
        "id of the first in `LEASEHOLD_ARRAY_ID`. The response is the first job.",
    )
    group: Text | None = Field(
        default=None, description="One of the caller's groups, to which it is charged; left out: the first."
    )


AnyVariables = Annotated[dict[str, str], Field(default={})]


class JobFilter(RequestModel):
    """A filter for jobs."""

    state: list[JobState] = Field(default=[], max_length=len(JobState), description="In one of these states.")
    site: Name | None = Field(default=None, description="With an attempt at this site.")
    consumer: Name | None = Field(default=None, description="Of this consumer.")
    since: Moment | None = Field(default=None, description="Submitted at this time or later.")
    array: Number | None = Field(default=None, description="Of the array with this id.")
    open: bool | None = Field(default=None, description="Whether they are still waiting or running.")
    limit: PageSize = 100
    cursor: Cursor = None


class JobNeeds(ResponseModel):
    """What each node of a job must have, and the job's input files."""

    cores: int = Field(description="Per node.")
    memory_mib: int
    disk_mib: OrZero = Field(description="Per node.")
    cpu_mhz: OrZero = Field(description="Minimum clock rate of the cores; 0: any.")
    gpus: OrEmpty = Field(description="GPUs per node, such as `a100:2`; empty: none.")
    nodes: int = Field(description="Number of distinct nodes.")
    need: OrZero = Field(description="How many of them must be left for it to go on when others fail; 0: all.")
    software: AnyNumberOf[str] = Field(description="Required software, with constraints.")
    inputs: AnyNumberOf[JobInput] = Field(description="Input files.")
    execution_s: Seconds = Field(description="Estimated run time.")


class Attempt(ResponseModel):
    """One attempt to run a job."""

    model_config = examples(_ATTEMPT)

    number: int = Field(description="Increases by one with each attempt of the job.")
    lease: OrNone[int] = Field(description="Its lease; null: a cold backup, which has none.")
    site: str
    nodes: tuple[str, ...] = Field(description="Its nodes, or the hosts of its machines, as `site/node`.")
    image: OrEmpty = Field(description="The image its machines boot from; empty: it runs directly on the nodes.")
    virtual: OrFalse = Field(description="Whether it runs in virtual machines.")
    backup: OrFalse = Field(description="Whether it is a backup of another attempt.")
    state: str = Field(
        description="`queued` (at its site), `ordered`, `running`, `suspended`, `succeeded`, `failed`, or "
        "`fenced` (its result is ignored)."
    )
    fault: OrEmpty = Field(description="The kind of fault, from a closed list; empty: none.")
    explanation: OrEmpty = Field(description="The fault as a sentence; empty: none.")
    detail: OrEmpty = Field(description="Details of the fault.")
    exit_status: OrNone[int] = Field(description="Exit status of its command; null: it was ended.")
    ordered_at: Moment = Field(description="When it was ordered.")
    started_at: OrNone[Moment] = Field(description="When its command started.")
    ended_at: OrNone[Moment]


class Job(ResponseModel):
    """One job: the request and its current state."""

    model_config = examples(_JOB)

    id: int
    name: OrEmpty
    state: JobState
    reason: str = Field(description="Reason for the state, from a closed list.")
    explanation: OrEmpty = Field(description="The reason as a sentence, naming what is missing.")
    what: OrEmpty = Field(description="What is missing, if anything: a matching reason and the item.")
    consumer: str
    group: OrEmpty
    submitted_at: Moment
    deadline: OrNone[Moment] = Field(description="When it must be finished.")
    ended_at: OrNone[Moment]
    expected: OrNone[ExpectedStart] = Field(
        description="When it is expected to start, or the lease of its present attempt to continue; null: it has "
        "machines, or nothing is known yet."
    )
    next_try_at: OrNone[Moment] = Field(
        description="Latest time of the next attempt; earlier if capacity becomes free."
    )
    command: tuple[str, ...]
    environment: AnyVariables = Field(description="Environment variables of the command.")
    outputs: AnyNumberOf[str] = Field(description="Names of the files that are kept of what the command leaves.")
    array: OrNone[int] = Field(description="The array that it belongs to: the id of the first job.")
    array_index: OrNone[int] = Field(description="Its index in the array.")
    type: LeaseTypeName
    backup: str = Field(description="Backup against faults: `none`, `cold` or `hot`.")
    reliability: OrNone[float] = Field(description="Required probability of finishing by the deadline.")
    surest: OrNone[float] = Field(description="Probability that the present plan meets the deadline.")
    needs: JobNeeds = Field(description="Requirements per node.")
    restarts: OrZero = Field(description="Maximum restarts after faults.")
    restarts_used: OrZero = Field(description="Restarts so far.")
    exit_status: OrNone[int] = Field(description="Exit status of the attempt that produced the job's result.")
    attempts: tuple[Attempt, ...] = Field(description="All attempts, oldest first.")

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""
        return self.state.is_final


class JobPage(NextPage):
    """A page of jobs, newest first."""

    jobs: tuple[Job, ...] = Field(description="The jobs.")


class OutputFile(ResponseModel):
    """A file that a job was to leave in its working folder."""

    name: str
    sha256: OrEmpty = Field(description="SHA-256 of its content, by which it is among the files of the job's consumer.")
    size_bytes: OrZero = Field(description="Its size.")
    problem: OrEmpty = Field(description="Why it is not kept; empty: it is.")


class JobResult(ResponseModel):
    """The result of a job. It never changes, except that its output may be deleted by retention or quota."""

    model_config = examples(
        {
            "job": 7,
            "attempt": 1,
            "exit_status": 0,
            "output": "42\n",
            "error": "",
            "files": [],
            "is_whole": True,
            "is_kept": True,
        }
    )

    job: int = Field(description="The job.")
    attempt: int = Field(description="The number of the attempt that produced the result.")
    exit_status: OrNone[int] = Field(description="Exit status of its command.")
    output: str = Field(description="What its command wrote to its standard output.")
    error: OrEmpty = Field(
        description="What it wrote to its standard error, where the site keeps that apart; elsewhere it is in `output`."
    )
    is_whole: bool = Field(description="Whether both are complete; very long output is truncated.")
    files: AnyNumberOf[OutputFile] = Field(description="The output files, in the order of the request.")
    is_kept: bool = Field(
        description="Whether the output is still kept; it is deleted when old, or beyond its consumer's quota."
    )


class JobLog(ResponseModel):
    """What the command of a job has written so far."""

    model_config = examples(
        {"job": 7, "attempt": 1, "output": "step 1 of 3\n", "error": "", "is_whole": True, "is_over": False}
    )

    job: int = Field(description="The job.")
    attempt: int = Field(description="The attempt that wrote it; 0: none has started yet.")
    output: str = Field(description="What its command wrote to its standard output so far.")
    error: OrEmpty = Field(description="And to its standard error, where the site keeps that apart.")
    is_whole: bool = Field(description="Whether that is all of it so far; of very long output only the end is kept.")
    is_over: bool = Field(description="Whether the job is over.")


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
    "verdict": "with-consequences", "consequences": ["builds"], "state": "building", "reason": "image-is-built",
    "explanation": "waits until an image with its software is built", "what": "", "surest": None,
    "places": [_PLACE], "groups": [_GROUP],
}  # fmt: skip


class NodeVerdict(ResponseModel):
    """Whether a node fits a job."""

    answer: Literal["never", "wait", "fit"] = Field(description="`never`, `wait` (not now), or `fit`.")
    reason: str
    explanation: OrEmpty
    what: OrEmpty = Field(description="What is missing, if anything.")


class NodeGroup(ResponseModel):
    """Nodes of a site with the same verdict on a job."""

    model_config = examples(_GROUP)

    site: str
    nodes: tuple[str, ...] = Field(description="The first five by name, as `site/node`.")
    count: int = Field(description="Number of nodes.")
    problem: OrEmpty = Field(description="Why it cannot be used now; empty: no known problem.")
    as_node: OrNone[NodeVerdict] = Field(
        description="For running directly on the node; null: the node does not offer that."
    )
    as_host: OrNone[NodeVerdict] = Field(description="For running in a machine on it; null: it is not a host.")


class JobPlace(ResponseModel):
    """A place where a job, or its backup, would start."""

    model_config = examples(_PLACE)

    site: str
    nodes: tuple[str, ...] = Field(description="Its nodes, or the hosts of its machines, as `site/node`.")
    image: OrEmpty = Field(description="The image its machines would boot from; empty: none, or not built yet.")
    virtual: OrFalse = Field(description="Whether it would run in virtual machines.")
    builds: AnyNumberOf[str] = Field(description="Packages of the image that would be built first.")
    reason: str
    explanation: OrEmpty


class JobOutcome(ResponseModel):
    """The state a job would have right after submission."""

    verdict: Literal["as-asked", "with-consequences", "refused"] = Field(
        description="`as-asked`: it would start now at nobody's cost. `refused`: it, or its lease, as things stand."
    )
    consequences: AnyNumberOf[str] = Field(
        description="`waits`, `builds` (an image first), and of its lease `preempts` (running leases), `delays` "
        "(waiting ones), `decided-elsewhere`, `penalised`."
    )
    state: JobState = Field(description="`running`, `building`, `waiting` or `refused`.")
    reason: str
    explanation: OrEmpty
    what: OrEmpty = Field(description="What is missing, if anything.")
    surest: OrNone[float] = Field(description="Probability of finishing by the deadline; null: not requested.")
    lease: OrNone[PlannedOutcome] = Field(
        description="What would become of the lease that it asks for, at once or when its image is thought to be "
        "built; null: there is no place for it."
    )


class PlannedJobAlternative(ResponseModel):
    """Another job, different in one thing, that would be better off. It was tried, and undone."""

    change: Literal[
        "nodes", "cores", "memory", "gpus", "software", "execution", "type", "backup", "reliability", "deadline"
    ] = Field(description="What is different; `backup`, `reliability` and `deadline`: without it.")
    nodes: OrNone[int] = Field(description="The other number of nodes; null: the same.")
    cores: OrNone[int] = Field(description="The other number of cores on each node; null: the same.")
    memory_mib: OrNone[int] = Field(description="The other memory on each node, in MiB; null: the same.")
    gpus: OrNone[str] = Field(description="The other GPUs on each node; null: the same.")
    execution_s: OrNone[Seconds] = Field(description="The other estimated run time; null: the same.")
    type: OrNone[LeaseTypeName] = Field(description="The other lease type of its attempts; null: the same.")
    software: AnyNumberOf[str] = Field(description="All of the other required software; empty: the same.")
    outcome: JobOutcome = Field(description="What would become of it.")


class JobProspect(JobOutcome):
    """The outcome a job request would have, and better alternatives; nothing is submitted."""

    model_config = examples(_PROSPECT)

    places: tuple[JobPlace, ...] = Field(description="Where it and its backup would start.")
    groups: tuple[NodeGroup, ...] = Field(
        description="Verdicts of the nodes: fitting ones first, then larger groups before smaller."
    )
    alternatives: AnyNumberOf[PlannedJobAlternative] = Field(
        description="Jobs that would not be refused, start earlier, or preempt fewer VMs; each was tried."
    )
    untried: OrZero = Field(description="How many alternatives were not tried.")
    elsewhere: OrNone[Elsewhere] = Field(
        description="Who would decide on its lease, and says what; null: this gateway would."
    )
