"""The tables of a run folder: one declaration of each row, from which schemas, nulls and documentation follow.

Written by the simulation, read by the analysis, so that both mean the same. Plain data, no table library: a column is
``i64``, ``str`` or ``bool``, and may be null where its type says None. Times are milliseconds since the start of the
run, sizes are VMs, costs are VM-milliseconds. The annotation of a column is its meaning, as the reference of run
folders shows it.
"""

from types import NoneType, UnionType
from typing import Annotated, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

SCHEMA_VERSION = 1

MANIFEST = "manifest.json"

LATER: Final = "later"
"""Marks a column that run folders of earlier versions do not have: it is read as null."""


class SiteTableRow(NamedTuple):
    """One row for each cluster."""

    site: Annotated[str, "its name"]
    slots: Annotated[int, "VMs that fit at the same time"]
    speed_mips: Annotated[int, "speed of each"]
    reference_mips: Annotated[int, "speed to which requested and actual times refer"]
    local_policy: Annotated[str, "discipline for local requests"]
    guest_policy: Annotated[str, "discipline for guests"]
    victims: Annotated[str, "victim policy, with `by-value:` where less valuable types give way first"]
    local_queue: Annotated[str, "`queue` or `refuse`: what happens to a local request that cannot start at once"]
    non_preemptable_share_vms: Annotated[
        int | None,
        "most VMs that Non-preemptable guests may hold; empty where nothing is capped",
    ]


class LeaseTableRow(NamedTuple):
    """One row for each request that was read: what was asked (at the reference speed) and how it ended."""

    lease_id: Annotated[
        int,
        "number of the request in this run, from 1 in order of submission; a co-allocation takes as many as "
        "its components may need",
    ]
    source: Annotated[str, "stream that it came from"]
    source_id: Annotated[str, "its number in the log or in the stream"]
    consumer: Annotated[str, "who asked"]
    origin: Annotated[str, "`local` or `external`"]
    home: Annotated[str | None, "home cluster of a local request, else empty"]
    lease_type: Annotated[str, "`cancelable`, `suspendable`, `migratable` or `non-preemptable`"]
    vms: Annotated[int, "VMs asked for"]
    requested_ms: Annotated[int, "time asked for, at the reference speed"]
    actual_ms: Annotated[int, "time that the work takes, at the reference speed"]
    memory_mib: Annotated[int, "memory of each VM, MiB"]
    submit_ms: Annotated[int, "when it was asked"]
    ready_ms: Annotated[int, "it cannot start before"]
    deadline_ms: Annotated[int | None, "until when it must have ended; may be empty"]
    site: Annotated[str | None, "where it last was planned or ran; empty where it never was"]
    state: Annotated[str, "its last [state](../specs/lease-states.md)"]
    reason: Annotated[str, "why it ended so: a [reason](reasons.md); `horizon-reached` where it did not end"]
    first_start_ms: Annotated[int | None, "when it first held VMs; empty where it never did"]
    end_ms: Annotated[int | None, "when it became final; empty where the run ended first"]
    preemptions: Annotated[int, "how often it gave way"]
    migrations: Annotated[int, "how often it moved"]
    overhead_vm_ms: Annotated[int, "what it was charged for giving way and moving"]
    dispatched_ms: Annotated[int | None, "when the gateway sent it to a site; empty where it did not"]
    coallocation_id: Annotated[
        int | None,
        "co-allocation of which it is a component; empty for all others, and in folders of earlier versions",
        LATER,
    ]


class SegmentTableRow(NamedTuple):
    """One row for each interval in which a lease holds VMs."""

    lease_id: Annotated[int, "whose"]
    site: Annotated[str, "where"]
    kind: Annotated[
        str,
        "`run`, or `resume` and `migrate` for the overhead before its work goes on, or `claim`: a component "
        "holds machines idle until the others have theirs",
    ]
    start_ms: Annotated[int, "from when"]
    end_ms: Annotated[int, "until when"]
    vms: Annotated[int, "how many"]
    ended_by: Annotated[
        str,
        "`completed`, `killed`, `preempted`, `cancelled`, `phase` (goes over into the next segment) or `horizon`",
    ]


