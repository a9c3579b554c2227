"""Types of the values in requests and responses, with bounds and OpenAPI schemas.

Times are ISO-8601 in UTC with milliseconds; durations are seconds with at most three decimals.
"""

import re
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, StringConstraints
from pydantic import WithJsonSchema as Schema
from pydantic.types import Strict

from leasehold.model.request import IMAGE_NAME, MOST_DURATION_MS, MOST_RESTARTS

MAX_INT64 = 2**63 - 1
MAX_VMS = 1_000_000
MAX_DURATION_S = MOST_DURATION_MS // 1000
MAX_MEMORY_MIB = 2**31
MAX_NAME = 200
MAX_WORDS = 100
MAX_COMMAND_BYTES = 8 * 1024
MAX_PAGE = 1000
MAX_FOLLOWED = 100
MAX_CLAIMS = 20
MAX_UNITS = 2**31

LATEST_MS = 253_402_300_799_999
"""The last millisecond of a four-digit year; later times, as in a very full site's plan, are clamped to it."""

_DIGITS = 19  # of the largest 64-bit number
_NO_CONTROLS = r"^[^\x00-\x1f\x7f-\x9f]*$"
_NO_NUL = r"^[^\x00]*$"
_VISIBLE = "^[!-~]*$"
_RESOURCE = "^[a-z][a-z0-9_-]*:[A-Za-z0-9][A-Za-z0-9._-]*$"
_VARIABLE = "^[A-Za-z_][A-Za-z0-9_]*$"
SHA256 = "^[0-9a-f]{64}$"
GATEWAY_ID = "^[0-9A-Za-z-]*$"
_FILE_NAME = r"^[^\x00-\x1f\x7f-\x9f/]*[^\x00-\x1f\x7f-\x9f/.][^\x00-\x1f\x7f-\x9f/]*$"
_MONTH = "^[0-9]{4}-(0[1-9]|1[0-2])$"

_NOTIFY = "^(|file|SIG(HUP|INT|USR1|USR2|TERM|CONT)|https?://[!-~]+)$"

_GPUS = r"^[A-Za-z0-9_.:-]*$"
_IMAGE = f"^({IMAGE_NAME})?$"
_SSH_KEY = (
    "^((ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh.com)"
    " [A-Za-z0-9+/]{16,}={0,2}( [ -~]*)?)?$"
)
MEANINGS = {
    _IMAGE: "the name of an image, of letters, digits and ._:+-",
    _SSH_KEY: "a public key as in a file id_ed25519.pub",
    _NO_CONTROLS: "no control characters",
    _NO_NUL: "no NUL character",
    _VISIBLE: "visible ASCII characters",
    _VARIABLE: "a name of letters, digits and _, not beginning with a digit",
    GATEWAY_ID: "the ID of a gateway, of letters, digits and -",
    SHA256: "a SHA-256 in 64 small hexadecimal digits",
    _FILE_NAME: "the name of a file without folders",
    _MONTH: "a year and a month, such as 2026-10",
    _NOTIFY: "a signal such as SIGUSR1, 'file', or the address of a webhook",
    _GPUS: "GPUs of one machine, such as 2, a100:2 or a100:0.5",
    _RESOURCE: "a kind and a name, such as licence:matlab",
}
"""Human-readable descriptions of the patterns above."""

# Times and durations

_WRITTEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3}0*)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def unix_ms(moment: datetime) -> int:
    """Convert a time to Unix milliseconds."""
    return (moment - _EPOCH) // _MILLISECOND


def moment_at(unix_ms: int) -> datetime:
    """Convert Unix milliseconds to a time."""
    return _EPOCH + min(unix_ms, LATEST_MS) * _MILLISECOND


def planned(unix_ms: int | None) -> datetime | None:
    """Convert an optional time; None and the store's -1 mean none."""
    return None if unix_ms is None or unix_ms < 0 else moment_at(unix_ms)


