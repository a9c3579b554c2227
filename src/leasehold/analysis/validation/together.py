"""Joint requests: all components begin their work at one instant or none does, and idle time is right."""

import polars as pl

from leasehold.analysis.validation.evidence import Evidence, Rule, findings

_FINAL = ("completed", "failed", "refused", "cancelled")
_SPAN_MS = pl.col("end_ms") - pl.col("start_ms")
_IS_CLAIM = pl.col("kind") == "claim"


def joint_incomplete(evidence: Evidence) -> pl.DataFrame:
    """Find joint requests with fewer leases than components, and leases of joint requests without a row."""
    leases = _components(evidence).group_by("joint_id").agg(leases=pl.len())
    listed = evidence.run.joints.group_by("joint_id").agg(pl.col("components").first(), rows=pl.len())
    both = listed.join(leases, on="joint_id", how="full", coalesce=True).sort("joint_id")
    both = both.with_columns(pl.col("leases", "rows", "components").fill_null(0))
    wrong = both.filter((pl.col("rows") != 1) | (pl.col("leases") < pl.col("components")))
    sentence = pl.format(
        "joint request {} has {} rows, {} components and {} leases",
        "joint_id",
        "rows",
        "components",
        "leases",
    )
    return findings(wrong, sentence, lease_id=None)


def joint_apart(evidence: Evidence) -> pl.DataFrame:
    """Find joint requests of which a component began its work alone, at another instant, or not at all."""
    begun = (
        _components(evidence)
        .filter(pl.col("worked_ms").is_not_null())
        .group_by("joint_id")
        .agg(
            ran=pl.len(),
            ran_vms=pl.col("vms").sum(),
            first_ms=pl.col("worked_ms").min(),
            last_ms=pl.col("worked_ms").max(),
        )
    )
    joined = _joints(evidence).join(begun, on="joint_id", how="left", maintain_order="left")
    ran, started_ms = pl.col("ran").fill_null(0), pl.col("started_ms")
    whole = (ran == pl.col("components")) & (pl.col("ran_vms") == pl.col("vms"))
    at_once = (pl.col("first_ms") == started_ms) & (pl.col("last_ms") == started_ms)
    is_fine = pl.when(started_ms.is_null()).then(ran == 0).otherwise((whole & at_once).fill_null(value=False))
    # Of one that started at the very last instant no work is seen any more.
    wrong = joined.filter(~(is_fine | (started_ms >= evidence.run.end_ms).fill_null(value=False)))
    sentence = pl.format(
        "joint request {} of {} components started {}: {} of them began their work, from {} to {} ms",
        "joint_id",
        "components",
        pl.format("at {} ms", started_ms).fill_null("never"),
        ran,
        pl.col("first_ms").cast(pl.String).fill_null("no"),
        pl.col("last_ms").cast(pl.String).fill_null("no"),
    )
    return findings(wrong, sentence, lease_id=None, time_ms="started_ms")


def joint_end_wrong(evidence: Evidence) -> pl.DataFrame:
    """Find joint requests that did not end with the last of their leases, or were refused once started."""
    ends = (
        _components(evidence)
        .group_by("joint_id")
        .agg(last_end_ms=pl.col("end_ms").max(), still_open=pl.col("end_ms").is_null().any())
    )
    joined = _joints(evidence).join(ends, on="joint_id", how="left", maintain_order="left")
    final = pl.col("state").is_in(_FINAL) & ~pl.col("still_open")
    over = final & pl.col("ended_ms").eq_missing(pl.col("last_end_ms"))
    unfinished = pl.col("still_open") & pl.col("ended_ms").is_null() & (pl.col("reason") == "horizon-reached")
    has_begun = pl.col("started_ms").is_not_null()
    fits = pl.when(pl.col("state") == "refused").then(~has_begun).otherwise(True)  # noqa: FBT003 - a literal
    fits &= pl.when(pl.col("state").is_in(["completed", "running"])).then(has_begun).otherwise(True)  # noqa: FBT003
    wrong = joined.filter(~((over | unfinished) & fits).fill_null(value=False))
    sentence = pl.format(
        "joint request {} is {} ({}) at {}, its last lease ended at {}",
        "joint_id",
        "state",
        "reason",
        pl.format("{} ms", "ended_ms").fill_null("no time"),
        pl.format("{} ms", "last_end_ms").fill_null("no time"),
    )
    return findings(wrong, sentence, lease_id=None, time_ms="ended_ms")


def idle_miscounted(evidence: Evidence) -> pl.DataFrame:
    """Find joint requests whose idle time is not that of their claim segments."""
    seen = _components(evidence).group_by("joint_id").agg(seen_vm_ms=pl.col("claimed_vm_ms").sum())
    joined = _joints(evidence).join(seen, on="joint_id", how="left", maintain_order="left")
    wrong = joined.filter(pl.col("idle_vm_ms") != pl.col("seen_vm_ms").fill_null(0))
    sentence = pl.format(
        "joint request {} counts {} VM-ms of idle time, its claim segments {}",
        "joint_id",
        "idle_vm_ms",
        pl.col("seen_vm_ms").fill_null(0),
    )
    return findings(wrong, sentence, lease_id=None, time_ms="started_ms")


def claim_misplaced(evidence: Evidence) -> pl.DataFrame:
    """Find claim segments of leases of no joint request, late, or neither given back nor worked in."""
    of_joint = evidence.leases.select("lease_id", "joint_id")
    claims = evidence.segments.filter(_IS_CLAIM).join(of_joint, on="lease_id", how="left", maintain_order="left")
    goes_on = ~pl.col("is_last") & (pl.col("ended_by") == "phase")
    given_back = pl.col("is_last") & pl.col("ended_by").is_in(["cancelled", "horizon"])
    is_fine = pl.col("joint_id").is_not_null() & (pl.col("number") == 0) & (goes_on | given_back)
    sentence = pl.format("it holds machines idle from {} ms, and that ended by {}", "start_ms", "ended_by")
    return findings(claims.filter(~is_fine), sentence, site="site", time_ms="start_ms")


def _joints(evidence: Evidence) -> pl.DataFrame:
    return evidence.run.joints.unique("joint_id", keep="first", maintain_order=True)


def _components(evidence: Evidence) -> pl.DataFrame:
    """Return the leases of joint requests, with when their work began and what they held idle."""
    held = evidence.run.segments.group_by("lease_id").agg(
        worked_ms=pl.col("start_ms").filter(pl.col("kind") == "run").min(),
        claimed_vm_ms=(_SPAN_MS * pl.col("vms")).filter(_IS_CLAIM).sum(),
    )
    leases = evidence.leases.filter(pl.col("joint_id").is_not_null())
    return leases.join(held, on="lease_id", how="left", maintain_order="left")


RULES = (
    Rule("joint-incomplete", "Every joint request has a row and a lease for each component.", joint_incomplete),
    Rule(
        "joint-apart",
        "All components of a joint request begin their work at the same instant, or none does.",
        joint_apart,
    ),
    Rule("joint-end-wrong", "A joint request ends as and when the last of its leases does.", joint_end_wrong),
    Rule("idle-miscounted", "The idle time of a joint request is that of its claim segments.", idle_miscounted),
    Rule(
        "claim-misplaced",
        "Only components hold machines idle, first of all, and work in them or give them back.",
        claim_misplaced,
    ),
)
