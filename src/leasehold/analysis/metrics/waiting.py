"""How long leases waited, how much longer they took than alone, and whether locals noticed guests."""

import polars as pl

from leasehold.analysis.metrics.measure import Better, Measure, Stage

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
        "Mean of how much later local jobs started than in the same log without guests.",
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
