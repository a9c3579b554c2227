"""When does something befall a node by chance? Never remembered, and always the same.

Time is cut into stretches, in each of which as much befalls a node on average, and chance is drawn anew for
each stretch. So what comes next can be said at any time without knowing what came before.
"""

from collections.abc import Callable
from itertools import count
from math import ceil
from random import Random

_MS_PER_HOUR = 3_600_000
_IN_EACH_STRETCH = 8

Luck = Callable[..., Random]
"""Gives the random stream that belongs to what is asked about."""


def next_fate_ms(luck: Luck, per_hour: float, about: tuple[str, str], after_ms: int) -> int:
    """When what happens so often in an hour on average happens next, later than ``after_ms``."""
    stretch_ms = ceil(_IN_EACH_STRETCH * _MS_PER_HOUR / per_hour)
    for number in count(after_ms // stretch_ms):
        drawn, at_ms = luck(*about, number), float(number * stretch_ms)
        while True:
            at_ms += drawn.expovariate(per_hour) * _MS_PER_HOUR
            if at_ms >= (number + 1) * stretch_ms:
                break
            if at_ms >= after_ms + 1:
                return int(at_ms)
    raise AssertionError("there is always another stretch")
