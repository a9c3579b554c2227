"""In which order do requests go to the clusters, once their shares are known?

A dispatcher is made for one list of shares and answers with positions in that list.
"""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import accumulate
from random import Random
from typing import Protocol

from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType


class Dispatcher(Protocol):
    """Chooses the cluster of the next request, given its type."""

    def next(self, lease_type: LeaseType) -> int:
        """Give the position of the chosen cluster."""
        ...


class Bernoulli:
    """Drawn at random with the shares as probabilities, without memory: the RND of JPDC 2012, section 5.2.1.

    Shares need not sum to one. Raises InvalidField when none is above zero.
    """

    def __init__(self, proportions: Sequence[float], random: Random) -> None:
        self._positions = _with_a_share(proportions)
        self._upto = list(accumulate(proportions[i] for i in self._positions))
        self._random = random

    def next(self, lease_type: LeaseType) -> int:  # noqa: ARG002 - a draw does not look at the type
        """Draw the next cluster."""
        # random() stays far enough below 1 that the product stays below the total, rounded too
        return self._positions[bisect_right(self._upto, self._random.random() * self._upto[-1])]


class Billiard:
    """A deterministic sequence that keeps to the shares as closely as whole requests can.

    Rule: the next request goes to the argmin of (X_j + Y_j) / P_j, ties to the lowest position;
    Y_j counts what cluster j got, X_j is 1 for the fastest cluster and 0 for the others
    (Hordijk and van der Laan's billiard sequence; JPDC 2012, eq 20, printed as min for argmin).
    X only shifts the start. A heap of the quotients makes each step logarithmic in the clusters.
    """

    def __init__(self, proportions: Sequence[float], fastest: int) -> None:
        self._proportions = proportions
        self._turns = {i: int(i == fastest) for i in _with_a_share(proportions)}
        self._queue = [(turns / proportions[i], i) for i, turns in self._turns.items()]
        heapify(self._queue)

    def next(self) -> int:
        """Give the next cluster and count it."""
        chosen = self._queue[0][1]
        self._turns[chosen] += 1
        heapreplace(self._queue, (self._turns[chosen] / self._proportions[chosen], chosen))
        return chosen


class Rtdp:
    """One billiard sequence for each lease type, so that every cluster gets a mixture of types.

    JPDC 2012, Algorithm 2. Its step 5 multiplies all shares of a type by the proportion of that type,
    which changes no argmin and is left out.
    """

    def __init__(self, proportions: Sequence[float], fastest: int) -> None:
        self._sequences = {kind: Billiard(proportions, fastest) for kind in LeaseType}

    def next(self, lease_type: LeaseType) -> int:
        """Give the next cluster for a request of this type."""
        return self._sequences[lease_type].next()


def _with_a_share(proportions: Sequence[float]) -> list[int]:
    positions = [i for i, share in enumerate(proportions) if share > 0]
    if not positions:
        raise InvalidField("proportions", list(proportions), "at least one share above 0")
    return positions
