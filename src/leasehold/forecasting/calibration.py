"""Intervals that cover what they say: predictions are scored against what happened, and later ones corrected by that.

A forecast knows its own spread and not what it leaves out. So past errors decide how wide an interval is (conformal
prediction; Romano, Patterson and Candès, "Conformalized quantile regression", 2019), and each that misses widens the
next ones a little, each that covers narrows them (Gibbs and Candès, "Adaptive conformal inference under distribution
shift", 2021): the coverage in the long run then holds whatever is wrong with the forecast.

Times are taken as leads from the moment of the prediction, on the scale ln(1 + seconds). An error is the distance of
what happened from the median, in units of the forecast's own spread on that side (`Raw`). The lower and the upper end
are each set to be missed as often as the other.

Errors are kept by what is predicted, for whom, and where (`Kind`). Where few were seen the next wider kind says more:
what is predicted for whom at any site, then what is predicted at all. Predictions that overlap in time err together: a
hundred about one queue say little more of the next queue than one does. So what was seen is counted in predictions that
followed one another, each made when the last one had come true. Predictions in which all futures agree are kept apart:
nearly all of these come true to the second, and no width makes nine in ten of them right.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import expm1, log1p, sqrt
from typing import Any

COVERAGE = 0.9
MISS = (1 - COVERAGE) / 2
"""How often each end of an interval is to be missed."""

KEPT = 500
"""How many errors of a kind are kept; older ones are forgotten."""

ENOUGH = 19
"""From so many errors on, of predictions that followed one another, a kind stands by itself.

