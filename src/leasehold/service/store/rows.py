"""The rows of the store. Times are Unix milliseconds, and -1 (UNPLANNED) where a lease has none yet."""

from typing import TypedDict


class LeaseRow(TypedDict):
    """One lease: what was asked for, and where it is in its life.

    What the decision core needs to go on after a restart is all here, under the names that
    `leasehold.model.lease.Lease` and `leasehold.model.request.Request` use.
    """

    # what was asked for
    id: int
    name: str
    consumer: str
    group_name: str
    lease_type: str
    vms: int
    duration_ms: int
    memory_mib: int
    submit_ms: int
    ready_ms: int
    deadline_ms: int | None
    home: str | None  # the site of a local request
    command: str  # JSON, a list of words
    origin: str  # the gateway that sent it here, "" for a request made here
    origin_id: int  # its number there
    # where it is in its life
    state: str
    reason: str  # the last reason given, `leasehold.model.reason.Reason`, "" before the first
    site: str
    planning_order: int
    place: int
    work_left: int
    span_ms: int
    earliest_ms: int
    latest_ms: int | None
    reserved_ms: int
    held_since_ms: int
    overhead_ms: int
    first_start_ms: int
    incarnation: int
    preemptions: int
    migrations: int
    overhead_vm_ms: int
    dispatched_ms: int
    end_ms: int | None
    own_job: str | None  # what the site's own scheduler calls the job that this stands for
    domain: str  # the virtual domain or site that it is bound to, "" for any
    claims: str  # JSON, units of further resources by their names
    breach: (
        str  # JSON, `leasehold.model.agreement.Breach`: the rule that the last reason is about, "" for none
    )
    joint_id: int | None  # the joint request of which this is a component
    job_id: int | None  # the job of which this is an attempt
    wishes: str  # JSON, `leasehold.service.enactors.protocol.MachineWishes`, "" for none
    waits: int  # whether it is queued where it would otherwise be refused
    is_foreign: int  # whether somebody else than this gateway vouches for its consumer


class JointRow(TypedDict):
    """One joint request: what was asked for, and where it is in its life."""

    id: int
    name: str
    consumer: str
    group_name: str
    claim: str  # `leasehold.model.joint.Claim`
    place: str  # the placement policy
    state: str  # `leasehold.model.joint.JointState`
    reason: str
    submit_ms: int
    ready_ms: int
    deadline_ms: int | None
    start_ms: int
    idle_vm_ms: int
    first_lease_id: int  # of the numbers that its leases may have
    last_lease_id: int
    end_ms: int | None  # None while it is open
    document: str  # JSON: its components, how each stands, and the other fields of JointRequest and Joint


class JournalRow(TypedDict):
    """One line of what happened; ``seq`` counts up and is never used twice."""

    seq: int
    at_ms: int
    lease_id: int | None
    consumer: str  # of the lease
    group_name: str
    site: str
    what: (
        str  # submitted, an Outcome, suspending, saved, resuming, migrating, continues, closed, extended, ...
    )
    state: str  # of the lease afterwards
    reason: str
    rule: str
    detail: str  # JSON object
    job_id: int | None  # the job that it is about, or of whose attempt the lease is


class OrderRow(TypedDict):
    """One order in the outbox; ``status`` is pending, taken (by the enactor), confirmed, or dropped."""

    id: str
    site: str
    lease_id: int
    incarnation: int
    verb: str
    body: str  # JSON: the other fields of Order
    status: str
    attempts: int
    next_try_ms: int
    problem: str
    created_ms: int


class AnswerRow(TypedDict):
    """An answer that a consumer will get again for the same Idempotency-Key."""

    consumer: str
    key: str
    request_hash: str
    lease_id: int
    created_ms: int


class TokenRow(TypedDict):
    """A token that was given out; ``hash`` is all that is kept of its secret."""

    id: str
    hash: str
    consumer: str
    roles: str  # words parted by spaces, as are the next two
    groups: str
    sites: str
    note: str
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None


class SiteRow(TypedDict):
    """What is to be remembered of one site: whether it is drained, and who said so."""

    name: str
    drained_ms: int | None
    drained_by: str
    note: str


class PeerRow(TypedDict):
    """One gateway that requests are exchanged with."""

    name: str
    url: str  # where it is called, so that it can ask us; "" where we lend it nothing
    ask: str  # when we ask it, `leasehold.gateway.peering.Ask`
    max_vms: int | None  # most VMs that it may have here at a time
    line: str  # made up when it was added: who is added anew begins anew
    added_ms: int
    added_by: str


