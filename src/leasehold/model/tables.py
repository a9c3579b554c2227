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


class LogRecord(NamedTuple):
    """One row for each job of a workload log that was read into a table; a negative number: the log does not say.

    Of logs that are read line by line (SWF, GWF) it is one line.
    """

    source_id: Annotated[str, "number or name of the job in the log"]
    never_began: Annotated[bool, "whether it was cancelled before it began"]
    submit_ms: Annotated[int, "submission, in the time of the log: since 1970 where it tells the date"]
    run_ms: Annotated[int, "run time"]
    allocated_vms: Annotated[int, "allocated processors"]
    requested_vms: Annotated[int, "requested processors"]
    requested_ms: Annotated[int, "requested time"]
    memory_mib: Annotated[int, "memory of each processor, in MiB"]
    wait_ms: Annotated[int, "time from submission to start, or to cancellation if it never began"]
    user: Annotated[str, "user; `-1` as in SWF where the log does not say, here and in the next four columns"]
    group: Annotated[str, "group or account"]
    queue: Annotated[str, "queue; of Slurm the QOS"]
    partition: Annotated[str, "partition"]
    site: Annotated[str, "site or cluster"]
    nodes: Annotated[int, "nodes"] = -1
    gpu_model: Annotated[str, "model of its GPUs; empty: none, or any model"] = ""
    gpu_milli: Annotated[int, "GPUs of all its nodes together, in thousandths"] = -1


class SiteTableRow(NamedTuple):
    """One row for each cluster."""

    site: Annotated[str, "name"]
    slots: Annotated[int, "VMs that run at a time"]
    speed_mips: Annotated[int, "speed of each slot"]
    reference_mips: Annotated[int, "speed to which requested and actual times refer"]
    local_policy: Annotated[str, "discipline for local requests"]
    guest_policy: Annotated[str, "discipline for guests"]
    victims: Annotated[str, "victim policy, with `by-value:` if less valuable types are preempted first"]
    local_queue: Annotated[str, "treatment of a local request that cannot start at once: `queue` or `refuse`"]
    non_preemptable_share_vms: Annotated[
        int | None,
        "maximum number of VMs of Non-preemptable guests; empty without a limit",
    ]


class LeaseTableRow(NamedTuple):
    """One row for each request that was read: what was asked (at the reference speed) and how it ended."""

    lease_id: Annotated[
        int,
        "ID of the request in this run, from 1 in order of submission; a co-allocation uses as many as its "
        "components may need",
    ]
    source: Annotated[str, "stream of the request"]
    source_id: Annotated[str, "number of the request in the log or stream"]
    consumer: Annotated[str, "consumer of the request"]
    origin: Annotated[str, "`local` or `external`"]
    home: Annotated[str | None, "home cluster of a local request; empty for guests"]
    lease_type: Annotated[str, "`cancelable`, `suspendable`, `migratable` or `non-preemptable`"]
    vms: Annotated[int, "requested VMs"]
    requested_ms: Annotated[int, "requested time, at the reference speed"]
    actual_ms: Annotated[int, "actual time of the work, at the reference speed"]
    memory_mib: Annotated[int, "memory of each VM, in MiB"]
    submit_ms: Annotated[int, "submission time"]
    ready_ms: Annotated[int, "ready time: earliest start"]
    deadline_ms: Annotated[int | None, "deadline; may be empty"]
    site: Annotated[str | None, "last site on which it was planned or ran; empty without one"]
    state: Annotated[str, "last [state](../specs/lease-states.md)"]
    reason: Annotated[str, "[reason](reasons.md) of that state; `horizon-reached` if it did not end"]
    first_start_ms: Annotated[int | None, "time at which it first held VMs; empty if it never did"]
    end_ms: Annotated[int | None, "time of its final state; empty if the run ended first"]
    preemptions: Annotated[int, "number of preemptions"]
    migrations: Annotated[int, "number of migrations"]
    overhead_vm_ms: Annotated[int, "overhead charged for preemptions and migrations"]
    dispatched_ms: Annotated[int | None, "time at which the gateway sent it to a site; empty if it did not"]
    restarts: Annotated[
        int | None,
        "number of times that it began again after its machines were lost; empty in folders of earlier versions",
        LATER,
    ]
    coallocation_id: Annotated[
        int | None,
        "co-allocation of which it is a component; empty for other leases and in folders of earlier versions",
        LATER,
    ]


