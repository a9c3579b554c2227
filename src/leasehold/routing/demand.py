"""What will a site's own users take soon? Learnt from what they took before.

The question that a guest asks is: how many VMs will local leases that start from now on hold at the same
time, at most, within the next so many seconds? The answer is a distribution, P(peak >= x VMs), for several
horizons and for how long ago the last local lease started: requests come in bursts, and a site that has been quiet
for long often stays quiet.

It is learnt by looking on. From time to time a *probe* notes the moment and the age of the last start; when a
horizon is over, the peak since is counted under both. Horizons and ages are powers of two and four, so that
nothing has to be set for a site: which horizons are watched, and how often, follows from how long its local
leases hold their VMs (``scale_ms``). Every count fades with a time constant of a week. Before much was seen,
the table believes as if one probe had found a peak of x or more VMs with chance 1 / (1 + x); a row of one age
believes what all ages together say, as much as after 20 probes.

Nothing is drawn at random, and memory does not grow with time. What is counted are starts and ends as they
happened: requested durations do not matter, nor do refused requests.
"""

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import accumulate, repeat
from typing import Any

HORIZONS_MS = tuple(5_000 << step for step in range(17))
"""From 5 seconds to nearly four days."""
AGES_MS = (2_000, 8_000, 32_000, 128_000, 512_000, 2_048_000, 8_192_000)
"""Bounds of the classes of ages; the last class is everything above."""
EVERY_AGE = len(AGES_MS) + 1
"""The index of the counts of all ages together."""
NO_AGE = len(AGES_MS)
"""The class of a site where no local lease has started yet."""

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
_ROUNDING = 1e-9
FIRST_SCALE_MS = 300_000
"""The prior for how long local leases hold their VMs, while few have ended."""
FIRST_SCALE_WEIGHT = 3
POOLED_PROBES = 20
"""How many probes of one age what all ages say is worth."""
ENOUGH_PROBES = 30
"""How many make a table that says more than was believed before."""
SHORTEST, LONGEST = 1 / 32, 8
"""Horizons that are watched, in mean local holding times."""
PROBES_PER_HORIZON = 4
PROBES_PER_SCALE = 8
MOST_STARTS = 4_096
MOST_PROBES_AT_ONCE = 256
_FEW_STARTS = 64
"""So many may be kept that no probe sees any more."""

Change = tuple[int, int, int]
"""When a local lease began to hold VMs (above 0) or stopped (below 0), how many, and which start it is about."""


class Tail:
    """P(peak >= x) for x from 0 to the slots of a site; above it is 0."""

    __slots__ = ("_at_least", "_sums")

    def __init__(self, at_least: list[float]) -> None:
        """Keep the probabilities, and their running sums."""
        self._at_least = at_least
        self._sums = [0.0, *accumulate(at_least)]

    def at_least(self, vms: int) -> float:
        """Give the chance that local leases take so many VMs or more."""
        return self._at_least[vms] if vms < len(self._at_least) else 0.0

    def mean(self, first: int, last: int) -> float:
        """Give the mean of that over so many VMs, from the first to the last."""
        end = min(last + 1, len(self._at_least))
        return (self._sums[end] - self._sums[first]) / (last - first + 1) if first < end else 0.0


class DemandOutlook:
    """What a table says at one moment.

    ``scale_ms``    how long local leases hold their VMs here, on average
    ``is_learnt``   whether enough was seen for that to mean something
    """

    __slots__ = ("_age", "_table", "_tails", "scale_ms")

    def __init__(self, table: "LocalDemand", age: int) -> None:
        """Look from a moment with this class of age."""
        self._table = table
        self._age = age
        self._tails: dict[int, Tail] = {}
        self.scale_ms = table.scale_ms

    @property
    def is_learnt(self) -> bool:
        """Whether enough was seen at this moment."""
        return self._table.is_learnt

    def within(self, span_ms: float) -> Tail:
        """Give the distribution for the horizon nearest to a span."""
        return self.at_horizon(horizon_near(span_ms))

    def at_horizon(self, index: int) -> Tail:
        """Give the distribution for one of `HORIZONS_MS`."""
        known = self._tails.get(index)
        if known is None:
            known = self._tails[index] = self._table.tail(index, self._age)
        return known

    def steady_until_ms(self) -> int:
        """Say until when at least what was asked here stays so, if no local lease starts or ends."""
        return self._table.steady_until_ms(self._tails, self._age)


