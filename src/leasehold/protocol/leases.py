"""Leases: requests and responses, and their journal, as a page or as a stream."""

from typing import Annotated, Any

from pydantic import Field

from leasehold.model.lease import LeaseState
from leasehold.model.request import DEFAULT_MEMORY_MIB
from leasehold.protocol.base import A_MOMENT, NextPage, PageQuery, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import (
    MAX_FOLLOWED,
    AnyNumberOf,
    Claims,
    CommandWords,
    Cores,
    Cursor,
    Duration,
    GpusText,
    ImageName,
    LeaseTypeName,
    MaxRestarts,
    MemoryMib,
    Moment,
    Name,
    Notify,
    Number,
    OrEmpty,
    OrFalse,
    OrNone,
    OrOne,
    OrZero,
    PageSize,
    Seconds,
    SshKey,
    Text,
    Units,
    Vms,
)

_SPEC = {
    "type": "suspendable",
    "vms": 2,
    "duration_s": 3600,
    "name": "sky-survey",
    "project": "sky",
    "command": ["sh", "run.sh"],
}
_LOCAL_SPEC = {"local": True, "site": "das3", "vms": 16, "duration_s": 600}
_SPEC_FOR_A_DOMAIN = {
    "type": "suspendable", "vms": 2, "duration_s": 3600, "group": "atlas/production", "domain": "das3",
    "claims": {"licence:matlab": 1},
}  # fmt: skip
_SPEC_WITH_DEADLINE = {
    "type": "migratable", "vms": 4, "duration_s": 7200, "memory_mib": 4096, "deadline": "2026-11-22T06:00:00Z"
}  # fmt: skip
_LEASE = _SPEC | {
    "id": 42, "walltime_s": 3600, "memory_mib": 1024, "consumer": "physics", "site": "das3", "state": "running",
    "reason": "room-free", "explanation": "got free room at once", "submitted_at": A_MOMENT, "ready_at": A_MOMENT,
    "started_at": A_MOMENT, "ends_at": "2026-11-21T11:43:36.120Z",
}  # fmt: skip


class LeaseSpec(RequestModel):
    """A lease request: a number of machines for a duration, under one of four types.

    A local request is made at its home site and comes before all guests there; it is always
    Non-preemptable. Whatever is not local may run at any site.
    """

    model_config = examples(_SPEC, _LOCAL_SPEC, _SPEC_FOR_A_DOMAIN, _SPEC_WITH_DEADLINE)

    type: LeaseTypeName | None = Field(
        default=None,
        description="How it may be preempted: `cancelable` leases end when others need the capacity, "
        "`suspendable` ones pause, `migratable` ones move, `non-preemptable` ones stay. "
        "May be left out for a local request.",
    )
    vms: Vms = Field(description="Number of machines, all at one site.")
    duration_s: Duration = Field(description="Maximum duration, in seconds on a machine of the reference speed.")
    memory_mib: MemoryMib = Field(default=DEFAULT_MEMORY_MIB, description="The memory of each machine, in MiB.")
    cores: Cores = Field(
        default=1, description="The cores of each machine; more than 1 only at sites that are planned by nodes."
    )
    gpus: GpusText = Field(
        default="",
        description="The GPUs of each machine: `a100:2`, `a100:0.5` (half of one device) or `2` (of any model); "
        "empty: none.",
    )
    image: ImageName = Field(
        default="",
        description="The image that its machines boot from, or its command runs in, by the name that sites give it; "
        "empty: the default of the site.",
    )
    ssh_key: SshKey = Field(
        default="",
        description="The public key by which its user logs in to its machines, as in `id_ed25519.pub`; empty: nobody "
        "does. Only sites that can let users in take such a lease.",
    )
    deadline: Moment | None = Field(
        default=None, description="When it must have ended; only for `migratable` and `non-preemptable`."
    )
    ready: Moment | None = Field(default=None, description="Earliest start; left out: now.")
    local: bool = Field(default=False, strict=True, description="Whether this is a request of a site's own user.")
    site: Name | None = Field(
        default=None, description="The home site of a local request; callers with a single home site may leave it out."
    )
    name: Text = Field(default="", description="A display name; need not be unique.")
    project: Text = Field(default="", description="A label for accounting; not interpreted.")
    group: Text | None = Field(
        default=None, description="One of the caller's groups, to which it is charged; left out: the first."
    )
    domain: Text = Field(
        default="", description="The virtual domain or site that it is bound to; empty: any. Not for a local request."
    )
    claims: Claims = Field(
        default={}, description="Units of further resources that it holds while it runs: licences, services."
    )
    wait: bool = Field(
        default=True,
        strict=True,
        description="Whether a `migratable` or `non-preemptable` request waits for capacity that becomes free "
        "later; else it is refused at once where it cannot start at its ready time. All others wait.",
    )
    max_restarts: MaxRestarts | None = Field(
        default=None,
        description="How often it begins again, from the start of its work, after its machines were lost; left out: as "
        "often as the gateway lets guests. Not for a local request.",
    )
    notify: Notify = Field(
        default="",
        description="How the guest is told before it is preempted, if the site's terms allow time for that: a signal "
        "(`SIGUSR1`, `SIGUSR2`, `SIGTERM`, `SIGINT`, `SIGHUP`, `SIGCONT`), `file`, or the address of a webhook that "
        "the gateway's configuration allows; empty: not at all.",
    )
    command: CommandWords = Field(default=[], description="The command to run in the machines, as a list of words.")


