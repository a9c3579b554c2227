"""Sites whose own users ask another scheduler: what that one decides about its native jobs is followed here.

Each native job is a local request here, so guests make room for it as for any other, before it starts. But when
it starts, and which of several comes first, is the other scheduler's to decide. Where it started one that was
to wait here, those for which room was only made go back to the queue, in the order of that scheduler, and the
started one takes its place. What does not fit the books yet is followed at the next look: the other scheduler
gives no room away twice, so nobody is harmed meanwhile.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from leasehold.leasing.backfill import Started
from leasehold.model.event import NativeQueueSeen
from leasehold.model.lease import UNPLANNED, Lease
from leasehold.model.reason import Outcome, Reason

if TYPE_CHECKING:
    from leasehold.gateway.site import Site

OWN_SCHEDULER = "own-scheduler"


def follow(site: "Site", seen: NativeQueueSeen, now_ms: int) -> Started:
    """Plan the native jobs as their scheduler has decided; returns those that it has started by itself."""
    waiting = {lease.id: lease for lease in site.locals.waiting()}
    begun = [waiting[lease_id] for lease_id in seen.running if lease_id in waiting]
    if not begun:
        return []
    promised_ms = {lease.id: lease.reserved_ms for lease in waiting.values() if lease.reserved_ms >= 0}
    for lease in waiting.values():
        site.locals.withdraw(lease, now_ms)
    for lease_id in seen.waiting:
        if lease_id in site.allocations.held:
            waiting[lease_id] = _hold_back(site, site.allocations.held[lease_id], now_ms)
    started = [(lease, Reason.STARTED_BY_NATIVE_SCHEDULER) for lease in begun if _take(site, lease, now_ms)]
    for lease, _ in started:
        del waiting[lease.id]
    _queue_again(site, seen.waiting, waiting, promised_ms)
    return started


def _hold_back(site: "Site", lease: Lease, now_ms: int) -> Lease:
    """Room was made for it, and its scheduler gave that to another: it has not begun."""
    site.allocations.hold_back(lease, now_ms)
    site.locals.release(lease, now_ms)
    lease.first_start_ms = UNPLANNED
    site.allocations.decide(lease, Outcome.WAIT, Reason.NATIVE_JOB_STARTED_FIRST, OWN_SCHEDULER)
    return lease


def _take(site: "Site", lease: Lease, now_ms: int) -> bool:
    """Book its place from now on, if it fits beside whoever holds room or was promised it for good."""
    if site.home.lowest(now_ms, now_ms + lease.span_ms) < lease.vms:
        return False
    site.locals.book(now_ms, lease)
    return True


def _queue_again(
    site: "Site", in_order: Iterable[int], waiting: Mapping[int, Lease], promised_ms: Mapping[int, int]
) -> None:
    """Let everybody else wait in the other scheduler's order; whoever it does not know comes last."""
    first = [waiting[lease_id] for lease_id in in_order if lease_id in waiting]
    known = {lease.id for lease in first}
    for lease in [*first, *(lease for lease in waiting.values() if lease.id not in known)]:
        site.locals.submit(lease)
        if lease.id in promised_ms:
            site.allocations.decide(lease, Outcome.MOVE, Reason.NATIVE_JOB_STARTED_FIRST, OWN_SCHEDULER)
