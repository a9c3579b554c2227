"""How co-allocations fared: those whose components run together, or not at all."""

import polars as pl

from leasehold.analysis.metrics.measure import MS_PER_HOUR, Better, Measure, Stage
from leasehold.analysis.run import Run

_WAIT_S = (pl.col("started_ms") - pl.col("ready_ms")) / 1_000
_WAITED = "from the ready time to the common start, over the co-allocations that started"
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
        "Co-allocations that could not be, or whose tries were used up.",
        (pl.col("state") == "refused").sum(),
    ),
    _measure("coallocation_wait_mean_s", "mean wait", "s", f"Mean time {_WAITED}.", _WAIT_S.mean()),
    _measure(
        "coallocation_wait_p95_s",
        "95 % waited less",
        "s",
        f"95th percentile of the time {_WAITED}.",
        _WAIT_S.quantile(0.95),
    ),
    _measure(
        "claimed_idle_vm_h",
        "claimed and idle",
        "VM-h",
        "VM-time for which components held claimed machines idle until the others had theirs, failed tries included.",
        _IDLE / MS_PER_HOUR,
    ),
    _measure(
        "claimed_idle_pct",
        "of what they held",
        "%",
        "That over all VM-time for which components held machines.",
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
