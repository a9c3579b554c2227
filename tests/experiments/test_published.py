"""The printed numbers, checked against themselves: what they say that nobody wrote down."""

import pytest

from leasehold.experiments.usla.plan import METRICS, NOT_COMPARABLE, REPEATED, TABLES, plan, why_not_comparable

JOBS = {1: 1500, 2: 1500, 3: 1360, 4: 1360, 5: 1500, 6: 1500, 7: 1500}


def test_there_are_27_rows() -> None:
    assert sum(map(len, TABLES.values())) == 27
    for table in plan().tables:
        assert list(TABLES[table.number]) == list(table.rows)


def test_all_rows_together_say_how_many_cpus_there_were() -> None:
    """Completed jobs of 300 s over the CPU time said to be used: 128.7 in the mean, which is 5 x 26."""
    found = [
        (row["comp"] or 0) / 100 * JOBS[table] * 300 / ((row["util"] or 0) / 100 * 3600)
        for table, rows in TABLES.items()
        for row in rows.values()
    ]
    assert sum(found) / len(found) == pytest.approx(128.7, abs=0.1)


@pytest.mark.parametrize(
    ("copy", "original"),
    [((5, "no-limit"), (1, "no-limit")), ((6, "no-limit"), (2, "no-limit")), ((7, "medium"), (2, "udecay"))],
)
def test_what_is_called_a_repetition_is_one(copy: tuple[int, str], original: tuple[int, str]) -> None:
    assert copy in REPEATED
    assert TABLES[copy[0]][copy[1]] == TABLES[original[0]][original[1]]


def test_what_is_called_a_misprint_is_the_starvation_of_the_row_below() -> None:
    assert list(NOT_COMPARABLE) == [(6, "decay", "violation")]
    assert TABLES[6]["decay"]["violation"] == TABLES[6]["udecay"]["starv"]


def test_the_violation_of_no_limit_is_not_printed() -> None:
    assert all(why_not_comparable(t, "no-limit", "violation") == "none is printed" for t in range(1, 7))


def test_all_else_is_comparable() -> None:
    comparable = [
        (table, row, metric)
        for table, rows in TABLES.items()
        for row in rows
        for metric in METRICS
        if not why_not_comparable(table, row, metric)
    ]
    assert len(comparable) == 27 * 5 - 6 - 2 * 4 - 5 - 1
