"""Cold copies on nodes that differ, of a job that begins anew: is it done by its deadline?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from leasehold.matching.reliability.lifetimes import require_positive

# Abscissae and weights of Gauss and Legendre, 5 points, on (0, 1) (Abramowitz and Stegun, table 25.4).
_POINTS = tuple(
    ((1 + x) / 2, weight / 2)
    for x, weight in (
        (0.0, 0.5688888888888889),
        (-0.5384693101056831, 0.4786286704993665),
        (0.5384693101056831, 0.4786286704993665),
        (-0.9061798459386640, 0.2369268850561891),
        (0.9061798459386640, 0.2369268850561891),
    )
)


@dataclass(frozen=True, slots=True)
class Try:
    """One node: how long the job takes there, how often it fails, and what a second at work costs.

    Raises InvalidField for what is not above 0.
    """

    needs_s: float
    rate_per_s: float
    price_per_s: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what no node can be."""
        require_positive("needs_s", self.needs_s)
        require_positive("rate_per_s", self.rate_per_s)


@dataclass(frozen=True, slots=True)
class Outlook:
    """How likely a job is done by its deadline, and what its tries cost on average."""

    reliability: float
    cost: float


def in_turn(tries: Sequence[Try], time_s: float, takeover_s: float = 0.0) -> Outlook:
    """How sure are tries on unlike nodes, one after the other in this order?

    Rule: with x the time that the first needs, ``R(t) = exp(-lambda x) + integral from 0 to x of lambda
    exp(-lambda u) R_rest(t - u - takeover) du``; a node on which it would be too late is passed over.
    Source: the renewal equation. The integral is cut wherever one more try becomes too late, and each part is
    taken at five points: of like nodes it agrees with `leasehold.matching.reliability.restart` to 1e-6.
    Meant for up to four tries: the work is some ten times as much with each.
    """
    possible = [place for place, one in enumerate(tries) if one.needs_s <= time_s]
    if not possible:
        return Outlook(0.0, 0.0)
    first, rest = tries[possible[0]], tries[possible[0] + 1 :]
    lasts = math.exp(-first.rate_per_s * first.needs_s)
    own = first.price_per_s * -math.expm1(-first.rate_per_s * first.needs_s) / first.rate_per_s
    later = [Outlook(0.0, 0.0)] if not rest else _after(first, rest, time_s, takeover_s)
    return Outlook(lasts + math.fsum(one.reliability for one in later), own + math.fsum(one.cost for one in later))


def _after(first: Try, rest: Sequence[Try], time_s: float, takeover_s: float) -> list[Outlook]:
    """Give the parts of the integral over the moment at which the first try fails."""
    parts = []
    for begin, end in pairwise(_cuts(first, rest, time_s, takeover_s)):
        for x, weight in _POINTS:
            failed_s = begin + (end - begin) * x
            density = first.rate_per_s * math.exp(-first.rate_per_s * failed_s) * weight * (end - begin)
            outlook = in_turn(rest, time_s - failed_s - takeover_s, takeover_s)
            parts.append(Outlook(density * outlook.reliability, density * outlook.cost))
    return parts


def _cuts(first: Try, rest: Sequence[Try], time_s: float, takeover_s: float) -> list[float]:
    """List the moments at which what can still follow a failure of the first try changes, with both ends.

    After so many more failures, each at once or at the end of its try, there is just time for one more.
    """
    cuts = {0.0, first.needs_s}
    for failures in range(1, len(rest) + 1):
        for size in range(1, failures + 1):
            for ended in combinations(rest, size):
                cut = time_s - failures * takeover_s - math.fsum(one.needs_s for one in ended)
                if 0 < cut < first.needs_s:
                    cuts.add(cut)
    return sorted(cuts)