class ExtensionSpec(RequestModel):
    """An extension of a lease."""

    model_config = examples({"by_s": 600})

    by_s: Duration = Field(description="How much longer, in seconds.")


class LeaseFilter(RequestModel):
    """A filter for leases."""

    state: list[LeaseState] = Field(default=[], max_length=len(LeaseState), description="In one of these states.")
    site: Name | None = Field(default=None, description="At this site, or with it as their home.")
    consumer: Name | None = Field(default=None, description="Of this consumer.")
    since: Moment | None = Field(default=None, description="Submitted at this time or later.")
    open: bool | None = Field(default=None, description="Whether they are still waiting or running.")
    limit: PageSize = 100
    cursor: Cursor = None


class ExpectedStart(ResponseModel):
    """When a lease is expected to start, or to continue where it is suspended, by the last estimate."""

    earliest_at: Moment = Field(description="Begin of the 90 % interval.")
    expected_at: Moment = Field(description="It happens as often earlier as later.")
    latest_at: Moment = Field(description="End of the 90 % interval.")
    made_at: Moment = Field(description="The state of the gateway that it rests on.")


class Lease(ResponseModel):
    """One lease: the request and its current state."""

    model_config = examples(_LEASE)

    id: int
    name: OrEmpty
    type: LeaseTypeName
    vms: int
    duration_s: Seconds = Field(description="The requested time, on a machine of the reference speed.")
    asked_duration_s: OrNone[Seconds] = Field(
        description="The requested time that a site with a manager of its own was asked for and has not answered yet."
    )
    walltime_s: OrNone[Seconds] = Field(
        description="Wall-clock time at its site for the whole duration, while it has machines there."
    )
    memory_mib: int
    cores: OrOne = Field(description="The cores of each machine.")
    gpus: OrEmpty = Field(description="The GPUs of each machine, such as `a100:2`.")
    nodes: AnyNumberOf[str] = Field(
        description="The nodes of its machines, or those planned, at a site that is planned by nodes: "
        "`n1*2[0,1]` for two machines on `n1` with its GPUs 0 and 1."
    )
    image: OrEmpty = Field(description="The image that it names; empty: the default of its site.")
    ssh_key: OrEmpty = Field(description="The public key by which its user logs in; empty: nobody does.")
    consumer: str = Field(description="The consumer that holds it.")
    project: OrEmpty = Field(description="A label for accounting.")
    group: OrEmpty
    local: OrFalse
    home: OrNone[str] = Field(description="The home site of a local request.")
    site: OrEmpty = Field(description="Its current or last site; empty: none yet.")
    global_id: OrEmpty = Field(description="Its ID at all gateways that it has passed; empty: it began here.")
    came_by: AnyNumberOf[str] = Field(
        description="The gateways that passed it on to this one, the first one first, as each is called by the next."
    )
    onward: AnyNumberOf[str] = Field(
        description="The gateways beyond the peer at which it is, nearest first, as each calls the next."
    )
    state: LeaseState
    reason: OrEmpty = Field(description="Reason for the state, from a closed list.")
    explanation: OrEmpty = Field(description="The reason as a sentence.")
    submitted_at: Moment
    ready_at: Moment
    deadline_at: OrNone[Moment]
    planned_start_at: OrNone[Moment] = Field(description="The promised start, while it waits for it.")
    expected: OrNone[ExpectedStart] = Field(
        description="When it is expected to start or to continue; null: it has machines, or nothing is known yet."
    )
    started_at: OrNone[Moment] = Field(description="When it first held machines.")
    ends_at: OrNone[Moment] = Field(description="When its requested time will end, while it holds machines.")
    ended_at: OrNone[Moment]
    preemptions: OrZero
    migrations: OrZero
    restarts: OrZero = Field(description="How often it began again after its machines were lost.")
    max_restarts: OrNone[int] = Field(description="How often it may; left out: as often as the gateway lets guests.")
    domain: OrEmpty = Field(description="The virtual domain or site that it is bound to; empty: any.")
    claims: Units = Field(description="Units of further resources that it holds while it runs.")
    coallocation: OrNone[int] = Field(description="The co-allocation of which it is a component.")
    job: OrNone[int] = Field(description="The job of which it is an attempt.")
    checkpointed_at: OrNone[Moment] = Field(description="When its guest last reported a checkpoint.")
    notify: OrEmpty = Field(description="How its guest is told before it is preempted; empty: not at all.")
    command: AnyNumberOf[str]

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""
        return self.state.is_final


