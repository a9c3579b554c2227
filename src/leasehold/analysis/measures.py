"""What is measured in a run: how leases ended, how long they waited, what capacity was used, co-allocations.

A `Measure` is a formula over the tables with its title, unit and meaning; the page of metrics is written from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from leasehold.analysis.facts import LOST_REASONS, lease_facts, segment_facts
from leasehold.analysis.run import Run
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason

MS_PER_HOUR = 3_600_000


class Stage(StrEnum):
    """What a formula is taken over."""

    LEASES = "leases"
    SEGMENTS = "segments"
    COALLOCATIONS = "coallocations"
    DERIVED = "derived"


class Better(StrEnum):
    """Which direction is welcome, where one is."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number about a run, a cluster or a party.

    ``key`` ends in its unit where it has one; ``stage`` says what ``formula`` is evaluated over: the
    leases or the segments of a group (`leasehold.analysis.facts`), the co-allocations of a run, or the
    measures already made of it. ``source`` cites where a definition comes from.
    """

    key: str
    title: str
    unit: str
    meaning: str
    stage: Stage
    formula: pl.Expr
    better: Better = Better.NEITHER
    source: str = ""


def measure(run: Run, measures: Sequence[Measure], by: Sequence[str]) -> pl.DataFrame:
    """Evaluate measures for each group of ``by``, a choice of ``run``, ``site``, ``origin``, ``party``.

    A lease counts at the cluster where it was last; a segment counts where it was held.
    """
    leases = _of_stage(lease_facts(run), measures, Stage.LEASES, by)
    segments = _of_stage(segment_facts(run), measures, Stage.SEGMENTS, by)
    groups = leases.join(segments, on=by, how="full", coalesce=True).drop_nulls(list(by))
    counted = [m.key for m in measures if m.stage is Stage.SEGMENTS or m.unit == "leases"]
    frame = groups.with_columns(pl.col(counted).fill_null(0))
    return _with_derived(_with_capacity(run, frame), measures).sort(by)


def _of_stage(facts: pl.DataFrame, measures: Sequence[Measure], stage: Stage, by: Sequence[str]) -> pl.DataFrame:
    # In order, so that sums of floats come out the same every time.
    return facts.group_by(by, maintain_order=True).agg(m.formula.alias(m.key) for m in measures if m.stage is stage)


def _with_capacity(run: Run, frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``slots`` (of the group's own cluster, or of all of them) and ``span_h``."""
    if "site" in frame.columns:
        frame = frame.join(run.sites.select("site", "slots"), on="site", how="left")
    else:
        frame = frame.with_columns(slots=pl.lit(run.sites["slots"].sum()))
    return frame.with_columns(span_h=pl.lit(run.span_ms / MS_PER_HOUR))


def _with_derived(frame: pl.DataFrame, measures: Sequence[Measure]) -> pl.DataFrame:
    """Add the derived measures one after the other: each may depend on those before it."""
    for m in measures:
        if m.stage is Stage.DERIVED:
            frame = frame.with_columns(m.formula.alias(m.key))
    return frame


_STATE = pl.col("state")
_IS_MIGRATABLE = pl.col("party") == "migratable"
_IS_NON_PREEMPTABLE_GUEST = pl.col("party") == "non-preemptable"
_FINAL_STATES = [state.value for state in LeaseState if state.is_final]


def _percent_of(matching: pl.Expr, among: pl.Expr) -> pl.Expr:
    """Return how many percent of the leases ``among`` are ``matching`` too; null where there are none."""
    return matching.filter(among).mean() * 100


def _count(key: str, title: str, meaning: str, matching: pl.Expr, better: Better = Better.NEITHER) -> Measure:
    return Measure(key, title, "leases", meaning, Stage.LEASES, matching.sum().cast(pl.Int64), better)


