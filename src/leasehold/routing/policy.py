"""Where should this request run, now or later? The interface of a routing policy.

A policy of your own is a class in a file of its own::

    class MostSlots(RoutingPolicy):
        \"\"\"Which eligible site has the most slots?\"\"\"

        name = "most-slots"
        information = Information.STATIC

        def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
            return Dispatch(max(view.sites, key=lambda site: site.slots).name)

It is found by its name once its package states it under the entry-point group
``leasehold.routing_policies``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from leasehold.model.reason import Reason
from leasehold.model.request import Request
from leasehold.routing.facts import Federation, SiteFacts, SiteHistory, SiteLive
from leasehold.routing.moments import StreamMoments
from leasehold.routing.view import Information, RoutingView

__all__ = [
    "Dispatch",
    "Federation",
    "Hold",
    "Information",
    "Refuse",
    "RoutingPolicy",
    "RoutingView",
    "SiteFacts",
    "SiteHistory",
    "SiteLive",
    "StreamMoments",
    "Verdict",
]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send the request to this site. ``rule`` says which one decided where it was not the usual one."""

    site: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the request in the gateway's own queue.

    The policy is asked again at ``until_ms`` and at every event and tick of the gateway before that;
    None leaves it to the events and ticks.
    """

    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Turn the request down, and say why."""

    reason: Reason = Reason.POLICY_REFUSED


Verdict = Dispatch | Hold | Refuse


class RoutingPolicy(ABC):
    """Chooses a site for each external request.

    ``name``         as users write it
    ``information``  what it may ask of the view; asking for more raises UndeclaredInformation

    ``random`` is its own stream of random numbers, so that a run can be repeated.
    """

    name: ClassVar[str]
    information: ClassVar[Information]

    def __init__(self, random: Random) -> None:
        self.random = random

    @abstractmethod
    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Decide about one request.

        ``view.sites`` holds at least one site, and each of them is wide enough for the request.
        """
