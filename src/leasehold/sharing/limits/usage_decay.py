"""Has a consumer used its share, past windows fading by how busy they were (section 3.2, eq 1)?

A window in which the provider was idle is soon forgotten: nobody was kept waiting in it.
"""

from leasehold.model.agreement import MILLION, UsageDecay
from leasehold.sharing.decay import decayed_ppm, step_factor_ppm, weights_ppm, window_bounds_ms
from leasehold.sharing.limits.usage import Over, Usage, first_room_ms, next_bound_ms


def usage_decay_over(limit: UsageDecay, usage: Usage, now_ms: int) -> Over | None:
    """Say how far a consumer's decayed usage is over its share; None if it is not."""
    used_ppm = decayed_usage_ppm(limit, usage, now_ms)
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
    """Give DU of eq 1, ppm of what the provider has."""
    bounds = window_bounds_ms(now_ms, limit.window_ms, limit.windows)
    used = [usage.used(begin_ms, end_ms) for begin_ms, end_ms in bounds]
    past = [step_factor_ppm(usage.busy_ppm(begin_ms, end_ms), limit.steps) for begin_ms, end_ms in bounds[1:]]
    weights = [MILLION, *weights_ppm(past)]
    return decayed_ppm(used, weights, usage.whole(limit.window_ms), normalise=limit.normalise)
