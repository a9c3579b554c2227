"""The time of a gateway: Unix milliseconds that pass as real time does, whatever happens to the clock.

The machine's clock may be set forward and back, and a gateway whose time follows would end every lease
at once, or none for a day. So its time passes with the clock that the system counts up since it was booted,
sleep included, and the clock on the wall only says where to begin. While the two differ afterwards, time
passes a little faster or slower until they agree again.
"""

import time
from collections.abc import Callable
from threading import Lock

SLEW = 100
"""Time passes by at most one part in so many faster or slower: a second is made good in 100 seconds."""

FAR_OFF_S = 60.0
"""Beyond this difference an operator should look at the clock: dates of leases and tokens are off by as much."""

Milliseconds = Callable[[], int]


def wall_ms() -> int:
    """Tell the time as the machine's clock shows it, in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def since_boot_ms() -> int:
    """Give milliseconds that only go forward, and count on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


class SteadyClock:
    """Tells Unix milliseconds; calling it gives the time. Safe to use from every thread.

    ``at_least_ms``  where it begins at the earliest: what was written last is in the past
    """

    def __init__(
        self, at_least_ms: int = 0, wall: Milliseconds = wall_ms, steady: Milliseconds = since_boot_ms
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._lock = Lock()
        self._seen_ms = steady()
        self._now = max(wall(), at_least_ms) * SLEW  # in parts of a millisecond, so that none is lost

    def __call__(self) -> int:
        """Tell the time; never less than before."""
        with self._lock:
            return self._pass() // SLEW

    def ahead_s(self) -> float:
        """Say by how much it is ahead of the machine's clock, in seconds; negative: behind."""
        return (self() - self._wall()) / 1000

    def _pass(self) -> int:
        """Let the time pass since the last look, and come nearer to the clock on the wall."""
        steady_ms = self._steady()
        passed_ms = max(0, steady_ms - self._seen_ms)
        self._seen_ms = max(steady_ms, self._seen_ms)
        self._now += passed_ms * SLEW
        behind = self._wall() * SLEW - self._now
        self._now += max(-passed_ms, min(passed_ms, behind))
        return self._now
