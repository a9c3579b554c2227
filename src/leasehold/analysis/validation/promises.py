"""Promises kept: a promised start never moves later unnamed, and nobody at home notices the guests."""

import polars as pl

from leasehold.analysis.validation.evidence import Evidence, Rule, findings

_NAMED_CAUSE = "local-plan-changed"
_MOVED_AT_ONCE = (pl.col("outcome") == "move") & pl.col("planned_ms").is_null()
_IS_START = (pl.col("outcome") == "start") | _MOVED_AT_ONCE
_IS_PROMISE = pl.col("outcome").is_in(["wait", "move"]) & pl.col("planned_ms").is_not_null()
"""A wait is promised an end, and a plan that had to move is promised another."""
_IS_CALLED_OFF = (pl.col("outcome") == "hold") & (pl.col("reason") == "component-unplaceable")
"""What a component was promised is given back: the others had no room, and none of them holds anything."""


def promise_broken(evidence: Evidence) -> pl.DataFrame:
    """Find leases that started, or were promised anew without a named cause, later than promised."""
    decided = evidence.run.decisions.filter(_IS_START | _IS_PROMISE | _IS_CALLED_OFF).sort("lease_id", "seq")
    when = pl.when(_IS_START).then("time_ms").otherwise("planned_ms")
    promised = pl.when(_IS_PROMISE).then("planned_ms").shift(1).over("lease_id")
    later = decided.with_columns(when=when, promised=promised).filter(pl.col("when") > pl.col("promised"))
    sentence = pl.format("it was promised {} ms and then {} ms ({})", "promised", "when", "reason")
    unnamed = later.filter(pl.col("reason") != _NAMED_CAUSE)
    return findings(unnamed, sentence, site="site", time_ms="time_ms")


def home_noticed(evidence: Evidence) -> pl.DataFrame:
    """Find local jobs that start otherwise than without guests, in a run without Non-preemptable ones."""
    is_hard = ~pl.col("is_local") & (pl.col("lease_type") == "non-preemptable")
    if evidence.segments.filter(is_hard).height:
        return findings(evidence.leases.clear(), pl.lit(""))
    alone = evidence.run.baseline.rename({"start_ms": "alone_ms"})
    if alone.is_empty():
        return findings(evidence.leases.clear(), pl.lit(""))
    locals_ = evidence.leases.filter("is_local").join(alone, on="lease_id", how="left")
    wrong = locals_.filter(~pl.col("first_start_ms").eq_missing(pl.col("alone_ms")))
    sentence = pl.format(
        "local job starts at {} ms, without guests at {} ms",
        pl.col("first_start_ms").cast(pl.String).fill_null("no"),
        pl.col("alone_ms").cast(pl.String).fill_null("no"),
    )
    return findings(wrong, sentence, site="home", time_ms="first_start_ms")


RULES = (
    Rule(
        "promise-broken",
        f"A promised start never moves later, unless the reason says {_NAMED_CAUSE}.",
        promise_broken,
    ),
    Rule(
        "home-noticed",
        "Without Non-preemptable guests every local job starts when it would have started without any.",
        home_noticed,
    ),
)