class AgreementRow(TypedDict):
    """One agreement with its life so far, `leasehold.sharing.life.Record`; a name is never given again."""

    name: str
    revision: int
    document: str  # JSON, the keys of `leasehold.configuration.agreements`: what holds, or is proposed
    drawn_up_ms: int
    drawn_up_by: str
    signatures: str  # JSON, who has signed this revision for which side, and when
    amendment: str  # JSON, the next revision, not yet signed by both; "" for none
    revisions: int  # how many were ever drawn up
    standing: str
    since_ms: int
    since_by: str
    published: int  # 1 or 0
    note: str
    held: str  # JSON, when it was in force by itself, and on which terms


class PenaltyRow(TypedDict):
    """A punishment that was imposed; ``id`` counts up."""

    id: int
    agreement: str
    provider: str
    consumer: str
    points: int
    since_ms: int
    until_ms: int | None  # None: until somebody lifts it
    lease_id: int  # the lease that broke the rule
    lifted_ms: int | None
    lifted_by: str


class UsageRow(TypedDict):
    """A time in which a lease held machines, from ``begin_ms`` until before ``end_ms``."""

    lease_id: int
    begin_ms: int
    end_ms: int
    consumer: str
    group_name: str
    path: str  # on whose account: VO, groups, consumer
    site: str
    domain: str  # the virtual domain of that site at that time, "" for none
    vms: int
    memory_mib: int  # of each
    claims: str  # JSON, as of the lease
    is_local: int  # 1 for a request of the site's own users


class LetterRow(TypedDict):
    """One letter to a correspondent, kept until it was acknowledged; ``seq`` counts up for each of them."""

    correspondent: str
    seq: int
    body: str  # JSON
    created_ms: int


class JobRow(TypedDict):
    """One job: what was asked for, and where it is in its life; as `leasehold.jobs.job` has it."""

    id: int
    name: str
    consumer: str
    group: str
    state: str  # `JobState`
    reason: str  # `JobReason`
    what: str  # what it is about, where something is missing
    submitted_ms: int
    deadline_ms: int | None
    ended_ms: int | None
    needs: str  # JSON, `leasehold.service.engine.needs`
    command: str  # JSON, a list of words
    lease_type: str
    backup: str  # `Backup`
    reliability: float | None
    surest: float | None
    restarts: int
    restarts_used: int
    next_ms: int | None  # when it is tried again
    since_ms: int | None  # from when on its tries are counted
    standby: str  # JSON: the place that is kept ready, "" for none
    delivered: int  # the number of the attempt whose result is the job's, 0 while there is none
    exit_status: int | None  # of that attempt
    is_foreign: int  # as in `LeaseRow`


class AttemptRow(TypedDict):
    """One try to run a job."""

    job_id: int
    number: int
    lease_id: int | None  # None for a place that is only kept ready
    site: str
    nodes: str  # JSON, names as site/node
    image: str  # "" where it runs on the nodes as they are
    is_backup: int  # 1 or 0
    state: str  # `AttemptState`
    fault: str  # `Fault`, "" for none
    detail: str
    exit_status: int | None
    ordered_ms: int
    started_ms: int | None
    ended_ms: int | None
    place: str  # JSON: why these nodes, as matching has chosen them
    came_to: str  # JSON: how its command ended, while what it wrote is still being fetched; "" else


class OutputRow(TypedDict):
    """What the command of an attempt wrote."""

    job_id: int
    number: int
    text: str
    is_whole: int  # 1 or 0
    fetched_ms: int
    consumer: str
    size_bytes: int


class JobAnswerRow(TypedDict):
    """The job that a consumer will get again for the same Idempotency-Key."""

    consumer: str
    key: str
    request_hash: str
    job_id: int
    created_ms: int


class NodeRow(TypedDict):
    """A node as it was last seen."""

    name: str  # site/node
    site: str
    cores: int
    memory_mib: int
    disk_mib: int
    free_cores: int
    free_memory_mib: int
    free_disk_mib: int
    cpu_mhz: int
    bytes_per_s: int  # 0 where that is not known
    software: str  # JSON, a list of [name, version]
    is_host: int  # 1 where machines can be built on it
    runs: int  # 1 where jobs can run on it as it is
    problem: str  # why nothing can run there now, "" for nothing
    fault: str  # `leasehold.jobs.job.Fault`, as which that counts, "" where it is none
    seen_ms: int
    first_ms: int  # when it was seen for the first time
    failures: int  # how often it failed since
    failed_ms: int | None  # when last
    charged: float  # how many failures it is charged with, parts of one where it may have been another node
    watched_ms: int  # for how long it was seen well
    well_ms: int  # when it was last seen well, -1 while it is not


class ImageRow(TypedDict):
    """An image at a site; or one that is being built, or could not be, whose ``site`` is ""."""

    name: str
    site: str
    software: str  # JSON, a list of [name, version]
    packages: str  # JSON, a list of [name, version]: what is being built into it
    size_bytes: int
    least_memory_mib: int
    state: str  # there, building or failed
    problem: str  # why it could not be built
    since_ms: int  # since when it stands so
    seen_ms: int
