"""Where a Migratable lease goes on that has lost its place.

First to the cluster of the same gateway where it would finish soonest among those that have room for
it now and meet its deadline; else it waits, suspended, where it was, if it can still be finished there
before its deadline; else it has failed, and that is said. JPDC 2012, section 2.1, asks for the first two.
"""

from collections.abc import Iterable

from leasehold.gateway.guests import Guests, meets_deadline
from leasehold.gateway.site import Site
from leasehold.model.effect import MigrateLease, StopLease
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason

SAVED_OR_SAVING = (LeaseState.SUSPENDING, LeaseState.SUSPENDED)


def soonest_elsewhere(lease: Lease, sites: Iterable[Site], now_ms: int) -> Guests | None:
    """Find the other site where the lease would finish first, the first listed among equals."""
    best: Guests | None = None
    best_ms = 0
    for site in sites:
        if site.name == lease.site or not _could_take(site, lease):
            continue
        guests = site.open_to_guests(now_ms)
        finish_ms = _finish_if_moved_ms(guests, lease, now_ms)
        if finish_ms is not None and (best is None or finish_ms < best_ms):
            best, best_ms = guests, finish_ms
    return best


def _could_take(site: Site, lease: Lease) -> bool:
    return lease.vms <= site.settings.slots and site.settings.can_serve(lease.request.lease_type)


def _finish_if_moved_ms(guests: Guests, lease: Lease, now_ms: int) -> int | None:
    """When a displaced lease would end if it went to this site now; None where it cannot."""
    start_ms = max(now_ms, lease.request.ready_ms)
    finish_ms = start_ms + _transfer_ms(guests, lease) + guests.allocations.wall_ms(lease.work_left)
    deadline_ms = lease.request.deadline_ms
    if deadline_ms is not None and finish_ms > deadline_ms:
        return None
    return finish_ms if guests.full.lowest(start_ms, finish_ms) >= lease.vms else None


def _transfer_ms(guests: Guests, lease: Lease) -> int:
    """Nothing has to be moved of a lease that never started."""
    if lease.state is LeaseState.WAITING:
        return 0
    return guests.allocations.overheads.migrate_ms(lease.request.memory_mib, lease.vms)


def could_still_end_in_time(lease: Lease, home: Guests, others: Iterable[Guests], now_ms: int) -> bool:
    """Whether a saved lease could meet its deadline anywhere, were there room at once."""
    deadline_ms = lease.request.deadline_ms
    if deadline_ms is None:
        return True
    ends_ms = [now_ms + lease.overhead_ms + home.allocations.wall_ms(lease.work_left)]
    ends_ms += [now_ms + _transfer_ms(one, lease) + one.allocations.wall_ms(lease.work_left) for one in others]
    return min(ends_ms) <= deadline_ms


def fits_now(guests: Guests, lease: Lease, now_ms: int) -> bool:
    """Whether a displaced lease could go on at another site now, and end there in time."""
    settings = guests.allocations.settings
    is_able = lease.vms <= settings.slots and settings.can_serve(lease.request.lease_type)
    return is_able and _finish_if_moved_ms(guests, lease, now_ms) is not None


def take_over(guests: Guests, lease: Lease, reason: Reason, rule: str, now_ms: int) -> None:
    """Let a displaced lease go on at this site; it has been found that it fits."""
    source, lease.site = lease.site, guests.allocations.name
    lease.overhead_ms = _transfer_ms(guests, lease)
    lease.span_ms = lease.overhead_ms + guests.allocations.wall_ms(lease.work_left)
    if lease.state is LeaseState.WAITING:
        start_ms = max(now_ms, lease.request.ready_ms)
        guests.queue.reserve(lease, start_ms)
        guests.allocations.decide(lease, Outcome.MOVE, Reason.LOCAL_PLAN_CHANGED, rule, start_ms)
        return
    lease.overhead_vm_ms += lease.overhead_ms * lease.vms
    lease.migrations += 1
    advance(lease, Step.MIGRATE)
    guests.queue.book(now_ms, lease)
    guests.allocations.enter(lease, now_ms)
    guests.allocations.effects.append(MigrateLease(lease, source, lease.overhead_ms))
    guests.allocations.decide(lease, Outcome.MOVE, reason, rule)


def keep_for_later(guests: Guests, lease: Lease, now_ms: int) -> bool:
    """Plan to finish a displaced lease where it was, before its deadline; False if it is too late."""
    is_unstarted = lease.state is LeaseState.WAITING
    if is_unstarted and not lease.incarnation:
        return False  # it was promised its ready time
    if lease.vms > guests.allocations.settings.slots:
        return False
    has_memory = not is_unstarted and lease.state not in SAVED_OR_SAVING
    if has_memory:
        guests.plan_resumption(lease, now_ms)
    start_ms = guests.queue.earliest(lease, now_ms)
    if not meets_deadline(lease, start_ms):
        return False
    if has_memory:
        guests.suspend(lease, now_ms)
    deadline_ms = lease.request.deadline_ms
    lease.latest_ms = None if deadline_ms is None else deadline_ms - lease.span_ms
    guests.queue.reserve(lease, start_ms)
    guests.allocations.decide(lease, Outcome.WAIT, Reason.ROOM_IN_USE, "before-deadline", start_ms)
    return True


def give_up(guests: Guests, lease: Lease) -> None:
    """End a displaced lease whose deadline nobody can keep any more."""
    guests.allocations.effects.append(StopLease(lease))
    guests.allocations.close(lease, Step.FAIL, Reason.DEADLINE_LOST)
