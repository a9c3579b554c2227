"""The book of agreements: which hold now, how they read beneath their parents, and which apply to whom.

Recurrent delegation: a consumer passes a part of its right on, and can never pass on more than it has. Every
agreement on the way from the provider to a request has to admit it, since use on a path counts on everything above
it; so the effective limit is the least on the way. What is computed here is how that limit reads: the least of both
shares, or their product where the delegate's is relative.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from leasehold.model.agreement import (
    EVERYBODY,
    MILLION,
    Agreement,
    Commitment,
    Limit,
    NoLimit,
    TimeDecay,
    UsageDecay,
)
from leasehold.model.errors import InvalidField
from leasehold.sharing.ledger import AccountKey, WatchedAccounts, of_everybody
from leasehold.sharing.limits import reach_ms, windows_ms
from leasehold.sharing.parties import Providers, accounts_of_guest, is_beneath


def shares_ppm(limit: Limit) -> tuple[int, int]:
    """Give the share in the long run and in bursts, ppm; all of it where there is no limit."""
    match limit:
        case NoLimit():
            return MILLION, MILLION
        case Commitment():
            return limit.epoch_ppm, limit.burst_ppm
        case TimeDecay() | UsageDecay():
            return limit.share_ppm, limit.share_ppm


def under(agreement: Agreement, parent: Agreement) -> Agreement:
    """Read an agreement as it holds beneath its parent, which is read so already."""
    long_ppm, burst_ppm = shares_ppm(parent.limit)
    limit = agreement.limit
    match limit:
        case Commitment():
            epoch = _share(limit.epoch_ppm, long_ppm, relative=agreement.relative)
            burst = _share(limit.burst_ppm, burst_ppm, relative=agreement.relative)
            limit = replace(limit, epoch_ppm=epoch, burst_ppm=burst)
        case TimeDecay() | UsageDecay():
            share = _share(limit.share_ppm, long_ppm, relative=agreement.relative)
            limit = replace(limit, share_ppm=share)
        case NoLimit():
            pass
    most = _least(agreement.lending_limit, parent.lending_limit)
    return replace(agreement, limit=limit, lending_limit=most, relative=False)


def _share(own_ppm: int, parents_ppm: int, *, relative: bool) -> int:
    return own_ppm * parents_ppm // MILLION if relative else min(own_ppm, parents_ppm)


def _least(one: int | None, other: int | None) -> int | None:
    return min((most for most in (one, other) if most is not None), default=None)


def check_delegation(agreement: Agreement, parent: Agreement, providers: Providers) -> None:
    """Refuse a delegation of what its parent does not give; raises InvalidField."""
    if not _is_passed_down(agreement, parent):
        expected = f"a consumer beneath {parent.consumer!r}, whose right {parent.name!r} is"
        raise InvalidField("consumer", agreement.consumer, expected)
    if agreement.resource != parent.resource:
        raise InvalidField("resource", agreement.resource, f"{parent.resource!r}, as in {parent.name!r}")
    if not _is_within(agreement, parent, providers):
        expected = f"{parent.provider!r} or a part of it, as in {parent.name!r}"
        raise InvalidField("provider", agreement.provider, expected)
    _check_shares(agreement, parent)


def _is_passed_down(agreement: Agreement, parent: Agreement) -> bool:
    if parent.consumer.startswith("@"):
        return f"@{agreement.provider}" == parent.consumer  # a domain passes on what a site lends it
    return agreement.consumer != parent.consumer and is_beneath(agreement.consumer, parent.consumer)


def _is_within(agreement: Agreement, parent: Agreement, providers: Providers) -> bool:
    if parent.consumer == f"@{agreement.provider}" or parent.provider in {agreement.provider, EVERYBODY}:
        return True
    return agreement.provider in providers.sites_of(parent.provider)


def _check_shares(agreement: Agreement, parent: Agreement) -> None:
    if agreement.relative or isinstance(agreement.limit, NoLimit):
        return
    for own_ppm, parents_ppm in zip(shares_ppm(agreement.limit), shares_ppm(parent.limit), strict=True):
        if own_ppm > parents_ppm:
            expected = f"at most {parents_ppm / 10_000:g}%, which is what {parent.name!r} gives"
            raise InvalidField("share", f"{own_ppm / 10_000:g}%", expected)


MOST_REMEMBERED = 65_536
NEVER_MS = 1 << 62


class AgreementBook:
    """All agreements that are signed.

    ``agreements``  as they were signed, by name
    """

    def __init__(self, providers: Providers) -> None:
        """Begin without agreements."""
        self.agreements: dict[str, Agreement] = {}
        self._providers = providers
        self._in_force: dict[str, Agreement] = {}
        self._by_account: dict[tuple[str, str], list[Agreement]] = {}
        self._applying: dict[tuple[str, str], tuple[Agreement, ...]] = {}
        self._from_ms, self._until_ms = 0, NEVER_MS

    def replace(self, agreements: Iterable[Agreement]) -> None:
        """Let these be the agreements, and no others."""
        self.agreements = {agreement.name: agreement for agreement in agreements}
        self._until_ms = self._from_ms  # nothing that is remembered holds any more

    def in_force(self, now_ms: int) -> Mapping[str, Agreement]:
        """Give the agreements that hold now, as they read beneath their parents."""
        self._turn_to(now_ms)
        return self._in_force

    def period(self, now_ms: int) -> int:
        """Name the time in which the same agreements hold as now: it differs once that is over."""
        self._turn_to(now_ms)
        return self._from_ms

    def turns_at_ms(self, now_ms: int) -> int:
        """When other agreements hold than now: one begins or ends then."""
        self._turn_to(now_ms)
        return self._until_ms

    def applying(self, path: str, site: str, now_ms: int) -> tuple[Agreement, ...]:
        """Give those that apply to a guest of this path at a site, the narrowest range first."""
        self._turn_to(now_ms)
        applying = self._applying.get((path, site))
        if applying is None:
            if len(self._applying) >= MOST_REMEMBERED:
                self._applying.clear()
            applying = self._applying[path, site] = self._look_up(path, site)
        return applying

    def watched(self) -> WatchedAccounts:
        """Say which accounts the limits of all agreements look at, whether they hold now or not."""
        keys: set[AccountKey] = set()
        for agreement in self.agreements.values():
            key = account_of(agreement)
            if windows_ms(agreement.limit):
                keys.add(key)
            if isinstance(agreement.limit, UsageDecay):
                keys.add(of_everybody(key))
        limits = [agreement.limit for agreement in self.agreements.values()]
        windows = frozenset(window_ms for limit in limits for window_ms in windows_ms(limit))
        return WatchedAccounts(frozenset(keys), max(map(reach_ms, limits), default=0), windows)

    # Which hold now

    def _turn_to(self, now_ms: int) -> None:
        if self._from_ms <= now_ms < self._until_ms:
            return
        self._applying.clear()
        self._in_force = {}
        for name in self.agreements:
            self._put_in_force(name, now_ms)
        self._by_account = {}
        for agreement in _highest_of_each(self._in_force.values()):
            key = (agreement.consumer, agreement.provider)
            self._by_account.setdefault(key, []).append(agreement)
        self._from_ms, self._until_ms = now_ms, self._next_change_ms(now_ms)

    def _put_in_force(self, name: str, now_ms: int) -> Agreement | None:
        """Read one agreement, its parents before it; None where it does not hold."""
        if name in self._in_force:
            return self._in_force[name]
        agreement = self.agreements.get(name)
        if agreement is None or not _is_in_its_time(agreement, now_ms):
            return None
        if agreement.parent:
            parent = self._put_in_force(agreement.parent, now_ms)
            if parent is None:
                return None
            agreement = under(agreement, parent)
        self._in_force[name] = agreement
        return agreement

    def _next_change_ms(self, now_ms: int) -> int:
        moments = [
            moment_ms
            for agreement in self.agreements.values()
            for moment_ms in (agreement.begin_ms, agreement.end_ms)
            if moment_ms is not None and moment_ms > now_ms
        ]
        return min(moments, default=NEVER_MS)

    # Which apply

    def _look_up(self, path: str, site: str) -> tuple[Agreement, ...]:
        accounts = accounts_of_guest(path, self._providers.domain_of(site))
        found = [
            agreement
            for provider in self._providers.over(site)
            for consumer in reversed(accounts)
            for agreement in self._by_account.get((consumer, provider), ())
        ]
        return tuple(found)


def account_of(agreement: Agreement) -> AccountKey:
    """Name the account that an agreement is about."""
    return (agreement.consumer, agreement.provider, agreement.resource)


def _is_in_its_time(agreement: Agreement, now_ms: int) -> bool:
    begin_ms, end_ms = agreement.begin_ms, agreement.end_ms
    return (begin_ms is None or begin_ms <= now_ms) and (end_ms is None or now_ms < end_ms)


def _highest_of_each(agreements: Iterable[Agreement]) -> list[Agreement]:
    """Of those about one account, keep those of the highest priority: they hold in place of the others."""
    agreements = list(agreements)
    highest: dict[AccountKey, int] = {}
    for agreement in agreements:
        key = account_of(agreement)
        highest[key] = max(agreement.priority, highest.get(key, agreement.priority))
    return [agreement for agreement in agreements if agreement.priority == highest[account_of(agreement)]]
