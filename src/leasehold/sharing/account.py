"""An account: how many units of a resource somebody held, over time, to the unit-millisecond."""

from bisect import bisect_right
from collections.abc import Iterable
from math import gcd

MANY = 4_096


class Account:
    """Units held now (``level``), and the sum of what was held until any earlier moment.

    The sum is kept at marks, between which the level did not change, so that it is exact everywhere. Once
    there are very many marks, `thin` leaves those at the bounds of windows, where the sum stays exact.
    """

    __slots__ = ("_many", "_sums", "_times", "level")

    def __init__(self, begin_ms: int = 0) -> None:
        """Begin with nothing held."""
        self.level = 0
        self._times = [begin_ms]
        self._sums = [0]
        self._many = MANY

    def change(self, by: int, now_ms: int) -> None:
        """Hold so many units more, or fewer, from now on. Time never goes back."""
        last_ms = self._times[-1]
        if now_ms > last_ms:
            self._sums.append(self._sums[-1] + self.level * (now_ms - last_ms))
            self._times.append(now_ms)
        self.level += by

    def used(self, from_ms: int, to_ms: int) -> int:
        """Give the use between two moments, in unit-milliseconds; what was forgotten counts as none."""
        return self._until(to_ms) - self._until(from_ms)

    def _until(self, at_ms: int) -> int:
        times, sums = self._times, self._sums
        if at_ms >= times[-1]:
            return sums[-1] + self.level * (at_ms - times[-1])
        index = bisect_right(times, at_ms) - 1
        if index < 0:
            return sums[0]
        begin_ms, end_ms = times[index], times[index + 1]
        return sums[index] + (sums[index + 1] - sums[index]) * (at_ms - begin_ms) // (end_ms - begin_ms)

    @property
    def is_long(self) -> bool:
        """Whether it is time to `thin` it."""
        return len(self._times) > self._many

    def thin(self, forget_before_ms: int, grid_ms: int) -> None:
        """Forget what was before a moment; of the rest, keep the sums at multiples of ``grid_ms``."""
        last_ms = self._times[-1]
        first_ms = max(forget_before_ms, self._times[0])
        kept = self._times[bisect_right(self._times, first_ms) : -1]
        on_grid = range(-(-first_ms // grid_ms) * grid_ms, last_ms, grid_ms)
        marks = list(on_grid) if len(on_grid) < len(kept) else kept  # a fine grid would thicken it
        if first_ms not in marks[:1]:
            marks.insert(0, first_ms)
        self._sums = [*map(self._until, marks), self._sums[-1]]
        self._times = [*marks, last_ms]
        self._many = max(MANY, 2 * len(self._times))


def common_grid_ms(windows_ms: Iterable[int]) -> int:
    """Give the widest grid on which the bounds of all these windows lie; a minute without windows."""
    return gcd(*windows_ms) or 60_000
