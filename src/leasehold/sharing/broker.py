"""The brokering service: at which virtual domains may a request run, and which of them is best?

uSLA-BRKG-A, Algorithm 1 of Dumitrescu et al. 2007, section 3.1. Its lines, and where they are here:

====== ==========================================================================================
line   here
====== ==========================================================================================
1      each virtual domain in turn; a site that is in none is one of its own
2      `rules_for`: the rules, those with the narrowest applicability range first
4-7    `readings`: the consumer's use in each window that one of these rules looks at
8-9    `Sharing.why_not`: a rule that is broken excludes a site only if its penalty is above the threshold
10-12  `Broker._offer`: the broker policy scores what is left
Output the ``top_n`` best
====== ==========================================================================================

The algorithm as printed asks about a domain as a whole. Here a domain is eligible if one of its sites is, and
offers those sites, since a rule may be about a single site.

A request finds its machines in three stages (section 3.1, Figure 1), each of which only narrows the one before:

===================== =============================== ====================================================
stage                 contents                        made by
===================== =============================== ====================================================
virtual environment   every suitable site             the *engine*, asked by the *runner*, which manages a
                                                      request to its end: here `leasehold.gateway`
extended virtual      of these, where agreements let  the *scheduling service*, helped by the *brokering
environment           it run, and why not elsewhere   service*: `Sharing`, `Broker`
execution environment where it runs, and from when on the *scheduling service* by its policies: routing,
                                                      or `leasehold.gateway.coallocation`
===================== =============================== ====================================================

The last one is what a gateway decides, and has no class of its own.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from leasehold.model.agreement import CPUS, MILLION, Agreement, Breach, Commitment, NoLimit, TimeDecay, UsageDecay
from leasehold.sharing.book import account_of
from leasehold.sharing.broker_policies.registry import broker_policy
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.limits import (
    AccountUsage,
    next_bound_ms,
    over,
    time_decayed_ppm,
    usage_decayed_ppm,
    windows_ms,
)
from leasehold.sharing.offers import BrokerOffer, BrokerPolicy, BrokerReading, Excluded, Recommendation
from leasehold.sharing.rules import UsageRequest


@dataclass(frozen=True, slots=True)
class VirtualEnvironment:
    """The sites that there are for a request."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExtendedVirtualEnvironment:
    """Of these ``sites``, those at which the agreements let it run, and of the others why not."""

    sites: tuple[str, ...]
    breaches: Mapping[str, Breach]


def virtual(sites: Iterable[str], bound_to: Callable[[str], bool] = lambda _: True) -> VirtualEnvironment:
    """Begin with the sites that there are, of those that a request is bound to."""
    return VirtualEnvironment(tuple(site for site in sites if bound_to(site)))


def extend(before: VirtualEnvironment, why_not: Callable[[str], Breach | None]) -> ExtendedVirtualEnvironment:
    """Ask about each site whether agreements let it run there."""
    answers = {site: why_not(site) for site in before.sites}
    breaches = {site: breach for site, breach in answers.items() if breach is not None}
    return ExtendedVirtualEnvironment(tuple(site for site in answers if site not in breaches), breaches)


_NO_WINDOW_MS = 1 << 62


def rules_for(sharing: Sharing, path: str, site: str, now_ms: int) -> list[Agreement]:
    """Give the rules for a consumer at a site, those with the narrowest applicability range first.

    A site precedes its domain, which precedes EVERYBODY; a user precedes a group, which precedes its VO; the
    shorter window comes first.
    """
    over = sharing.providers.over(site)

    def applicability(rule: Agreement) -> tuple[int, int, int]:
        depth = -1 if rule.consumer.startswith(("*", "@")) else rule.consumer.count("/")
        return over.index(rule.provider), -depth, min(windows_ms(rule.limit), default=_NO_WINDOW_MS)

    return sorted(sharing.book.applying(path, site, now_ms), key=applicability)


def readings(sharing: Sharing, path: str, site: str, now_ms: int) -> list[BrokerReading]:
    """Say how much of each of these rules is used up, window by window, in the same order."""
    return [
        BrokerReading(rule.name, rule.provider, rule.consumer, rule.resource, window_ms, used_ppm, limit_ppm)
        for rule in rules_for(sharing, path, site, now_ms)
        for window_ms, used_ppm, limit_ppm in _windows(rule, AccountUsage(sharing.ledger, account_of(rule)), now_ms)
    ]


