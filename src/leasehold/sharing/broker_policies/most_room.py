"""Most free VMs."""

from random import Random

from leasehold.sharing.offers import BrokerOffer


def most_room(offer: BrokerOffer, stream: Random) -> int:  # noqa: ARG001 - all policies are asked alike
    """Where is the most room now?

    Rule: the number of VMs that are free at the sites of the domain that admit the request.
    Source: Worst-Fit, the first placement policy of KOALA (Mohamed and Epema 2005), taken to domains.
    """
    return offer.free_vms
