"""Which candidate sets are there, and how many?

Go through the leases from the widest to the narrowest, take or pass each, and stop as soon as the taken
ones cover the need. The last one taken is the narrowest and was still needed, so none is superfluous; and
every inclusion-minimal set, written from wide to narrow, is such a walk. So **walks and candidate sets are
the same thing**, and a table over (next lease, VMs still needed) counts them without listing them, draws
one of them with equal chances, and (`lightest`, `fewest_within`) finds the best.

Leases of equal width can stand in for each other. So counting and drawing go from width to width instead of
from lease to lease: how many of this width, then any so many of them. And the best sets take the best of
each width (`contenders`). However many guests run, tables are about as large as the need.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, groupby
from math import comb
from operator import attrgetter
from random import Random
from typing import Any

from leasehold.leasing.victims.candidate import Candidate, CandidateSet
from leasehold.leasing.victims.policy import check_candidates


class MinimalSets:
    """All inclusion-minimal sets of these candidates that hold at least ``needed_vms`` VMs.

    ``leases`` are the candidates from wide to narrow, ``held_from[i]`` is what those from i on hold together.
    Raises CannotCover or InvalidField.
    """

    def __init__(self, candidates: Sequence[Candidate], needed_vms: int) -> None:
        check_candidates(candidates, needed_vms)
        self.leases = tuple(sorted(candidates, key=lambda lease: (-lease.vms, lease.lease_id)))
        self.needed_vms = needed_vms
        narrow_to_wide = [lease.vms for lease in reversed(self.leases)]
        self.held_from = [*accumulate(narrow_to_wide, initial=0)][::-1]
        self._known: dict[tuple[int, int], list[int]] = {}

    @property
    def count(self) -> int:
        """How many sets there are."""
        return self._ways[0][self.needed_vms]

    def listed(self) -> list[CandidateSet]:
        """Every set, each from wide to narrow."""
        found: list[CandidateSet] = []
        begun: list[tuple[CandidateSet, int]] = [((), self.needed_vms)]
        for lease, held_after in zip(self.leases, self.held_from[1:], strict=True):
            found += [(*taken, lease) for taken, rest in begun if rest <= lease.vms]
            passing = [(taken, rest) for taken, rest in begun if rest <= held_after]
            begun = [((*taken, lease), rest - lease.vms) for taken, rest in begun if rest > lease.vms]
            begun += passing
        return found

    def drawn(self, draws: int, random: Random) -> list[CandidateSet]:
        """That many sets, drawn independently and with equal chances."""
        return [self._drawn(random) for _ in range(draws)]

    def _drawn(self, random: Random) -> CandidateSet:
        """Draw how many leases of each width, as often as there are sets with so many; then which."""
        taken: list[Candidate] = []
        rest = self.needed_vms
        for index, (vms, leases) in enumerate(self._widths):
            ways = self._cumulated(index, rest)
            many = bisect_right(ways, random.randrange(ways[-1]))
            taken += sorted(random.sample(leases, many), key=_LEASE_ID)
            rest -= many * vms
            if rest <= 0:
                break
        return tuple(taken)

    def _cumulated(self, index: int, rest: int) -> list[int]:
        """In how many ways is ``rest`` covered with at most 0, 1, 2... leases of this width?"""
        if (index, rest) not in self._known:
            vms, leases = self._widths[index]
            ways = _ways_by_number(vms, len(leases), rest, self._ways[index + 1])
            self._known[index, rest] = [*accumulate(ways)]
        return self._known[index, rest]

    @cached_property
    def _widths(self) -> list[tuple[int, list[Candidate]]]:
        """Each width with its leases, from wide to narrow."""
        return [(vms, list(leases)) for vms, leases in groupby(self.leases, key=_VMS)]

    @cached_property
    def _ways(self) -> list[list[int]]:
        """``[index][rest]``: how many walks cover ``rest`` VMs with widths from ``index`` on."""
        rows = [[1] + [0] * self.needed_vms]
        for vms, leases in reversed(self._widths):
            below, number = rows[-1], len(leases)
            covering = [
                sum(_ways_by_number(vms, number, rest, below)) for rest in range(1, self.needed_vms + 1)
            ]
            rows.append([1, *covering])
        return rows[::-1]


_VMS: Callable[[Candidate], Any] = attrgetter("vms")
_LEASE_ID: Callable[[Candidate], Any] = attrgetter("lease_id")


def _ways_by_number(vms: int, number: int, rest: int, below: list[int]) -> list[int]:
    """In how many ways is ``rest`` covered with 0, 1, 2... of ``number`` leases of this width?

    A walk ends as soon as it has covered the need, so it takes no more than that.
    """
    most = min(number, -(-rest // vms))
    return [comb(number, many) * below[max(0, rest - many * vms)] for many in range(most + 1)]


def contenders(sets: MinimalSets, rank: Callable[[Candidate], Any], spare: int = 0) -> list[Candidate]:
    """The leases that the lowest sets by sums of ``rank`` are made of: the lowest of each width.

    Of one width no set takes more than cover the need alone. One that takes another lease, and leaves one of
    the lowest out, is not the best: put that one in its place. With one ``spare`` there are two to put in
    its place, so that it is not the second best either.
    """
    found: list[Candidate] = []
    for vms, leases in groupby(sets.leases, key=_VMS):
        most = -(-sets.needed_vms // vms) + spare
        found += sorted(leases, key=lambda lease: (rank(lease), lease.lease_id))[:most]
    return found
