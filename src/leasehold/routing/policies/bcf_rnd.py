"""Biggest cluster first with random dispatch (BCF-RND)."""

from typing import ClassVar

from leasehold.routing.policy import Information, RoutingView
from leasehold.routing.proportional import ProportionalPolicy, Shares, shares_by_computing_power


class BiggestClusterFirst(ProportionalPolicy):
    """Which site has the most computing power?

    Rule: drawn at random; a site's share is its part of all computing power, slots times speed.
    Source: JPDC 2012, section 5.2.1, eq 27.
    """

    name: ClassVar[str] = "bcf-rnd"
    information: ClassVar[Information] = Information.STATIC

    def shares(self, view: RoutingView) -> Shares:
        """Work them out from the facts of the sites; they never change."""
        return shares_by_computing_power(view.federation.sites)
