"""Which candidate set is lightest, and which is next, for weights that add up over its leases?

Exact at any size: the shortest and the second shortest walk (see `minimal_sets`) among those leases that can
be in them, by dynamic programming in time leases times needed VMs.
"""

from collections.abc import Callable
from itertools import chain, repeat
from typing import NamedTuple

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, ids_of
from leasehold.leasing.victims.minimal_sets import MinimalSets, contenders


def two_lightest(
    sets: MinimalSets, first: Callable[[Candidate], int], then: Callable[[Candidate], int]
) -> tuple[CandidateSet, CandidateSet | None]:
    """The best set and the next: least sum of ``first``, then of ``then``, then the lowest lease numbers.

    The weights are whole, not negative, and not both 0. Without a second set, None.
    """
    leases = contenders(sets, lambda lease: (first(lease), then(lease)), spare=1)
    few = MinimalSets(leases, sets.needed_vms)
    return _Walks(few, _weights(few, first, then)).two_best()


def _weights(sets: MinimalSets, first: Callable[[Candidate], int], then: Callable[[Candidate], int]) -> list[int]:
    """Weigh each lease by one integer whose sums order sets by first, then, lowest numbers.

    No two sets are equally heavy. The lowest bits hold the numbers: of two sets, the one with the smallest
    lease that is not in both comes first, so each lease weighs less than it, all later ones together, spare.
    """
    leases = sets.leases
    then_limit = 1 + sum(then(lease) for lease in leases)
    bit = {number: 1 << place for place, number in enumerate(reversed(ids_of(leases)))}
    return [((first(lease) * then_limit + then(lease)) << len(leases)) - bit[lease.lease_id] for lease in leases]


class _Detour(NamedTuple):
    """The best walk that leaves the best one at a given lease: what it took, and from where it goes on."""

    weight: int
    taken: CandidateSet
    start: int
    rest: int


class _Walks:
    def __init__(self, sets: MinimalSets, weights: list[int]) -> None:
        self.leases = sets.leases
        self.needed_vms = sets.needed_vms
        self.weights = weights
        self.unreachable = 1 + sum(weights)
        self.least = self._least_weights()

    def _least_weights(self) -> list[list[int]]:
        """``[index][rest]``: the least weight that covers ``rest`` VMs with leases from ``index`` on."""
        rows = [[0] + [self.unreachable] * self.needed_vms]
        for lease, weight in zip(reversed(self.leases), reversed(self.weights), strict=True):
            passed, taken = rows[-1], chain(repeat(0, lease.vms), rows[-1])
            row = [
                without if without < with_it + weight else with_it + weight
                for without, with_it in zip(passed, taken, strict=False)
            ]
            rows.append(row)
        return rows[::-1]

    def two_best(self) -> tuple[CandidateSet, CandidateSet | None]:
        best, detours = self._best_from(0, self.needed_vms)
        second = min(detours, key=lambda detour: detour.weight)
        if second.weight >= self.unreachable:
            return best, None
        return best, second.taken + self._best_from(second.start, second.rest)[0]

    def _best_from(self, start: int, rest: int) -> tuple[CandidateSet, list[_Detour]]:
        """The best walk from here, and each way to leave it; the second best walk takes one of those."""
        taken: CandidateSet = ()
        spent = 0
        detours: list[_Detour] = []
        while rest > 0:
            lease, weight = self.leases[start], self.weights[start]
            start += 1
            rest_with_it = max(0, rest - lease.vms)
            with_it = weight + self.least[start][rest_with_it]
            without = self.least[start][rest]
            if with_it < without:
                detours.append(_Detour(spent + without, taken, start, rest))
                taken, spent, rest = (*taken, lease), spent + weight, rest_with_it
            else:
                detours.append(_Detour(spent + with_it, (*taken, lease), start, rest_with_it))
        return taken, detours
