"""May it run there? All agreements that apply are asked, and the one that is hardest to satisfy answers.

The gateway asks on every way to machines: when a request is sent to a site or a peer, extended, resumed,
moved. What it does about a no is in `leasehold.gateway.quotas`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from leasehold.model.agreement import CPUS, MEMORY, Agreement, Breach, Penalty
from leasehold.model.reason import NEVER, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.model.use import Segment
from leasehold.sharing.book import AgreementBook, account_of
from leasehold.sharing.ledger import RESERVED, UsageGrants, UsageLedger, all_of
from leasehold.sharing.limits import AccountUsage, Over, over, stays_below, windows_ms
from leasehold.sharing.parties import Provider, Providers, prefixes
from leasehold.sharing.rules import Broken, UsageRequest, broken_by_length, broken_by_reservation


class Penalties:
    """All active penalties."""

    def __init__(self) -> None:
        """Begin with none."""
        self._standing: dict[tuple[str, str], list[Penalty]] = {}

    def impose(self, agreement: Agreement, now_ms: int) -> Penalty | None:
        """Punish the consumer of an agreement for breaking it; None where that is done already."""
        key = (agreement.consumer, agreement.provider)
        if any(penalty.agreement == agreement.name for penalty in self._stand(key, now_ms)):
            return None
        until_ms = None if agreement.penalty_ms is None else now_ms + agreement.penalty_ms
        penalty = Penalty(agreement.name, agreement.provider, agreement.consumer, agreement.penalty, now_ms, until_ms)
        self.take_up([penalty])
        return penalty

    def take_up(self, penalties: Iterable[Penalty]) -> None:
        """Restore these active penalties."""
        for penalty in penalties:
            self._standing.setdefault((penalty.consumer, penalty.provider), []).append(penalty)

    def lift(self, agreement: str, consumer: str) -> list[Penalty]:
        """End the penalties for breaking an agreement before their time; returns them."""
        lifted = []
        for key, penalties in self._standing.items():
            if key[0] == consumer:
                lifted += [penalty for penalty in penalties if penalty.agreement == agreement]
                penalties[:] = [penalty for penalty in penalties if penalty.agreement != agreement]
        return lifted

    def stands(self, agreement: Agreement, now_ms: int) -> bool:
        """Whether one is active between the two parties of an agreement."""
        return bool(self._standing) and bool(self._stand((agreement.consumer, agreement.provider), now_ms))

    def standing(self, now_ms: int) -> list[Penalty]:
        """Return all active penalties."""
        return [penalty for key in list(self._standing) for penalty in self._stand(key, now_ms)]

    def _stand(self, key: tuple[str, str], now_ms: int) -> list[Penalty]:
        penalties = self._standing.get(key)
        if penalties is None:
            return []
        penalties[:] = [one for one in penalties if one.until_ms is None or now_ms < one.until_ms]
        if not penalties:
            del self._standing[key]
        return penalties


ALLOW, MEMBERS, PREEMPTABLE, REFUSE = "allow", "members", "preemptable", "refuse"
WITHOUT_AGREEMENT = (ALLOW, MEMBERS, PREEMPTABLE, REFUSE)
"""Which requests a gateway admits without an agreement: all, those of holders of its own tokens, of these only
preemptable guests, or none."""


@dataclass(frozen=True, slots=True)
class SharingSettings:
    """How agreements are applied.

    ``without_agreement``  which guests are let in to whom no agreement applies: one of WITHOUT_AGREEMENT
    ``threshold``          rules of a higher penalty are never broken, others may be (Algorithm 1, line 8)
    ``top_n``              to how many virtual domains the broker narrows the choice; None: all that are
                           eligible
    ``broker_policy``      how it scores them
    ``starts_at_ms``       time 0 of the requests, Unix ms; determines the hours of the day
    """

    without_agreement: str = ALLOW
    threshold: int = 0
    top_n: int | None = None
    broker_policy: str = "most-room"
    starts_at_ms: int = 0


class Sharing:
    """The agreements of a federation, and what was used and granted under them."""

    def __init__(
        self,
        places: Iterable[Provider],
        settings: SharingSettings | None = None,
        agreements: Iterable[Agreement] = (),
        domains: Mapping[str, str] | None = None,
    ) -> None:
        """Begin with nothing used, under these agreements; ``domains`` has those of sites that join later."""
        self.settings = settings or SharingSettings()
        self.providers = Providers(places)
        self.book = AgreementBook(self.providers)
        self.ledger = UsageLedger(self.providers)
        self.grants = UsageGrants(self.providers)
        self.penalties = Penalties()
        self._domains = domains or {}
        self._over: dict[str, Over] = {}
        self._usages: dict[str, AccountUsage] = {}
        self.agree(agreements, 0)

    @property
    def is_silent(self) -> bool:
        """Whether nothing is enforced."""
        return not self.book.agreements and self.settings.without_agreement == ALLOW

    def agree(
        self,
        agreements: Iterable[Agreement],
        now_ms: int,
        history: Iterable[Segment] = (),
        since_ms: Mapping[int, int] | None = None,
    ) -> None:
        """Let these agreements hold from now on, and no others: all that are signed.

        Earlier usage counts as far as it is supplied: see `UsageLedger.watch`.
        """
        self.book.replace(agreements)
        self._forget()
        self.ledger.watch(self.book.watched(), now_ms, history, since_ms)

    def join(self, place: Provider) -> None:
        """Let a site take part, in place of what was known under its name."""
        place = replace(place, domain=place.domain or self._domains.get(place.name, ""))
        if self.providers.places.get(place.name) != place:
            self.providers.join(place)
            self._forget()

    def part_with(self, name: str) -> None:
        """A site does not take part any more."""
        self.providers.part_with(name)
        self._forget()

    def learn(self, history: Iterable[Segment], since_ms: Mapping[int, int], now_ms: int) -> None:
        """Go on from a record of what was used: see `UsageLedger.learn`."""
        self.ledger.learn(history, since_ms, now_ms)
        self._forget()

    def _forget(self) -> None:
        """Forget all usage: shares now refer to something else."""
        self._over.clear()
        self._usages.clear()

    def _usage_of(self, agreement: Agreement) -> AccountUsage:
        usage = self._usages.get(agreement.name)
        if usage is None:
            usage = self._usages[agreement.name] = AccountUsage(self.ledger, account_of(agreement))
        return usage

    # May it?

    def why_not(self, ask: UsageRequest, site: str, now_ms: int) -> Breach | None:
        """Say why this may not run at a site, or at a peer, now; None if it may.

        Of several reasons the one that lasts longest: never, then the latest time.
        """
        return _gravest(self._hard(ask, site, now_ms))

    def why_not_on(self, ask: UsageRequest, site: str, now_ms: int) -> Breach | None:
        """As `why_not`, for a running lease: checks shares, hours and durations."""
        breaches = (
            breach
            for agreement in self.book.applying(ask.path, site, now_ms)
            if self._is_hard(agreement, now_ms)
            for breach in (self._used_up(agreement, ask, now_ms), self._too_long(agreement, ask))
            if breach is not None
        )
        return _gravest(breaches)

    def why_not_without(self, ask: UsageRequest, site: str, now_ms: int) -> Breach | None:
        """Return why a required agreement is missing; None if one covers the request, or none is required.

        A consumer that another party vouches for needs an agreement naming it or one of its groups. An
        agreement about all guests limits admitted consumers; it does not admit unknown ones.
        """
        reason = self._requires_agreement(is_foreign=ask.is_foreign, may_be_preempted=ask.may_be_preempted)
        if reason is None:
            return None
        applying = self.book.applying(ask.path, site, now_ms)
        names = prefixes(ask.path)
        covered = any(one.consumer in names for one in applying) if ask.is_foreign else bool(applying)
        return None if covered else Breach("", site, ask.path, CPUS, reason, 0, 0)

    def _requires_agreement(self, *, is_foreign: bool, may_be_preempted: bool) -> Reason | None:
        """Why a guest is not let in without an agreement; None if it is."""
        allowed = self.settings.without_agreement
        if allowed == ALLOW:
            return None
        if is_foreign:
            return Reason.NOT_A_MEMBER
        if allowed == PREEMPTABLE and not may_be_preempted:
            return Reason.PREEMPTABLE_ONLY
        return Reason.NO_AGREEMENT if allowed == REFUSE else None

    def never_stops(self, request: Request) -> bool:
        """Whether a guest's request may run at every site, whatever else was used and granted.

        So it is where nothing is agreed, no agreement is required, and no site can be short of anything but VMs.
        """
        if self.is_silent:
            return not request.claims
        if self.book.agreements or request.claims or request.gpu_milli or self.providers.know_of(MEMORY):
            return False
        may_be_preempted = request.lease_type is not LeaseType.NON_PREEMPTABLE
        return self._requires_agreement(is_foreign=request.is_foreign, may_be_preempted=may_be_preempted) is None

    def stays_below(self, ask: UsageRequest, site: str, now_ms: int) -> bool:
        """Whether all shares suffice even if what was granted and waits began now, and this with it."""
        return all(
            stays_below(one.limit, self._usage_of(one), self._to_come(one, ask), now_ms)
            for one in self.book.applying(ask.path, site, now_ms)
            if windows_ms(one.limit)
        )

    def _to_come(self, agreement: Agreement, ask: UsageRequest) -> int:
        """Units that were granted and are not held, and those that are asked for."""
        key = account_of(agreement)
        waiting = self.grants.units(key) - self.ledger.level(key)
        return max(0, waiting) + ask.amounts.get(agreement.resource, 0)

    def softly_broken(self, ask: UsageRequest, site: str, now_ms: int) -> list[Agreement]:
        """Give the agreements that this breaks and may break."""
        return [
            agreement
            for agreement in self.book.applying(ask.path, site, now_ms)
            if not self._is_hard(agreement, now_ms) and any(self._breaches(agreement, ask, now_ms))
        ]

    def punish(self, ask: UsageRequest, site: str, now_ms: int) -> list[Penalty]:
        """Impose the penalties for what is granted although it breaks agreements."""
        if not self.settings.threshold:
            return []
        imposed = (self.penalties.impose(one, now_ms) for one in self.softly_broken(ask, site, now_ms))
        return [penalty for penalty in imposed if penalty is not None]

    def _hard(self, ask: UsageRequest, site: str, now_ms: int) -> Iterator[Breach]:
        yield from self._short_of(ask, site)
        applying = self.book.applying(ask.path, site, now_ms)
        without = self.why_not_without(ask, site, now_ms)
        if without is not None:
            yield without
        for agreement in applying:
            if self._is_hard(agreement, now_ms):
                yield from self._breaches(agreement, ask, now_ms)

    def _is_hard(self, agreement: Agreement, now_ms: int) -> bool:
        threshold = -1 if self.penalties.stands(agreement, now_ms) else self.settings.threshold
        return agreement.penalty > threshold

    def _breaches(self, agreement: Agreement, ask: UsageRequest, now_ms: int) -> Iterator[Breach]:
        for breach in (
            self._too_much_at_a_time(agreement, ask),
            self._too_long(agreement, ask),
            self._too_much_in_advance(agreement, ask),
            self._used_up(agreement, ask, now_ms),
        ):
            if breach is not None:
                yield breach

    # Each rule of an agreement

    def _used_up(self, agreement: Agreement, ask: UsageRequest, now_ms: int) -> Breach | None:
        if not ask.amounts.get(agreement.resource):
            return None
        known = self._over.get(agreement.name)
        if known is None or now_ms >= known.over_until_ms:
            known = over(agreement.limit, self._usage_of(agreement), now_ms)
            if known is None:
                self._over.pop(agreement.name, None)
                return None
            self._over[agreement.name] = known
        used, limit, window_ms = known.used_ppm, known.limit_ppm, known.window_ms
        breach = _breach(agreement, Reason.SHARE_EXHAUSTED, used, limit, known.next_ms, window_ms)
        return replace(breach, until_ms=known.over_until_ms)

    def _too_much_at_a_time(self, agreement: Agreement, ask: UsageRequest) -> Breach | None:
        most, requested = agreement.lending_limit, ask.amounts.get(agreement.resource, 0)
        if most is None or not requested:
            return None
        if requested > most:
            return _breach(agreement, Reason.EXCEEDS_AGREEMENT, requested, most)
        granted = self.grants.units(account_of(agreement))
        return (
            _breach(agreement, Reason.CONCURRENCY_LIMIT_REACHED, granted, most) if granted + requested > most else None
        )

    def _too_long(self, agreement: Agreement, ask: UsageRequest) -> Breach | None:
        if agreement.rules.longest_ms is None:
            return None
        return _breach_of(agreement, broken_by_length(agreement.rules, ask, self.settings.starts_at_ms))

    def _too_much_in_advance(self, agreement: Agreement, ask: UsageRequest) -> Breach | None:
        if not ask.is_reservation:
            return None
        reserved = self.grants.units((agreement.consumer, agreement.provider, RESERVED))
        capacity = self.providers.capacity(agreement.provider, CPUS)
        return _breach_of(agreement, broken_by_reservation(agreement.rules, ask, reserved, capacity))

    def _short_of(self, ask: UsageRequest, site: str) -> Iterator[Breach]:
        """What no agreement can give: more than the site has. Its VMs are the site's to plan."""
        place = self.providers.places.get(site)
        for resource, units in ask.amounts.items():
            if resource == CPUS or place is None or not units:
                continue
            there = place.capacity.get(resource)
            if there is None and resource == MEMORY:
                continue  # the capacity is not configured
            taken = self.grants.units(all_of(site, resource))
            if units > (there or 0):
                yield Breach("", site, "", resource, Reason.RESOURCE_UNAVAILABLE, units, there or 0)
            elif taken + units > (there or 0):
                yield Breach("", site, "", resource, Reason.RESOURCE_IN_USE, taken, there or 0)


def _breach(
    agreement: Agreement,
    reason: Reason,
    used: int,
    limit: int,
    next_ms: int | None = None,
    window_ms: int = 0,
) -> Breach:
    consumer, provider, resource = account_of(agreement)
    return Breach(
        agreement.name,
        provider,
        consumer,
        resource,
        reason,
        used,
        limit,
        window_ms,
        next_ms,
        penalty=agreement.penalty,
    )


def _breach_of(agreement: Agreement, broken: Broken | None) -> Breach | None:
    if broken is None:
        return None
    return _breach(agreement, broken.reason, broken.asked, broken.allowed, broken.next_ms)


_FOREVER_MS = 1 << 62


def _gravest(breaches: Iterable[Breach]) -> Breach | None:
    """The one that lasts longest; of equals the first, whose agreement has the narrowest range."""
    return max(breaches, key=_lasts, default=None)


def _lasts(breach: Breach) -> tuple[bool, int]:
    next_ms = _FOREVER_MS if breach.next_ms is None else breach.next_ms
    return (breach.reason in NEVER, next_ms)