def next_room_ms(sharing: Sharing, reading: BrokerReading, site: str, now_ms: int) -> int | None:
    """When a window that is used up has room again, if use continues unchanged; None if never, or if it has room."""
    rules = {rule.name: rule for rule in rules_for(sharing, reading.consumer, site, now_ms)}
    rule = rules.get(reading.agreement)
    if rule is None or reading.used_ppm < reading.limit_ppm:
        return None
    if isinstance(rule.limit, Commitment):
        return next_bound_ms(now_ms, reading.window_ms) if reading.limit_ppm else None
    found = over(rule.limit, AccountUsage(sharing.ledger, account_of(rule)), now_ms)
    return None if found is None else found.next_ms


def _windows(rule: Agreement, usage: AccountUsage, now_ms: int) -> Iterator[tuple[int, int, int]]:
    """Give length, use and limit of each window."""
    match rule.limit:
        case NoLimit():
            return
        case Commitment() as limit:
            for window_ms, limit_ppm in (
                (limit.burst_ms, limit.burst_ppm),
                (limit.epoch_ms, limit.epoch_ppm),
            ):
                yield window_ms, usage.share_ppm(now_ms - now_ms % window_ms, now_ms, window_ms), limit_ppm
        case TimeDecay() as limit:
            yield limit.window_ms, time_decayed_ppm(limit, usage, now_ms), limit.share_ppm
        case UsageDecay() as limit:
            yield limit.window_ms, usage_decayed_ppm(limit, usage, now_ms), limit.share_ppm


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

    def recommend(self, ask: UsageRequest, sites: Iterable[str], room: Room, now_ms: int) -> Recommendation:
        """Say where this may run now, among these sites: the top n domains, the best first."""
        offers: list[BrokerOffer] = []
        excluded: list[Excluded] = []
        for domain, members in self._domains(sites).items():
            blocked = [one for site in members if (one := self._excluded(domain, site, ask, now_ms))]
            admitting = tuple(site for site in members if site not in {one.site for one in blocked})
            excluded += blocked
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

    def _excluded(self, domain: str, site: str, ask: UsageRequest, now_ms: int) -> Excluded | None:
        breach = self._sharing.why_not(ask, site, now_ms)
        return None if breach is None else Excluded(domain, site, breach)

    def _offer(self, domain: str, sites: tuple[str, ...], ask: UsageRequest, room: Room, now_ms: int) -> BrokerOffer:
        sharing = self._sharing
        read = {site: readings(sharing, ask.path, site, now_ms) for site in sites}
        every = [one for site in sites for one in read[site]]
        broken = [one.penalty for site in sites for one in sharing.softly_broken(ask, site, now_ms)]
        offer = BrokerOffer(
            domain=domain,
            sites=sites,
            free_vms=sum(map(room, sites)),
            used_ppm=max((one.used_ppm for one in every), default=0),
            left_ppm=min((one.left_ppm for one in every), default=MILLION),
            entitled_vms=self._entitled_vms(read, room),
            penalty=max(broken, default=0),
        )
        return replace(offer, score=self._policy(offer, self._stream))

    def _entitled_vms(self, read: Mapping[str, list[BrokerReading]], room: Room) -> int:
        """Count the free VMs that these rules leave: those of a site at this site, the others over all sites."""
        of_sites = sum(min([room(site), *self._left(every, {site})]) for site, every in read.items())
        over_all = {one.provider for every in read.values() for one in every} - read.keys()
        return min([of_sites, *(left for every in read.values() for left in self._left(every, over_all))])

    def _left(self, every: Iterable[BrokerReading], providers: Collection[str]) -> list[int]:
        """Give what each rule of these providers about CPUs leaves, in CPUs."""
        capacity = self._sharing.providers.capacity
        return [
            one.left_ppm * capacity(one.provider, CPUS) // MILLION
            for one in every
            if one.provider in providers and one.resource == CPUS
        ]