class LocalDemand:
    """The table of one site, learnt online; all times must come in order."""

    def __init__(self, slots: int, start_ms: int = 0) -> None:
        """Begin to look on at ``start_ms``, at a site with so many slots."""
        self.slots = slots
        self._levels = _levels(slots)
        self._level_of = [bisect_right(self._levels, vms) for vms in range(slots + 1)]
        self._counts = [[_Counts(len(self._levels) + 1) for _ in range(EVERY_AGE + 1)] for _ in HORIZONS_MS]
        self._weight_at_ms = self._seen_ms = start_ms
        self._held_weight = float(FIRST_SCALE_WEIGHT)
        self._held_ms = self._held_weight * FIRST_SCALE_MS
        self._last_start_ms: int | None = None
        self._starts_ms: list[int] = []
        self._changes: list[Change] = []
        self._place: dict[int, tuple[int, int]] = {}
        self._forgotten = 0
        self._probes = [deque[tuple[int, int]]() for _ in HORIZONS_MS]
        self._next_ms = [start_ms for _ in HORIZONS_MS]
        self._due_ms = start_ms
        self._watch()

    @property
    def scale_ms(self) -> float:
        """How long a local lease holds its VMs, on average."""
        return self._held_ms / self._held_weight

    @property
    def is_learnt(self) -> bool:
        """Whether enough probes have come to their end."""
        return self._counts[self._watched[0]][EVERY_AGE].weight >= ENOUGH_PROBES

    # What happens

    def began(self, lease_id: int, vms: int, now_ms: int) -> None:
        """A local lease holds VMs from now on."""
        self.advance(now_ms)
        place = self._forgotten + len(self._starts_ms)
        self._place[lease_id] = place, vms
        self._starts_ms.append(now_ms)
        self._changes.append((now_ms, vms, place))
        if len(self._starts_ms) > MOST_STARTS:
            self._forget(MOST_STARTS // 2)
        self._last_start_ms = now_ms

    def ended(self, lease_id: int, held_ms: int, now_ms: int) -> None:
        """It holds them no more, after so long."""
        self.advance(now_ms)
        known = self._place.pop(lease_id, None)
        if known is not None:
            self._note_end(*known, now_ms)
        weight = self._weight(now_ms)
        self._held_ms += weight * held_ms
        self._held_weight += weight
        self._is_rescaled = True

    def _note_end(self, place: int, vms: int, now_ms: int) -> None:
        """Note that a lease freed its VMs: of an instant, before any other lease begins to hold some."""
        changes = self._changes
        at = len(changes)
        while at and changes[at - 1][0] == now_ms and changes[at - 1][1] > 0 and changes[at - 1][2] != place:
            at -= 1
        changes.insert(at, (now_ms, -vms, place))

    def advance(self, now_ms: int) -> None:
        """Let time pass: when a probe is due, make it, and see which are over."""
        self._seen_ms = now_ms
        if now_ms >= self._due_ms:
            self.settle(now_ms)

    def settle(self, now_ms: int) -> None:
        """Make the probes that are due, and count all whose horizon is over."""
        self._seen_ms = now_ms
        if self._is_rescaled:
            self._watch()
        for index in self._watched:
            if self._next_ms[index] <= now_ms:
                self._probe(index, now_ms)
            probes = self._probes[index]
            if probes and probes[0][0] + HORIZONS_MS[index] <= now_ms:
                self._count(index, now_ms)
        self._due_ms = min(self._next_ms[self._watched.start : self._watched.stop])
        if len(self._starts_ms) > _FEW_STARTS:
            needed = self._needed(now_ms)
            if len(self._starts_ms) > 2 * needed + _FEW_STARTS:
                self._forget(len(self._starts_ms) - needed)

    def look_at_each(self, times: range) -> None:
        """Let time pass as if an outlook had been asked for at each of these times: only then probes are made.

        What is made and counted at the first ones is the same if it is done at the last one at which a probe is due.
        """
        if self._due_ms <= times[-1]:
            self.settle(_first_from(self._due_ms, times))
        while self._due_ms <= times[-1]:
            self.settle(_first_from(self._last_due_ms(times[-1]), times))
        self._seen_ms = times[-1]

    def _last_due_ms(self, until_ms: int) -> int:
        """Say when the last probe up to then is due, as far as one settling makes all of them."""
        if len(self._starts_ms) > MOST_STARTS // 4:
            return self._due_ms  # starts that no probe needs are forgotten in between
        probes = [(self._next_ms[index], self._apart_at(index)) for index in self._watched]
        until_ms = min(until_ms, *(next_ms + MOST_PROBES_AT_ONCE // 2 * apart_ms for next_ms, apart_ms in probes))
        due_ms = [next_ms + (until_ms - next_ms) // apart_ms * apart_ms for next_ms, apart_ms in probes]
        return max(self._due_ms, *due_ms)

    def _apart_at(self, index: int) -> int:
        """How far apart the probes of a horizon are made."""
        return max(HORIZONS_MS[index] // PROBES_PER_HORIZON, self._apart_ms)

    def outlook(self, now_ms: int) -> DemandOutlook:
        """Say what is to be expected now."""
        self.advance(now_ms)
        return DemandOutlook(self, self._age(now_ms))

    # Learning

    def _watch(self) -> None:
        """Choose the horizons to watch, and how often, by the scale of the site."""
        scale_ms = self.scale_ms
        first = bisect_left(HORIZONS_MS, scale_ms * SHORTEST)
        last = bisect_left(HORIZONS_MS, scale_ms * LONGEST)
        self._watched = range(min(first, len(HORIZONS_MS) - 1), min(last + 1, len(HORIZONS_MS)))
        self._apart_ms = max(1, round(scale_ms / PROBES_PER_SCALE))
        self._is_rescaled = False

    def _probe(self, index: int, now_ms: int) -> None:
        """Make the probes of one horizon that are due."""
        probes = self._probes[index]
        apart_ms = self._apart_at(index)
        next_ms = max(self._next_ms[index], now_ms - MOST_PROBES_AT_ONCE * apart_ms)
        last_start_ms = self._last_start_ms
        while next_ms <= now_ms:
            age = NO_AGE if last_start_ms is None else bisect_right(AGES_MS, next_ms - last_start_ms)
            # Until the age is of another class, all probes are alike.
            until_ms = now_ms
            if last_start_ms is not None and age < NO_AGE:
                until_ms = min(now_ms, last_start_ms + AGES_MS[age] - 1)
            last_ms = next_ms + (until_ms - next_ms) // apart_ms * apart_ms
            probes.extend(zip(range(next_ms, last_ms + 1, apart_ms), repeat(age), strict=False))
            next_ms = last_ms + apart_ms
        self._next_ms[index] = next_ms

    def _count(self, index: int, now_ms: int) -> None:
        """Count the peaks that the probes of a horizon have seen which is over."""
        horizon_ms, probes, rows = HORIZONS_MS[index], self._probes[index], self._counts[index]
        every_age = rows[EVERY_AGE]
        last_start_ms = self._starts_ms[-1] if self._starts_ms else -1
        while probes and probes[0][0] + horizon_ms <= now_ms:
            probe_ms, age = probes.popleft()
            end_ms = probe_ms + horizon_ms
            peak = self._peak_vms(probe_ms, end_ms) if probe_ms <= last_start_ms else 0
            level = self._level_of[peak if peak < self.slots else self.slots]
            passed_ms = end_ms - self._weight_at_ms
            weight = math.exp(passed_ms / WEEK_MS) if passed_ms <= WEEK_MS else self._weight(end_ms)
            own = rows[age]
            own.histogram[level] += weight
            own.weight += weight
            every_age.histogram[level] += weight
            every_age.weight += weight

    def _peak_vms(self, from_ms: int, until_ms: int) -> int:
        """The most VMs that leases which started in this time held at the same time."""
        starts_ms, changes = self._starts_ms, self._changes
        first = bisect_left(starts_ms, from_ms)
        if first == len(starts_ms) or starts_ms[first] >= until_ms:
            return 0
        first += self._forgotten
        held = peak = 0
        for _, vms, place in changes[bisect_left(changes, (from_ms,)) : bisect_left(changes, (until_ms,))]:
            if place >= first:
                held += vms
                if held > peak:
                    peak = held
        return peak

    def _age(self, at_ms: int) -> int:
        """Class the time since the last start."""
        if self._last_start_ms is None:
            return NO_AGE
        return bisect_right(AGES_MS, at_ms - self._last_start_ms)

    def _weight(self, at_ms: int) -> float:
        """Let what is new weigh more, instead of letting the past fade; now and then, all is scaled down."""
        if at_ms - self._weight_at_ms > WEEK_MS:
            faded = math.exp((self._weight_at_ms - at_ms) / WEEK_MS)
            self._weight_at_ms = at_ms
            self._held_ms, self._held_weight = self._held_ms * faded, self._held_weight * faded
            self._is_rescaled = True
            for rows in self._counts:
                for counts in rows:
                    counts.fade(faded)
        return math.exp((at_ms - self._weight_at_ms) / WEEK_MS)

    def _needed(self, now_ms: int) -> int:
        """Count the starts that a probe may still see."""
        oldest_ms = now_ms
        for probes in self._probes:
            if probes and probes[0][0] < oldest_ms:
                oldest_ms = probes[0][0]
        return len(self._starts_ms) - bisect_left(self._starts_ms, oldest_ms)

    def _forget(self, starts: int) -> None:
        """Let go of the oldest starts."""
        del self._starts_ms[:starts]
        self._forgotten += starts
        oldest_ms = self._starts_ms[0] if self._starts_ms else self._seen_ms
        del self._changes[: bisect_left(self._changes, (oldest_ms,))]
        self._place = {lease_id: known for lease_id, known in self._place.items() if known[0] >= self._forgotten}

    # What is believed

    def tail(self, index: int, age: int) -> Tail:
        """Give the distribution for a horizon, or the nearest one that is watched, for a class of age."""
        watched = self._watched
        index = min(max(index, watched[0]), watched[-1])
        rows = self._counts[index]
        counts, pooled = rows[age], rows[EVERY_AGE]
        if counts.tail is None or pooled.weight > counts.seen_by:
            counts.tail = self._believe(counts, pooled)
            counts.seen_by = 1.05 * pooled.weight + 1
        return counts.tail

    def steady_until_ms(self, indexes: Iterable[int], age: int) -> int:
        """Say until when at least `tail` gives the same for these horizons and this age, if only time passes.

        It changes with the age, when as many probes have ended as are counted at once, and when all is scaled down.
        """
        until_ms = min(self._weight_at_ms + WEEK_MS, self._seen_ms + DAY_MS)
        if self._last_start_ms is not None and age < NO_AGE:
            until_ms = min(until_ms, self._last_start_ms + AGES_MS[age])
        if self._is_rescaled:
            until_ms = min(until_ms, self._due_ms)
        most_weight = math.exp((until_ms - self._weight_at_ms) / WEEK_MS)
        watched = self._watched
        for index in {min(max(index, watched[0]), watched[-1]) for index in indexes}:
            seen_by, seen = self._counts[index][age].seen_by, self._counts[index][EVERY_AGE].weight
            probes = max(1, math.floor((seen_by - seen) / most_weight - _ROUNDING) + 1)
            until_ms = min(until_ms, max(self._due_ms, self._ends_ms(index, probes)))
        return until_ms

    def _ends_ms(self, index: int, number: int) -> int:
        """Say when the horizon of this probe is over, counted from 1: one that was made, or will be."""
        made = self._probes[index]
        if number <= len(made):
            return made[number - 1][0] + HORIZONS_MS[index]
        return self._next_ms[index] + (number - len(made) - 1) * self._apart_at(index) + HORIZONS_MS[index]

    def _believe(self, counts: "_Counts", pooled: "_Counts") -> Tail:
        of_all, weight = pooled.weight + 1, counts.weight + POOLED_PROBES
        believed = [
            (own + POOLED_PROBES * ((every + 1 / (1 + vms)) / of_all)) / weight
            for vms, own, every in zip((0, *self._levels), counts.at_least(), pooled.at_least(), strict=True)
        ]
        return Tail([believed[level] for level in self._level_of])

    # What outlives a restart

    def memory(self) -> dict[str, Any]:
        """Give what was learnt, for `recalled`, as plain data; probes that are under way are not kept."""
        return {
            "slots": self.slots,
            "seen_ms": self._seen_ms,
            "at_ms": self._weight_at_ms,
            "last_start_ms": self._last_start_ms,
            "held": [self._held_ms, self._held_weight],
            "counts": [
                [index, age, counts.memory()]
                for index, rows in enumerate(self._counts)
                for age, counts in enumerate(rows)
                if counts.weight
            ],
        }

    @classmethod
    def recalled(cls, memory: Mapping[str, Any], slots: int) -> "LocalDemand":
        """Restore what `memory` returned; a site whose size changed starts empty."""
        table = cls(slots, memory["seen_ms"])
        if memory["slots"] != slots:
            return table
        table._weight_at_ms, table._last_start_ms = memory["at_ms"], memory["last_start_ms"]
        table._held_ms, table._held_weight = memory["held"]
        for index, age, weights in memory["counts"]:
            table._counts[index][age].recall(weights)
        table._watch()
        return table


class _Counts:
    """Weights of the peaks that were seen, by level."""

    __slots__ = ("histogram", "seen_by", "tail", "weight")

    def __init__(self, levels: int) -> None:
        self.histogram = [0.0] * levels
        self.weight = 0.0
        self.tail: Tail | None = None
        self.seen_by = 0.0

    def at_least(self) -> list[float]:
        """Give the weight of the peaks at each level or above."""
        return list(accumulate(reversed(self.histogram)))[::-1]

    def fade(self, factor: float) -> None:
        """Let everything weigh less."""
        self.histogram = [factor * weight for weight in self.histogram]
        self.weight *= factor
        self.tail = None

    def memory(self) -> list[tuple[int, float]]:
        """Give the weights of the levels that were seen."""
        return [(level, weight) for level, weight in enumerate(self.histogram) if weight]

    def recall(self, weights: Iterable[tuple[int, float]]) -> None:
        """Take them up again."""
        for level, weight in weights:
            self.histogram[level] = weight
        self.weight = math.fsum(self.histogram)


def horizon_near(span_ms: float) -> int:
    """Say which of `HORIZONS_MS` is nearest to a span."""
    return bisect_left(_MIDDLES_MS, span_ms)


def _first_from(at_ms: int, times: range) -> int:
    """Give the first of these times that is at this one or later; there must be one."""
    return times[max(0, -(-(at_ms - times.start) // times.step))]


_MIDDLES_MS = tuple(round(horizon_ms * math.sqrt(2)) for horizon_ms in HORIZONS_MS[:-1])


def _levels(slots: int) -> list[int]:
    """Return the distinguished peaks: each one up to 64 VMs, then 32 for each doubling.

    Each is one more than a round number: requests are of round sizes, and so is what is left free; whether a
    peak stays within that is then known exactly.
    """
    levels = [1]
    while levels[-1] < slots:
        below = levels[-1] - 1
        levels.append(levels[-1] + max(1, (1 << below.bit_length()) // 64))
    return [level for level in levels if level <= slots]
