"""Nothing is lost or counted twice, every lease has a life that makes sense, and each type gets what it promises."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from leasehold.analysis.facts import LOST_REASONS
from leasehold.analysis.run import streamed
from leasehold.analysis.validation.evidence import WHOLE, Evidence, ValidationRule, findings
from leasehold.model.tables import MAY_BE_NULL, SEGMENT_ENDS, SEGMENT_KINDS, TABLES


def lease_twice(evidence: Evidence) -> pl.DataFrame:
    """Find the leases that have more than one row."""
    rows = evidence.run.leases.group_by("lease_id").len().filter(pl.col("len") > 1).sort("lease_id")
    return findings(rows, pl.format("lease {} has {} rows", "lease_id", "len"))


def job_unaccounted(evidence: Evidence) -> pl.DataFrame:
    """Find the counts of the manifest that the leases do not bear out."""
    jobs: Mapping[str, Any] = evidence.run.manifest.get("jobs", {})
    rows = dict(streamed(evidence.run.scan("leases").group_by("origin").len()).iter_rows())
    wrong = [
        f"the manifest counts {jobs.get(key, 0)} {key} jobs, the run accounts for {found}"
        for key, found in (
            ("local", rows.get("local", 0)),
            ("external", rows.get("external", 0)),
            ("read", rows.get("local", 0) + rows.get("external", 0)),
        )
        if jobs.get(key, 0) != found
    ]
    return _sentences(wrong)


def state_miscounted(evidence: Evidence) -> pl.DataFrame:
    """Find the states that the manifest counts otherwise than the leases."""
    stated: Mapping[str, int] = evidence.run.manifest.get("jobs", {}).get("by_state", {})
    found = dict(streamed(evidence.run.scan("leases").group_by("state").len()).iter_rows())
    wrong = [
        f"the manifest counts {stated.get(state, 0)} leases as {state}, the leases say {found.get(state, 0)}"
        for state in sorted(stated.keys() | found.keys())
        if stated.get(state, 0) != found.get(state, 0)
    ]
    return _sentences(wrong)


def value_missing(evidence: Evidence) -> pl.DataFrame:
    """Find the columns with nulls that the schema does not allow."""
    wrong = [
        f"{table}.{column} is empty in {count} rows"
        for table in TABLES
        for column, count in streamed(evidence.run.scan(table).null_count()).to_dicts()[0].items()
        if count and column not in MAY_BE_NULL[table]
    ]
    return _sentences(wrong)


def unknown_reference(evidence: Evidence) -> pl.DataFrame:
    """Find segments and decisions of leases or sites that do not exist."""
    named = pl.concat(
        [
            evidence.run.scan("segments").select("lease_id", "site", time_ms="start_ms"),
            evidence.run.scan("decisions").select("lease_id", "site", "time_ms"),
        ]
    ).collect()
    known = (
        pl.col("lease_id").is_in(evidence.leases["lease_id"].implode()),
        pl.col("site").is_null() | pl.col("site").is_in(evidence.run.sites["site"].implode()),
    )
    wrong = named.filter(~(known[0] & known[1])).with_columns(pl.col("site").fill_null("no site"))
    sentence = pl.format("lease {} at {} is not in the tables of leases and sites", "lease_id", "site")
    return findings(wrong, sentence, site="site", time_ms="time_ms")


def counter_wrong(evidence: Evidence) -> pl.DataFrame:
    """Find the leases whose counters or first start contradict their segments."""
    counted = evidence.run.segments.group_by("lease_id").agg(
        seen_start_ms=pl.col("start_ms").filter(pl.col("kind") != "start").min(),
        seen_preemptions=(pl.col("ended_by") == "preempted").sum(),
        stopped_unseen=((pl.col("kind") == "start") & (pl.col("ended_by") == "preempted")).any(),
    )
    joined = evidence.leases.join(counted, on="lease_id", how="left").with_columns(
        pl.col("seen_preemptions").fill_null(0)
    )
    # Of machines that were preempted before they were seen, it is not known when their lease first had any.
    same_start = pl.col("first_start_ms").eq_missing(pl.col("seen_start_ms")) | pl.col("stopped_unseen")
    same = same_start.fill_null(value=False) & pl.col("preemptions").eq(pl.col("seen_preemptions"))
    sentence = pl.format(
        "its row says first start {} and {} preemptions, its segments {} and {}",
        pl.col("first_start_ms").cast(pl.String).fill_null("never"),
        "preemptions",
        pl.col("seen_start_ms").cast(pl.String).fill_null("never"),
        "seen_preemptions",
    )
    return findings(joined.filter(~same), sentence, time_ms="first_start_ms")


def _sentences(wrong: list[str]) -> pl.DataFrame:
    frame = pl.DataFrame({"sentence": wrong}, schema={"sentence": pl.String})
    return findings(frame, pl.col("sentence"), lease_id=None)


ACCOUNTING = (
    ValidationRule("lease-twice", "Every lease has exactly one row.", lease_twice),
    ValidationRule(
        "job-unaccounted",
        "Every job that came is a lease; skipped lines of a log are not jobs.",
        job_unaccounted,
        WHOLE,
    ),
    ValidationRule(
        "state-miscounted", "The manifest counts the states as the leases have them.", state_miscounted, WHOLE
    ),
    ValidationRule("value-missing", "No value is missing where the schema wants one.", value_missing, WHOLE),
    ValidationRule("unknown-reference", "Segments and decisions are of known leases and sites.", unknown_reference),
    ValidationRule("counter-wrong", "A lease's counters agree with its segments.", counter_wrong),
)


_ANY_TYPE = ("completed", "killed", "refused", "cancelled", "failed")
_FINAL_STATES: dict[str, tuple[str, ...]] = {
    "cancelable": (*_ANY_TYPE, "terminated"),
    "suspendable": _ANY_TYPE,
    "migratable": _ANY_TYPE,
    "non-preemptable": _ANY_TYPE,
}
_WAITING_STATES = ("submitted", "held", "waiting", "starting", "running")
_OPEN_STATES: dict[str, tuple[str, ...]] = {
    "cancelable": _WAITING_STATES,
    "suspendable": (*_WAITING_STATES, "suspending", "suspended", "resuming"),
    "migratable": (*_WAITING_STATES, "suspending", "suspended", "resuming", "migrating"),
    "non-preemptable": _WAITING_STATES,
}
_LAST_END: dict[str, str] = {
    "completed": "completed",
    "killed": "killed",
    "terminated": "preempted",
    "failed": "failed",
}
"""How the last segment of a lease ends that came to this state."""


def state_illegal(evidence: Evidence) -> pl.DataFrame:
    """Find the leases in a state that their type does not allow, or open without a reason to be."""
    may_fail = pl.col("reason").is_in(LOST_REASONS) | (pl.col("lease_type") == "migratable")
    final = _is_one_of(_FINAL_STATES) & pl.col("end_ms").is_not_null() & ((pl.col("state") != "failed") | may_fail)
    unfinished = (pl.col("reason") == "horizon-reached") & pl.col("end_ms").is_null()
    wrong = evidence.leases.filter(~(final | (_is_one_of(_OPEN_STATES) & unfinished)))
    sentence = pl.format("a {} lease ended as {} ({})", "lease_type", "state", "reason")
    return findings(wrong, sentence, site="site", time_ms="end_ms")


def _is_one_of(states: dict[str, tuple[str, ...]]) -> pl.Expr:
    kind, state = pl.col("lease_type"), pl.col("state")
    return pl.any_horizontal((kind == name) & state.is_in(allowed) for name, allowed in states.items())


def segments_overlap(evidence: Evidence) -> pl.DataFrame:
    """Find the segments that start before the same lease's previous one has ended."""
    wrong = evidence.segments.filter(pl.col("start_ms") < pl.col("before_end_ms"))
    sentence = pl.format("it holds VMs from {} ms, and still from before until {} ms", "start_ms", "before_end_ms")
    return findings(wrong, sentence, site="site", time_ms="start_ms")


