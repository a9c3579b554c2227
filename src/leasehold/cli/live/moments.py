"""Points in time as people write and read them: their own clock's, and how far away."""

import re
from datetime import UTC, datetime, timedelta

from leasehold.cli.live.durations import read_duration_s, show_duration
from leasehold.model.errors import InvalidField

EXPECTED = "a time such as 2026-11-21T18:00, 2026-11-21T17:00:00Z, now+2h or now-1d"
_RELATIVE = re.compile(r"now(?:([+-])(.*))?")
_SIGNS = {"+": 1, "-": -1}


def now() -> datetime:
    """Look at the clock."""
    return datetime.now(UTC)


def read_moment(field: str, text: str, at: datetime) -> datetime:
    """Read a point in time; ``at`` is now, and ``field`` names it in an error.

    ``now+2h`` and ``now-1d`` count from now, with any duration; ISO 8601 without a zone is by the clock of
    this machine.
    Raises InvalidField for anything else.
    """
    relative = _RELATIVE.fullmatch(text.strip())
    if relative is not None:
        sign, duration = relative.groups()
        return at + _SIGNS[sign] * timedelta(seconds=read_duration_s(field, duration)) if sign else at
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidField(field, text, EXPECTED) from None


def show_moment(moment: datetime) -> str:
    """Write a point in time by the clock of this machine: ``2026-11-21 18:00:00``."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def show_distance(moment: datetime, at: datetime) -> str:
    """Say how far away it is from now: ``in 12:00``, ``5:00 ago``."""
    seconds = (moment - at).total_seconds()
    return f"in {show_duration(seconds)}" if seconds > 0 else f"{show_duration(-seconds)} ago"
