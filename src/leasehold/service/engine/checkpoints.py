"""What guests say of their own checkpoints: work that is saved cannot be lost, and needs no more notice.

A guest says so over the API, or from inside its machines, where its driver sees it. It is a guest's word: it counts for
its own lease alone, and only for the time that has passed.
"""

from leasehold.model.event import Event, LeaseCheckpointed
from leasehold.model.lease import LeaseState
from leasehold.service.drivers.protocol import Observation
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.leases import LeaseRepository
from leasehold.service.errors import CannotCheckpoint, Closed
from leasehold.service.store.rows import LeaseRow

CHECKPOINTED = "checkpointed"
LEAST_INTERVAL_MS = 10_000
"""What is seen in machines more often than this is not written down, but where a guest was told to hurry."""


class Checkpoints:
    """Takes reports of checkpoints in."""

    def __init__(self, context: EngineContext, leases: LeaseRepository) -> None:
        self._core = context.core
        self._outbox = context.outbox
        self._journal = context.journal
        self._leases = leases

    def report(self, lease_id: int, now_ms: int) -> list[Event]:
        """The user of a lease reports one; raises NoSuchLease, and Closed or CannotCheckpoint for nothing to save.

        A guest that was told of its preemption may report it until then, also where its lease is over by now.
        """
        row = self._leases.row(lease_id)
        is_told = bool(self._outbox.notices(lease_id, now_ms))
        if not is_told and row.lease.state.is_final:
            raise Closed(lease_id, row.lease.state)
        if not is_told and row.lease.state is not LeaseState.RUNNING:
            raise CannotCheckpoint(lease_id, row.lease.state)
        return self._note(row, now_ms, now_ms)

    def saw(self, site: str, seen: Observation, now_ms: int) -> list[Event]:
        """The machines of a lease show that its guest has one, which may be known already."""
        at_ms = min(seen.checkpointed_ms, now_ms)
        told = [row for row in self._outbox.notices(seen.lease_id, now_ms) if row.site == site]
        if any(row.created_ms <= at_ms for row in told):
            return self._note(self._leases.row(seen.lease_id), at_ms, now_ms)
        lease = self._core.gateway.leases.get(seen.lease_id)
        if lease is None or lease.site != site or lease.incarnation != seen.incarnation:
            return []
        is_new = at_ms > lease.held_since_ms and at_ms - lease.checkpointed_ms >= LEAST_INTERVAL_MS
        if lease.state is not LeaseState.RUNNING or not is_new:
            return []
        return self._note(self._leases.row(lease.id), at_ms, now_ms)

    def _note(self, row: LeaseRow, at_ms: int, now_ms: int) -> list[Event]:
        lease = row.lease
        self._outbox.end_notice(lease.id, now_ms)
        self._journal.lease(lease, CHECKPOINTED, now_ms, has_reason=False, metadata=row.metadata)
        return [LeaseCheckpointed(lease.id, lease.incarnation, at_ms)]
