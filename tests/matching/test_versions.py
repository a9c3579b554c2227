"""Versions are ordered as those who write them mean it, and constraints say which will do."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.matching.software import Constraint, has_software, installed, software, version
from leasehold.matching.verdict import FITS, Why
from leasehold.model.errors import InvalidField, UnknownName


@pytest.mark.parametrize(
    "ascending",
    [
        ["1.0~rc1", "1.0", "1.0.1", "1.9", "1.10", "2"],
        ["1.0.dev1", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0.post1", "1.0.1"],
        ["1.0-rc1", "1.0", "1.0-1", "1.0-2", "1.0.1"],
        ["2023", "2023a", "2023b", "2024"],
        ["1.1.1", "1.1.1a", "1.1.1k", "1.1.2"],
        ["9.9", "1:0.1"],
    ],
)
def test_later_versions_are_greater(ascending: list[str]) -> None:
    assert all(version(one) < version(other) for one, other in pairwise(ascending))


@pytest.mark.parametrize("same", [("1", "1.0.0"), ("1.0rc1", "1.0.0-rc1"), ("v2.5", "2.5"), ("01.02", "1.2")])
def test_some_are_the_same_written_differently(same: tuple[str, str]) -> None:
    assert version(same[0]) == version(same[1])


@pytest.mark.parametrize("text", ["", "latest", "1 2", "1.2;rm", "...", "1/2", "ä1"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(InvalidField, match="expected a version"):
        version(text)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.lists(st.integers(0, 30), min_size=1, max_size=4))
def test_plain_numbers_compare_as_lists_filled_up_with_zeros(one: list[int], other: list[int]) -> None:
    length = max(len(one), len(other))
    filled = [numbers + [0] * (length - len(numbers)) for numbers in (one, other)]
    texts = [".".join(map(str, numbers)) for numbers in (one, other)]
    assert (version(texts[0]) < version(texts[1])) == (filled[0] < filled[1])


@pytest.mark.parametrize(
    ("constraint", "allowed", "refused"),
    [
        (("==", "9.4"), ["9.4", "9.4.0", "1:9.4+dfsg-2", "9.4-GCC-13"], ["9.4.1", "9.40"]),
        (("==", "9.4-2"), ["9.4-2"], ["9.4", "9.4-3"]),
        (("!=", "9.4"), ["9.5"], ["9.4-1"]),
        ((">=", "3.10"), ["3.10", "3.11", "4"], ["3.9", "3.10rc1"]),
        (("<", "14"), ["13.2.0-4"], ["14", "14-1", "15"]),
        ((">", "2023"), ["2023a"], ["2023", "2022b"]),
        (("<=", "2"), ["2-9", "1.9"], ["2.1"]),
        (("~=", "3.11"), ["3.11", "3.12.1", "1:3.11-2"], ["3.10", "4.0"]),
        (("~=", "3.11.2"), ["3.11.2", "3.11.9"], ["3.12", "3.11.1"]),
        (("~=", "3.0"), ["3", "3.7"], ["4"]),
    ],
)
def test_a_constraint(constraint: tuple[str, str], allowed: list[str], refused: list[str]) -> None:
    asked = Constraint(*constraint)
    assert [text for text in allowed + refused if asked.allows(text)] == allowed


def test_a_node_with_a_version_that_nobody_can_read_does_not_serve() -> None:
    assert not Constraint(">=", "1").allows("unknown")


def test_nonsense_in_a_constraint_is_refused_with_its_reason() -> None:
    with pytest.raises(UnknownName, match="operator: got '=>'"):
        Constraint("=>", "1")
    with pytest.raises(InvalidField, match="at least two numbers after ~="):
        Constraint("~=", "3")
    with pytest.raises(InvalidField, match="version: got 'new'"):
        Constraint(">=", "new")


class TestSoftware:
    def test_is_read_from_a_line(self) -> None:
        need = software(" GCC>=12 , < 14 ")
        assert need.name == "gcc"
        assert str(need) == "gcc >= 12, < 14"
        assert str(software("openmpi")) == "openmpi"

    @pytest.mark.parametrize("text", ["", ">= 3", "gcc 12", "gcc >= 12 <", "gcc >= 12,, < 14", "g cc"])
    def test_that_cannot_be_read_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidField):
            software(text)

    def test_of_several_versions_any_may_serve_but_one_must_meet_all_constraints(self) -> None:
        there = installed([("GCC", "9.4"), ("gcc", "15.1")])
        assert has_software((software("gcc >= 15"),), there) is FITS
        assert has_software((software("gcc >= 10, < 15"),), there).why is Why.SOFTWARE_OTHER_VERSION

    def test_the_piece_that_is_missing_is_named(self) -> None:
        verdict = has_software((software("gcc"), software("r-base >= 4")), installed([("gcc", "12")]))
        assert (verdict.why, verdict.what) == (Why.SOFTWARE_NOT_THERE, "r-base >= 4")
