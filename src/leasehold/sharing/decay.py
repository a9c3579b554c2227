"""Decayed usage: what was used long ago counts for less (Dumitrescu et al. 2007, section 3.2, eq 1).

``DU = U_0 + sum over i of U_i * F_1(S_1) * ... * F_i(S_i)``

Windows are aligned: window 0 is the present one as far as it has gone, window 1 the one before it, and so on;
U_i is the consumer's use in window i as a share of what the provider has in a whole window, S_i everybody's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leasehold.model.agreement import MILLION


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
class Past:
    """All past windows: what was used in each times its weight, summed up (unit-ms ppm), and all weights."""

    weighed: int
    weights_ppm: int

    @classmethod
    def of(cls, used: Sequence[int], weights: Sequence[int]) -> "Past":
        """Sum up what was used in each past window (unit-ms), and the weight of each (ppm)."""
        return cls(sum(use * weight for use, weight in zip(used, weights, strict=True)), sum(weights))


NOTHING_PAST = Past(0, 0)


def decayed_ppm(used_now: int, past: Past, whole: int, *, normalise: bool, weight_now: int = MILLION) -> int:
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
