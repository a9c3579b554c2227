"""Which guests' reservations are planned anew after the site's own users took room.

A strategy takes the guests' backfiller and the time, makes the plan fit again as far as moving
reservations can (guests that already run are a matter for preemption), and returns the leases that it
moved to a later start, in their order. Only the reservations in conflict are touched by default: full
re-planning costs hundreds of moves a request with long queues, and takes promises back without need.
"""

from collections.abc import Callable

from leasehold.leasing.backfill import Backfiller
from leasehold.model.lease import Lease

Repair = Callable[[Backfiller, int], list[Lease]]


def repair_conflicts(guests: Backfiller, now_ms: int) -> list[Lease]:
    """Plan anew only what overlaps with over-booked time; of those in conflict the last to come gives way."""
    plan = guests.plan
    if min(plan.free) >= 0:
        return []
    in_conflict: list[tuple[Lease, int]] = []
    for lease in reversed(guests.reserved.values()):
        start_ms = lease.reserved_ms
        if plan.lowest(max(now_ms, start_ms), start_ms + lease.span_ms) < 0:
            guests.release(lease, now_ms)
            in_conflict.append((lease, start_ms))
    in_conflict.reverse()
    return _plan_again(guests, in_conflict, now_ms)


def replan_all(guests: Backfiller, now_ms: int) -> list[Lease]:
    """Plan every waiting guest anew, in order of arrival, as if none had a reservation."""
    waiting = [(lease, lease.reserved_ms) for lease in guests.reserved.values()]
    for lease, _ in waiting:
        guests.release(lease, now_ms)
    return _plan_again(guests, waiting, now_ms)


def _plan_again(guests: Backfiller, unplanned: list[tuple[Lease, int]], now_ms: int) -> list[Lease]:
    for lease, _ in unplanned:
        guests.reserve(lease, guests.earliest(lease, now_ms))
    return [lease for lease, promised_ms in unplanned if lease.reserved_ms > promised_ms]


REPAIRS: dict[str, Repair] = {"conflicts": repair_conflicts, "replan": replan_all}
