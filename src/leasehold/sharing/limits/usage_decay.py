"""Has a consumer used its share, past windows fading by how busy they were (section 3.2, eq 1)?

A window in which the provider was idle is soon forgotten: nobody was kept waiting in it.
"""

from leasehold.model.agreement import UsageDecay
from leasehold.sharing.decay import Past, decayed_ppm, past_windows_ms, step_factor_ppm, weights_ppm
from leasehold.sharing.limits.usage import Over, Usage, first_room_ms, next_bound_ms


def usage_decay_over(limit: UsageDecay, usage: Usage, now_ms: int) -> Over | None:
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
        limit.windows + 2,
    )
    until_ms = next_bound_ms(now_ms, limit.window_ms)
    return Over(used_ppm, limit.share_ppm, limit.window_ms, until_ms, next_ms)


def decayed_usage_ppm(limit: UsageDecay, usage: Usage, now_ms: int) -> int:
    """Give DU of eq 1, ppm of what the provider has; of a time to come: if use goes on as it is."""
    begin_ms = now_ms - now_ms % limit.window_ms
    return _decayed_ppm(limit, usage, _past(limit, usage, begin_ms), begin_ms, now_ms)


def _past(limit: UsageDecay, usage: Usage, begin_ms: int) -> Past:
    bounds = past_windows_ms(begin_ms, limit.window_ms, limit.windows)
    factors_ppm = [step_factor_ppm(usage.busy_ppm(*bound), limit.steps) for bound in bounds]
    return Past.of([usage.used(*bound) for bound in bounds], weights_ppm(factors_ppm))


def _decayed_ppm(limit: UsageDecay, usage: Usage, past: Past, begin_ms: int, now_ms: int) -> int:
    used, whole = usage.used(begin_ms, now_ms), usage.whole(limit.window_ms)
    return decayed_ppm(used, past, whole, normalise=limit.normalise)
