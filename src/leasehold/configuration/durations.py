"""Durations as people write them: seconds, with units, or as Slurm does."""

import re
from decimal import Decimal

from leasehold.configuration.keys import MOST_MS
from leasehold.model.errors import InvalidField

EXPECTED = "a time such as 3600 (seconds), 90m, 1h30m, 2:00:00 or 1-12:00:00, at most a hundred years"

_MOST_CHARACTERS = 100
_SECONDS = re.compile(r"\d+(\.\d{1,3})?", re.ASCII)
_WITH_UNITS = re.compile(r"(\d+(?:\.\d+)?)([dhms])", re.ASCII)
_SLURM = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", re.ASCII)
_UNIT_S = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


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
        raise InvalidField(field, text, EXPECTED)
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