class LeasePage(NextPage):
    """A page of leases, newest first."""

    leases: tuple[Lease, ...]


_ACCESS = {"machine": 0, "host": "127.0.0.1", "port": 40_217, "user": "root"}


class MachineAccess(ResponseModel):
    """Where the owner of a lease can log in to one of its machines by SSH."""

    model_config = examples(_ACCESS)

    machine: int = Field(description="Its number among those of the lease, from 0.")
    host: str = Field(description="The name or address to connect to; `127.0.0.1` is the site's own computer.")
    port: int = Field(description="The port of its SSH server there.")
    user: OrEmpty = Field(description="Whom to log in as; empty: the user that the image is made for.")


class LeaseAccess(ResponseModel):
    """Where the owner of a lease can log in; empty while it holds no machines, or where it has no key."""

    model_config = examples({"machines": [_ACCESS]})

    machines: AnyNumberOf[MachineAccess] = Field(description="One for each machine that has a key.")


_ENTRY = {
    "seq": 1007, "at": A_MOMENT, "what": "start", "state": "running", "site": "das3", "reason": "room-free",
    "explanation": "got free room at once", "rule": "home-first", "detail": {},
}  # fmt: skip


class JournalQuery(PageQuery):
    """The range of a lease's journal to return."""


class ChangesQuery(RequestModel):
    """A filter for the stream of changes."""

    lease: list[Number] = Field(default=[], max_length=MAX_FOLLOWED, description="Only entries of these leases.")
    after: Number | None = Field(
        default=None,
        description="Start after this `seq`, without gaps; left out: from now on. "
        "The header `Last-Event-ID` takes precedence.",
    )


class JournalEntry(ResponseModel):
    """One line of a lease's journal."""

    model_config = examples(_ENTRY)

    seq: int = Field(description="Increases over all leases; never reused.")
    at: Moment
    what: str = Field(description="What happened or was decided.")
    state: str = Field(description="The state of the lease afterwards.")
    site: OrEmpty
    reason: OrEmpty
    explanation: OrEmpty
    rule: OrEmpty = Field(description="The policy or rule that decided.")
    detail: Annotated[dict[str, Any], Field(default={})]


class Change(JournalEntry):
    """One journal entry in the stream of changes, with its lease."""

    model_config = examples(_ENTRY | {"lease": 42, "job": 7, "consumer": "physics"})

    lease: OrNone[int] = Field(description="null: not about a lease")
    job: OrNone[int] = Field(description="The job it concerns, or the job of the lease's attempt.")
    consumer: OrEmpty = Field(description="The lease's consumer.")


class JournalPage(NextPage):
    """A part of a lease's journal, oldest first."""

    entries: tuple[JournalEntry, ...]
