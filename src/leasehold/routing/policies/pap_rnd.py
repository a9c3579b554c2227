"""Preemption-aware allocation with random dispatch (PAP-RND)."""

from random import Random
from typing import Any, ClassVar

from leasehold.routing.pap import PAPER_SPREAD, Spread, pap_shares
from leasehold.routing.policy import Information, RoutingView
from leasehold.routing.proportional import ProportionalPolicy, Shares


class PapRandom(ProportionalPolicy):
    """Where are guests least likely to be disturbed, on average?

    Rule: drawn at random; the shares make the mean response time of external requests least in a
        queueing model of the sites, in which local requests preempt.
    Source: JPDC 2012, section 4.1, Algorithm 1 (corrected), eqs 3 to 19.
    """

    name: ClassVar[str] = "pap-rnd"
    information: ClassVar[Information] = Information.STATIC
    parameters: ClassVar[type[Any] | None] = Spread

    def __init__(self, random: Random, spread: Spread = PAPER_SPREAD) -> None:
        super().__init__(random)
        self.spread = spread

    def shares(self, view: RoutingView) -> Shares:
        """Work them out from the streams' moments, told or learnt."""
        return pap_shares(view, self.spread)
