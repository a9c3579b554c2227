"""The job lines of a workload log, read fast where they are plain and carefully where they are not.

SWF and GWF agree on what their first sixteen columns mean; a `LogFormat` says where they differ. Columns that
Leasehold has no use for are not looked at. `text_lines` reads plain and gzip files, reporting every failure
as one line; `ReadingNotes` count what was assumed and left out, so that nothing happens silently.
"""

import gzip
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, cast

from leasehold.model.errors import InputError
from leasehold.model.tables import LogRecord

_GZIP_MAGIC = b"\x1f\x8b"


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, unpacked if it is gzip, whatever its name.

    Bytes that are not UTF-8 survive as surrogate escapes, so that a header can be written back as it was.
    Raises InputError for a file that cannot be opened, is cut off or is damaged.
    """
    number = 0
    try:
        with TextIOWrapper(opened(path), encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):  # noqa: B007  # the handlers tell how far reading got
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        problem = f"the gzip file is cut off or damaged after this line ({error})"
        raise InputError(path, number, problem) from error
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from error


def opened(path: Path) -> BinaryIO:
    """Open a file for reading, unpacked if it is gzip."""
    with path.open("rb") as file:
        packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    return cast("BinaryIO", gzip.open(path)) if packed else path.open("rb")


@dataclass(slots=True)
class ReadingNotes:
    """The account of one source: job lines read = jobs + skipped.

    ``assumed`` counts jobs by the assumption made about them, ``skipped`` by the reason for leaving them out;
    both are keyed by a phrase that completes "n of m jobs ...".
    """

    source: str
    read: int = 0
    assumed: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    @property
    def jobs(self) -> int:
        """How many of the lines read became jobs."""
        return self.read - self.skipped.total()

    def assume(self, phrase: str) -> None:
        """Count one more job about which this was assumed."""
        self.assumed[phrase] += 1

    def skip(self, phrase: str) -> None:
        """Count one more job that was left out for this reason; gives nothing, as what is left of the job."""
        self.skipped[phrase] += 1

    def remark(self, sentence: str) -> None:
        """Keep a sentence about the source as a whole."""
        self.remarks.append(sentence)

    def sentences(self) -> list[str]:
        """Return all as sentences, for a manifest: what was left out first, the frequent before the rare."""
        counted = [*self.skipped.most_common(), *self.assumed.most_common()]
        sentences = [f"{self.source}: {count:,} of {self.read:,} jobs {phrase}" for phrase, count in counted]
        return sentences + [f"{self.source}: {remark}" for remark in self.remarks]


ID_FIELDS = ("user", "group", "queue", "partition", "site")
"""The fields that a log can be split by; as text, exactly as in the log."""

UNKNOWN = "-1"
"""What both formats write where they do not know."""

LARGEST = 10**14  # milliseconds, or processors: 3,000 years, far inside 64 bits
_STATUS = 10

PARTIAL = "were left out: a part (status 2, 3 or 4) of a job that has a line of its own"
"""Completes "n of m jobs ..." for lines that are `LogFormat.partial`."""

NEVER_BEGAN = "were left out: cancelled before they began"
"""Completes "n of m jobs ..." for lines that are `LogFormat.cancelled`, where they are not replayed."""

_Numbers = tuple[int, int, int, int, int]
"""Submit time, run time, processors allocated and requested, requested time; times in milliseconds."""


@dataclass(frozen=True, slots=True)
class LogFormat:
    """What one log format is like, beyond the columns that all share.

    ``fewest_fields`` and ``most_fields`` bound a line. ``partial`` are the status codes of lines about a part
    of a job that a line of its own sums up, ``cancelled`` that of a job that was cancelled; one without run time was
    so before it began. ``has_tabs`` if tabs, where there are any, and not spaces separate the
    fields. ``site_column`` is the column of the submitting site.
    """

    name: str
    comment: str
    fields_of: Callable[[str], list[str]]
    fewest_fields: int
    most_fields: int
    partial: frozenset[str] = frozenset()
    cancelled: frozenset[str] = frozenset()
    has_tabs: bool = False
    site_column: int | None = None


def log_records(path: Path, log_format: LogFormat, notes: ReadingNotes) -> Iterator[LogRecord]:
    """Yield the jobs of a log in the order of its lines, and count every job line in the notes.

    Raises InputError, with file and line, for a line that the format does not allow, for submit times out of
    order, and for a log without a job.
    """
    last_ms = 0
    for number, line in enumerate(text_lines(path), 1):
        text = job_text(line, log_format)
        if not text:
            continue
        notes.read += 1
        try:
            record = careful_record(text, log_format)
        except ValueError as error:
            raise InputError(path, number, str(error)) from None
        if record is None:
            notes.skip(PARTIAL)
            continue
        if record.submit_ms < last_ms:
            raise InputError(path, number, out_of_order(last_ms, record.submit_ms, log_format))
        last_ms = record.submit_ms
        yield record
    if not notes.read:
        raise InputError(path, None, f"holds no job, expected a workload log in {log_format.name}")


def job_text(line: str, log_format: LogFormat) -> str:
    """Give what a line says of a job; nothing if it is blank or a comment."""
    text = line.strip()
    return "" if text[:1] == log_format.comment else text


def careful_record(text: str, log_format: LogFormat) -> LogRecord | None:
    """Read the text of a job line; None if it is about a part of a job.

    Raises ValueError saying what is wrong and what was expected.
    """
    fields = _fields(text, log_format)
    return None if fields[_STATUS] in log_format.partial else _record(fields, log_format)


def _fields(text: str, log_format: LogFormat) -> list[str]:
    if not text.isascii():
        _check_is_text(text)
    fields = log_format.fields_of(text)
    if log_format.fewest_fields <= len(fields) <= log_format.most_fields:
        return fields
    bounds = sorted({log_format.fewest_fields, log_format.most_fields})
    expected = " to ".join(map(str, bounds))
    raise ValueError(f"found {len(fields)} fields, expected the {expected} of {log_format.name}")


def _check_is_text(text: str) -> None:
    """Refuse bytes that are not UTF-8: headers may hold some, the fields of a job may not."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        before = text[: error.start]
        raise ValueError(f"found bytes that are not UTF-8 after {before!r}, expected text") from None


