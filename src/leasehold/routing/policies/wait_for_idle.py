"""Best effort waits for quiet time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from leasehold.model.request import NEVER_MS, LeaseType, Request
from leasehold.routing.policy import (
    Dispatch,
    Hold,
    Information,
    RoutingPolicy,
    RoutingView,
    Selection,
    Verdict,
    Waiting,
    newcomer,
)
from leasehold.routing.pricing import HORIZON, PricedOffers

NOT_LEARNT = "not-enough-seen"
"""The rule before the sites have seen enough local demand to wait for a lower price."""
HOLD = Hold()
"""Until something happens."""
LOOKS_PER_SCALE = 25
"""The maximum number of looks at waiting requests in a mean local holding time."""


@dataclass(frozen=True, slots=True)
class WaitingParameters:
    """What best-effort leases that wait accept to pay, and how that rises.

    ``price``         the price that a new, short lease accepts
    ``wait``          the wait, in mean local holding times, after which it accepts twice as much, and three
                      times after twice as long
    ``short``         maximum length of short leases, in mean local holding times; a lease *n* times as
                      long accepts *n* times as much
    ``dear_horizon``  maximum look-ahead of the price of a Migratable lease, in mean local holding times
    """

    price: float = 0.01
    wait: float = 0.6
    short: float = 0.25
    dear_horizon: float = 5.0


class WaitForIdle(RoutingPolicy):
    """When, and where, is best-effort work likely enough to be left in peace?

    Rule: Non-preemptable and Migratable requests go to the site of least price at once. Best-effort ones wait
        at the gateway, and start at the site of least price as soon as it is at most ``price`` x how long
        they are (in short leases, at least 1) x (1 + their wait / ``wait``). While no site has seen enough
        local demand, all are sent at once.
    Source: our own study; the price is that of `leasehold.routing.pricing`. All times are in mean local
        holding times, which are learnt.
    """

    name: ClassVar[str] = "wait-for-idle"
    information: ClassVar[Information] = Information.LIVE
    parameters: ClassVar[type[Any]] = WaitingParameters

    def __init__(self, random: Random, patience: WaitingParameters | None = None) -> None:
        """Begin with the usual parameters, or others; a policy that extends this one may have more."""
        super().__init__(random)
        self.patience = patience or self.parameters()

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Send requests that cannot wait, and start those that need not."""
        one, offers = newcomer(request), PricedOffers.seen(view)
        if request.lease_type.is_best_effort and offers.are_learnt:
            return self.start_or_hold(one, offers, now_ms)
        _, room = offers.cheapest(one, self.horizon(request))[0]
        is_early = request.lease_type.is_best_effort
        return Dispatch(room.site.name, NOT_LEARNT if is_early else "")

    def start_or_hold(self, waiting: Waiting, offers: PricedOffers, now_ms: int) -> Dispatch | Hold:
        """Take the cheapest room that can be had at once, if it is cheap enough."""
        limit, request = self.limit(waiting, offers, now_ms), waiting.request
        for price, room in offers.cheapest(waiting, self.horizon(request)):
            if price > limit:
                break
            if room.starts_now(request, waiting.left_ms, now_ms):
                return Dispatch(room.site.name)
        return Hold(request.ready_ms) if request.ready_ms > now_ms else HOLD

    def select(self, waiting: Sequence[Waiting], view: RoutingView, now_ms: int) -> Selection:
        """Return those that accept a price offered somewhere, or else when the first of them will.

        Prices stay as they are until a site's state changes or more was learnt there; what a request accepts rises
        with its wait. So the time at which it accepts the present price is known. What is sent to a site meanwhile
        makes none of them lower: a request that may go to all sites, and accepts no price now, need not be asked about.
        """
        offers, ripe, again_ms = PricedOffers.seen(view), list[Waiting](), NEVER_MS
        for one in waiting:
            price = offers.least(one)
            if price == math.inf:
                continue  # there is no room: whatever it accepts
            limit = self.limit(one, offers, now_ms)
            if price <= limit and offers.are_learnt and _only_waits(one) and view.goes_to_all(one.request):
                price = offers.cheapest(one, self.horizon(one.request))[0][0]
            if price <= limit:
                ripe.append(one)
            elif not ripe:
                again_ms = min(again_ms, self.accepts_from_ms(one, price, offers))
        again_ms = now_ms if ripe else min(again_ms, offers.steady_until_ms())
        return Selection(ripe, again_ms, rests_ms=round(offers.scale_ms / LOOKS_PER_SCALE))

    def accepts_from_ms(self, waiting: Waiting, price: float, offers: PricedOffers) -> int:
        """Say from when on, or just before that, `limit` is at least this price."""
        accepted, doubled_after = self.accepted(waiting, offers)
        if accepted <= 0:
            return NEVER_MS
        waits_ms = (price / accepted - 1) * doubled_after * offers.scale_ms
        return waiting.since_ms + max(0, math.floor(waits_ms) - 1)

    def horizon(self, request: Request) -> float:
        """Say how far ahead the price of a request looks."""
        return self.patience.dear_horizon if request.lease_type is LeaseType.MIGRATABLE else HORIZON

    def limit(self, waiting: Waiting, offers: PricedOffers, now_ms: int) -> float:
        """Return the price a waiting request accepts; -1 before it is ready."""
        waited = (now_ms - waiting.since_ms) / offers.scale_ms
        if waited < 0:
            return -1.0
        price, doubled_after = self.accepted(waiting, offers)
        return price * (1 + waited / doubled_after)

    def accepted(self, waiting: Waiting, offers: PricedOffers) -> tuple[float, float]:
        """Return the price a request accepts at first, and the wait after which it accepts twice that."""
        patience = self.patience
        shorts = offers.likely_ms(waiting) / (offers.fastest * patience.short * offers.scale_ms)
        return patience.price * max(1.0, shorts), patience.wait


def _only_waits(waiting: Waiting) -> bool:
    """Whether it waits at the gateway for a lower price, and for nothing else."""
    return not waiting.home and waiting.request.lease_type.is_best_effort
