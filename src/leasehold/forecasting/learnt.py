"""What the past says of what comes: how long leases run of what they ask for, and which requests will come.

Both are resampled from what was seen, not fitted: a site's mix of short and long, of single requests and bursts, needs
no model. Where little was seen of a user, the site's pool of all users makes up for it (shrinkage), then all sites'.

What one user's leases run goes together: a campaign of them is short or long as a whole. So their draws share chance
(`RunTimes.draw`), as much of it as was seen; else the futures of a long queue would all agree, since what is drawn too
long for one lease of thousands is drawn too short for another.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from math import sqrt
from operator import attrgetter
from random import Random
from statistics import NormalDist

from leasehold.forecasting.snapshot import UNKNOWN_MS, PastRequest

SHRINKAGE = 3.0
"""How many leases of a pool weigh as much as the next wider pool: n seen ones are drawn from with n / (n + this)."""

KEPT = 5_000
"""How many requests of own users, and how many of guests, are remembered."""

RATIOS_KEPT = 500
"""How many leases a pool holds; the oldest give way."""

DOUBT = 30.0
"""How many pairs of leases that do not go together are taken for seen before any is: `RunTimes.shared` begins at 0."""

_FEWEST_TO_PLACE = 10
"""A lease is placed among at least so many of the same user's; among fewer its place says little."""

_NORMAL = NormalDist()
_BELOW_ONE = 1 - 2**-53

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

    def __len__(self) -> int:
        return len(self._ratios)

    def place(self, ratio: float) -> float:
        """Say at which quantile of the normal distribution a lease is among these (van der Waerden's score)."""
        below = (bisect_left(self._ratios, ratio) + bisect_right(self._ratios, ratio)) / 2
        return _NORMAL.inv_cdf((below + 0.5) / (len(self._ratios) + 1))

    def beyond(self, ratio: float) -> Sequence[float]:
        """Give those that ran for longer than this part."""
        return self._ratios[bisect_right(self._ratios, ratio) :] if ratio > 0 else self._ratios


class _Together:
    """How much the leases of one user go together: the correlation of each with the one before it.

    Of where they are among the user's leases, as quantiles of the normal distribution: that is the parameter of the
    copula that `RunTimes.draw` draws from. Leases that all run alike are all in the middle, and say nothing.
    """

    __slots__ = ("_last", "_product", "_square")

    def __init__(self) -> None:
        self._last: dict[tuple[object, ...], float] = {}
        self._product = 0.0
        self._square = DOUBT

    def add(self, user: tuple[object, ...], place: float) -> None:
        before = self._last.get(user)
        self._last[user] = place
        if before is not None:
            self._product += before * place
            self._square += (before * before + place * place) / 2

    @property
    def correlation(self) -> float:
        return max(0.0, self._product / self._square)


class RunTimes:
    """How long leases run of the time that they ask for, by user, site and requested time."""

    def __init__(self, history: Iterable[PastRequest] = ()) -> None:
        """Learn from the past; `learn` goes on with it."""
        self._pools: dict[tuple[object, ...], _Pool] = {}
        self._running: dict[tuple[object, ...], _Pool] = {}
        self._together = _Together()
        for past in history:
            self.learn(past)

    def with_running(self, running: Iterable[PastRequest]) -> "RunTimes":
        """Give the same with leases that run at present, whose ``ran_ms`` is how long they have run so far.

        Of those it is known that they run for longer than that. Without them long leases, which are over later than
        short ones that began with them, would be missed for as long as little was seen (Efron 1967: the weight of
        what is not over yet goes to what ran for longer, as in the estimator of Kaplan and Meier).
        """
        also = RunTimes()
        also._pools, also._together = self._pools, self._together
        for one in running:
            _add(also._running, one)
        return also

    def learn(self, past: PastRequest) -> None:
        """Learn from a request, if it is known how long it ran."""
        if past.ran_ms == UNKNOWN_MS:
            return
        for key in _pools_of(past.path, past.home, past.requested_ms)[:_OF_A_USER]:
            pool = self._pools.get(key)
            if pool is not None and len(pool) >= _FEWEST_TO_PLACE:
                self._together.add((past.path, past.home), pool.place(_ratio(past)))
                break
        _add(self._pools, past)

    @property
    def shared(self) -> float:
        """Say how much of their chance the draws of one user's leases share, as a correlation from 0 to 1."""
        return self._together.correlation

    def draw(self, path: str, home: str, requested_ms: int, age_ms: int, rng: Random, common: float = 0.0) -> int:
        """Draw for how long a lease runs in all that has run for ``age_ms``; longer than that, at most as requested.

        ``home`` is "" for a guest, ``common`` what its user's leases have in common in this future: one draw from the
        standard normal distribution. All times are at the reference speed.

        Each draw alone is the same whatever is shared: the quantiles at which they are drawn are joined by a Gaussian
        copula with one factor (Li, "On default correlation: a copula function approach", 2000; Vasicek, "The
        distribution of loan portfolio value", 2002, whose loans fail together as these leases run long together).
        """
        shared = self.shared
        quantile = min(_NORMAL.cdf(sqrt(shared) * common + sqrt(1 - shared) * rng.gauss(0.0, 1.0)), _BELOW_ONE)
        age, keys = age_ms / requested_ms, _pools_of(path, home, requested_ms)
        narrowest = 0
        while narrowest < len(keys):
            longer, running = self._beyond(keys[narrowest], age)
            seen = len(longer) + len(running)
            is_last = narrowest == len(keys) - 1
            if seen and (is_last or rng.random() < seen / (seen + SHRINKAGE)):
                place = quantile * seen
                if place < len(longer):
                    return _within(longer[int(place)] * requested_ms, age_ms, requested_ms)
                # As one of those that have run for longer, and still run; of the quantile the rest is to be drawn from.
                quantile = min((place - len(longer)) / len(running), _BELOW_ONE)
                age = running[int(rng.random() * len(running))]
            else:
                narrowest += 1
        if () not in self._pools:
            return requested_ms  # nothing was ever seen to end: it is taken at its word
        age_ms = max(age_ms, int(age * requested_ms))
        return _within(age_ms + quantile * (requested_ms - age_ms), age_ms, requested_ms)

    def _beyond(self, key: tuple[object, ...], age: float) -> tuple[Sequence[float], Sequence[float]]:
        """Give those of a pool that ran for longer than that when they ended, and those that have so far."""
        over, running = self._pools.get(key), self._running.get(key)
        return (() if over is None else over.beyond(age)), (() if running is None else running.beyond(age))


