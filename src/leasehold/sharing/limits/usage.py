"""What a limit looks at, and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass, field

from leasehold.model.agreement import MILLION
from leasehold.sharing.decay import NOTHING_PAST, Past
from leasehold.sharing.ledger import AccountKey, Ledger, of_everybody


@dataclass(frozen=True, slots=True)
class Over:
    """A share is used up: used and limit in ppm of what the provider has, over ``window_ms``.

    ``over_until_ms``  before this it stays so, whatever happens: use in a window only grows
    ``next_ms``        when there is room again if use goes on as it is, None if it never is
    """

    used_ppm: int
    limit_ppm: int
    window_ms: int
    over_until_ms: int
    next_ms: int | None


@dataclass(slots=True)
class Memory:
    """Past windows as they were summed up in the window that began at ``begin_ms``: in it they stay so."""

    begin_ms: int = -1
    past: Past = NOTHING_PAST


@dataclass(frozen=True, slots=True)
class Usage:
    """One account, as the limits read it; ``memory`` spares summing the past up at each question."""

    ledger: Ledger
    key: AccountKey
    memory: Memory = field(default_factory=Memory)
    more_units: int = 0
    more_from_ms: int = 0

    def with_more(self, units: int, from_ms: int) -> "Usage":
        """Read the account as it would be if so many units more were held from a moment on."""
        return Usage(self.ledger, self.key, more_units=units, more_from_ms=from_ms)

    def past(self, begin_ms: int, sum_up: Callable[[int], Past]) -> Past:
        """Give the windows before the present one, which began at this moment."""
        if self.memory.begin_ms != begin_ms:
            self.memory.begin_ms, self.memory.past = begin_ms, sum_up(begin_ms)
        return self.memory.past

    def used(self, from_ms: int, to_ms: int) -> int:
        """Give what the consumer used between two moments, unit-ms; to come: if it goes on as it is."""
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
        """Give how busy the provider's CPUs were between two moments, whoever used them, ppm."""
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
