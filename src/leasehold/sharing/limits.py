"""The kinds of limit: has a consumer used what it may?

Each is asked before a request is admitted, about what was used so far: average use has to be *below* the
limit (Dumitrescu et al. 2007, section 4.1).

Commitment: use in its epoch and in its burst. Both averages have to be below their limits, as printed. With "or"
the burst limit alone would bind, and results would be those of no limit at all. Epochs and bursts are aligned.

Decay: what was used long ago counts for less (section 3.2, eq 1), ``DU = U_0 + sum over i of U_i * F_1(S_1) * ... *
F_i(S_i)``. Windows are aligned: window 0 is the present one as far as it has gone, window 1 the one before it, and
so on; U_i is the consumer's use in window i as a share of what the provider has in a whole window, S_i that of all.
With `TimeDecay` the factors weigh the windows directly, the present one first, however busy the provider was. With
`UsageDecay` a window in which the provider was idle is soon forgotten: it delayed no other consumer.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from leasehold.model.agreement import MILLION, Commitment, Limit, NoLimit, TimeDecay, UsageDecay
from leasehold.sharing.ledger import AccountKey, UsageLedger, of_everybody


def past_windows_ms(begin_ms: int, window_ms: int, past: int) -> list[tuple[int, int]]:
    """Give begin and end of so many windows before the one that began at this moment, the latest first."""
    return [(begin_ms - i * window_ms, begin_ms - (i - 1) * window_ms) for i in range(1, past + 1)]


def weights_ppm(factors_ppm: Iterable[int]) -> list[int]:
    """Give the weight of each past window: the product of the factors up to it, rounded down to the ppm."""
    weights, weight = [], MILLION
    for factor_ppm in factors_ppm:
        weight = weight * factor_ppm // MILLION
        weights.append(weight)
    return weights


@dataclass(frozen=True, slots=True)
class PastUse:
    """All past windows: what was used in each times its weight, summed up (unit-ms ppm), and all weights."""

    weighed: int
    weights_ppm: int

    @classmethod
    def of(cls, used: Sequence[int], weights: Sequence[int]) -> "PastUse":
        """Sum up what was used in each past window (unit-ms), and the weight of each (ppm)."""
        return cls(sum(use * weight for use, weight in zip(used, weights, strict=True)), sum(weights))


NOTHING_PAST = PastUse(0, 0)


def decayed_ppm(used_now: int, past: PastUse, whole: int, *, normalise: bool, weight_now: int = MILLION) -> int:
    """Give decayed usage in ppm of what the provider has, rounded down.

    ``used_now``    what the consumer used in the present window so far (unit-ms), of weight ``weight_now``
    ``whole``       what the provider has in one window, unit-ms; of a provider that has nothing all is used
    ``normalise``   divide by the sum of all weights
    """
    if whole <= 0:
        return MILLION
    weighed = used_now * weight_now + past.weighed
    if not normalise:
        return weighed // whole
    return weighed * MILLION // (whole * ((weight_now + past.weights_ppm) or MILLION))


def step_factor_ppm(utilisation_ppm: int, steps: Iterable[tuple[int, int]]) -> int:
    """Give the factor for a window in which the provider was this busy: that of the highest step reached.

    The printed pairs would be the identity if one interpolated between them, and slow, medium and fast decay
    would not differ; so a step holds until the next one. Below all steps nothing of it counts.
    """
    reached = [step for step in steps if step[0] <= utilisation_ppm]
    return max(reached)[1] if reached else 0


@dataclass(frozen=True, slots=True)
class Over:
    """A share is used up: used and limit in ppm of what the provider has, over ``window_ms``.

    ``over_until_ms``  before this it stays so, whatever happens: use in a window only grows
    ``next_ms``        when there is room again if use continues unchanged, None if never
    """

    used_ppm: int
    limit_ppm: int
    window_ms: int
    over_until_ms: int
    next_ms: int | None


@dataclass(slots=True)
class PastMemory:
    """Past windows as they were summed up in the window that began at ``begin_ms``: in it they stay so."""

    begin_ms: int = -1
    past: PastUse = NOTHING_PAST


@dataclass(frozen=True, slots=True)
class AccountUsage:
    """One account, as the limits read it; ``memory`` spares summing the past up at each question."""

    ledger: UsageLedger
    key: AccountKey
    memory: PastMemory = field(default_factory=PastMemory)
    more_units: int = 0
    more_from_ms: int = 0

    def with_more(self, units: int, from_ms: int) -> "AccountUsage":
        """Read the account as it would be if so many units more were held from a moment on."""
        return AccountUsage(self.ledger, self.key, more_units=units, more_from_ms=from_ms)

    def past(self, begin_ms: int, sum_up: Callable[[int], PastUse]) -> PastUse:
        """Give the windows before the present one, which began at this moment."""
        if self.memory.begin_ms != begin_ms:
            self.memory.begin_ms, self.memory.past = begin_ms, sum_up(begin_ms)
        return self.memory.past

    def used(self, from_ms: int, to_ms: int) -> int:
        """Return the consumer's usage between two moments, unit-ms; in the future, extrapolated."""
        used = self.ledger.used(self.key, from_ms, to_ms)
        return used + self.more_units * max(0, to_ms - max(from_ms, self.more_from_ms))

    def whole(self, window_ms: int) -> int:
        """Give what the provider has in a window, unit-ms."""
        return self.ledger.capacity(self.key) * window_ms

    def share_ppm(self, from_ms: int, to_ms: int, window_ms: int) -> int:
        """Give what was used between two moments as a share of a whole window, ppm rounded down."""
        whole = self.whole(window_ms)
        return self.used(from_ms, to_ms) * MILLION // whole if whole else MILLION

    def busy_ppm(self, from_ms: int, to_ms: int) -> int:
        """Return the utilisation of the provider's CPUs by all consumers between two moments, ppm."""
        key = of_everybody(self.key)
        whole = self.ledger.capacity(key) * (to_ms - from_ms)
        return self.ledger.used(key, from_ms, to_ms) * MILLION // whole if whole > 0 else 0


