"""Translates pydantic's validation errors into Leasehold's: field, value, expected."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from leasehold.configuration.validation import expected_by
from leasehold.protocol.fields import MEANINGS

NOT_SHOWN = "(not shown)"
"""Placeholder for a value that a response does not repeat."""

WRONG_KIND = "wrong_kind"
"""The type of the error about a body whose ``kind`` is none of those that it may be."""
_MOST_CHARACTERS = 200


def wrong_field(error: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Return field, value and expectation; ``known`` are the valid fields, for suggesting one if mistyped."""
    return named_field(_name(error), _found(error), _expected(error, known))


def named_field(field: str, value: object, expected: str) -> dict[str, Any]:
    """Return the same for a field whose name is known."""
    return {"field": _cut(field), "value": _cut(value), "expected": expected}


def _name(error: Mapping[str, Any]) -> str:
    """Format a location as ``command[3]`` or ``about.slots``; the whole body is ``body``."""
    place, *path = error["loc"]
    if not path or error["type"] == "json_invalid":
        return str(place)
    # In brackets are the key of a dictionary, where it is not the value that is wrong, and the kind of a body.
    steps = [step for step in path[1:] if not (isinstance(step, str) and step.startswith("["))]
    if error["type"] == WRONG_KIND:
        steps.append("kind")
    return str(path[0]) + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _found(error: Mapping[str, Any]) -> object:
    """Return the value; an unreadable body is not repeated, as it may hold a secret."""
    hidden: dict[str, object] = {"missing": None, "json_invalid": NOT_SHOWN}
    return hidden.get(error["type"], error["input"])


def _expected(error: Mapping[str, Any], known: Sequence[str]) -> str:
    """Describe what would have been accepted; for an unknown field, the nearest name."""
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
    """Truncate long values, to keep responses short."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    text = value if isinstance(value, str) else repr(value)
    return value if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"
