"""What is measured in a run: how leases ended, how long they waited, what capacity was used, co-allocations.

A `Measure` is a formula with its title, unit and meaning; the page of metrics is written from them. It declares what it
adds up over the rows of a table, so that one pass (`leasehold.analysis.passes`) serves all measures of all groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from weakref import WeakKeyDictionary

import polars as pl

from leasehold.analysis.facts import LOST_REASONS
from leasehold.analysis.passes import Expressions, Summary, Wanted, added_up, summarise
from leasehold.analysis.run import Run, streamed
from leasehold.analysis.waits import exact_where_needed, quantiles
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason

MS_PER_HOUR = 3_600_000


class Stage(StrEnum):
    """What a formula is taken over."""

    LEASES = "leases"
    SEGMENTS = "segments"
    DELAYS = "delays"
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

    ``key`` ends in its unit where it has one. ``stage`` says over which rows the ``sums`` and the ``largest`` are
    taken: leases, segments (`leasehold.analysis.facts`), or local jobs with their ``delay_ms``; ``formula`` makes the
    measure of them. Of co-allocations it is taken over the rows themselves, and what is derived follows from measures
    already made. ``source`` cites where a definition comes from.
    """

    key: str
    title: str
    unit: str
    meaning: str
    stage: Stage
    formula: pl.Expr
    better: Better = Better.NEITHER
    source: str = ""
    sums: Expressions = field(default_factory=dict)
    largest: Expressions = field(default_factory=dict)


def measure(run: Run, measures: Sequence[Measure], by: Sequence[str]) -> pl.DataFrame:
    """Evaluate measures for each group of ``by``, a choice of ``run``, ``site``, ``origin``, ``party``.

    A lease counts at the cluster where it was last; a segment counts where it was held.
    """
    summary, cells = summary_of(run), pl.lit(run.name).alias("run")
    waits = quantiles(waits_of(run).with_columns(cells), by)
    lost = summary.preempted.with_columns(cells).group_by(by).agg(leases_preempted=pl.col("lease_id").n_unique())
    leases = _of_stage(summary.leases.with_columns(cells), measures, Stage.LEASES, by, waits)
    segments = _of_stage(summary.segments.with_columns(cells), measures, Stage.SEGMENTS, by, lost)
    delays = _of_stage(summary.delays.with_columns(cells), measures, Stage.DELAYS, by)
    groups = leases.join(segments, on=by, how="full", coalesce=True).drop_nulls(list(by))
    groups = groups.join(delays, on=by, how="left")
    counted = [m.key for m in measures if m.stage is Stage.SEGMENTS or m.unit == "leases"]
    order = [m.key for m in measures if m.stage in {Stage.LEASES, Stage.DELAYS}]
    order += [m.key for m in measures if m.stage is Stage.SEGMENTS]
    frame = groups.with_columns(pl.col(counted).fill_null(0)).select(*by, *order)
    return _with_derived(_with_capacity(run, frame), measures).sort(by)


def _of_stage(
    cells: pl.DataFrame, measures: Sequence[Measure], stage: Stage, by: Sequence[str], more: pl.DataFrame | None = None
) -> pl.DataFrame:
    sums = added_up(cells.drop_nulls(list(by)), list(by), _LARGEST)
    if more is not None:
        sums = sums.join(more, on=by, how="left", maintain_order="left")
    return sums.select(*by, *(m.formula.alias(m.key) for m in measures if m.stage is stage))


_SUMMARIES: WeakKeyDictionary[Run, Summary] = WeakKeyDictionary()
_WAITS: WeakKeyDictionary[Run, pl.DataFrame] = WeakKeyDictionary()


def summary_of(run: Run) -> Summary:
    """Return what all measures of a run are made of; its tables are read once."""
    if run not in _SUMMARIES:
        _SUMMARIES[run] = summarise(run, _wanted())
    return _SUMMARIES[run]


def waits_of(run: Run) -> pl.DataFrame:
    """Return how many leases waited how long, exact wherever `leasehold.analysis.waits` is asked."""
    if run not in _WAITS:
        _WAITS[run] = exact_where_needed(run, summary_of(run).waits)
    return _WAITS[run]


def _wanted() -> Wanted:
    """Collect what the measures add up."""
    rows: dict[Stage, dict[str, pl.Expr]] = {stage: {} for stage in Stage}
    for m in MEASURES:
        rows[m.stage] |= {**m.sums, **m.largest}
    return Wanted(rows[Stage.LEASES], rows[Stage.SEGMENTS], rows[Stage.DELAYS], _LARGEST)


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


def _part(key: str, title: str, meaning: str, matching: pl.Expr, among: pl.Expr, source: str = "") -> Measure:
    """How many percent of the leases ``among`` are ``matching`` too; null where there are none."""
    sums = {f"{key}.part": (matching & among).sum().cast(pl.Int64), f"{key}.all": among.sum().cast(pl.Int64)}
    part, whole = (pl.col(name) for name in sums)
    formula = pl.when(whole > 0).then(part / whole) * 100
    return Measure(key, title, "%", meaning, Stage.LEASES, formula, Better.LOWER, source, sums)


