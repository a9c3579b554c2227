"""Youngest first: what many batch systems do, kept for comparison."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from leasehold.leasing.victims.candidate import Candidate, VictimChoice
from leasehold.leasing.victims.from_function import FunctionPolicy
from leasehold.leasing.victims.minimal_sets import MinimalSets
from leasehold.leasing.victims.mov import least_cost_vm_ms
from leasehold.leasing.victims.pool import CandidatePool


def youngest_first(
    candidates: Sequence[Candidate],
    needed_vms: int,  # noqa: ARG001 - the order is the same however many are needed
) -> Iterable[Candidate]:
    """Which guest came last?

    Rule: the guest with the highest lease number, which is the youngest request, gives way first, whatever
        it holds and costs.

    Greedy and without an objective: compare its cost with its bound.
    """
    return sorted(candidates, key=lambda lease: lease.lease_id, reverse=True)


class YoungestFirst(FunctionPolicy):
    """That function as a policy, which does not look at older guests than it takes."""

    def __init__(self) -> None:
        super().__init__(youngest_first, "youngest-first")

    def choose_from(self, pool: CandidatePool, needed_vms: int) -> VictimChoice:
        """Choose among the youngest; the bound is that of all."""
        bound_vm_ms = least_cost_vm_ms(MinimalSets(pool.cheapest(needed_vms), needed_vms))
        return replace(self.choose(pool.youngest(needed_vms), needed_vms), bound_vm_ms=bound_vm_ms)


YOUNGEST_FIRST = YoungestFirst()
