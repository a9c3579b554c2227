"""The files of an evaluation: the report with its pictures, the same as JSON, and every result as Parquet."""

import json
from pathlib import Path

from leasehold.experiments.hybrid.outcome import Outcome, as_data
from leasehold.experiments.hybrid.pictures import write_pictures
from leasehold.experiments.hybrid.report import markdown
from leasehold.experiments.kept import Kept, Runs

REPORT, DATA, RESULTS = "hybrid.md", "hybrid.json", "hybrid.parquet"


def write(outcome: Outcome, kept: Kept, runs: Runs, folder: Path) -> list[Path]:
    """Write all of them into a folder, in place of earlier ones; returns where they are."""
    report, data, results = folder / REPORT, folder / DATA, folder / RESULTS
    report.write_text(markdown(outcome) + kept.footnote(runs), encoding="utf-8")
    data.write_text(json.dumps(as_data(outcome), indent=2) + "\n", encoding="utf-8")
    kept.every_result(runs).write_parquet(results)
    return [report, data, results, *write_pictures(outcome, folder)]
