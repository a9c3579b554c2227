"""Slurm's short way to write names and numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.service.drivers.slurm.cluster import node_names, task_numbers


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("(null)", []),
        ("n1", ["n1"]),
        ("n1,gpu2", ["n1", "gpu2"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10,12],login", ["n08", "n09", "n10", "n12", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("r[1-2]-ib", ["r1-ib", "r2-ib"]),
    ],
)
def test_names_are_written_out(text: str, names: list[str]) -> None:
    assert node_names(text) == names


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1-5", [1, 2, 3, 4, 5]),
        ("3-9%2", [3, 4, 5, 6, 7, 8, 9]),
        ("0-10:5,20", [0, 5, 10, 20]),
        ("7", [7]),
        ("1-3,8,...", [1, 2, 3, 8]),
    ],
)
def test_tasks_are_written_out(text: str, numbers: list[int]) -> None:
    assert task_numbers(text, most=99) == numbers


def test_of_a_million_tasks_only_the_first_are_written_out() -> None:
    assert task_numbers("0-4000000", most=3) == [0, 1, 2]


@given(st.sets(st.integers(0, 500), min_size=1))
def test_whatever_is_written_shortly_is_written_out_as_it_was(numbers: set[int]) -> None:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    short = ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)
    assert task_numbers(short, most=501) == sorted(numbers)
    assert node_names(f"n[{short}]") == [f"n{number}" for number in sorted(numbers)]
