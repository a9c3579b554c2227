"""What the broker says of virtual domains: how much of each rule is used, and what is available."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from leasehold.model.agreement import Breach


@dataclass(frozen=True, slots=True)
class BrokerReading:
    """How much of one rule a consumer has used up at a site, over one of the windows that the rule looks at.

    ``used_ppm, limit_ppm``  of what the provider has
    """

    agreement: str
    provider: str
    consumer: str
    resource: str
    window_ms: int
    used_ppm: int
    limit_ppm: int

    @property
    def left_ppm(self) -> int:
        """What is left of the limit."""
        return max(0, self.limit_ppm - self.used_ppm)


@dataclass(frozen=True, slots=True)
class BrokerOffer:
    """A virtual domain at which a request may run.

    ``sites``     those of its sites that admit the request; a site in no domain is a domain of its own
    ``free_vms``  how many VMs are free there now
    ``used_ppm``  what the consumer has used, the most in any window that a rule looks at
    ``left_ppm``  what the consumer's limits leave to it, the least in any window; 1,000,000 without a limit
    ``entitled_vms``  how many of the free VMs these limits leave to it, in CPUs of their providers
    ``penalty``   of the gravest rule that the request would break, 0 if it breaks none
    ``score``     by the broker policy; the higher, the better
    """

    domain: str
    sites: tuple[str, ...]
    free_vms: int
    used_ppm: int
    left_ppm: int
    entitled_vms: int
    penalty: int
    score: int = 0


@dataclass(frozen=True, slots=True)
class Excluded:
    """A site at which the request may not run, and the gravest rule that says so."""

    domain: str
    site: str
    breach: Breach


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What the broker recommends: the ``offers``, best first, and what it does not.

    ``others``    offers beyond the top n
    ``excluded``  sites at which a rule is broken that may not be
    """

    offers: tuple[BrokerOffer, ...]
    others: tuple[BrokerOffer, ...] = ()
    excluded: tuple[Excluded, ...] = ()

    @property
    def sites(self) -> tuple[str, ...]:
        """Every site that is recommended, those of the best domain first."""
        return tuple(site for offer in self.offers for site in offer.sites)


BrokerPolicy = Callable[[BrokerOffer, Random], int]
"""Scores an offer; random numbers come from the stream that it is given."""
