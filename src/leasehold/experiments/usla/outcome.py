"""What came of an evaluation, put together: cells, claims, controls, and how it was made."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from leasehold.experiments.kept import Results
from leasehold.experiments.statistics import Interval
from leasehold.experiments.status import counted
from leasehold.experiments.usla.claims import Tested, Verdict, verdicts
from leasehold.experiments.usla.compare import TOLERANCE, Cell, cells
from leasehold.experiments.usla.controls import ControlResult, ControlRow, control_results
from leasehold.experiments.usla.settings import Plan

SOURCE = (
    "Dumitrescu, Iosup, Sonmez, Mohamed, Epema: Virtual domain sharing in e-science based on usage service "
    "level agreements (2007)"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that the report shows."""

    plan: Plan
    seeds: int
    cells: Sequence[Cell]
    verdicts: Sequence[Verdict]
    controls: Sequence[ControlResult]

    def of_table(self, number: int) -> list[Cell]:
        """Give the cells of one table."""
        return [cell for cell in self.cells if cell.table == number]


def outcome_of(plan: Plan, results: Results, seeds: int) -> Outcome:
    """Compare, test and look at the controls."""
    return Outcome(plan, seeds, cells(plan, results), verdicts(plan, results), control_results(plan, results))


def as_data(outcome: Outcome) -> dict[str, Any]:
    """Give everything as plain data, for JSON."""
    return {
        "evaluation": "usla",
        "source": SOURCE,
        "seeds": outcome.seeds,
        "level": 0.95,
        "tolerance": TOLERANCE,
        "published": outcome.plan.said["published"],
        "calibrated": outcome.plan.said["calibrated"],
        "agreements": outcome.plan.said["agreement"],
        "interpretations": [asdict(one) for one in outcome.plan.interpretations],
        "counts": counted(cell.status for cell in outcome.cells),
        "cells": [_cell(cell) for cell in outcome.cells],
        "claims": [_verdict(verdict) for verdict in outcome.verdicts],
        "controls": [_control(control) for control in outcome.controls],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "table": cell.table,
        "row": cell.row,
        "metric": cell.metric,
        "published": cell.published,
        **_interval(cell.ours),
        "status": cell.status,
        "why": cell.why,
    }


def _interval(found: Interval) -> dict[str, float]:
    return {"mean": found.mean, "low": found.low, "high": found.high}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "claim": verdict.claim.text,
        "table": verdict.claim.table,
        "status": verdict.status,
        "orders": [_tested(one) for one in verdict.tested],
    }


def _tested(one: Tested) -> dict[str, Any]:
    return {
        **asdict(one.order),
        "is_printed": one.order.is_printed,
        "difference": _interval(one.found.difference),
        "p_adjusted": one.p,
        "holds": one.holds,
        "is_significant": one.is_significant,
    }


def _control(result: ControlResult) -> dict[str, Any]:
    return {
        "name": result.control.name,
        "question": result.control.question,
        "off": result.taken_off,
        "off_control": result.other_off,
        "is_nearer": result.other_is_nearer,
        "rows": [_control_row(row) for row in result.rows],
    }


def _control_row(row: ControlRow) -> dict[str, Any]:
    return {
        "table": row.table,
        "row": row.row,
        "taken": {metric: _interval(found) for metric, found in row.taken.items()},
        "control": {metric: _interval(found) for metric, found in row.other.items()},
    }