class SegmentTableRow(NamedTuple):
    """One row for each interval in which a lease holds VMs."""

    lease_id: Annotated[int, "lease"]
    site: Annotated[str, "site"]
    kind: Annotated[
        str,
        "`run`; `resume` or `migrate`: overhead before its work continues; `claim`: a component holds machines "
        "idle until the others have theirs; `start`: its machines were ordered, and are not there yet",
    ]
    start_ms: Annotated[int, "start"]
    end_ms: Annotated[int, "end"]
    vms: Annotated[int, "VMs"]
    ended_by: Annotated[
        str,
        "`completed`, `killed`, `preempted`, `cancelled`, `failed` (its machines were lost), `phase` (continues in the "
        "next segment) or `horizon`",
    ]


class DecisionTableRow(NamedTuple):
    """One row for each decision, in the order they were made; for a preemption one row for each victim.

    Columns from ``beneficiary`` to ``exact`` are of preemptions only, those from ``agreement`` on of decisions of which
    an agreement is the reason (`leasehold.model.agreement.Breach`).
    """

    seq: Annotated[int, "position in the order of decisions"]
    time_ms: Annotated[int, "time of the decision"]
    lease_id: Annotated[int, "lease that it concerns"]
    site: Annotated[str | None, "site; empty at the gateway"]
    outcome: Annotated[str, "`dispatch`, `hold`, `refuse`, `wait`, `start`, `preempt` or `move`"]
    reason: Annotated[str, "[reason](reasons.md), from a closed list"]
    rule: Annotated[str, "policy or rule that made the decision"]
    planned_ms: Annotated[
        int | None,
        "reserved start of a waiting lease, or when its agreement may let it resume; empty where neither is known",
    ]
    beneficiary: Annotated[
        int | None,
        "lease that took the room: a local request, or a Non-preemptable guest at its reserved start",
    ] = None
    victim_set: Annotated[
        int | None,
        "number of the choice, equal to the ID of its beneficiary; all its victims of one time have the same",
    ] = None
    set_leases: Annotated[int | None, "number of leases in the chosen set"] = None
    set_vms: Annotated[int | None, "number of VMs of these leases"] = None
    needed_vms: Annotated[int | None, "number of missing VMs"] = None
    cost_vm_ms: Annotated[
        int | None,
        "[cost](semantics.md#what-a-preemption-costs) of the whole set, by which it was chosen",
    ] = None
    runner_up: Annotated[str | None, "second-best set, as lease IDs joined by `+`"] = None
    runner_up_leases: Annotated[int | None, "number of leases in that set"] = None
    runner_up_cost_vm_ms: Annotated[int | None, "cost of that set"] = None
    exact: Annotated[bool | None, "whether the optimum of the policy [was found](../explanation/victims.md)"] = None
    agreement: Annotated[
        str | None,
        "[agreement](agreements.md) that is the reason; empty if an agreement or a resource is missing",
        LATER,
    ] = None
    provider: Annotated[str | None, "provider of the resource", LATER] = None
    account: Annotated[str | None, "consumer whose use is limited", LATER] = None
    resource: Annotated[str | None, "resource", LATER] = None
    used: Annotated[
        int | None,
        "actual or projected use: a share in millionths of the provider's units, units, or a duration in milliseconds",
        LATER,
    ] = None
    allowed: Annotated[int | None, "allowed use, in the same unit", LATER] = None
    window_ms: Annotated[int | None, "window over which use is measured; 0 for current use", LATER] = None


class BaselineTableRow(NamedTuple):
    """When each local job starts in the same log without guests; only written for a run with guests."""

    lease_id: Annotated[int, "local job"]
    start_ms: Annotated[int, "start without guests"]


