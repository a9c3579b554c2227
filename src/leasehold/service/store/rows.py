"""What the store keeps: each kind of row is declared here once, and its table derives from that.

All times are Unix milliseconds, and -1 (UNPLANNED) where a row has none yet. What changes a row writes the
migration that makes its table so (``migrations/versions``); a test compares the two.
"""

from dataclasses import dataclass
from typing import Annotated

from sqlalchemy import Column, Identity, Index
from sqlalchemy import text as sql

from leasehold.jobs.job import Attempt, JobRecord, JobState
from leasehold.matching.devices import Devices
from leasehold.matching.software import Installed
from leasehold.model.agreement import Breach, Penalty
from leasehold.model.coallocation import CoAllocation
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.service.drivers.protocol import NO_CONSTRAINTS, Order, PlacementConstraints
from leasehold.service.drivers.staging import NO_FILES, JobFiles
from leasehold.service.store.mapping import INDEXED, KEY, METADATA, TABLES, UNIQUE, WHOLE, RecordTable, Sql

metadata = METADATA
Claims = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class LeaseMetadata:
    """What is known of a lease besides what decisions are made with.

    ``origin``    the gateway that sent it here, "" for a request made here; ``origin_id`` is its number there
    ``reason``    the last one given, and in ``breach`` the rule of an agreement that it is about
    ``end_ms``    when it was over, None while it is not
    ``native_job``   what the site's own scheduler calls the job that this stands for, "" for a lease of ours
    ``coallocation_id``  the co-allocation of which this is a component
    ``job_id``    the job of which this is an attempt, and in ``constraints`` what its machines are to be
    ``notify``    how its guest is told before it is preempted, as in `leasehold.service.drivers.protocol.Order`
    ``files``     what its command reads and leaves behind
    ``project``   its user's label for accounting
    ``ssh_key``   the public key by which its user logs in to its machines
    ``onward``    the gateways beyond its peer that it went on to, nearest first
    ``reported``  what its gateway was last told of it, where it came from one; not kept
    """

    name: str = ""
    command: tuple[str, ...] = ()
    origin: str = ""
    origin_id: int = 0
    reason: str = ""
    end_ms: int | None = None
    native_job: str = ""
    breach: Breach | None = None
    coallocation_id: int | None = None
    job_id: int | None = None
    constraints: PlacementConstraints = NO_CONSTRAINTS
    files: JobFiles = NO_FILES
    project: str = ""
    notify: str = ""
    ssh_key: str = ""
    onward: tuple[str, ...] = ()
    reported: str = ""

    def say(self, reason: Reason, breach: Breach | None = None) -> None:
        """Give a reason in place of the last one."""
        self.reason, self.breach = reason.value, breach


