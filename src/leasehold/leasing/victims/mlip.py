"""MLIP: the fewest leases."""

from collections.abc import Sequence

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, VictimChoice
from leasehold.leasing.victims.minimal_sets import MinimalSets, two_lightest
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.pool import CandidatePool


class Mlip(VictimPolicy):
    """Which candidate set disturbs the fewest guests?

    Rule: the fewest leases; ties go to the least sum of ``cost_vm_ms``, then to the lowest lease numbers.
        Exact.
    Source: Salehi and Buyya, "Contention-aware Resource Management System in a Virtualized Grid
        Federation", section III.

    It serves the guests, for fewest of them wait longer, and tends to touch wide and dear leases.
    """

    name = "mlip"

    def choose_from(self, pool: CandidatePool, needed_vms: int) -> VictimChoice:
        """Choose among the cheapest of each width: no other can be in the two best sets."""
        return self.choose(pool.cheapest(needed_vms), needed_vms)

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose the set of fewest leases."""
        sets = MinimalSets(candidates, needed_vms)
        best, second = fewest_two(sets)
        return VictimChoice.optimal(best, second, sets.count, self.name)


def fewest_two(sets: MinimalSets) -> tuple[CandidateSet, CandidateSet | None]:
    """The set of fewest leases, and the next."""
    return two_lightest(sets, first=lambda _: 1, then=lambda lease: lease.cost_vm_ms)
