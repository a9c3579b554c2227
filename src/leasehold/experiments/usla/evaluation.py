"""The published evaluation of usage agreements: its campaign, each printed number beside ours, and its report."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from leasehold.experiments import pictures
from leasehold.experiments.evaluation import Campaign, Evaluation, EvaluationReport, Size
from leasehold.experiments.kept import Results, marks
from leasehold.experiments.report import NOTHING, Block, MarkdownTable, Title, opening, plain, probability, reasons
from leasehold.experiments.statistics import (
    ClaimVerdict,
    Interval,
    Status,
    Values,
    counted,
    in_words,
    interval,
    paired,
    status_of,
    tested,
)
from leasehold.experiments.usla import world
from leasehold.experiments.usla.plan import (
    METRIC_TITLES,
    METRICS,
    PREFIX,
    TABLES,
    UNITS,
    Control,
    PrintedTable,
    UslaPlan,
    parts,
    plan,
    plan_of,
    why_not_comparable,
)

SOURCE = (
    "Dumitrescu, Iosup, Sonmez, Mohamed, Epema: Virtual domain sharing in e-science based on usage service "
    "level agreements (2007)"
)
TOLERANCE = 0.05
"""Relative to the printed number, whose spread is unknown: it comes from few runs, perhaps one."""


# The printed numbers


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """One printed number and ours; ``why`` is the reason why they cannot be compared."""

    table: int
    row: str
    metric: str
    published: float | None
    ours: Interval
    status: Status
    why: str = ""


def printed_numbers(plan: UslaPlan, results: Results) -> list[PrintedNumber]:
    """Compare every number of every table."""
    return [number for table in plan.tables for number in _of_table(table, results)]


def _of_table(table: PrintedTable, results: Results) -> Iterator[PrintedNumber]:
    for row, name in table.rows.items():
        for metric in METRICS:
            why = why_not_comparable(table.number, row, metric)
            published, ours = TABLES[table.number][row][metric], interval(results[name][metric])
            if why or published is None:
                status = Status.NOT_COMPARABLE
            elif is_inside(published, ours):
                status = Status.REPRODUCED
            else:
                on_side = list(_on_printed_side(table, row, metric, results))
                is_in_direction = bool(on_side) and all(on_side)
                status = Status.IN_DIRECTION if is_in_direction else Status.NOT_REPRODUCED
            yield PrintedNumber(table.number, row, metric, published, ours, status, why)


def is_inside(published: float, ours: Interval) -> bool:
    """Whether a printed number lies in our interval, widened by the tolerance."""
    low, high = ours.widened(TOLERANCE * abs(published))
    return low <= published <= high


def _on_printed_side(table: PrintedTable, row: str, metric: str, results: Results) -> Iterator[bool]:
    """Compare a row with each other one from which it differs in print by more than the tolerance."""
    printed = {name: numbers[metric] for name, numbers in TABLES[table.number].items()}
    one = printed.pop(row)
    for other, two in printed.items():
        is_misprint = why_not_comparable(table.number, other, metric).startswith("misprint")
        if one is None or two is None or is_misprint or abs(one - two) <= TOLERANCE * abs(one):
            continue
        ours = paired(results[table.rows[row]][metric], results[table.rows[other]][metric]).difference
        yield ours.low > 0 if one > two else ours.high < 0


# The claims


@dataclass(frozen=True, slots=True)
class PolicyOrder:
    """Of one table and metric, the row ``more`` has more than the row ``less``."""

    table: int
    metric: str
    more: str
    less: str

    @property
    def as_text(self) -> str:
        """Write it down: ``Util: no-limit > udecay``."""
        return f"{METRIC_TITLES[self.metric]}: {self.more} > {self.less}"

    @property
    def is_printed(self) -> bool:
        """Whether the printed numbers have this order."""
        more, less = TABLES[self.table][self.more][self.metric], TABLES[self.table][self.less][self.metric]
        return more is not None and less is not None and more > less


@dataclass(frozen=True, slots=True)
class TableClaim:
    """One sentence about one table, as the orderings that it takes."""

    text: str
    table: int
    orders: tuple[PolicyOrder, ...]

    @property
    def unprinted(self) -> list[PolicyOrder]:
        """Give the orderings that the printed numbers themselves do not have."""
        return [order for order in self.orders if not order.is_printed]


def claims(plan: UslaPlan) -> list[TableClaim]:
    """List what is claimed of Tables 1 to 7 (checklist of section 4.4)."""
    return [
        TableClaim(entry["text"], table, tuple(PolicyOrder(table, *order) for order in entry["orders"]))
        for entry in plan.stated["section_4_4"]["claims"]
        for table in entry["tables"]
        if any(one.number == table for one in plan.tables)
    ]


def verdicts(plan: UslaPlan, results: Results) -> list[ClaimVerdict[TableClaim]]:
    """Test every claim; an ordering that several claims take is one hypothesis of the family."""
    listed = claims(plan)
    orders = list(dict.fromkeys(order for claim in listed for order in claim.orders))
    found = tested([[_difference(plan, results, order)] for order in orders])
    by_order = {order: one for order, (one,) in zip(orders, found, strict=True)}
    taken = [tuple(by_order[order] for order in claim.orders) for claim in listed]
    return [ClaimVerdict(claim, status_of(one), tested=one) for claim, one in zip(listed, taken, strict=True)]


def _difference(plan: UslaPlan, results: Results, order: PolicyOrder) -> Values:
    more, less = (results[plan.of_row(order.table, row)][order.metric] for row in (order.more, order.less))
    return np.subtract(more, less)


# The readings that were not taken


@dataclass(frozen=True, slots=True)
class ControlRow:
    """One row of a table in both readings, by metric."""

    table: int
    row: str
    taken: Mapping[str, Interval]
    control: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class ControlResult:
    """A control, and how far both readings are from print.

    ``off, off_control``  root mean square of the relative differences, over all rows and metrics of it
    ``is_nearer``         whether the control is nearer to the printed numbers
    """

    name: str
    question: str
    off: float
    off_control: float
    is_nearer: bool
    rows: Sequence[ControlRow]


def control_results(plan: UslaPlan, results: Results) -> list[ControlResult]:
    """Compare both readings of every control with the printed numbers."""
    return [_control(plan, control, results) for control in plan.controls]


def _control(plan: UslaPlan, control: Control, results: Results) -> ControlResult:
    def intervals(name: str) -> dict[str, Interval]:
        return {metric: interval(results[name][metric]) for metric in METRICS}

    rows = [
        ControlRow(table, row, intervals(plan.of_row(table, row)), intervals(other))
        for table, row, other in control.rows
    ]
    off = _off((row.table, row.row, row.taken) for row in rows)
    off_control = _off((row.table, row.row, row.control) for row in rows)
    return ControlResult(control.name, control.question, off, off_control, off_control < off, rows)


def _off(rows: Iterable[tuple[int, str, Mapping[str, Interval]]]) -> float:
    differences = [
        ours[metric].mean / published - 1
        for table, row, ours in rows
        for metric, published in TABLES[table][row].items()
        if published
    ]
    return sqrt(fsum(difference**2 for difference in differences) / len(differences))


# All of it


@dataclass(frozen=True, slots=True)
class AgreementsOutcome:
    """Everything that the report shows."""

    plan: UslaPlan
    seeds: int
    numbers: Sequence[PrintedNumber]
    verdicts: Sequence[ClaimVerdict[TableClaim]]
    controls: Sequence[ControlResult]

    def of_table(self, table: int) -> list[PrintedNumber]:
        """Give the numbers of one table."""
        return [number for number in self.numbers if number.table == table]


def outcome_of(plan: UslaPlan, results: Results, seeds: int) -> AgreementsOutcome:
    """Compare with the printed numbers, the claims and the controls."""
    numbers, controls = printed_numbers(plan, results), control_results(plan, results)
    return AgreementsOutcome(plan, seeds, numbers, verdicts(plan, results), controls)


def as_data(outcome: AgreementsOutcome) -> dict[str, Any]:
    """Give everything as plain data, for JSON."""
    stated = outcome.plan.stated
    numbers = [plain(number) for number in outcome.numbers]
    return {
        "evaluation": "usla",
        "source": SOURCE,
        "seeds": outcome.seeds,
        "level": 0.95,
        "tolerance": TOLERANCE,
        "published": stated["published"],
        "calibrated": stated["calibrated"],
        "agreements": stated["agreement"],
        "interpretations": plain(outcome.plan.interpretations),
        "counts": counted(number.status for number in outcome.numbers),
        "cells": [number | number.pop("ours") for number in numbers],
        "claims": [
            {
                "claim": verdict.claim.text,
                "table": verdict.claim.table,
                "status": verdict.status,
                "orders": [
                    plain(order)
                    | {"is_printed": order.is_printed, "difference": plain(found.difference)}
                    | {"p_adjusted": found.p, "holds": found.holds, "is_significant": found.is_significant}
                    for order, found in zip(verdict.claim.orders, verdict.tested, strict=True)
                ],
            }
            for verdict in outcome.verdicts
        ],
        "controls": plain(outcome.controls),
    }


SEEDS, QUICK_SEEDS = 100, 10

_MAKES_RESULTS = (
    "model",
    "sharing",
    "leasing",
    "routing",
    "gateway",
    "simulation/kernel.py",
    "experiments/usla/world.py",
)


def campaign(parts: Sequence[str], size: Size) -> Campaign:
    """Run every table, or some."""
    count = size.count(SEEDS, QUICK_SEEDS)
    read = plan_of(parts)
    configurations = read.configurations
    return Campaign(
        runs=dict.fromkeys(configurations, range(1, count + 1)),
        marks=marks(_MAKES_RESULTS, {name: one.as_data() for name, one in configurations.items()}),
        measure=world.measure,
        report=partial(report, read, count),
    )


EVALUATIONS = {"usla": Evaluation(campaign, parts)}


def report(read: UslaPlan, seeds: int, results: Results) -> EvaluationReport:
    """Report on these results."""
    outcome = outcome_of(read, results, seeds)
    return EvaluationReport(
        "usla",
        as_data(outcome),
        page=partial(page, outcome),
        screen=partial(screen, outcome),
        draw=partial(draw, outcome.numbers),
    )


def screen(outcome: AgreementsOutcome) -> Iterator[Block]:
    """Give every table, the claims and the controls."""
    for table in outcome.plan.tables:
        yield Title(f"Table {table.number}: {table.title}")
        yield number_table(outcome.of_table(table.number))
    yield Title("Claims")
    yield claim_table(outcome)
    if outcome.controls:
        yield Title("Readings that were not taken")
    for one in outcome.controls:
        yield f"{one.name}: {one.question} {_nearer(one)}"
    yield Title(summary(outcome))
    yield metric_table(outcome)
    yield Title("Why results differ")
    yield from (f"{entry['about']} {entry['text']}" for entry in outcome.plan.stated["why"])
    yield Title(f"{outcome.seeds} seeds; calibrated, not published: {_calibrated(outcome.plan)}.")


def page(outcome: AgreementsOutcome) -> Iterator[str | MarkdownTable]:
    """Give the whole report."""
    yield from opening(
        "Usage agreements (2007): the published evaluation, reproduced",
        f"{_lesson(outcome)} {summary(outcome)}",
        f"![{CAPTION}]({PICTURE}.svg)",
    )
    yield (f"Generated by `{_command(outcome)}`: {outcome.seeds} seeds, the same for all configurations.")
    yield f"Source: {SOURCE}, section 4."
    yield (
        "Set-up and metrics: [usage agreements](../reference/reproduce.md#usage-agreements). *Reproduced*, *in "
        "direction*, *not reproduced*, *not comparable*: [status](../reference/reproduce.md#status)."
    )
    calibrated = _calibrated(outcome.plan)
    yield f"Calibrated, and the same in all tables: {calibrated}; and the lengths of windows."
    yield metric_table(outcome)
    yield "## Why results differ"
    yield from reasons(outcome.plan.stated["why"])
    yield "## Claims"
    yield "The difference of each ordering that does not hold surely stands behind it, with its interval."
    yield claim_table(outcome)
    for each in outcome.plan.tables:
        yield f"## Table {each.number}: {each.title}"
        yield number_table(outcome.of_table(each.number))
    if outcome.controls:
        yield "## Readings that were not taken"
    for one in outcome.controls:
        yield f"### `{one.name}`"
        yield f"{one.question} {_nearer(one)}"
        yield _control_table(one)
    yield "## Interpretations"
    yield "What the publication leaves open, how it is interpreted here, and why."
    yield outcome.plan.readings_table("what", "reading", "why")
    yield "The agreements, with what is published of them and what is calibrated:"
    lines = [
        [name, ", ".join(f"{key} {_plain(value)}" for key, value in terms.items())]
        for name, terms in outcome.plan.stated["agreement"].items()
    ]
    yield MarkdownTable(("agreement", "terms"), lines)


def _command(outcome: AgreementsOutcome) -> str:
    """Give the command that makes this report."""
    is_whole = outcome.plan.tables == plan().tables
    names = ["usla"] if is_whole else [f"{PREFIX}{one.number}" for one in outcome.plan.tables]
    return f"leasehold reproduce {' '.join(names)} --seeds {outcome.seeds}"


def number_table(numbers: Sequence[PrintedNumber]) -> MarkdownTable:
    """Give one line for each number of a table."""
    lines = [
        [
            number.row,
            _titled(number.metric),
            _printed(number.published),
            f"{number.ours.mean:.2f}",
            f"{number.ours.low:.2f} to {number.ours.high:.2f}",
            f"{number.status}: {number.why}" if number.why else str(number.status),
        ]
        for number in numbers
    ]
    return MarkdownTable(("uSLA", "metric", "printed", "ours", "95 % interval", "status"), lines, {2, 3, 4})


def _printed(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _titled(metric: str) -> str:
    return f"{METRIC_TITLES[metric]} ({UNITS[metric]})"


def claim_table(outcome: AgreementsOutcome) -> MarkdownTable:
    """Give one line for each claim."""
    lines = [[one.claim.text, str(one.claim.table), str(one.status), _remark(one)] for one in outcome.verdicts]
    return MarkdownTable(("claim", "table", "status", "remark"), lines, {1})


def _remark(verdict: ClaimVerdict[TableClaim]) -> str:
    """Name the orderings that do not hold, or not surely, and those that are not printed so."""
    remarks = [
        f"{order.as_text}: {ours.mean:+.2f} ({ours.low:+.2f} to {ours.high:+.2f}, p {probability(one.p)})"
        for order, one in zip(verdict.claim.orders, verdict.tested, strict=True)
        for ours in [one.difference]
        if not one.is_sure
    ]
    remarks += [f"{order.as_text} is not what is printed" for order in verdict.claim.unprinted]
    return "; ".join(remarks)


def metric_table(outcome: AgreementsOutcome) -> MarkdownTable:
    """Give one line for each metric: how many numbers of it came out how."""
    lines = [
        [METRIC_TITLES[metric], *(str(count) for count in counted(statuses).values())]
        for metric in METRICS
        for statuses in [[number.status for number in outcome.numbers if number.metric == metric]]
    ]
    return MarkdownTable(("metric", *Status), lines, {1, 2, 3, 4})


def _control_table(result: ControlResult) -> MarkdownTable:
    """Give one line for each row and metric of a control."""
    lines = [
        [
            f"Table {row.table}, {row.row}",
            _titled(metric),
            _printed(TABLES[row.table][row.row][metric]),
            f"{row.taken[metric].mean:.2f}",
            f"{row.control[metric].mean:.2f}",
        ]
        for row in result.rows
        for metric in METRICS
    ]
    return MarkdownTable(("row", "metric", "printed", "as taken", "as the control"), lines, {2, 3, 4})


def _nearer(result: ControlResult) -> str:
    nearer = "the control" if result.is_nearer else "the reading that was taken"
    return (
        f"Nearer to print is {nearer}: off by {100 * result.off:.0f} % as taken, "
        f"{100 * result.off_control:.0f} % as the control (root mean square over these numbers)."
    )


def summary(outcome: AgreementsOutcome) -> str:
    """Count in one sentence how the numbers, and how the claims came out."""
    numbers = in_words(number.status for number in outcome.numbers)
    claims = in_words(verdict.status for verdict in outcome.verdicts)
    return f"Of {len(outcome.numbers)} numbers: {numbers}. Of {len(outcome.verdicts)} claims: {claims}."


def _lesson(outcome: AgreementsOutcome) -> str:
    """Compare utilisation and starvation under the agreements of the first table."""
    first = outcome.of_table(outcome.plan.tables[0].number)
    ours = {metric: {one.row: one.ours.mean for one in first if one.metric == metric} for metric in METRICS}
    printed = {metric: {one.row: one.published or 0.0 for one in first if one.metric == metric} for metric in METRICS}

    def extremes(found: Mapping[str, Mapping[str, float]]) -> str:
        util, starv = found["util"], found["starv"]
        most, least = max(util, key=util.__getitem__), min(starv, key=starv.__getitem__)
        return f"{most} has the highest utilisation and {least} the least starvation"

    rows = (f"{row} {ours['util'][row]:.2f} % and {ours['starv'][row]:.2f} %" for row in ours["util"])
    return (
        f"In Table {first[0].table} as measured, {extremes(ours)}; in print, {extremes(printed)}. Measured utilisation "
        f"and starvation: {'; '.join(rows)}."
    )


def _calibrated(plan: UslaPlan) -> str:
    """List what the publication does not state and every run needs."""
    return ", ".join(f"{key} {value}" for key, value in plan.stated["calibrated"].items())


def _plain(value: object) -> str:
    """Write a value as the file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# The picture: three metrics of every table, ours beside print

PICTURE = "usla-tables"
DRAWN = ("util", "starv", "violation")
CAPTION = "Utilisation, starvation and violation in every table: ours (points with intervals) and printed (diamonds)"


def draw(numbers: Sequence[PrintedNumber], folder: Path) -> list[Path]:
    """Draw it; returns the paths."""
    return pictures.write(pictures.intervals([_ranking(numbers, metric) for metric in DRAWN]), folder / PICTURE)


def _ranking(numbers: Sequence[PrintedNumber], metric: str) -> pictures.Ranking:
    named = {f"Table {one.table}, {one.row}": one for one in numbers if one.metric == metric}
    return pictures.Ranking(
        METRIC_TITLES[metric],
        _titled(metric),
        {name: one.ours for name, one in named.items()},
        printed={name: one.published for name, one in named.items() if one.published is not None},
    )
