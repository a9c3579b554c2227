"""TOML files: read with the line of whatever is wrong, and written in one normal form."""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.model.errors import InputError, InvalidField

_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_HEADER = re.compile(r"^\s*(?P<open>\[\[?)\s*(?P<name>[^\]#]+?)\s*\]")
_KEY = re.compile(r"^\s*(?P<name>[A-Za-z0-9_\-.\"' ]+?)\s*=")
_STEP = re.compile(r"\[\d+\]|[^.\[\]]+")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class TomlFile:
    """The tables of one file, and its text."""

    path: Path
    text: str
    values: dict[str, Any]

    @contextmanager
    def naming_lines(self) -> Iterator[None]:
        """Say file and line, as InputError, of whatever InvalidField is raised inside."""
        try:
            yield
        except InvalidField as error:
            raise InputError(self.path, line_of(error.field, self.text), str(error)) from None


def read_toml(path: Path) -> TomlFile:
    """Read a file; raises InputError, with its line, for one that cannot be read or is not valid TOML."""
    text = _text_of(path)
    return TomlFile(path, text, _tables_of(text, path))


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(path, None, f"is not text in UTF-8 (at byte {error.start})") from None


def _tables_of(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = str(error)
        at = _AT_LINE.search(problem)
        line = int(at[1]) if at else text.count("\n") + 1
        raise InputError(path, line, f"is not valid TOML: {_AT_LINE.sub('', problem)}") from None
    except (RecursionError, ValueError) as error:
        raise InputError(path, None, f"is not valid TOML: {type(error).__name__}") from None


def to_toml(values: Mapping[str, Any]) -> str:
    """Write keys, tables and lists of tables as a file says them: `read_toml` reads the same ones from it."""
    lines = pairs({key: value for key, value in values.items() if not _is_table(value)})
    for key, value in values.items():
        tables = value if isinstance(value, list) else [value] if _is_table(value) else []
        header = f"[[{key}]]" if isinstance(value, list) else f"[{key}]"
        for table in tables:
            lines += ["", header, *pairs(table)]
    return "\n".join(lines) + "\n"


def _is_table(value: object) -> bool:
    return isinstance(value, dict | list)


def pairs(table: Mapping[str, Any]) -> list[str]:
    """Write the keys of one table, one a line; a table below it is written inline."""
    return [f"{_key(key)} = {value_text(value)}" for key, value in table.items()]


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else value_text(key)


def value_text(value: object) -> str:
    """Write one value, on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case float() if math.isfinite(value):
            return repr(value)
        case list():
            return f"[{', '.join(value_text(item) for item in value)}]"
        case dict():
            return f"{{ {', '.join(pairs(value))} }}" if value else "{}"
    return str(value)


def line_of(place: str, text: str) -> int | None:
    """Find the line (from 1) of a place such as ``cluster[0].overhead.network_mbps``.

    Python's reader of TOML keeps no lines, so this looks at the text: headers of tables, and keys at the
    start of lines. A key inside an inline table has the line on which that begins; one that is not there has
    the line of the nearest table around it, and None if not even that is there.
    """
    lines = _lines(text)
    steps = _STEP.findall(place)
    while steps:
        if tuple(steps) in lines:
            return lines[tuple(steps)]
        steps.pop()
    return None


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Give the first line of each table and key."""
    found: dict[tuple[str, ...], int] = {}
    many: Counter[tuple[str, ...]] = Counter()
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            names = _names(header["name"])
            if header["open"] == "[[":
                many[names] += 1
            table = _numbered(names, many)
            found.setdefault(table, number)
            found.setdefault(names, number)
        elif key := _KEY.match(line):
            steps = (*table, *_names(key["name"]))
            for end in range(len(table) + 1, len(steps) + 1):
                found.setdefault(steps[:end], number)
    return found


def _numbered(names: tuple[str, ...], many: Counter[tuple[str, ...]]) -> tuple[str, ...]:
    """Put its number after each name that stands for a list of tables: the last one begun."""
    steps: tuple[str, ...] = ()
    for end, name in enumerate(names, start=1):
        steps += (name,)
        if many[names[:end]]:
            steps += (f"[{many[names[:end]] - 1}]",)
    return steps


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip().strip("\"'") for name in dotted.split("."))