def _count(
    key: str,
    title: str,
    meaning: str,
    matching: pl.Expr,
    better: Better = Better.NEITHER,
    stage: Stage = Stage.LEASES,
) -> Measure:
    sums = {key: matching.sum().cast(pl.Int64)}
    return Measure(key, title, "leases", meaning, stage, pl.col(key), better, sums=sums)


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
    _part(
        "migration_rate_pct",
        "migration rate",
        "Share of the Migratable leases that were migrated at least once.",
        pl.col("migrations") > 0,
        _IS_MIGRATABLE,
        "JPDC 2012, section 5.1.1",
    ),
    _part(
        "migratable_unserved_pct",
        "Migratable refused or lost",
        "Share of the Migratable leases that were refused, or lost their deadline after a preemption.",
        _STATE.is_in(["refused", "failed"]),
        _IS_MIGRATABLE,
    ),
    _part(
        "non_preemptable_rejection_pct",
        "Non-preemptable rejection rate",
        "Share of the guests' Non-preemptable leases that were refused.",
        _STATE == "refused",
        _IS_NON_PREEMPTABLE_GUEST,
        "JPDC 2012, sections 5.1.1 and 5.3.4",
    ),
)


MS_PER_S = 1_000

_IS_BEST_EFFORT_SERVED = pl.col("party").is_in(["cancelable", "suspendable"]) & pl.col("served")


def _mean(
    key: str, title: str, unit: str, meaning: str, amount: pl.Expr, *, per_unit: int = 1, stage: Stage = Stage.LEASES
) -> Measure:
    """The mean over the rows that have the amount; null where none has."""
    sums = {f"{key}.sum": amount.sum(), f"{key}.rows": amount.count().cast(pl.Int64)}
    total, rows = (pl.col(name) for name in sums)
    formula = pl.when(rows > 0).then(total / rows) / per_unit
    return Measure(key, title, unit, meaning, stage, formula, Better.LOWER, sums=sums)


def _longest(key: str, title: str, meaning: str, time_ms: pl.Expr, stage: Stage = Stage.LEASES) -> Measure:
    formula = pl.col(f"{key}.most") / MS_PER_S
    return Measure(key, title, "s", meaning, stage, formula, Better.LOWER, largest={f"{key}.most": time_ms.max()})


def _quantile(key: str, title: str, meaning: str) -> Measure:
    """A quantile of waits (`leasehold.analysis.waits`)."""
    return Measure(key, title, "s", meaning, Stage.LEASES, pl.col(key), Better.LOWER)


def _weighted_response(key: str, title: str, meaning: str) -> Measure:
    """Equation 23: the response time of served best-effort guests, weighted by VMs times duration."""
    work = pl.col("work_vm_ms").filter(_IS_BEST_EFFORT_SERVED)
    weighted = (pl.col("work_vm_ms") * (pl.col("response_ms") / MS_PER_S)).filter(_IS_BEST_EFFORT_SERVED)
    sums = {f"{key}.work": work.sum(), f"{key}.weighted": weighted.sum()}
    total, of_all = (pl.col(name) for name in sums)
    formula = pl.when(total > 0).then(of_all / total)
    return Measure(key, title, "s", meaning, Stage.LEASES, formula, Better.LOWER, "JPDC 2012, eq 23", sums)


_WAITED = "from the ready time to the first start, over the leases that started"

WAITING = (
    _mean("wait_mean_s", "mean wait", "s", f"Mean time {_WAITED}.", pl.col("wait_ms"), per_unit=MS_PER_S),
    _quantile("wait_median_s", "median wait", f"Median time {_WAITED}."),
    _quantile("wait_p95_s", "95 % waited less", f"95th percentile of the time {_WAITED}."),
    _longest("wait_max_s", "longest wait", f"Longest time {_WAITED}.", pl.col("wait_ms")),
    _mean(
        "response_mean_s",
        "mean response",
        "s",
        "Mean time from the ready time to the end, over the leases that got all their time.",
        pl.col("response_ms"),
        per_unit=MS_PER_S,
    ),
    _mean(
        "slowdown_mean",
        "bounded slowdown",
        "",
        "Mean of response time over undisturbed time, leases under 10 s taken as 10 s long, at least 1.",
        pl.col("slowdown"),
    ),
    _weighted_response(
        "awrt_s",
        "AWRT, pooled",
        "Mean response time of the Cancelable and Suspendable guests that got all their time, weighted by "
        "VMs times duration at the reference speed, all clusters together.",
    ),
    _mean(
        "local_delay_mean_s",
        "mean local delay",
        "s",
        "Mean delay of the start of local jobs, compared with the same log without guests.",
        pl.col("delay_ms"),
        per_unit=MS_PER_S,
        stage=Stage.DELAYS,
    ),
    _longest(
        "local_delay_max_s",
        "largest local delay",
        "Largest delay of one local job.",
        pl.col("delay_ms"),
        Stage.DELAYS,
    ),
    _count(
        "locals_delayed",
        "local jobs delayed",
        "Local jobs that started later than in the same log without guests.",
        pl.col("delay_ms") > 0,
        Better.LOWER,
        Stage.DELAYS,
    ),
    _count(
        "locals_earlier",
        "local jobs started earlier",
        "Local jobs that started earlier than without guests (only Non-preemptable guests can cause it).",
        pl.col("delay_ms") < 0,
        stage=Stage.DELAYS,
    ),
)


