"""The values that come in from outside: their bounds, and how they read in the OpenAPI."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema
from pydantic.types import Strict
from starlette.convertors import Convertor, register_url_convertor

from leasehold.service.api.moments import read_duration, read_moment

MAX_INT64 = 2**63 - 1
MAX_VMS = 1_000_000
MAX_DURATION_S = 10 * 365 * 86_400
MAX_MEMORY_MIB = 2**31
MAX_NAME = 200
MAX_WORDS = 100
MAX_COMMAND_BYTES = 8 * 1024
MAX_PAGE = 1000
MAX_FOLLOWED = 100
MAX_CLAIMS = 20
MAX_UNITS = 2**31

_DIGITS = 19  # of the largest 64-bit number
_NO_CONTROLS = r"^[^\x00-\x1f\x7f-\x9f]*$"
_NO_NUL = r"^[^\x00]*$"
_VISIBLE = "^[!-~]*$"
_RESOURCE = "^[a-z][a-z0-9_-]*:[A-Za-z0-9][A-Za-z0-9._-]*$"
_MONTH = "^[0-9]{4}-(0[1-9]|1[0-2])$"

MEANINGS = {
    _NO_CONTROLS: "no control characters",
    _NO_NUL: "no NUL character",
    _VISIBLE: "visible ASCII characters",
    _MONTH: "a year and a month, such as 2026-10",
    _RESOURCE: "a kind and a name, such as licence:matlab",
}
"""What the patterns below say, for people."""


def _within(command: list[str]) -> list[str]:
    if sum(len(word.encode()) for word in command) > MAX_COMMAND_BYTES:
        raise ValueError(f"at most {MAX_COMMAND_BYTES} bytes in all words together")
    return command


def plain_digits(text: object) -> object:
    """Refuse what int() is too kind to refuse: ``+4``, ``4_2``, other scripts' digits, leading spaces."""
    if isinstance(text, str) and not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ValueError(f"a whole number from 0 to {MAX_INT64}")
    return text


def _duration(seconds: object) -> int:
    ms = read_duration(seconds)
    if not 1 <= ms <= MAX_DURATION_S * 1000:
        raise ValueError(f"more than 0 and at most {MAX_DURATION_S} seconds (10 years)")
    return ms


LeaseTypeName = Literal["cancelable", "suspendable", "migratable", "non-preemptable"]
"""How a request may be disturbed, as in `leasehold.model.request.LEASE_TYPES`."""

Vms = Annotated[int, Strict(), Field(ge=1, le=MAX_VMS)]
"""How many machines."""

MemoryMib = Annotated[int, Strict(), Field(ge=1, le=MAX_MEMORY_MIB)]
"""The memory of one machine."""

Text = Annotated[str, StringConstraints(strict=True, max_length=MAX_NAME, pattern=_NO_CONTROLS)]
"""A name or a note: no control characters, so that it can stand in a log and on a terminal."""

Name = Annotated[Text, Field(min_length=1)]
"""A name that names something."""

Word = Annotated[str, StringConstraints(strict=True, pattern=_NO_NUL)]
"""One word of a command: whatever an operating system takes."""

Key = Annotated[str, StringConstraints(max_length=MAX_NAME, pattern=_VISIBLE)]
"""A word that a caller makes up and a header can carry."""

CommandWords = Annotated[list[Word], Field(max_length=MAX_WORDS), AfterValidator(_within)]
"""A command, word by word; no shell reads it."""

Resource = Annotated[str, StringConstraints(strict=True, max_length=MAX_NAME, pattern=_RESOURCE)]
"""A resource besides VMs and their memory."""

Claims = Annotated[dict[Resource, Annotated[int, Strict(), Field(ge=1, le=MAX_UNITS)]], Field(max_length=MAX_CLAIMS)]
"""Units of further resources."""

Month = Annotated[str, StringConstraints(max_length=7, pattern=_MONTH)]
"""A month of the calendar, in UTC."""

DurationMs = Annotated[
    int,
    BeforeValidator(_duration),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_DURATION_S}),
]
"""A duration: seconds with at most three decimals outside, whole milliseconds inside."""

MomentMs = Annotated[int, BeforeValidator(read_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time: ISO-8601 with a zone outside, Unix milliseconds inside."""

Number = Annotated[int, Field(ge=0, le=MAX_INT64), BeforeValidator(plain_digits)]
"""A whole number in a path or a query: the id of a lease, a place in the journal."""


class _InPath(Convertor[str]):
    """What stands for a number in a path: all but the name of a route beside it.

    Whether it is a number is said with its name and value (`Number`). Starlette's own ``int`` answers instead
    as if there were no such route, and fails for more digits than Python reads.
    """

    regex = "(?!explain(?:/|$))[^/]+"

    def convert(self, value: str) -> str:
        """Leave it as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Leave it as it is."""
        return value


register_url_convertor("number", _InPath())

PageSize = Annotated[int, Field(ge=1, le=MAX_PAGE), BeforeValidator(plain_digits)]
"""How many entries one page has at most."""