def _add(pools: "dict[tuple[object, ...], _Pool]", past: PastRequest) -> None:
    ratio = _ratio(past)
    for key in _pools_of(past.path, past.home, past.requested_ms):
        pool = pools.get(key)
        if pool is None:
            pool = pools[key] = _Pool()
        pool.add(ratio)


def _ratio(past: PastRequest) -> float:
    return min(1.0, past.ran_ms / past.requested_ms)


def _within(ran: float, age_ms: int, requested_ms: int) -> int:
    return min(requested_ms, max(age_ms + 1, round(ran)))


def _pools_of(path: str, home: str, requested_ms: int) -> tuple[tuple[object, ...], ...]:
    """Name the pools that a lease is in, the narrowest first."""
    magnitude = requested_ms.bit_length()
    return (path, home, requested_ms), (path, home, "~", magnitude), (path, home), (home, "~", magnitude), (home,), ()


_OF_A_USER = 3
"""How many of the pools that a lease is in are of its user alone."""


@dataclass(frozen=True, slots=True)
class Coming:
    """A request that comes at ``at_ms``, made after one of the past."""

    at_ms: int
    past: PastRequest


class Arrivals:
    """Which requests come: those of own users and those of guests, each resampled from its own past."""

    def __init__(self, history: Iterable[PastRequest], now_ms: int) -> None:
        """Take the past until now, of own users and of guests the last `KEPT` each."""
        past = sorted((one for one in history if one.submit_ms <= now_ms), key=attrgetter("submit_ms"))
        first_ms = min(past[0].submit_ms if past else now_ms, now_ms - _LEAST_SPAN_MS)
        self._streams = [
            _Stream(kept[-KEPT:], now_ms, first_ms if len(kept) < KEPT else kept[-KEPT].submit_ms)
            for kept in ([one for one in past if one.home], [one for one in past if not one.home])
        ]

    def draw(self, rng: Random) -> Iterator[Coming]:
        """Draw one future of requests, in order; it ends only where next to nothing was ever asked for."""
        streams = [one.draw(Random(rng.getrandbits(64))) for one in self._streams]
        return merge(*streams, key=attrgetter("at_ms"))


class _Stream:
    """Requests of one kind, by resampling their past in blocks: a block of the future is a block of the past.

    Blocks keep bursts, and what belongs together at several sites. With some days of past they are of the same time of
    day, with some weeks of the same day of the week; before that of any time.
    """

    def __init__(self, past: Sequence[PastRequest], now_ms: int, since_ms: int) -> None:
        """Take the past until now, in order; it is whole from ``since_ms`` on."""
        self._past = past
        self._times = [one.submit_ms for one in past]
        self._now_ms = now_ms
        self._since_ms = since_ms

    def draw(self, rng: Random) -> Iterator[Coming]:
        """Draw one future, in order; nothing where too little was seen to say what comes."""
        if len(self._past) < _LEAST_SEEN:
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
