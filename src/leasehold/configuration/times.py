"""Times in files and options: durations as people write them, dates, and what a requests' clock shows.

A *clock* reads the key ``begin`` of a table as a date where the requests' clock shows Unix time, and
``begin_s`` in seconds where a run begins at zero. It gives whole milliseconds of that time.
"""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Protocol

from leasehold.configuration.declaration import Key, Plain, seconds
from leasehold.configuration.keys import MOST_MS, Keys
from leasehold.model.errors import InvalidField

A_DURATION = "a time such as 3600 (seconds), 90m, 1h30m, 2:00:00 or 1-12:00:00, at most a hundred years"

_MOST_CHARACTERS = 100
_SECONDS = re.compile(r"\d+(\.\d{1,3})?", re.ASCII)
_WITH_UNITS = re.compile(r"(\d+(?:\.\d+)?)([dhms])", re.ASCII)
_SLURM = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", re.ASCII)
_UNIT_S = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
A_DATE = "a date and time with its zone, such as 2026-09-01T08:00:00+02:00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def read_duration_s(field: str, text: str) -> int | float:
    """Read a duration, in seconds; ``field`` names it in an error.

    ``3600`` is seconds; ``1h30m`` has units; ``5:00`` is minutes and seconds, ``2:00:00`` hours, minutes and
    seconds; after days come hours: ``1-12``, ``1-12:00``, ``1-12:00:00``.

    Raises InvalidField for anything else, and for what is finer than a millisecond.
    """
    seconds, rest = divmod(read_duration_ms(field, text), 1000)
    return (seconds * 1000 + rest) / 1000 if rest else seconds


def read_duration_ms(field: str, text: str) -> int:
    """Read a duration, in whole milliseconds, as `read_duration_s` does."""
    ms = _duration_ms(text.strip()) if len(text) <= _MOST_CHARACTERS else None
    if ms is None or not 0 < ms <= MOST_MS or ms != int(ms):
        raise InvalidField(field, text, A_DURATION)
    return int(ms)


def _duration_ms(text: str) -> Decimal | None:
    if _SECONDS.fullmatch(text):
        return Decimal(text) * 1000
    parts = _WITH_UNITS.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum((Decimal(number) * _UNIT_S[unit] * 1000 for number, unit in parts), Decimal(0))
    slurm = _SLURM.fullmatch(text)
    return None if slurm is None else _slurm_ms(*slurm.groups())


def _slurm_ms(days: str | None, first: str, second: str | None, third: str | None) -> Decimal:
    """Count up Slurm's forms: with days or three parts the first is hours, with two it is minutes."""
    units = (3600, 60, 1) if days is not None or third is not None else (60, 1, 0)
    seconds = sum(int(part or 0) * unit for part, unit in zip((first, second, third), units, strict=True))
    return Decimal((int(days or 0) * 86_400 + seconds) * 1000)


class Clock(Hashable, Protocol):
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
    """The clock of a run, which begins at zero: at ``starts_at_ms`` of Unix time, None if unknown."""

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
        """Give the seconds; what was before the run began, or is later than seconds may say, as a date."""
        if moment_ms is None or 0 <= moment_ms <= MOST_MS or self.starts_at_ms is None:
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


class Date(Key):
    """A date and time with its zone: Unix milliseconds at a field, and a date of TOML or a text in a file."""

    accepts = "date and time with its zone"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take a date."""
        moment = read_date(keys, name)
        return default if moment is None else moment

    def write(self, value: int) -> str:
        """Give the date in UTC."""
        return date_text(value)
