"""The brokering service: at which virtual domains may a request run, and which of them is best?

uSLA-BRKG-A, Algorithm 1 of Dumitrescu et al. 2007, section 3.1. Its lines, and where they are here:

====== ==========================================================================================
line   here
====== ==========================================================================================
1      each virtual domain in turn; a site that is in none is one of its own
2      `readings.rules_for`: the rules, those with the narrowest applicability range first
4-7    `readings.readings`: the consumer's use in each window that one of these rules looks at
8-9    `Sharing.why_not`: a rule that is broken excludes a site only if its penalty is above the threshold
10-12  `_offer`: the broker policy scores what is left
Output the ``top_n`` best
====== ==========================================================================================

The algorithm as printed asks about a domain as a whole. Here a domain is eligible if one of its sites is, and
offers those sites, since a rule may be about a single site.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random

from leasehold.sharing.asking import Ask
from leasehold.sharing.broker_policies.policy import BrokerPolicy
from leasehold.sharing.broker_policies.registry import broker_policy
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.offers import Excluded, Offer, Recommendation
from leasehold.sharing.readings import readings

Room = Callable[[str], int]
"""How many VMs are free at a site now."""


class Broker:
    """Recommends virtual domains under the agreements of a federation.

    ``stream``  the random numbers of a policy that needs some
    ``policy``  how domains are scored; None: as the settings of the agreements say
    """

    def __init__(self, sharing: Sharing, stream: Random, policy: BrokerPolicy | None = None) -> None:
        """Begin; raises UnknownName for a policy that there is not."""
        self._sharing = sharing
        self._stream = stream
        self._policy = policy or broker_policy(sharing.settings.broker_policy)

    def recommend(self, ask: Ask, sites: Iterable[str], room: Room, now_ms: int) -> Recommendation:
        """Say where this may run now, among these sites: the top n domains, the best first."""
        offers: list[Offer] = []
        excluded: list[Excluded] = []
        for domain, members in self._domains(sites).items():
            barred = [one for site in members if (one := self._excluded(domain, site, ask, now_ms))]
            admitting = tuple(site for site in members if site not in {one.site for one in barred})
            excluded += barred
            if admitting:
                offers.append(self._offer(domain, admitting, ask, room, now_ms))
        offers.sort(key=lambda offer: (-offer.score, offer.domain))
        top_n = self._sharing.settings.top_n
        best = len(offers) if top_n is None else top_n
        return Recommendation(tuple(offers[:best]), tuple(offers[best:]), tuple(excluded))

    def _domains(self, sites: Iterable[str]) -> Mapping[str, list[str]]:
        domains: dict[str, list[str]] = {}
        for site in sites:
            domains.setdefault(self._sharing.providers.domain_of(site) or site, []).append(site)
        return domains

    def _excluded(self, domain: str, site: str, ask: Ask, now_ms: int) -> Excluded | None:
        breach = self._sharing.why_not(ask, site, now_ms)
        return None if breach is None else Excluded(domain, site, breach)

    def _offer(self, domain: str, sites: tuple[str, ...], ask: Ask, room: Room, now_ms: int) -> Offer:
        sharing = self._sharing
        used = [one.used_ppm for site in sites for one in readings(sharing, ask.path, site, now_ms)]
        broken = [one.penalty for site in sites for one in sharing.softly_broken(ask, site, now_ms)]
        offer = Offer(
            domain=domain,
            sites=sites,
            free_vms=sum(map(room, sites)),
            used_ppm=max(used, default=0),
            penalty=max(broken, default=0),
        )
        return replace(offer, score=self._policy(offer, self._stream))
