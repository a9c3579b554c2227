"""Go on where a record left off: the gateway's leases are put back into the places that they were in.

What the planner keeps besides the leases (profiles, queues, heaps) follows from them and is rebuilt, so nothing else
can be lost, or contradict them.

If time has passed meanwhile, the time of a reservation may have come and gone without a start, or the room of a lease
whose machines have not been seen yet is booked for too short a time. Then all leases at that site that wait with a
reservation are planned again, in the order of their planned starts.

A site may have fewer slots than its leases hold or were promised. Preemptable guests give way until the rest fits; what
cannot give way stays until its end, and nothing starts until all fits again. Leases that wait are planned again, and
those that are wider than the whole site are turned away.
"""

from collections.abc import Iterable
from operator import attrgetter

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.preemption import shrink
from leasehold.gateway.replanning import is_promised_too_much, plan_again
from leasehold.gateway.site import Site
from leasehold.leasing.backfill import Booking
from leasehold.model.effect import StopLease
from leasehold.model.lease import ON_THE_WAY, Lease, LeaseState
from leasehold.model.lifecycle import Step
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType
from leasehold.model.use import Segment

RESTART = "restart"


def take_up(gateway: Gateway, leases: Iterable[Lease], now_ms: int, history: Iterable[Segment] = ()) -> None:
    """Load the open leases into a new gateway; `Gateway.handle` continues from there.

    ``history`` is past usage by leases that have ended or hold no machines now.
    """
    open_leases = sorted(leases, key=attrgetter("order"))
    by_site: dict[str, list[Lease]] = {name: [] for name in gateway.sites}
    for lease in open_leases:
        if lease.site in by_site:
            by_site[lease.site].append(lease)
    gateway.take_up(open_leases)
    late = {name for name, present in by_site.items() if _furnish(gateway.sites[name], present, now_ms)}
    all_allocations = [site.allocations for site in gateway.sites.values()]
    in_use = {
        lease.id
        for allocations in all_allocations
        for lease in allocations.held.values()
        if allocations.is_in_use(lease)
    }
    gateway.quotas.take_up(open_leases, in_use, history, now_ms)
    for name, present in by_site.items():
        _fit(gateway, gateway.sites[name], present, now_ms, was_late=name in late)


def _furnish(site: Site, leases: list[Lease], now_ms: int) -> bool:
    """Put leases into their places; returns whether machines are late, and were given more time."""
    holding = [lease for lease in leases if lease.held_since_ms >= 0]
    site.allocations.take_up(sorted(holding, key=attrgetter("place")))
    late = [lease for lease in holding if lease.state in ON_THE_WAY and lease.end_ms <= now_ms]
    for lease in late:
        lease.span_ms = now_ms + site.allocations.wall_ms(lease.work_left) - lease.reserved_ms
    waiting = [lease for lease in leases if lease.held_since_ms < 0]
    at_home = [lease for lease in leases if lease.request.lease_type is LeaseType.NON_PREEMPTABLE]
    site.home.rebuild(now_ms, _bookings(site, at_home))
    site.locals.take_up(lease for lease in waiting if lease.request.is_local)
    if any(not lease.request.is_local for lease in leases):
        guests = site.open_to_guests(now_ms)
        guests.full.rebuild(now_ms, _bookings(site, leases))
        guests.take_up([lease for lease in waiting if not lease.request.is_local])
    return bool(late)


def _fit(gateway: Gateway, site: Site, leases: list[Lease], now_ms: int, *, was_late: bool) -> None:
    """Let the leases of a site have no more than there is, and plan again what should have started meanwhile."""
    allocations, too_wide = site.allocations, [lease for lease in leases if site.locals.is_wider_than_site(lease)]
    for lease in too_wide:
        if lease.held_since_ms < 0:
            _part_with(gateway, site, lease, now_ms)
    if site.guests is not None:
        held = list(allocations.held.values())
        shrink(site.guests, now_ms)
        for lease in held:
            if lease in too_wide and lease.state is LeaseState.SUSPENDING:
                _part_with(gateway, site, lease, now_ms)
    if site.free_vms < 0:
        allocations.outlasting = frozenset(allocations.held)
    if was_late or any(0 <= lease.reserved_ms < now_ms and lease.held_since_ms < 0 for lease in leases):
        plan_again(site, Reason.MISSED_START, RESTART, now_ms)
    elif is_promised_too_much(site):
        plan_again(site, Reason.SITE_SHRANK, RESTART, now_ms)


def _part_with(gateway: Gateway, site: Site, lease: Lease, now_ms: int) -> None:
    """Turn away a lease that waits for more VMs than there are.

    A guest that has never started is routed again; of the others, only a Migratable one may continue elsewhere.
    """
    if lease.request.is_local:
        site.locals.withdraw(lease, now_ms)
    elif site.guests is not None:
        site.guests.withdraw(lease, now_ms)
    if lease.state is LeaseState.WAITING:
        if lease.request.is_local or gateway.coallocations.leases.coallocation_of(lease.id) is not None:
            site.allocations.refuse(lease, Reason.WIDER_THAN_SITE, RESTART)
        else:
            gateway.pending.take_back(lease, Reason.SITE_SHRANK, RESTART)
    elif lease.request.lease_type is LeaseType.MIGRATABLE:
        site.allocations.changes.displaced.append((lease, Reason.SITE_SHRANK))
    else:
        site.allocations.decide(lease, Outcome.REFUSE, Reason.WIDER_THAN_SITE, RESTART)
        site.allocations.changes.effects.append(StopLease(lease))
        site.allocations.close(lease, Step.FAIL, Reason.WIDER_THAN_SITE)


def _bookings(site: Site, leases: Iterable[Lease]) -> Iterable[Booking]:
    for lease in leases:
        if lease.reserved_ms >= 0:
            yield lease.reserved_ms, lease.end_ms, site.locals.room_of(lease)
