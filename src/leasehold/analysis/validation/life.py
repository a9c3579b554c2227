"""A lease's life: one step after the other, in room for all its VMs, with exactly its work done."""

import polars as pl

from leasehold.analysis.validation.evidence import Evidence, Rule, findings
from leasehold.model.tables import SEGMENT_ENDS, SEGMENT_KINDS

_ANY_TYPE = ("completed", "killed", "refused", "cancelled")
_FINAL_STATES: dict[str, tuple[str, ...]] = {
    "cancelable": (*_ANY_TYPE, "terminated"),
    "suspendable": _ANY_TYPE,
    "migratable": (*_ANY_TYPE, "failed"),
    "non-preemptable": _ANY_TYPE,
}
_WAITING_STATES = ("submitted", "held", "waiting", "running")
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
    "failed": "preempted",
}
"""How the last segment of a lease ends that came to this state."""


def state_illegal(evidence: Evidence) -> pl.DataFrame:
    """Find the leases in a state that their type does not allow, or open without a reason to be."""
    final = _is_one_of(_FINAL_STATES) & pl.col("end_ms").is_not_null()
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


def end_disagrees(evidence: Evidence) -> pl.DataFrame:
    """Find the leases whose last segment does not end as, and when, their state says."""
    last = evidence.segments.filter("is_last").select("lease_id", "ended_by", seen_ms="end_ms")
    served = pl.col("state").is_in(["completed", "killed"])
    joined = evidence.leases.join(last, on="lease_id", how="left").with_columns(
        wanted=pl.col("state").replace_strict(_LAST_END, default=None, return_dtype=pl.String)
    )
    same_end = pl.col("wanted").is_null() | pl.col("ended_by").eq_missing(pl.col("wanted"))
    same_time = ~served | pl.col("end_ms").eq_missing(pl.col("seen_ms"))
    never_ran = (pl.col("state") != "refused") | pl.col("seen_ms").is_null()
    sentence = pl.format(
        "it is {}, and its last segment ended by {}",
        "state",
        pl.col("ended_by").fill_null("nothing: it has none"),
    )
    return findings(joined.filter(~(same_end & same_time & never_ran)), sentence, time_ms="end_ms")


def work_wrong(evidence: Evidence) -> pl.DataFrame:
    """Find the completed leases that did more or less than their work."""
    return _off(evidence, "completed", "actual_ms", "completed after {} of {} units of work")


def killed_wrong(evidence: Evidence) -> pl.DataFrame:
    """Find the leases ended at their requested time that had more or less than that."""
    return _off(evidence, "killed", "requested_ms", "was ended after {} of the {} units of work it asked for")


def _off(evidence: Evidence, state: str, wanted_ms: str, sentence: str) -> pl.DataFrame:
    wanted = (pl.col(wanted_ms) * pl.col("reference_mips")).alias("wanted")
    ended = evidence.work.filter(pl.col("state") == state).with_columns(wanted)
    wrong = ended.filter((pl.col("done") - pl.col("wanted")).abs() >= pl.col("slack"))
    return findings(wrong, pl.format(sentence, "done", "wanted"), site="site", time_ms="end_ms")


RULES = (
    Rule(
        "state-illegal",
        "Every lease ends in a state that its type allows, or open at the horizon.",
        state_illegal,
    ),
    Rule("segments-overlap", "A lease never holds VMs twice at the same time.", segments_overlap),
    Rule("segment-malformed", "Every segment holds all VMs of its lease for a span of time.", segment_malformed),
    Rule("start-before-ready", "No lease holds VMs before its ready time.", start_before_ready),
    Rule("end-disagrees", "A lease's last segment ends as and when its state says.", end_disagrees),
    Rule(
        "work-wrong",
        "A completed lease did its actual work, to less than a millisecond for each run segment.",
        work_wrong,
    ),
    Rule(
        "killed-wrong",
        "A lease ended at its requested time had that much, to less than a millisecond for each run segment.",
        killed_wrong,
    ),
)
