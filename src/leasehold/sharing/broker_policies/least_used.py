"""Least used by this consumer."""

from random import Random

from leasehold.sharing.offers import BrokerOffer


def least_used(offer: BrokerOffer, stream: Random) -> int:  # noqa: ARG001 - all policies are asked alike
    """Where has this consumer used the least so far?

    Rule: the least use, as a share of what the domain has, over the window in which that is most.
    Source: the consumer utilisation of Algorithm 1, line 5 (Dumitrescu et al. 2007, section 3.1).
    """
    return -offer.used_ppm
