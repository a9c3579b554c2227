"""The hot part of planning, in integers only: free VMs over time, and a queue with reservations over them.

Plain Python runs this file as it is. Compiled (`kernel.pxd` has the C types), the same lines work on arrays of 64-bit
integers; where the two need different code, ``cython.compiled`` chooses, at compile time. Plain Python is the oracle:
the tests of this module, and every table of a run, are the same with both.

A lease is a *row* here: a number that stands for it while it is in a queue, in lists of integers that are indexed by
it. `leasehold.leasing.backfill.Backfiller` is the same for leases as objects.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import accumulate

from leasehold.model.lease import UNPLANNED
from leasehold.model.request import NEVER_MS

try:
    import cython  # type: ignore[import-untyped,unused-ignore]
except ImportError:  # what compiles this is not needed to run it
    from leasehold.leasing import plain as cython

ALL = -1
"""A reservation depth: every lease in the queue holds a reservation."""

RESERVED_START, ROOM_FREE, BACKFILLED = 0, 1, 2
"""Why a lease starts: its reservation is due, there is room for it, or it delays no reservation."""

NOT_READY, BEHIND_OTHERS, ROOM_IN_USE = 3, 4, 5
"""Why a lease waits: its ready time has not come, others are before it, or there is no room for it now."""

_LEAST_ROOM = 32
_STALE_ENTRIES = 64
_STEPS_AT_ONCE = 64
_FEW_STEPS = 8
_LONG_QUEUE = 4_096 if cython.compiled else 400
"""From so many reservations on `StartBounds` save more time than they take."""
_MOST_BOUNDS = 32


def compiled() -> bool:
    """Whether this module runs as machine code."""
    return bool(cython.compiled)


def _column(values: list[int]) -> list[int]:
    """A list of integers; compiled, an array of at least this length."""
    if cython.compiled:
        room = array("q", bytes(8 * max(_LEAST_ROOM, 2 * len(values))))
        room[: len(values)] = array("q", values)
        return room  # type: ignore[return-value]
    return values


def _longer(column: list[int]) -> list[int]:
    """The same column, with room for as many rows again. Only compiled."""
    return _column(list(column))


class Profile:
    """The availability profile: how many VMs are free at one site, from now on, as a step function.

    ``free[i]`` VMs are free from ``times[i]`` until ``times[i + 1]``, for ``i`` below ``steps``; the last step lasts
    for ever. A linear scan over plain lists beats balanced trees below thousands of steps (measured), so nothing
    cleverer is hidden here.

    A step may be negative where guests that still run overlap with a local reservation: no request fits there, and
    the guests are preempted when the local request starts.

    ``was_freed`` says whether room was given back since a backfiller last looked, and ``freed_until_ms`` where that
    room ends: a booking that could start earlier now can only do so before that time.
    """

    __slots__ = ("_free", "_times", "freed_until_ms", "slots", "steps", "was_freed")

    def __init__(self, slots: int, start_ms: int = 0) -> None:
        """Begin with ``slots`` free VMs from ``start_ms`` on."""
        self.slots = slots
        self._times = _column([start_ms])
        self._free = _column([slots])
        self.steps = 1
        self.freed_until_ms = start_ms
        self.was_freed = False

    @property
    def times(self) -> list[int]:
        """When each step begins."""
        return list(self._times[: self.steps])

    @property
    def free(self) -> list[int]:
        """How many VMs are free in each step."""
        return list(self._free[: self.steps])

    @property
    def begin_ms(self) -> int:
        """When the first step begins."""
        return self._times[0]

    def copy(self) -> "Profile":
        """An independent copy, for what-if questions."""
        twin = Profile(self.slots)
        twin._times = _column(self.times)
        twin._free = _column(self.free)
        twin.steps = self.steps
        twin.freed_until_ms = self.freed_until_ms
        twin.was_freed = self.was_freed
        return twin

    def rebuild(self, start_ms: int, bookings: Iterable[tuple[int, int, int]]) -> None:
        """Rebuild from ``start_ms`` with these bookings (start, end, VMs), in one sweep."""
        change: dict[int, int] = {start_ms: 0}
        for begin_ms, end_ms, vms in bookings:
            since_ms = max(begin_ms, start_ms)  # the past is forgotten
            if since_ms < end_ms:
                change[since_ms] = change.get(since_ms, 0) - vms
                change[end_ms] = change.get(end_ms, 0) + vms
        times: list[int] = []
        levels: list[int] = []
        level = self.slots
        for at_ms in sorted(change):
            level += change[at_ms]
            if not levels or levels[len(levels) - 1] != level:
                times.append(at_ms)
                levels.append(level)
        self._times, self._free, self.steps = _column(times), _column(levels), len(times)
        self.freed_until_ms = times[len(times) - 1]
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

    def give_all(self, bookings: list[tuple[int, int, int]]) -> None:
        """`give` each of these (start, end, VMs), in one sweep: of thousands, each would pass over all steps."""
        change: dict[int, int] = {}
        for start_ms, end_ms, vms in bookings:
            if start_ms < end_ms:
                change[start_ms] = change.get(start_ms, 0) + vms
                change[end_ms] = change.get(end_ms, 0) - vms
                self.was_freed = True
                if end_ms > self.freed_until_ms:
                    self.freed_until_ms = end_ms
        before = dict(zip(self.times, self.free, strict=True))
        times: list[int] = []
        levels: list[int] = []
        booked, more = 0, 0
        for at_ms in sorted(before.keys() | change.keys()):
            booked = before.get(at_ms, booked)
            more += change.get(at_ms, 0)
            if not levels or levels[len(levels) - 1] != booked + more:
                times.append(at_ms)
                levels.append(booked + more)
        self._times, self._free, self.steps = _column(times), _column(levels), len(times)

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
        """Add ``vms`` in [start_ms, end_ms). Equal neighbours are joined: the profile is as short as what it says."""
        if cython.compiled:
            self._change_columns(start_ms, end_ms, vms)
            return
        times, free = self._times, self._free
        first = bisect_left(times, start_ms)
        if first == len(times) or times[first] != start_ms:
            times.insert(first, start_ms)
            free.insert(first, free[first - 1])
        last = bisect_left(times, end_ms, first)
        if last == len(times) or times[last] != end_ms:
            times.insert(last, end_ms)
            free.insert(last, free[last - 1])
        if last - first < _FEW_STEPS:
            for i in range(first, last):
                free[i] += vms
        else:
            free[first:last] = [level + vms for level in free[first:last]]
        if free[last] == free[last - 1]:
            del times[last], free[last]
        if first and free[first] == free[first - 1]:
            del times[first], free[first]
        self.steps = len(times)

    def _change_columns(self, start_ms: int, end_ms: int, vms: int) -> None:
        """The same in arrays. Only compiled."""
        if self.steps + 2 > len(self._times):
            self._times, self._free = _column(self.times), _column(self.free)
        first = self._cut(start_ms)
        last = self._cut(end_ms)
        free = self._free
        for i in range(first, last):
            free[i] += vms
        if free[last] == free[last - 1]:
            self._join(last)
        if first > 0 and free[first] == free[first - 1]:
            self._join(first)

    def _cut(self, at_ms: int) -> int:
        """Let a step begin at ``at_ms``, and return its index; there is room for it. Only compiled."""
        times, free = self._times, self._free
        i = self._find(at_ms)
        if times[i] == at_ms:
            return i
        k = self.steps
        while k > i + 1:
            times[k] = times[k - 1]
            free[k] = free[k - 1]
            k -= 1
        times[i + 1] = at_ms
        free[i + 1] = free[i]
        self.steps += 1
        return i + 1

    def _join(self, i: int) -> None:
        """Let the step before go on instead of this one. Only compiled."""
        times, free = self._times, self._free
        self.steps -= 1
        for k in range(i, self.steps):
            times[k] = times[k + 1]
            free[k] = free[k + 1]

    def _find(self, at_ms: int) -> int:
        """Return the index of the step at ``at_ms``; the first one where that is in the past. Only compiled."""
        times = self._times
        low = 0
        high = self.steps
        while high - low > 1:
            middle = (low + high) // 2
            if times[middle] <= at_ms:
                low = middle
            else:
                high = middle
        return low

    def trim(self, now_ms: int) -> None:
        """Forget the past; the first step then begins at or before ``now_ms``."""
        times, free = self._times, self._free
        if self.steps < 2 or times[1] > now_ms:  # noqa: PLR2004 - there is no second step, or it has not begun
            return
        if cython.compiled:
            past = self._find(now_ms)
            self.steps -= past
            for i in range(self.steps):
                times[i] = times[i + past]
                free[i] = free[i + past]
        else:
            past = bisect_right(times, now_ms) - 1
            del times[:past], free[:past]
            self.steps = len(times)

    def free_at(self, at_ms: int) -> int:
        """How many VMs are free at that time."""
        i = self._find(at_ms) if cython.compiled else bisect_right(self._times, at_ms) - 1
        return self._free[i]

    def lowest(self, start_ms: int, end_ms: int) -> int:
        """The fewest free VMs at any time in [start_ms, end_ms)."""
        times, free = self._times, self._free
        i = self._find(start_ms) if cython.compiled else bisect_right(times, start_ms) - 1
        if cython.compiled:
            least = free[i]
            i += 1
            while i < self.steps and times[i] < end_ms:
                if free[i] < least:
                    least = free[i]
                i += 1
            return least
        return min(free[i : max(bisect_left(times, end_ms), i + 1)])

    def _begun(self, at_ms: int) -> int:
        """How many steps have begun by then."""
        if not cython.compiled:
            return bisect_right(self._times, at_ms)
        i = self._find(at_ms)
        return i + 1 if self._times[i] <= at_ms else 0

    def next_change_ms(self, after_ms: int) -> int:
        """When the first step begins that begins after this; NEVER_MS if none does."""
        i = self._begun(after_ms)
        return self._times[i] if i < self.steps else NEVER_MS

    def changes_between(self, begin_ms: int, end_ms: int) -> int:
        """How many steps begin after ``begin_ms`` and before ``end_ms``; at least -1."""
        return self._begun(end_ms - 1) - self._begun(begin_ms)

    def overbooked_from(self, start_ms: int, end_ms: int) -> int:
        """From when in [start_ms, end_ms) on more VMs are booked than there are; ``end_ms`` if never."""
        times, free = self._times, self._free
        i = self._find(start_ms) if cython.compiled else bisect_right(times, start_ms) - 1
        while i < self.steps and times[i] < end_ms:
            if free[i] < 0:
                return times[i] if times[i] > start_ms else start_ms
            i += 1
        return end_ms

    def is_overbooked(self) -> bool:
        """Whether more VMs are booked than there are, at any time."""
        return self.first_overbooked_ms() != NEVER_MS

    def first_overbooked_ms(self) -> int:
        """When the first step begins in which more VMs are booked than there are; NEVER_MS without one."""
        if not cython.compiled and min(self._free) >= 0:
            return NEVER_MS
        for i in range(self.steps):
            if self._free[i] < 0:
                return self._times[i]
        return NEVER_MS

    def last_overbooked_ms(self, before_ms: int = NEVER_MS) -> int:
        """When the last such step ends that begins before then; -1 without one.

        The last step of all is empty, and never one of them.
        """
        last = self._begun(before_ms - 1)
        if last == self.steps:
            last -= 1
        if not cython.compiled:
            while last > 0 and min(self._free[max(0, last - _STEPS_AT_ONCE) : last]) >= 0:
                last -= _STEPS_AT_ONCE
        for i in range(last - 1, -1, -1):
            if self._free[i] < 0:
                return self._times[i + 1]
        return -1

    def minima_from(self, start_ms: int) -> "Minima":
        """The fewest free VMs in [start_ms, end_ms) for whatever end, in one pass over the steps."""
        times = self.times
        first = bisect_right(times, start_ms) - 1
        return Minima(times[first + 1 :], list(accumulate(self.free[first:], min)))

    def earliest(self, from_ms: int, span_ms: int, vms: int) -> int:
        """The first start at ``from_ms`` or later at which ``vms`` VMs are free for ``span_ms``.

        ``vms`` must not exceed ``slots``: the last step is empty, so that a start always exists.
        """
        times, free = self._times, self._free
        i = self._find(from_ms) if cython.compiled else bisect_right(times, from_ms) - 1
        while True:
            while free[i] < vms:
                i += 1
            start = times[i] if times[i] > from_ms else from_ms
            end = start + span_ms
            # The last step without room rules out every start up to its end: looking backwards passes over most steps.
            k = self._find(end - 1) if cython.compiled else bisect_left(times, end, i + 1) - 1
            while k > i and free[k] >= vms:
                k -= 1
            if k <= i:
                return start
            i = k + 1

    def most_before(self, end_ms: int) -> int:
        """The most free VMs in any step that begins before ``end_ms``."""
        times, free = self._times, self._free
        if cython.compiled:
            most = free[0]
            k = 1
            while k < self.steps and times[k] < end_ms:
                if free[k] > most:
                    most = free[k]
                k += 1
            return most
        return max(free[: max(bisect_left(times, end_ms), 1)])

    def most_between(self, begin_ms: int, end_ms: int) -> int:
        """The most free VMs at any time in [begin_ms, end_ms)."""
        times, free = self._times, self._free
        i = self._find(begin_ms) if cython.compiled else bisect_right(times, begin_ms) - 1
        if cython.compiled:
            most = free[i]
            i += 1
            while i < self.steps and times[i] < end_ms:
                if free[i] > most:
                    most = free[i]
                i += 1
            return most
        return max(free[i : max(bisect_left(times, end_ms), i + 1)])

    def last_ms(self) -> int:
        """When the last step begins, in which nothing is booked."""
        return self._times[self.steps - 1]

    def earlier(self, from_ms: int, span_ms: int, vms: int, booked_ms: int, before_ms: int) -> int:
        """The first start in [``from_ms``, ``before_ms``) for a lease already booked at ``booked_ms``.

        What is booked from ``booked_ms`` on counts as free for its holder, so that only the room before
        it has to be there. Returns ``booked_ms`` when nothing earlier is found.
        """
        times, free = self._times, self._free
        i = 0
        if times[1] <= from_ms:
            i = self._find(from_ms) if cython.compiled else bisect_right(times, from_ms) - 1
        stop_ms = before_ms if before_ms < booked_ms else booked_ms
        while True:
            while free[i] < vms:
                i += 1
            start = times[i]
            if start >= stop_ms:  # the last step is empty, so no scan runs over
                return booked_ms
            if start < from_ms:
                start = from_ms
            end = start + span_ms if start + span_ms < booked_ms else booked_ms
            k = self._find(end - 1) if cython.compiled else bisect_left(times, end, i + 1) - 1
            while k > i and free[k] >= vms:
                k -= 1
            if k <= i:
                return start
            i = k + 1


def why_waiting(plan: Profile, ready_ms: int, vms: int, now_ms: int) -> int:
    """Say why a lease waits that could not start now, by the plan that it waits for."""
    if ready_ms > now_ms:
        return NOT_READY
    return BEHIND_OTHERS if plan.free_at(now_ms) >= vms else ROOM_IN_USE


class Minima:
    """`Profile.lowest` for one start and many ends; good until the profile changes."""

    __slots__ = ("_changes_ms", "_lowest")

    def __init__(self, changes_ms: list[int], lowest: list[int]) -> None:
        self._changes_ms = changes_ms
        self._lowest = lowest

    def until(self, end_ms: int) -> int:
        """The fewest free VMs from the start until ``end_ms``."""
        return self._lowest[bisect_left(self._changes_ms, end_ms)]


class StartBounds:
    """From when on leases may start, by searches of one pass: each that is as wide and as long needs none before.

    A bound is what a search has been for: so many VMs, for so long, and the time before which that found no start.
    What is booked only confirms it. Where room is given back it is searched again.
    """

    __slots__ = ("_bounds", "_now_ms", "_plan")

    def __init__(self, plan: Profile, now_ms: int) -> None:
        """Begin without bounds."""
        self._plan = plan
        self._now_ms = now_ms
        self._bounds: list[tuple[int, int, int]] = []

    def since(self, from_ms: int, span_ms: int, vms: int, booked_ms: int) -> int:
        """From when on to search for a lease that is booked at ``booked_ms``, whose own room counts as free."""
        for least, shortest_ms, until_ms in self._bounds:
            if least <= vms and shortest_ms <= span_ms:
                latest_ms = booked_ms - shortest_ms + 1
                bound_ms = until_ms if until_ms < latest_ms else latest_ms
                if bound_ms > from_ms:
                    from_ms = bound_ms
        return from_ms

    def note(self, span_ms: int, vms: int, until_ms: int) -> None:
        """A search from now on found no start before this time."""
        for least, shortest_ms, known_ms in self._bounds:
            if least <= vms and shortest_ms <= span_ms and known_ms >= until_ms:
                return
        kept = [one for one in self._bounds if one[0] < vms or one[1] < span_ms or one[2] > until_ms]
        self._bounds = [*kept[-_MOST_BOUNDS:], (vms, span_ms, until_ms)]

    def freed(self, begin_ms: int, end_ms: int) -> int:
        """Room was given back between these times; returns how many VMs are free there at most."""
        most = self._plan.most_between(begin_ms, end_ms)
        for place, (vms, span_ms, until_ms) in enumerate(self._bounds):
            from_ms = begin_ms - span_ms + 1
            if vms > most or until_ms <= from_ms:
                continue
            before_ms = end_ms if end_ms < until_ms else until_ms
            last_ms = self._plan.last_ms()
            from_ms = from_ms if from_ms > self._now_ms else self._now_ms
            start_ms = self._plan.earlier(from_ms, span_ms, vms, last_ms, before_ms)
            if start_ms < before_ms:
                self._bounds[place] = (vms, span_ms, start_ms)
        return most


class RowHeap:
    """Rows by a time each, those of one time by their order; the first one is at hand."""

    __slots__ = ("_entries", "_orders", "_rows", "_times", "size")

    def __init__(self) -> None:
        """Begin empty."""
        self.size = 0
        self._entries: list[tuple[int, int, int]] = []
        self._times, self._orders, self._rows = _column([]), _column([]), _column([])

    def first_ms(self) -> int:
        """The first time; NEVER_MS where there is none."""
        if self.size == 0:
            return NEVER_MS
        return self._times[0] if cython.compiled else self._entries[0][0]

    def first_order(self) -> int:
        """The order of the first row; there is one."""
        return self._orders[0] if cython.compiled else self._entries[0][1]

    def first_row(self) -> int:
        """The first row; there is one."""
        return self._rows[0] if cython.compiled else self._entries[0][2]

    def rows(self) -> list[int]:
        """Return all rows, in no order."""
        return list(self._rows[: self.size]) if cython.compiled else [entry[2] for entry in self._entries]

    def clear(self) -> None:
        """Remove all."""
        self.size = 0
        self._entries.clear()

    def push(self, at_ms: int, order: int, row: int) -> None:
        """Add a row."""
        self.size += 1
        if not cython.compiled:
            heappush(self._entries, (at_ms, order, row))
            return
        if self.size > len(self._times):
            self._times, self._orders, self._rows = _longer(self._times), _longer(self._orders), _longer(self._rows)
        self._settle(self._rising(self.size - 1, at_ms, order), at_ms, order, row)

    def pop(self) -> None:
        """Remove the first one; there is one."""
        self.size -= 1
        if not cython.compiled:
            heappop(self._entries)
            return
        at_ms, order, row = self._times[self.size], self._orders[self.size], self._rows[self.size]
        if self.size > 0:
            self._settle(self._sinking(at_ms, order), at_ms, order, row)

    def _settle(self, i: int, at_ms: int, order: int, row: int) -> None:
        self._times[i] = at_ms
        self._orders[i] = order
        self._rows[i] = row

    def _rising(self, i: int, at_ms: int, order: int) -> int:
        """Move what comes later than this one down, from ``i`` up; returns where this one goes. Only compiled."""
        times, orders = self._times, self._orders
        while i > 0:
            above = (i - 1) // 2
            if times[above] < at_ms or (times[above] == at_ms and orders[above] < order):
                break
            self._settle(i, times[above], orders[above], self._rows[above])
            i = above
        return i

    def _sinking(self, at_ms: int, order: int) -> int:
        """Move what comes before this one up, from the first on; returns where this one goes. Only compiled."""
        times, orders = self._times, self._orders
        i = 0
        while True:
            below = 2 * i + 1
            if below >= self.size:
                return i
            other = below + 1
            if other < self.size and (
                times[other] < times[below] or (times[other] == times[below] and orders[other] < orders[below])
            ):
                below = other
            if at_ms < times[below] or (at_ms == times[below] and order < orders[below]):
                return i
            self._settle(i, times[below], orders[below], self._rows[below])
            i = below


class ReservationQueue:
    """The queue of a site, and the reservations in it, over one profile.

    ``plan``      what fits are tested against
    ``books``     every profile in which a booking of this queue is entered; ``plan`` is one of them
    ``depth``     how many of the first hold a reservation; `ALL`: every one
    ``vms``, ``span_ms``, ``ready_ms``, ``start_ms``, ``order``, ``place``
                  by row: what is asked for and for how long, not before when, the reserved start (`UNPLANNED` without
                  one), the order of submission among equals, the place in the queue
    ``reserved``, ``others``
                  the rows that wait with and without a reservation, in order of arrival
    ``moved``     the rows that the last `step` or `replan` gave another reservation
    ``started``, ``reasons``
                  what the last `step` started, and why; these rows are no longer in the queue

    A row stands for a lease from `submit` to `release_row`.
    """

    def __init__(self, plan: Profile, depth: int) -> None:
        """Begin empty over ``plan``."""
        self.plan = plan
        self.books = [plan]
        self.depth = depth
        self.vms = _column([])
        self.span_ms = _column([])
        self.ready_ms = _column([])
        self.start_ms = _column([])
        self.order = _column([])
        self.place = _column([])
        self._rows = 0
        self.reserved: dict[int, None] = {}
        self.others: dict[int, None] = {}
        self.moved: list[int] = []
        self.started: list[int] = []
        self.reasons: list[int] = []
        self._free_rows: list[int] = []
        self._places = 0
        self._due = RowHeap()
        self._coming = RowHeap()
        self._unseen: list[int] = []
        self._looked_ms = -1

    def add_row(self, vms: int, span_ms: int, ready_ms: int, order: int) -> int:
        """Make a row; it is in the queue once it is submitted or reserved."""
        row = self._free_rows.pop() if self._free_rows else self._new_row()
        self.vms[row] = vms
        self.span_ms[row] = span_ms
        self.ready_ms[row] = ready_ms
        self.start_ms[row] = UNPLANNED
        self.order[row] = order
        return row

    def _new_row(self) -> int:
        """Let all columns have one row more."""
        row = self._rows
        self._rows += 1
        if cython.compiled:
            if row == len(self.vms):
                self.vms, self.span_ms, self.ready_ms = _longer(self.vms), _longer(self.span_ms), _longer(self.ready_ms)
                self.start_ms, self.order, self.place = _longer(self.start_ms), _longer(self.order), _longer(self.place)
        else:
            for column in (self.vms, self.span_ms, self.ready_ms, self.start_ms, self.order, self.place):
                column.append(0)
        return row

    def start_of(self, row: int) -> int:
        """The reserved start of a row, or that from which it was booked; UNPLANNED without one."""
        return self.start_ms[row]

    def set_start(self, row: int, start_ms: int) -> None:
        """Note what is in the profiles already."""
        self.start_ms[row] = start_ms

    def place_of(self, row: int) -> int:
        """The place of a row in the queue."""
        return self.place[row]

    def release_row(self, row: int) -> None:
        """Another lease may have this row."""
        self._free_rows.append(row)

    def submit(self, row: int) -> None:
        """Put a row at the end of the queue; the next step plans it."""
        self._places += 1
        self.place[row] = self._places
        self.others[row] = None
        if self.depth == ALL:
            return  # it has a reservation after the next step, and is not looked at again without one
        if self.ready_ms[row] > self._looked_ms:
            self._coming.push(self.ready_ms[row], self._places, row)
        else:
            self._unseen.append(row)

    def take_up(self, row: int, place: int) -> None:
        """Restore a row; if it has a reservation, that is in the profiles already. Rows come in order of place."""
        self.place[row] = place
        if place > self._places:
            self._places = place
        if self.start_ms[row] >= 0:
            self.reserved[row] = None
            self._due.push(self.start_ms[row], self.order[row], row)
        else:
            self.others[row] = None
            if self.depth != ALL:
                self._coming.push(self.ready_ms[row], place, row)

    def book(self, row: int, start_ms: int) -> None:
        """Book the room of a row from ``start_ms`` on, in every profile concerned."""
        self.start_ms[row] = start_ms
        end_ms = start_ms + self.span_ms[row]
        vms = self.vms[row]
        for profile in self.books:
            profile.take(start_ms, end_ms, vms)

    def unbook(self, row: int, now_ms: int) -> None:
        """Give back what a row has booked from now on."""
        start_ms = self.start_ms[row]
        since_ms = start_ms if start_ms > now_ms else now_ms
        end_ms = start_ms + self.span_ms[row]
        vms = self.vms[row]
        for profile in self.books:
            profile.give(since_ms, end_ms, vms)
        self.start_ms[row] = UNPLANNED

    def withdraw(self, row: int, now_ms: int) -> None:
        """Take a waiting row out of the queue, with its reservation."""
        if row in self.others:
            del self.others[row]
        else:
            del self.reserved[row]
            self.unbook(row, now_ms)

    def reserve(self, row: int, start_ms: int) -> None:
        """Give a row a reservation from ``start_ms`` on; one that has none yet comes after those that have."""
        self.book(row, start_ms)
        if row not in self.reserved:
            self._places += 1
            self.place[row] = self._places
            self.reserved[row] = None
        self._due.push(start_ms, self.order[row], row)

    def earliest(self, row: int, now_ms: int) -> int:
        """The earliest start that the plan has for a row."""
        ready_ms = self.ready_ms[row]
        return self.plan.earliest(ready_ms if ready_ms > now_ms else now_ms, self.span_ms[row], self.vms[row])

    def step(self, now_ms: int) -> list[int]:
        """One pass: move reservations earlier, then start rows that are due, promoted or backfilled."""
        plan = self.plan
        plan.trim(now_ms)
        self.moved, self.started, self.reasons = [], [], []
        has_new_room = plan.was_freed or plan.begin_ms > self._looked_ms
        if plan.was_freed:
            self._compress(now_ms)
        if self._due.first_ms() <= now_ms:
            self._start_due(now_ms)
        if self.others:
            newcomers = self._newcomers(now_ms) if self._coming.size or self._unseen else []
            self._promote(now_ms)
            if self.others and self.depth > 0:
                self._backfill(list(self.others) if has_new_room else newcomers, now_ms)
        elif self._coming.size or self._unseen:
            self._coming.clear()
            self._unseen.clear()
        self._looked_ms = now_ms
        return self.started

    def rest(self, now_ms: int) -> None:
        """What a pass leaves behind over an empty queue: nobody can use the room that was given back."""
        plan = self.plan
        plan.trim(now_ms)
        if plan.was_freed:
            plan.freed_until_ms = now_ms
            plan.was_freed = False
        if self._coming.size or self._unseen:
            self._coming.clear()
            self._unseen.clear()
        self._looked_ms = now_ms

    def _newcomers(self, now_ms: int) -> list[int]:
        """Return rows that came or became ready since the last pass, in order of arrival.

        The others did not fit then, and cannot fit until room is given back or a booking ends.
        """
        found, self._unseen = self._unseen, []
        while self._coming.first_ms() <= now_ms:
            found.append(self._coming.first_row())
            self._coming.pop()
        found.sort(key=self.place_of)
        return found

    def _next_ready_ms(self) -> int:
        """When the next row without a reservation becomes ready, or NEVER_MS."""
        next_ms, coming = NEVER_MS, self._coming
        if self.depth == ALL:
            for row in self.others:
                if self._looked_ms < self.ready_ms[row] < next_ms:
                    next_ms = self.ready_ms[row]
            return next_ms
        while coming.size:
            row = coming.first_row()
            if self.place[row] == coming.first_order() and row in self.others:
                return coming.first_ms()
            coming.pop()
        return next_ms

    def next_pass_ms(self) -> int:
        """When the next reservation is due, or a row without one becomes ready; NEVER_MS without either."""
        due = self._due
        pass_ms = self._next_ready_ms() if self.others else NEVER_MS
        while due.size:
            start_ms = due.first_ms()
            row = due.first_row()
            if self.start_ms[row] == start_ms and self.order[row] == due.first_order() and row in self.reserved:
                return start_ms if start_ms < pass_ms else pass_ms
            due.pop()
        return pass_ms

    def _compress(self, now_ms: int) -> None:
        """Let each reservation, in order of arrival, use the room that was given back before it.

        Only starts before the end of that room can be new: looking just there finds the same as a search
        of everything (and is tested to).
        """
        plan = self.plan
        starts, sizes, spans, ready = self.start_ms, self.vms, self.span_ms, self.ready_ms
        until_ms = plan.freed_until_ms
        # Moves free room behind them: rows examined earlier may use it at the next pass.
        plan.freed_until_ms = now_ms
        most = plan.most_before(until_ms)
        bounds = StartBounds(plan, now_ms) if len(self.reserved) > _LONG_QUEUE else None
        for row in self.reserved:
            vms = sizes[row]
            booked_ms = starts[row]
            if vms > most or booked_ms <= now_ms:
                continue
            from_ms = ready[row] if ready[row] > now_ms else now_ms
            if bounds is None:
                start_ms = plan.earlier(from_ms, spans[row], vms, booked_ms, until_ms)
            else:
                start_ms = self._earlier_within(bounds, row, from_ms, until_ms, now_ms)
            if start_ms < booked_ms:
                for profile in self.books:
                    profile.shift(booked_ms, start_ms, spans[row], vms)
                starts[row] = start_ms
                self.moved.append(row)
                self._due.push(start_ms, self.order[row], row)
                looked_until_ms = until_ms
                if plan.freed_until_ms > until_ms:
                    until_ms = plan.freed_until_ms
                # There is no more room than this anywhere: to look at every step again would take longer.
                end_ms = start_ms + spans[row]
                freed_ms = booked_ms if booked_ms > end_ms else end_ms
                if bounds is None:
                    most = max(most, plan.most_between(freed_ms, booked_ms + spans[row]))
                else:
                    most = max(most, bounds.freed(freed_ms, booked_ms + spans[row]))
                if until_ms > looked_until_ms:
                    most = max(most, plan.most_between(looked_until_ms, until_ms))
        # What they freed here is looked at when room is given back next, not for ever in turn.
        plan.was_freed = False
        if self._due.size > 2 * len(self.reserved) + _STALE_ENTRIES:
            self.forget_old_times()

    def _earlier_within(self, bounds: StartBounds, row: int, from_ms: int, until_ms: int, now_ms: int) -> int:
        """`Profile.earlier`, but for what earlier searches of the pass have shown; the next ones may build on it."""
        vms, span_ms, booked_ms = self.vms[row], self.span_ms[row], self.start_ms[row]
        stop_ms = until_ms if until_ms < booked_ms else booked_ms
        since_ms = bounds.since(from_ms, span_ms, vms, booked_ms)
        start_ms = booked_ms
        if since_ms < stop_ms:
            start_ms = self.plan.earlier(since_ms, span_ms, vms, booked_ms, until_ms)
        if from_ms == now_ms:
            bounds.note(span_ms, vms, start_ms if start_ms < stop_ms else stop_ms)
        return start_ms

    def replan(self, now_ms: int, all_of_them: bool) -> list[int]:  # noqa: FBT001 - compiled, it has C types
        """Plan the reservations again that overlap with over-booked time, or all; returns the rows that start later.

        Of rows in conflict, the last to arrive gives way first; they are planned in order of arrival.
        """
        plan = self.plan
        self.moved = []
        begin_ms = plan.first_overbooked_ms()
        if begin_ms == NEVER_MS and not all_of_them:
            return []
        end_ms = plan.last_overbooked_ms()
        rows: list[int] = []
        promised_ms: list[int] = []
        for row in reversed(self.reserved):
            start_ms = self.start_ms[row]
            stop_ms = start_ms + self.span_ms[row]
            if not all_of_them:
                if start_ms >= end_ms or stop_ms <= begin_ms:
                    continue
                if plan.lowest(start_ms if start_ms > now_ms else now_ms, stop_ms) >= 0:
                    continue
            rows.append(row)
            promised_ms.append(start_ms)
            self.unbook(row, now_ms)
            if not all_of_them:
                # What was given back has made less of it over-booked, and no more.
                begin_ms = plan.overbooked_from(begin_ms, end_ms)
                if begin_ms == end_ms:
                    break
                end_ms = plan.last_overbooked_ms(end_ms)
        later: list[int] = []
        for i in range(len(rows) - 1, -1, -1):
            row = rows[i]
            self.reserve(row, self.earliest(row, now_ms))
            self.moved.append(row)
            if self.start_ms[row] > promised_ms[i]:
                later.append(row)
        return later

    def forget_old_times(self) -> None:
        """Drop the entries of moved reservations, before they outnumber the valid ones."""
        self._due.clear()
        for row in self.reserved:
            self._due.push(self.start_ms[row], self.order[row], row)

    def _start_due(self, now_ms: int) -> None:
        due, reserved = self._due, self.reserved
        while due.first_ms() <= now_ms:
            start_ms, order, row = due.first_ms(), due.first_order(), due.first_row()
            due.pop()
            # An entry is out of date when its row was moved, or has left the queue.
            if self.start_ms[row] == start_ms and self.order[row] == order and row in reserved:
                del reserved[row]
                self.started.append(row)
                self.reasons.append(RESERVED_START)

    def _promote(self, now_ms: int) -> None:
        """Give reservations in order of arrival, as many as the depth allows; FCFS stops at the first."""
        others, depth = self.others, self.depth
        while others:
            row = next(iter(others))
            if depth > 0 and len(self.reserved) >= depth:
                return
            start_ms = self.earliest(row, now_ms)
            if start_ms <= now_ms:
                self.book(row, start_ms)
                self.started.append(row)
                self.reasons.append(ROOM_FREE)
            elif depth == 0:
                return
            else:
                self.reserve(row, start_ms)
                self.moved.append(row)
            del others[row]

    def _backfill(self, candidates: list[int], now_ms: int) -> None:
        """Start rows that fit now, beyond the depth, without touching a reservation."""
        plan = self.plan
        free = plan.free_at(now_ms)
        minima: Minima | None = None
        for row in candidates:
            if free <= 0:
                return
            if self.vms[row] > free or self.ready_ms[row] > now_ms or row not in self.others:
                continue
            if minima is None:
                minima = plan.minima_from(now_ms)
            if minima.until(now_ms + self.span_ms[row]) >= self.vms[row]:
                self.book(row, now_ms)
                free, minima = free - self.vms[row], None
                self.started.append(row)
                self.reasons.append(BACKFILLED)
                del self.others[row]