def segment_malformed(evidence: Evidence) -> pl.DataFrame:
    """Find segments that end before they start, hold part of a lease, or are of no known kind."""
    whole = pl.col("vms") == pl.col("lease_vms")
    known = pl.col("kind").is_in(SEGMENT_KINDS) & pl.col("ended_by").is_in(SEGMENT_ENDS)
    wrong = evidence.segments.filter(~(whole & known & (pl.col("start_ms") <= pl.col("end_ms"))))
    sentence = pl.format(
        "a {} segment of {} VMs from {} to {} ms ended by {} cannot be",
        "kind",
        "vms",
        "start_ms",
        "end_ms",
        "ended_by",
    )
    return findings(wrong, sentence, site="site", time_ms="start_ms")


def start_before_ready(evidence: Evidence) -> pl.DataFrame:
    """Find the leases that hold VMs before their ready time."""
    wrong = evidence.segments.filter((pl.col("number") == 0) & (pl.col("start_ms") < pl.col("ready_ms")))
    sentence = pl.format("it starts at {} ms, before its ready time {} ms", "start_ms", "ready_ms")
    return findings(wrong, sentence, site="site", time_ms="start_ms")


def _managed(evidence: Evidence) -> list[str]:
    """List the clusters with managers of their own: their gateway learns of an end later."""
    clusters: list[Mapping[str, Any]] = evidence.run.manifest.get("scenario", {}).get("cluster", [])
    return [one["name"] for one in clusters if "manager_delay_s" in one]


