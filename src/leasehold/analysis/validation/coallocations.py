"""Co-allocations: all components begin their work at one instant or none does, and idle time is right."""

import polars as pl

from leasehold.analysis.validation.evidence import COALLOCATION, Evidence, ValidationRule, findings

_FINAL = ("completed", "failed", "refused", "cancelled")
_SPAN_MS = pl.col("end_ms") - pl.col("start_ms")
_IS_CLAIM = pl.col("kind") == "claim"


def coallocation_incomplete(evidence: Evidence) -> pl.DataFrame:
    """Find co-allocations with fewer leases than components, and leases of co-allocations without a row."""
    leases = _components(evidence).group_by("coallocation_id").agg(leases=pl.len())
    listed = evidence.run.coallocations.group_by("coallocation_id").agg(pl.col("components").first(), rows=pl.len())
    both = listed.join(leases, on="coallocation_id", how="full", coalesce=True).sort("coallocation_id")
    both = both.with_columns(pl.col("leases", "rows", "components").fill_null(0))
    wrong = both.filter((pl.col("rows") != 1) | (pl.col("leases") < pl.col("components")))
    sentence = pl.format(
        "co-allocation {} has {} rows, {} components and {} leases",
        "coallocation_id",
        "rows",
        "components",
        "leases",
    )
    return findings(wrong, sentence, lease_id=None)


def coallocation_apart(evidence: Evidence) -> pl.DataFrame:
    """Find co-allocations of which a component began its work alone, at another instant, or not at all."""
    begun = (
        _components(evidence)
        .filter(pl.col("worked_ms").is_not_null())
        .group_by("coallocation_id")
        .agg(
            ran=pl.len(),
            ran_vms=pl.col("vms").sum(),
            first_ms=pl.col("worked_ms").min(),
            last_ms=pl.col("worked_ms").max(),
        )
    )
    joined = _undisturbed(evidence).join(begun, on="coallocation_id", how="left", maintain_order="left")
    ran, started_ms = pl.col("ran").fill_null(0), pl.col("started_ms")
    whole = (ran == pl.col("components")) & (pl.col("ran_vms") == pl.col("vms"))
    at_once = (pl.col("first_ms") == started_ms) & (pl.col("last_ms") == started_ms)
    is_fine = pl.when(started_ms.is_null()).then(ran == 0).otherwise((whole & at_once).fill_null(value=False))
    # Of one that started at the very last instant no work is seen any more.
    wrong = joined.filter(~(is_fine | (started_ms >= evidence.whole.run.end_ms).fill_null(value=False)))
    sentence = pl.format(
        "co-allocation {} of {} components started {}: {} of them began their work, from {} to {} ms",
        "coallocation_id",
        "components",
        pl.format("at {} ms", started_ms).fill_null("never"),
        ran,
        pl.col("first_ms").cast(pl.String).fill_null("no"),
        pl.col("last_ms").cast(pl.String).fill_null("no"),
    )
    return findings(wrong, sentence, lease_id=None, time_ms="started_ms")


def coallocation_end_wrong(evidence: Evidence) -> pl.DataFrame:
    """Find co-allocations that did not end with the last of their leases, or were refused once started."""
    ends = (
        _components(evidence)
        .group_by("coallocation_id")
        .agg(last_end_ms=pl.col("end_ms").max(), still_open=pl.col("end_ms").is_null().any())
    )
    joined = _coallocations(evidence).join(ends, on="coallocation_id", how="left", maintain_order="left")
    final = pl.col("state").is_in(_FINAL) & ~pl.col("still_open")
    over = final & pl.col("ended_ms").eq_missing(pl.col("last_end_ms"))
    unfinished = pl.col("still_open") & pl.col("ended_ms").is_null() & (pl.col("reason") == "horizon-reached")
    has_begun = pl.col("started_ms").is_not_null()
    fits = pl.when(pl.col("state") == "refused").then(~has_begun).otherwise(True)  # noqa: FBT003 - a literal
    fits &= pl.when(pl.col("state").is_in(["completed", "running"])).then(has_begun).otherwise(True)  # noqa: FBT003
    wrong = joined.filter(~((over | unfinished) & fits).fill_null(value=False))
    sentence = pl.format(
        "co-allocation {} is {} ({}) at {}, its last lease ended at {}",
        "coallocation_id",
        "state",
        "reason",
        pl.format("{} ms", "ended_ms").fill_null("no time"),
        pl.format("{} ms", "last_end_ms").fill_null("no time"),
    )
    return findings(wrong, sentence, lease_id=None, time_ms="ended_ms")


