"""Every kind of limit, and what it looks at."""

from leasehold.model.agreement import Commitment, Limit, NoLimit, TimeDecay, UsageDecay
from leasehold.sharing.limits.commitment import commitment_over
from leasehold.sharing.limits.time_decay import time_decay_over
from leasehold.sharing.limits.usage import Over, Usage, next_bound_ms
from leasehold.sharing.limits.usage_decay import usage_decay_over


def over(limit: Limit, usage: Usage, now_ms: int) -> Over | None:
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


def stays_below(limit: Limit, usage: Usage, units: int, now_ms: int) -> bool:
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
