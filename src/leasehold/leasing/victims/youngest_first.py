"""Youngest first: what many batch systems do, kept for comparison."""

from collections.abc import Iterable, Sequence

from leasehold.leasing.victims.candidate import Candidate
from leasehold.leasing.victims.from_function import from_function


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


YOUNGEST_FIRST = from_function(youngest_first)
