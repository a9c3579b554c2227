"""Keys set from the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InputError, InvalidField, LeaseholdError, UnknownName
from leasehold.simulation.scenario.parse import load_scenario, overridden, parse_assignments

VALUES: dict[str, Any] = {
    "seed": 1,
    "gateway": {"policy": "rr"},
    "cluster": [{"name": "a", "slots": 1}, {"name": "b.org", "slots": 2, "overhead": {"network_mbps": 10}}],
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("k=3", 3),
        ("k = 0.5", 0.5),
        ("k=true", True),
        ("k=easy", "easy"),
        ('k="easy"', "easy"),
        ("k=[1, 2]", [1, 2]),
        ("k={x = 1}", {"x": 1}),
        ("k=a=b", "a=b"),
        ("k=1\nother = 2", "1\nother = 2"),
    ],
)
def test_a_value_is_read_as_in_a_file_or_else_is_text(text: str, value: object) -> None:
    assert parse_assignments([text]) == {"k": value}


@pytest.mark.parametrize("text", ["", "k", "=3", "k=", " = "])
def test_a_text_that_sets_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidField, match="--set"):
        parse_assignments([text])


@given(texts=st.lists(st.text(max_size=20)))
def test_any_text_is_a_value_or_one_line(texts: list[str]) -> None:
    try:
        parse_assignments(texts)
    except LeaseholdError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017 - what is raised is one of two good answers


@pytest.mark.parametrize(
    ("key", "find"),
    [
        ("seed", lambda values: values["seed"]),
        ("gateway.policy", lambda values: values["gateway"]["policy"]),
        ("defaults.victims", lambda values: values["defaults"]["victims"]),
        ("cluster.a.slots", lambda values: values["cluster"][0]["slots"]),
        ("cluster.b.org.slots", lambda values: values["cluster"][1]["slots"]),
        (
            "cluster.b.org.overhead.network_mbps",
            lambda values: values["cluster"][1]["overhead"]["network_mbps"],
        ),
        ("cluster.a.overhead.network_mbps", lambda values: values["cluster"][0]["overhead"]["network_mbps"]),
    ],
)
def test_a_key_is_set_where_it_belongs(key: str, find: Callable[[dict[str, Any]], object]) -> None:
    assert find(overridden(VALUES, {key: 77})) == 77


def test_a_star_sets_all() -> None:
    assert [cluster["slots"] for cluster in overridden(VALUES, {"cluster.*.slots": 9})["cluster"]] == [9, 9]


def test_what_was_there_is_left_as_it_was() -> None:
    overridden(VALUES, {"cluster.a.slots": 9, "gateway.policy": "x"})
    assert VALUES["cluster"][0]["slots"] == 1
    assert VALUES["gateway"]["policy"] == "rr"


def test_a_cluster_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownName, match="--set cluster: got 'c'"):
        overridden(VALUES, {"cluster.c.slots": 1})


def test_a_key_below_a_value_is_refused() -> None:
    with pytest.raises(InvalidField, match="which seed is not"):
        overridden(VALUES, {"seed.x": 1})


def test_the_file_is_not_blamed_for_them(written: Callable[[str], Path], small_toml: str) -> None:
    with pytest.raises(InvalidField) as caught:
        load_scenario(written(small_toml), {"cluster.a.slots": 0})
    assert str(caught.value).startswith("cluster[0].slots: got 0")


def test_the_file_is_blamed_for_what_it_says_itself(written: Callable[[str], Path], small_toml: str) -> None:
    with pytest.raises(InputError, match="horizon_s"):
        load_scenario(written(small_toml.replace("3_600", "-1")), {"cluster.a.slots": 0})
