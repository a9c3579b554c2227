"""A plan that does not fit after all is a "not now", never an over-commitment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.matching.making import make_node

from leasehold.matching.amounts import Amounts
from leasehold.matching.rooms import Rooms
from leasehold.matching.verdict import FITS, Why, wait
from leasehold.model.errors import InvalidField


def two_rooms() -> Rooms:
    return Rooms([make_node("a"), make_node("b", memory_mib=100)])


def test_a_plan_takes_what_it_says_and_gives_it_back() -> None:
    rooms = two_rooms()
    assert rooms.commit(1, {"a": Amounts(1, 400), "b": Amounts(2, 100)}) is FITS
    assert rooms.node("a").free == Amounts(3, 600, 1_000)
    assert rooms.give_back(1) == ["a", "b"]
    assert rooms.node("b").free == rooms.node("b").capabilities.total
    assert rooms.give_back(1) == []


def test_of_a_plan_that_does_not_fit_on_one_node_nothing_is_taken() -> None:
    rooms = two_rooms()
    assert rooms.commit(1, {"a": Amounts(1, 400), "b": Amounts(1, 101)}) == wait(Why.TAKEN_BY_OTHERS, "b")
    assert rooms.node("a").free == rooms.node("a").capabilities.total


def test_memory_does_not_make_up_for_cores() -> None:
    rooms = two_rooms()
    assert rooms.commit(1, {"a": Amounts(4, 0)}) is FITS
    assert rooms.commit(2, {"a": Amounts(1, 1)}) == wait(Why.TAKEN_BY_OTHERS, "a")


def test_a_node_that_is_gone_has_no_room() -> None:
    assert two_rooms().commit(1, {"c": Amounts(1)}) == wait(Why.TAKEN_BY_OTHERS, "c")


def test_names_and_jobs_are_told_apart() -> None:
    with pytest.raises(InvalidField, match="a name that no other node has"):
        Rooms([make_node("a"), make_node("a")])
    rooms = two_rooms()
    rooms.commit(1, {"a": Amounts(1)})
    with pytest.raises(InvalidField, match="holds nothing on a"):
        rooms.commit(1, {"a": Amounts(1)})


PLANS = st.lists(
    st.dictionaries(st.sampled_from("ab"), st.builds(Amounts, st.integers(0, 5), st.integers(0, 600)), max_size=2),
    max_size=12,
)


@given(PLANS, st.sets(st.integers(0, 11)))
def test_whatever_is_asked_what_is_held_never_exceeds_what_there_is(
    plans: list[dict[str, Amounts]], given_back: set[int]
) -> None:
    rooms = two_rooms()
    held: dict[int, dict[str, Amounts]] = {}
    for number, plan in enumerate(plans):
        if rooms.commit(number, plan) is FITS:
            held[number] = plan
        if number in given_back:
            rooms.give_back(number)
            held.pop(number, None)
        for name in "ab":
            used = sum((plan[name] for plan in held.values() if name in plan), Amounts())
            assert rooms.node(name).free + used == rooms.node(name).capabilities.total
