"""Best effort waits for quiet time."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from leasehold.model.request import LeaseType, Request
from leasehold.routing.policy import (
    Dispatch,
    Hold,
    Information,
    RoutingPolicy,
    RoutingView,
    Verdict,
    Waiting,
    newcomer,
)
from leasehold.routing.pricing import HORIZON, Offers

NOT_LEARNT = "not-enough-seen"
"""The rule before the sites have seen enough local demand to wait for a lower price."""
LOOKS_PER_SCALE = 25
"""How often those who wait are looked at, at most, in a mean local holding time."""


@dataclass(frozen=True, slots=True)
class Patience:
    """What a guest that can wait accepts to pay, and how that rises. Times are in mean local holding times.

    ``price``         of a short best-effort lease that has just come
    ``wait``          after which it is doubled, and tripled after twice as long
    ``short``         leases up to so long count as short; one that is longer pays so many times more
    ``dear_price``    the same of a Migratable lease, ``dear_wait`` after which it is doubled
    ``dear_horizon``  how far ahead the price of a Migratable lease looks at most
    ``refused_above`` the price above which a policy that is choosy refuses a Migratable request
    """

    price: float = 0.01
    wait: float = 0.6
    short: float = 0.25
    dear_price: float = 0.1
    dear_wait: float = 1.2
    dear_horizon: float = 5.0
    refused_above: float = 0.3


class QuietTime(RoutingPolicy):
    """When, and where, is best-effort work likely enough to be left in peace?

    Rule: Non-preemptable and Migratable requests go to the site of least price at once. Best-effort ones wait
        at the gateway, and start at the site of least price as soon as it is at most ``price`` x how long
        they are (in short leases, at least 1) x (1 + their wait / ``wait``). While no site has seen enough
        local demand, all are sent at once.
    Source: our own study; the price is that of `leasehold.routing.pricing`. All times are in mean local
        holding times, which are learnt.
    """

    name: ClassVar[str] = "quiet-time"
    information: ClassVar[Information] = Information.LIVE

    def __init__(self, random: Random, patience: Patience | None = None) -> None:
        """Begin with the usual patience, or another."""
        super().__init__(random)
        self.patience = patience or Patience()
        self._looks_again_ms = 0

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Send who cannot wait, and start who need not."""
        one, offers = newcomer(request), Offers(view.sites, view)
        if request.lease_type.is_best_effort and offers.are_learnt:
            return self.start_or_hold(one, offers, now_ms)
        _, room = offers.cheapest(one, self.horizon(request))[0]
        is_early = request.lease_type.is_best_effort
        return Dispatch(room.site.name, NOT_LEARNT if is_early else "")

    def start_or_hold(self, waiting: Waiting, offers: Offers, now_ms: int) -> Dispatch | Hold:
        """Take the cheapest room that can be had at once, if it is cheap enough."""
        limit, request = self.limit(waiting, offers, now_ms), waiting.request
        for price, room in offers.cheapest(waiting, self.horizon(request)):
            if price > limit:
                break
            if room.starts_now(request.vms, waiting.left_ms, now_ms):
                return Dispatch(room.site.name)
        return Hold(request.ready_ms if request.ready_ms > now_ms else None)

    def ripe(self, waiting: Sequence[Waiting], view: RoutingView, now_ms: int) -> Sequence[Waiting]:
        """Give those who accept what their VMs cost somewhere; nobody, where all were looked at just now."""
        if now_ms < self._looks_again_ms:
            return ()
        offers = Offers(view.sites, view)
        self._looks_again_ms = now_ms + round(offers.scale_ms / LOOKS_PER_SCALE)
        return [one for one in waiting if offers.least(one) <= self.limit(one, offers, now_ms)]

    def horizon(self, request: Request) -> float:
        """Say how far ahead the price of a request looks."""
        return self.patience.dear_horizon if request.lease_type is LeaseType.MIGRATABLE else HORIZON

    def limit(self, waiting: Waiting, offers: Offers, now_ms: int) -> float:
        """Say what somebody who waits accepts; nothing before it is ready."""
        patience, scale_ms = self.patience, offers.scale_ms
        waited = (now_ms - waiting.since_ms) / scale_ms
        if waited < 0:
            return -1.0
        if waiting.request.lease_type is LeaseType.MIGRATABLE:
            return patience.dear_price * (1 + waited / patience.dear_wait)
        shorts = waiting.left_ms / (offers.fastest * patience.short * scale_ms)
        return patience.price * max(1.0, shorts) * (1 + waited / patience.wait)
