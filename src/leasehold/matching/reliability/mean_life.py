"""How long does a group of nodes last on average? Closed forms for exponential nodes that all run (MTTF).

Thamarai Selvi et al., section 5, print the integrals of R(t) from 0 to infinity and leave them there.
"""

import math
from collections.abc import Sequence
from itertools import combinations

from leasehold.matching.reliability.lifetimes import require_k_of_m, require_positive
from leasehold.model.errors import InvalidField

UNLIKE_AT_MOST = 12
"""Sums over all subsets double with each node, and their terms alternate; beyond this digits are lost."""


def mean_life_of_like_s(needed: int, nodes: int, rate_per_s: float) -> float:
    """How long do k of m nodes of the same rate last, in seconds?

    Rule: ``(1 / lambda) * sum over i from k to m of 1 / i``: while i nodes run, the next failure
    is 1 / (i lambda) away. For k = 1 this is ``H_m / lambda``.
    Source: the integral of the printed R(t), worked out.

    Raises InvalidField.
    """
    require_k_of_m(needed, nodes)
    require_positive("rate_per_s", rate_per_s)
    return math.fsum(1 / running for running in range(needed, nodes + 1)) / rate_per_s


def mean_life_of_unlike_s(needed: int, rates_per_s: Sequence[float]) -> float:
    """How long do k of m nodes with rates of their own last, in seconds?

    Rule: ``sum over r from k to m of (-1)^(r - k) C(r - 1, k - 1) * sum over all sets S of r nodes of 1 /
    sum(S)``.
    Source: inclusion and exclusion on the printed R(t), worked out.

    Raises InvalidField, also for more than twelve nodes.
    """
    require_k_of_m(needed, len(rates_per_s))
    if len(rates_per_s) > UNLIKE_AT_MOST:
        raise InvalidField("nodes", len(rates_per_s), f"at most {UNLIKE_AT_MOST} that differ")
    for rate in rates_per_s:
        require_positive("rate_per_s", rate)
    return math.fsum(
        (-1) ** (size - needed) * math.comb(size - 1, needed - 1) / math.fsum(chosen)
        for size in range(needed, len(rates_per_s) + 1)
        for chosen in combinations(rates_per_s, size)
    )
