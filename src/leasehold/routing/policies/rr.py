"""Round robin (RR)."""

from random import Random
from typing import ClassVar

from leasehold.model.request import Request
from leasehold.routing.policy import Dispatch, Information, RoutingPolicy, RoutingView


class RoundRobin(RoutingPolicy):
    """Whose turn is it?

    Rule: the eligible site that follows the last chosen one in the fixed order of the sites.
    Source: JPDC 2012, section 5.2.1, eq 25.
    """

    name: ClassVar[str] = "rr"
    information: ClassVar[Information] = Information.STATIC

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._last = -1

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Dispatch:  # noqa: ARG002
        """Take the next site in turn."""
        position = view.federation.position
        later = (site for site in view.sites if position(site.name) > self._last)
        chosen = next(later, view.sites[0])
        self._last = position(chosen.name)
        return Dispatch(chosen.name)
