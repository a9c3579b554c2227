"""The readings that were not taken: are they nearer to the printed numbers than the one that was?"""

from dataclasses import dataclass
from math import sqrt

from leasehold.experiments.kept import Results
from leasehold.experiments.statistics import Interval, interval
from leasehold.experiments.usla.published import METRICS, TABLES
from leasehold.experiments.usla.settings import Control, Plan


@dataclass(frozen=True, slots=True)
class ControlRow:
    """One row of a table in both readings, by metric."""

    table: int
    row: str
    taken: dict[str, Interval]
    other: dict[str, Interval]


@dataclass(frozen=True, slots=True)
class ControlResult:
    """A control, and how far both readings are from print.

    ``taken_off, other_off``  root mean square of the relative differences, over all rows and metrics of it
    """

    control: Control
    rows: tuple[ControlRow, ...]
    taken_off: float
    other_off: float

    @property
    def other_is_nearer(self) -> bool:
        """Whether the reading that was not taken is nearer to the printed numbers."""
        return self.other_off < self.taken_off


def control_results(plan: Plan, results: Results) -> list[ControlResult]:
    """Look at every control."""
    return [_result(plan, control, results) for control in plan.controls]


def _result(plan: Plan, control: Control, results: Results) -> ControlResult:
    rows = tuple(
        ControlRow(table, row, _intervals(results, plan.of_row(table, row)), _intervals(results, other))
        for table, row, other in control.rows
    )
    taken = [_off(row.table, row.row, row.taken) for row in rows]
    other = [_off(row.table, row.row, row.other) for row in rows]
    return ControlResult(control, rows, _root_mean_square(taken), _root_mean_square(other))


def _intervals(results: Results, name: str) -> dict[str, Interval]:
    return {metric: interval(results[name][metric]) for metric in METRICS}


def _off(table: int, row: str, ours: dict[str, Interval]) -> list[float]:
    """Give the relative differences from print of the metrics that are printed."""
    printed = {metric: TABLES[table][row][metric] for metric in METRICS}
    return [ours[metric].mean / value - 1 for metric, value in printed.items() if value]


def _root_mean_square(differences: list[list[float]]) -> float:
    every = [difference for row in differences for difference in row]
    return sqrt(sum(difference * difference for difference in every) / len(every))
