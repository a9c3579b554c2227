"""How leases ended, and the refusal rates of the types that were promised most."""

import polars as pl

from leasehold.analysis.metrics.measure import Better, Measure, Stage
from leasehold.model.lease import LeaseState

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
        "Leases that reached the time they asked for.",
        _STATE == "killed",
    ),
    _count(
        "terminated",
        "terminated",
        "Cancelable leases that ended because somebody who comes first took their VMs.",
        _STATE == "terminated",
        Better.LOWER,
    ),
    _count(
        "failed",
        "deadline lost",
        "Preempted leases that could not be finished before their deadline anywhere.",
        _STATE == "failed",
        Better.LOWER,
    ),
    _count("refused", "refused", "Leases that were never accepted.", _STATE == "refused", Better.LOWER),
    _count(
        "locals_refused",
        "local jobs refused",
        "Local jobs that their own cluster did not accept.",
        (_STATE == "refused") & (pl.col("party") == "local"),
        Better.LOWER,
    ),
    _count(
        "unfinished",
        "unfinished",
        "Leases without a final state when the simulated time was over.",
        ~_STATE.is_in(_FINAL_STATES),
    ),
    Measure(
        "migration_rate_pct",
        "migration rate",
        "%",
        "Share of the Migratable leases that were moved at least once.",
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
