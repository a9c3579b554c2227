"""About whom is the routing policy asked again: those held at the gateway, and those parked at its sites."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leasehold.model.lease import Lease
from leasehold.model.reason import Reason
from leasehold.routing.policy import Dispatch, Waiting, newcomer
from leasehold.routing.view import RoutingView, SiteFacts

if TYPE_CHECKING:
    from leasehold.gateway.desk import Desk
    from leasehold.gateway.rescue import Rescue


class Asking:
    """Asks about all who wait at once, and then about each of whom the policy says that it is worth it."""

    def __init__(self, desk: "Desk", rescue: "Rescue") -> None:
        """Begin with nobody."""
        self._desk = desk
        self._rescue = rescue
        self._held: dict[int, Waiting] = {}

    def forget(self, lease_id: int) -> None:
        """Somebody is not held any more."""
        self._held.pop(lease_id, None)

    def view(self, sites: Sequence[SiteFacts], now_ms: int) -> RoutingView:
        """Show these sites to the policy."""
        desk = self._desk
        information = desk.routing.policy.information
        return RoutingView(desk.lenders.federation, sites, desk.knowledge, information, now_ms)

    def ripe(self, now_ms: int) -> Sequence[Waiting]:
        """Give whom the policy wants to be asked about now; who was parked comes before who never started."""
        desk = self._desk
        room = [self._describe(lease) for lease in desk.held.values() if lease.id in desk.awaits_room]
        waiting = [self._describe(lease) for lease in desk.held.values() if lease.id not in desk.awaits_room]
        if desk.parking.leases:
            waiting = [*desk.parking.waiting(now_ms), *waiting]
        if not waiting:
            return room
        sites = desk.lenders.open(desk.lenders.federation.sites)
        ripe = desk.routing.policy.ripe(waiting, self.view(sites, now_ms), now_ms)
        return [*room, *ripe] if room else ripe

    def _describe(self, lease: Lease) -> Waiting:
        known = self._held.get(lease.id)
        if known is None:
            known = self._held[lease.id] = newcomer(lease.request)
        return known

    def go_on(self, saved: Waiting, now_ms: int) -> None:
        """Ask the policy whether a parked guest goes on, and let it."""
        desk, lease = self._desk, self._desk.parking.leases[saved.request.id]
        others = [] if saved.move_ms is None else self._rescue.could_take(lease, now_ms)
        federation = desk.lenders.federation
        sites = [federation[lease.site], *(federation[guests.allocations.name] for guests in others)]
        verdict = desk.routing.policy.go_on(saved, self.view(sites, now_ms), now_ms)
        if not isinstance(verdict, Dispatch):
            return
        rule = verdict.rule or desk.routing.policy.name
        if verdict.site == lease.site:
            desk.parking.resume(lease, Reason.LOW_PREEMPTION_RISK, rule, now_ms)
            return
        for there in others:
            if there.allocations.name == verdict.site:
                self._rescue.move(lease, there, Reason.LOW_PREEMPTION_RISK, rule, now_ms)
                desk.touch(there.allocations.name)
