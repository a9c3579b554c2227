"""The ledger: what each consumer had of each resource of each provider, and when.

Only accounts that some agreement asks for are kept (`Ledger.watch`): a federation has far more users than
agreements. Use is exact to the unit-millisecond in all windows that are asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leasehold.model.agreement import CPUS
from leasehold.model.use import Holding, Segment
from leasehold.sharing.account import Account, common_grid_ms
from leasehold.sharing.paths import ALL_AND_OWNERS, accounts_of_guest
from leasehold.sharing.places import Providers

AccountKey = tuple[str, str, str]
"""Consumer, provider, resource."""

_NOTHING = Account()


@dataclass(frozen=True, slots=True)
class Watched:
    """The accounts to keep, how far back they are asked about, and in windows of which lengths."""

    keys: frozenset[AccountKey] = frozenset()
    reach_ms: int = 0
    windows_ms: frozenset[int] = frozenset()


class Ledger:
    """The accounts of all who provide to all who are provided for.

    ``holdings``  what leases hold now, by lease
    """

    def __init__(self, providers: Providers) -> None:
        """Begin with nothing held, and nothing watched."""
        self.holdings: dict[int, Holding] = {}
        self.watched = Watched()
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
        watched: Watched,
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
