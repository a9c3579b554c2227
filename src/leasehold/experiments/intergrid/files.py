"""The files of an evaluation: the report, its pictures, the same as JSON, every single result as Parquet."""

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from leasehold.experiments.intergrid.data import as_data
from leasehold.experiments.intergrid.drawing import draw
from leasehold.experiments.intergrid.outcome import Outcome
from leasehold.experiments.intergrid.report import markdown
from leasehold.experiments.kept import Kept


def write(
    outcome: Outcome, kept: Kept, names: Sequence[str], seeds: Sequence[int], folder: Path
) -> list[Path]:
    """Write all of them into a folder, in place of earlier ones; returns where they are."""
    number = outcome.plan.study.number
    report, data, results = (folder / f"{number}.{kind}" for kind in ("md", "json", "parquet"))
    drawn = draw(outcome, folder)
    report.write_text(markdown(outcome) + kept.footnote(), encoding="utf-8")
    data.write_text(json.dumps(as_data(outcome), indent=2) + "\n", encoding="utf-8")
    every_result(outcome, kept, names, seeds).write_parquet(results)
    return [report, data, results, *drawn]


def every_result(outcome: Outcome, kept: Kept, names: Sequence[str], seeds: Sequence[int]) -> pl.DataFrame:
    """Give one row for each configuration and replication, with all metrics."""
    wanted = pl.col("seed").is_in(list(seeds))
    known = outcome.plan.configurations
    return pl.concat(
        kept.table(name)
        .filter(wanted)
        .select(
            pl.lit(name).alias("configuration"),
            pl.lit(known[name].reading.name).alias("reading"),
            pl.lit(known[name].point).alias("point"),
            pl.lit(known[name].policy).alias("policy"),
            pl.all(),
        )
        for name in names
    )
