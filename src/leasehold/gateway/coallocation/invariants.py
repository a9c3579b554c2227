"""What must hold of co-allocations after every instant: all of it or nothing."""

from leasehold.gateway.coallocation.coordinator import CoAllocator
from leasehold.model.coallocation import CoAllocation, CoAllocationState
from leasehold.model.errors import InvariantBroken
from leasehold.model.lease import Lease, LeaseState

_BEGUN = (LeaseState.RUNNING, LeaseState.STARTING)
"""The states of who has its machines, or waits for them to start."""


def all_or_nothing(coallocations: CoAllocator, now_ms: int) -> None:
    """Raise InvariantBroken if a component holds something that the others do not agree with."""
    for coallocation in coallocations.open.values():
        leases = [lease for _, lease in coallocations.crew.open_leases(coallocation)]
        problem = _problem(coallocation, leases, now_ms)
        if problem:
            raise InvariantBroken(f"co-allocation {coallocation.id} ({coallocation.state}): {problem}")


def _problem(coallocation: CoAllocation, leases: list[Lease], now_ms: int) -> str:
    if len(leases) + sum(part.has_ended for part in coallocation.parts) != len(coallocation.parts):
        return "a component has neither a lease nor ended"
    match coallocation.state:
        case CoAllocationState.HELD:
            return "" if _all_are(leases, LeaseState.HELD) else "a component holds or was promised something"
        case CoAllocationState.PLACED:
            return _problem_while_placed(coallocation, leases, now_ms)
        case CoAllocationState.RESERVED:
            return _problem_while_reserved(coallocation, leases, now_ms)
        case CoAllocationState.RUNNING:
            return "" if _all_are(leases, *_BEGUN) else "a component does not run beside the others"
        case _:
            return "it is over, and still open"


def _problem_while_placed(coallocation: CoAllocation, leases: list[Lease], now_ms: int) -> str:
    if coallocation.start_ms <= now_ms:
        return "its start has come, and it has neither begun nor given back what it claimed"
    for lease in leases:
        part = coallocation.parts[coallocation.request.index_of(lease.id)]
        expected = _BEGUN if part.claimed_ms >= 0 else (LeaseState.HELD,)
        if lease.state not in expected:
            return f"lease {lease.id} is {lease.state}, not {expected[0]}"
        if part.claimed_ms >= 0 and lease.held_since_ms + lease.overhead_ms != coallocation.start_ms:
            return f"lease {lease.id} does not wait for the common start"
    return ""


def _problem_while_reserved(coallocation: CoAllocation, leases: list[Lease], now_ms: int) -> str:
    if not _all_are(leases, LeaseState.WAITING):
        return "a component is not promised its room"
    if {lease.reserved_ms for lease in leases} != {coallocation.start_ms} or coallocation.start_ms <= now_ms:
        return "its components are not promised one start to come"
    return ""


def _all_are(leases: list[Lease], *states: LeaseState) -> bool:
    return all(lease.state in states for lease in leases)
