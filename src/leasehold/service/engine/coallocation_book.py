"""The co-allocations of one engine: what is asked of them, and what is to be written of that."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leasehold.model.coallocation import CoAllocation, CoAllocationRequest
from leasehold.model.effect import PartLeased
from leasehold.model.event import CoAllocationCancelled, CoAllocationSubmitted, Event
from leasehold.service.commands import CancelCoAllocation, SubmitCoAllocation
from leasehold.service.errors import NoSuchCoAllocation, TooManyOpen
from leasehold.service.store.batch import Batch
from leasehold.service.store.rows import COALLOCATIONS, CoAllocationRow, LeaseMetadata

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine


class CoAllocationBook:
    """Reads what is said about co-allocations; ``coallocations`` are those that were open at the start.

    ``last_lease_id``  the highest number that their leases may come to have
    """

    def __init__(self, engine: "Engine") -> None:
        """Begin with those in the store."""
        rows = engine.store.open_coallocations()
        self.coallocations = [row.coallocation for row in rows]
        self.last_lease_id = max((row.coallocation.request.lease_ids.stop - 1 for row in rows), default=0)
        self._engine = engine
        self._last_id = engine.store.highest_coallocation_id()
        self._about = {row.coallocation.id: (row.name, row.command) for row in rows}
        self._written = {row.coallocation.id: COALLOCATIONS.values(row) for row in rows}
        self._changed: dict[int, CoAllocationRow] = {}

    # What is asked

    def submit(self, command: SubmitCoAllocation, now_ms: int) -> tuple[list[Event], CoAllocationRequest]:
        """Take a co-allocation in; raises InvalidField, UnknownName, TooManyOpen."""
        engine, request = self._engine, self.would_be(command, now_ms)
        self._last_id = request.id
        self._about[request.id] = (command.name, command.command)
        engine.last_lease_id = request.lease_ids.stop - 1
        return [CoAllocationSubmitted(request)], request

    def would_be(self, command: SubmitCoAllocation, now_ms: int) -> CoAllocationRequest:
        """Give the request that a command would make now; raises what the command would be answered with."""
        request = self._request(command, now_ms)
        self._engine.gateway.coallocations.check(request)
        self._check_limit(request)
        return request

    def _request(self, command: SubmitCoAllocation, now_ms: int) -> CoAllocationRequest:
        return CoAllocationRequest(
            self._last_id + 1,
            command.components,
            now_ms,
            now_ms if command.ready_ms is None else max(now_ms, command.ready_ms),
            self._engine.last_lease_id + 1,
            command.consumer,
            command.group,
            command.claim,
            command.place,
            command.deadline_ms,
            command.tries,
            command.retries,
            command.margin_ms,
            is_foreign=command.is_foreign,
        )

    def _check_limit(self, request: CoAllocationRequest) -> None:
        most, consumer = self._engine.most_open, request.consumer
        if most is not None and self._engine.open_of.get(consumer, 0) + len(request.components) > most:
            raise TooManyOpen(consumer, most)

    def cancel(self, command: CancelCoAllocation, now_ms: int) -> list[Event]:  # noqa: ARG002 - all are read alike
        """Take a co-allocation back; raises NoSuchCoAllocation."""
        self.row(command.coallocation_id)
        return [CoAllocationCancelled(command.coallocation_id)]

    # What happens

    def leased(self, effect: PartLeased, now_ms: int) -> None:
        """A component has a lease from now on: it is known and counted as any other."""
        engine, request = self._engine, effect.lease.request
        engine.about[request.id] = LeaseMetadata(
            *self._about[effect.coallocation.id], coallocation_id=effect.coallocation.id
        )
        engine.open_of[request.consumer] = engine.open_of.get(request.consumer, 0) + 1
        engine.minutes.submitted(request, now_ms)

    def follow(self, moved: Iterable[CoAllocation]) -> None:
        """See which of these stand otherwise than is written."""
        for coallocation in moved:
            values = COALLOCATIONS.values(CoAllocationRow(coallocation, *self._about[coallocation.id]))
            if self._written.get(coallocation.id) != values:
                self._written[coallocation.id], self._changed[coallocation.id] = values, COALLOCATIONS.record(values)

    def row(self, coallocation_id: int) -> CoAllocationRow:
        """A co-allocation as it is, open or over; raises NoSuchCoAllocation."""
        values = self._written.get(coallocation_id)
        row = self._engine.store.coallocation(coallocation_id) if values is None else COALLOCATIONS.record(values)
        if row is None:
            raise NoSuchCoAllocation(coallocation_id)
        return row

    def row_with(self, lease_id: int) -> CoAllocationRow:
        """The co-allocation of a lease; raises NoSuchCoAllocation."""
        about, kept = self._engine.about.get(lease_id), self._engine.store.lease(lease_id)
        coallocation_id = (
            about.coallocation_id if about is not None else None if kept is None else kept.metadata.coallocation_id
        )
        return self.row(coallocation_id or 0)

    # What is written

    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changed)

    def save(self, batch: Batch) -> None:
        """Write everything into the store."""
        batch.upsert(COALLOCATIONS, list(self._changed.values()))

    def saved(self) -> None:
        """Everything is in the store; those that are over are found there."""
        for coallocation_id, row in self._changed.items():
            if row.coallocation.end_ms >= 0:
                del self._written[coallocation_id], self._about[coallocation_id]
        self._changed.clear()
