"""Waiting for quiet time, and parking who lost their place."""

from typing import ClassVar

from leasehold.routing.policies.quiet_time import QuietTime
from leasehold.routing.policy import RoutingView, Verdict, Waiting
from leasehold.routing.pricing import Offers


class PriceAndPark(QuietTime):
    """When should who had to give way go on, so that it need not give way again?

    Rule: that of quiet-time, and who had to give way is parked: Suspendable leases go on at their site by
        the rule of those who have not started yet; Migratable ones at home or elsewhere, where the price is
        at most ``dear_price`` x (1 + their wait / ``dear_wait``), or half of what they can spare is gone.
    Source: our own study, its policy A.
    """

    name: ClassVar[str] = "price-and-park"
    parks: ClassVar[bool] = True

    def go_on(self, saved: Waiting, view: RoutingView, now_ms: int) -> Verdict:
        """Let a guest go on whose price has come down, or whose patience has gone up, enough."""
        return self.start_or_hold(saved, Offers(view.sites, view), now_ms)