def _record(fields: list[str], log_format: LogFormat) -> LogRecord:
    """Read one line; raises ValueError saying which field is wrong and what was expected."""
    job, submit, wait, run, allocated, _, _, vms, time, memory, _, user, group, _, queue, partition = fields[:16]
    try:
        numbers = int(submit) * 1000, int(run) * 1000, int(allocated), int(vms), int(time) * 1000
    except ValueError:
        numbers = _checked_numbers(submit, run, allocated, vms, time)
    if numbers[0] < 0 or max(numbers) > LARGEST:
        numbers = _checked_numbers(submit, run, allocated, vms, time)
    memory_mib = -1 if memory == UNKNOWN else _mebibytes(memory)
    site = UNKNOWN if log_format.site_column is None else fields[log_format.site_column]
    never_began = fields[_STATUS] in log_format.cancelled and numbers[1] <= 0
    wait_ms = _milliseconds("wait time", wait) if never_began else -1
    return LogRecord(job, never_began, *numbers, memory_mib, wait_ms, user, group, queue, partition, site)


def _checked_numbers(submit: str, run: str, allocated: str, vms: str, time: str) -> _Numbers:
    submit_ms = _milliseconds("submit time", submit)
    if submit_ms < 0:
        raise ValueError(f"submit time: got {submit!r}, expected 0 or more seconds since the start of the log")
    return (
        submit_ms,
        _milliseconds("run time", run),
        _processors("allocated processors", allocated),
        _processors("requested processors", vms),
        _milliseconds("requested time", time),
    )


def _milliseconds(field: str, text: str) -> int:
    seconds = _number(field, text, "a number of seconds")
    return math.floor(seconds * 1000.0 + 0.5)


def _processors(field: str, text: str) -> int:
    count = _number(field, text, "a whole number")
    if not count.is_integer():
        raise ValueError(f"{field}: got {text!r}, expected a whole number")
    return int(count)


def _mebibytes(text: str) -> int:
    kibibytes = _number("requested memory", text, "a number of KiB for each processor")
    return math.ceil(kibibytes / 1024.0) if kibibytes > 0.0 else -1


def _number(field: str, text: str, expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{field}: got {text!r}, expected {expected} (-1 for unknown)")
    if number > LARGEST // 1000:
        raise ValueError(f"{field}: got {text!r}, expected {expected} of at most {LARGEST // 1000:,}")
    return number


def out_of_order(last_ms: int, submit_ms: int, log_format: LogFormat) -> str:
    """Say that a job was submitted before the one above it, and how to sort the log."""
    return (
        f"submit time: {submit_ms / 1000:.15g} s is before the job above it ({last_ms / 1000:.15g} s), "
        f"expected lines in order of submission; sort them with: (grep '^{log_format.comment}' LOG; "
        f"grep -v '^{log_format.comment}' LOG | sort -s -n -k 2,2) > SORTED"
    )
