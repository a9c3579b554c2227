"""The files of an evaluation: the report, the same as JSON, and every single result as Parquet."""

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from leasehold.experiments.kept import Kept
from leasehold.experiments.usla.outcome import Outcome, as_data
from leasehold.experiments.usla.report import markdown

REPORT, DATA, RESULTS = "usla.md", "usla.json", "usla.parquet"


def write(outcome: Outcome, kept: Kept, seeds: Sequence[int], folder: Path) -> list[Path]:
    """Write all of them into a folder, in place of earlier ones; returns where they are."""
    report, data, results = folder / REPORT, folder / DATA, folder / RESULTS
    report.write_text(markdown(outcome) + kept.footnote(), encoding="utf-8")
    data.write_text(json.dumps(as_data(outcome), indent=2) + "\n", encoding="utf-8")
    every_result(outcome, kept, seeds).write_parquet(results)
    return [report, data, results]


def every_result(outcome: Outcome, kept: Kept, seeds: Sequence[int]) -> pl.DataFrame:
    """Give one row for each configuration and seed, with the five metrics."""
    wanted = pl.col("seed").is_in(list(seeds))
    return pl.concat(
        kept.table(name).filter(wanted).select(pl.lit(name).alias("configuration"), pl.all())
        for name in outcome.plan.configurations
    )
