"""The availability profile: how many VMs are free, from now on, as a step function.

Two parallel lists hold it: ``free[i]`` VMs are free from ``times[i]`` until ``times[i + 1]``, and the
last step lasts for ever. A linear scan over plain lists beats balanced trees below thousands of steps
(measured), so nothing cleverer is hidden here.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate


class Profile:
    """Free VMs over time at one site.

    A step may be negative where guests that still run overlap with a local reservation: no request fits
    there, and the guests are preempted when the local request starts.

    ``was_freed`` says whether room was given back since a backfiller last looked, and ``freed_until_ms``
    where that room ends: a booking that could start earlier now can only do so before that time.
    """

    __slots__ = ("free", "freed_until_ms", "slots", "times", "was_freed")

    def __init__(self, slots: int, start_ms: int = 0) -> None:
        """Begin with ``slots`` free VMs from ``start_ms`` on."""
        self.slots = slots
        self.times: list[int] = [start_ms]
        self.free: list[int] = [slots]
        self.freed_until_ms = start_ms
        self.was_freed = False

    def copy(self) -> "Profile":
        """An independent copy, for what-if questions."""
        twin = Profile(self.slots)
        twin.times = self.times.copy()
        twin.free = self.free.copy()
        twin.freed_until_ms = self.freed_until_ms
        twin.was_freed = self.was_freed
        return twin

    def rebuild(self, start_ms: int, bookings: Iterable[tuple[int, int, int]]) -> None:
        """Rebuild from ``start_ms`` with these bookings (start, end, VMs), in one sweep."""
        change: dict[int, int] = {start_ms: 0}
        for begin_ms, end_ms, vms in bookings:
            begin_ms = max(begin_ms, start_ms)  # noqa: PLW2901 - the past is forgotten
            if begin_ms < end_ms:
                change[begin_ms] = change.get(begin_ms, 0) - vms
                change[end_ms] = change.get(end_ms, 0) + vms
        self.times, self.free = [], []
        free = self.slots
        for at_ms in sorted(change):
            free += change[at_ms]
            if not self.free or self.free[-1] != free:
                self.times.append(at_ms)
                self.free.append(free)
        self.freed_until_ms = self.times[-1]
        self.was_freed = False

    def take(self, start_ms: int, end_ms: int, vms: int) -> None:
        """Book ``vms`` VMs in [start_ms, end_ms)."""
        if start_ms < end_ms:
            self._change(start_ms, end_ms, -vms)

    def give(self, start_ms: int, end_ms: int, vms: int) -> None:
        """Give ``vms`` VMs back in [start_ms, end_ms)."""
        if start_ms < end_ms:
            self._change(start_ms, end_ms, vms)
            self.was_freed = True
            if end_ms > self.freed_until_ms:
                self.freed_until_ms = end_ms

    def shift(self, old_ms: int, new_ms: int, span_ms: int, vms: int) -> None:
        """Move a booking of ``span_ms`` from ``old_ms`` to the earlier ``new_ms``."""
        new_end_ms, old_end_ms = new_ms + span_ms, old_ms + span_ms
        if new_end_ms > old_ms:
            self._change(new_ms, old_ms, -vms)
            self._change(new_end_ms, old_end_ms, vms)
        else:
            self._change(new_ms, new_end_ms, -vms)
            self._change(old_ms, old_end_ms, vms)
        self.was_freed = True
        if old_end_ms > self.freed_until_ms:
            self.freed_until_ms = old_end_ms

    def _change(self, start_ms: int, end_ms: int, vms: int) -> None:
        times, free = self.times, self.free
        first = bisect_left(times, start_ms)
        if first == len(times) or times[first] != start_ms:
            times.insert(first, start_ms)
            free.insert(first, free[first - 1])
        last = bisect_left(times, end_ms, first)
        if last == len(times) or times[last] != end_ms:
            times.insert(last, end_ms)
            free.insert(last, free[last - 1])
        for i in range(first, last):
            free[i] += vms
        # Equal neighbours are joined, so that the profile stays as short as what it says.
        if free[last] == free[last - 1]:
            del times[last], free[last]
        if first and free[first] == free[first - 1]:
            del times[first], free[first]

    def trim(self, now_ms: int) -> None:
        """Forget the past; the first step then begins at or before ``now_ms``."""
        times = self.times
        if len(times) > 1 and times[1] <= now_ms:
            past = bisect_right(times, now_ms) - 1
            del times[:past], self.free[:past]

    def free_at(self, at_ms: int) -> int:
        """How many VMs are free at that time."""
        return self.free[bisect_right(self.times, at_ms) - 1]

    def lowest(self, start_ms: int, end_ms: int) -> int:
        """The fewest free VMs at any time in [start_ms, end_ms)."""
        first = bisect_right(self.times, start_ms) - 1
        last = bisect_left(self.times, end_ms)
        return min(self.free[first : max(last, first + 1)])

    def overbooked_from(self, start_ms: int, end_ms: int) -> int:
        """From when in [start_ms, end_ms) on more VMs are booked than there are; ``end_ms`` if never."""
        first = bisect_right(self.times, start_ms) - 1
        for at_ms, free in zip(self.times[first:], self.free[first:], strict=True):
            if at_ms >= end_ms:
                break
            if free < 0:
                return max(at_ms, start_ms)
        return end_ms

    def minima_from(self, start_ms: int) -> "Minima":
        """The fewest free VMs in [start_ms, end_ms) for whatever end, in one pass over the steps."""
        first = bisect_right(self.times, start_ms) - 1
        return Minima(self.times[first + 1 :], list(accumulate(self.free[first:], min)))

    def earliest(self, from_ms: int, span_ms: int, vms: int) -> int:
        """The first start at ``from_ms`` or later at which ``vms`` VMs are free for ``span_ms``.

        ``vms`` must not exceed ``slots``: the last step is empty, so that a start always exists.
        """
        times, free = self.times, self.free
        steps = len(times)
        i = bisect_right(times, from_ms) - 1
        while True:
            while free[i] < vms:
                i += 1
            start = times[i] if times[i] > from_ms else from_ms
            end = start + span_ms
            k = i + 1
            while k < steps and times[k] < end and free[k] >= vms:
                k += 1
            if k == steps or times[k] >= end:
                return start
            i = k

    def most_before(self, end_ms: int) -> int:
        """The most free VMs in any step that begins before ``end_ms``."""
        return max(self.free[: max(bisect_left(self.times, end_ms), 1)])

    def earlier(self, from_ms: int, span_ms: int, vms: int, booked_ms: int, before_ms: int) -> int:
        """The first start in [``from_ms``, ``before_ms``) for a lease already booked at ``booked_ms``.

        What is booked from ``booked_ms`` on counts as free for its holder, so that only the room before
        it has to be there. Returns ``booked_ms`` when nothing earlier is found.
        """
        times, free = self.times, self.free
        i = bisect_right(times, from_ms) - 1 if times[1] <= from_ms else 0
        # Steps from `limit` on begin too late to start in; the last step is empty, so no scan runs over.
        limit = bisect_left(times, before_ms if before_ms < booked_ms else booked_ms)
        while True:
            while free[i] < vms:
                i += 1
            if i >= limit:
                return booked_ms
            start = times[i] if times[i] > from_ms else from_ms
            end = start + span_ms if start + span_ms < booked_ms else booked_ms
            k = i + 1
            while times[k] < end and free[k] >= vms:
                k += 1
            if times[k] >= end:
                return start
            i = k


class Minima:
    """`Profile.lowest` for one start and many ends; good until the profile changes."""

    __slots__ = ("_changes_ms", "_lowest")

    def __init__(self, changes_ms: list[int], lowest: list[int]) -> None:
        self._changes_ms = changes_ms
        self._lowest = lowest

    def until(self, end_ms: int) -> int:
        """The fewest free VMs from the start until ``end_ms``."""
        return self._lowest[bisect_left(self._changes_ms, end_ms)]