def idle_miscounted(evidence: Evidence) -> pl.DataFrame:
    """Find co-allocations whose idle time is not that of their claim segments."""
    seen = _components(evidence).group_by("coallocation_id").agg(seen_vm_ms=pl.col("claimed_vm_ms").sum())
    joined = _undisturbed(evidence).join(seen, on="coallocation_id", how="left", maintain_order="left")
    wrong = joined.filter(pl.col("idle_vm_ms") != pl.col("seen_vm_ms").fill_null(0))
    sentence = pl.format(
        "co-allocation {} counts {} VM-ms of idle time, its claim segments {}",
        "coallocation_id",
        "idle_vm_ms",
        pl.col("seen_vm_ms").fill_null(0),
    )
    return findings(wrong, sentence, lease_id=None, time_ms="started_ms")


def claim_misplaced(evidence: Evidence) -> pl.DataFrame:
    """Find claim segments of leases of no co-allocation, late, or neither given back nor worked in."""
    of_coallocation = evidence.leases.select("lease_id", "coallocation_id")
    claims = evidence.segments.filter(_IS_CLAIM).join(of_coallocation, on="lease_id", how="left", maintain_order="left")
    goes_on = ~pl.col("is_last") & (pl.col("ended_by") == "phase")
    given_back = pl.col("is_last") & pl.col("ended_by").is_in(["cancelled", "failed", "horizon"])
    is_fine = pl.col("coallocation_id").is_not_null() & (pl.col("number") == 0) & (goes_on | given_back)
    sentence = pl.format("it holds machines idle from {} ms, and that ended by {}", "start_ms", "ended_by")
    return findings(claims.filter(~is_fine), sentence, site="site", time_ms="start_ms")


def _coallocations(evidence: Evidence) -> pl.DataFrame:
    return evidence.run.coallocations.unique("coallocation_id", keep="first", maintain_order=True)


def _undisturbed(evidence: Evidence) -> pl.DataFrame:
    """Return those whose machines were there at once, and of which no component was lost."""
    disturbed = _components(evidence).filter((pl.col("state") == "failed") | pl.col("awaited"))
    return _coallocations(evidence).join(disturbed, on="coallocation_id", how="anti", maintain_order="left")


def _components(evidence: Evidence) -> pl.DataFrame:
    """Return the leases of co-allocations, with when their work began and what they held idle."""
    held = evidence.run.segments.group_by("lease_id").agg(
        worked_ms=pl.col("start_ms").filter(pl.col("kind") == "run").min(),
        awaited=(pl.col("kind") == "start").any(),
        claimed_vm_ms=(_SPAN_MS * pl.col("vms")).filter(_IS_CLAIM).sum(),
    )
    leases = evidence.leases.filter(pl.col("coallocation_id").is_not_null())
    return leases.join(held, on="lease_id", how="left", maintain_order="left")


COALLOCATIONS = (
    ValidationRule(
        "coallocation-incomplete",
        "Every co-allocation has a row and a lease for each component.",
        coallocation_incomplete,
        COALLOCATION,
    ),
    ValidationRule(
        "coallocation-apart",
        "All components of a co-allocation begin their work at the same instant, or none does.",
        coallocation_apart,
        COALLOCATION,
    ),
    ValidationRule(
        "coallocation-end-wrong",
        "A co-allocation ends as and when the last of its leases does.",
        coallocation_end_wrong,
        COALLOCATION,
    ),
    ValidationRule(
        "idle-miscounted",
        "The idle time of a co-allocation is that of its claim segments.",
        idle_miscounted,
        COALLOCATION,
    ),
    ValidationRule(
        "claim-misplaced",
        "Only components hold machines idle, first of all, and work in them or give them back.",
        claim_misplaced,
    ),
)
