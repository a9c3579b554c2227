"""The files of an evaluation: the report, its pictures, the same as JSON, every single result as Parquet."""

import json
from pathlib import Path

import polars as pl

from leasehold.experiments.intergrid.data import as_data
from leasehold.experiments.intergrid.drawing import draw
from leasehold.experiments.intergrid.outcome import Outcome
from leasehold.experiments.intergrid.report import markdown
from leasehold.experiments.kept import Kept, Runs


def write(outcome: Outcome, kept: Kept, runs: Runs, folder: Path) -> list[Path]:
    """Write all of them into a folder, in place of earlier ones; returns where they are."""
    number = outcome.plan.study.number
    report, data, results = (folder / f"{number}.{kind}" for kind in ("md", "json", "parquet"))
    drawn = draw(outcome, folder)
    report.write_text(markdown(outcome) + kept.footnote(runs), encoding="utf-8")
    data.write_text(json.dumps(as_data(outcome), indent=2) + "\n", encoding="utf-8")
    _every_result(outcome, kept, runs).write_parquet(results)
    return [report, data, results, *drawn]


def _every_result(outcome: Outcome, kept: Kept, runs: Runs) -> pl.DataFrame:
    """Give one row for each configuration and replication, with all metrics."""
    said = [
        {"configuration": name, "reading": one.reading.name, "point": one.point, "policy": one.policy}
        for name, one in outcome.plan.configurations.items()
    ]
    return pl.DataFrame(said).join(kept.every_result(runs), on="configuration")
