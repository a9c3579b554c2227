"""The text of a description: its fields with their values, and the line on which each stands."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from leasehold.model.errors import InputError, InvalidField

MOST_BYTES = 1024 * 1024
"""More text than any description has."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]')


@dataclass(frozen=True, slots=True)
class Document:
    """The fields of a description, by their names.

    ``lines``  of places such as ``DataStaging[0].Size``; what is not among them is where its table is
    """

    values: Mapping[str, Any]
    lines: Mapping[str, int] = field(default_factory=dict)

    def line_of(self, place: str) -> int | None:
        """Find the line of a place, or of the nearest one around it."""
        while place and place not in self.lines:
            place = re.sub(r"(\[\d+\]|\.?[^.\[\]]+)$", "", place)
        return self.lines.get(place)


def read_json(text: str, name: str) -> Document:
    """Read JSON; raises InputError with the ``name`` of the text, and its line, where it is none."""
    try:
        values = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise InputError(name, error.lineno, f"is no JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise InputError(name, None, f"is no JSON: {error}") from None
    lines = dict(_lines(text))
    if not isinstance(values, dict):
        raise InputError(name, 1, f"got {values!r:.80}, expected an object with the fields of a job")
    return Document(values, lines)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a field that is said twice: which one would be meant?"""
    values = dict(pairs)
    if len(values) < len(pairs):
        seen = [key for key, _ in pairs]
        twice = next(key for key in seen if seen.count(key) > 1)
        raise ValueError(f"{twice} is said twice")
    return values


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Give the line of each field and each entry of a list; the text is JSON, as was seen before."""
    line, place, last = 1, "", ""
    around: list[_Around] = []
    for found in _TOKEN.finditer(text):
        match found[0]:
            case "\n":
                line += 1
            case "{" | "[" as bracket:
                around.append(_Around(place, is_list=bracket == "["))
                place = around[-1].entry(0)
            case "}" | "]":
                place = around.pop().place
            case ":":
                place = _below(around[-1].place, json.loads(last))
                yield place, line
            case ",":
                around[-1].count += 1
                place = around[-1].entry(around[-1].count)
            case string:
                last = string
                if around[-1].is_list:
                    yield place, line


@dataclass(slots=True)
class _Around:
    """An object or a list that is open: where it stands, and how many commas it had."""

    place: str
    is_list: bool
    count: int = 0

    def entry(self, number: int) -> str:
        """Give the place of an entry of a list; within an object the next name says it."""
        return f"{self.place}[{number}]" if self.is_list else self.place


def _below(table: str, key: str) -> str:
    return f"{table}.{key}" if table else key


def at_its_line(document: Document, name: str, error: InvalidField) -> InputError:
    """Say in which text, and on which line of it, a field is wrong."""
    return InputError(name, document.line_of(error.field), str(error))
