"""MOV: the least overhead."""

from collections.abc import Sequence

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, VictimChoice
from leasehold.leasing.victims.minimal_sets import MinimalSets, least_weight, two_lightest
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.pool import CandidatePool


class Mov(VictimPolicy):
    """Which candidate set is cheapest to preempt?

    Rule: the least sum of ``cost_vm_ms``; ties go to fewer leases, then to the lowest lease numbers. Exact.
    Source: Salehi and Buyya, "Contention-aware Resource Management System in a Virtualized Grid
        Federation", section III.

    It serves the site, for least time is lost, and tends to touch many small leases.
    """

    name = "mov"

    def choose_from(self, pool: CandidatePool, needed_vms: int) -> VictimChoice:
        """Choose among the cheapest of each width: no other can be in the two best sets."""
        return self.choose(pool.cheapest(needed_vms), needed_vms)

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose the set of least overhead."""
        sets = MinimalSets(candidates, needed_vms)
        best, second = cheapest_two(sets)
        return VictimChoice.optimal(best, second, sets.count, self.name)


def cheapest_two(sets: MinimalSets) -> tuple[CandidateSet, CandidateSet | None]:
    """The set of least overhead, and the next."""
    return two_lightest(sets, first=lambda lease: lease.cost_vm_ms, then=lambda _: 1)


def least_cost_vm_ms(sets: MinimalSets) -> int:
    """What the cheapest set is charged: the bound that other policies are measured against."""
    return least_weight(sets, lambda lease: lease.cost_vm_ms)
