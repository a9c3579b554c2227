"""Writes down what becomes of co-allocations, as the table ``coallocations`` of `leasehold.model.tables`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leasehold.gateway.coallocation.incremental import count_idle
from leasehold.model.coallocation import CoAllocation
from leasehold.model.effect import CoAllocationClosed, CoAllocationStarted, PartLeased
from leasehold.model.reason import Reason
from leasehold.simulation.kernel import Handler
from leasehold.simulation.tables import TableWriter
from leasehold.simulation.workload.job import Job


@dataclass(slots=True)
class _Open:
    """A co-allocation that is not over; ``job`` is that of its first component."""

    coallocation: CoAllocation
    job: Job
    started_ms: int | None = None


class CoAllocationRows:
    """Keeps in memory what is open, and writes what is over; no table where nothing is.

    ``count``  how many co-allocations came
    """

    def __init__(self, folder: Path) -> None:
        """Write below ``folder``, which exists."""
        self.count = 0
        self._folder = folder
        self._table: TableWriter | None = None
        self._coallocation_of: dict[int, CoAllocation] = {}
        self._open: dict[int, _Open] = {}
        self.handlers: Mapping[type, Handler] = {
            PartLeased: self._leased,
            CoAllocationStarted: self._started,
            CoAllocationClosed: self._closed,
        }

    def _leased(self, effect: PartLeased, now_ms: int) -> None:  # noqa: ARG002 - all are told alike
        self._coallocation_of[effect.lease.id] = effect.coallocation

    def came(self, lease_id: int, job: Job) -> None:
        """A job came; take note of it if it is a component's."""
        coallocation = self._coallocation_of.get(lease_id)
        if coallocation is not None and coallocation.id not in self._open:
            self._open[coallocation.id] = _Open(coallocation, job)
            self.count += 1

    def coallocation_of(self, lease_id: int) -> int | None:
        """Give the co-allocation of a lease that is over, and forget it; None for an ordinary lease."""
        coallocation = self._coallocation_of.pop(lease_id, None)
        return None if coallocation is None else coallocation.id

    def _started(self, effect: CoAllocationStarted, now_ms: int) -> None:
        self._open[effect.coallocation.id].started_ms = now_ms

    def _closed(self, effect: CoAllocationClosed, now_ms: int) -> None:
        self._write(self._open.pop(effect.coallocation.id), effect.reason, now_ms)

    def _write(self, one: _Open, reason: Reason, ended_ms: int | None) -> None:
        coallocation, request = one.coallocation, one.coallocation.request
        if self._table is None:
            self._table = TableWriter(self._folder, "coallocations")
        self._table.add(
            (
                coallocation.id,
                one.job.source,
                one.job.source_id,
                request.request(0, 0).path,
                len(request.components),
                sum(component.vms for component in request.components),
                request.claim,
                request.place,
                request.submit_ms,
                request.ready_ms,
                one.started_ms,
                ended_ms,
                coallocation.state,
                reason,
                coallocation.idle_vm_ms,
                coallocation.tried,
            )
        )

    def finish(self, now_ms: int) -> None:
        """Write what is still open when the simulated time is over, and close the table."""
        for one in self._open.values():
            for index in range(len(one.coallocation.parts)):
                count_idle(one.coallocation, index, now_ms)
            self._write(one, Reason.HORIZON_REACHED, None)
        if self._table is not None:
            self._table.close()