class EqualAsWritten:
    """Rows of objects that are each equal to nothing else; two rows are equal if they are written alike."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # what is in them changes

    def __eq__(self, other: object) -> bool:
        """Whether both are rows of one table, with the same values."""
        if type(other) is not type(self):
            return NotImplemented
        table = TABLES[type(self)]
        return table.values(self) == table.values(other)


@dataclass(slots=True, eq=False)
class LeaseRow(EqualAsWritten):
    """One lease: as decisions are made with it, and what else is known of it."""

    lease: Lease
    metadata: LeaseMetadata


@dataclass(slots=True, eq=False)
class CoAllocationRow(EqualAsWritten):
    """One co-allocation, as decisions are made with it; its leases have the name and the command, too."""

    coallocation: CoAllocation
    name: str
    command: tuple[str, ...]


@dataclass(slots=True)
class JournalRow:
    """One line of what happened; ``seq`` counts up and is never used twice."""

    seq: Annotated[int, KEY]
    at_ms: int
    lease_id: Annotated[int | None, Sql(references="leases.id")]
    consumer: str  # of the lease
    group: str
    site: str
    what: str  # submitted, an Outcome, suspending, saved, resuming, migrating, continues, closed, extended, ...
    state: str  # of the lease afterwards
    reason: str
    rule: str
    detail: str  # JSON object
    job_id: int | None  # the job that it is about, or of whose attempt the lease is


@dataclass(slots=True)
class OrderRow:
    """One order in the outbox; ``status`` is pending, taken (by the driver), confirmed, or dropped."""

    order: Order
    site: str
    status: str
    attempts: int
    next_try_ms: int
    problem: str
    created_ms: int


@dataclass(slots=True)
class IdempotencyRow:
    """The lease or job that a consumer will get again for the same Idempotency-Key; jobs have their keys apart."""

    consumer: Annotated[str, KEY]
    key: Annotated[str, KEY]
    of_job: Annotated[bool, KEY]
    request_hash: str
    lease_id: Annotated[int | None, Sql(references="leases.id")]
    job_id: Annotated[int | None, Sql(references="jobs.id")]
    created_ms: Annotated[int, INDEXED]


@dataclass(slots=True)
class TokenRow:
    """A token that was given out; ``hash`` is all that is kept of its secret."""

    id: Annotated[str, KEY]
    hash: Annotated[str, UNIQUE]
    consumer: str
    roles: str  # words parted by spaces, as are the next two
    groups: str
    sites: str
    note: str
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None


@dataclass(slots=True)
class SiteRow:
    """The stored state of one site: whether it is drained, and by whom."""

    name: Annotated[str, KEY]
    drained_ms: int | None
    drained_by: str
    note: str


@dataclass(slots=True)
class PeerRow:
    """One gateway that requests are exchanged with."""

    name: Annotated[str, KEY]
    url: str  # where it is called, so that it can ask us; "" where we lend it nothing
    ask: str  # when we ask it, `leasehold.gateway.peering.AskWhen`
    max_vms: int | None  # most VMs that it may have here at a time
    max_hops: int  # most hops in all of requests that are exchanged with it
    line: str  # generated when it was added: a peer added again starts with new message numbers
    added_ms: int
    added_by: str


@dataclass(slots=True)
class AgreementRow:
    """One agreement with its life so far, `leasehold.sharing.records.Record`; a name is never given again."""

    name: Annotated[str, KEY]
    revision: int
    document: str  # JSON, the keys of `leasehold.configuration.agreements`: what holds, or is proposed
    drawn_up_ms: int
    drawn_up_by: str
    signatures: str  # JSON, the signatures of this revision by side
    amendment: str  # JSON, the next revision, not yet signed by both; "" for none
    revisions: int  # how many were ever drawn up
    standing: str
    since_ms: int
    since_by: str
    published: bool
    note: str
    held: str  # JSON, when it was in force by itself, and on which terms


@dataclass(slots=True)
class PenaltyRow:
    """A punishment that was imposed; ``id`` counts up."""

    id: Annotated[int, KEY]
    penalty: Penalty
    lease_id: int  # the lease that broke the rule
    lifted_ms: int | None = None
    lifted_by: str = ""


@dataclass(slots=True)
class UsageRow:
    """A time in which a lease held machines, from ``begin_ms`` until before ``end_ms``."""

    lease_id: Annotated[int, KEY]
    begin_ms: Annotated[int, KEY]
    end_ms: Annotated[int, INDEXED]
    consumer: str
    group: str
    path: str  # on whose account: VO, groups, consumer
    site: str
    domain: str  # the virtual domain of that site at that time, "" for none
    vms: int  # slots: cores at a site that is planned by nodes
    memory_mib: int  # of each VM
    claims: Claims  # as of the lease, its GPUs included, and its memory where slots are not VMs
    is_local: bool  # a request of the site's own users


@dataclass(slots=True)
class MessageRow:
    """One message to an endpoint, kept until it was acknowledged; ``seq`` counts up for each endpoint."""

    endpoint: Annotated[str, KEY]
    seq: Annotated[int, KEY]
    body: str  # JSON
    created_ms: int


@dataclass(slots=True, eq=False)
class JobRow(EqualAsWritten):
    """One job: what was asked for, and where it is in its life; its attempts are rows of their own."""

    record: JobRecord
    exit_status: int | None = None  # of the attempt whose result is the job's


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How the command of an attempt ended, while its output is still to be fetched."""

    exit_status: int
    detail: str = ""


@dataclass(slots=True, eq=False)
class AttemptRow(EqualAsWritten):
    """One try to run a job; ``lease_id`` is None for a place that is only kept ready."""

    job_id: Annotated[int, Sql(key=True, references="jobs.id")]
    attempt: Attempt
    site: str
    lease_id: Annotated[int | None, Sql(references="leases.id")] = None
    end: CommandEnd | None = None


