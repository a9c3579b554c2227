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
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from leasehold.model.reason import Reason
from leasehold.model.request import Request
from leasehold.routing.moments import StreamMoments
from leasehold.routing.view import Information, RoutingView, SiteFacts, SiteHistory, SiteLive, SiteSet

__all__ = [
    "Dispatch",
    "Hold",
    "Information",
    "Refuse",
    "RoutingPolicy",
    "RoutingView",
    "Selection",
    "SiteFacts",
    "SiteHistory",
    "SiteLive",
    "SiteSet",
    "StreamMoments",
    "Verdict",
    "Waiting",
    "newcomer",
]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send the request to this site. ``rule`` says which one decided where it was not the usual one."""

    site: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the request in the gateway's own queue.

    The policy is asked again at ``until_ms``, and before that when its `RoutingPolicy.select` picks the request;
    None leaves it to that.
    """

    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Turn the request down, and say why."""

    reason: Reason = Reason.POLICY_REFUSED


Verdict = Dispatch | Hold | Refuse


@dataclass(slots=True)
class Waiting:
    """A request that waits for a decision of the policy, at the gateway or, saved, at a site.

    ``since_ms``   since when it could run, or continue
    ``left_ms``    requested time that is left, on a machine of the reference speed
    ``home``       the site where its memory is saved, "" if it never started
    ``resume_ms``  the time until its work continues there
    ``move_ms``    the time until it continues at another site, None where it cannot be moved
    """

    request: Request
    since_ms: int
    left_ms: int
    home: str = ""
    resume_ms: int = 0
    move_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which waiting requests are worth deciding on now, and until when the others need not be looked at.

    The gateway asks again when something happens: a lease came, started, ended or gave way, or a site's state changed.
    If nothing does, it asks again at the first tick at ``again_ms`` or later, and what waits costs nothing until then.

    ``ripe``      to be decided on now, in this order
    ``again_ms``  the first time at which the selection could be another one although nothing happened; not after now
                  if one that is ripe could be decided otherwise at the next look
    ``rests_ms``  for so long the gateway does not ask again, whatever happens
    """

    ripe: Sequence[Waiting]
    again_ms: int
    rests_ms: int = 0


def newcomer(request: Request) -> Waiting:
    """Describe a request that waits at the gateway, or has just arrived."""
    return Waiting(request, request.ready_ms, request.duration_ms)


class RoutingPolicy(ABC):
    """Chooses a site for each external request.

    ``name``         as users write it
    ``information``  what it may ask of the view; asking for more raises UndeclaredInformation

    ``delays_resume``  whether it decides when saved guests that lost their place continue (`resume`);
                     without it, a suspended guest continues when its site has room, and one that can be moved
                     is moved at once
    ``parameters``   the dataclass of numbers that its constructor takes as second argument, where users can
                     set some: see `leasehold.routing.registry`

    ``random`` is its own stream of random numbers, so that a run can be repeated.
    """

    name: ClassVar[str]
    information: ClassVar[Information]
    delays_resume: ClassVar[bool] = False
    parameters: ClassVar[type[Any] | None] = None

    def __init__(self, random: Random) -> None:
        self.random = random

    @abstractmethod
    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Decide about one request.

        ``view.sites`` holds at least one site, and each of them is wide enough for the request.
        """

    def select(
        self,
        waiting: Sequence[Waiting],
        view: RoutingView,  # noqa: ARG002
        now_ms: int,  # noqa: ARG002
    ) -> Sequence[Waiting] | Selection:
        """Return the waiting requests worth deciding on now, in that order.

        Asked about all of them at once: a policy that holds many can say at a glance that nothing has changed for
        most. ``view`` shows all sites that lend. A policy that also knows until when nothing changes by itself returns
        a `Selection` and is woken then; one that returns the requests alone is asked at every event and every tick.
        """
        return waiting

    def resume(self, saved: Waiting, view: RoutingView, now_ms: int) -> Verdict:  # noqa: ARG002
        """Decide about a guest that is saved at its home; asked only of a policy with ``delays_resume``.

        ``view.sites`` holds its home, and others where it could be moved and its deadline can be kept.
        A refusal is read as `Hold`.
        """
        return Dispatch(saved.home)