class CoAllocationTableRow(NamedTuple):
    """One row for each co-allocation; only written for a run with some."""

    coallocation_id: Annotated[int, "number of the co-allocation in this run, from 1 in order of submission"]
    source: Annotated[str, "stream of the request"]
    source_id: Annotated[str, "number of the request in the log or stream"]
    consumer: Annotated[str, "consumer of the request"]
    components: Annotated[int, "number of components"]
    vms: Annotated[int, "VMs of all components"]
    claim: Annotated[str, "`incremental` or `reservation`"]
    place: Annotated[str, "placement policy"]
    submit_ms: Annotated[int, "submission time"]
    ready_ms: Annotated[int, "ready time: earliest start"]
    started_ms: Annotated[int | None, "time at which all components began to run; empty if they never did"]
    ended_ms: Annotated[int | None, "time of its end; empty if the run ended first"]
    state: Annotated[
        str,
        "`completed`, `refused`, `failed` or `cancelled`, or the state at the end of the run: `held`, "
        "`placed`, `reserved` or `running`",
    ]
    reason: Annotated[str, "[reason](reasons.md) of that state"]
    idle_vm_ms: Annotated[
        int,
        "VM-milliseconds for which claimed machines were held idle, including failed tries: the sum of its "
        "`claim` segments",
    ]
    tries: Annotated[
        int, "number of placements of all components; for a reservation, number of starts that were given up"
    ]


class NodeTableRow(NamedTuple):
    """One row for each node of a cluster that is planned by nodes; only written for a run with such clusters."""

    site: Annotated[str, "cluster"]
    node: Annotated[str, "name"]
    cores: Annotated[int, "cores"]
    memory_mib: Annotated[int, "memory, in MiB"]
    gpu_model: Annotated[str | None, "model of its GPUs; empty without any"]
    gpus: Annotated[int, "number of its GPUs"]
    gpu_shares: Annotated[int, "number of parts in which each of them can be lent"]


class MachineTableRow(NamedTuple):
    """One row for each lease whose VMs need more than a slot; only written for a run with such leases."""

    lease_id: Annotated[int, "lease"]
    cores: Annotated[int, "cores of each VM"]
    gpu_model: Annotated[str | None, "model of its GPUs; empty for any model, and without GPUs"]
    gpu_milli: Annotated[int, "GPUs of each VM, in thousandths"]


class PlacementTableRow(NamedTuple):
    """One row for each interval in which a lease holds VMs of one node; only written for clusters planned by nodes."""

    lease_id: Annotated[int, "lease"]
    site: Annotated[str, "cluster"]
    node: Annotated[str, "node"]
    start_ms: Annotated[int, "start"]
    end_ms: Annotated[int, "end"]
    vms: Annotated[int, "VMs on this node"]
    cores: Annotated[int, "cores of all of them"]
    memory_mib: Annotated[int, "memory of all of them, in MiB"]
    gpu_model: Annotated[str | None, "model of the GPUs that they have; empty without any"]
    gpu_milli: Annotated[int, "GPUs of all of them, in thousandths, as requested"]
    devices: Annotated[str | None, "numbers of their devices, joined by `+`; a shared one once for each VM"]


ROWS: dict[str, type] = {
    "sites": SiteTableRow,
    "leases": LeaseTableRow,
    "segments": SegmentTableRow,
    "decisions": DecisionTableRow,
    "baseline": BaselineTableRow,
    "coallocations": CoAllocationTableRow,
    "nodes": NodeTableRow,
    "machines": MachineTableRow,
    "placements": PlacementTableRow,
    "log": LogRecord,
}
"""Each table with its rows."""

OPTIONAL_TABLES = frozenset({"baseline", "coallocations", "nodes", "machines", "placements", "log"})

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
SEGMENT_KINDS = ("run", "resume", "migrate", "claim", "start")
SEGMENT_ENDS = ("completed", "killed", "preempted", "cancelled", "failed", "phase", "horizon")
"""``phase`` ends a resume, migrate or claim segment that goes over into its run segment there and then."""
