"""Waiting for quiet time, and parking preempted guests."""

from dataclasses import dataclass
from typing import Any, ClassVar

from leasehold.model.request import LeaseType
from leasehold.routing.policies.wait_for_idle import WaitForIdle, WaitingParameters
from leasehold.routing.policy import RoutingView, Verdict, Waiting
from leasehold.routing.pricing import PricedOffers


@dataclass(frozen=True, slots=True)
class ParkingParameters(WaitingParameters):
    """What Migratable leases that are parked accept besides.

    ``dear_price``  the price that a parked Migratable lease accepts at first
    ``dear_wait``   the wait, in mean local holding times, after which it accepts twice as much
    """

    dear_price: float = 0.1
    dear_wait: float = 1.2


class PriceAndPark(WaitForIdle):
    """When should a preempted guest continue, so that it is not preempted again?

    Rule: that of wait-for-idle, and preempted guests are parked: Suspendable leases continue at their site by
        the rule for leases not started yet; Migratable ones at home or elsewhere, where the price is
        at most ``dear_price`` x (1 + their wait / ``dear_wait``), or half of what they can spare is gone.
    Source: our own study, its policy A.
    """

    name: ClassVar[str] = "price-and-park"
    delays_resume: ClassVar[bool] = True
    parameters: ClassVar[type[Any]] = ParkingParameters
    patience: ParkingParameters

    def resume(self, saved: Waiting, view: RoutingView, now_ms: int) -> Verdict:
        """Continue a guest once the price has fallen to what it accepts after its wait."""
        return self.start_or_hold(saved, PricedOffers.seen(view), now_ms)

    def accepted(self, waiting: Waiting, offers: PricedOffers) -> tuple[float, float]:
        """Return the same for a parked guest; Migratable ones wait only here."""
        if waiting.request.lease_type is LeaseType.MIGRATABLE:
            return self.patience.dear_price, self.patience.dear_wait
        return super().accepted(waiting, offers)
