"""Scenario files: read with the line of whatever is wrong, and written in one normal form."""

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leasehold.model.errors import InputError, InvalidField
from leasehold.simulation.scenario.overrides import overridden
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.places import line_of
from leasehold.simulation.scenario.spec import Scenario

_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def load_scenario(path: Path, overrides: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario file; ``overrides`` are set over its keys (see `overrides`).

    Raises InputError with file and line, or InvalidField for an override.
    """
    text = _text_of(path)
    values = _tables_of(text, path)
    if not overrides:
        return _parsed(values, path, text)
    try:
        return scenario_from_dict(overridden(values, overrides), path.parent)
    except InvalidField:
        _parsed(values, path, text)  # if the file is wrong by itself, that is what to say
        raise


def _parsed(values: Mapping[str, Any], path: Path, text: str) -> Scenario:
    try:
        return scenario_from_dict(values, path.parent)
    except InvalidField as error:
        raise InputError(path, line_of(error.field, text), str(error)) from None


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


def to_toml(scenario: Scenario) -> str:
    """Write a scenario as a file, complete: `load_scenario` reads the same one from it."""
    values = scenario.to_dict()
    lines = _pairs({key: value for key, value in values.items() if not _is_table(value)})
    for key, value in values.items():
        tables = value if isinstance(value, list) else [value] if _is_table(value) else []
        header = f"[[{key}]]" if isinstance(value, list) else f"[{key}]"
        for table in tables:
            lines += ["", header, *_pairs(table)]
    return "\n".join(lines) + "\n"


def _is_table(value: object) -> bool:
    return isinstance(value, dict | list)


def _pairs(table: Mapping[str, Any]) -> list[str]:
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
            return f"{{ {', '.join(_pairs(value))} }}"
    return str(value)