def end_disagrees(evidence: Evidence) -> pl.DataFrame:
    """Find the leases whose last segment does not end as, and when, their state says."""
    last = evidence.segments.filter("is_last").select("lease_id", "ended_by", seen_ms="end_ms")
    served = pl.col("state").is_in(["completed", "killed"])
    joined = evidence.leases.join(last, on="lease_id", how="left").with_columns(
        wanted=pl.when(pl.col("reason") == "deadline-lost")
        .then(pl.lit("preempted"))
        .otherwise(pl.col("state").replace_strict(_LAST_END, default=None, return_dtype=pl.String))
    )
    held_nothing = pl.col("wanted").is_in(["failed", "terminated", "preempted"]) & (
        pl.col("ended_by").fill_null("preempted") == "preempted"
    )
    same_end = pl.col("wanted").is_null() | held_nothing | pl.col("ended_by").eq_missing(pl.col("wanted"))
    at_once = pl.col("end_ms").eq_missing(pl.col("seen_ms")) | pl.col("site").is_in(_managed(evidence))
    same_time = ~served | at_once
    never_ran = (pl.col("state") != "refused") | pl.col("seen_ms").is_null()
    sentence = pl.format(
        "it is {}, and its last segment ended by {}",
        "state",
        pl.col("ended_by").fill_null("nothing: it has none"),
    )
    return findings(joined.filter(~(same_end & same_time & never_ran)), sentence, time_ms="end_ms")


_ALL = pl.lit(True)  # noqa: FBT003 - a literal


def work_wrong(evidence: Evidence) -> pl.DataFrame:
    """Find the completed leases that did more or less than their work."""
    return _off(evidence, "completed", "actual_ms", "completed after {} of {} units of work")


