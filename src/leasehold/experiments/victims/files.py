"""The files of the comparison: the report, the same as JSON, and every single result as Parquet."""

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from leasehold.experiments.kept import Kept
from leasehold.experiments.victims.outcome import Outcome, as_data
from leasehold.experiments.victims.report import markdown


def write(
    outcome: Outcome, kept: Kept, names: Sequence[str], seeds: Sequence[int], folder: Path
) -> list[Path]:
    """Write all of them into a folder, in place of earlier ones; returns where they are."""
    report, data, results = (folder / f"victims.{kind}" for kind in ("md", "json", "parquet"))
    report.write_text(markdown(outcome) + kept.footnote(), encoding="utf-8")
    data.write_text(json.dumps(as_data(outcome), indent=2) + "\n", encoding="utf-8")
    every_result(kept, names, seeds).write_parquet(results)
    return [report, data, results]


def every_result(kept: Kept, names: Sequence[str], seeds: Sequence[int]) -> pl.DataFrame:
    """Give one row for each configuration, replication and metric."""
    wanted = pl.col("seed").is_in(list(seeds))
    return pl.concat(
        kept.table(name)
        .filter(wanted)
        .unpivot(index="seed", variable_name="metric", value_name="value")
        .select(pl.lit(name).alias("configuration"), pl.all())
        for name in names
    )
