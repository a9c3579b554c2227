"""Least price on arrival."""

from typing import ClassVar

from leasehold.model.request import Request
from leasehold.routing.policy import Dispatch, Information, RoutingPolicy, RoutingView, Verdict, newcomer
from leasehold.routing.pricing import PricedOffers


class Price(RoutingPolicy):
    """Where are a guest's VMs least likely to be needed by the site's own users before it ends?

    Rule: the least price of the room, ties to the greatest part free, then to the first site in order.
    Source: our own study; the price is that of `leasehold.routing.pricing`, from live room and from the local
        demand that each site has seen.
    """

    name: ClassVar[str] = "price"
    information: ClassVar[Information] = Information.LIVE

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:  # noqa: ARG002
        """Compare the prices."""
        _, room = PricedOffers.seen(view).cheapest(newcomer(request))[0]
        return Dispatch(room.site.name)
