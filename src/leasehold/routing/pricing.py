"""What does room cost a guest? The chance that a site's own users take it back, at one moment.

The price of VMs at a site for a span is 0.7 times the probability of a preemption for a local request
within that span, were they taken, and 0.3 times the expected part of these very VMs that would be needed::

    x = free VMs - VMs asked for
    price = 0.7 P(peak > x) + 0.3 mean of P(peak >= k) over k from x + 1 to the free VMs

where the peak is that of the VMs of local leases that start within the span (`leasehold.routing.demand`). It
lies between 0 and 1; room that is not there has none. The span is what is likely, not what was asked for
(`leasehold.routing.estimators`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leasehold.model.request import NEVER_MS, Request
from leasehold.routing.demand import FIRST_SCALE_MS, DemandOutlook
from leasehold.routing.policy import Waiting
from leasehold.routing.view import EarliestStart, RoutingView, SiteFacts

ANYBODY, THESE = 0.7, 0.3
HORIZON = 1.3
"""How far ahead a price looks at most, in mean local holding times."""


@dataclass(slots=True)
class PricedRoom:
    """The room of one site at one moment; ``free_vms`` are those that no lease waiting there needs."""

    site: SiteFacts
    free_vms: int
    outlook: DemandOutlook
    earliest_start_ms: EarliestStart | None

    @classmethod
    def at(cls, site: SiteFacts, view: RoutingView) -> "PricedRoom":
        """Look at a site."""
        live = view.live(site.name)
        return cls(site, live.unclaimed_vms, view.outlook(site.name), live.earliest_start_ms)

    def price(self, vms: int, span_ms: float, horizon: float = HORIZON) -> float:
        """Price so many VMs for a span in wall time; infinite where they are not there."""
        if vms > self.free_vms:
            return math.inf
        tail = self.outlook.within(min(span_ms, horizon * self.outlook.scale_ms))
        left_vms = self.free_vms - vms
        return ANYBODY * tail.at_least(left_vms + 1) + THESE * tail.mean(left_vms + 1, self.free_vms)

    def wall_ms(self, duration_ms: int) -> float:
        """Give how long something takes here that takes so long at the reference speed."""
        return duration_ms * self.site.reference_mips / self.site.speed_mips

    def starts_now(self, request: Request, duration_ms: int, now_ms: int) -> bool:
        """Whether the site's plan has room for the whole span from now on, as far as is known."""
        if self.earliest_start_ms is None:
            return True
        start_ms = self.earliest_start_ms(request.vms, duration_ms, request)
        return start_ms is not None and start_ms <= now_ms


class PricedOffers:
    """What sites ask for room at one moment.

    ``scale_ms``     the mean of how long local leases hold their VMs
    ``fastest``      the speed of the fastest site, in reference speeds
    ``are_learnt``   whether any site has seen enough local demand for its price to mean something
    """

    def __init__(self, sites: Sequence[SiteFacts], view: RoutingView) -> None:
        """Look at these sites."""
        self._view = view
        self.rooms = {site.name: PricedRoom.at(site, view) for site in sites}
        rooms = self.rooms.values()
        self.are_learnt = any(room.outlook.is_learnt for room in rooms)
        self.scale_ms = float(FIRST_SCALE_MS)
        if rooms:
            self.scale_ms = math.fsum(room.outlook.scale_ms for room in rooms) / len(rooms)
        self.fastest = max((one.site.speed_mips / one.site.reference_mips for one in rooms), default=1.0)
        self._least: dict[tuple[str, int, int], float] = {}

    def cheapest(self, waiting: Waiting, horizon: float = HORIZON) -> list[tuple[float, PricedRoom]]:
        """Return the sites where a request could run, with prices: cheapest first, then most free VMs."""

        def rank(offer: tuple[float, PricedRoom]) -> tuple[float, float]:
            price, room = offer
            return price, -room.free_vms / room.site.slots

        vms, likely_ms = waiting.request.slots, self.likely_ms(waiting)
        offers = [
            (one.price(vms, _overhead_ms(waiting, one) + one.wall_ms(likely_ms), horizon), one)
            for one in self._for(waiting)
        ]
        return sorted(offers, key=rank)

    def likely_ms(self, waiting: Waiting) -> int:
        """Return its likely remaining run time at the reference speed: part of what is left."""
        return max(1, round(self._view.needed_part(waiting.request) * waiting.left_ms))

    def least(self, waiting: Waiting) -> float:
        """Return the lowest price for a request, or slightly less: computed once for all alike."""
        home = "" if can_move(waiting) else waiting.home
        size = self.likely_ms(waiting).bit_length()
        key = (home, waiting.request.slots, size)
        known = self._least.get(key)
        if known is None:
            vms, short_ms = waiting.request.slots, 1 << size >> 1
            prices = (room.price(vms, room.wall_ms(short_ms)) for room in self._for(waiting))
            known = self._least[key] = min(prices, default=math.inf)
        return known

    def steady_until_ms(self) -> int:
        """Say until when at least these prices stay, if nothing happens at the sites."""
        return min((room.outlook.steady_until_ms() for room in self.rooms.values()), default=NEVER_MS)

    def _for(self, waiting: Waiting) -> Iterable[PricedRoom]:
        if can_move(waiting):
            return self.rooms.values()
        return (self.rooms[waiting.home],) if waiting.home in self.rooms else ()


def can_move(waiting: Waiting) -> bool:
    """Whether it may run at any site: it has no saved memory, or can be moved."""
    return not waiting.home or waiting.move_ms is not None


def _overhead_ms(waiting: Waiting, room: PricedRoom) -> int:
    """Return the time to resume it at a site, or to move it there."""
    if waiting.move_ms is not None and room.site.name != waiting.home:
        return waiting.move_ms
    return waiting.resume_ms
