"""Fewest own leases in flight."""

from typing import ClassVar

from leasehold.model.request import Request
from leasehold.routing.policy import Dispatch, Information, RoutingPolicy, RoutingView, SiteFacts


class LeastInFlight(RoutingPolicy):
    """Where do the fewest of our own leases wait or run, for the size of the site?

    Rule: the least own leases in flight / slots, ties to the first site in order.
    Source: the least-outstanding-requests idea of load balancers; needs only the gateway's own history.
    """

    name: ClassVar[str] = "least-in-flight"
    information: ClassVar[Information] = Information.HISTORY

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Dispatch:  # noqa: ARG002
        """Compare what was sent and has not come back."""

        def in_flight_per_slot(site: SiteFacts) -> float:
            return view.history(site.name).in_flight_leases / site.slots

        return Dispatch(min(view.sites, key=in_flight_per_slot).name)
