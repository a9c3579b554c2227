"""Status words and claims, on results made for the purpose."""

import pytest

from leasehold.experiments.statistics import Status, interval
from leasehold.experiments.usla.evaluation import (
    PolicyOrder,
    claims,
    control_results,
    is_inside,
    printed_numbers,
    verdicts,
)
from leasehold.experiments.usla.plan import METRICS, TABLES, plan

NOISE = (-0.2, -0.1, 0.1, 0.2)
UNKNOWN = 20.0


def as_printed() -> dict[str, dict[str, list[float]]]:
    """Results that are just what is printed, but for a little noise."""
    found = {name: {metric: [UNKNOWN] * len(NOISE) for metric in METRICS} for name in plan().configurations}
    for table in reversed(plan().tables):
        for row, name in table.rows.items():
            for metric in METRICS:
                value = TABLES[table.number][row][metric]
                middle = UNKNOWN if value is None else value
                found[name][metric] = [middle + noise for noise in NOISE]
    return found


def status(results: dict[str, dict[str, list[float]]], table: int, row: str, metric: str) -> Status:
    return next(
        cell.status
        for cell in printed_numbers(plan(), results)
        if (cell.table, cell.row, cell.metric) == (table, row, metric)
    )


def move(
    results: dict[str, dict[str, list[float]]], table: int, row: str, metric: str, to: float
) -> dict[str, dict[str, list[float]]]:
    results[plan().of_row(table, row)][metric] = [to + noise for noise in NOISE]
    return results


class TestCells:
    def test_what_is_printed_is_reproduced(self) -> None:
        found = printed_numbers(plan(), as_printed())
        comparable = [cell for cell in found if not cell.why]
        assert {cell.status for cell in comparable} == {Status.REPRODUCED}
        assert {cell.status for cell in found if cell.why} == {Status.NOT_COMPARABLE}

    def test_the_tolerance_is_five_percent_of_the_printed_number_beyond_the_interval(self) -> None:
        ours = interval([99.0, 101.0])
        assert is_inside(ours.high / 0.95 - 1e-6, ours)
        assert not is_inside(ours.high / 0.95 + 1e-6, ours)
        assert is_inside(ours.low / 1.05 + 1e-6, ours)
        assert not is_inside(ours.low / 1.05 - 1e-6, ours)

    def test_far_off_but_on_the_right_side_is_in_direction(self) -> None:
        """Printed: no-limit 90.16, udecay 89.55, commitment 88.22, decay 79.62."""
        results = move(as_printed(), 1, "decay", "util", 60.0)
        assert status(results, 1, "decay", "util") is Status.IN_DIRECTION

    def test_on_the_wrong_side_is_not_reproduced(self) -> None:
        results = move(as_printed(), 1, "decay", "util", 99.0)
        assert status(results, 1, "decay", "util") is Status.NOT_REPRODUCED

    def test_on_no_side_for_sure_is_not_reproduced(self) -> None:
        results = move(as_printed(), 1, "decay", "util", 60.0)
        results[plan().of_row(1, "decay")]["util"] = [0.0, 100.0, 20.0, 110.0]
        assert status(results, 1, "decay", "util") is not Status.IN_DIRECTION

    def test_rows_that_are_printed_alike_ask_nothing_of_each_other(self) -> None:
        """From the printed 91.71 only decay differs by more than 5 %; beneath decay is the wrong side."""
        results = move(as_printed(), 1, "commitment", "comp", 70.0)
        assert status(results, 1, "commitment", "comp") is Status.NOT_REPRODUCED

    def test_a_misprint_asks_nothing_of_its_neighbours(self) -> None:
        """Table 6 prints 11.17 for decay: were it asked, udecay (22.73) would have to violate more."""
        results = move(as_printed(), 6, "udecay", "violation", 10.0)
        assert status(results, 6, "udecay", "violation") is Status.IN_DIRECTION


class TestClaims:
    def test_there_are_27(self) -> None:
        assert len(claims(plan())) == 6 + 6 + 6 + 2 + 2 + 5

    def test_an_ordering_that_is_not_even_printed_is_named(self) -> None:
        unprinted = {order for verdict in verdicts(plan(), as_printed()) for order in verdict.claim.unprinted}
        assert PolicyOrder(4, "util", "udecay", "decay") in unprinted
        assert PolicyOrder(4, "response", "decay", "udecay") in unprinted
        assert PolicyOrder(6, "violation", "decay", "udecay") in unprinted  # the misprint
        assert len(unprinted) == 3

    def test_on_the_printed_numbers_the_claims_hold_but_for_those(self) -> None:
        failing = {
            (verdict.claim.table, verdict.claim.text)
            for verdict in verdicts(plan(), as_printed())
            if verdict.status is not Status.REPRODUCED
        }
        assert failing == {
            (verdict.claim.table, verdict.claim.text)
            for verdict in verdicts(plan(), as_printed())
            if verdict.claim.unprinted
        }

    def test_what_holds_in_the_mean_alone_is_in_direction(self) -> None:
        results = as_printed()
        results[plan().of_row(1, "udecay")]["starv"] = [-40.0, 50.0, -40.0, 60.0]
        verdict = next(v for v in verdicts(plan(), results) if v.claim.text == "udecay starves least")
        assert verdict.status is Status.IN_DIRECTION

    def test_one_ordering_that_fails_fails_the_claim(self) -> None:
        results = move(as_printed(), 1, "udecay", "starv", 12.5)
        verdict = next(v for v in verdicts(plan(), results) if v.claim.text == "udecay starves least")
        assert verdict.status is Status.NOT_REPRODUCED


def test_the_reading_that_is_nearer_is_named() -> None:
    results = as_printed()
    for control in plan().controls:
        for _, _, name in control.rows:
            results[name] = {metric: [1.0] * len(NOISE) for metric in METRICS}
    for found in control_results(plan(), results):
        assert found.off == pytest.approx(0, abs=0.01)
        assert not found.is_nearer
