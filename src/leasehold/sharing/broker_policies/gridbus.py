"""Cheapest, then fastest, after the Grid Service Broker of GridBus."""

from random import Random

from leasehold.sharing.offers import BrokerOffer

_VMS = 1 << 32
"""More than any domain has: a lighter penalty outweighs any number of free VMs."""


def gridbus(offer: BrokerOffer, stream: Random) -> int:  # noqa: ARG001 - all policies are asked alike
    """Where does the request cost least and, at equal cost, start soonest?

    Rule: the least penalty; among equal penalties, the most free VMs.
    Source: the Grid Service Broker of GridBus (Buyya and Venugopal 2004) as Dumitrescu et al. 2007, section 5, describe
        it. Stated there: it discovers data sources and computational resources, and maps jobs to resources optimally.
        Interpretation: optimal is cheapest, then fastest; the price is the penalty, the only one that an agreement
        names. Not part of it: data sources, since the inputs of section 4.2 (1 to 5 kB) make no difference.
    """
    return offer.free_vms - offer.penalty * _VMS
