"""Price and park, and refusing requests most likely to be preempted."""

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

    ``refused_above``  the price at every site above which a Migratable request is refused
    """

    refused_above: float = 0.3


class Selective(PriceAndPark):
    """Whom does it do no good to let in?

    Rule: that of price-and-park, but a Migratable request is refused where its price is above
        ``refused_above`` at every site.
    Source: our own study, its policy A with risk admission. Such a request would hold room for a while, be
        saved, and wait; refused at once, its user can go elsewhere.
    """

    name: ClassVar[str] = "selective"
    parameters: ClassVar[type[Any]] = SelectiveParameters
    patience: SelectiveParameters

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Look at the least price of Migratable requests first."""
        if request.lease_type is LeaseType.MIGRATABLE:
            offers = PricedOffers.seen(view)
            price, _ = offers.cheapest(newcomer(request), self.horizon(request))[0]
            if offers.are_learnt and price > self.patience.refused_above:
                return Refuse(Reason.TOO_RISKY)
        return super().route(request, view, now_ms)
