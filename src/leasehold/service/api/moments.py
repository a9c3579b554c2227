"""How times and durations are written on the wire: ISO-8601 in UTC with milliseconds, and seconds."""

import re
from datetime import UTC, datetime
from math import isfinite

LATEST_MS = 253_402_300_799_999
"""The last millisecond of a four-digit year; later ones, as in the plan of a very full site, show as it."""

_WRITTEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3}0*)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def show_moment(unix_ms: int) -> str:
    """Write a time: ``2026-11-21T10:43:36.120Z``."""
    seconds, ms = divmod(min(unix_ms, LATEST_MS), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{ms:03d}Z"


def show_planned(unix_ms: int | None) -> str | None:
    """Write a time that may not be known: None, or the store's -1, stays None."""
    return None if unix_ms is None or unix_ms < 0 else show_moment(unix_ms)


def read_moment(text: object) -> int:
    """Read a time with its zone, as Unix milliseconds.

    Raises ValueError for what is no such time, or is finer than a millisecond.
    """
    if not isinstance(text, str) or not _WRITTEN.fullmatch(text):
        raise ValueError("a time with its zone and at most milliseconds, as in '2026-11-21T10:43:36.120Z'")
    try:
        moment = datetime.fromisoformat(text)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ValueError("a time that exists, as in '2026-11-21T10:43:36.120Z'") from None
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def show_duration(duration_ms: int) -> int | float:
    """Write a duration in seconds: a whole number where it is one."""
    seconds, rest = divmod(duration_ms, 1000)
    return duration_ms / 1000 if rest else seconds


def read_duration(seconds: object) -> int:
    """Read seconds as milliseconds.

    Raises ValueError for what is no number, or is finer than a millisecond.
    """
    if isinstance(seconds, int) and not isinstance(seconds, bool):
        return seconds * 1000
    if not isinstance(seconds, float) or not isfinite(seconds * 1000):
        raise ValueError("a number of seconds")
    ms = round(seconds * 1000)
    if ms != seconds * 1000 and ms / 1000 != seconds:
        raise ValueError("a number of seconds with at most three decimals")
    return ms
