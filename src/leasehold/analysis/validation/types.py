"""What each lease type promises: who may be disturbed, and what has to happen before work goes on."""

import polars as pl

from leasehold.analysis.validation.evidence import Evidence, Rule, findings

_RUN = pl.col("kind") == "run"
_OVERHEAD_FREE = pl.col("overhead_vm_ms") == 0
_FOLLOWS_AT_ONCE = (pl.col("before_end_ms") == pl.col("start_ms")) & (pl.col("before_ended_by") == "phase")


def local_disturbed(evidence: Evidence) -> pl.DataFrame:
    """Find the local jobs that ran elsewhere, in pieces, or were preempted."""
    at_home = pl.col("site").eq_missing(pl.col("home"))
    whole = (pl.col("number") == 0) & _RUN & (pl.col("ended_by") != "preempted")
    wrong = evidence.segments.filter(pl.col("is_local") & ~(at_home & whole))
    sentence = pl.format(
        "local job of {}: segment {} is a {} segment at {} that ended by {}",
        pl.col("home").fill_null("no site"),
        pl.col("number") + 1,
        "kind",
        "site",
        "ended_by",
    )
    return findings(wrong, sentence, site="site", time_ms="start_ms")


def non_preemptable_disturbed(evidence: Evidence) -> pl.DataFrame:
    """Find the Non-preemptable guests that ran in pieces or were preempted; components may claim first."""
    claims = (pl.col("number") == 0) & (pl.col("kind") == "claim")
    after_claim = (pl.col("number") == 1) & (pl.col("before_kind") == "claim") & _FOLLOWS_AT_ONCE
    whole = claims | (_RUN & ((pl.col("number") == 0) | after_claim.fill_null(value=False)))
    wrong = _guests(evidence, "non-preemptable").filter(~(whole & (pl.col("ended_by") != "preempted")))
    sentence = pl.format("segment {} ({}) ended by {}", pl.col("number") + 1, "kind", "ended_by")
    return findings(wrong, sentence, site="site", time_ms="start_ms")


def cancelable_went_on(evidence: Evidence) -> pl.DataFrame:
    """Find the Cancelable leases that ran again after they were preempted."""
    wrong = _guests(evidence, "cancelable").filter((pl.col("number") > 0) | ~_RUN)
    sentence = pl.format("it holds VMs again from {} ms ({})", "start_ms", "kind")
    return findings(wrong, sentence, site="site", time_ms="start_ms")


def suspendable_moved(evidence: Evidence) -> pl.DataFrame:
    """Find the Suspendable leases that went on at another site."""
    moved = (pl.col("number") > 0) & (pl.col("site") != pl.col("before_site"))
    wrong = _guests(evidence, "suspendable").filter(moved | (pl.col("kind") == "migrate"))
    sentence = pl.format("it was at {} and goes on at {}", pl.col("before_site").fill_null("no site"), "site")
    return findings(wrong, sentence, site="site", time_ms="start_ms")


def resumed_without_resume(evidence: Evidence) -> pl.DataFrame:
    """Find preempted leases that work again at their site without their memory being restored first."""
    prepared = pl.col("before_kind").is_in(["resume", "migrate"]) & _FOLLOWS_AT_ONCE
    stayed = pl.col("site") == pl.col("before_site")
    again = evidence.segments.filter(_RUN & pl.col("after_preemption") & stayed & ~_OVERHEAD_FREE)
    sentence = pl.format("it works again from {} ms, and was not resumed just before", "start_ms")
    return findings(again.filter(~prepared), sentence, site="site", time_ms="start_ms")


def moved_without_migration(evidence: Evidence) -> pl.DataFrame:
    """Find the segments at another site than before that are not a migration."""
    moved = (pl.col("number") > 0) & (pl.col("site") != pl.col("before_site"))
    allowed = (pl.col("kind") == "migrate") | _OVERHEAD_FREE
    wrong = _guests(evidence, "migratable").filter(moved & ~allowed)
    sentence = pl.format("it was at {} and holds VMs at {} by {}", "before_site", "site", "kind")
    return findings(wrong, sentence, site="site", time_ms="start_ms")


def deadline_missed(evidence: Evidence) -> pl.DataFrame:
    """Find the leases that got all their time, but after their deadline."""
    served = pl.col("state").is_in(["completed", "killed"])
    wrong = evidence.leases.filter(served & (pl.col("end_ms") > pl.col("deadline_ms")))
    sentence = pl.format("{} at {} ms, after its deadline {} ms", "state", "end_ms", "deadline_ms")
    return findings(wrong, sentence, site="site", time_ms="end_ms")


def _guests(evidence: Evidence, lease_type: str) -> pl.DataFrame:
    return evidence.segments.filter(~pl.col("is_local") & (pl.col("lease_type") == lease_type))


RULES = (
    Rule("local-disturbed", "A local job runs at its home, in one piece, never preempted.", local_disturbed),
    Rule(
        "non-preemptable-disturbed",
        "A Non-preemptable guest runs in one piece, never preempted.",
        non_preemptable_disturbed,
    ),
    Rule("cancelable-went-on", "A Cancelable lease never runs again after a preemption.", cancelable_went_on),
    Rule("suspendable-moved", "A Suspendable lease goes on at its own site only.", suspendable_moved),
    Rule(
        "resumed-without-resume",
        "A preempted lease is resumed just before it works again, unless it was charged no overhead.",
        resumed_without_resume,
    ),
    Rule(
        "moved-without-migration",
        "A Migratable lease changes its site by a migration only, unless it was charged no overhead.",
        moved_without_migration,
    ),
    Rule("deadline-missed", "Who got all their time got it before their deadline.", deadline_missed),
)
