"""Each printed number beside ours, with a status."""

from collections.abc import Iterator
from dataclasses import dataclass

from leasehold.experiments.kept import Results
from leasehold.experiments.statistics import Interval, interval, paired
from leasehold.experiments.status import Status
from leasehold.experiments.usla.published import METRICS, TABLES, why_not_comparable
from leasehold.experiments.usla.settings import Plan, Table

TOLERANCE = 0.05
"""Relative to the printed number, of which nobody knows the spread: it comes from few runs, perhaps one."""


MEANINGS = {
    Status.REPRODUCED: "the printed number lies in our 95 % interval, widened on both sides by "
    f"{100 * TOLERANCE:.0f} % of that number",
    Status.IN_DIRECTION: "it does not; but of every row of its table from which it differs by more than "
    f"{100 * TOLERANCE:.0f} % in print, ours is on the same side (95 % interval of the paired difference)",
    Status.NOT_REPRODUCED: "neither is so",
    Status.NOT_COMPARABLE: "none is printed, or it is a misprint, or it repeats another row",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One printed number and ours; ``why`` says why they cannot be compared."""

    table: int
    row: str
    metric: str
    published: float | None
    ours: Interval
    status: Status
    why: str = ""


def cells(plan: Plan, results: Results) -> list[Cell]:
    """Compare every number of every table."""
    return [cell for table in plan.tables for cell in _cells_of(table, results)]


def _cells_of(table: Table, results: Results) -> Iterator[Cell]:
    for row, name in table.rows.items():
        for metric in METRICS:
            why = why_not_comparable(table.number, row, metric)
            published, ours = TABLES[table.number][row][metric], interval(results[name][metric])
            if why or published is None:
                status = Status.NOT_COMPARABLE
            elif is_inside(published, ours):
                status = Status.REPRODUCED
            elif is_in_direction(table, row, metric, results):
                status = Status.IN_DIRECTION
            else:
                status = Status.NOT_REPRODUCED
            yield Cell(table.number, row, metric, published, ours, status, why)


def is_inside(published: float, ours: Interval) -> bool:
    """Whether a printed number lies in our interval, widened by the tolerance."""
    low, high = ours.widened(TOLERANCE * abs(published))
    return low <= published <= high


def is_in_direction(table: Table, row: str, metric: str, results: Results) -> bool:
    """Whether a row is on the printed side of each other one from which it differs in print."""
    asked = [
        (other, difference)
        for other in table.rows
        if other != row
        for difference in [_printed_difference(table.number, row, other, metric)]
        if difference
    ]
    return bool(asked) and all(
        _is_on_side(table, row, other, metric, results, difference) for other, difference in asked
    )


def _printed_difference(table: int, row: str, other: str, metric: str) -> float:
    """By how much a row is printed greater than another; 0 where that is within the tolerance, or unknown."""
    one, two = TABLES[table][row][metric], TABLES[table][other][metric]
    if one is None or two is None or _is_misprint(table, other, metric):
        return 0.0
    return one - two if abs(one - two) > TOLERANCE * abs(one) else 0.0


def _is_misprint(table: int, row: str, metric: str) -> bool:
    return why_not_comparable(table, row, metric).startswith("misprint")


def _is_on_side(table: Table, row: str, other: str, metric: str, results: Results, printed: float) -> bool:
    ours = paired(results[table.rows[row]][metric], results[table.rows[other]][metric]).difference
    return ours.low > 0 if printed > 0 else ours.high < 0
