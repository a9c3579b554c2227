"""What is asked of the agreements: may this much run there, for so long, from then on?"""

from collections.abc import Mapping
from dataclasses import dataclass

from leasehold.model.agreement import CPUS, MEMORY
from leasehold.model.request import Request
from leasehold.model.use import Holding


@dataclass(frozen=True, slots=True)
class Ask:
    """One question.

    ``path``            on whose account
    ``amounts``         units of each resource
    ``duration_ms``     how long, on the machines that it is about
    ``start_ms``        from when on, at the earliest
    ``is_reservation``  whether room is booked for a time in the future
    ``may_be_preempted``  whether whoever comes first can have the machines back
    ``is_foreign``      whether somebody else than this gateway vouches for whose account it is
    """

    path: str
    amounts: Mapping[str, int]
    duration_ms: int
    start_ms: int
    is_reservation: bool = False
    may_be_preempted: bool = True
    is_foreign: bool = False

    def at(self, site: str) -> Holding:
        """What would be held at a site."""
        return Holding(self.path, site, self.amounts)


def amounts_of(request: Request) -> dict[str, int]:
    """Give the units of each resource that a request takes while it holds machines."""
    return {CPUS: request.vms, MEMORY: request.vms * request.memory_mib, **dict(request.claims)}
