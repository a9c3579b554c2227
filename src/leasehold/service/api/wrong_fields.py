"""Fields that cannot be accepted, whoever found them: pydantic at the edge, or the decision core."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from starlette.responses import Response

from leasehold.configuration.validation import expected_by
from leasehold.model.errors import InvalidField
from leasehold.service.api.fields import MEANINGS
from leasehold.service.api.moments import show_duration, show_moment
from leasehold.service.api.problems import Kind, problem

NOT_SHOWN = "(not shown)"
"""Stands for a value that an answer does not repeat."""

_MOST_FIELDS = 20
_THE_KEY = "[key]"  # of a dictionary, where it is not the value that is wrong
_MOST_CHARACTERS = 200

_INSIDE: dict[str, tuple[str, Callable[[int], object]]] = {
    "duration_ms": ("duration_s", show_duration),
    "by_ms": ("by_s", show_duration),
    "deadline_ms": ("deadline", show_moment),
    "ready_ms": ("ready", show_moment),
}
"""What the core calls by another name than the wire, and how its value reads there."""


def from_core(error: InvalidField) -> Response:
    """Answer what the core says about one field, in the words of the wire."""
    name, value = error.field, error.value
    if name in _INSIDE and isinstance(value, int):
        name, show = _INSIDE[name]
        value = show(value)
    return _answer([_wrong(name, value, error.expected)])


def from_edge(errors: Sequence[Mapping[str, Any]], known: Sequence[str]) -> Response:
    """Answer what pydantic says; ``known`` are the fields that there are, for who has mistyped one."""
    return _answer([_wrong(_name(error), _found(error), _expected(error, known)) for error in errors])


def _answer(fields: list[dict[str, Any]]) -> Response:
    shown = fields[:_MOST_FIELDS]
    detail = "; ".join(str(InvalidField(it["field"], it["value"], it["expected"])) for it in shown)
    more = shown[0] | ({"errors": shown} if len(fields) > 1 else {})
    return problem(Kind.INVALID_REQUEST, detail, **more)


def _wrong(field: str, value: object, expected: str) -> dict[str, Any]:
    return {"field": _cut(field), "value": _cut(value), "expected": expected}


def _name(error: Mapping[str, Any]) -> str:
    """Write a place as ``command[3]`` or ``about.slots``; the body as a whole is called ``body``."""
    place, *path = error["loc"]
    if not path or error["type"] == "json_invalid":
        return str(place)
    steps = [step for step in path[1:] if step != _THE_KEY]
    return str(path[0]) + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _found(error: Mapping[str, Any]) -> object:
    """Give the value; a body that cannot be read is not repeated, as it may hold a secret."""
    hidden: dict[str, object] = {"missing": None, "json_invalid": NOT_SHOWN}
    return hidden.get(error["type"], error["input"])


def _expected(error: Mapping[str, Any], known: Sequence[str]) -> str:
    """Say what would have been accepted, the nearest name where there is no such field."""
    if error["type"] == "extra_forbidden":
        return _nearest(_name(error), known)
    if error["type"] == "string_pattern_mismatch":
        return MEANINGS[error["ctx"]["pattern"]]
    return expected_by(error)


def _nearest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"one of {', '.join(known)}{hint}" if known else "nothing of this name"


def _cut(value: object) -> object:
    """Keep an answer short, whatever came."""
    if value is None or isinstance(value, bool | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return value if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"
