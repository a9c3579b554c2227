"""Exact cover: the fewest VMs."""

from collections.abc import Callable, Sequence

from leasehold.leasing.victims.candidate import Candidate, VictimChoice, cost_of
from leasehold.leasing.victims.minimal_sets import MinimalSets, two_lightest
from leasehold.leasing.victims.policy import VictimPolicy


class ExactCover(VictimPolicy):
    """Which candidate set frees the fewest VMs beyond the need?

    Rule: the least sum of VMs; ties go to the leases that would have held their VMs longest (the greatest
        sum of VMs times planned end), then to the least sum of ``cost_vm_ms``, then to the lowest lease
        numbers. Exact.
    Source: subset sum, solved as a shortest walk; our own study of what preemption costs guests.

    With the order of the lease types before it (``by-value:exact-cover``) whole types go while a whole type
    is not enough, the last one is cut to fit, and what is too many by then is given back.
    """

    name = "exact-cover"

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose the set of fewest VMs."""
        sets = MinimalSets(candidates, needed_vms)
        best, second = two_lightest(sets, first=lambda lease: lease.vms, then=_tie_break(sets))
        return VictimChoice.optimal(best, second, sets.count, self.name)


def _tie_break(sets: MinimalSets) -> Callable[[Candidate], int]:
    """Weigh a lease so that sums order sets of equally many VMs: latest end first, then least cost.

    Of such sets, the one whose VMs are held longest is the one in which least is missing from the last end
    of all, whatever the time is now.
    """
    last_end_ms = max(lease.ends_ms for lease in sets.leases)
    cost_limit = 1 + cost_of(sets.leases)
    return lambda lease: lease.vms * (last_end_ms - lease.ends_ms) * cost_limit + lease.cost_vm_ms
