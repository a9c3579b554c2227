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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from math import comb
from operator import attrgetter, mul
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
        for index, width in enumerate(self._widths):
            ways = self._cumulated(index, rest)
            many = bisect_right(ways, random.randrange(ways[-1]))
            taken += sorted(random.sample(width.leases, many), key=_LEASE_ID)
            rest -= many * width.vms
            if rest <= 0:
                break
        return tuple(taken)

    def _cumulated(self, index: int, rest: int) -> list[int]:
        """In how many ways is ``rest`` covered with at most 0, 1, 2... leases of this width?"""
        if (index, rest) not in self._known:
            ways = self._widths[index].ways(rest, self._ways[index + 1])
            self._known[index, rest] = [*accumulate(ways)]
        return self._known[index, rest]

    @cached_property
    def _widths(self) -> "list[_Width]":
        """Each width with its leases, from wide to narrow."""
        return [_Width.of(vms, [*leases], self.needed_vms) for vms, leases in groupby(self.leases, key=_VMS)]

    @cached_property
    def _ways(self) -> list[list[int]]:
        """``[index][rest]``: how many walks cover ``rest`` VMs with widths from ``index`` on."""
        rows = [[1] + [0] * self.needed_vms]
        for width in reversed(self._widths):
            covering = [sum(width.ways(rest, rows[-1])) for rest in range(1, self.needed_vms + 1)]
            rows.append([1, *covering])
        return rows[::-1]


_VMS: Callable[[Candidate], Any] = attrgetter("vms")
_LEASE_ID: Callable[[Candidate], Any] = attrgetter("lease_id")


@dataclass(frozen=True, slots=True)
class _Width:
    """The leases of one width, and in how many ways 0, 1, 2... of them are chosen, as far as it matters."""

    vms: int
    leases: list[Candidate]
    choices: list[int]

    @classmethod
    def of(cls, vms: int, leases: list[Candidate], needed_vms: int) -> "_Width":
        """Count; no walk takes more of them than cover the need alone."""
        most = min(len(leases), -(-needed_vms // vms))
        return cls(vms, leases, [comb(len(leases), many) for many in range(most + 1)])

    def ways(self, rest: int, below: list[int]) -> Iterator[int]:
        """In how many ways is ``rest`` covered with 0, 1, 2... of these leases, and narrower ones?

        ``below[left]`` says in how many the narrower ones cover what is left. A walk ends as soon as it has
        covered the need, so it takes no more than that.
        """
        left = below[rest :: -self.vms]
        if rest % self.vms:
            left.append(below[0])
        return map(mul, self.choices, left)


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
