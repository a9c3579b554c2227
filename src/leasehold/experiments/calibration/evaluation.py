"""Calibration of start times: the campaign and its report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from math import exp, isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

from leasehold.experiments import pictures
from leasehold.experiments.calibration import world
from leasehold.experiments.calibration.plan import QUICK, Workload, plan
from leasehold.experiments.calibration.world import AGREEMENT, GROUPS, METRICS
from leasehold.experiments.evaluation import Campaign, Evaluation, EvaluationReport, Size
from leasehold.experiments.kept import DECIDES, Results, marks
from leasehold.experiments.report import NOTHING, Block, MarkdownTable, Title, bullets, opening, plain
from leasehold.experiments.statistics import Interval
from leasehold.forecasting.calibration import COVERAGE, wilson
from leasehold.model.errors import InvalidField

_MAKES_RESULTS = (
    *DECIDES,
    "sharing",
    *(f"forecasting/{name}.py" for name in ("calibration", "futures", "learnt", "snapshot", "world")),
    "simulation/calibrate.py",
    "experiments/calibration/world.py",
)

GROUP_NAMES = {
    "own-start": "own users start",
    "guests-start": "guests start",
    "guests-continue": "suspended guests continue",
}
FEWEST = 20
"""Groups of fewer predictions are in the table, and not in the picture."""


def campaign(parts: Sequence[str], size: Size) -> Campaign:
    """Run these workloads, by default all that there are logs for."""
    read, folder = plan(), size.logs
    asked = [one for one in read.configurations.values() if one.name.endswith(QUICK) is size.quick]
    asked = [one for one in asked if one.part in parts] if parts else asked
    missing = [one.log for one in asked if one.log and not (folder is not None and (folder / one.log).is_file())]
    if missing and parts:
        raise InvalidField("--logs", str(folder or ""), f"a folder with {missing[0]}")
    chosen = [one for one in asked if one.log not in missing]
    return Campaign(
        runs={one.name: range(1, 1 + size.count(1, 1)) for one in chosen},
        marks=marks(_MAKES_RESULTS, {name: one.as_data() for name, one in read.configurations.items()}),
        measure=partial(world.measure, folder=folder),
        report=partial(report, chosen, missing, parts, quick=size.quick),
    )


def parts() -> Sequence[str]:
    """Name the workloads."""
    return list(dict.fromkeys(one.part for one in plan().configurations.values()))


EVALUATIONS = {"calibration": Evaluation(campaign, parts)}


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one group of predictions on one workload, over all seeds.

    ``factor``            geometric mean of the ratio of the ends of the interval
    ``relative``          median width, as a multiple of the time that it really took
    ``score, climate``    mean interval scores on those predictions that the climate could make, too
    ``climate_coverage``  what the climate covers of these
    """

    workload: Workload
    group: str
    agreement: str
    scored: int
    coverage: Interval
    alone: float
    early: int
    late: int
    factor: float
    relative: float
    score: float
    climate: float
    climate_coverage: float

    @property
    def name(self) -> str:
        """Say which it is."""
        return f"{self.workload.part.partition('-')[2]}: {GROUP_NAMES[self.group]}, futures {self.agreement}"


def rows_of(workloads: Sequence[Workload], results: Results) -> list[Row]:
    """Put together what was measured; groups without predictions are left out."""
    made = (
        _row(one, group, agreement, results[one.name])
        for one, group, agreement in product(workloads, GROUPS, AGREEMENT)
        if one.name in results
    )
    return [one for one in made if one.scored]


def _row(workload: Workload, group: str, agreement: str, measured: Mapping[str, Sequence[float]]) -> Row:
    every = {key: measured[f"{group}-{agreement}:{key}"] for key in METRICS}
    sums = {key: sum(values) for key, values in every.items()}
    scored, climate = round(sums["scored"]), sums["with_climate"] or nan
    low, high = wilson(round(sums["covered"]), scored)
    return Row(
        workload,
        group,
        agreement,
        scored,
        Interval(sums["covered"] / max(1, scored), low, high, scored),
        sums["alone"] / max(1, scored),
        round(sums["early"]),
        round(sums["late"]),
        exp(sums["log_width"] / max(1, scored)),
        fmean(every["relative"]),
        sums["score"] / climate,
        sums["climate_score"] / climate,
        sums["climate_covered"] / climate,
    )


def report(
    workloads: Sequence[Workload],
    missing: Sequence[str],
    parts: Sequence[str],
    results: Results,
    *,
    quick: bool,
) -> EvaluationReport:
    """Report on these results."""
    rows = rows_of(workloads, results)
    at_once = {one.name: round(sum(results[one.name]["at_once"])) for one in workloads}
    command = " ".join(
        [
            "leasehold reproduce",
            *(parts or ["calibration"]),
            *(["--quick"] if quick else []),
            *(["--logs FOLDER"] if any(one.log for one in workloads) else []),
        ]
    )
    return EvaluationReport(
        "calibration",
        {"rows": [_as_data(row) for row in rows], "at_once": at_once, "not_run": list(missing)},
        page=partial(page, rows, workloads, missing, command),
        screen=partial(screen, rows, missing),
        draw=partial(draw, rows),
        every_result=_every_result,
    )


def _as_data(row: Row) -> dict[str, Any]:
    data: dict[str, Any] = plain(asdict(row) | {"coverage": row.coverage})
    return data | {"workload": row.workload.part}


