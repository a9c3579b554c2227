"""MOML: few leases among the cheaper half."""

from collections.abc import Collection, Sequence
from heapq import nsmallest
from random import Random

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, VictimChoice, cost_of, ids_of, in_order, vms_of
from leasehold.leasing.victims.minimal_sets import MinimalSets, fewest_within
from leasehold.leasing.victims.mlip import fewest_two
from leasehold.leasing.victims.mov import cheapest_two
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.pool import CandidatePool

MOST_LISTED = 6_500
"""Up to this many candidate sets are all listed, in about 10 ms. Always enough for 15 leases: no set contains
another, so they have at most C(15, 7) = 6,435 (Sperner)."""

DRAWN = 401
"""Above that so many are drawn for the median. Its rank is within 5 % of the middle, 19 times in 20:
1.96 * sqrt(0.25 / 401) = 0.049. Odd, so that there is one in the middle."""

MOST_CELLS = 150_000
"""And the search for the fewest leases fills at most so many table cells, in about 20 ms."""

MOST_COUNTED = 2_000_000
"""Where leases times needed VMs are more than this, sets are not counted and drawn: that takes 0.2 s there already."""


class Moml(VictimPolicy):
    """Which candidate set disturbs few guests, and is still not dear?

    Rule: of the candidate sets whose overhead is at most the median overhead of all, the one with the fewest
        leases; ties go to less overhead, then to fewer VMs freed beyond the need, then to the lowest lease
        numbers.
    Source: Salehi and Buyya, "Contention-aware Resource Management System in a Virtualized Grid
        Federation", section III, Algorithm 1, with the median taken once, after all overheads are known.

    Exact up to ``most_listed`` candidate sets. Above that the median is that of ``drawn`` sets, drawn with
    equal chances from a stream that the candidates themselves seed; the fewest leases within it are found
    exactly as long as ``most_cells`` table cells suffice, else among the drawn sets and the best of MOV and
    MLIP. Above ``most_counted`` leases times needed VMs a set may cost its share of what all candidates cost,
    by VMs, and the choice is between those of MLIP and MOV. The choice then says ``exact=False`` and how cheap any set
    could be. Either way it never preempts more leases than MOV.
    """

    name = "moml"

    def __init__(
        self,
        most_listed: int = MOST_LISTED,
        drawn: int = DRAWN,
        most_cells: int = MOST_CELLS,
        most_counted: int = MOST_COUNTED,
    ) -> None:
        self.most_listed = most_listed
        self.drawn = drawn
        self.most_cells = most_cells
        self.most_counted = most_counted

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose the set of fewest leases in the cheaper half."""
        return self._choose(MinimalSets(candidates, needed_vms), candidates, candidates)

    def choose_from(self, pool: CandidatePool, needed_vms: int) -> VictimChoice:
        """Count and draw sets of all, and search among the cheapest of each width: no other is in the best."""
        candidates = pool.candidates()
        return self._choose(MinimalSets(candidates, needed_vms), candidates, pool.cheapest(needed_vms))

    def _choose(
        self, sets: MinimalSets, candidates: Sequence[Candidate], cheapest: Sequence[Candidate]
    ) -> VictimChoice:
        needed_vms = sets.needed_vms
        few = sets if len(cheapest) == len(candidates) else MinimalSets(cheapest, needed_vms)
        if len(candidates) * needed_vms > self.most_counted:
            return self._bounded(few, cost_of(candidates) * needed_vms // vms_of(candidates), [])
        if sets.count > self.most_listed:
            drawn = sets.drawn(self.drawn, Random(_seed(sets)))
            return self._bounded(few, median_overhead(drawn), drawn)
        return self._from_all(sets)

    def _from_all(self, sets: MinimalSets) -> VictimChoice:
        listed = sets.listed()
        best, second = _best_two(listed, median_overhead(listed), sets.needed_vms)
        return VictimChoice.optimal(best, second, len(listed), self.name)

    def _bounded(self, sets: MinimalSets, ceiling: int, drawn: Sequence[CandidateSet]) -> VictimChoice:
        """Choose the best by this ceiling of some drawn sets, those of MOV and MLIP, and what can be searched."""
        cheapest, fewest = cheapest_two(sets)[0], fewest_two(sets)[0]
        within = fewest_within(sets, ceiling, self.most_cells) if cost_of(fewest) > ceiling else []
        seen = {tuple([lease.lease_id for lease in one]): one for one in (*drawn, cheapest, fewest, *within)}
        best, second = _best_two(seen.values(), max(ceiling, cost_of(cheapest)), sets.needed_vms)
        return VictimChoice(
            victims=in_order(best),
            runner_up=in_order(second) if second else None,
            exact=False,
            bound_vm_ms=cost_of(cheapest),
            considered=len(seen),
            rule=self.name,
        )


def median_overhead(sets: Sequence[CandidateSet]) -> int:
    """The (lower) median: as a ceiling it admits the same sets as the mean of the two middle ones."""
    return sorted([cost_of(one) for one in sets])[(len(sets) - 1) // 2]


def _best_two(
    sets: Collection[CandidateSet], ceiling_vm_ms: int, needed_vms: int
) -> tuple[CandidateSet, CandidateSet | None]:
    """Of different sets, those within the ceiling before the others, each by the ties of the rule."""

    def rank(one: CandidateSet) -> tuple[bool, int, int, int, tuple[int, ...]]:
        cost_vm_ms = cost_of(one)
        return cost_vm_ms > ceiling_vm_ms, len(one), cost_vm_ms, vms_of(one) - needed_vms, ids_of(one)

    best, *others = nsmallest(2, sets, key=rank)
    return best, others[0] if others else None


def _seed(sets: MinimalSets) -> str:
    return repr([sets.needed_vms, *[(lease.lease_id, lease.vms, lease.cost_vm_ms) for lease in sets.leases]])
