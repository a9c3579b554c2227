"""When does a lease end? May it last longer than it asked for, and what if its machines start late?

It may last longer only while it holds machines, only into room that nobody who comes before it has
booked, and never past a deadline or an owner's cap. A local lease goes before preemptable guests here as
everywhere: guests that wait step aside at once. Those that run share the site with it already, and give way
only when somebody starts for whom there is no room beside both.

Where starts are confirmed, the time of a lease counts from when its machines were seen, first or again. Until
then its room is booked as if they came when they usually do, and once that is over, as if they came now. So
its end moves: earlier, which gives room back; or later, and then whoever waits for that room is planned anew.
Two things do not give way to that: what is booked at home limits a Non-preemptable guest, whose time is then
cut short, since no machine that is slow to start may delay the site's own users; and Non-preemptable guests
that were promised their start limit everybody else at home. Only where the machines of a local lease have
not been seen by the time at which they should be free again, even those wait for them: they may have begun,
and whoever took the lease back to start it once more could run its command twice.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from leasehold.gateway.preemption import plan_guests_anew
from leasehold.leasing.profile import Profile
from leasehold.model.lease import Lease
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType

if TYPE_CHECKING:
    from leasehold.gateway.site import Site


STARTS = "starts"
"""The rule by which others are planned anew because machines were late."""


def why_no_longer(site: "Site", lease: Lease, more_work: int) -> Reason | None:
    """Say why a lease cannot do ``more_work`` (work units) here than it asked for; None if it can."""
    if lease.held_since_ms < 0:
        return Reason.NOT_RUNNING
    span_ms = _span_ms(site, lease, more_work)
    end_ms, longer_ms = lease.end_ms, lease.reserved_ms + span_ms
    deadline_ms = lease.request.deadline_ms
    if deadline_ms is not None and longer_ms > deadline_ms:
        return Reason.DEADLINE_TOO_TIGHT
    refusal = _beyond_the_owners_caps(site, span_ms) if _is_lent_for_good(lease) else None
    if refusal is not None:
        return refusal
    fits = all(plan.lowest(end_ms, longer_ms) >= lease.vms for plan in _plans_before(site, lease))
    return None if fits else Reason.ROOM_IN_USE


def _beyond_the_owners_caps(site: "Site", span_ms: int) -> Reason | None:
    """Whether a Non-preemptable guest of this span is more than the owner allows now.

    The owner may have lowered the caps while it was running: what it was promised it keeps, and no more.
    """
    settings, guests = site.settings, site.guests
    if settings.non_preemptable_share_vms == 0:
        return Reason.NON_PREEMPTABLE_NOT_ALLOWED
    if settings.non_preemptable_max_ms is not None and span_ms > settings.non_preemptable_max_ms:
        return Reason.NON_PREEMPTABLE_TOO_LONG
    share_vms = settings.non_preemptable_share_vms
    if guests is not None and share_vms is not None and guests.non_preemptable_vms > share_vms:
        return Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED
    return None


def prolong(site: "Site", lease: Lease, more_work: int) -> None:
    """Book the time that is added; `why_no_longer` has said that it can be had."""
    end_ms = lease.end_ms
    lease.span_ms = _span_ms(site, lease, more_work)
    for profile in _books(site, lease):
        profile.take(end_ms, lease.end_ms, lease.vms)
    lease.work_left += more_work


def count_from(site: "Site", lease: Lease, since_ms: int, works_from_ms: int, now_ms: int) -> None:
    """The machines of a lease are there since ``since_ms``: let its time count from ``works_from_ms`` on.

    Where that is over by now, it counts from so late that it is over in the next instant: its room is its own
    until then. Were it given away in this one, two leases would hold it.
    """
    wall_ms = site.allocations.wall_ms(lease.work_left)
    works_from_ms = max(works_from_ms, now_ms + 1 - wall_ms)
    end_ms = _end_if_moved_to(site, lease, works_from_ms + wall_ms, now_ms)
    lease.reserved_ms = lease.held_since_ms = since_ms
    lease.overhead_ms = works_from_ms - since_ms
    lease.span_ms = end_ms - since_ms


def keep_room(site: "Site", lease: Lease, now_ms: int) -> bool:
    """Book the room of a lease as if its machines came now; False if there is none for it any more.

    There always is for a local one: what is held at a site fits it, and what is not held yet can wait.
    """
    wall_ms = max(1, site.allocations.wall_ms(lease.work_left))
    guests = site.guests if lease.request.is_local else None
    promised = [] if guests is None else guests.call_off_appointments(now_ms)
    end_ms = _end_if_moved_to(site, lease, now_ms + wall_ms, now_ms)
    for promised_ms, guest in promised:
        assert guests is not None
        start_ms = site.home.earliest(max(promised_ms, now_ms), guest.span_ms, guest.vms)
        guests.appoint(guest, start_ms)
        if start_ms != promised_ms:
            site.allocations.decide(guest, Outcome.MOVE, Reason.DELAYED_BY_SLOW_START, STARTS, start_ms)
    lease.overhead_ms = now_ms - lease.held_since_ms
    lease.span_ms = end_ms - lease.reserved_ms
    return end_ms > now_ms


def _end_if_moved_to(site: "Site", lease: Lease, end_ms: int, now_ms: int) -> int:
    """Book, or give back, what lies between the end of a lease and another; returns which end it gets."""
    for profile in _books(site, lease):
        profile.trim(now_ms)
        profile.give(max(now_ms, end_ms), lease.end_ms, lease.vms)
        profile.take(lease.end_ms, end_ms, lease.vms)
    if end_ms <= lease.end_ms:
        return end_ms
    is_at_home = lease.request.lease_type is LeaseType.NON_PREEMPTABLE
    if lease.request.is_local:
        site.plan_locals_anew(now_ms)
    if is_at_home:
        free_until_ms = site.home.overbooked_from(lease.end_ms, end_ms)
        for profile in _books(site, lease):
            profile.give(free_until_ms, end_ms, lease.vms)
        end_ms = free_until_ms
    if site.guests is not None:
        plan_guests_anew(site.guests, Reason.DELAYED_BY_SLOW_START, STARTS, now_ms)
    return end_ms


def with_longer_request(lease: Lease, by_ms: int) -> None:
    """Let the request say what it now asks for; requests themselves never change."""
    lease.request = replace(lease.request, duration_ms=lease.request.duration_ms + by_ms)


def _span_ms(site: "Site", lease: Lease, more_work: int) -> int:
    return lease.overhead_ms + site.allocations.wall_ms(lease.work_left + more_work)


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