def show_moment(moment: datetime | int) -> str:
    """Format a time, or Unix milliseconds: ``2026-11-21T10:43:36.120Z``."""
    at = moment_at(moment if isinstance(moment, int) else unix_ms(moment))
    return f"{at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def read_moment(text: object) -> datetime:
    """Parse a time with its zone. Raises ValueError for anything else, or if finer than a millisecond."""
    if isinstance(text, datetime):
        if text.tzinfo is None:
            raise ValueError("a time with its zone")
        return text
    if not isinstance(text, str) or not _WRITTEN.fullmatch(text):
        raise ValueError("a time with its zone and at most milliseconds, as in '2026-11-21T10:43:36.120Z'")
    try:
        moment = datetime.fromisoformat(text)
        moment - _EPOCH
    except (ValueError, OverflowError):
        raise ValueError("a time that exists, as in '2026-11-21T10:43:36.120Z'") from None
    return moment


def show_duration(duration_ms: int) -> int | float:
    """Convert milliseconds to seconds, as an int if whole."""
    seconds, rest = divmod(duration_ms, 1000)
    return duration_ms / 1000 if rest else seconds


def read_duration(seconds: object) -> int:
    """Convert seconds to milliseconds. Raises ValueError if not a number, or finer than a millisecond."""
    if isinstance(seconds, int) and not isinstance(seconds, bool):
        return seconds * 1000
    if not isinstance(seconds, float) or not isfinite(seconds * 1000):
        raise ValueError("a number of seconds")
    ms = round(seconds * 1000)
    if ms != seconds * 1000 and ms / 1000 != seconds:
        raise ValueError("a number of seconds with at most three decimals")
    return ms


def _duration(seconds: object) -> int | float:
    ms = read_duration(seconds)
    if not 1 <= ms <= MAX_DURATION_S * 1000:
        raise ValueError(f"more than 0 and at most {MAX_DURATION_S} seconds (10 years)")
    return show_duration(ms)


def _margin(seconds: object) -> int | float:
    ms = read_duration(seconds)
    if not 0 <= ms <= MAX_DURATION_S * 1000:
        raise ValueError(f"from 0 to {MAX_DURATION_S} seconds (10 years)")
    return show_duration(ms)


Moment = Annotated[
    datetime,
    PlainValidator(read_moment),
    PlainSerializer(show_moment, return_type=str, when_used="json"),
    Schema({"type": "string", "format": "date-time"}),
]
"""A time: ISO-8601 with a zone."""

Duration = Annotated[
    float,
    PlainValidator(_duration),
    Schema({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_DURATION_S}),
]
"""A requested duration: seconds with at most three decimals."""

Margin = Annotated[float, PlainValidator(_margin), Schema({"type": "number", "minimum": 0, "maximum": MAX_DURATION_S})]
"""A duration that may be 0."""

Seconds = int | float
"""A duration in a response: an int if whole."""

# Numbers and texts of requests


def is_file_name(text: str) -> bool:
    """Whether a text is the name of a file in a folder, and nothing that leads out of it."""
    return len(text) <= MAX_NAME and re.fullmatch(_FILE_NAME[1:-1], text) is not None


def plain_digits(text: object) -> object:
    """Reject what int() accepts: ``+4``, ``4_2``, other scripts' digits, leading spaces."""
    if isinstance(text, str) and not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ValueError(f"a whole number from 0 to {MAX_INT64}")
    return text


def _within(command: list[str]) -> list[str]:
    if sum(len(word.encode()) for word in command) > MAX_COMMAND_BYTES:
        raise ValueError(f"at most {MAX_COMMAND_BYTES} bytes in all words together")
    return command


def _environment_within(variables: dict[str, str]) -> dict[str, str]:
    if sum(len(f"{name}={value}".encode()) for name, value in variables.items()) > MAX_COMMAND_BYTES:
        raise ValueError(f"at most {MAX_COMMAND_BYTES} bytes in all variables together")
    return variables


LeaseTypeName = Literal["cancelable", "suspendable", "migratable", "non-preemptable"]
"""How a request may be preempted, as in `leasehold.model.request.LEASE_TYPES`."""

