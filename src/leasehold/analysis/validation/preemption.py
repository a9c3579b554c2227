"""Every preemption: for somebody entitled to it who starts there and then, and no more than it takes."""

import polars as pl

from leasehold.analysis.validation.evidence import Evidence, Rule, findings

_ENOUGH = pl.col("freed_vms") >= pl.col("needed_vms")


def beneficiary_absent(evidence: Evidence) -> pl.DataFrame:
    """Find preemptions whose beneficiary has no right to it, or does not start at that instant at that site.

    Local jobs have it, and Non-preemptable guests whose promised time has come.
    """
    entitled = evidence.segments.filter(pl.col("is_local") | (pl.col("lease_type") == "non-preemptable"))
    starts = entitled.select("site", beneficiary="lease_id", time_ms="start_ms")
    keys = ["beneficiary", "site", "time_ms"]
    wrong = evidence.preemptions.join(starts.unique(), on=keys, how="anti", nulls_equal=True)
    sentence = pl.format(
        "it gave way to lease {}, which is no local job or promised guest that starts then at {}",
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
    wrong = _sets(evidence).filter(_ENOUGH & (spare >= pl.col("needed_vms")))
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
    """Return one row for each victim set, with what its victims freed together and the smallest of them."""
    victims = evidence.preemptions.join(evidence.leases.select("lease_id", "vms"), on="lease_id", how="inner")
    stated = pl.col("beneficiary", "site", "time_ms", "set_leases", "set_vms", "needed_vms").first()
    found = {"victims": pl.len(), "freed_vms": pl.col("vms").sum(), "smallest_vms": pl.col("vms").min()}
    return victims.group_by("victim_set", maintain_order=True).agg(stated, **found)


RULES = (
    Rule(
        "beneficiary-absent",
        "A lease gives way only to a local job, which starts at that instant at that site.",
        beneficiary_absent,
    ),
    Rule(
        "preemption-unmatched",
        "Each preempted segment has one decision, and each such decision one segment.",
        preemption_unmatched,
    ),
    Rule("victim-protected", "Local jobs and Non-preemptable guests are never preempted.", victim_protected),
    Rule("too-little-freed", "The victims of a set free at least the VMs that were needed.", too_little_freed),
    Rule("victim-superfluous", "No victim of a set could have been spared.", victim_superfluous),
    Rule("set-miscounted", "A victim set's stated size is that of its rows.", set_miscounted),
)