StoredJob = tuple[JobRow, list[AttemptRow]]
"""A job with its attempts, in their order."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file that a job has left behind; ``problem`` says why it is not kept, where it is not."""

    name: str
    sha256: str = ""
    size_bytes: int = 0
    problem: str = ""


@dataclass(slots=True)
class OutputRow:
    """What the command of an attempt wrote: to its standard output, and to its standard error."""

    job_id: Annotated[int, Sql(key=True, references="jobs.id")]
    number: Annotated[int, KEY]
    text: str
    error: str
    files: tuple[OutputFile, ...]
    is_whole: bool
    fetched_ms: int
    consumer: str
    size_bytes: int


@dataclass(slots=True)
class NodeRow:
    """A node as it was last seen."""

    name: Annotated[str, KEY]  # site/node
    site: str
    cores: int
    memory_mib: int
    disk_mib: int
    free_cores: int
    free_memory_mib: int
    free_disk_mib: int
    cpu_mhz: int
    bytes_per_s: int  # 0 where that is not known
    software: Installed
    is_host: bool  # machines can be built on it
    runs: bool  # jobs can run on it as it is
    takes_files: bool  # files can be brought to it and kept from it
    gpu_model: str  # of all of its GPUs, "" where it has none
    gpus: int
    gpu_shares: int  # in how many each of them is lent, as `leasehold.model.resources.NodeResources` has it
    free_gpus: Devices  # what is unused of each
    problem: str  # why nothing can run there now, "" for nothing
    fault: str  # `leasehold.jobs.job.Fault`, as which that counts, "" where it is none
    seen_ms: int
    first_ms: int  # when it was seen for the first time
    failures: int  # how often it failed since
    failed_ms: int | None  # when last
    charged: float  # how many failures it is charged with, parts of one where it may have been another node
    watched_ms: int  # for how long it was seen well
    well_ms: int  # when it was last seen well, -1 while it is not
    listing: int  # in which listing the manager of its site told it, 0 where it was seen here


@dataclass(slots=True)
class ImageRow:
    """An image at a site; or one that is being built, or could not be, whose ``site`` is ""."""

    name: Annotated[str, KEY]
    site: Annotated[str, KEY]
    software: Installed
    packages: Installed  # what is being built into it
    size_bytes: int
    least_memory_mib: int
    state: str  # there, building or failed
    problem: str  # why it could not be built
    since_ms: int  # since when it stands so
    seen_ms: int
    base: str  # the image from which it is built, "" where that is not known
    asked: tuple[tuple[str, str], ...]  # who waits for it: the gateway of this site, or peers, and under which key each


@dataclass(slots=True)
class BuildableRow:
    """A part of what can be built at a site with a manager of its own, or behind a peer, as it was told in one listing.

    ``parts``  of how many; ``base``: from which image, "" where nothing can be built
    """

    site: Annotated[str, KEY]
    listing: Annotated[int, KEY]
    part: Annotated[int, KEY]
    parts: int
    base: str
    packages: Installed


@dataclass(slots=True)
class SnapshotRow:
    """Some state that is written as a whole, as JSON."""

    name: Annotated[str, KEY]
    text: str


@dataclass(slots=True)
class EndpointRow:
    """The numbers of the last message to an endpoint, and of the last one from there that was taken in."""

    endpoint: Annotated[str, KEY]
    last_sent_seq: int
    last_received_seq: int


# --- tables ------------------------------------------------------------------------------------------------

