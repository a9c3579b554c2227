"""Which candidate sets are there, and how many?

Go through the leases from the widest to the narrowest, take or pass each, and stop as soon as the taken
ones cover the need. The last one taken is the narrowest and was still needed, so none is superfluous; and
every inclusion-minimal set, written from wide to narrow, is such a walk. So **walks and candidate sets are
the same thing**, and a table over (next lease, VMs still needed) counts them without listing them, draws
one of them with equal chances, and (`lightest`, `fewest_within`) finds the best. The tables are of the size
leases times needed VMs.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, chain, repeat
from random import Random

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
        return [self._numbered(random.randrange(self.count)) for _ in range(draws)]

    def _numbered(self, number: int) -> CandidateSet:
        """The set with this number, from 0 to `count` - 1."""
        taken: list[Candidate] = []
        rest = self.needed_vms
        for lease, vms, below in self._walk:
            ways = below[rest - vms] if rest > vms else 1
            if number >= ways:
                number -= ways
                continue
            taken.append(lease)
            rest -= vms
            if rest <= 0:
                break
        return tuple(taken)

    @cached_property
    def _walk(self) -> list[tuple[Candidate, int, list[int]]]:
        """Each lease with its VMs, and in how many ways those behind it cover whatever is still needed."""
        return [(lease, lease.vms, below) for lease, below in zip(self.leases, self._ways[1:], strict=True)]

    @cached_property
    def _ways(self) -> list[list[int]]:
        """``[index][rest]``: how many walks cover ``rest`` VMs with leases from ``index`` on."""
        rows = [[1] + [0] * self.needed_vms]
        for lease in reversed(self.leases):
            passed, taken = rows[-1], chain(repeat(1, lease.vms), rows[-1])
            row = [without + with_it for without, with_it in zip(passed, taken, strict=False)]
            row[0] = 1
            rows.append(row)
        return rows[::-1]