def next_bound_ms(now_ms: int, window_ms: int) -> int:
    """When the present window ends."""
    return now_ms - now_ms % window_ms + window_ms


def first_room_ms(is_over_at: Callable[[int], bool], now_ms: int, window_ms: int, bounds: int) -> int | None:
    """Look for room at the next bounds of windows: nowhere else can there be any."""
    bound_ms = next_bound_ms(now_ms, window_ms)
    for at_ms in range(bound_ms, bound_ms + bounds * window_ms, window_ms):
        if not is_over_at(at_ms):
            return at_ms
    return None


def commitment_over(limit: Commitment, usage: AccountUsage, now_ms: int) -> Over | None:
    """Say how far a consumer is over its commitment; None if it is not."""
    overs = [
        _over_in(usage, now_ms, limit.epoch_ppm, limit.epoch_ms),
        _over_in(usage, now_ms, limit.burst_ppm, limit.burst_ms),
    ]
    return max((over for over in overs if over is not None), key=lambda over: over.over_until_ms, default=None)


def _over_in(usage: AccountUsage, now_ms: int, limit_ppm: int, window_ms: int) -> Over | None:
    used_ppm = usage.share_ppm(now_ms - now_ms % window_ms, now_ms, window_ms)
    if used_ppm < limit_ppm:
        return None
    bound_ms = next_bound_ms(now_ms, window_ms)
    return Over(used_ppm, limit_ppm, window_ms, bound_ms, bound_ms if limit_ppm else None)


@dataclass(slots=True)
class Decaying:
    """A limit on the decayed usage of an account.

    ``past_windows``  how many windows before the present one may count
    ``past_before``   what was used in them, before a window that began at a moment (ms)
    ``weight_now``    what the present window weighs, ppm
    """

    limit: TimeDecay | UsageDecay
    usage: AccountUsage
    past_windows: int
    past_before: Callable[[int], PastUse]
    weight_now: int = MILLION

    def over(self, now_ms: int) -> Over | None:
        """Say how far the consumer is over its share; None if it is not."""
        share_ppm, window_ms = self.limit.share_ppm, self.limit.window_ms
        begin_ms = now_ms - now_ms % window_ms
        used_ppm = self._with(self.usage.past(begin_ms, self.past_before), begin_ms, now_ms)
        if used_ppm < share_ppm:
            return None
        next_ms = first_room_ms(
            lambda at_ms: self.used_ppm(at_ms) >= share_ppm, now_ms, window_ms, self.past_windows + 2
        )
        return Over(used_ppm, share_ppm, window_ms, next_bound_ms(now_ms, window_ms), next_ms)

    def used_ppm(self, now_ms: int) -> int:
        """Return decayed usage, ppm of the provider's capacity; in the future, extrapolated."""
        begin_ms = now_ms - now_ms % self.limit.window_ms
        return self._with(self.past_before(begin_ms), begin_ms, now_ms)

    def _with(self, past: PastUse, begin_ms: int, now_ms: int) -> int:
        used, whole = self.usage.used(begin_ms, now_ms), self.usage.whole(self.limit.window_ms)
        return decayed_ppm(used, past, whole, normalise=self.limit.normalise, weight_now=self.weight_now)


