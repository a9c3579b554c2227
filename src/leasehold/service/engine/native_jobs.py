"""What a site's own users gave to its own scheduler, as leases that guests give way to.

Each native job that waits for room, or runs, is a local lease here; nothing is ever ordered for it. That it has
started, changed or gone is seen, not decided.
"""

from collections.abc import Iterable

from leasehold.model.event import CancelRequested, Event, LeaseEnded, LeaseStarted, NativeQueueSeen
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.service.commands import NativeJobsSeen, Submit
from leasehold.service.drivers.protocol import NativeJob, Verb
from leasehold.service.engine.context import EngineContext
from leasehold.service.store.rows import LeaseMetadata

_LONGER_MS = 60_000
"""A scheduler takes its time to end what has reached its limit."""

_MAKES_ROOM = frozenset({Verb.SUSPEND, Verb.SEND, Verb.STOP})


class NativeJobs:
    """Compares the native jobs of sites with the leases that stand for them."""

    def __init__(self, context: EngineContext) -> None:
        self._core = context.core
        self._metadata = context.metadata
        self._outbox = context.outbox

    def news(self, seen: NativeJobsSeen) -> list[Event]:
        """Say whose job is gone, or is not what it was: another lease will stand for it."""
        there = {job.name: job for job in seen.jobs}
        events: list[Event] = []
        for name, lease in self._leases(seen.site).items():
            job = there.get(name)
            if job is None:
                events += _ended(lease)
            elif lease.vms != self._vms(seen.site, job):
                events.append(CancelRequested(lease.id))
            elif job.running and lease.state is LeaseState.STARTING:
                events.append(LeaseStarted(lease.id, lease.incarnation))
        return events

    def arrivals(self, seen: NativeJobsSeen) -> list[Submit]:
        """Say for which jobs no lease stands yet."""
        known = self._leases(seen.site)
        return [
            self._request(seen.site, job)
            for job in seen.jobs
            if job.name not in known or known[job.name].vms != self._vms(seen.site, job)
        ]

    def followed(self, seen: NativeJobsSeen, fresh: dict[str, int]) -> Iterable[Event]:
        """Tell what its scheduler has decided, where that is not what was planned here."""
        known = {name: lease.id for name, lease in self._leases(seen.site).items()} | fresh
        held = self._core.gateway.sites[seen.site].allocations.held
        if any(job.running and known[job.name] not in held for job in seen.jobs):
            running = tuple(known[job.name] for job in seen.jobs if job.running)
            waiting = tuple(known[job.name] for job in seen.jobs if not job.running)
            yield NativeQueueSeen(seen.site, running, waiting)

    def with_room(self, site: str) -> frozenset[str]:
        """Give the native jobs for which there is room now: in the books, and no guest is still leaving."""
        if any(row.site == site and row.order.verb in _MAKES_ROOM for row in self._outbox):
            return frozenset()
        held = self._core.gateway.sites[site].allocations.held
        return frozenset(name for name, lease in self._leases(site).items() if lease.id in held)

    def _leases(self, name: str) -> dict[str, Lease]:
        """The open leases that stand for native jobs of a site."""
        metadata, site = self._metadata, self._core.gateway.sites[name]
        here = [*site.locals.waiting(), *site.allocations.held.values()]
        return {metadata[lease.id].native_job: lease for lease in here if metadata[lease.id].native_job}

    def _vms(self, site: str, job: NativeJob) -> int:
        """How much room is asked for it: never more than there is, for that would be refused."""
        return max(1, min(job.vms, self._core.gateway.sites[site].settings.slots))

    def _request(self, site: str, job: NativeJob) -> Submit:
        request = Request(
            id=0,
            lease_type=LeaseType.NON_PREEMPTABLE,
            vms=self._vms(site, job),
            duration_ms=max(1, job.duration_ms) + _LONGER_MS,
            submit_ms=0,
            ready_ms=0,
            site=site,
            consumer=job.user,
            memory_mib=max(1, job.memory_mib),
        )
        return Submit(request, LeaseMetadata(f"job {job.name}", native_job=job.name))


def _ended(lease: Lease) -> list[Event]:
    """Its job is gone: it ran, perhaps between two looks, or was taken back before that."""
    if lease.held_since_ms < 0:
        return [CancelRequested(lease.id)]
    began = [LeaseStarted(lease.id, lease.incarnation)] if lease.state is LeaseState.STARTING else []
    return [*began, LeaseEnded(lease.id, lease.incarnation)]
