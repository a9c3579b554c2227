"""Go on where a record left off: the gateway's leases are put back into the places that they were in.

What the planner keeps besides the leases (profiles, queues, heaps) follows from them and is built anew, so
that there is nothing else that could be lost, or that could contradict them.

If time has passed meanwhile, somebody's reservation may have come and gone with nobody there to start it.
Then everybody at that site who waits with a reservation is planned again, in the order of the planned starts.
"""

from collections.abc import Iterable
from operator import attrgetter

from leasehold.gateway.floor import Floor
from leasehold.gateway.gateway import Gateway
from leasehold.gateway.guests import Guests
from leasehold.gateway.site import Site
from leasehold.model.lease import Lease
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType
from leasehold.model.use import Segment

RESTART = "restart"


def take_up(gateway: Gateway, leases: Iterable[Lease], now_ms: int, history: Iterable[Segment] = ()) -> None:
    """Give a new gateway its open leases; `Gateway.handle` goes on from there.

    ``history`` is what was used before, by leases that are over or hold no machines now.
    """
    open_leases = sorted(leases, key=attrgetter("order"))
    by_site: dict[str, list[Lease]] = {name: [] for name in gateway.sites}
    for lease in open_leases:
        if lease.site in by_site:
            by_site[lease.site].append(lease)
    gateway.take_up(open_leases)
    for name, present in by_site.items():
        _furnish(gateway.sites[name], present, now_ms)
    gateway.agreed.take_up(open_leases, history, now_ms)


def _furnish(site: Site, leases: list[Lease], now_ms: int) -> None:
    holding = [lease for lease in leases if lease.held_since_ms >= 0]
    site.floor.take_up(sorted(holding, key=attrgetter("place")))
    waiting = [lease for lease in leases if lease.held_since_ms < 0]
    at_home = [lease for lease in leases if lease.request.lease_type is LeaseType.NON_PREEMPTABLE]
    site.home.rebuild(now_ms, _bookings(at_home))
    site.locals.take_up(lease for lease in waiting if lease.request.is_local)
    if any(not lease.request.is_local for lease in leases):
        guests = site.open_to_guests(now_ms)
        guests.full.rebuild(now_ms, _bookings(leases))
        guests.take_up([lease for lease in waiting if not lease.request.is_local])
    if any(0 <= lease.reserved_ms < now_ms for lease in waiting):
        _plan_again(site, now_ms)


def _bookings(leases: Iterable[Lease]) -> Iterable[tuple[int, int, int]]:
    for lease in leases:
        if lease.reserved_ms >= 0:
            yield lease.reserved_ms, lease.reserved_ms + lease.span_ms, lease.vms


def _plan_again(site: Site, now_ms: int) -> None:
    """Nobody was there when a reservation came due: plan all of them from now on, those at home first."""
    guests = site.guests
    planned_ms = {lease.id: lease.reserved_ms for lease in _reserved(site)}
    at_home = list(site.locals.reserved.values())
    for lease in at_home:
        site.locals.release(lease, now_ms)
    others = [] if guests is None else list(guests.queue.reserved.values())
    if guests is not None:
        at_home += guests.call_off_appointments(now_ms)
        for lease in others:
            guests.queue.release(lease, now_ms)
    for lease in sorted(at_home, key=lambda lease: (planned_ms[lease.id], lease.order)):
        start_ms = site.locals.earliest(lease, now_ms)
        if lease.request.is_local:
            site.locals.reserve(lease, start_ms)
        elif guests is not None:
            guests.appoint(lease, start_ms)
        _tell(site.floor, lease)
    for lease in sorted(others, key=lambda lease: (planned_ms[lease.id], lease.order)):
        assert guests is not None
        _plan_guest_again(guests, lease, now_ms)


def _plan_guest_again(guests: Guests, lease: Lease, now_ms: int) -> None:
    guests.queue.reserve(lease, guests.queue.earliest(lease, now_ms))
    if lease.latest_ms is not None and lease.reserved_ms > lease.latest_ms:
        guests.queue.withdraw(lease, now_ms)
        guests.floor.displaced.append(lease)
    else:
        _tell(guests.floor, lease)


def _reserved(site: Site) -> list[Lease]:
    waiting = [] if site.guests is None else site.guests.waiting()
    return [lease for lease in [*site.locals.waiting(), *waiting] if lease.reserved_ms >= 0]


def _tell(floor: Floor, lease: Lease) -> None:
    floor.decide(lease, Outcome.MOVE, Reason.WAS_AWAY, RESTART, lease.reserved_ms)
