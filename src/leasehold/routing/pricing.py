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
from dataclasses import dataclass, field

from leasehold.model.request import NEVER_MS, Request
from leasehold.routing.demand import FIRST_SCALE_MS, DemandOutlook, horizon_near
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
    _prices: dict[tuple[int, int], float] = field(default_factory=dict)
    _rank: float = field(init=False)

    def __post_init__(self) -> None:
        """Rank it among rooms of the same price: what has more free comes first."""
        self._rank = -self.free_vms / self.site.slots

    @classmethod
    def seen(cls, site: SiteFacts, view: RoutingView) -> "PricedRoom":
        """Look at a site, once in a moment."""
        known = view.memo.get(site)
        if known is None:
            live = view.live(site.name)
            known = cls(site, live.free_vms - live.guest_waiting_vms, view.outlook(site.name), live.earliest_start_ms)
            view.memo[site] = known
        assert isinstance(known, cls)
        return known

    def offer(
        self, place: int, vms: int, overhead_ms: int, duration_ms: int, horizon: float
    ) -> tuple[float, float, int, "PricedRoom"]:
        """Price so many VMs for so long at the reference speed, after an overhead; offers sort by what a guest prefers.

        The cheapest comes first, then the room of which most is free, then the first in ``place``.
        """
        wall_ms = duration_ms * self.site.reference_mips / self.site.speed_mips
        return self.price(vms, overhead_ms + wall_ms, horizon), self._rank, place, self

    def price(self, vms: int, span_ms: float, horizon: float = HORIZON) -> float:
        """Price so many VMs for a span in wall time; infinite where they are not there."""
        if vms > self.free_vms:
            return math.inf
        longest_ms = horizon * self.outlook.scale_ms
        key = vms, horizon_near(span_ms if span_ms < longest_ms else longest_ms)
        known = self._prices.get(key)
        if known is None:
            tail, left_vms = self.outlook.at_horizon(key[1]), self.free_vms - vms
            known = ANYBODY * tail.at_least(left_vms + 1) + THESE * tail.mean(left_vms + 1, self.free_vms)
            self._prices[key] = known
        return known

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
        self.rooms = {site.name: PricedRoom.seen(site, view) for site in sites}
        rooms = self.rooms.values()
        self.are_learnt = any(room.outlook.is_learnt for room in rooms)
        self.scale_ms = float(FIRST_SCALE_MS)
        if rooms:
            self.scale_ms = math.fsum(room.outlook.scale_ms for room in rooms) / len(rooms)
        self.fastest = max((one.site.speed_mips / one.site.reference_mips for one in rooms), default=1.0)
        self._most_vms = max((room.free_vms for room in rooms), default=0)
        self._least: dict[tuple[str, int, int], float] = {}
        self._likely_ms: dict[int, int] = {}
        self._needed_parts: dict[str, float] = {}

    @classmethod
    def seen(cls, view: RoutingView) -> "PricedOffers":
        """Return what the sites of a view ask for: computed once for all requests that are shown this view."""
        known = view.memo.get(view)
        if known is None:
            known = view.memo[view] = cls(view.sites, view)
        assert isinstance(known, cls)
        return known

    def cheapest(self, waiting: Waiting, horizon: float = HORIZON) -> list[tuple[float, PricedRoom]]:
        """Return the sites where a request could run, with prices: cheapest first, then most free VMs."""
        vms, likely_ms = waiting.request.slots, self.likely_ms(waiting)
        offers = [
            one.offer(place, vms, _overhead_ms(waiting, one) if waiting.home else 0, likely_ms, horizon)
            for place, one in enumerate(self._for(waiting))
        ]
        return [(price, room) for price, _, _, room in sorted(offers)]

    def likely_ms(self, waiting: Waiting) -> int:
        """Return its likely remaining run time at the reference speed: part of what is left."""
        request = waiting.request
        known = self._likely_ms.get(request.id)
        if known is None:
            path = request.path
            part = self._needed_parts.get(path)
            if part is None:
                part = self._needed_parts[path] = self._view.needed_part(request)
            known = self._likely_ms[request.id] = max(1, round(part * waiting.left_ms))
        return known

    def least(self, waiting: Waiting) -> float:
        """Return the lowest price for a request, or slightly less: computed once for all alike."""
        vms = waiting.request.slots
        if vms > self._most_vms:
            return math.inf
        home = waiting.home if waiting.home and waiting.move_ms is None else ""
        size = self.likely_ms(waiting).bit_length()
        key = (home, vms, size)
        known = self._least.get(key)
        if known is None:
            known, short_ms = math.inf, 1 << size >> 1
            for room in self._for(waiting):
                if vms <= room.free_vms:
                    known = min(known, room.price(vms, room.wall_ms(short_ms)))
            self._least[key] = known
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
