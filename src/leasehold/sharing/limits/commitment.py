"""Has a consumer used its epoch or its burst (Dumitrescu et al. 2007, section 4.1, commitment-limit)?

Both averages have to be below their limits, as printed. With "or" the burst limit alone would bind, and
results would be those of no limit at all. Epochs and bursts are aligned.
"""

from leasehold.model.agreement import Commitment
from leasehold.sharing.limits.usage import Over, Usage, next_bound_ms


def commitment_over(limit: Commitment, usage: Usage, now_ms: int) -> Over | None:
    """Say how far a consumer is over its commitment; None if it is not."""
    overs = [
        _over(usage, now_ms, limit.epoch_ppm, limit.epoch_ms),
        _over(usage, now_ms, limit.burst_ppm, limit.burst_ms),
    ]
    return max((over for over in overs if over is not None), key=lambda over: over.over_until_ms, default=None)


def _over(usage: Usage, now_ms: int, limit_ppm: int, window_ms: int) -> Over | None:
    used_ppm = usage.share_ppm(now_ms - now_ms % window_ms, now_ms, window_ms)
    if used_ppm < limit_ppm:
        return None
    bound_ms = next_bound_ms(now_ms, window_ms)
    return Over(used_ppm, limit_ppm, window_ms, bound_ms, bound_ms if limit_ppm else None)
