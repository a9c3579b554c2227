"""Sites that have less room than was promised: after a restart, and while nodes are down.

Preemptable guests give way until the rest fits; what cannot give way stays until its end, and nothing starts until all
fits again. Reservations are planned again, those at home first.
"""

from leasehold.gateway.allocations import Allocations
from leasehold.gateway.guests import Guests
from leasehold.gateway.preemption import shrink
from leasehold.gateway.site import Site
from leasehold.model.event import Outage
from leasehold.model.lease import Lease
from leasehold.model.reason import Outcome, Reason

OUTAGE = "outage"
"""The rule by which leases are planned around nodes that are down."""


def change_outages(site: Site, outages: tuple[Outage, ...], now_ms: int) -> None:
    """Do without the nodes that are down until they are expected back."""
    site.book_outages(outages, now_ms)
    if site.guests is not None:
        shrink(site.guests, now_ms)
    allocations = site.allocations
    allocations.outlasting = frozenset(allocations.held) if site.free_vms < 0 else frozenset()
    if is_promised_too_much(site):
        plan_again(site, Reason.SITE_SHRANK, OUTAGE, now_ms)


def is_promised_too_much(site: Site) -> bool:
    """Whether leases that wait were promised room that is not there; guests that run may be in their own way."""
    if site.home.is_overbooked():
        return True
    if site.guests is None:
        return False
    queue = site.guests.queue
    return any(queue.is_promised_too_much(lease) for lease in queue.reserved())


def plan_again(site: Site, why: Reason, rule: str, now_ms: int) -> None:
    """Plan all reservations from now on, those at home first; ``why`` is recorded where that moves one."""
    guests = site.guests
    planned_ms = {lease.id: lease.reserved_ms for lease in _reserved(site)}
    at_home = list(site.locals.reserved())
    for lease in at_home:
        site.locals.release(lease, now_ms)
    others = [] if guests is None else list(guests.queue.reserved())
    if guests is not None:
        at_home += [lease for _, lease in guests.call_off_reservations(now_ms)]
        for lease in others:
            guests.queue.release(lease, now_ms)
    for lease in sorted(at_home, key=lambda lease: (planned_ms[lease.id], lease.order)):
        start_ms = site.locals.earliest(lease, now_ms)
        if lease.request.is_local:
            site.locals.reserve(lease, start_ms)
        elif guests is not None:
            guests.appoint(lease, start_ms)
        _tell(site.allocations, lease, why, rule)
    for lease in sorted(others, key=lambda lease: (planned_ms[lease.id], lease.order)):
        assert guests is not None
        _plan_guest_again(guests, lease, why, rule, now_ms)


def _plan_guest_again(guests: Guests, lease: Lease, why: Reason, rule: str, now_ms: int) -> None:
    guests.queue.reserve(lease, guests.queue.earliest(lease, now_ms))
    if lease.latest_ms is not None and lease.reserved_ms > lease.latest_ms:
        guests.queue.withdraw(lease, now_ms)
        guests.allocations.changes.displaced.append((lease, why))
    else:
        _tell(guests.allocations, lease, why, rule)


def _reserved(site: Site) -> list[Lease]:
    waiting = [] if site.guests is None else site.guests.waiting()
    return [lease for lease in [*site.locals.waiting(), *waiting] if lease.reserved_ms >= 0]


def _tell(allocations: Allocations, lease: Lease, why: Reason, rule: str) -> None:
    allocations.decide(lease, Outcome.MOVE, why, rule, lease.reserved_ms)
