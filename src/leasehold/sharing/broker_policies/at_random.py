"""At random."""

from random import Random

from leasehold.sharing.offers import BrokerOffer

_SCORES = 1 << 32


def at_random(offer: BrokerOffer, stream: Random) -> int:  # noqa: ARG001 - all policies are asked alike
    """Where does chance send it?

    Rule: each domain is as likely as any other to come first.
    Source: the random assignment to which site selectors are compared, as in GRUBER.
    """
    return stream.randrange(_SCORES)