OUTCOMES = (
    _count("leases", "leases", "Requests that were read.", pl.col("lease_id").is_not_null()),
    _count("started", "started", "Leases that held VMs at least once.", pl.col("first_start_ms").is_not_null()),
    _count("completed", "completed", "Leases that ran to their end.", _STATE == "completed", Better.HIGHER),
    _count(
        "killed",
        "ended at requested time",
        "Leases that reached their requested time.",
        _STATE == "killed",
    ),
    _count(
        "terminated",
        "terminated",
        "Cancelable leases that ended because they were preempted.",
        _STATE == "terminated",
        Better.LOWER,
    ),
    _count(
        "failed",
        "deadline lost",
        "Preempted leases that no cluster could finish before their deadline.",
        (_STATE == "failed") & ~pl.col("reason").is_in(LOST_REASONS),
        Better.LOWER,
    ),
    _count(
        "machines_lost",
        "machines lost",
        "Leases that failed with their nodes, or whose machines never started.",
        (_STATE == "failed") & pl.col("reason").is_in(LOST_REASONS),
        Better.LOWER,
    ),
    _count("cancelled", "cancelled", "Leases that their users cancelled.", _STATE == "cancelled"),
    _count("refused", "refused", "Leases that were never accepted.", _STATE == "refused", Better.LOWER),
    _count(
        "locals_refused",
        "local jobs refused",
        "Local jobs that their own cluster refused.",
        (_STATE == "refused") & (pl.col("party") == "local"),
        Better.LOWER,
    ),
    _count(
        "unfinished",
        "unfinished",
        "Leases without a final state at the end of the simulated time.",
        ~_STATE.is_in(_FINAL_STATES),
    ),
    Measure(
        "migration_rate_pct",
        "migration rate",
        "%",
        "Share of the Migratable leases that were migrated at least once.",
        Stage.LEASES,
        _percent_of(pl.col("migrations") > 0, _IS_MIGRATABLE),
        Better.LOWER,
        "JPDC 2012, section 5.1.1",
    ),
    Measure(
        "migratable_unserved_pct",
        "Migratable refused or lost",
        "%",
        "Share of the Migratable leases that were refused, or lost their deadline after a preemption.",
        Stage.LEASES,
        _percent_of(_STATE.is_in(["refused", "failed"]), _IS_MIGRATABLE),
        Better.LOWER,
    ),
    Measure(
        "non_preemptable_rejection_pct",
        "Non-preemptable rejection rate",
        "%",
        "Share of the guests' Non-preemptable leases that were refused.",
        Stage.LEASES,
        _percent_of(_STATE == "refused", _IS_NON_PREEMPTABLE_GUEST),
        Better.LOWER,
        "JPDC 2012, sections 5.1.1 and 5.3.4",
    ),
)


MS_PER_S = 1_000

_WAIT_S = pl.col("wait_ms") / MS_PER_S
_DELAY_S = pl.col("delay_ms") / MS_PER_S
_IS_BEST_EFFORT_SERVED = pl.col("party").is_in(["cancelable", "suspendable"]) & pl.col("served")


def _weighted_response_s() -> pl.Expr:
    """Equation 23: the response time of served best-effort guests, weighted by VMs times duration."""
    work = pl.col("work_vm_ms").filter(_IS_BEST_EFFORT_SERVED)
    weighted = (pl.col("work_vm_ms") * (pl.col("response_ms") / MS_PER_S)).filter(_IS_BEST_EFFORT_SERVED)
    total = work.sum()
    return pl.when(total > 0).then(weighted.sum() / total)


def _time(key: str, title: str, meaning: str, formula: pl.Expr, source: str = "") -> Measure:
    return Measure(key, title, "s", meaning, Stage.LEASES, formula, Better.LOWER, source)


_WAITED = "from the ready time to the first start, over the leases that started"

WAITING = (
    _time("wait_mean_s", "mean wait", f"Mean time {_WAITED}.", _WAIT_S.mean()),
    _time("wait_median_s", "median wait", f"Median time {_WAITED}.", _WAIT_S.median()),
    _time("wait_p95_s", "95 % waited less", f"95th percentile of the time {_WAITED}.", _WAIT_S.quantile(0.95)),
    _time("wait_max_s", "longest wait", f"Longest time {_WAITED}.", _WAIT_S.max()),
    _time(
        "response_mean_s",
        "mean response",
        "Mean time from the ready time to the end, over the leases that got all their time.",
        pl.col("response_ms").mean() / MS_PER_S,
    ),
    Measure(
        "slowdown_mean",
        "bounded slowdown",
        "",
        "Mean of response time over undisturbed time, leases under 10 s taken as 10 s long, at least 1.",
        Stage.LEASES,
        pl.col("slowdown").mean(),
        Better.LOWER,
    ),
    _time(
        "awrt_s",
        "AWRT, pooled",
        "Mean response time of the Cancelable and Suspendable guests that got all their time, weighted by "
        "VMs times duration at the reference speed, all clusters together.",
        _weighted_response_s(),
        "JPDC 2012, eq 23",
    ),
    _time(
        "local_delay_mean_s",
        "mean local delay",
        "Mean delay of the start of local jobs, compared with the same log without guests.",
        _DELAY_S.mean(),
    ),
    _time("local_delay_max_s", "largest local delay", "Largest delay of one local job.", _DELAY_S.max()),
    Measure(
        "locals_delayed",
        "local jobs delayed",
        "leases",
        "Local jobs that started later than in the same log without guests.",
        Stage.LEASES,
        (pl.col("delay_ms") > 0).sum().cast(pl.Int64),
        Better.LOWER,
    ),
    Measure(
        "locals_earlier",
        "local jobs started earlier",
        "leases",
        "Local jobs that started earlier than without guests (only Non-preemptable guests can cause it).",
        Stage.LEASES,
        (pl.col("delay_ms") < 0).sum().cast(pl.Int64),
    ),
)


_IS_GUEST = pl.col("origin") == "external"
_STARTED = pl.col("first_start_ms").is_not_null() & (pl.col("reason") != Reason.CLAIM_RELEASED.value)
_COMPUTATION_VM_MS = pl.col("vms") * pl.col("service_ms")


