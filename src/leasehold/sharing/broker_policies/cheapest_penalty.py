"""Lightest penalty."""

from random import Random

from leasehold.sharing.offers import BrokerOffer


def cheapest_penalty(offer: BrokerOffer, stream: Random) -> int:  # noqa: ARG001 - all policies are asked alike
    """Where would the request break the lightest rules?

    Rule: the least penalty among the domains; it is 0 where no rule is broken.
    Source: the penalties of Algorithm 1, line 8 (Dumitrescu et al. 2007, section 3.1).
    """
    return -offer.penalty
