"""Has a consumer used its share, what it used in past windows counting for less (section 4.1, decay)?

The factors weigh the windows directly, the present one first; how busy the provider was does not matter.
"""

from functools import cache

from leasehold.model.agreement import TimeDecay
from leasehold.sharing.decay import Past, past_windows_ms
from leasehold.sharing.limits.decaying import Decaying
from leasehold.sharing.limits.usage import Over, Usage


def time_decay_over(limit: TimeDecay, usage: Usage, now_ms: int) -> Over | None:
    """Say how far a consumer's decayed usage is over its share; None if it is not."""
    return _decaying(limit, usage).over(now_ms)


def decayed_usage_ppm(limit: TimeDecay, usage: Usage, now_ms: int) -> int:
    """Give the use of all windows together, each weighed by its factor, ppm of what the provider has."""
    return _decaying(limit, usage).used_ppm(now_ms)


def _decaying(limit: TimeDecay, usage: Usage) -> Decaying:
    weight_now, *factors_ppm = limit.factors_ppm
    used = cache(usage.used)  # the windows before one bound are nearly those before the next

    def past_before(begin_ms: int) -> Past:
        bounds = past_windows_ms(begin_ms, limit.window_ms, len(factors_ppm))
        return Past.of([used(*bound) for bound in bounds], factors_ppm)

    return Decaying(limit, usage, len(factors_ppm), past_before, weight_now)
