"""May a lease last longer than it asked for?

Only while it holds machines, only into room that nobody who comes before it has booked, and never past a
deadline or an owner's cap. A local lease goes before preemptable guests here as everywhere: guests that wait
step aside at once. Those that run share the site with it already, and give way only when somebody starts for
whom there is no room beside both.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from leasehold.leasing.profile import Profile
from leasehold.model.lease import Lease
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType

if TYPE_CHECKING:
    from leasehold.gateway.site import Site


def why_no_longer(site: "Site", lease: Lease, more_work: int) -> Reason | None:
    """Say why a lease cannot do ``more_work`` (work units) here than it asked for; None if it can."""
    if lease.held_since_ms < 0:
        return Reason.NOT_RUNNING
    span_ms = _span_ms(site, lease, more_work)
    end_ms, longer_ms = lease.reserved_ms + lease.span_ms, lease.reserved_ms + span_ms
    deadline_ms, longest_ms = lease.request.deadline_ms, site.settings.non_preemptable_max_ms
    if deadline_ms is not None and longer_ms > deadline_ms:
        return Reason.DEADLINE_TOO_TIGHT
    if _is_lent_for_good(lease) and longest_ms is not None and span_ms > longest_ms:
        return Reason.NON_PREEMPTABLE_TOO_LONG
    fits = all(plan.lowest(end_ms, longer_ms) >= lease.vms for plan in _plans_before(site, lease))
    return None if fits else Reason.ROOM_IN_USE


def prolong(site: "Site", lease: Lease, more_work: int) -> None:
    """Book the time that is added; `why_no_longer` has said that it can be had."""
    end_ms = lease.reserved_ms + lease.span_ms
    lease.span_ms = _span_ms(site, lease, more_work)
    for profile in _books(site, lease):
        profile.take(end_ms, lease.reserved_ms + lease.span_ms, lease.vms)
    lease.work_left += more_work


def with_longer_request(lease: Lease, by_ms: int) -> None:
    """Let the request say what it now asks for; requests themselves never change."""
    lease.request = replace(lease.request, duration_ms=lease.request.duration_ms + by_ms)


def _span_ms(site: "Site", lease: Lease, more_work: int) -> int:
    return lease.overhead_ms + site.floor.wall_ms(lease.work_left + more_work)


def _is_lent_for_good(lease: Lease) -> bool:
    return lease.request.lease_type is LeaseType.NON_PREEMPTABLE and not lease.request.is_local


def _plans_before(site: "Site", lease: Lease) -> Iterable[Profile]:
    """Give the plans in which everybody is booked who comes before this lease."""
    if lease.request.is_local or site.guests is None:
        return (site.home,)
    return (site.home, site.guests.full) if _is_lent_for_good(lease) else (site.guests.full,)


def _books(site: "Site", lease: Lease) -> Iterable[Profile]:
    """Give the plans in which this lease itself is booked."""
    if lease.request.lease_type is LeaseType.NON_PREEMPTABLE:
        return site.locals.books
    assert site.guests is not None
    return site.guests.queue.books
