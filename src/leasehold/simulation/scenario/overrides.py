"""Keys of a scenario set from outside, as in ``--set cluster.c64.slots=32``."""

import copy
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.model.errors import InvalidField, UnknownName

_FORM = "key=value, as in gateway.policy=rr or cluster.NAME.slots=64"
EVERY = "*"
"""Instead of a name: all clusters, or all streams."""


def parse_assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Read ``key=value`` texts; a value that is no TOML value is taken as text.

    Raises InvalidField for a text without key or value.
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise InvalidField("--set", text, _FORM)
        found[key.strip()] = _value(value.strip())
    return found


def _value(text: str) -> object:
    try:
        values = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return text
    return values["value"] if len(values) == 1 else text


def overridden(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a scenario with these set over them.

    A key is ``key``, ``table.key``, or ``cluster.NAME.key`` and ``stream.NAME.key``, where the name ``*`` is
    every one. Raises UnknownName for a cluster or stream that is not there.
    """
    result = copy.deepcopy(dict(values))
    for key, value in overrides.items():
        first, _, rest = key.partition(".")
        if first in ("cluster", "stream") and rest:
            _set_in_list(result, first, rest, value)
        else:
            _set(result, key, key, value)
    return result


def _set_in_list(values: dict[str, Any], kind: str, rest: str, value: object) -> None:
    tables = values.get(kind)
    tables = [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []
    named = {str(table.get("name")): table for table in tables}
    # a name may contain dots itself: the longest one that fits is meant
    fitting = [name for name in [EVERY, *named] if rest.startswith(f"{name}.")]
    if not fitting:
        raise UnknownName(f"--set {kind}", rest.rpartition(".")[0] or rest, [EVERY, *named])
    name = max(fitting, key=len)
    key = rest[len(name) + 1 :]
    for table in named.values() if name == EVERY else [named[name]]:
        _set(table, key, f"{kind}.{rest}", value)


def _set(table: dict[str, Any], key: str, place: str, value: object) -> None:
    first, dot, rest = key.partition(".")
    if not dot:
        table[first] = value
        return
    below = table.setdefault(first, {})
    if not isinstance(below, dict):
        raise InvalidField(f"--set {place}", value, f"a key of which {first} is no part: {first} is no table")
    _set(below, rest, place, value)
