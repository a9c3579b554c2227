"""Has a consumer used its share, what it used in past windows counting for less (section 4.1, decay)?

The factors weigh the windows directly, the present one first; how busy the provider was does not matter.
"""

from leasehold.model.agreement import TimeDecay
from leasehold.sharing.decay import Past, decayed_ppm, past_windows_ms
from leasehold.sharing.limits.usage import Over, Usage, first_room_ms, next_bound_ms


def time_decay_over(limit: TimeDecay, usage: Usage, now_ms: int) -> Over | None:
    """Say how far a consumer's decayed usage is over its share; None if it is not."""
    begin_ms = now_ms - now_ms % limit.window_ms
    past = usage.past(begin_ms, lambda at_ms: _past(limit, usage, at_ms))
    used_ppm = _decayed_ppm(limit, usage, past, begin_ms, now_ms)
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
    """Give the use of all windows together, each weighed by its factor, ppm of what the provider has.

    Of a time to come: what it would be if use goes on as it is.
    """
    begin_ms = now_ms - now_ms % limit.window_ms
    return _decayed_ppm(limit, usage, _past(limit, usage, begin_ms), begin_ms, now_ms)


def _past(limit: TimeDecay, usage: Usage, begin_ms: int) -> Past:
    factors_ppm = limit.factors_ppm[1:]
    bounds = past_windows_ms(begin_ms, limit.window_ms, len(factors_ppm))
    return Past.of([usage.used(*bound) for bound in bounds], factors_ppm)


def _decayed_ppm(limit: TimeDecay, usage: Usage, past: Past, begin_ms: int, now_ms: int) -> int:
    used, whole = usage.used(begin_ms, now_ms), usage.whole(limit.window_ms)
    return decayed_ppm(used, past, whole, normalise=limit.normalise, weight_now=limit.factors_ppm[0])
