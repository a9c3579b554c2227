"""Migratable guests that lost their place, or that can wait no longer, go on: where, is found here.

With a policy that parks, who has just lost its place is parked first, where its deadline leaves time for it
(`leasehold.gateway.parking`). All others go on now where they would end soonest, or are planned for later at
home, or have failed (`leasehold.gateway.displaced`).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from leasehold.gateway.displaced import (
    SAVED_OR_SAVING,
    could_still_end_in_time,
    fits_now,
    give_up,
    keep_for_later,
    soonest_elsewhere,
    take_over,
)
from leasehold.gateway.guests import Guests
from leasehold.gateway.quotas import QuotaEnforcer
from leasehold.gateway.site import Site
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason

if TYPE_CHECKING:
    from leasehold.gateway.desk import Desk

SOONEST_FINISH = "soonest-finish"


class Rescue:
    """Finds places for displaced guests."""

    def __init__(self, desk: "Desk", sites: Mapping[str, Site], quotas: QuotaEnforcer) -> None:
        """Begin; ``sites`` are the gateway's own."""
        self._desk = desk
        self._sites = sites
        self._quotas = quotas

    def all(self, displaced: Iterable[Lease], now_ms: int) -> None:
        """Find each of them a place or a time, or say that it has failed."""
        for lease in displaced:
            self._desk.touch(lease.site)
            home = self._sites[lease.site].open_to_guests(now_ms)
            if not self._desk.parking.take(home, lease, now_ms):
                self._rescue(home, lease, now_ms)

    def _rescue(self, home: Guests, lease: Lease, now_ms: int) -> None:
        if self._goes_on_at_home(lease, now_ms):
            return
        elsewhere = soonest_elsewhere(lease, self.open_to(lease, now_ms), now_ms)
        if elsewhere is not None:
            self.move(lease, elsewhere, Reason.ROOM_FREE, SOONEST_FINISH, now_ms)
        elif self._waits_on(home, lease, now_ms):
            home.park_again(lease)
        elif lease.state is LeaseState.WAITING and lease.request.wait:
            self._desk.take_back(lease, Reason.LOCAL_PLAN_CHANGED, SOONEST_FINISH)
        elif not keep_for_later(home, lease, now_ms):
            give_up(home, lease)

    def _goes_on_at_home(self, lease: Lease, now_ms: int) -> bool:
        """Resume a guest that was parked: that is sooner than moving it."""
        if not self._desk.parking.opens or lease.state is not LeaseState.SUSPENDED:
            return False
        rule = self._desk.routing.policy.name
        return self._desk.parking.resume(lease, Reason.DEADLINE_FORCES_RESUME, rule, now_ms)

    def _waits_on(self, home: Guests, lease: Lease, now_ms: int) -> bool:
        """Whether a parked guest without a place now could still be in time, were there one soon."""
        if not self._desk.parking.opens or lease.state not in SAVED_OR_SAVING:
            return False
        guests = [site.open_to_guests(now_ms) for site in self.open_to(lease, now_ms)]
        return could_still_end_in_time(lease, home, guests, now_ms)

    def move(self, lease: Lease, there: Guests, reason: Reason, rule: str, now_ms: int) -> None:
        """Let a guest go on at another site, which has room for it."""
        self._desk.parking.leases.pop(lease.id, None)
        self._desk.knowledge.gone(lease, lease.site)
        take_over(there, lease, reason, rule, now_ms)
        self._desk.knowledge.sent(lease)
        self._quotas.granted(lease, there.allocations.settings.speed_mips, now_ms)
        self._desk.touch(lease.site)

    def could_take(self, lease: Lease, now_ms: int) -> list[Guests]:
        """Give the other sites where a guest could go on now, and end in time."""
        guests = [site.open_to_guests(now_ms) for site in self.open_to(lease, now_ms)]
        return [one for one in guests if fits_now(one, lease, now_ms)]

    def open_to(self, lease: Lease, now_ms: int) -> list[Site]:
        """Give the own sites that lend, and that agreements and its own request let a lease be moved to."""
        return [
            site
            for site in self._desk.lenders.own()
            if site.name != lease.site
            and not self._quotas.is_bound_elsewhere(lease.request, site.name)
            and self._quotas.why_not_there(lease, site.name, site.settings.speed_mips, now_ms) is None
        ]
