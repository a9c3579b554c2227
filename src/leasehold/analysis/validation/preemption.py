"""No site is over-booked, leases give way only where they must, and promises are kept."""

import polars as pl

from leasehold.analysis.validation.evidence import (
    IS_HARD,
    ROWS_PER_PART,
    WHOLE,
    WITH_BENEFICIARIES,
    Evidence,
    ValidationRule,
    findings,
)


def slots_exceeded(evidence: Evidence) -> pl.DataFrame:
    """Find the instants at which a site holds more VMs than it has slots."""
    over = _held(evidence, pl.col("held_vms") > pl.col("slots"))
    sentence = pl.format("{} VMs are held at {}, which has {} slots", "held_vms", "site", "slots")
    return findings(over, sentence, lease_id=None, site="site", time_ms="time_ms")


def share_exceeded(evidence: Evidence) -> pl.DataFrame:
    """Find the instants at which Non-preemptable guests hold more than a site's share for them."""
    cap = pl.col("non_preemptable_share_vms")
    if evidence.run.sites["non_preemptable_share_vms"].null_count() == evidence.run.sites.height:
        return findings(evidence.run.sites.clear(), pl.col("site"), lease_id=None)
    guests = evidence.run.scan("leases").filter(IS_HARD).select("lease_id")
    over = _held(evidence, pl.col("held_vms") > cap, guests)
    sentence = pl.format(
        "Non-preemptable guests hold {} VMs at {}, whose share for them is {}", "held_vms", "site", cap
    )
    return findings(over, sentence, lease_id=None, site="site", time_ms="time_ms")


def _held(evidence: Evidence, too_many: pl.Expr, guests: pl.LazyFrame | None = None) -> pl.DataFrame:
    """Return when leases, or guests alone, hold too many VMs; what is held is carried from one time to the next."""
    run, found = evidence.run, []
    before = pl.DataFrame(schema={"site": pl.String, "vms": pl.Int64})
    for window in run.windows("segments", "start_ms", ROWS_PER_PART):
        begin, end = (run.within("segments", column, window) for column in ("start_ms", "end_ms"))
        if guests is not None:
            begin, end = (
                rows.filter(pl.col("kind") != "start").join(guests, on="lease_id", how="semi") for rows in (begin, end)
            )
        changes = [
            before.lazy().select("site", "vms", time_ms=pl.lit(window[0], pl.Int64)),
            begin.select("site", "vms", time_ms="start_ms"),
            end.select("site", vms=-pl.col("vms"), time_ms="end_ms"),
        ]
        at_once = pl.concat(changes).group_by("site", "time_ms").agg(pl.col("vms").sum()).sort("site", "time_ms")
        held = at_once.with_columns(held_vms=pl.col("vms").cum_sum().over("site")).collect()
        before = held.group_by("site").agg(vms=pl.col("held_vms").last())
        found.append(held.join(run.sites, on="site", how="inner").filter(too_many))
    return pl.concat(found)


CAPACITY = (
    ValidationRule(
        "slots-exceeded", "At no instant does a site hold more VMs than it has slots.", slots_exceeded, WHOLE
    ),
    ValidationRule(
        "share-exceeded",
        "At no instant do Non-preemptable guests hold more VMs than a site's share for them.",
        share_exceeded,
        WHOLE,
    ),
)


_ENOUGH = pl.col("freed_vms") >= pl.col("needed_vms")


def beneficiary_absent(evidence: Evidence) -> pl.DataFrame:
    """Find preemptions whose beneficiary has no right to it, or does not start at that instant at that site.

    Local jobs have it, and Non-preemptable guests whose promised time has come.
    """
    has_right = pl.col("is_local") | (pl.col("lease_type") == "non-preemptable")
    entitled = evidence.leases.filter(has_right).select("lease_id")
    starts = evidence.run.segments.join(entitled, on="lease_id").select(
        "site", beneficiary="lease_id", time_ms="start_ms"
    )
    keys = ["beneficiary", "site", "time_ms"]
    wrong = evidence.preemptions.join(starts.unique(), on=keys, how="anti", nulls_equal=True)
    sentence = pl.format(
        "it gave way to lease {}, which is neither a local job nor a promised guest that starts then at {}",
        pl.col("beneficiary").cast(pl.String).fill_null("none"),
        pl.col("site").fill_null("no site"),
    )
    return findings(wrong, sentence, site="site", time_ms="time_ms")


