"""The files of it: the report with its pictures, the same as JSON, every single result as Parquet."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

import polars as pl

from leasehold.experiments.beyond.drawing import draw
from leasehold.experiments.beyond.outcome import Outcome, Standing
from leasehold.experiments.beyond.report import markdown, which_policy
from leasehold.experiments.beyond.settings import NAME
from leasehold.experiments.kept import Kept, Runs
from leasehold.experiments.machine import where
from leasehold.experiments.statistics import Interval

WHICH = "which-policy.txt"
"""A table for a page of its own, and no page itself."""


def write(outcome: Outcome, kept: Kept, runs: Runs, folder: Path) -> list[Path]:
    """Write all of them into a folder, in place of earlier ones; returns where they are."""
    report, data, results = (folder / f"{NAME}.{kind}" for kind in ("md", "json", "parquet"))
    drawn = draw(outcome, folder)
    shown = [path.name for path in drawn if path.suffix == ".svg"]
    report.write_text(markdown(outcome, shown) + kept.footnote(runs), encoding="utf-8")
    data.write_text(json.dumps(as_data(outcome), indent=2) + "\n", encoding="utf-8")
    _every_result(outcome, kept, runs).write_parquet(results)
    written = [report, data, results, *drawn]
    if any(one.role == "main" for one in outcome.settings):
        (folder / WHICH).write_text(which_policy(outcome), encoding="utf-8")
        written.append(folder / WHICH)
    return written


def as_data(outcome: Outcome) -> dict[str, Any]:
    """Give everything as plain data."""
    return {
        "evaluation": NAME,
        "hours": outcome.plan.hours,
        "replications": dict(outcome.counts),
        "is_whole": outcome.is_whole,
        "where": where(),
        "level": 0.95,
        "reference": outcome.plan.reference,
        "wanted": [asdict(one) for one in outcome.plan.wanted],
        "settings": [asdict(one) for one in outcome.settings],
        "contenders": [
            asdict(one) | {"information": outcome.plan.information(one)} for one in outcome.plan.contenders
        ],
        "standings": [_standing(one) for one in outcome.standings],
    }


def _standing(one: Standing) -> dict[str, Any]:
    return {
        "setting": one.setting.name,
        "contender": one.contender.name,
        "replications": one.count,
        "reach": one.reach,
        "judged": [asdict(judged.wanted) | {"reach": judged.reach} for judged in one.judged],
        "means": _intervals(one.means),
        "ratios": _intervals(one.ratios),
    }


def _intervals(found: Mapping[str, Interval]) -> dict[str, Any]:
    return {
        metric: {"mean": _number(one.mean), "low": _number(one.low), "high": _number(one.high)}
        for metric, one in found.items()
    }


def _number(value: float) -> float | None:
    """Write what is not a number as JSON can."""
    return value if isfinite(value) else None


def _every_result(outcome: Outcome, kept: Kept, runs: Runs) -> pl.DataFrame:
    """Give one row for each setting, contender and replication, with all metrics."""
    said = [
        {
            "configuration": outcome.plan.name_of(one.setting, one.contender.name),
            "setting": one.setting.name,
            "contender": one.contender.name,
        }
        for one in outcome.standings
    ]
    return pl.DataFrame(said).join(kept.every_result(runs), on="configuration").drop("configuration")
