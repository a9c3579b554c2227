"""What pydantic says about a value, as the end of a message of Leasehold's: ``expected at least 1``."""

from collections.abc import Mapping
from typing import Any

_WHOLE = "a whole number"
_NUMBER = "a number"
_BOOLEAN = "true or false"

_BY_TYPE: Mapping[str, str] = {
    "missing": "a value",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "json_invalid": "JSON ({error})",
    "model_attributes_type": "a JSON object",
    "model_type": "a JSON object",
    "value_error": "{error}",
}
"""By the type of the error, where pydantic's own sentence is not for users; with the error's context."""


def expected_by(error: Mapping[str, Any]) -> str:
    """Say what would have been accepted, by one of the errors of a pydantic ``ValidationError``."""
    if error["type"] in _BY_TYPE:
        return _BY_TYPE[error["type"]].format_map(error.get("ctx", {}))
    _, _, should = error["msg"].partition(" should ")
    return should.removeprefix("be ") if should.startswith("be ") else f"to {should or error['msg']}"