def killed_wrong(evidence: Evidence) -> pl.DataFrame:
    """Find the leases ended at their requested time that had more or less than that.

    Where machines are late, two kinds of leases may have had less: a Non-preemptable guest, since it delays no local
    job, and a local job at the time that a Non-preemptable guest was promised.
    """
    is_hard = ~pl.col("is_local") & (pl.col("lease_type") == "non-preemptable")
    hard = evidence.leases.filter(is_hard).select("lease_id")
    promised = evidence.run.decisions.join(hard, on="lease_id", how="semi").select("site", end_ms="planned_ms")
    before_promised = evidence.leases.join(promised, on=["site", "end_ms"], how="semi")["lease_id"]
    awaited = evidence.run.segments.filter(pl.col("kind") == "start")["lease_id"]
    gives_way = is_hard | (pl.col("is_local") & pl.col("lease_id").is_in(before_promised.implode()))
    was_cut = gives_way & pl.col("lease_id").is_in(awaited.implode())
    sentence = "was ended after {} of the {} units of work it asked for"
    return _off(evidence, "killed", "requested_ms", sentence, ~was_cut)


def _off(evidence: Evidence, state: str, wanted_ms: str, sentence: str, among: pl.Expr = _ALL) -> pl.DataFrame:
    wanted = (pl.col(wanted_ms) * pl.col("reference_mips")).alias("wanted")
    ended = evidence.work.filter((pl.col("state") == state) & among).with_columns(wanted)
    wrong = ended.filter((pl.col("done") - pl.col("wanted")).abs() >= pl.col("slack"))
    return findings(wrong, pl.format(sentence, "done", "wanted"), site="site", time_ms="end_ms")


LIFE = (
    ValidationRule(
        "state-illegal",
        "Every lease ends in a state that its type allows, or open at the horizon.",
        state_illegal,
    ),
    ValidationRule("segments-overlap", "A lease never holds VMs twice at the same time.", segments_overlap),
    ValidationRule(
        "segment-malformed", "Every segment holds all VMs of its lease for a span of time.", segment_malformed
    ),
    ValidationRule("start-before-ready", "No lease holds VMs before its ready time.", start_before_ready),
    ValidationRule("end-disagrees", "A lease's last segment ends as and when its state says.", end_disagrees),
    ValidationRule(
        "work-wrong",
        "A completed lease did its actual work, to less than a millisecond for each run segment.",
        work_wrong,
    ),
    ValidationRule(
        "killed-wrong",
        "A lease ended at its requested time had that much, to less than a millisecond for each run segment.",
        killed_wrong,
    ),
)


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
    sentence = pl.format("it was at {} and continues at {}", pl.col("before_site").fill_null("no site"), "site")
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
    """Find the leases that got all their time, but after their deadline, though their machines were there at once."""
    served = pl.col("state").is_in(["completed", "killed"])
    awaited = evidence.run.segments.filter(pl.col("kind") == "start")
    here = ~pl.col("site").is_in(_managed(evidence))
    late = evidence.leases.filter(served & here & (pl.col("end_ms") > pl.col("deadline_ms")))
    wrong = late.join(awaited, on="lease_id", how="anti")
    sentence = pl.format("{} at {} ms, after its deadline {} ms", "state", "end_ms", "deadline_ms")
    return findings(wrong, sentence, site="site", time_ms="end_ms")


def _guests(evidence: Evidence, lease_type: str) -> pl.DataFrame:
    return evidence.segments.filter(~pl.col("is_local") & (pl.col("lease_type") == lease_type))


TYPES = (
    ValidationRule("local-disturbed", "A local job runs at its home, in one piece, never preempted.", local_disturbed),
    ValidationRule(
        "non-preemptable-disturbed",
        "A Non-preemptable guest runs in one piece, never preempted.",
        non_preemptable_disturbed,
    ),
    ValidationRule("cancelable-went-on", "A Cancelable lease never runs again after a preemption.", cancelable_went_on),
    ValidationRule("suspendable-moved", "A Suspendable lease continues at its own site only.", suspendable_moved),
    ValidationRule(
        "resumed-without-resume",
        "A preempted lease is resumed just before it works again, unless it was charged no overhead.",
        resumed_without_resume,
    ),
    ValidationRule(
        "moved-without-migration",
        "A Migratable lease changes its site by a migration only, unless it was charged no overhead.",
        moved_without_migration,
    ),
    ValidationRule("deadline-missed", "A lease that got all its time got it before its deadline.", deadline_missed),
)
