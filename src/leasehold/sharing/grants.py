"""Grants: what was admitted and is not over, whether it holds machines yet, waits for them, or is suspended.

Use says what was had; grants say what may be had at any moment from now on. Lending limits, licences and
shares for advance reservations are about them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from leasehold.model.agreement import CPUS
from leasehold.model.use import Holding
from leasehold.sharing.ledger import AccountKey
from leasehold.sharing.paths import ALL_AND_OWNERS, accounts_of_guest
from leasehold.sharing.places import Providers

RESERVED = "reserved-cpus"


@dataclass(frozen=True, slots=True)
class Grant:
    """What was granted; ``is_reservation``: for a time in the future."""

    holding: Holding
    is_reservation: bool = False


class Grants:
    """All grants, by lease, and their sums."""

    def __init__(self, providers: Providers) -> None:
        """Begin with none."""
        self._providers = providers
        self._grants: dict[int, Grant] = {}
        self._sums: dict[AccountKey, int] = {}

    def give(self, lease_id: int, grant: Grant) -> None:
        """Count a grant; one that was given before, elsewhere or on other terms, is replaced."""
        self.take_back(lease_id)
        self._grants[lease_id] = grant
        self._count(grant, 1)

    def take_back(self, lease_id: int) -> Grant | None:
        """A lease is over, or was not granted after all."""
        grant = self._grants.pop(lease_id, None)
        if grant is not None:
            self._count(grant, -1)
        return grant

    def of(self, lease_id: int) -> Grant | None:
        """Give what a lease was granted."""
        return self._grants.get(lease_id)

    def units(self, key: AccountKey) -> int:
        """Give the units granted to a consumer by a provider."""
        return self._sums.get(key, 0)

    def _count(self, grant: Grant, sign: int) -> None:
        for key, units in self._keys(grant):
            left = self._sums.get(key, 0) + sign * units
            if left:
                self._sums[key] = left
            else:
                self._sums.pop(key, None)

    def _keys(self, grant: Grant) -> Iterable[tuple[AccountKey, int]]:
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
