"""Least lost: the least work since the last checkpoint."""

from collections.abc import Sequence

from leasehold.leasing.victims.candidate import Candidate, VictimChoice, cost_of
from leasehold.leasing.victims.minimal_sets import MinimalSets, two_lightest
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.pool import CandidatePool


class LeastLost(VictimPolicy):
    """Which candidate set has least work to lose since its guests' last checkpoints?

    Rule: the least sum of ``lost_vm_ms``, VM-milliseconds of work that would have to be done again; ties go to the
        least overhead, then to fewer leases, then to the lowest lease numbers. Exact.

    A guest whose memory is saved loses nothing. One that is terminated loses what it did since it last reported a
    checkpoint (``leasehold lease checkpointed``), or since it began: where lease types come first (``by-value:``),
    this chooses among Cancelable guests.
    """

    name = "least-lost"

    def choose_from(self, pool: CandidatePool, needed_vms: int) -> VictimChoice:
        """Choose among those of each width that would lose least: no other can be in the two best sets."""
        return self.choose(pool.of_use(needed_vms), needed_vms)

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose the set of least lost work."""
        sets = MinimalSets(candidates, needed_vms)
        limit = 1 + cost_of(candidates)
        best, second = two_lightest(
            sets, first=lambda lease: lease.lost_vm_ms * limit + lease.cost_vm_ms, then=lambda _: 1
        )
        return VictimChoice.optimal(best, second, sets.count, self.name)
