"""What the past says of what comes: how long leases run of what they ask for, and which requests will come.

Both are resampled from what was seen, not fitted: a site's mix of short and long, of single requests and bursts, needs
no model. Where little was seen of a user, the site's pool of all users makes up for it (shrinkage), then all sites'.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from random import Random

from leasehold.forecasting.snapshot import UNKNOWN_MS, PastRequest

SHRINKAGE = 3.0
"""How many leases of a pool weigh as much as the next wider pool: n seen ones are drawn from with n / (n + this)."""

RATIOS_KEPT = 500
"""How many leases a pool holds; the oldest give way."""

DAY_MS = 86_400_000
WEEK_DAYS = 7
_DAYS_FOR_HOURS = 3
_WEEKS_FOR_DAYS = 3
_MOST_WEEKS = 8
_BLOCK_MS = 4 * 3_600_000
_JITTER_MS = 3_600_000
_LEAST_SEEN = 3
_LEAST_SPAN_MS = 600_000
"""A past shorter than that is taken for quiet before it began: a burst in its first seconds says little of a rate."""

_BLOCKS_IN_SHORT_PAST = 6
_MOST_EMPTY = 10_000
"""After so many blocks without a request no more are looked for."""


class _Pool:
    """Parts of their requested time that leases ran, the last ones of them, sorted."""

    __slots__ = ("_in_order", "_ratios")

    def __init__(self) -> None:
        self._in_order: list[float] = []
        self._ratios: list[float] = []

    def add(self, ratio: float) -> None:
        insort(self._ratios, ratio)
        self._in_order.append(ratio)
        if len(self._in_order) > RATIOS_KEPT:
            oldest = self._in_order.pop(0)
            del self._ratios[bisect_right(self._ratios, oldest) - 1]

    def beyond(self, ratio: float) -> Sequence[float]:
        """Give those that ran for longer than this part."""
        return self._ratios[bisect_right(self._ratios, ratio) :] if ratio > 0 else self._ratios


class RunTimes:
    """How long leases run of the time that they ask for, by user, site and requested time."""

    def __init__(self, history: Iterable[PastRequest] = ()) -> None:
        """Learn from the past; `learn` goes on with it."""
        self._pools: dict[tuple[object, ...], _Pool] = {}
        for past in history:
            self.learn(past)

    def learn(self, past: PastRequest) -> None:
        """Learn from a request, if it is known how long it ran."""
        if past.ran_ms == UNKNOWN_MS:
            return
        ratio = min(1.0, past.ran_ms / past.requested_ms)
        for key in _pools_of(past.path, past.home, past.requested_ms):
            pool = self._pools.get(key)
            if pool is None:
                pool = self._pools[key] = _Pool()
            pool.add(ratio)

    def draw(self, path: str, home: str, requested_ms: int, age_ms: int, rng: Random) -> int:
        """Draw for how long a lease runs in all that has run for ``age_ms``; longer than that, at most as requested.

        ``home`` is "" for a guest. All times are at the reference speed.
        """
        age = age_ms / requested_ms
        for key in _pools_of(path, home, requested_ms):
            pool = self._pools.get(key)
            if pool is None:
                continue
            longer = pool.beyond(age)
            seen = len(longer)
            if seen and rng.random() < seen / (seen + SHRINKAGE):
                return _within(longer[int(rng.random() * seen)] * requested_ms, age_ms, requested_ms)
        widest = self._pools.get(())
        longer = widest.beyond(age) if widest is not None else ()
        if longer:
            return _within(longer[int(rng.random() * len(longer))] * requested_ms, age_ms, requested_ms)
        if widest is None:
            return requested_ms  # nothing was ever seen: it is taken at its word
        return _within(age_ms + rng.random() * (requested_ms - age_ms), age_ms, requested_ms)


def _within(ran: float, age_ms: int, requested_ms: int) -> int:
    return min(requested_ms, max(age_ms + 1, round(ran)))


def _pools_of(path: str, home: str, requested_ms: int) -> tuple[tuple[object, ...], ...]:
    """Name the pools that a lease is in, the narrowest first."""
    magnitude = requested_ms.bit_length()
    return (path, home, requested_ms), (path, home, "~", magnitude), (path, home), (home, "~", magnitude), (home,), ()


@dataclass(frozen=True, slots=True)
class Coming:
    """A request that comes at ``at_ms``, made after one of the past."""

    at_ms: int
    past: PastRequest


class Arrivals:
    """Which requests come, by resampling the past in blocks: a block of the future is a block of the past.

    Blocks keep bursts, and what belongs together at several sites. With some days of past they are of the same time of
    day, with some weeks of the same day of the week; before that of any time.
    """

    def __init__(self, history: Iterable[PastRequest], now_ms: int, since_ms: int | None = None) -> None:
        """Take the past until now; it is whole from ``since_ms`` on, by default from its first request on."""
        self._past = sorted((past for past in history if past.submit_ms <= now_ms), key=attrgetter("submit_ms"))
        self._times = [past.submit_ms for past in self._past]
        self._now_ms = now_ms
        first_ms = min(self._times[0] if self._times else now_ms, now_ms - _LEAST_SPAN_MS)
        self._since_ms = first_ms if since_ms is None else since_ms

    @property
    def is_empty(self) -> bool:
        """Whether too little was seen to say what comes."""
        return len(self._past) < _LEAST_SEEN

    def draw(self, rng: Random) -> Iterator[Coming]:
        """Draw one future of requests, in order; it ends only where next to nothing was ever asked for."""
        if self.is_empty:
            return
        begin_ms, source, empty = self._now_ms, self._source(), 0
        while empty < _MOST_EMPTY:
            from_ms, length_ms = source(begin_ms, rng)
            is_empty = True
            for offset_ms, past in self._within(from_ms, length_ms):
                yield Coming(begin_ms + offset_ms, past)
                is_empty = False
            begin_ms += length_ms
            empty = empty + 1 if is_empty else 0

    def _within(self, from_ms: int, length_ms: int) -> Iterator[tuple[int, PastRequest]]:
        """Give the requests of a block with their time in it; what begins after the end of the past follows on it."""
        for index in range(bisect_left(self._times, from_ms), bisect_left(self._times, from_ms + length_ms)):
            yield self._times[index] - from_ms, self._past[index]
        beyond_ms = from_ms + length_ms - self._now_ms
        if beyond_ms > 0:
            for index in range(bisect_left(self._times, self._since_ms + beyond_ms)):
                yield self._times[index] - self._since_ms + self._now_ms - from_ms, self._past[index]

    def _source(self) -> Callable[[int, Random], tuple[int, int]]:
        """Say how the block of the past is chosen for one of the future: its begin and its length."""
        span_ms = self._now_ms - self._since_ms
        days = span_ms // DAY_MS
        if days >= _WEEKS_FOR_DAYS * WEEK_DAYS:
            weeks = min(_MOST_WEEKS, days // WEEK_DAYS)
            return lambda at_ms, rng: self._back(at_ms, WEEK_DAYS * (1 + int(rng.random() * weeks)), rng)
        if days >= _DAYS_FOR_HOURS:
            return lambda at_ms, rng: self._back(at_ms, 1 + int(rng.random() * (days - 1)), rng)
        length_ms = max(1, min(_BLOCK_MS, span_ms // _BLOCKS_IN_SHORT_PAST))
        return lambda _, rng: (self._since_ms + int(rng.random() * span_ms), length_ms)

    def _back(self, at_ms: int, days: int, rng: Random) -> tuple[int, int]:
        """Go so many days back from a time, or more where that is not past yet; a little before or after."""
        while at_ms + _BLOCK_MS + _JITTER_MS - days * DAY_MS > self._now_ms:
            days += WEEK_DAYS if days % WEEK_DAYS == 0 else 1
        jitter_ms = int((2 * rng.random() - 1) * _JITTER_MS)
        return max(self._since_ms, at_ms - days * DAY_MS + jitter_ms), _BLOCK_MS
