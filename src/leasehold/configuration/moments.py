"""Moments in a file: dates where the requests' clock shows Unix time, seconds where a run begins at zero.

A *clock* reads the key ``begin`` of a table, or ``begin_s``, and gives whole milliseconds of that time.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from leasehold.configuration.keys import Keys
from leasehold.configuration.plain import Plain, seconds
from leasehold.model.errors import InvalidField

A_DATE = "a date and time with its zone, such as 2026-09-01T08:00:00+02:00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Clock(Protocol):
    """What the requests' clock shows, as far as files are concerned."""

    def moment(self, keys: Keys, key: str) -> int | None:
        """Take a moment; None where the table does not say. Raises InvalidField with the place of the key."""

    def to_dict(self, key: str, moment_ms: int | None) -> Plain:
        """Give the key as a file says it; nothing for None."""


class UnixTime:
    """The clock of a service: milliseconds since 1970, written as dates."""

    def moment(self, keys: Keys, key: str) -> int | None:
        """Take a date, as ``begin``."""
        return read_date(keys, key)

    def to_dict(self, key: str, moment_ms: int | None) -> Plain:
        """Give the date in UTC."""
        return {} if moment_ms is None else {key: date_text(moment_ms)}


@dataclass(frozen=True, slots=True)
class RunTime:
    """The clock of a run, which begins at zero: at ``starts_at_ms`` of Unix time, None if nobody said."""

    starts_at_ms: int | None = None

    def moment(self, keys: Keys, key: str) -> int | None:
        """Take seconds of the run, as ``begin_s``, or a date, as ``begin``."""
        if key not in keys:
            return keys.milliseconds(f"{key}_s", None)
        if f"{key}_s" in keys:
            raise InvalidField(keys.where(key), f"{key} and {key}_s", "one of them")
        unix_ms = read_date(keys, key)
        if unix_ms is None or self.starts_at_ms is None:
            expected = f"{key}_s, seconds of the run (or say in [sharing] on which date it starts_at)"
            raise InvalidField(keys.where(key), "a date", expected)
        return unix_ms - self.starts_at_ms

    def to_dict(self, key: str, moment_ms: int | None) -> Plain:
        """Give the seconds; what was before the run began, as a date."""
        if moment_ms is None or moment_ms >= 0 or self.starts_at_ms is None:
            return seconds(f"{key}_s", moment_ms)
        return {key: date_text(moment_ms + self.starts_at_ms)}


UNIX_TIME = UnixTime()


def read_date(keys: Keys, key: str) -> int | None:
    """Take a date and give Unix milliseconds, rounded down; None where there is none.

    It is a date-time of TOML, or a text in ISO 8601. Raises InvalidField for one without a zone.
    """
    value = keys.take(key, None)
    if value is None:
        return None
    moment = _as_date(value)
    if moment is None or moment.tzinfo is None:
        shown = value if isinstance(value, str | int | float) else str(value)
        raise InvalidField(keys.where(key), shown, A_DATE)
    return (moment - _EPOCH) // _MILLISECOND


def date_text(unix_ms: int) -> str:
    """Write a moment in UTC, with milliseconds where it has some."""
    moment = _EPOCH + unix_ms * _MILLISECOND
    precision = "milliseconds" if unix_ms % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _as_date(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value.strip())
    except ValueError:
        return None
