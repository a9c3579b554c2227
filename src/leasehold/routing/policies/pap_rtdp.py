"""Preemption-aware allocation with the request type dispatch policy (PAP-RTDP)."""

from collections.abc import Sequence
from typing import ClassVar

from leasehold.routing.policies.pap_rnd import PapRandom
from leasehold.routing.proportional import Rtdp
from leasehold.routing.view import SiteFacts


class PapRtdp(PapRandom):
    """Where are guests least likely to be disturbed, with every site given a mixture of lease types?

    Rule: the shares of pap-rnd, kept to by one deterministic billiard sequence for each lease type.
        When the shares change, the sequences restart.
    Source: JPDC 2012, section 4.2, eq 20 and Algorithm 2.
    """

    name: ClassVar[str] = "pap-rtdp"

    def dispatcher(self, proportions: Sequence[float], sites: Sequence[SiteFacts]) -> Rtdp:
        """Make the sequences; the fastest site is the one with the least external service time."""
        powers = [site.total_mips for site in sites]
        return Rtdp(proportions, fastest=powers.index(max(powers)))
