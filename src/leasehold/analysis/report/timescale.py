"""Which unit a time axis is read in, and where its ticks are: at a handful of round numbers."""

import math
from dataclasses import dataclass

_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
_MOST_TICKS = 14
_STEPS: dict[str, tuple[int, ...]] = {
    "seconds": (1, 5, 10, 15, 30, 60),
    "minutes": (1, 5, 10, 15, 30, 60),
    "hours": (1, 2, 3, 6, 12, 24),
    "days": (1, 2, 7, 14, 28, 56, 91, 182, 364),
}
"""Steps between ticks that clocks and calendars have taught."""


@dataclass(frozen=True, slots=True)
class TimeScale:
    """A unit of time with its length in milliseconds."""

    unit: str
    unit_ms: int

    @property
    def title(self) -> str:
        """What the axis says."""
        return f"{self.unit} since the start of the log"

    def ticks(self, from_ms: int, to_ms: int) -> list[int]:
        """Return the ticks between two instants, in units."""
        first, last = from_ms / self.unit_ms, to_ms / self.unit_ms
        steps = _STEPS[self.unit]
        step = next((step for step in steps if (last - first) / step <= _MOST_TICKS), steps[-1])
        return list(range(math.ceil(first / step) * step, math.floor(last) + 1, step))


def scale_for(span_ms: int) -> TimeScale:
    """Choose seconds, minutes, hours or days for an axis of this length."""
    if span_ms < 3 * _MINUTE_MS:
        return TimeScale("seconds", _SECOND_MS)
    if span_ms < 3 * _HOUR_MS:
        return TimeScale("minutes", _MINUTE_MS)
    if span_ms < 4 * _DAY_MS:
        return TimeScale("hours", _HOUR_MS)
    return TimeScale("days", _DAY_MS)
