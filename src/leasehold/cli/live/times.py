"""Points in time and durations as people write and read them: by their own clock, as Slurm shows them."""

import re
from datetime import UTC, datetime, time, timedelta

from leasehold.model.errors import InvalidField


def show_duration(seconds: float) -> str:
    """Write a duration as Slurm does, without parts of seconds: ``0:07``, ``1:02:03``, ``2-01:02:03``."""
    minutes, second = divmod(max(int(seconds), 0), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


EXPECTED = "a time such as 18:00, 2026-11-21T18:00, 2026-11-21T17:00:00Z, now+2h or now-1d"
_RELATIVE = re.compile(r"now(?:([+-])(.*))?")
_OF_DAY = re.compile(r"\d{1,2}:\d\d", re.ASCII)
_SIGNS = {"+": 1, "-": -1}


def now() -> datetime:
    """Look at the clock."""
    return datetime.now(UTC)


def read_moment(field: str, text: str, at: datetime) -> datetime:
    """Read a point in time; ``at`` is now, and ``field`` names it in an error.

    ``now+2h`` and ``now-1d`` count from now, with any duration; ISO 8601 without a zone is by the clock of
    this machine; ``18:00`` is when that clock shows it next.
    Raises InvalidField for anything else.
    """
    from leasehold.configuration.times import read_duration_s

    relative = _RELATIVE.fullmatch(text.strip())
    if relative is not None:
        sign, duration = relative.groups()
        return at + _SIGNS[sign] * timedelta(seconds=read_duration_s(field, duration)) if sign else at
    try:
        if _OF_DAY.fullmatch(text.strip()):
            return _next_time(time.fromisoformat(text.strip().zfill(len("18:00"))), at)
        moment = datetime.fromisoformat(text.strip())
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidField(field, text, EXPECTED) from None


def _next_time(shown: time, at: datetime) -> datetime:
    """Find when the clock of this machine shows a time next."""
    today = at.astimezone().date()
    days = (datetime.combine(today + timedelta(days=later), shown).astimezone(UTC) for later in (0, 1))
    first, second = days
    return first if first > at else second


def show_moment(moment: datetime) -> str:
    """Write a point in time by the clock of this machine: ``2026-11-21 18:00:00``."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def show_distance(moment: datetime, at: datetime) -> str:
    """Say how far away it is from now: ``in 12:00``, ``5:00 ago``."""
    seconds = (moment - at).total_seconds()
    return f"in {show_duration(seconds)}" if seconds > 0 else f"{show_duration(-seconds)} ago"


def show_times(number: int) -> str:
    """Say how often."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")