LEASES = RecordTable(
    "leases",
    LeaseRow,
    parts=("lease", "lease.request", "metadata"),
    names={"lease.request.site": "home"},
    without=("metadata.reported",),
    sql={"id": KEY},
)
# Components are leases; what ties them together is here.
COALLOCATIONS = RecordTable(
    "coallocations", CoAllocationRow, parts=("coallocation", "coallocation.request"), sql={"id": KEY}
)
JOURNAL = RecordTable("journal", JournalRow)
ORDERS = RecordTable(
    "orders",
    OrderRow,
    Column("number", WHOLE, Identity(), primary_key=True),  # the order of creation, kept to ourselves
    parts=("order",),
    sql={"id": UNIQUE, "lease_id": Sql(references="leases.id")},
)
IDEMPOTENCY_KEYS = RecordTable("idempotency_keys", IdempotencyRow)
SNAPSHOTS = RecordTable("snapshots", SnapshotRow)
SITES = RecordTable("sites", SiteRow)
# Gateways that requests are exchanged with; their tokens are in files of their own.
PEERS = RecordTable("peers", PeerRow)
# Agreements, their parties and their state; `leasehold.sharing.records.Record`.
AGREEMENTS = RecordTable("agreements", AgreementRow)
PENALTIES = RecordTable("penalties", PenaltyRow, parts=("penalty",))
# A row for each time that a lease held machines, once that is over: all use is summed from it. It outlives
# the lease, so that statements and the windows of agreements stay right.
USAGE = RecordTable("usage", UsageRow)
MESSAGES = RecordTable("messages", MessageRow)
# How far the exchange with each endpoint is; it outlives the messages, which go when acknowledged.
ENDPOINTS = RecordTable("endpoints", EndpointRow)
TOKENS = RecordTable("tokens", TokenRow)
# Each attempt is a lease; what ties them together, and what `leasehold.jobs.job` keeps of it, is here.
JOBS = RecordTable(
    "jobs",
    JobRow,
    parts=("record", "record.request", "record.request.job"),
    names={"record.request.job.job_id": "id", "record.restarts": "restarts_used"},
    without=("record.attempts",),
    sql={"id": KEY},
)
ATTEMPTS = RecordTable("attempts", AttemptRow, parts=("attempt",), sql={"number": KEY})
# What commands wrote: apart from the attempts, which are read more often.
OUTPUTS = RecordTable("outputs", OutputRow)
# What nodes were last seen to be like, and how often they failed.
NODES = RecordTable("nodes", NodeRow)
# Images that sites have, those that are being built, and those that could not be.
IMAGES = RecordTable("images", ImageRow)
# What can be built at sites with managers of their own.
BUILDABLE = RecordTable("buildable", BuildableRow)

# Conditions have the words of the indexes: that is how SQLite knows that it may use these.
_FINAL = ", ".join(f"'{state}'" for state in LeaseState if state.is_final)
_FINAL_JOB = ", ".join(f"'{state}'" for state in JobState if state.is_final)
LIVE = sql(f"state NOT IN ({_FINAL})")
CLOSED = sql(f"state IN ({_FINAL})")
FROM_ELSEWHERE = sql("origin_id > 0")
OPEN = sql("status IN ('pending', 'taken')")
SETTLED = sql("status IN ('confirmed', 'dropped')")
OF_A_COALLOCATION = sql("coallocation_id IS NOT NULL")
OF_A_JOB = sql("job_id IS NOT NULL")
OPEN_JOBS = sql(f"state NOT IN ({_FINAL_JOB})")
CLOSED_JOBS = sql(f"state IN ({_FINAL_JOB})")

leases, journal, orders, jobs = LEASES.c, JOURNAL.c, ORDERS.c, JOBS.c
attempts, outputs = ATTEMPTS.c, OUTPUTS.c
Index("leases_live", leases.id, leases.site, leases.state, sqlite_where=LIVE, postgresql_where=LIVE)
Index("leases_consumer", leases.consumer, leases.id)
Index("leases_origin", leases.origin, leases.origin_id, sqlite_where=FROM_ELSEWHERE, postgresql_where=FROM_ELSEWHERE)
Index("leases_coallocation", leases.coallocation_id, sqlite_where=OF_A_COALLOCATION, postgresql_where=OF_A_COALLOCATION)
Index("journal_lease", journal.lease_id, journal.seq)
Index("journal_job", journal.job_id, journal.seq, sqlite_where=OF_A_JOB, postgresql_where=OF_A_JOB)
Index("orders_open", orders.number, sqlite_where=OPEN, postgresql_where=OPEN)
Index("jobs_open", jobs.id, sqlite_where=OPEN_JOBS, postgresql_where=OPEN_JOBS)
Index("jobs_consumer", jobs.consumer, jobs.id)
Index("attempts_lease", attempts.lease_id)
Index("attempts_site", attempts.site)
Index("outputs_consumer", outputs.consumer, outputs.fetched_ms, outputs.job_id, outputs.size_bytes)
