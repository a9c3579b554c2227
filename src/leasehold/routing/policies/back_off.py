"""As much as each site has borne."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from leasehold.model.request import Request
from leasehold.routing.policy import Dispatch, Hold, Information, RoutingPolicy, RoutingView, Verdict, Waiting
from leasehold.routing.view import SiteFacts, SiteHistory

AT_FIRST, AT_LEAST = 0.5, 0.05
"""Part of a site's slots that a window has at first, and at least."""
GROWS_BY, SHRINKS_TO = 0.004, 0.85


@dataclass(slots=True)
class _Window:
    """How much of a site may be under way, as a part of its slots, and what was known when it was set."""

    part: float = AT_FIRST
    ended: int = 0
    preempted: int = 0

    def learn(self, history: SiteHistory) -> None:
        """Grow with each lease that has gone since, shrink with each preemption."""
        ended = sum(history.sent) - history.in_flight_leases
        self.part += GROWS_BY * max(0, ended - self.ended)
        self.part *= SHRINKS_TO ** (history.preempted_leases - self.preempted)
        self.part = min(1.0, max(AT_LEAST, self.part))
        self.ended, self.preempted = ended, history.preempted_leases


class BackOff(RoutingPolicy):
    """How much have sites borne so far without having guests give way?

    Rule: each site has a window of own VMs under way. It grows by 0.4 % of the slots with each lease that has
        gone from there, and shrinks to 85 % with each that had to give way. Requests go where the least part
        of the window is taken; best-effort ones wait while they fit into none, one alone always fits.
    Source: our own; additive increase and multiplicative decrease (Chiu and Jain 1989), as networks find out
        what a line bears that tells them nothing. Uses what this gateway has sent, and what came of it.
    """

    name: ClassVar[str] = "back-off"
    information: ClassVar[Information] = Information.HISTORY

    def __init__(self, random: Random) -> None:
        """Begin with half of each site."""
        super().__init__(random)
        self._windows: dict[str, _Window] = {}

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Compare the windows."""
        taken = {site.name: self._taken(site, request.vms, view) for site in view.sites}
        chosen = min(taken, key=lambda name: taken[name])
        is_alone = view.history(chosen).in_flight_vms == 0
        if taken[chosen] <= 1 or is_alone or not request.lease_type.is_best_effort:
            return Dispatch(chosen)
        return Hold(request.ready_ms if request.ready_ms > now_ms else None)

    def select(self, waiting: Sequence[Waiting], view: RoutingView, now_ms: int) -> Sequence[Waiting]:  # noqa: ARG002
        """Ask in the order in which they came, the narrowest not before others: until one does not fit."""
        rooms = [self._room_vms(site, view) for site in view.sites]
        most_vms, ripe = max(rooms, default=0.0), list[Waiting]()
        for one in waiting:
            if one.request.vms <= most_vms or (most_vms > 0 and not ripe):
                ripe.append(one)
        return ripe

    def _taken(self, site: SiteFacts, vms: int, view: RoutingView) -> float:
        """What part of a window would be taken with so many more VMs."""
        return (view.history(site.name).in_flight_vms + vms) / (self._window(site, view).part * site.slots)

    def _room_vms(self, site: SiteFacts, view: RoutingView) -> float:
        return self._window(site, view).part * site.slots - view.history(site.name).in_flight_vms

    def _window(self, site: SiteFacts, view: RoutingView) -> _Window:
        window = self._windows.setdefault(site.name, _Window())
        window.learn(view.history(site.name))
        return window
