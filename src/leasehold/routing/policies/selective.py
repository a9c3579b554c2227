"""Price and park, and refusing requests most likely to be preempted."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policies.price_and_park import ParkingParameters, PriceAndPark
from leasehold.routing.policy import Refuse, RoutingView, Verdict, newcomer
from leasehold.routing.pricing import PricedOffers


@dataclass(frozen=True, slots=True)
class SelectiveParameters(ParkingParameters):
    """Whom is it worth letting in?

    ``refused_above``     the price at every site above which a Migratable request is refused
    ``np_refused_above``  the price at every site with room above which a Non-preemptable request is refused; 1: none is
    """

    refused_above: float = 0.3
    np_refused_above: float = 1.0


class Selective(PriceAndPark):
    """Whom does it do no good to let in?

    Rule: that of price-and-park, but a Migratable request is refused where its price is above
        ``refused_above`` at every site, and a Non-preemptable one where its price, looking as far ahead, is above
        ``np_refused_above`` at every site that has room.
    Source: our own study, its policy A with risk admission. Such a Migratable request would hold room for a while,
        be saved, and wait; refused at once, its user can go elsewhere. A Non-preemptable one would make local
        requests wait.
    """

    name: ClassVar[str] = "selective"
    parameters: ClassVar[type[Any]] = SelectiveParameters
    patience: SelectiveParameters

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Look at the least price of requests that start at once first."""
        if self._is_too_risky(request, view):
            return Refuse(Reason.TOO_RISKY)
        return super().route(request, view, now_ms)

    def _is_too_risky(self, request: Request, view: RoutingView) -> bool:
        patience = self.patience
        if request.lease_type is LeaseType.MIGRATABLE:
            return patience.refused_above < self._least_price(request, view)
        if request.lease_type is LeaseType.NON_PREEMPTABLE and patience.np_refused_above < 1:
            return patience.np_refused_above < self._least_price(request, view) < math.inf
        return False

    def _least_price(self, request: Request, view: RoutingView) -> float:
        """Return the least price of a new request, infinite where no site has room; 0 before prices mean something."""
        offers = PricedOffers.seen(view)
        price, _ = offers.cheapest(newcomer(request), self.patience.dear_horizon)[0]
        return price if offers.are_learnt else 0.0
