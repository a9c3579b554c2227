"""Has a consumer used its share, what it used in past windows counting for less (section 4.1, decay)?

The factors weigh the windows directly, the present one first; how busy the provider was does not matter.
"""

from leasehold.model.agreement import TimeDecay
from leasehold.sharing.decay import decayed_ppm, window_bounds_ms
from leasehold.sharing.limits.usage import Over, Usage, first_room_ms, next_bound_ms


def time_decay_over(limit: TimeDecay, usage: Usage, now_ms: int) -> Over | None:
    """Say how far a consumer's decayed usage is over its share; None if it is not."""
    used_ppm = decayed_usage_ppm(limit, usage, now_ms)
    if used_ppm < limit.share_ppm:
        return None
    next_ms = first_room_ms(
        lambda at_ms: decayed_usage_ppm(limit, usage, at_ms) >= limit.share_ppm,
        now_ms,
        limit.window_ms,
        len(limit.factors_ppm) + 1,
    )
    until_ms = next_bound_ms(now_ms, limit.window_ms)
    return Over(used_ppm, limit.share_ppm, limit.window_ms, until_ms, next_ms)


def decayed_usage_ppm(limit: TimeDecay, usage: Usage, now_ms: int) -> int:
    """Give the use of all windows together, each weighed by its factor, ppm of what the provider has."""
    bounds = window_bounds_ms(now_ms, limit.window_ms, len(limit.factors_ppm) - 1)
    used = [usage.used(begin_ms, end_ms) for begin_ms, end_ms in bounds]
    whole = usage.whole(limit.window_ms)
    return decayed_ppm(used, limit.factors_ppm, whole, normalise=limit.normalise)