def preemption_unmatched(evidence: Evidence) -> pl.DataFrame:
    """Find decisions without a segment that ended so, and such segments without one decision."""
    keys = ["lease_id", "site", "time_ms"]
    decided = evidence.preemptions.group_by(keys).agg(decisions=pl.len())
    ended = (
        evidence.run.segments.filter(pl.col("ended_by") == "preempted")
        .group_by("lease_id", "site", time_ms="end_ms")
        .agg(segments=pl.len())
    )
    both = decided.join(ended, on=keys, how="full", coalesce=True, nulls_equal=True).with_columns(
        pl.col("decisions", "segments").fill_null(0)
    )
    wrong = both.filter((pl.col("decisions") != 1) | (pl.col("segments") != 1)).sort(keys)
    sentence = pl.format("{} decisions preempt it, {} segments ended so", "decisions", "segments")
    return findings(wrong, sentence, site="site", time_ms="time_ms")


def victim_protected(evidence: Evidence) -> pl.DataFrame:
    """Find victims that must never be preempted: local jobs and Non-preemptable guests."""
    protected = evidence.leases.filter(pl.col("is_local") | (pl.col("lease_type") == "non-preemptable"))
    wrong = evidence.preemptions.join(protected.select("lease_id"), on="lease_id", how="semi")
    sentence = pl.format("lease {} may not be preempted", "lease_id")
    return findings(wrong, sentence, site="site", time_ms="time_ms")


def too_little_freed(evidence: Evidence) -> pl.DataFrame:
    """Find victim sets that do not free as many VMs as were needed."""
    wrong = _sets(evidence).filter(~_ENOUGH)
    sentence = pl.format("set {} freed {} VMs, needed were {}", "victim_set", "freed_vms", "needed_vms")
    return findings(wrong, sentence, lease_id="beneficiary", site="site", time_ms="time_ms")


def victim_superfluous(evidence: Evidence) -> pl.DataFrame:
    """Find victim sets that would have freed enough without one of their victims."""
    spare = pl.col("freed_vms") - pl.col("smallest_vms")
    by_nodes = evidence.run.nodes["site"].unique().to_list()  # what is missing there is not a number of VMs
    sets = _sets(evidence).filter(~pl.col("site").is_in(by_nodes))
    wrong = sets.filter(_ENOUGH & (spare >= pl.col("needed_vms")))
    sentence = pl.format(
        "set {} freed {} VMs for {} needed: a victim of {} VMs was superfluous",
        "victim_set",
        "freed_vms",
        "needed_vms",
        "smallest_vms",
    )
    return findings(wrong, sentence, lease_id="beneficiary", site="site", time_ms="time_ms")


def set_miscounted(evidence: Evidence) -> pl.DataFrame:
    """Find victim sets whose stated size is not that of their rows."""
    as_stated = (pl.col("set_leases") == pl.col("victims")) & (pl.col("set_vms") == pl.col("freed_vms"))
    sentence = pl.format(
        "set {} says {} leases and {} VMs, its rows {} and {}",
        "victim_set",
        pl.col("set_leases").cast(pl.String).fill_null("no"),
        pl.col("set_vms").cast(pl.String).fill_null("no"),
        "victims",
        "freed_vms",
    )
    wrong = _sets(evidence).filter(~as_stated.fill_null(value=False))
    return findings(wrong, sentence, lease_id="beneficiary", site="site", time_ms="time_ms")


def _sets(evidence: Evidence) -> pl.DataFrame:
    """Return one row for each victim set, with what its victims freed together and the smallest of them.

    A local request for which room was made may wait again, where its cluster's own scheduler starts another one
    first; room is then made for it once more.
    """
    victims = evidence.preemptions.join(evidence.leases.select("lease_id", "vms"), on="lease_id", how="inner")
    stated = pl.col("beneficiary", "site", "set_leases", "set_vms", "needed_vms").first()
    found = {"victims": pl.len(), "freed_vms": pl.col("vms").sum(), "smallest_vms": pl.col("vms").min()}
    return victims.group_by("victim_set", "time_ms", maintain_order=True).agg(stated, **found)


