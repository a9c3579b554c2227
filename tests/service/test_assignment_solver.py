"""A service takes SciPy's solver where there is one."""

import pytest

from leasehold.matching.assignment import solve_plain
from leasehold.service import assignment_solver
from leasehold.service.assignment_solver import best_solver, solve_by_scipy


def test_the_quickest_solver_that_is_installed_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert best_solver() is solve_by_scipy

    monkeypatch.setattr(assignment_solver, "find_spec", lambda _name: None)
    assert best_solver() is solve_plain


def test_both_solve_the_same() -> None:
    rows = [[(0, 3), (1, 1)], [(0, 2), (1, 1)], [(1, 5), (2, 9)]]

    plain, quick = solve_plain(rows), solve_by_scipy(rows)

    assert plain.column_of == quick.column_of


def test_nothing_to_match_is_no_problem_and_too_few_columns_are() -> None:
    assert solve_by_scipy([]).column_of == []
    with pytest.raises(ValueError, match="column of their own"):
        solve_by_scipy([[(0, 1)], [(0, 2)]])
