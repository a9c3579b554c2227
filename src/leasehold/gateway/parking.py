"""Guests that lost their place and wait, saved at their site, for the routing policy's word.

Only with a policy that parks. A Suspendable lease that had to give way does not go on as soon as there is
room, and a Migratable one is not moved at once: the next local request would take that room from them again,
and each time costs minutes. Both wait until the policy expects them to be left in peace.

A deadline is never waited away: once half of the time is gone that a Migratable lease has to spare, it goes
on at the first place that has room, whatever the policy thinks (`leasehold.gateway.rescue`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from leasehold.gateway.guests import Guests
from leasehold.gateway.site import Site
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.routing.policy import Waiting

if TYPE_CHECKING:
    from leasehold.gateway.desk import Desk

NO_HURRY_MS = 1 << 62
HOLDS_VMS = frozenset({LeaseState.RUNNING, LeaseState.RESUMING, LeaseState.MIGRATING})


class Parking:
    """Who is parked at the gateway's own sites; ``parked`` is shared with their all_allocations."""

    def __init__(self, desk: "Desk", sites: Mapping[str, Site], reference_mips: int) -> None:
        """Begin with nobody."""
        self.leases: dict[int, Lease] = {}
        self.opens = desk.routing.policy.parks
        self._policy = desk.routing.policy
        self._sites = sites
        self._reference_mips = reference_mips
        self._words: dict[int, Waiting] = {}

    def __len__(self) -> int:
        """How many are parked."""
        return len(self.leases)

    def take(self, guests: Guests, lease: Lease, now_ms: int) -> bool:
        """Park a Migratable guest that has just lost its place; False if there is no time for that."""
        settings = guests.allocations.settings
        if not self.opens or lease.state not in HOLDS_VMS or not settings.can_suspend:
            return False
        if lease.vms > settings.slots:
            return False
        guests.plan_resumption(lease, now_ms)
        latest_ms = _latest_ms(guests, lease)
        if latest_ms is not None and latest_ms < lease.earliest_ms:
            return False
        guests.suspend(lease, now_ms)
        lease.latest_ms = latest_ms
        guests.park(lease)
        return True

    def in_a_hurry(self, now_ms: int) -> list[Lease]:
        """Call those up whose deadline lets them wait no longer."""
        called = [lease for lease in self.leases.values() if _hurries_from_ms(lease) <= now_ms]
        for lease in called:
            del self.leases[lease.id]
        return called

    def waiting(self, now_ms: int) -> list[Waiting]:
        """Give those who could go on now: who can be moved first, then who was saved first."""
        saved = [one for one in self.leases.values() if _could_go_on(one, now_ms)]
        saved.sort(key=lambda lease: (-lease.request.lease_type, lease.earliest_ms, lease.order))
        return [self._word(lease) for lease in saved]

    def _word(self, lease: Lease) -> Waiting:
        """Describe a guest to the policy; it stays as it is as long as it is parked."""
        known = self._words.get(lease.id)
        if known is None or known.since_ms != lease.earliest_ms or known.home != lease.site:
            known = self._words[lease.id] = self._describe(lease)
        return known

    def _describe(self, lease: Lease) -> Waiting:
        request, overheads = lease.request, self._sites[lease.site].allocations.overheads
        move_ms = None
        if not request.lease_type.is_best_effort:
            move_ms = overheads.migrate_ms(request.memory_mib, lease.vms)
        left_ms = -(-lease.work_left // self._reference_mips)
        return Waiting(request, lease.earliest_ms, left_ms, lease.site, lease.overhead_ms, move_ms)

    def forget(self, lease_id: int) -> None:
        """A lease is over."""
        self._words.pop(lease_id, None)

    def resume(self, lease: Lease, reason: Reason, rule: str, now_ms: int) -> bool:
        """Let a guest go on at its home at once; False if there is no room there now, or it may not."""
        return self._sites[lease.site].open_to_guests(now_ms).go_on(lease, reason, rule, now_ms)


def _could_go_on(lease: Lease, now_ms: int) -> bool:
    return lease.state is LeaseState.SUSPENDED and lease.earliest_ms <= now_ms


def _latest_ms(guests: Guests, lease: Lease) -> int | None:
    """When it would have to go on at the latest, and be moved for that; None without a deadline."""
    request, allocations = lease.request, guests.allocations
    if request.deadline_ms is None:
        return None
    moving_ms = allocations.overheads.migrate_ms(request.memory_mib, lease.vms)
    return request.deadline_ms - max(lease.overhead_ms, moving_ms) - allocations.wall_ms(lease.work_left)


def _hurries_from_ms(lease: Lease) -> int:
    """From when on a parked guest takes any place: half of the time that it has to spare is gone."""
    if lease.latest_ms is None:
        return NO_HURRY_MS
    return lease.earliest_ms + (lease.latest_ms - lease.earliest_ms) // 2
