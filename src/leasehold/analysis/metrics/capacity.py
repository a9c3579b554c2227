"""What the clusters' VM-time was used for, and what preemption cost of it."""

import polars as pl

from leasehold.analysis.metrics.measure import MS_PER_HOUR, Better, Measure, Stage
from leasehold.model.reason import Reason

_IS_GUEST = pl.col("origin") == "external"
_STARTED = pl.col("first_start_ms").is_not_null() & (pl.col("reason") != Reason.CLAIM_RELEASED.value)
_COMPUTATION_VM_MS = pl.col("vms") * pl.col("service_ms")


def _percent(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(part / whole * 100)


def _held_h(key: str, title: str, meaning: str, amount: pl.Expr, better: Better = Better.NEITHER) -> Measure:
    return Measure(key, title, "VM-h", meaning, Stage.SEGMENTS, amount.sum() / MS_PER_HOUR, better)


def _computation_h(key: str, title: str, meaning: str, who: pl.Expr) -> Measure:
    amount = _COMPUTATION_VM_MS.filter(who).sum() / MS_PER_HOUR
    return Measure(key, title, "VM-h", meaning, Stage.LEASES, amount, source="JPDC 2012, eq 22")


def _share(key: str, title: str, meaning: str, part: pl.Expr, whole: pl.Expr, source: str = "") -> Measure:
    return Measure(key, title, "%", meaning, Stage.DERIVED, _percent(part, whole), Better.HIGHER, source)


_LOCAL_HELD = pl.col("held_vm_ms").filter(~_IS_GUEST)
_GUEST_HELD = pl.col("held_vm_ms").filter(_IS_GUEST)

CAPACITY = (
    Measure(
        "vms_preempted",
        "VMs preempted",
        "VMs",
        "VMs that leases gave up to those who come first, each time counted; where it happened.",
        Stage.SEGMENTS,
        pl.col("vms").filter(pl.col("is_preempted")).sum(),
        Better.LOWER,
        "JPDC 2012, section 5.1.1",
    ),
    Measure(
        "preemptions",
        "lease preemptions",
        "",
        "How often a lease gave up its VMs to somebody who comes first, each time counted.",
        Stage.SEGMENTS,
        pl.col("is_preempted").sum().cast(pl.Int64),
        Better.LOWER,
    ),
    Measure(
        "leases_preempted",
        "leases preempted",
        "leases",
        "Leases that gave up their VMs to somebody who comes first at least once.",
        Stage.SEGMENTS,
        pl.col("lease_id").filter(pl.col("is_preempted")).n_unique().cast(pl.Int64),
        Better.LOWER,
    ),
    _held_h("held_vm_h", "VM-time held", "VM-time for which leases held VMs.", pl.col("held_vm_ms")),
    _held_h("local_vm_h", "held by local jobs", "VM-time for which local jobs held VMs.", _LOCAL_HELD),
    _held_h("guest_vm_h", "lent to guests", "VM-time for which guests held VMs.", _GUEST_HELD, Better.HIGHER),
    _held_h(
        "useful_vm_h",
        "useful VM-time",
        "VM-time held less waiting for other components, resuming, moving, and the work of leases that were "
        "terminated or lost.",
        pl.col("useful_vm_ms"),
        Better.HIGHER,
    ),
    _held_h(
        "overhead_vm_h",
        "preemption overhead",
        "VM-time charged for saving, restoring and moving VMs, in equal parts to the preemptions of a lease.",
        pl.col("overhead_vm_ms"),
        Better.LOWER,
    ),
    _computation_h(
        "computation_vm_h",
        "computation time",
        "VMs times undisturbed duration on their cluster, over the leases that started; "
        "claims given back are left out.",
        _STARTED,
    ),
    _computation_h(
        "guest_computation_vm_h",
        "guests' computation time",
        "Computation time of the guests alone.",
        _STARTED & _IS_GUEST,
    ),
    Measure(
        "capacity_vm_h",
        "capacity",
        "VM-h",
        "Slots times the time from the first request to the end of the run.",
        Stage.DERIVED,
        pl.col("slots") * pl.col("span_h"),
    ),
    _share(
        "utilisation_pct",
        "utilisation (eq 21)",
        "100 % less preemption overhead over computation time, of guests and locals; can be negative, and is "
        "not occupancy.",
        pl.col("computation_vm_h") - pl.col("overhead_vm_h"),
        pl.col("computation_vm_h"),
        "JPDC 2012, eq 21",
    ),
    _share(
        "guest_utilisation_pct",
        "utilisation (eq 21), guests only",
        "The same with the guests' computation time alone.",
        pl.col("guest_computation_vm_h") - pl.col("overhead_vm_h"),
        pl.col("guest_computation_vm_h"),
        "JPDC 2012, eq 21",
    ),
    _share(
        "occupancy_pct",
        "occupancy",
        "VM-time held over capacity.",
        pl.col("held_vm_h"),
        pl.col("capacity_vm_h"),
    ),
    _share(
        "useful_occupancy_pct",
        "useful occupancy",
        "Useful VM-time over capacity.",
        pl.col("useful_vm_h"),
        pl.col("capacity_vm_h"),
    ),
    _share(
        "idle_lent_pct",
        "idle time lent",
        "VM-time held by guests over the VM-time that local jobs left idle.",
        pl.col("guest_vm_h"),
        pl.col("capacity_vm_h") - pl.col("local_vm_h"),
    ),
)
