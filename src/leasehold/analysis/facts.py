"""What follows from one lease or one segment alone; every metric is a sum, a mean or a quantile over these.

A *party* holds VMs: ``local``, or the lease type of a guest. Durations of a request are at the
reference speed; ``service_ms`` is the same on the machines of the lease's last cluster.
"""

import polars as pl

PARTIES = ("local", "cancelable", "suspendable", "migratable", "non-preemptable")
GUESTS = PARTIES[1:]
SLOWDOWN_FLOOR_MS = 10_000
"""Bounded slowdown takes shorter leases as ten seconds long, as is usual for workload logs."""

SERVED_STATES = ("completed", "killed")
"""The states of a lease that got all the time it asked for."""

LOST_STATES = ("terminated", "failed")
"""The states of a lease whose work was thrown away."""

LOST_REASONS = (
    "machines-lost",
    "peer-removed",
    "restart-limit-reached",
    "restart-too-late",
    "never-started",
    "component-lost",
)
"""Why leases fail that were not preempted."""

PARTY = pl.when(pl.col("origin") == "local").then(pl.lit("local")).otherwise(pl.col("lease_type"))


LEASE_COLUMNS = (
    "lease_id",
    "origin",
    "home",
    "lease_type",
    "vms",
    "requested_ms",
    "actual_ms",
    "ready_ms",
    "site",
    "state",
    "reason",
    "first_start_ms",
    "end_ms",
    "preemptions",
    "migrations",
    "overhead_vm_ms",
)
"""The columns of leases from which everything here follows."""


def lease_facts(leases: pl.DataFrame, sites: pl.DataFrame) -> pl.DataFrame:
    """Return leases with what follows from each alone; without a site, they count at their home.

    Names become categories, which are small.

    Adds ``party``, ``wait_ms`` (ready to first start), ``served`` (got all its time),
    ``service_ms`` (undisturbed time on its cluster), ``response_ms`` (ready to end), ``slowdown``
    and ``work_vm_ms`` (at the reference speed).
    """
    speeds = sites.lazy().select("site", "speed_mips", "reference_mips")
    granted_ms = pl.min_horizontal("actual_ms", "requested_ms")
    response_ms = pl.when("served").then(pl.col("end_ms") - pl.col("ready_ms"))
    slowdown = pl.col("response_ms") / pl.max_horizontal("service_ms", pl.lit(SLOWDOWN_FLOOR_MS))
    return (
        leases.lazy()
        .with_columns(party=PARTY, site=pl.coalesce("site", "home"), served=pl.col("state").is_in(SERVED_STATES))
        .join(speeds, on="site", how="left", maintain_order="left")
        .with_columns(pl.col("site", "origin", "party", "state", "reason").cast(pl.Categorical))
        .with_columns(
            wait_ms=pl.col("first_start_ms") - pl.col("ready_ms"),
            work_vm_ms=granted_ms * pl.col("vms"),
            service_ms=granted_ms * pl.col("reference_mips") / pl.col("speed_mips"),
            response_ms=response_ms,
        )
        .with_columns(slowdown=pl.when(slowdown.is_not_null()).then(pl.max_horizontal(slowdown, pl.lit(1.0))))
        .collect()
    )


SEGMENT_COLUMNS = ("lease_id", "site", "kind", "start_ms", "end_ms", "vms", "ended_by")
OWNER = ("lease_id", "origin", "party", "state", "preemptions", "overhead_vm_ms")
"""What has to be known of a lease to say what its segments were good for."""


def segment_facts(segments: pl.DataFrame) -> pl.DataFrame:
    """Return segments, joined to their owners, with what they were good for.

    Adds ``held_vm_ms``, ``useful_vm_ms`` (held while working on a lease whose work was not thrown away),
    ``is_preempted`` and ``overhead_vm_ms``: the overhead charged to the lease, in equal parts on each of its
    preemptions, so that a cluster bears what it caused.
    """
    held_vm_ms = (pl.col("end_ms") - pl.col("start_ms")) * pl.col("vms")
    is_useful = (pl.col("kind") == "run") & ~pl.col("state").is_in(LOST_STATES)
    is_preempted = pl.col("ended_by") == "preempted"
    return segments.with_columns(
        held_vm_ms=held_vm_ms,
        useful_vm_ms=pl.when(is_useful).then(held_vm_ms).otherwise(0),
        is_preempted=is_preempted,
        overhead_vm_ms=pl.when(is_preempted).then(pl.col("overhead_vm_ms") / pl.col("preemptions")).otherwise(0.0),
    )
