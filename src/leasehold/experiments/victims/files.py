"""The files of the comparison: the report, the same as JSON, and every single result as Parquet."""

import json
from pathlib import Path

import polars as pl

from leasehold.experiments.kept import Kept, Runs
from leasehold.experiments.victims.outcome import Outcome, as_data
from leasehold.experiments.victims.report import markdown


def write(outcome: Outcome, kept: Kept, runs: Runs, folder: Path) -> list[Path]:
    """Write all of them into a folder, in place of earlier ones; returns where they are."""
    report, data, results = (folder / f"victims.{kind}" for kind in ("md", "json", "parquet"))
    report.write_text(markdown(outcome) + kept.footnote(runs), encoding="utf-8")
    data.write_text(json.dumps(as_data(outcome), indent=2) + "\n", encoding="utf-8")
    _every_result(kept, runs).write_parquet(results)
    return [report, data, results]


def _every_result(kept: Kept, runs: Runs) -> pl.DataFrame:
    """Give one row for each configuration, replication and metric: the two tables have others each."""
    index = ["configuration", "seed"]
    every = kept.every_result(runs).unpivot(index=index, variable_name="metric", value_name="value")
    return every.drop_nulls("value").sort(index, maintain_order=True)
