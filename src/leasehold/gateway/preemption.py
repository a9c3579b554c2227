"""Which guests give way when the site's own users need room, or a promised start of a Non-preemptable guest is due.

First the reservations of waiting guests are planned around it; what is still short after that is held by guests that
run, and the site's victim policy chooses among those.
"""

from collections.abc import Iterable, Mapping

from leasehold.gateway.guests import Guests
from leasehold.leasing.backfill import Booking, Started
from leasehold.leasing.vectors import CORES, Key, VectorBackfiller
from leasehold.leasing.victims.candidate import Candidate, VictimChoice, vms_of
from leasehold.leasing.victims.cover import choose_cover
from leasehold.model.effect import Decision, Preemption, StopLease
from leasehold.model.lease import Lease
from leasehold.model.lifecycle import Step
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType

REPAIR = "repair"
"""The rule by which waiting guests are planned around what the site's own users have booked."""


MOST_CANDIDATES = 64
"""Of a preemption at a site where no more leases hold VMs, all that could have given way are kept."""


def give_way(guests: Guests, started: Started, now_ms: int) -> set[int]:
    """Make room for local requests that start now, and for guests that were promised this instant.

    Returns the ids of those that needed a preemption.
    """
    guests.full.trim(now_ms)
    replan_guests(guests, Reason.LOCAL_PLAN_CHANGED, REPAIR, now_ms)
    queue = guests.queue
    if isinstance(queue, VectorBackfiller):
        return _give_way_on_nodes(guests, queue, _takers(guests, started, now_ms), now_ms)
    free_vms = queue.plan.free_at(now_ms)
    helped: set[int] = set()
    if free_vms >= 0:
        return helped
    takers = _takers(guests, started, now_ms)
    spare_vms = sum(lease.vms for lease in takers) + free_vms
    for lease in takers:
        if lease.vms > spare_vms:
            spare_vms += _preempt_for(guests, lease, lease.vms - spare_vms, now_ms)
            helped.add(lease.id)
        spare_vms -= lease.vms
    return helped


def _takers(guests: Guests, started: Started, now_ms: int) -> list[Lease]:
    return [*(lease for lease, _ in started), *guests.due_reservations(now_ms)]


def _give_way_on_nodes(guests: Guests, queue: VectorBackfiller, takers: Iterable[Lease], now_ms: int) -> set[int]:
    """The same at a site of nodes: what is missing is looked at for each node, and for each thing that it has."""
    short = queue.plan.short_at(now_ms)
    if not short:
        return set()
    takes = {lease.id: _held(queue, lease) for lease in takers}
    spare = {key: sum(of.get(key, 0) for of in takes.values()) - missing for key, missing in short.items()}
    helped: set[int] = set()
    for lease in takers:
        needs = {key: of - spare[key] for key, of in takes[lease.id].items() if key in spare and of > spare[key]}
        if needs:
            freed = _preempt_on_nodes(guests, queue, lease, needs, now_ms)
            spare = {key: free + freed.get(key, 0) for key, free in spare.items()}
            helped.add(lease.id)
        spare = {key: free - takes[lease.id].get(key, 0) for key, free in spare.items()}
    return helped


def _held(queue: VectorBackfiller, lease: Lease) -> dict[Key, int]:
    return {(index, position): of for index, amounts in queue.room_of(lease) for position, of in amounts}


def _preempt_on_nodes(
    guests: Guests, queue: VectorBackfiller, taker: Lease | None, needs: Mapping[Key, int], now_ms: int
) -> dict[Key, int]:
    """Preempt guests for one request, or for nodes that are down; returns what that freed.

    What no guest that may give way holds is left out: that frees itself when its holder ends.
    """
    allocations, policy = guests.allocations, guests.allocations.settings.victims
    candidates = allocations.preemptable(now_ms).candidates()
    amounts = {one.lease_id: _held(queue, allocations.held[one.lease_id]) for one in candidates}
    there = {key: sum(of.get(key, 0) for of in amounts.values()) for key in needs}
    needs = {key: min(needed, there[key]) for key, needed in needs.items() if there[key] > 0}
    freed: dict[Key, int] = {}
    if not needs:
        return freed
    choice = choose_cover(policy, candidates, amounts, needs)
    missing_vms = next(iter(needs.values())) if len(needs) == 1 and {key[1] for key in needs} == {CORES} else 1
    report = None
    if taker is not None:
        shown = tuple(candidates) if len(allocations.held) <= MOST_CANDIDATES else ()
        report = _report(choice, taker, min(missing_vms, vms_of(choice.victims)), shown)
    bookings: list[Booking] = []
    for victim in choice.victims:
        lease = allocations.held[victim.lease_id]
        why = Reason.SITE_SHRANK if taker is None else _reason(choice, victim, taker)
        allocations.changes.effects.append(
            Decision(lease, allocations.name, Outcome.PREEMPT, why, policy.name, preemption=report)
        )
        for key, of in amounts[victim.lease_id].items():
            freed[key] = freed.get(key, 0) + of
        bookings.append(_preempt(guests, lease, now_ms))
    queue.give_back(bookings)
    return freed


