"""The components' leases: ordinary leases, each known to its co-allocation."""

from collections.abc import Callable, Iterable, Iterator

from leasehold.model.coallocation import CoAllocation
from leasehold.model.effect import Decision, Effect, PartLeased
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import Request

CO_ALLOCATION = "co-allocation"
"""The rule that holds components until all of them have room."""

Enrol = Callable[[Request], Lease]
"""Makes a lease of a request, and lets the gateway know it."""


class Crew:
    """All leases of the co-allocations that are open, those that are over included."""

    def __init__(self, enrol: Enrol, effects: list[Effect]) -> None:
        """Begin with none; ``effects`` is the gateway's list."""
        self._enrol = enrol
        self._effects = effects
        self._coallocations: dict[int, CoAllocation] = {}
        self._leases: dict[int, Lease] = {}

    def man(self, coallocation: CoAllocation, index: int) -> None:
        """Give a component the lease of its turn, which waits at the gateway."""
        part = coallocation.parts[index]
        part.lease_id, part.site = coallocation.request.lease_id(index, part.turn), ""
        lease = self._enrol(coallocation.request.request(index, part.turn))
        self.take_up(coallocation, lease)
        advance(lease, Step.HOLD)
        self._effects.append(PartLeased(lease, coallocation, index))
        self._effects.append(Decision(lease, "", Outcome.HOLD, Reason.WAITING_FOR_COMPONENTS, CO_ALLOCATION))

    def renew(self, coallocation: CoAllocation, index: int) -> None:
        """Give a component another lease, in place of one that is over."""
        coallocation.parts[index].turn += 1
        coallocation.parts[index].has_ended = False
        self.man(coallocation, index)

    def take_up(self, coallocation: CoAllocation, lease: Lease) -> None:
        """Know a lease as one of this co-allocation."""
        self._coallocations[lease.id] = coallocation
        self._leases[lease.id] = lease

    def dismiss(self, coallocation: CoAllocation) -> None:
        """A co-allocation is over, and all of its leases are."""
        for lease_id in coallocation.request.lease_ids:
            self._coallocations.pop(lease_id, None)
            self._leases.pop(lease_id, None)

    def coallocation_of(self, lease_id: int) -> CoAllocation | None:
        """Find the open co-allocation of a lease; None for an ordinary lease."""
        return self._coallocations.get(lease_id)

    def lease(self, coallocation: CoAllocation, index: int) -> Lease | None:
        """Give a component's present lease; None if it was over before a restart."""
        return self._leases.get(coallocation.parts[index].lease_id)

    def open_leases(self, coallocation: CoAllocation) -> Iterator[tuple[int, Lease]]:
        """Give the components' present leases that are not over, with their indices."""
        for index in range(len(coallocation.parts)):
            lease = self.lease(coallocation, index)
            if lease is not None and not lease.state.is_final:
                yield index, lease

    def held(self) -> Iterable[int]:
        """Name the leases that wait here, at no site."""
        return (lease.id for lease in self._leases.values() if lease.state is LeaseState.HELD)
