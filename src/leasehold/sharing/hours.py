"""Rules for hours of the day: nothing longer than so much between 08:00 and 20:00 at the site.

A request keeps the rule if what it runs within such hours is at most that long, whenever that is: one of four
hours may start at a quarter to eight in the evening. Hours are those of clocks on walls: on the two days of a
year when these are changed, a span of hours is an hour shorter or longer.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from leasehold.model.agreement import DailyHours

DAYS_AHEAD = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def earliest_start_ms(duration_ms: int, hours: DailyHours, longest_ms: int, from_ms: int) -> int | None:
    """When something may start at the earliest so that it keeps the rule; None where it never does.

    Times are Unix milliseconds.
    """
    for start_ms in _candidates(hours, longest_ms, from_ms):
        if _longest_within_ms(start_ms, start_ms + duration_ms, hours) <= longest_ms:
            return start_ms
    return None


def _candidates(hours: DailyHours, longest_ms: int, from_ms: int) -> Iterator[int]:
    """Now, or as late in some day's hours as just keeps the rule; what is sooner in them does not."""
    yield from_ms
    for _, end_ms in _spans(hours, from_ms, from_ms + DAYS_AHEAD * 86_400_000):
        if end_ms - longest_ms > from_ms:
            yield end_ms - longest_ms


def _longest_within_ms(begin_ms: int, end_ms: int, hours: DailyHours) -> int:
    """How long it runs within any one day's hours."""
    spans = _spans(hours, begin_ms, min(end_ms, begin_ms + DAYS_AHEAD * 86_400_000))
    overlaps = (min(end_ms, last_ms) - max(begin_ms, first_ms) for first_ms, last_ms in spans)
    return max((overlap for overlap in overlaps if overlap > 0), default=0)


def _spans(hours: DailyHours, from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
    """Give begin and end of these hours on each day that may touch an interval, in order."""
    zone = _zone(hours.zone)
    day = (_EPOCH + timedelta(milliseconds=from_ms)).astimezone(zone).date() - timedelta(days=1)
    over_night = 1 if hours.end_min <= hours.begin_min else 0
    while True:
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        begin_ms = _unix_ms(midnight, hours.begin_min)
        if begin_ms >= to_ms:
            return
        yield begin_ms, _unix_ms(midnight + timedelta(days=over_night), hours.end_min)
        day += timedelta(days=1)


def _unix_ms(midnight: datetime, minutes: int) -> int:
    """When a clock on the wall shows so many minutes after midnight."""
    wall = midnight.replace(tzinfo=None) + timedelta(minutes=minutes)
    moment = wall.replace(tzinfo=midnight.tzinfo)
    return int((moment - _EPOCH) / timedelta(milliseconds=1))


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)
