"""Two runs side by side, as rows and as a table."""

from pathlib import Path
from typing import Any

from leasehold.analysis.metrics import CATALOGUE, compare
from leasehold.analysis.run import Run, load
from leasehold.analysis.wording import NOTHING, count, value
from leasehold.cli.screen import answer_table
from leasehold.model.errors import UnknownName

Row = dict[str, Any]

_OF_ONE_PARTY = ("local", "guest", "idle_lent")
_MARKS = {"better": "better", "worse": "worse"}


def comparison(first: Path, second: Path, metrics: list[str]) -> list[Row]:
    """Compare two run folders by these metrics, or by all; raises UnknownName for another metric."""
    for key in metrics:
        if key not in CATALOGUE:
            raise UnknownName("--metric", key, CATALOGUE)
    rows = {row["metric"]: row for row in compare(load(first), load(second)).to_dicts()}
    return [rows[key] for key in metrics or rows]


def different_requests(first: Path, second: Path, rows: list[Row]) -> str:
    """Warn, in one sentence, where the two runs were not given as many local jobs and as many guests.

    Metrics of local jobs alone, or of what was lent, are meant to be compared so.
    """
    if all(row["metric"].startswith(_OF_ONE_PARTY) for row in rows):
        return ""
    ours, theirs = (_requests(load(path)) for path in (first, second))
    if ours == theirs:
        return ""
    return (
        f"warning: the runs hold different requests ({first.name}: {ours}; {second.name}: {theirs}); "
        "metrics over all leases compare different populations"
    )


def _requests(run: Run) -> str:
    """Say how many requests of each kind a run was given."""
    came = dict(run.leases.group_by("origin").len().iter_rows())
    return f"{count(came.get('local', 0), 'local job')} and {count(came.get('external', 0), 'guest')}"


def worsened(rows: list[Row], percent: float) -> list[str]:
    """Give the metrics that are worse by more than so many percent of the first run's value."""
    worse = [row for row in rows if row["verdict"] == "worse"]
    return [row["metric"] for row in worse if abs(row["difference"]) > abs(row["first"]) * percent / 100]


def show(rows: list[Row], first: str, second: str) -> None:
    """Print what could be measured in at least one of the runs."""
    told = [row for row in rows if row["first"] is not None or row["second"] is not None]
    answer_table(
        ["", first, second, "change", ""],
        [
            [
                row["title"],
                value(row["first"], row["unit"]),
                value(row["second"], row["unit"]),
                _change(row),
                _MARKS.get(row["verdict"], ""),
            ]
            for row in told
        ],
        figures=(1, 2, 3),
    )


def _change(row: Row) -> str:
    """Say the ratio as a percentage; points where the values are percentages themselves."""
    if row["difference"] is None:
        return NOTHING
    if row["difference"] == 0:
        return "same"
    if row["unit"] == "%":
        return f"{row['difference']:+.1f} points"
    if row["ratio"] is None:
        return NOTHING
    return f"{100 * (row['ratio'] - 1):+.1f} %"