PREEMPTION = (
    ValidationRule(
        "beneficiary-absent",
        "A lease gives way only to a local job, which starts at that instant at that site.",
        beneficiary_absent,
        WITH_BENEFICIARIES,
    ),
    ValidationRule(
        "preemption-unmatched",
        "Each preempted segment has one decision, and each such decision one segment.",
        preemption_unmatched,
    ),
    ValidationRule("victim-protected", "Local jobs and Non-preemptable guests are never preempted.", victim_protected),
    ValidationRule(
        "too-little-freed",
        "The victims of a set free at least the VMs that were needed.",
        too_little_freed,
        WITH_BENEFICIARIES,
    ),
    ValidationRule(
        "victim-superfluous", "No victim of a set could have been spared.", victim_superfluous, WITH_BENEFICIARIES
    ),
    ValidationRule(
        "set-miscounted", "A victim set's stated size is that of its rows.", set_miscounted, WITH_BENEFICIARIES
    ),
)


_NAMED_CAUSES = ("local-plan-changed", "site-shrank", "delayed-by-slow-start", "native-job-started-first")
_MOVED_AT_ONCE = (pl.col("outcome") == "move") & pl.col("planned_ms").is_null()
_IS_START = (pl.col("outcome") == "start") | _MOVED_AT_ONCE
_IS_PUT_OFF = (pl.col("outcome") == "wait") & pl.col("agreement").is_not_null()
"""An agreement keeps a lease from resuming: what was planned for it is given back, and it is promised nothing."""
_IS_PROMISE = pl.col("outcome").is_in(["wait", "move"]) & pl.col("planned_ms").is_not_null() & ~_IS_PUT_OFF
"""A wait is promised an end, and a plan that had to move is promised another."""
_CALLS_OFF = ("component-unplaceable", "site-drained", "site-unreachable", "site-shrank", "never-started")
_IS_CALLED_OFF = (
    pl.col("outcome").is_in(["hold", "wait"]) & pl.col("planned_ms").is_null() & pl.col("reason").is_in(_CALLS_OFF)
)
"""What a lease was promised is given back: other components had no room, or its site takes none now."""


def promise_broken(evidence: Evidence) -> pl.DataFrame:
    """Find leases that started, or were promised again without a named cause, later than promised."""
    concerned = _IS_START | _IS_PROMISE | _IS_CALLED_OFF | _IS_PUT_OFF
    decided = evidence.run.decisions.filter(concerned).sort("lease_id", "seq")
    when = pl.when(_IS_START).then("time_ms").when(_IS_PROMISE).then("planned_ms")
    promised = pl.when(_IS_PROMISE).then("planned_ms").shift(1).over("lease_id")
    later = decided.with_columns(when=when, promised=promised).filter(pl.col("when") > pl.col("promised"))
    sentence = pl.format("it was promised {} ms and then {} ms ({})", "promised", "when", "reason")
    unnamed = later.filter(~pl.col("reason").is_in(_NAMED_CAUSES))
    return findings(unnamed, sentence, site="site", time_ms="time_ms")


def home_noticed(evidence: Evidence) -> pl.DataFrame:
    """Find local jobs that start otherwise than without guests, in a run without Non-preemptable ones."""
    alone = evidence.run.baseline.rename({"start_ms": "alone_ms"})
    if alone.is_empty() or evidence.whole.may_delay_locals:
        return findings(evidence.leases.clear(), pl.lit(""))
    locals_ = evidence.leases.filter("is_local").join(alone, on="lease_id", how="left")
    wrong = locals_.filter(~pl.col("first_start_ms").eq_missing(pl.col("alone_ms")))
    sentence = pl.format(
        "local job starts at {} ms, without guests at {} ms",
        pl.col("first_start_ms").cast(pl.String).fill_null("no"),
        pl.col("alone_ms").cast(pl.String).fill_null("no"),
    )
    return findings(wrong, sentence, site="home", time_ms="first_start_ms")


PROMISES = (
    ValidationRule(
        "promise-broken",
        "A promised start never moves later, unless an agreement keeps the lease from resuming, or the reason is one "
        f"of {', '.join(_NAMED_CAUSES)}.",
        promise_broken,
    ),
    ValidationRule(
        "home-noticed",
        "Without Non-preemptable guests every local job starts when it would have started without any.",
        home_noticed,
    ),
)
