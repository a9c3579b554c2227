"""The co-allocations of one engine: what is asked of them, and how they stand."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from leasehold.model.coallocation import CoAllocation, CoAllocationRequest
from leasehold.model.effect import PartLeased
from leasehold.service.commands import SubmitCoAllocation
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.leases import LeaseRepository
from leasehold.service.errors import NoSuchCoAllocation
from leasehold.service.store.mapping import Values
from leasehold.service.store.rows import COALLOCATIONS, CoAllocationRow, LeaseMetadata


class CoAllocationRepository:
    """The co-allocations; those that are open are known here, others are read from the store."""

    def __init__(self, context: EngineContext, leases: LeaseRepository, rows: Sequence[CoAllocationRow]) -> None:
        """Begin with these open ones; no lease gets a number that their components may come to have."""
        self._store = context.store
        self._unit = context.unit
        self._core = context.core
        self._leases = leases
        self._last_id = self._store.highest_coallocation_id()
        self._metadata = {row.coallocation.id: (row.name, row.command) for row in rows}
        self._written = {row.coallocation.id: COALLOCATIONS.values(row) for row in rows}
        reserved = (row.coallocation.request.lease_ids.stop - 1 for row in rows)
        leases.last_id = max(leases.last_id, *reserved, 0)

    # What is asked

    def submit(self, command: SubmitCoAllocation, now_ms: int) -> CoAllocationRequest:
        """Take a co-allocation in; raises InvalidField, UnknownName, TooManyOpen."""
        request = self.would_be(command, now_ms)
        self._last_id = request.id
        self._metadata[request.id] = (command.name, command.command)
        self._leases.last_id = request.lease_ids.stop - 1
        return request

    def would_be(self, command: SubmitCoAllocation, now_ms: int) -> CoAllocationRequest:
        """Give the request that a command would make now; raises what `submit` raises."""
        request = replace(
            command.request,
            id=self._last_id + 1,
            submit_ms=now_ms,
            ready_ms=max(now_ms, command.request.ready_ms),
            first_lease_id=self._leases.last_id + 1,
        )
        self._core.gateway.coallocations.check(request)
        for index in range(len(request.components)):
            self._leases.check_image(request.request(index, 0))
        self._leases.requests.check(request.consumer, len(request.components))
        return request

    # What happens

    def leased(self, effect: PartLeased, now_ms: int) -> None:
        """A component has a lease from now on: it is known and counted as any other."""
        number = effect.coallocation.id
        metadata = LeaseMetadata(*self._metadata[number], coallocation_id=number)
        self._leases.take_in(effect.lease.request, metadata, now_ms)

    def follow(self, moved: Iterable[CoAllocation]) -> None:
        """Write those of these that stand otherwise than is written."""
        for coallocation in moved:
            values = COALLOCATIONS.values(CoAllocationRow(coallocation, *self._metadata[coallocation.id]))
            if self._written.get(coallocation.id) != values:
                self._keep(coallocation.id, values, is_over=coallocation.end_ms >= 0)

    def _keep(self, number: int, values: Values, *, is_over: bool) -> None:
        self._written[number] = tuple(values)
        self._unit.put(COALLOCATIONS, COALLOCATIONS.record(values))
        if is_over:
            self._unit.after_commit(partial(self._forget, number))

    def _forget(self, number: int) -> None:
        self._written.pop(number, None)
        self._metadata.pop(number, None)

    # What is known

    def row(self, coallocation_id: int) -> CoAllocationRow:
        """A co-allocation as it is, open or over; raises NoSuchCoAllocation."""
        values = self._written.get(coallocation_id)
        row = self._store.coallocation(coallocation_id) if values is None else COALLOCATIONS.record(values)
        if row is None:
            raise NoSuchCoAllocation(coallocation_id)
        return row

    def row_with(self, lease_id: int) -> CoAllocationRow:
        """The co-allocation of a lease; raises NoSuchCoAllocation."""
        metadata = self._leases.metadata.get(lease_id)
        if metadata is None:
            kept = self._store.lease(lease_id)
            return self.row(0 if kept is None else kept.metadata.coallocation_id or 0)
        return self.row(metadata.coallocation_id or 0)
