"""Least rate first with random dispatch (LRF-RND)."""

from typing import ClassVar

from leasehold.routing.policy import Information, RoutingView
from leasehold.routing.proportional import LEARNT_GOOD_FOR, ProportionalPolicy, Shares, least_rate_first_proportions


class LeastRateFirst(ProportionalPolicy):
    """Whose own users ask least often?

    Rule: drawn at random; a site's share is (1 - its part of all local requests) / (sites - 1).
    Source: JPDC 2012, section 5.2.1, eq 26, divided by N - 1 so that the shares sum to one.
    """

    name: ClassVar[str] = "lrf-rnd"
    information: ClassVar[Information] = Information.STATIC

    def shares(self, view: RoutingView) -> Shares:
        """Compute them from the local arrival rates, configured or learnt."""
        sites = view.federation.sites
        streams = [view.local(site.name) for site in sites]
        proportions = least_rate_first_proportions([stream.rate_per_s for stream in streams])
        good_for = None if all(stream.was_told for stream in streams) else LEARNT_GOOD_FOR
        return Shares.of(sites, proportions, good_for=good_for)
