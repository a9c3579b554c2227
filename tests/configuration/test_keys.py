"""Lists of texts, and keys that nobody took: what scenarios do not use, and services do."""

from typing import Any

import pytest

from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField


@pytest.mark.parametrize(("value", "read"), [("a", ("a",)), (["a", "b"], ("a", "b")), ([], ())])
def test_a_text_is_a_list_of_one(value: Any, read: tuple[str, ...]) -> None:
    assert Keys({"names": value}).texts("names") == read


def test_without_a_list_the_default_is_taken() -> None:
    assert Keys({}).texts("names", ("x",)) == ("x",)


@pytest.mark.parametrize("value", [3, [3], [""], "", ["a\nb"], None])
def test_whatever_else_is_refused(value: Any) -> None:
    with pytest.raises(InvalidField, match=r"place\.names: (got .*|missing), expected a text in quotes, or a list"):
        Keys({"names": value}, "place").texts("names")


def test_keys_that_are_left_are_told_in_their_order() -> None:
    keys = Keys({"b": 1, "a": 2, "c": 3})
    keys.take("a")
    assert keys.left() == ["b", "c"]
