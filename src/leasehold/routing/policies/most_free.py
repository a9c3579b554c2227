"""Greatest free fraction."""

from typing import ClassVar

from leasehold.model.request import Request
from leasehold.routing.policy import Dispatch, Information, RoutingPolicy, RoutingView, SiteFacts


class MostFree(RoutingPolicy):
    """Which site has the greatest part of its slots free right now?

    Rule: the greatest free slots / slots, ties to the first site in order.
    Source: the shortest-queue idea, taken to sites of unequal size; needs their live state.
    """

    name: ClassVar[str] = "most-free"
    information: ClassVar[Information] = Information.LIVE

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Dispatch:  # noqa: ARG002
        """Compare the sites as they are now."""

        def free_fraction(site: SiteFacts) -> float:
            return view.live(site.name).free_vms / site.slots

        return Dispatch(max(view.sites, key=free_fraction).name)
