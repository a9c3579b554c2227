"""Nothing is lost and nothing is counted twice: tables, manifest and the leases' own counters."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from leasehold.analysis.validation.evidence import Evidence, Rule, findings
from leasehold.model.tables import MAY_BE_NULL, TABLES


def lease_twice(evidence: Evidence) -> pl.DataFrame:
    """Find the leases that have more than one row."""
    rows = evidence.run.leases.group_by("lease_id").len().filter(pl.col("len") > 1).sort("lease_id")
    return findings(rows, pl.format("lease {} has {} rows", "lease_id", "len"))


def job_unaccounted(evidence: Evidence) -> pl.DataFrame:
    """Find the counts of the manifest that the leases do not bear out."""
    jobs: Mapping[str, Any] = evidence.run.manifest.get("jobs", {})
    rows = dict(evidence.run.leases.group_by("origin").len().iter_rows())
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
    found = dict(evidence.run.leases.group_by("state").len().iter_rows())
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
        for column, count in _frame(evidence, table).null_count().to_dicts()[0].items()
        if count and column not in MAY_BE_NULL[table]
    ]
    return _sentences(wrong)


def unknown_reference(evidence: Evidence) -> pl.DataFrame:
    """Find segments and decisions of leases or sites that do not exist."""
    named = pl.concat(
        [
            evidence.run.segments.select("lease_id", "site", time_ms="start_ms"),
            evidence.run.decisions.select("lease_id", "site", "time_ms"),
        ]
    )
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
        seen_start_ms=pl.col("start_ms").min(),
        seen_preemptions=(pl.col("ended_by") == "preempted").sum(),
    )
    joined = evidence.leases.join(counted, on="lease_id", how="left").with_columns(
        pl.col("seen_preemptions").fill_null(0)
    )
    same = pl.col("first_start_ms").eq_missing(pl.col("seen_start_ms")) & pl.col("preemptions").eq(
        pl.col("seen_preemptions")
    )
    sentence = pl.format(
        "its row says first start {} and {} preemptions, its segments {} and {}",
        pl.col("first_start_ms").cast(pl.String).fill_null("never"),
        "preemptions",
        pl.col("seen_start_ms").cast(pl.String).fill_null("never"),
        "seen_preemptions",
    )
    return findings(joined.filter(~same), sentence, time_ms="first_start_ms")


def _frame(evidence: Evidence, table: str) -> pl.DataFrame:
    frame: pl.DataFrame = getattr(evidence.run, table)
    return frame


def _sentences(wrong: list[str]) -> pl.DataFrame:
    frame = pl.DataFrame({"sentence": wrong}, schema={"sentence": pl.String})
    return findings(frame, pl.col("sentence"), lease_id=None)


RULES = (
    Rule("lease-twice", "Every lease has exactly one row.", lease_twice),
    Rule(
        "job-unaccounted",
        "Every job that came is a lease; skipped lines of a log are no jobs.",
        job_unaccounted,
    ),
    Rule("state-miscounted", "The manifest counts the states as the leases have them.", state_miscounted),
    Rule("value-missing", "No value is missing where the schema wants one.", value_missing),
    Rule("unknown-reference", "Segments and decisions are of known leases and sites.", unknown_reference),
    Rule("counter-wrong", "A lease's counters agree with its segments.", counter_wrong),
)
