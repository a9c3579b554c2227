"""The other side of a co-allocation: components that another gateway has asked to be promised room here.

Each is a Non-preemptable lease with a reservation, as any other, that is called off by itself unless the other gateway
commits it in time: it commits once all sites have promised their parts. What is promised here, and until when, is in
the lease's request, so that a restart forgets nothing.
"""

from leasehold.gateway.coallocation.component_leases import CO_ALLOCATION
from leasehold.gateway.pending import PendingQueue
from leasehold.gateway.sites import SiteRegistry
from leasehold.gateway.state import InstantChanges
from leasehold.model.effect import Decision, WakeAt
from leasehold.model.event import LeaseCommitted
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import with_promise_until


class PreparedLeases:
    """The leases here that are promised something until they are committed."""

    def __init__(self, registry: SiteRegistry, pending: PendingQueue, changes: InstantChanges) -> None:
        """Begin with none."""
        self.leases: dict[int, Lease] = {}
        self._registry = registry
        self._pending = pending
        self._changes = changes

    def take_in(self, lease: Lease) -> None:
        """Watch a lease, if its promise is to be committed."""
        until_ms = lease.request.prepared_until_ms
        if until_ms is not None:
            self.leases[lease.id] = lease
            self._changes.effects.append(WakeAt("", until_ms))

    def commit(self, event: LeaseCommitted) -> None:
        """What was promised holds; what was promised nothing yet, or is over, stays as it is."""
        lease = self.leases.get(event.lease_id)
        if lease is None or lease.state is not LeaseState.WAITING:
            return
        del self.leases[lease.id]
        lease.request = with_promise_until(lease.request, None)
        kept = Decision(lease, lease.site, Outcome.WAIT, Reason.COALLOCATED, CO_ALLOCATION, lease.reserved_ms)
        self._changes.effects.append(kept)

    def expire(self, now_ms: int) -> None:
        """Call off what was not committed in time."""
        due = [one for one in self.leases.values() if (one.request.prepared_until_ms or 0) <= now_ms]
        for lease in due:
            if lease.state in (LeaseState.SUBMITTED, LeaseState.HELD):
                self._pending.withdraw(lease, Reason.PROMISE_EXPIRED)
            elif not lease.state.is_final:
                self._registry.touch(lease.site).cancel(lease, now_ms, Reason.PROMISE_EXPIRED)
            self.leases.pop(lease.id, None)
