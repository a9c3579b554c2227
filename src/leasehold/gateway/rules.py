"""How a gateway routes: its policy, and what surrounds it."""

from dataclasses import dataclass

from leasehold.routing.moments import StreamMoments
from leasehold.routing.policy import RoutingPolicy


@dataclass(slots=True)
class Routing:
    """How a gateway routes.

    ``told_external, told_locals``  streams that an operator states; the others are learnt
    ``try_elsewhere``               ask the policy again, without the site that refused
    ``use_free_room``               send a request to a site that can start it now, if there is one, and let
                                    who has not started and waits at a site go to another that can
    ``tick_ms``                     how often held requests are asked about again at the latest
    ``learns``                      whether streams that nobody told are learnt; for nothing where no
                                    guest can come, and not free
    """

    policy: RoutingPolicy
    told_external: StreamMoments | None = None
    told_locals: dict[str, StreamMoments] | None = None
    try_elsewhere: bool = False
    use_free_room: bool = False
    tick_ms: int = 10_000
    learns: bool = True
