"""Agreements and usage, for the client that awaits its answers; see `leasehold.client.sharing`."""

from collections.abc import Mapping
from typing import Any, Unpack

from leasehold.client import sharing_calls
from leasehold.client.sharing_calls import WhichUse
from leasehold.client.sharing_records import Penalty, Statement, Usage, UsageAgreement
from leasehold.client.wire import AsyncWire


class AsyncAgreements:
    """Discover agreements, draw them up, sign them, and let them end."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def list(self) -> tuple[UsageAgreement, ...]:
        """Look at those that are published, and at those of one's own groups and sites."""
        return await self._wire.ask(sharing_calls.agreements())

    async def get(self, name: str) -> UsageAgreement:
        """Look at one; raises NotFound."""
        return await self._wire.ask(sharing_calls.agreement(name))

    async def propose(self, terms: Mapping[str, Any]) -> UsageAgreement:
        """Draw one up, under the keys of a file of agreements; raises Conflict for a name that is taken."""
        return await self._wire.ask(sharing_calls.propose(terms))

    async def amend(self, terms: Mapping[str, Any]) -> UsageAgreement:
        """Draw up other terms for the one of this name; the old ones hold until both have signed these."""
        return await self._wire.ask(sharing_calls.amend(terms))

    async def sign(self, name: str, side: str, revision: int) -> UsageAgreement:
        """Sign a revision for the provider or the consumer; raises Conflict where another waits for that."""
        return await self._wire.ask(sharing_calls.sign(name, side, revision))

    async def publish(self, name: str, *, published: bool = True) -> UsageAgreement:
        """Let everybody see one, or only its parties."""
        return await self._wire.ask(sharing_calls.publish(name, published=published))

    async def suspend(self, name: str, note: str = "") -> UsageAgreement:
        """Put one out of force for a while; leases that run stay."""
        return await self._wire.ask(sharing_calls.suspend(name, note))

    async def resume(self, name: str) -> UsageAgreement:
        """Put one in force again."""
        return await self._wire.ask(sharing_calls.resume(name))

    async def revoke(self, name: str, note: str = "") -> UsageAgreement:
        """End one and all that was passed on of it; leases that run stay."""
        return await self._wire.ask(sharing_calls.revoke(name, note))

    async def penalties(self) -> tuple[Penalty, ...]:
        """See who is punished, or was; the last one first."""
        return await self._wire.ask(sharing_calls.penalties())

    async def lift(self, penalty_id: int) -> Penalty:
        """Let a punishment end now; raises NotFound."""
        return await self._wire.ask(sharing_calls.lift(penalty_id))


class AsyncAccounts:
    """See what was used."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def used(self, **which: Unpack[WhichUse]) -> Usage:
        """Tell what was used, by consumer and virtual domain; what may be said is in `WhichUse`."""
        return await self._wire.ask(sharing_calls.usage(which))

    async def statement(self, month: str, consumer: str) -> Statement:
        """Give the statement of a consumer for a month such as 2026-10."""
        return await self._wire.ask(sharing_calls.statement(month, consumer))
