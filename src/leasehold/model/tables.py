"""The tables of a run folder: which columns they have, of which type, and where nothing may be missing.

Written by the simulation, read by the analysis, so that both mean the same. Plain data, no table
library: a column is ``i64``, ``str`` or ``bool``. Times are milliseconds since the start of the run,
sizes are VMs, costs are VM-milliseconds.
"""

SCHEMA_VERSION = 1

MANIFEST = "manifest.json"

SITES_SCHEMA: dict[str, str] = {
    "site": "str",
    "slots": "i64",
    "speed_mips": "i64",
    "reference_mips": "i64",
    "local_policy": "str",
    "guest_policy": "str",
    "victims": "str",
    "local_queue": "str",
    "non_preemptable_share_vms": "i64",
}
"""One row for each cluster; ``non_preemptable_share_vms`` is null where nothing is capped."""

LEASES_SCHEMA: dict[str, str] = {
    "lease_id": "i64",
    "source": "str",
    "source_id": "str",
    "consumer": "str",
    "origin": "str",
    "home": "str",
    "lease_type": "str",
    "vms": "i64",
    "requested_ms": "i64",
    "actual_ms": "i64",
    "memory_mib": "i64",
    "submit_ms": "i64",
    "ready_ms": "i64",
    "deadline_ms": "i64",
    "site": "str",
    "state": "str",
    "reason": "str",
    "first_start_ms": "i64",
    "end_ms": "i64",
    "preemptions": "i64",
    "migrations": "i64",
    "overhead_vm_ms": "i64",
    "dispatched_ms": "i64",
    "coallocation_id": "i64",
}
"""One row for each request that was read: what was asked (at the reference speed) and how it ended.

``coallocation_id``: the co-allocation of which it is a component.
"""

SEGMENTS_SCHEMA: dict[str, str] = {
    "lease_id": "i64",
    "site": "str",
    "kind": "str",
    "start_ms": "i64",
    "end_ms": "i64",
    "vms": "i64",
    "ended_by": "str",
}
"""One row for each interval in which a lease holds VMs."""

DECISIONS_SCHEMA: dict[str, str] = {
    "seq": "i64",
    "time_ms": "i64",
    "lease_id": "i64",
    "site": "str",
    "outcome": "str",
    "reason": "str",
    "rule": "str",
    "planned_ms": "i64",
    "beneficiary": "i64",
    "victim_set": "i64",
    "set_leases": "i64",
    "set_vms": "i64",
    "needed_vms": "i64",
    "cost_vm_ms": "i64",
    "runner_up": "str",
    "runner_up_leases": "i64",
    "runner_up_cost_vm_ms": "i64",
    "exact": "bool",
    "agreement": "str",
    "provider": "str",
    "account": "str",
    "resource": "str",
    "used": "i64",
    "allowed": "i64",
    "window_ms": "i64",
}
"""One row for each decision, in the order they were made; for a preemption one row for each victim.

From ``agreement`` on: the agreement that is the reason, and its numbers (`leasehold.model.agreement.Breach`).
"""

ADDED: dict[str, frozenset[str]] = {
    "leases": frozenset({"coallocation_id"}),
    "decisions": frozenset({"agreement", "provider", "account", "resource", "used", "allowed", "window_ms"}),
}
"""Columns that run folders of earlier versions do not have: they are read as null."""

BASELINE_SCHEMA: dict[str, str] = {"lease_id": "i64", "start_ms": "i64"}
"""When each local job starts in the same log without guests; only written for a run with guests."""

COALLOCATIONS_SCHEMA: dict[str, str] = {
    "coallocation_id": "i64",
    "source": "str",
    "source_id": "str",
    "consumer": "str",
    "components": "i64",
    "vms": "i64",
    "claim": "str",
    "place": "str",
    "submit_ms": "i64",
    "ready_ms": "i64",
    "started_ms": "i64",
    "ended_ms": "i64",
    "state": "str",
    "reason": "str",
    "idle_vm_ms": "i64",
    "tries": "i64",
}
"""One row for each co-allocation; only written for a run with some.

``vms`` of all components, ``idle_vm_ms`` for which claimed room was held idle.
"""

TABLES: dict[str, dict[str, str]] = {
    "sites": SITES_SCHEMA,
    "leases": LEASES_SCHEMA,
    "segments": SEGMENTS_SCHEMA,
    "decisions": DECISIONS_SCHEMA,
    "baseline": BASELINE_SCHEMA,
    "coallocations": COALLOCATIONS_SCHEMA,
}

OPTIONAL_TABLES = frozenset({"baseline", "coallocations"})

MAY_BE_NULL: dict[str, frozenset[str]] = {
    "sites": frozenset({"non_preemptable_share_vms"}),
    "leases": frozenset(
        {"home", "deadline_ms", "site", "first_start_ms", "end_ms", "dispatched_ms", "coallocation_id"}
    ),
    "segments": frozenset(),
    "decisions": frozenset(DECISIONS_SCHEMA) - {"seq", "time_ms", "lease_id", "outcome", "reason", "rule"},
    "baseline": frozenset(),
    "coallocations": frozenset({"started_ms", "ended_ms"}),
}

ORIGINS = ("local", "external")
SEGMENT_KINDS = ("run", "resume", "migrate", "claim")
SEGMENT_ENDS = ("completed", "killed", "preempted", "cancelled", "phase", "horizon")
"""``phase`` ends a resume, migrate or claim segment that goes over into its run segment there and then."""
