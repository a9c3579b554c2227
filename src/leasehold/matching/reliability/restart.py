"""Cold copies of a job that begins anew: is it done by its deadline?"""

import math
from dataclasses import dataclass

from leasehold.matching.reliability.lifetimes import require_positive
from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True)
class Tries:
    """A job that is begun again, from its beginning, on the next of ``nodes`` like nodes when one fails.

    ``needs_s``     from the beginning of a try to its end: transfer and execution
    ``time_s``      from now to the deadline
    ``rate_per_s``  of a node's failures, exponential
    ``takeover_s``  from a failure until the next try begins

    Raises InvalidField.
    """

    needs_s: float
    time_s: float
    rate_per_s: float
    nodes: int
    takeover_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no job can be."""
        require_positive("needs_s", self.needs_s)
        require_positive("rate_per_s", self.rate_per_s)
        if self.nodes < 1 or self.takeover_s < 0:
            raise InvalidField("tries", self, "at least one node, and a takeover of at least 0 s")

    def reliability(self) -> float:
        """How likely is it done by the deadline?

        Rule: ``exp(-lambda x) * sum over i from 0 to m - 1 of G_i``; see `begins`.
        Source: the tries are independent; each has to last for the whole of x.
        """
        lasts = math.exp(-self.rate_per_s * self.needs_s)
        return lasts * math.fsum(self.begins(failures) for failures in range(self.nodes))

    def expected_node_s(self) -> float:
        """For how long are nodes at work on average, tries that fail and the last one together?

        A try takes ``E min(T, x) = (1 - exp(-lambda x)) / lambda``, and none is begun that would end too
        late.
        """
        one = -math.expm1(-self.rate_per_s * self.needs_s) / self.rate_per_s
        return one * math.fsum(self.begins(failures) for failures in range(self.nodes))

    def begins(self, failures: int) -> float:
        """How likely does a try begin, in time to end by the deadline, after so many that failed?

        Rule: each of i failures came within x, all together within ``s = D - x - i * takeover``: ``G_i =
        sum over j from 0 to i of (-1)^j C(i, j) exp(-lambda x j) Erlang_i(s - j x)``, with Erlang's
        distribution of i stages at rate lambda, and ``G_0 = 1`` for s of at least 0.
        Source: the transform of an exponential density cut off at x is that of the density less its own,
        delayed by x and times exp(-lambda x); the power of i, expanded.
        """
        spare_s = self.time_s - self.needs_s - failures * self.takeover_s
        if spare_s < 0:
            return 0.0
        return max(0.0, math.fsum(self._term(failures, delays, spare_s) for delays in range(failures + 1)))

    def _term(self, failures: int, delays: int, spare_s: float) -> float:
        weight = math.comb(failures, delays) * (-1 if delays % 2 else 1)
        cut = math.exp(-self.rate_per_s * self.needs_s * delays)
        return weight * cut * _erlang(failures, self.rate_per_s * (spare_s - delays * self.needs_s))


def _erlang(stages: int, expected: float) -> float:
    """How likely are so many stages over, when so many were to be expected by now?"""
    if expected < 0:
        return 0.0
    return 1.0 - math.exp(-expected) * math.fsum(expected**i / math.factorial(i) for i in range(stages))