def replan_guests(guests: Guests, reason: Reason, rule: str, now_ms: int) -> None:
    """Move the reservations of waiting guests out of the way of other bookings, and say why."""
    for lease in guests.allocations.settings.repair(guests.queue, now_ms):
        if lease.latest_ms is not None and lease.reserved_ms > lease.latest_ms:
            guests.queue.withdraw(lease, now_ms)
            guests.allocations.changes.displaced.append((lease, reason))
        else:
            planned_ms = lease.reserved_ms
            guests.allocations.decide(lease, Outcome.MOVE, reason, rule, planned_ms)


def _preempt_for(guests: Guests, taker: Lease, needed_vms: int, now_ms: int) -> int:
    """Preempt guests for one request; returns how many VMs that freed."""
    allocations, policy = guests.allocations, guests.allocations.settings.victims
    pool = allocations.preemptable(now_ms)
    choice = policy.choose_from(pool, needed_vms)
    candidates = tuple(pool.candidates()) if len(allocations.held) <= MOST_CANDIDATES else ()
    report = _report(choice, taker, needed_vms, candidates)
    freed: list[Booking] = []
    for victim in choice.victims:
        lease = allocations.held[victim.lease_id]
        outcome = Outcome.PREEMPT
        why = _reason(choice, victim, taker)
        allocations.changes.effects.append(
            Decision(lease, allocations.name, outcome, why, policy.name, preemption=report)
        )
        freed.append(_preempt(guests, lease, now_ms))
    guests.queue.give_back(freed)
    return report.freed_vms


def shrink(guests: Guests, now_ms: int) -> None:
    """Let preemptable guests give way until what is held fits the slots that are up, or none is left."""
    allocations, policy = guests.allocations, guests.allocations.settings.victims
    if isinstance(guests.queue, VectorBackfiller):
        short = guests.queue.plan.short_at(now_ms)
        if short:
            _preempt_on_nodes(guests, guests.queue, None, short, now_ms)
        return
    preemptable = allocations.preemptable(now_ms)
    held_vms = allocations.local_vms + allocations.guest_vms
    over_vms = held_vms + allocations.down_vms - allocations.settings.slots
    needed_vms = min(over_vms, preemptable.vms)
    if needed_vms <= 0:
        return
    choice = policy.choose_from(preemptable, needed_vms)
    freed: list[Booking] = []
    for victim in choice.victims:
        lease = allocations.held[victim.lease_id]
        allocations.decide(lease, Outcome.PREEMPT, Reason.SITE_SHRANK, policy.name)
        freed.append(_preempt(guests, lease, now_ms))
    guests.queue.give_back(freed)


def _reason(choice: VictimChoice, victim: Candidate, taker: Lease) -> Reason:
    if victim.lease_id in choice.despite:
        return Reason.NO_OTHER_VICTIM
    return Reason.LOCAL_NEEDS_ROOM if taker.request.is_local else Reason.RESERVATION_NEEDS_ROOM


def _report(choice: VictimChoice, taker: Lease, needed_vms: int, candidates: tuple[Candidate, ...]) -> Preemption:
    runner_up = choice.runner_up
    return Preemption(
        beneficiary=taker.id,
        victims=tuple(victim.lease_id for victim in choice.victims),
        needed_vms=needed_vms,
        freed_vms=vms_of(choice.victims),
        cost_vm_ms=choice.cost_vm_ms,
        runner_up=None if runner_up is None else tuple(victim.lease_id for victim in runner_up),
        runner_up_cost_vm_ms=None if runner_up is None else sum(v.cost_vm_ms for v in runner_up),
        exact=choice.exact,
        considered=choice.considered,
        candidates=candidates,
    )


def _preempt(guests: Guests, lease: Lease, now_ms: int) -> Booking:
    """Take the VMs of a guest; what becomes of it depends on its type. Returns what it had booked.

    One whose machines were not seen yet may have begun nevertheless: were it to wait instead, its command
    could run twice, and at two sites at a time.
    """
    lease.work_left -= lease.ran_ms(now_ms) * guests.allocations.settings.speed_mips
    lease.preemptions += 1
    guests.allocations.leave(lease, now_ms)
    booking = guests.queue.unbook(lease, now_ms)
    match lease.request.lease_type:
        case LeaseType.CANCELABLE:
            guests.allocations.changes.effects.append(StopLease(lease))
            guests.allocations.close(lease, Step.TERMINATE, Reason.TERMINATED)
        case LeaseType.SUSPENDABLE:
            guests.suspend(lease, now_ms)
            guests.wait_suspended(lease)
        case _:
            guests.allocations.changes.displaced.append((lease, Reason.ROOM_IN_USE))
    return booking
