"""What a choice of victims costs: four objectives, each a sum over its leases."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from leasehold.leasing.victims.candidate import Candidate


class Objective(StrEnum):
    """What there should be little of."""

    LEASES = "leases"
    """How many guests give way."""

    OVERHEAD = "overhead"
    """What saving, loading and moving them is charged, in VM-milliseconds."""

    LOST = "lost"
    """Work that is gone, in VM-milliseconds."""

    EXCESS = "excess"
    """VMs that are freed beyond the need."""


class Score(NamedTuple):
    """The four objectives of one candidate set; its fields have the names of the objectives."""

    leases: int
    overhead: int
    lost: int
    excess: int

    def of(self, objective: Objective) -> int:
        """Give one of them."""
        value: int = getattr(self, objective.value)
        return value

    def is_as_good_as(self, other: "Score") -> bool:
        """Whether it is no worse by any objective."""
        return all(mine <= theirs for mine, theirs in zip(self, other, strict=True))

    def dominates(self, other: "Score") -> bool:
        """Whether it is no worse by any objective, and better by one."""
        return self != other and self.is_as_good_as(other)


WEIGHT: dict[Objective, Callable[[Candidate], int]] = {
    Objective.LEASES: lambda _: 1,
    Objective.OVERHEAD: lambda lease: lease.cost_vm_ms,
    Objective.LOST: lambda lease: lease.lost_vm_ms,
    Objective.EXCESS: lambda lease: lease.vms,
}
"""What a lease adds to each objective; VMs, of which the need is taken off in the end, to the excess."""


def score(leases: Iterable[Candidate], needed_vms: int) -> Score:
    """Say how good a candidate set is."""
    chosen = list(leases)
    sums = (sum(weight(lease) for lease in chosen) for weight in WEIGHT.values())
    number, overhead, lost, vms = sums
    return Score(number, overhead, lost, vms - needed_vms)
