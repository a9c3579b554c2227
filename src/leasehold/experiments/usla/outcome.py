"""What came of it: each printed number beside ours, the claims of section 4.4, and the readings not taken."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any

import numpy as np

from leasehold.experiments.claims import ALPHA, Status, Verdict, counted, status_of, tested
from leasehold.experiments.kept import Results
from leasehold.experiments.report import plain
from leasehold.experiments.statistics import Interval, Values, interval, paired
from leasehold.experiments.usla.plan import (
    METRIC_TITLES,
    METRICS,
    TABLES,
    Control,
    Plan,
    PrintedTable,
    why_not_comparable,
)

SOURCE = (
    "Dumitrescu, Iosup, Sonmez, Mohamed, Epema: Virtual domain sharing in e-science based on usage service "
    "level agreements (2007)"
)
TOLERANCE = 0.05
"""Relative to the printed number, whose spread is unknown: it comes from few runs, perhaps one."""

NUMBER_IS = {
    Status.REPRODUCED: "the printed number lies in our 95 % interval, widened on both sides by "
    f"{100 * TOLERANCE:.0f} % of that number",
    Status.IN_DIRECTION: "it does not; but of every row of its table from which it differs by more than "
    f"{100 * TOLERANCE:.0f} % in print, ours is on the same side (95 % interval of the paired difference)",
    Status.NOT_REPRODUCED: "neither is so",
    Status.NOT_COMPARABLE: "none is printed, or it is a misprint, or it repeats another row",
}
CLAIM_IS = {
    Status.REPRODUCED: f"each of its orderings holds, significantly ({100 * ALPHA:.0f} %, Holm over all)",
    Status.IN_DIRECTION: "each holds in the mean, not every one significantly",
    Status.NOT_REPRODUCED: "one of them does not hold in the mean",
}


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


def printed_numbers(plan: Plan, results: Results) -> list[PrintedNumber]:
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
class Order:
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
    orders: tuple[Order, ...]

    @property
    def unprinted(self) -> list[Order]:
        """Give the orderings that the printed numbers themselves do not have."""
        return [order for order in self.orders if not order.is_printed]


def claims(plan: Plan) -> list[TableClaim]:
    """List what is claimed of Tables 1 to 7 (checklist of section 4.4)."""
    return [
        TableClaim(entry["text"], table, tuple(Order(table, *order) for order in entry["orders"]))
        for entry in plan.stated["section_4_4"]["claims"]
        for table in entry["tables"]
    ]


def verdicts(plan: Plan, results: Results) -> list[Verdict[TableClaim]]:
    """Test every claim; an ordering that several claims take is one hypothesis of the family."""
    listed = claims(plan)
    orders = list(dict.fromkeys(order for claim in listed for order in claim.orders))
    found = tested([[_difference(plan, results, order)] for order in orders])
    by_order = {order: one for order, (one,) in zip(orders, found, strict=True)}
    taken = [tuple(by_order[order] for order in claim.orders) for claim in listed]
    return [Verdict(claim, status_of(one), tested=one) for claim, one in zip(listed, taken, strict=True)]


def _difference(plan: Plan, results: Results, order: Order) -> Values:
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


def control_results(plan: Plan, results: Results) -> list[ControlResult]:
    """Compare both readings of every control with the printed numbers."""
    return [_control(plan, control, results) for control in plan.controls]


def _control(plan: Plan, control: Control, results: Results) -> ControlResult:
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

    plan: Plan
    seeds: int
    numbers: Sequence[PrintedNumber]
    verdicts: Sequence[Verdict[TableClaim]]
    controls: Sequence[ControlResult]

    def of_table(self, table: int) -> list[PrintedNumber]:
        """Give the numbers of one table."""
        return [number for number in self.numbers if number.table == table]


def outcome_of(plan: Plan, results: Results, seeds: int) -> AgreementsOutcome:
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