The next one is below all of n with 1 / (n + 1), `MISS` at 19.
"""

STEP = 0.01
"""How far a miss moves the level at which an end is set (Gibbs and Candès' gamma)."""

_LEAST_SPREAD = 0.5
"""What is added to a spread, so that a narrow one is not believed to the letter: half of the lead.

Of 0.03 to 2, this gave the least `interval_score` on the logs that are measured: what futures leave out is seldom in
proportion to their spread, and intervals that are this multiple of a narrow one would otherwise be wide for all.
"""

_SURE = 0.01
"""Where the quantiles are no further apart than this, a hundredth of the lead, all futures agree."""

_BEYOND = 0.5
"""How far, in spreads, an end goes beyond all errors that were seen where even these are not enough, at most.

No further than these are from each other: one miss by a moment does not widen intervals that are right to the second.
"""

_PRIOR = sorted((1.25 * (place - ENOUGH // 2) / (ENOUGH // 2) for place in range(ENOUGH)), key=abs)
"""Errors that count until enough were seen: the first intervals are a quarter wider than the futures alone say.

Each error that is seen, of predictions that followed one another, takes the place of the furthest of these: a forecast
that is right soon has narrow intervals.
"""

START, CONTINUES, END = "start", "continues", "end"
WHAT = (START, CONTINUES, END)
"""What is predicted: when it starts, when a suspended guest continues, and when it is over."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What is predicted (`WHAT`), for whom (``own`` users or a lease type), and at which site it is ("" for none)."""

    what: str
    whom: str
    site: str = ""

    def wider(self) -> "tuple[Kind, ...]":
        """Give this kind, and those that it is part of, each once."""
        return tuple(dict.fromkeys((self, Kind(self.what, self.whom), Kind(self.what, ""))))


@dataclass(frozen=True, slots=True)
class Raw:
    """What a forecast says by itself, on the scale ln(1 + seconds) of the lead.

    ``median``        of the futures
    ``below, above``  how far their 5 % and 95 % quantiles are from it
    """

    median: float
    below: float
    above: float

    @property
    def is_sure(self) -> bool:
        """Whether all futures agree."""
        return self.below + self.above < _SURE

    @classmethod
    def of(cls, leads_ms: Sequence[int]) -> "Raw":
        """Take the leads of the futures, at least one; leads before now count as now."""
        scaled = sorted(_scaled(lead) for lead in leads_ms)
        median = _quantile(scaled, 0.5)
        low, high = _quantile(scaled, MISS), _quantile(scaled, 1 - MISS)
        return cls(median, median - low, high - median)

    def error(self, lead_ms: int) -> float:
        """Say how far from the median something happened, in spreads."""
        off = _scaled(lead_ms) - self.median
        return off / (_LEAST_SPREAD + (self.above if off >= 0 else self.below))

    def at(self, error: float) -> int:
        """Give the lead (ms) that is so many spreads from the median."""
        return _lead_ms(self.median + error * (_LEAST_SPREAD + (self.above if error >= 0 else self.below)))

    def alone(self, now_ms: int) -> "Interval":
        """Give the interval that the futures alone say."""
        ends = (self.median - self.below, self.median, self.median + self.above)
        return Interval(*(now_ms + _lead_ms(scaled) for scaled in ends))


def _scaled(lead_ms: int) -> float:
    return log1p(max(0, lead_ms) / 1000)


def _lead_ms(scaled: float) -> int:
    return max(0, round(1000 * expm1(min(scaled, 40.0))))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Interpolate between neighbours (Hyndman and Fan's definition 7)."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


@dataclass(frozen=True, slots=True)
class Interval:
    """When something is expected: ``low_ms`` and ``high_ms`` are missed one time in twenty each; absolute times."""

    low_ms: int
    median_ms: int
    high_ms: int

    def covers(self, at_ms: int) -> bool:
        """Whether it happened within, to the millisecond at which a reader would be told."""
        return self.low_ms <= at_ms <= self.high_ms


@dataclass(slots=True)
class _Errors:
    """The errors of one kind, and the levels at which the ends are set.

    ``in_turn``   of how many predictions these are that followed one another: the most that do not overlap in time
    ``until_ms``  when the last one of these came true
    """

    kept: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    low: float = MISS
    high: float = MISS
    scored: int = 0
    covered: int = 0
    below: int = 0
    above: int = 0
    width: float = 0.0
    known: int = 0
    off: float = 0.0
    loss: float = 0.0
    in_turn: int = 0
    until_ms: int = 0

    def keep(self, error: float, made_ms: int, at_ms: int) -> None:
        """Note an error; they come in the order in which things happened."""
        self.kept.append(error)
        if not self.in_turn or made_ms >= self.until_ms:
            self.in_turn += 1
            self.until_ms = at_ms

    def seen(self) -> list[float]:
        """Give the errors that count, in order: until enough followed one another, so many quantiles stand for all."""
        ordered = sorted(self.kept)
        if self.in_turn >= ENOUGH:
            return ordered
        stand = (_at(ordered, place / (self.in_turn + 1)) for place in range(1, self.in_turn + 1))
        return sorted([*stand, *_PRIOR[: ENOUGH - self.in_turn]])


def _ends(ordered: Sequence[float], low: float, high: float) -> tuple[float, float]:
    """Give the errors that one to come misses below, and above, with these shares (split conformal).

    One to come is below the k-th of n with k / (n + 1). Between these it is interpolated: rounded outwards, intervals
    of a few dozen errors would miss half as often as they are to.
    """
    lower, upper = _at(ordered, low), _at(ordered, 1 - high)
    return min(lower, upper), max(lower, upper)


def _at(ordered: Sequence[float], share: float) -> float:
    """Interpolate at this share (Hyndman and Fan's definition 6), and up to `_BEYOND` further than all of them."""
    place, beyond = share * (len(ordered) + 1), min(_BEYOND, ordered[-1] - ordered[0])
    if place < 1:
        return ordered[0] - beyond * (1 - place)
    if place >= len(ordered):
        return ordered[-1] + beyond * (place - len(ordered))
    below = int(place)
    return ordered[below - 1] + (place - below) * (ordered[below] - ordered[below - 1])


@dataclass(frozen=True, slots=True)
class Score:
    """How predictions of one kind did.

    ``is_sure``  those in which all futures agreed, or the others
    ``scored``   of how many it is known whether they came true
    ``covered``  how many intervals contained it; ``below`` and ``above`` say how many it missed on which side
    ``width``    mean of ln((1 + high) / (1 + low)): 0.69 is a factor of two
    ``off``      mean distance of the median, on the same scale
    ``loss``     mean `interval_score`
    """

    kind: Kind
    is_sure: bool
    scored: int
    covered: int
    below: int
    above: int
    width: float
    off: float
    loss: float

    @property
    def share(self) -> float:
        """The share that was covered."""
        return self.covered / self.scored if self.scored else 0.0

    def bounds(self) -> tuple[float, float]:
        """Give the 95 % interval of that share (Wilson 1927)."""
        return wilson(self.covered, self.scored)


def interval_score(interval: Interval, made_ms: int, at_ms: int) -> float:
    """Score an interval by its width, and by how far what happened lies beyond it, 2 / 0.1 times; the less the better.

    On the scale ln(1 + seconds) from the prediction on. It is proper: nobody gains by saying another interval than the
    one believed in (Winkler 1972; Gneiting and Raftery, "Strictly proper scoring rules", 2007, section 6.2).
    """
    low, high = _scaled(interval.low_ms - made_ms), _scaled(interval.high_ms - made_ms)
    at = _scaled(at_ms - made_ms)
    return high - low + (max(0.0, low - at) + max(0.0, at - high)) / MISS


def wilson(count: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Give the interval of a share of which ``count`` of so many were seen; (0, 1) where none were."""
    if not of:
        return 0.0, 1.0
    share, square = count / of, z * z
    centre = (share + square / (2 * of)) / (1 + square / of)
    half = z * sqrt(share * (1 - share) / of + square / (4 * of * of)) / (1 + square / of)
    return max(0.0, centre - half), min(1.0, centre + half)


class Calibration:
    """Turns what a forecast says into intervals, and learns from what happened."""

    def __init__(self) -> None:
        """Begin with trust in the forecast, which fades as errors are seen."""
        self._errors: dict[tuple[Kind, bool], _Errors] = {}

    def interval(self, kind: Kind, raw: Raw, now_ms: int) -> Interval:
        """Say when something is to be expected."""
        errors = self._of(kind, sure=raw.is_sure)
        ordered = errors.seen()
        low, high = _ends(ordered, errors.low, errors.high)
        middle = min(max(_quantile(ordered, 0.5), low), high)
        low_ms, high_ms = raw.at(low), raw.at(high)
        return Interval(now_ms + low_ms, now_ms + min(max(raw.at(middle), low_ms), high_ms), now_ms + high_ms)

    def _of(self, kind: Kind, *, sure: bool) -> _Errors:
        for wider in kind.wider():
            errors = self._errors.get((wider, sure))
            if errors is not None and errors.in_turn >= ENOUGH:
                return errors
        return self._errors.get((kind.wider()[-1], sure)) or _Errors()

    def happened(
        self, kind: Kind, raw: Raw, interval: Interval, made_ms: int, at_ms: int, *, was_overdue: bool = False
    ) -> bool:
        """Score a prediction against what happened; returns whether it was covered.

        ``was_overdue`` says that `overdue` has scored it.
        """
        if not was_overdue:
            self._score(
                kind, raw, interval, made_ms, is_below=at_ms < interval.low_ms, is_above=at_ms > interval.high_ms
            )
        error, off = raw.error(at_ms - made_ms), abs(_scaled(at_ms - made_ms) - _scaled(interval.median_ms - made_ms))
        for wider in kind.wider():
            errors = self._errors[wider, raw.is_sure]
            errors.keep(error, made_ms, at_ms)
            errors.known += 1
            errors.off += off
            errors.loss += interval_score(interval, made_ms, at_ms)
        return interval.covers(at_ms)

    def overdue(self, kind: Kind, raw: Raw, interval: Interval, made_ms: int) -> None:
        """Score a prediction whose interval is over: whenever it happens, it was missed.

        Else predictions that come true early would be scored before those that come true late, and every share of
        what was covered would be too high until the last of them has happened.
        """
        self._score(kind, raw, interval, made_ms, is_below=False, is_above=True)

    def _score(self, kind: Kind, raw: Raw, interval: Interval, made_ms: int, *, is_below: bool, is_above: bool) -> None:
        low, high = _scaled(interval.low_ms - made_ms), _scaled(interval.high_ms - made_ms)
        for wider in kind.wider():
            errors = self._errors.setdefault((wider, raw.is_sure), _Errors())
            errors.low = min(0.5, max(0.0, errors.low + STEP * (MISS - is_below)))
            errors.high = min(0.5, max(0.0, errors.high + STEP * (MISS - is_above)))
            errors.scored += 1
            errors.covered += not (is_below or is_above)
            errors.below += is_below
            errors.above += is_above
            errors.width += high - low

    def scores(self) -> list[Score]:
        """Say how each kind did, the widest last."""
        return [
            Score(
                kind,
                is_sure,
                errors.scored,
                errors.covered,
                errors.below,
                errors.above,
                errors.width / errors.scored,
                errors.off / max(1, errors.known),
                errors.loss / max(1, errors.known),
            )
            for (kind, is_sure), errors in sorted(self._errors.items(), key=lambda item: _in_order(*item[0]))
            if errors.scored
        ]

    def memory(self) -> list[dict[str, Any]]:
        """Give everything that was learnt, as plain data for `recalled`."""
        return [
            {
                "kind": [kind.what, kind.whom, kind.site],
                "sure": is_sure,
                "kept": list(errors.kept),
                "levels": [errors.low, errors.high],
                "counts": [errors.scored, errors.covered, errors.below, errors.above],
                "sums": [errors.width, errors.known, errors.off, errors.loss],
                "in_turn": [errors.in_turn, errors.until_ms],
            }
            for (kind, is_sure), errors in self._errors.items()
        ]

    @classmethod
    def recalled(cls, memory: Iterable[Mapping[str, Any]]) -> "Calibration":
        """Go on from what `memory` gave."""
        made = cls()
        for one in memory:
            errors = _Errors(
                deque(one["kept"], maxlen=KEPT), *one["levels"], *one["counts"], *one["sums"], *one["in_turn"]
            )
            made._errors[Kind(*one["kind"]), one["sure"]] = errors
        return made


def _in_order(kind: Kind, is_sure: bool) -> tuple[int, bool, bool, str, bool, str]:  # noqa: FBT001 - as it is kept
    return WHAT.index(kind.what), is_sure, not kind.whom, kind.whom, not kind.site, kind.site
