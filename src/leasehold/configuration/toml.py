"""TOML files: read with the line of whatever is wrong, and written in one normal form."""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.configuration.places import line_of
from leasehold.model.errors import InputError, InvalidField

_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
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
    """Read a file; raises InputError, with its line, for one that cannot be read or is no TOML."""
    text = _text_of(path)
    return TomlFile(path, text, _tables_of(text, path))


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(path, None, f"is no text in UTF-8 (at byte {error.start})") from None


def _tables_of(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = str(error)
        at = _AT_LINE.search(problem)
        line = int(at[1]) if at else text.count("\n") + 1
        raise InputError(path, line, f"is no TOML: {_AT_LINE.sub('', problem)}") from None
    except (RecursionError, ValueError) as error:
        raise InputError(path, None, f"is no TOML: {type(error).__name__}") from None


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
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items()]


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _value(key)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case float() if math.isfinite(value):
            return repr(value)
        case list():
            return f"[{', '.join(_value(item) for item in value)}]"
        case dict():
            return f"{{ {', '.join(pairs(value))} }}"
    return str(value)
