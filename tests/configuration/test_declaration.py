"""A key that is declared at a field is read, checked, written and explained from that declaration alone."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest

from leasehold.configuration.declaration import (
    Below,
    Choice,
    Counts,
    FilePath,
    Flag,
    Number,
    Seconds,
    Table,
    Text,
    Texts,
    TextSet,
    TextTable,
    Whole,
    Within,
)
from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField
from leasehold.service import config
from leasehold.service.config_file import OPTIONS
from leasehold.simulation.scenario import spec
from leasehold.simulation.workload.interpretation import READING


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def no_spaces(text: str) -> str:
    if " " in text:
        raise InvalidField("any", text, "a text without spaces")
    return text.lower()


@dataclass(frozen=True, slots=True)
class Inner:
    pause_ms: Annotated[int, Seconds("how long", least_ms=500, most_ms=10_000)] = 60


@dataclass(frozen=True, slots=True)
class Outer:
    name: Annotated[str, Text("its name", convert=no_spaces)]
    kept: str = "not a key"
    folder: Annotated[Path | None, FilePath("where it is")] = None
    flag: Annotated[bool, Flag("whether")] = True
    many: Annotated[int, Whole("how many", more=", of all", least=0, most=9_000)] = 3
    part: Annotated[float, Number("which part", least=0, most=1, name="share")] = 0.5
    last_ms: Annotated[int | None, Seconds("until when", unset="for ever")] = None
    colour: Annotated[Colour, Choice("its colour", of=Colour)] = Colour.RED
    words: Annotated[tuple[str, ...], Texts("in any order")] = ()
    colours: Annotated[frozenset[Colour], TextSet("its other colours", of=Colour)] = frozenset()
    counts: Annotated[dict[str, int], Counts("of each", optional=True)] = field(default_factory=dict)
    names: Annotated[dict[str, str], TextTable("of each", convert=no_spaces)] = field(default_factory=dict)
    inner: Annotated[Inner, Within("", Table(Inner))] = field(default_factory=Inner)
    below: Annotated[Inner, Below("more of it", Table(Inner), unset="as above")] = field(default_factory=Inner)


OUTER = Table(Outer, "A table of each kind of key.")
ALL: dict[str, Any] = {
    "name": "x",
    "folder": "/a",
    "flag": False,
    "many": 0,
    "share": 1.0,
    "last_s": 1.5,
    "colour": "blue",
    "words": ["b", "a"],
    "colours": ["blue", "red"],
    "counts": {"a": 1},
    "names": {"b": "x", "a": "y"},
    "pause_s": 0.5,
    "below": {"pause_s": 10},
}


def test_what_is_absent_has_the_default_of_its_field() -> None:
    assert OUTER.read(Keys({"name": "X"})) == Outer("x")


def test_or_of_the_value_that_is_given() -> None:
    given = Outer("y", many=7, inner=Inner(700))
    assert OUTER.read(Keys({"flag": False}), given) == Outer("y", flag=False, many=7, inner=Inner(700))


def test_every_kind_is_read_and_written() -> None:
    read = OUTER.read(Keys(ALL))
    assert (read.part, read.last_ms, read.colour) == (1.0, 1_500, Colour.BLUE)
    assert (read.colours, read.inner, read.below) == (frozenset(Colour), Inner(500), Inner(10_000))
    assert OUTER.to_dict(read) == ALL


def test_a_path_counts_from_the_folder_of_the_file() -> None:
    assert OUTER.read(Keys({"name": "x", "folder": "a"}, folder=Path("/b"))).folder == Path("/b/a")


def test_none_and_what_is_optional_and_empty_is_not_written() -> None:
    assert OUTER.to_dict(Outer("x")).keys() == ALL.keys() - {"folder", "last_s", "counts"}


def test_a_value_in_seconds_is_none_in_milliseconds_by_chance() -> None:
    assert OUTER.read(Keys({"name": "x", "below": {"pause_s": 1}}), Outer("x", below=Inner(1))).below == Inner(1_000)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("name", None, "at.name: missing, expected a text in quotes, on one line, of 1 to 4096 characters"),
        ("name", "a b", "at.name: got 'a b', expected a text without spaces"),
        ("folder", "$NO_SUCH_VARIABLE", "at.folder: got '$NO_SUCH_VARIABLE', expected a path in which every"),
        ("flag", 1, "at.flag: got 1, expected true or false"),
        ("many", -1, "at.many: got -1, expected a whole number from 0 to 9000"),
        ("many", True, "at.many: got True, expected a whole number from 0 to 9000"),
        ("share", 1.5, "at.share: got 1.5, expected a number from 0 to 1"),
        ("share", float("nan"), "at.share: got nan, expected a number from 0 to 1"),
        ("pause_s", 0.4, "at.pause_s: got 0.4, expected a number from 0.5 to 10"),
        ("colour", "rad", "at.colour: got 'rad', expected one of blue, red (did you mean 'red'?)"),
        ("colours", ["green"], "at.colours: got 'green', expected one of blue, red"),
        ("words", [3], "at.words: got [3], expected a text in quotes, or a list of at most 10000 such texts"),
        ("counts", {"a": 0}, "at.counts.a: got 0, expected a whole number from 1 to 2147483648"),
        ("names", {"a": ""}, "at.names.a: got '', expected a text in quotes, on one line"),
        ("names", {"a": "b c"}, "at.names.a: got 'b c', expected a text without spaces"),
        ("below", {"pause_s": 11}, "at.below.pause_s: got 11, expected a number from 0.5 to 10"),
        ("below", {"paus_s": 1}, "at.below.paus_s: got 'paus_s', expected one of pause_s (did you mean"),
        ("kept", "x", "at.kept: got 'kept', expected one of below, colour"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(key: str, value: object, message: str) -> None:
    values = {name: one for name, one in {"name": "x", key: value}.items() if one is not None}
    with pytest.raises(InvalidField) as caught:
        OUTER.read(Keys(values, "at"))
    assert str(caught.value).startswith(message)


def test_the_reference_has_a_row_for_each_key() -> None:
    assert OUTER.reference() == [
        "| `name` | its name | text | required |",
        "| `folder` | where it is | path | none |",
        "| `flag` | whether | `true` or `false` | `true` |",
        "| `many` | how many, of all | whole number from 0 to 9,000 | `3` |",
        "| `share` | which part | number from 0 to 1 | `0.5` |",
        "| `last_s` | until when | seconds from 0 | for ever |",
        '| `colour` | its colour | `"red"`, `"blue"` | `"red"` |',
        "| `words` | in any order | list of texts | `[]` |",
        "| `colours` | its other colours | list of texts | `[]` |",
        "| `counts` | of each | table of whole numbers | `{}` |",
        "| `names` | of each | table of texts | `{}` |",
        "| `pause_s` | how long | seconds from 0.5 to 10 | `0.06` |",
        "| `below` | more of it | table | as above |",
    ]


@dataclass(frozen=True, slots=True)
class Required:
    flag: Annotated[bool, Flag("whether")]
    last_ms: Annotated[int, Seconds("until when", least_ms=1_000)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"last_s": 1}, "flag: missing, expected true or false"),
        ({"flag": True}, "last_s: missing, expected a number from 1 to "),
        ({"flag": True, "lasts": 1}, "lasts: got 'lasts', expected one of last_s"),
    ],
)
def test_a_key_without_a_default_is_required(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        Table(Required).read(Keys(values))
    assert str(caught.value).startswith(message)


@dataclass(frozen=True, slots=True)
class Alike:
    window_ms: Annotated[int, Seconds("how long")]
    windows: Annotated[int, Whole("how many")] = 1


def test_a_key_that_is_known_is_no_typo_of_another() -> None:
    with pytest.raises(InvalidField, match=r"^window_s: missing"):
        Table(Alike).read(Keys({"windows": 3}))


@pytest.mark.parametrize("name", config.TABLES)
def test_the_defaults_of_a_service_are_accepted_from_a_file(name: str) -> None:
    table = config.TABLES[name]
    assert table.read(Keys(table.to_dict(table.made()))) == table.made()


REQUIRED: dict[str, dict[str, Any]] = {
    "ec2": {"region": "r", "image": "i", "instance_type": "t"},
    "opennebula": {"endpoint": "http://one:2633/RPC2", "template": 0},
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_defaults_of_machines_are_accepted_from_a_file(kind: str) -> None:
    table, required = OPTIONS[kind], REQUIRED.get(kind, {})
    default = table.made(**required)
    assert table.read(Keys(required)) == default
    written = {key: value for key, value in table.to_dict(default).items() if value != ""}
    assert table.read(Keys(written)) == default


@pytest.mark.parametrize("table", [READING, spec.WINDOW])
def test_the_defaults_of_a_stream_are_accepted_from_a_file(table: Table[Any]) -> None:
    assert table.read(Keys(table.to_dict(table.made()))) == table.made()