def _percent(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(part / whole * 100)


def _held_h(key: str, title: str, meaning: str, amount: pl.Expr, better: Better = Better.NEITHER) -> Measure:
    return Measure(key, title, "VM-h", meaning, Stage.SEGMENTS, amount.sum() / MS_PER_HOUR, better)


def _computation_h(key: str, title: str, meaning: str, selected: pl.Expr) -> Measure:
    amount = _COMPUTATION_VM_MS.filter(selected).sum() / MS_PER_HOUR
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
        "VMs that leases lost to preemption, counted each time, at the cluster where it happened.",
        Stage.SEGMENTS,
        pl.col("vms").filter(pl.col("is_preempted")).sum(),
        Better.LOWER,
        "JPDC 2012, section 5.1.1",
    ),
    Measure(
        "preemptions",
        "lease preemptions",
        "",
        "Preemptions of leases, counted each time.",
        Stage.SEGMENTS,
        pl.col("is_preempted").sum().cast(pl.Int64),
        Better.LOWER,
    ),
    Measure(
        "leases_preempted",
        "leases preempted",
        "leases",
        "Leases that were preempted at least once.",
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
        "VM-time held, without waiting for other components, resuming, migrating, and the work of leases that were "
        "terminated or lost.",
        pl.col("useful_vm_ms"),
        Better.HIGHER,
    ),
    _held_h(
        "overhead_vm_h",
        "preemption overhead",
        "VM-time charged for saving, restoring and migrating VMs, divided equally among the preemptions of a lease.",
        pl.col("overhead_vm_ms"),
        Better.LOWER,
    ),
    _computation_h(
        "computation_vm_h",
        "computation time",
        "VMs times undisturbed duration on their cluster, over the leases that started, without released claims.",
        _STARTED,
    ),
    _computation_h(
        "guest_computation_vm_h",
        "guests' computation time",
        "Computation time of guests only.",
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
        "The same with the computation time of guests only.",
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


_COALLOCATION_WAIT_S = (pl.col("started_ms") - pl.col("ready_ms")) / 1_000
_COALLOCATION_WAITED = "from the ready time to the common start, over the co-allocations that started"
_IDLE, _HELD = pl.col("idle_vm_ms").sum(), pl.col("held_vm_ms").sum()


def _measure(key: str, title: str, unit: str, meaning: str, formula: pl.Expr, better: Better = Better.LOWER) -> Measure:
    return Measure(key, title, unit, meaning, Stage.COALLOCATIONS, formula, better)


COALLOCATIONS = (
    _measure(
        "coallocation_requests", "co-allocations", "", "Requests of several components.", pl.len(), Better.NEITHER
    ),
    _measure(
        "coallocations_started",
        "started",
        "",
        "Co-allocations whose components began their work, all at the same instant.",
        pl.col("started_ms").is_not_null().sum(),
        Better.HIGHER,
    ),
    _measure(
        "coallocations_refused",
        "refused",
        "",
        "Co-allocations that were impossible, or that failed in all their tries.",
        (pl.col("state") == "refused").sum(),
    ),
    _measure(
        "coallocation_wait_mean_s", "mean wait", "s", f"Mean time {_COALLOCATION_WAITED}.", _COALLOCATION_WAIT_S.mean()
    ),
    _measure(
        "coallocation_wait_p95_s",
        "95 % waited less",
        "s",
        f"95th percentile of the time {_COALLOCATION_WAITED}.",
        _COALLOCATION_WAIT_S.quantile(0.95),
    ),
    _measure(
        "claimed_idle_vm_h",
        "claimed and idle",
        "VM-h",
        "VM-time for which components held claimed machines idle until the others had theirs, including failed tries.",
        _IDLE / MS_PER_HOUR,
    ),
    _measure(
        "claimed_idle_pct",
        "of what they held",
        "%",
        "That as a share of all VM-time for which components held machines.",
        pl.when(_HELD > 0).then(_IDLE / _HELD * 100),
    ),
)

COALLOCATION_CATALOGUE: dict[str, Measure] = {m.key: m for m in COALLOCATIONS}
"""Every measure of co-allocations by its key."""


def coallocation_totals(run: Run) -> dict[str, int | float | None]:
    """Return every measure of the co-allocations of a run, by key; nothing for a run without any."""
    if run.coallocations.is_empty():
        return {}
    facts = run.coallocations.join(_held(run), on="coallocation_id", how="left", maintain_order="left")
    return facts.select(m.formula.alias(m.key) for m in COALLOCATIONS).row(0, named=True)


def _held(run: Run) -> pl.DataFrame:
    """Add up what the components of each co-allocation held."""
    owners = run.leases.filter(pl.col("coallocation_id").is_not_null()).select("lease_id", "coallocation_id")
    held = (pl.col("end_ms") - pl.col("start_ms")) * pl.col("vms")
    return run.segments.join(owners, on="lease_id").group_by("coallocation_id").agg(held_vm_ms=held.sum())
