"""Has a consumer used its share, past windows fading by how busy they were (section 3.2, eq 1)?

A window in which the provider was idle is soon forgotten: nobody was kept waiting in it.
"""

from functools import cache

from leasehold.model.agreement import UsageDecay
from leasehold.sharing.decay import Past, past_windows_ms, step_factor_ppm, weights_ppm
from leasehold.sharing.limits.decaying import Decaying
from leasehold.sharing.limits.usage import Over, Usage


def usage_decay_over(limit: UsageDecay, usage: Usage, now_ms: int) -> Over | None:
    """Say how far a consumer's decayed usage is over its share; None if it is not."""
    return _decaying(limit, usage).over(now_ms)


def decayed_usage_ppm(limit: UsageDecay, usage: Usage, now_ms: int) -> int:
    """Give DU of eq 1, ppm of what the provider has."""
    return _decaying(limit, usage).used_ppm(now_ms)


def _decaying(limit: UsageDecay, usage: Usage) -> Decaying:
    used = cache(usage.used)  # the windows before one bound are nearly those before the next

    @cache
    def factor_ppm(from_ms: int, to_ms: int) -> int:
        return step_factor_ppm(usage.busy_ppm(from_ms, to_ms), limit.steps)

    def past_before(begin_ms: int) -> Past:
        bounds = past_windows_ms(begin_ms, limit.window_ms, limit.windows)
        weights = weights_ppm(factor_ppm(*bound) for bound in bounds)
        return Past.of([used(*bound) for bound in bounds], weights)

    return Decaying(limit, usage, limit.windows, past_before)
