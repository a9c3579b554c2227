"""The ledger: what each consumer had of each resource of each provider, and when; and what was granted.

Only accounts that some agreement asks for are kept (`UsageLedger.watch`): a federation has far more users than
agreements. Use is exact to the unit-millisecond in all windows that are asked for.

Use says what was had; grants say what may be had at any moment from now on: what was admitted and is not over,
whether it holds machines yet, waits for them, or is suspended. Lending limits, licences and shares for advance
reservations are about grants.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from leasehold.model.agreement import CPUS
from leasehold.model.use import Holding, Segment
from leasehold.model.value_dict import ValueDict
from leasehold.sharing.parties import ALL_AND_OWNERS, Providers, accounts_of_guest

MANY = 4_096


class Account:
    """Units held now (``level``), and the sum of what was held until any earlier moment.

    The sum is kept at marks, between which the level did not change, so that it is exact everywhere. Once
    there are very many marks, `thin` leaves those at the bounds of windows, where the sum stays exact.
    """

    __slots__ = ("_many", "_sums", "_times", "level")

    def __init__(self, begin_ms: int = 0) -> None:
        """Begin with nothing held."""
        self.level = 0
        self._times = [begin_ms]
        self._sums = [0]
        self._many = MANY

    def change(self, by: int, now_ms: int) -> None:
        """Hold so many units more, or fewer, from now on. Time never goes back."""
        last_ms = self._times[-1]
        if now_ms > last_ms:
            self._sums.append(self._sums[-1] + self.level * (now_ms - last_ms))
            self._times.append(now_ms)
        self.level += by

    def used(self, from_ms: int, to_ms: int) -> int:
        """Give the use between two moments, in unit-milliseconds; what was forgotten counts as none."""
        return self._until(to_ms) - self._until(from_ms)

    def _until(self, at_ms: int) -> int:
        times, sums = self._times, self._sums
        if at_ms >= times[-1]:
            return sums[-1] + self.level * (at_ms - times[-1])
        index = bisect_right(times, at_ms) - 1
        if index < 0:
            return sums[0]
        begin_ms, end_ms = times[index], times[index + 1]
        return sums[index] + (sums[index + 1] - sums[index]) * (at_ms - begin_ms) // (end_ms - begin_ms)

    @property
    def is_long(self) -> bool:
        """Whether it is time to `thin` it."""
        return len(self._times) > self._many

    def thin(self, forget_before_ms: int, grid_ms: int) -> None:
        """Forget what was before a moment; of the rest, keep the sums at multiples of ``grid_ms``."""
        last_ms = self._times[-1]
        first_ms = max(forget_before_ms, self._times[0])
        kept = self._times[bisect_right(self._times, first_ms) : -1]
        on_grid = range(-(-first_ms // grid_ms) * grid_ms, last_ms, grid_ms)
        marks = list(on_grid) if len(on_grid) < len(kept) else kept  # a fine grid would thicken it
        if first_ms not in marks[:1]:
            marks.insert(0, first_ms)
        self._sums = [*map(self._until, marks), self._sums[-1]]
        self._times = [*marks, last_ms]
        self._many = max(MANY, 2 * len(self._times))


def common_grid_ms(windows_ms: Iterable[int]) -> int:
    """Give the widest grid on which the bounds of all these windows lie; a minute without windows."""
    return gcd(*windows_ms) or 60_000


AccountKey = tuple[str, str, str]
"""Consumer, provider, resource."""

_NOTHING = Account()


@dataclass(frozen=True, slots=True)
class WatchedAccounts:
    """The accounts to keep, how far back they are asked about, and in windows of which lengths."""

    keys: frozenset[AccountKey] = frozenset()
    reach_ms: int = 0
    windows_ms: frozenset[int] = frozenset()


class UsageLedger:
    """The accounts of all providers with all consumers.

    ``holdings``  what leases hold now, by lease
    """

    def __init__(self, providers: Providers) -> None:
        """Begin with nothing held, and nothing watched."""
        self.holdings: dict[int, Holding] = ValueDict()
        self.watched = WatchedAccounts()
        self._providers = providers
        self._accounts: dict[AccountKey, Account] = {}
        self._grid_ms = common_grid_ms(())

    # What happens

    def begin(self, lease_id: int, holding: Holding, now_ms: int) -> None:
        """A lease holds machines from now on."""
        self.holdings[lease_id] = holding
        self._change(holding, 1, now_ms)

    def end(self, lease_id: int, now_ms: int) -> None:
        """A lease holds no machines any more."""
        holding = self.holdings.pop(lease_id, None)
        if holding is not None:
            self._change(holding, -1, now_ms)

    def _change(self, holding: Holding, sign: int, now_ms: int) -> None:
        accounts = self._accounts
        for key, units in self._keys(holding):
            account = accounts.get(key)
            if account is not None:
                account.change(sign * units, now_ms)
                if account.is_long:
                    account.thin(now_ms - self.watched.reach_ms, self._grid_ms)

    def _keys(self, holding: Holding) -> Iterable[tuple[AccountKey, int]]:
        """Give the accounts that a holding counts on, each with its units."""
        consumers: Sequence[str] = (ALL_AND_OWNERS,)
        if not holding.is_local:
            consumers = accounts_of_guest(holding.path, self._providers.domain_of(holding.site))
        providers = self._providers.over(holding.site)
        for resource, units in holding.amounts.items():
            for provider in providers:
                for consumer in consumers:
                    yield (consumer, provider, resource), units

    # Which accounts are kept

    def watch(
        self,
        watched: WatchedAccounts,
        now_ms: int,
        history: Iterable[Segment] = (),
        since_ms: Mapping[int, int] | None = None,
    ) -> None:
        """Keep these accounts from now on, and no others.

        New ones begin with what is in ``history``, which is over, and with what leases hold now,
        ``since_ms``; of those that it does not name, since now.
        """
        fresh = watched.keys - self._accounts.keys()
        self.watched = watched
        self._grid_ms = common_grid_ms(watched.windows_ms)
        self._accounts = {key: account for key, account in self._accounts.items() if key in watched.keys}
        self._open(fresh, history, since_ms or {}, now_ms)

    def learn(self, history: Iterable[Segment], since_ms: Mapping[int, int], now_ms: int) -> None:
        """Begin all accounts again from a record: what was held, and since when each lease holds."""
        self._accounts = {}
        self._open(self.watched.keys, history, since_ms, now_ms)

    def _open(
        self,
        keys: Iterable[AccountKey],
        history: Iterable[Segment],
        since_ms: Mapping[int, int],
        now_ms: int,
    ) -> None:
        wanted = frozenset(keys)
        changes: list[tuple[int, AccountKey, int]] = []
        for segment in history:
            for key, units in self._keys(segment.holding):
                if key in wanted:
                    changes += [(segment.begin_ms, key, units), (segment.end_ms, key, -units)]
        for lease_id, holding in self.holdings.items():
            for key, units in self._keys(holding):
                if key in wanted:
                    changes.append((since_ms.get(lease_id, now_ms), key, units))
        first_ms = min((at_ms for at_ms, _, _ in changes), default=now_ms)
        self._accounts.update((key, Account(min(first_ms, now_ms))) for key in wanted)
        for at_ms, key, units in sorted(changes):
            self._accounts[key].change(units, at_ms)

    # What it says

    def used(self, key: AccountKey, from_ms: int, to_ms: int) -> int:
        """Give what was used between two moments, in unit-milliseconds."""
        return self._accounts.get(key, _NOTHING).used(from_ms, to_ms)

    def level(self, key: AccountKey) -> int:
        """Give the units that are held now."""
        return self._accounts.get(key, _NOTHING).level

    def capacity(self, key: AccountKey) -> int:
        """Give how many units the provider of an account has."""
        return self._providers.capacity(key[1], key[2])


def of_everybody(key: AccountKey) -> AccountKey:
    """Name the account of all use of CPUs at the provider of an account: how busy it is."""
    return (ALL_AND_OWNERS, key[1], CPUS)


RESERVED = "reserved-cpus"


@dataclass(frozen=True, slots=True)
class UsageGrant:
    """What was granted; ``is_reservation``: for a time in the future."""

    holding: Holding
    is_reservation: bool = False


class UsageGrants:
    """All grants, by lease, and their sums."""

    def __init__(self, providers: Providers) -> None:
        """Begin with none."""
        self._providers = providers
        self._grants: dict[int, UsageGrant] = ValueDict()
        self._sums: dict[AccountKey, int] = {}

    def give(self, lease_id: int, grant: UsageGrant) -> None:
        """Count a grant; one that was given before, elsewhere or on other terms, is replaced."""
        self.take_back(lease_id)
        self._grants[lease_id] = grant
        self._count(grant, 1)

    def take_back(self, lease_id: int) -> UsageGrant | None:
        """A lease is over, or was not granted after all."""
        grant = self._grants.pop(lease_id, None)
        if grant is not None:
            self._count(grant, -1)
        return grant

    def of(self, lease_id: int) -> UsageGrant | None:
        """Give what a lease was granted."""
        return self._grants.get(lease_id)

    def units(self, key: AccountKey) -> int:
        """Give the units granted to a consumer by a provider."""
        return self._sums.get(key, 0)

    def _count(self, grant: UsageGrant, sign: int) -> None:
        for key, units in self._keys(grant):
            left = self._sums.get(key, 0) + sign * units
            if left:
                self._sums[key] = left
            else:
                self._sums.pop(key, None)

    def _keys(self, grant: UsageGrant) -> Iterable[tuple[AccountKey, int]]:
        holding = grant.holding
        consumers = accounts_of_guest(holding.path, self._providers.domain_of(holding.site))
        amounts = dict(holding.amounts)
        if grant.is_reservation:
            amounts[RESERVED] = amounts[CPUS]
        for resource, units in amounts.items():
            for provider in self._providers.over(holding.site):
                for consumer in consumers:
                    yield (consumer, provider, resource), units


def all_of(provider: str, resource: str) -> AccountKey:
    """Name the sum over all consumers."""
    return (ALL_AND_OWNERS, provider, resource)
