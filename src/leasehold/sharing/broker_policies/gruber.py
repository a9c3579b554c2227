"""Most VMs under the agreements, after GRUBER."""

from random import Random

from leasehold.sharing.offers import BrokerOffer


def gruber(offer: BrokerOffer, stream: Random) -> int:  # noqa: ARG001 - all policies are asked alike
    """Where may this consumer still have the most VMs now?

    Rule: the number of free VMs at the sites of the domain that admit the request, but no more than what the
        consumer's limits leave there.
    Source: GRUBER (Dumitrescu and Foster 2005) as Dumitrescu et al. 2007 describe it. Stated there: a broker based on
        usage agreements (section 5), which builds the extended virtual environment (section 3.1), under the limits of
        section 4.1. Interpretation: which of the admitting domains is best, on which the paper is silent; a limit
        leaves the unused part of it, in CPUs of its provider.
    """
    return offer.entitled_vms