class DecisionTableRow(NamedTuple):
    """One row for each decision, in the order they were made; for a preemption one row for each victim.

    Columns from ``beneficiary`` to ``exact`` are of preemptions only, those from ``agreement`` on of decisions of which
    an agreement is the reason (`leasehold.model.agreement.Breach`).
    """

    seq: Annotated[int, "order"]
    time_ms: Annotated[int, "when"]
    lease_id: Annotated[int, "about whom"]
    site: Annotated[str | None, "where; empty at the gateway"]
    outcome: Annotated[str, "`dispatch`, `hold`, `refuse`, `wait`, `start`, `preempt` or `move`"]
    reason: Annotated[str, "[why](reasons.md), from a closed list"]
    rule: Annotated[str, "policy or rule that decided"]
    planned_ms: Annotated[int | None, "start that was promised to one that waits; empty without a promise"]
    beneficiary: Annotated[
        int | None,
        "lease that took the room: a local request, or a Non-preemptable guest whose promised time has come",
    ] = None
    victim_set: Annotated[
        int | None,
        "number of the choice, which is that of its beneficiary; all its victims share it",
    ] = None
    set_leases: Annotated[int | None, "leases of the chosen set"] = None
    set_vms: Annotated[int | None, "their VMs"] = None
    needed_vms: Annotated[int | None, "VMs that were missing"] = None
    cost_vm_ms: Annotated[
        int | None,
        "[cost](semantics.md#what-a-preemption-costs) of the whole set, as it was chosen by",
    ] = None
    runner_up: Annotated[str | None, "second-best set, as lease numbers joined by `+`"] = None
    runner_up_leases: Annotated[int | None, "its leases"] = None
    runner_up_cost_vm_ms: Annotated[int | None, "its cost"] = None
    exact: Annotated[bool | None, "whether the policy's own optimum [was found](../explanation/victims.md)"] = None
    agreement: Annotated[
        str | None,
        "[agreement](agreements.md) that is the reason; empty where one is missing, or a resource",
        LATER,
    ] = None
    provider: Annotated[str | None, "whose resources it is about", LATER] = None
    account: Annotated[str | None, "whose use it is about", LATER] = None
    resource: Annotated[str | None, "which resource", LATER] = None
    used: Annotated[
        int | None,
        "what was used, or would be: millionths of what the provider has for a share, units, or milliseconds "
        "for a length",
        LATER,
    ] = None
    allowed: Annotated[int | None, "what is allowed, in the same unit", LATER] = None
    window_ms: Annotated[int | None, "over which the use was looked at; 0 where it is about this moment", LATER] = None


class BaselineTableRow(NamedTuple):
    """When each local job starts in the same log without guests; only written for a run with guests."""

    lease_id: Annotated[int, "a local job"]
    start_ms: Annotated[int, "when it starts without guests"]


class CoAllocationTableRow(NamedTuple):
    """One row for each co-allocation; only written for a run with some."""

    coallocation_id: Annotated[int, "number of the co-allocation in this run, from 1 in order of submission"]
    source: Annotated[str, "stream that it came from"]
    source_id: Annotated[str, "its number in the log or in the stream"]
    consumer: Annotated[str, "who asked"]
    components: Annotated[int, "how many it has"]
    vms: Annotated[int, "VMs of all of them"]
    claim: Annotated[str, "`incremental` or `reservation`"]
    place: Annotated[str, "placement policy"]
    submit_ms: Annotated[int, "when it was asked"]
    ready_ms: Annotated[int, "it cannot start before"]
    started_ms: Annotated[int | None, "when all components began their work; empty where they never did"]
    ended_ms: Annotated[int | None, "when it was over; empty where the run ended first"]
    state: Annotated[
        str,
        "`completed`, `refused`, `failed` or `cancelled`, or where it was when the run ended: `held`, "
        "`placed`, `reserved` or `running`",
    ]
    reason: Annotated[str, "why: a [reason](reasons.md)"]
    idle_vm_ms: Annotated[
        int,
        "VM-milliseconds for which claimed machines were held idle, failed tries included: what its `claim` "
        "segments add up to",
    ]
    tries: Annotated[int, "how often all of it was placed; of a reservation, how often a start had to be given up"]


ROWS: dict[str, type] = {
    "sites": SiteTableRow,
    "leases": LeaseTableRow,
    "segments": SegmentTableRow,
    "decisions": DecisionTableRow,
    "baseline": BaselineTableRow,
    "coallocations": CoAllocationTableRow,
}
"""Each table with its rows."""

OPTIONAL_TABLES = frozenset({"baseline", "coallocations"})

_KINDS = {int: "i64", str: "str", bool: "bool"}


class TableColumn(NamedTuple):
    """A column as its row declares it."""

    name: str
    kind: str
    may_be_null: bool
    meaning: str
    is_later: bool


def _columns(row: type) -> tuple[TableColumn, ...]:
    found = []
    for name, hint in get_type_hints(row, include_extras=True).items():
        declared, meaning, *marks = get_args(hint)
        types = get_args(declared) if get_origin(declared) in {Union, UnionType} else (declared,)
        (kind,) = (_KINDS[one] for one in types if one is not NoneType)
        found.append(TableColumn(name, kind, NoneType in types, meaning, LATER in marks))
    return tuple(found)


COLUMNS: dict[str, tuple[TableColumn, ...]] = {table: _columns(row) for table, row in ROWS.items()}

TABLES: dict[str, dict[str, str]] = {
    table: {column.name: column.kind for column in columns} for table, columns in COLUMNS.items()
}
"""By table and column: its kind."""

MAY_BE_NULL: dict[str, frozenset[str]] = {
    table: frozenset(column.name for column in columns if column.may_be_null) for table, columns in COLUMNS.items()
}

ADDED: dict[str, frozenset[str]] = {
    table: frozenset(column.name for column in columns if column.is_later) for table, columns in COLUMNS.items()
}
"""Columns that run folders of earlier versions do not have: they are read as null."""

ORIGINS = ("local", "external")
SEGMENT_KINDS = ("run", "resume", "migrate", "claim")
SEGMENT_ENDS = ("completed", "killed", "preempted", "cancelled", "phase", "horizon")
"""``phase`` ends a resume, migrate or claim segment that goes over into its run segment there and then."""