_IS_GUEST = pl.col("origin") == "external"
_STARTED = pl.col("first_start_ms").is_not_null() & (pl.col("reason") != Reason.CLAIM_RELEASED.value)
_COMPUTATION_VM_MS = pl.col("vms") * pl.col("service_ms")


def _percent(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(part / whole * 100)


def _held_h(key: str, title: str, meaning: str, amount: pl.Expr, better: Better = Better.NEITHER) -> Measure:
    return Measure(
        key, title, "VM-h", meaning, Stage.SEGMENTS, pl.col(key) / MS_PER_HOUR, better, sums={key: amount.sum()}
    )


def _computation_h(key: str, title: str, meaning: str, selected: pl.Expr) -> Measure:
    sums = {key: _COMPUTATION_VM_MS.filter(selected).sum()}
    return Measure(
        key, title, "VM-h", meaning, Stage.LEASES, pl.col(key) / MS_PER_HOUR, source="JPDC 2012, eq 22", sums=sums
    )


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
        pl.col("vms_preempted"),
        Better.LOWER,
        "JPDC 2012, section 5.1.1",
        {"vms_preempted": pl.col("vms").filter(pl.col("is_preempted")).sum()},
    ),
    Measure(
        "preemptions",
        "lease preemptions",
        "",
        "Preemptions of leases, counted each time.",
        Stage.SEGMENTS,
        pl.col("preemptions"),
        Better.LOWER,
        sums={"preemptions": pl.col("is_preempted").sum().cast(pl.Int64)},
    ),
    Measure(
        "leases_preempted",
        "leases preempted",
        "leases",
        "Leases that were preempted at least once.",
        Stage.SEGMENTS,
        pl.col("leases_preempted").cast(pl.Int64),
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

MEASURES: tuple[Measure, ...] = (*OUTCOMES, *WAITING, *CAPACITY)
_LARGEST = frozenset(name for m in MEASURES for name in m.largest)


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


GPU_HOUR_MS = 3_600_000 * 1_000
"""A GPU-hour in thousandths of a GPU, times milliseconds."""


def gpu_totals(run: Run) -> dict[str, dict[str, float]]:
    """Return, by GPU model, what clusters planned by nodes have and what was held of it, in GPU-hours.

    A fraction counts as what was requested, so shares that rounding up leaves unused count as idle. ``gpus`` is the
    number of devices, ``capacity_gpu_h`` these times the span of the run; nothing for a run without any.
    """
    nodes = run.nodes.filter(pl.col("gpus") > 0)
    held = (pl.col("end_ms") - pl.col("start_ms")) * pl.col("gpu_milli") / GPU_HOUR_MS
    locals_ = streamed(run.scan("leases").filter(pl.col("origin") == "local").select("lease_id"))["lease_id"]
    used = (
        run.placements.filter(pl.col("gpu_milli") > 0)
        .select("site", "node", "lease_id", gpu_h=held)
        .join(nodes.select("site", "node", model=pl.col("gpu_model")), on=["site", "node"], maintain_order="left")
        .with_columns(is_local=pl.col("lease_id").is_in(locals_.implode()))
    )
    found: dict[str, dict[str, float]] = {}
    for (model,), there in sorted(nodes.group_by("gpu_model"), key=lambda one: str(one[0][0])):
        gpus = int(there["gpus"].sum())
        of_model = used.filter(pl.col("model") == model)
        found[str(model)] = {
            "gpus": gpus,
            "capacity_gpu_h": gpus * run.span_ms * 1_000 / GPU_HOUR_MS,
            "local_gpu_h": float(of_model.filter(pl.col("is_local"))["gpu_h"].sum()),
            "guest_gpu_h": float(of_model.filter(~pl.col("is_local"))["gpu_h"].sum()),
        }
    return found


def _held(run: Run) -> pl.DataFrame:
    """Add up what the components of each co-allocation held."""
    owners = run.scan("leases").filter(pl.col("coallocation_id").is_not_null()).select("lease_id", "coallocation_id")
    held = (pl.col("end_ms") - pl.col("start_ms")) * pl.col("vms")
    components = run.scan("segments").join(streamed(owners).lazy(), on="lease_id")
    return streamed(components.group_by("coallocation_id").agg(held_vm_ms=held.sum()))
