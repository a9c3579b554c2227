"""TOML files: read with lines for whatever is wrong, and written so that they read as the same."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.configuration.toml import read_toml, to_toml
from leasehold.model.errors import InputError, InvalidField

texts = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")))
scalars = st.one_of(
    st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), texts
)
keys = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1)
tables = st.dictionaries(keys, st.one_of(scalars, st.lists(scalars), st.dictionaries(keys, scalars)))
lists = st.lists(tables, min_size=1)


def parsed(text: str, folder: Path) -> dict[str, Any]:
    path = folder / "x.toml"
    path.write_text(text, encoding="utf-8")
    return read_toml(path).values


@given(top=st.dictionaries(keys, scalars), table=tables, several=lists)
def test_what_is_written_reads_as_the_same(
    top: dict[str, Any],
    table: dict[str, Any],
    several: list[Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    values = top | {"a-table": table, "a-list": several}
    assert parsed(to_toml(values), tmp_path_factory.getbasetemp()) == values


def test_a_field_that_is_wrong_has_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("\n[a]\nb = 1\n", encoding="utf-8")
    with (
        pytest.raises(InputError, match=r"x\.toml:3: a\.b: got 1, expected 2"),
        read_toml(path).naming_lines(),
    ):
        raise InvalidField("a.b", 1, "2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = ", "x.toml:1: is not valid TOML: "),
        (b"\xff", "x.toml: is not text in UTF-8 (at byte 0)"),
        (None, "x.toml: cannot be read: No such file or directory"),
    ],
)
def test_an_unreadable_file_is_one_line(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_toml(path)
    assert str(error.value).removeprefix(f"{tmp_path}/").startswith(message)