def _every_result(results: pl.DataFrame) -> pl.DataFrame:
    return results.unpivot(index=["configuration", "seed"], variable_name="metric", value_name="value").drop_nulls(
        "value"
    )


# The report

_COLUMNS = (
    *("predictions", "scored", "alone", "covered", "95 % interval", "early, late", "factor", "relative width"),
    *("score", "climate", "climate covers"),
)


_TERMS = {
    "alone": "how many intervals from the 5 % to the 95 % quantile of the futures contained what happened",
    "covered": "how many of those that are shown, corrected online by earlier errors, with Wilson's interval; the "
    "first predictions count, when nothing was known of errors yet",
    "factor": "geometric mean of the ratio of the ends of the interval, in seconds from the prediction on, with 1 s "
    "added to both",
    "relative width": "median of the width of the interval, as a multiple of the time that it really took",
    "score": "mean interval score on the scale ln(1 + s), the less the better: the width, and 20 times by how much it "
    "was missed. It is proper: neither too wide nor too narrow intervals gain",
    "climate": "that score of the 5 % and 95 % quantiles of the last 500 waits of the same kind, which look at nothing "
    "else, for the same predictions; *climate covers* is their coverage",
    "futures agree": "all of them gave the same time. Nearly all of these come true to the second, and no width makes "
    "nine in ten of them right: they are kept apart",
}


def screen(rows: Sequence[Row], missing: Sequence[str]) -> Iterator[Block]:
    """Give the table, as far as a terminal has room."""
    yield Title("Of 90 % intervals, how many contained what happened")
    yield MarkdownTable(_COLUMNS[:8], [_line(row)[:8] for row in rows], range(1, 8))
    if missing:
        yield f"Not run, since --logs names no folder with them: {', '.join(missing)}."


def _line(row: Row) -> list[str]:
    return [
        row.name,
        f"{row.scored:,}",
        _percent(row.alone),
        _percent(row.coverage.mean),
        f"{_percent(row.coverage.low)} .. {_percent(row.coverage.high)}",
        f"{row.early}, {row.late}",
        f"{row.factor:,.1f}",
        f"{row.relative:,.2f}",
        NOTHING if isnan(row.score) else f"{row.score:.2f}",
        NOTHING if isnan(row.climate) else f"{row.climate:.2f}",
        NOTHING if isnan(row.climate_coverage) else _percent(row.climate_coverage),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def page(
    rows: Sequence[Row], workloads: Sequence[Workload], missing: Sequence[str], command: str
) -> Iterator[str | MarkdownTable]:
    """Give the whole report."""
    yield from opening(
        "Calibration of start estimates",
        " ".join(_lesson(rows)),
        f"![{CAPTION}]({PICTURE}.svg)" if _drawn(rows) else "",
    )
    yield f"Generated by `{command}`; interrupted, it goes on where it was."
    yield (
        "In simulations a sample of the requests that had to wait was predicted at the instant of submission, and "
        "suspended guests at the instant of their suspension, from what was known then "
        "([how](../howto/estimates.md)). Logs are those of the "
        "[Parallel Workloads Archive](https://www.cs.huji.ac.il/labs/parallel/workload/)."
    )
    yield MarkdownTable(("workload", "what it is", "requests", "futures"), [_described(one) for one in workloads])
    if missing:
        yield f"Not run, for want of the logs: {', '.join(missing)}."
    yield "## Coverage and width"
    yield bullets(f"*{term}*: {meaning}" for term, meaning in _TERMS.items())
    yield MarkdownTable(_COLUMNS, [_line(row) for row in rows], range(1, len(_COLUMNS)))
    yield "## How it is read"
    yield plan().readings_table("what is left open", "how it is read", "why")


def _described(one: Workload) -> list[str]:
    return [
        one.part.partition("-")[2],
        one.title,
        f"about {one.sample} of own users, and of guests",
        str(one.replications),
    ]


def _lesson(rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        return
    scored = sum(row.scored for row in rows)
    covered = round(sum(row.coverage.mean * row.scored for row in rows))
    low, high = wilson(covered, scored)
    yield (
        f"Of {scored:,} intervals that are to contain what happens nine times in ten, {_percent(covered / scored)} did "
        f"(95 % interval {_percent(low)} to {_percent(high)})."
    )
    differ = [row for row in rows if row.agreement == "differ" and row.scored >= FEWEST]
    if differ:
        parts = "; ".join(f"{row.name.partition(',')[0]} {_percent(row.coverage.mean)}" for row in differ)
        yield f"Where futures differ: {parts}."
    better = [row for row in rows if row.scored >= FEWEST and not isnan(row.climate)]
    if better:
        wins = sum(row.score < row.climate for row in better)
        yield f"In {wins} of {len(better)} groups they score better than the quantiles of earlier waits."


PICTURE = "calibration-coverage"
CAPTION = "Coverage of 90 % intervals by workload and kind of prediction, with 95 % intervals; diamonds: futures alone"


def _drawn(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.scored >= FEWEST]


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the coverage of each group; returns the paths."""
    shown = _drawn(rows)
    if not shown:
        return []
    ranking = pictures.Ranking(
        "Coverage of 90 % intervals",
        "share that contained what happened",
        {row.name: row.coverage for row in shown},
        reference=COVERAGE,
        printed={row.name: row.alone for row in shown},
    )
    return pictures.write(pictures.intervals([ranking]), folder / PICTURE)
