"""Most quota left, after SPHINX."""

from random import Random

from leasehold.sharing.offers import BrokerOffer


def sphinx(offer: BrokerOffer, stream: Random) -> int:  # noqa: ARG001 - all policies are asked alike
    """Where has this consumer most of its quota left?

    Rule: the share that is left of the tightest limit of the consumer at the domain; all of it where there is no limit.
    Source: SPHINX (In et al. 2005) as Dumitrescu et al. 2007, section 5, describe it. Stated there: usage quotas are
        assigned to users, and usage accounts steer which resource gets a request. Interpretation: the quota is the
        limit of an agreement, the account is the use in its windows, and the largest rest wins. Not part of it:
        request priorities, and reservations with quality of service, which section 5 names without a rule.
    """
    return offer.left_ppm
