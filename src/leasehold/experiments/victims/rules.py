"""Which guests would others preempt? The documented rules of Kueue, Slurm and Haizea, as functions of ours.

Written from their documentation, for one cluster of equal VMs; no code of theirs. The value of the lease
types stands for what they call priority. Unlike a `VictimPolicy` they may choose sets from which a lease
could be left out.
"""

from collections.abc import Callable, Iterable, Sequence

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, vms_of
from leasehold.leasing.victims.from_function import without_superfluous

Rule = Callable[[Sequence[Candidate], int], CandidateSet]


def kueue(candidates: Sequence[Candidate], needed_vms: int) -> CandidateSet:
    """Lowest priority first, of equals the most recently admitted, until there is room; then back again.

    Classic preemption: what was taken is gone through in reverse, and leases that are not needed are spared.
    """
    order = sorted(candidates, key=lambda lease: (lease.lease_type, lease.ran_ms, -lease.lease_id))
    return without_superfluous(_until_there_is_room(order, needed_vms), needed_vms)


def slurm(candidates: Sequence[Candidate], needed_vms: int) -> CandidateSet:
    """Lowest priority first, of equals the narrowest, until there is room; then once in another order.

    With ``PreemptType=preempt/partition_prio`` and ``reorder_count=1``, its default.
    """
    order = sorted(candidates, key=lambda lease: (lease.lease_type, lease.vms, lease.lease_id))
    return _reordered(_until_there_is_room(order, needed_vms), needed_vms)


def slurm_youngest_first(candidates: Sequence[Candidate], needed_vms: int) -> CandidateSet:
    """The last to start first, until there is room; then once in another order.

    With ``PreemptParameters=youngest_first``, which sorts by start alone.
    """
    order = sorted(candidates, key=lambda lease: (lease.ran_ms, -lease.lease_id))
    return _reordered(_until_there_is_room(order, needed_vms), needed_vms)


def haizea(candidates: Sequence[Candidate], needed_vms: int) -> CandidateSet:
    """The last to be submitted first, one more each time until the request fits.

    Its greedy mapper with ``ar-preempts-everything``; no lease is spared afterwards.
    """
    order = sorted(candidates, key=lambda lease: -lease.lease_id)
    return _until_there_is_room(order, needed_vms)


def _until_there_is_room(order: Iterable[Candidate], needed_vms: int) -> CandidateSet:
    taken: list[Candidate] = []
    for lease in order:
        if vms_of(taken) >= needed_vms:
            break
        taken.append(lease)
    return tuple(taken)


def _reordered(taken: CandidateSet, needed_vms: int) -> CandidateSet:
    """Try once more, the widest leases first, so that fewer are preempted."""
    return _until_there_is_room(sorted(taken, key=lambda lease: -lease.vms), needed_vms)