def time_decay_over(limit: TimeDecay, usage: AccountUsage, now_ms: int) -> Over | None:
    """Say how far a consumer's decayed usage is over its share; None if it is not."""
    return _time_decaying(limit, usage).over(now_ms)


def time_decayed_ppm(limit: TimeDecay, usage: AccountUsage, now_ms: int) -> int:
    """Give the use of all windows together, each weighed by its factor, ppm of what the provider has."""
    return _time_decaying(limit, usage).used_ppm(now_ms)


def _time_decaying(limit: TimeDecay, usage: AccountUsage) -> Decaying:
    weight_now, *factors_ppm = limit.factors_ppm
    used = cache(usage.used)  # the windows before one bound are nearly those before the next

    def past_before(begin_ms: int) -> PastUse:
        bounds = past_windows_ms(begin_ms, limit.window_ms, len(factors_ppm))
        return PastUse.of([used(*bound) for bound in bounds], factors_ppm)

    return Decaying(limit, usage, len(factors_ppm), past_before, weight_now)


def usage_decay_over(limit: UsageDecay, usage: AccountUsage, now_ms: int) -> Over | None:
    """Say how far a consumer's decayed usage is over its share; None if it is not."""
    return _usage_decaying(limit, usage).over(now_ms)


def usage_decayed_ppm(limit: UsageDecay, usage: AccountUsage, now_ms: int) -> int:
    """Give DU of eq 1, ppm of what the provider has."""
    return _usage_decaying(limit, usage).used_ppm(now_ms)


def _usage_decaying(limit: UsageDecay, usage: AccountUsage) -> Decaying:
    used = cache(usage.used)  # the windows before one bound are nearly those before the next

    @cache
    def factor_ppm(from_ms: int, to_ms: int) -> int:
        return step_factor_ppm(usage.busy_ppm(from_ms, to_ms), limit.steps)

    def past_before(begin_ms: int) -> PastUse:
        bounds = past_windows_ms(begin_ms, limit.window_ms, limit.windows)
        weights = weights_ppm(factor_ppm(*bound) for bound in bounds)
        return PastUse.of([used(*bound) for bound in bounds], weights)

    return Decaying(limit, usage, limit.windows, past_before)


def over(limit: Limit, usage: AccountUsage, now_ms: int) -> Over | None:
    """Say how far a consumer is over its limit; None if it is not."""
    match limit:
        case NoLimit():
            return None
        case Commitment():
            return commitment_over(limit, usage, now_ms)
        case TimeDecay():
            return time_decay_over(limit, usage, now_ms)
        case UsageDecay():
            return usage_decay_over(limit, usage, now_ms)


def stays_below(limit: Limit, usage: AccountUsage, units: int, now_ms: int) -> bool:
    """Whether a consumer stays below its limit in the present windows with so many units more from now on."""
    expected = usage.with_more(units, now_ms)
    ends = (next_bound_ms(now_ms, window_ms) for window_ms in windows_ms(limit))
    return all(over(limit, expected, end_ms - 1) is None for end_ms in ends)


def windows_ms(limit: Limit) -> tuple[int, ...]:
    """Give the lengths of the windows that a limit looks at."""
    match limit:
        case NoLimit():
            return ()
        case Commitment():
            return limit.epoch_ms, limit.burst_ms
        case TimeDecay() | UsageDecay():
            return (limit.window_ms,)


def reach_ms(limit: Limit) -> int:
    """Give how far back a limit may look."""
    match limit:
        case NoLimit():
            return 0
        case Commitment():
            return max(limit.epoch_ms, limit.burst_ms)
        case TimeDecay():
            return limit.window_ms * len(limit.factors_ppm)
        case UsageDecay():
            return limit.window_ms * (limit.windows + 1)