Vms = Annotated[int, Strict(), Field(ge=1, le=MAX_VMS)]
"""A number of machines."""

OptionalVms = Annotated[int, Strict(), Field(ge=0, le=MAX_VMS)]
"""A number of machines, or 0 where none is said."""

MemoryMib = Annotated[int, Strict(), Field(ge=1, le=MAX_MEMORY_MIB)]
"""The memory of one machine."""

Cores = Annotated[int, Strict(), Field(ge=1, le=MAX_VMS)]
"""The cores of one machine."""

GpusText = Annotated[str, StringConstraints(strict=True, max_length=80, pattern=_GPUS)]
"""GPUs of one machine, such as ``a100:2``."""

ImageName = Annotated[str, StringConstraints(strict=True, max_length=64, pattern=_IMAGE)]
"""The name of an image; empty: the site's default."""

SshKey = Annotated[str, StringConstraints(strict=True, max_length=8_192, pattern=_SSH_KEY)]
"""A public key of SSH, on one line; empty: none."""

MaxRestarts = Annotated[int, Strict(), Field(ge=0, le=MOST_RESTARTS)]
"""How often something begins again."""

Text = Annotated[str, StringConstraints(strict=True, max_length=MAX_NAME, pattern=_NO_CONTROLS)]
"""A name or a note without control characters, safe for logs and terminals."""

Name = Annotated[Text, Field(min_length=1)]
"""A non-empty name."""

Notify = Annotated[
    str,
    StringConstraints(strict=True, max_length=512, pattern=_NOTIFY),
]
"""How a guest is told before it is preempted."""

Word = Annotated[str, StringConstraints(strict=True, pattern=_NO_NUL)]
"""One word of a command: anything an operating system accepts."""

Key = Annotated[str, StringConstraints(max_length=MAX_NAME, pattern=_VISIBLE)]
"""A word chosen by the caller that fits in a header."""

CommandWords = Annotated[list[Word], Field(max_length=MAX_WORDS), AfterValidator(_within)]
"""A command as a list of words; no shell interprets it."""

VariableName = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=MAX_NAME, pattern=_VARIABLE)]
"""The name of an environment variable."""

FileName = Annotated[str, StringConstraints(strict=True, max_length=MAX_NAME, pattern=_FILE_NAME)]
"""The name of a file in a folder, and nothing that leads out of it."""

Resource = Annotated[str, StringConstraints(strict=True, max_length=MAX_NAME, pattern=_RESOURCE)]
"""A resource besides VMs and their memory."""

Environment = Annotated[dict[VariableName, Word], Field(max_length=MAX_WORDS), AfterValidator(_environment_within)]
"""Variables of a command, by name."""

Claims = Annotated[dict[Resource, Annotated[int, Strict(), Field(ge=1, le=MAX_UNITS)]], Field(max_length=MAX_CLAIMS)]
"""Units of further resources."""

Month = Annotated[str, StringConstraints(max_length=7, pattern=_MONTH)]
"""A month of the calendar, in UTC."""

Number = Annotated[int, Field(ge=0, le=MAX_INT64), BeforeValidator(plain_digits)]
"""A whole number in a path or a query: the id of a lease, a place in the journal."""

PageSize = Annotated[
    int, Field(ge=1, le=MAX_PAGE, description="Maximum number of entries."), BeforeValidator(plain_digits)
]
"""How many entries one page has at most."""

Cursor = Annotated[Text | None, Field(description="The `next` of the previous page.")]
"""Where a page begins."""

# Values of responses that a gateway of an earlier version may not send yet. The default is in the annotation, so
# that code building a response has to give the value, and the type checker finds omissions.

T = TypeVar("T")
OrNone = Annotated[T | None, Field(default=None)]
OrEmpty = Annotated[str, Field(default="")]
OrZero = Annotated[int, Field(default=0)]
OrOne = Annotated[int, Field(default=1)]
OrFalse = Annotated[bool, Field(default=False)]
AnyNumberOf = Annotated[tuple[T, ...], Field(default=())]
Units = Annotated[dict[str, int], Field(default={})]
