"""Co-allocations, for the client that waits for its answers."""

from collections.abc import Iterator
from typing import Unpack

from leasehold.client import coallocation_calls
from leasehold.client.coallocation_calls import CoAllocationSpec
from leasehold.client.coallocation_records import CoAllocation, CoAllocationExplanation
from leasehold.client.wire import Wire


class CoAllocations:
    """Ask for machines at several sites, all or nothing, and look after them."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def submit(self, **wish: Unpack[CoAllocationSpec]) -> CoAllocation:
        """Ask for a co-allocation; what may be said is in `CoAllocationSpec`. Raises as `Leases.submit` does."""
        return self._wire.ask(coallocation_calls.submit_coallocation(wish))

    def get(self, coallocation_id: int) -> CoAllocation:
        """Look at one; raises NotFound."""
        return self._wire.ask(coallocation_calls.coallocation(coallocation_id))

    def list(self) -> Iterator[CoAllocation]:
        """Go through those that are visible, the newest first."""
        return self._wire.pages(coallocation_calls.coallocations())

    def cancel(self, coallocation_id: int) -> CoAllocation:
        """Take one back, with all of its components; raises NotFound and NotAllowed."""
        return self._wire.ask(coallocation_calls.cancel_coallocation(coallocation_id))

    def explain(self, **wish: Unpack[CoAllocationSpec]) -> CoAllocationExplanation:
        """Say what would become of one, without asking for it."""
        return self._wire.ask(coallocation_calls.explain_coallocation(wish))
