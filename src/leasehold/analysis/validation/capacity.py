"""No cluster ever gives out more VMs than it has, nor more of them than it lends for good."""

import polars as pl

from leasehold.analysis.occupancy import held_over_time
from leasehold.analysis.validation.evidence import Evidence, Rule, findings


def slots_exceeded(evidence: Evidence) -> pl.DataFrame:
    """Find the instants at which a site holds more VMs than it has slots."""
    over = _held(evidence, evidence.run.segments).filter(pl.col("held_vms") > pl.col("slots"))
    sentence = pl.format("{} VMs are held at {}, which has {} slots", "held_vms", "site", "slots")
    return findings(over, sentence, lease_id=None, site="site", time_ms="time_ms")


def share_exceeded(evidence: Evidence) -> pl.DataFrame:
    """Find the instants at which Non-preemptable guests hold more than a site's share for them."""
    is_guest = ~pl.col("is_local") & (pl.col("lease_type") == "non-preemptable")
    cap = pl.col("non_preemptable_share_vms")
    over = _held(evidence, evidence.segments.filter(is_guest)).filter(pl.col("held_vms") > cap)
    sentence = pl.format(
        "Non-preemptable guests hold {} VMs at {}, whose share for them is {}", "held_vms", "site", cap
    )
    return findings(over, sentence, lease_id=None, site="site", time_ms="time_ms")


def _held(evidence: Evidence, segments: pl.DataFrame) -> pl.DataFrame:
    return held_over_time(segments, ["site"]).join(evidence.run.sites, on="site", how="inner")


RULES = (
    Rule("slots-exceeded", "At no instant does a site hold more VMs than it has slots.", slots_exceeded),
    Rule(
        "share-exceeded",
        "At no instant do Non-preemptable guests hold more VMs than a site's share for them.",
        share_exceeded,
    ),
)
