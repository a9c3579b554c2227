"""Agreements and usage, for the client that waits for its answers."""

from collections.abc import Mapping
from typing import Any, Unpack

from leasehold.client import sharing_calls
from leasehold.client.sharing_calls import WhichUse
from leasehold.client.sharing_records import Penalty, Statement, Usage, UsageAgreement
from leasehold.client.wire import Wire


class Agreements:
    """Discover agreements, draw them up, sign them, and let them end."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self) -> tuple[UsageAgreement, ...]:
        """Look at those that are published, and at those of one's own groups and sites."""
        return self._wire.ask(sharing_calls.agreements())

    def get(self, name: str) -> UsageAgreement:
        """Look at one; raises NotFound."""
        return self._wire.ask(sharing_calls.agreement(name))

    def propose(self, terms: Mapping[str, Any]) -> UsageAgreement:
        """Draw one up, under the keys of a file of agreements; raises Conflict for a name that is taken."""
        return self._wire.ask(sharing_calls.propose(terms))

    def amend(self, terms: Mapping[str, Any]) -> UsageAgreement:
        """Draw up other terms for the one of this name; the old ones hold until both have signed these."""
        return self._wire.ask(sharing_calls.amend(terms))

    def sign(self, name: str, side: str, revision: int) -> UsageAgreement:
        """Sign a revision for the provider or the consumer; raises Conflict where another waits for that."""
        return self._wire.ask(sharing_calls.sign(name, side, revision))

    def publish(self, name: str, *, published: bool = True) -> UsageAgreement:
        """Let everybody see one, or only its parties."""
        return self._wire.ask(sharing_calls.publish(name, published=published))

    def suspend(self, name: str, note: str = "") -> UsageAgreement:
        """Put one out of force for a while; leases that run stay."""
        return self._wire.ask(sharing_calls.suspend(name, note))

    def resume(self, name: str) -> UsageAgreement:
        """Put one in force again."""
        return self._wire.ask(sharing_calls.resume(name))

    def revoke(self, name: str, note: str = "") -> UsageAgreement:
        """End one and all that was passed on of it; leases that run stay."""
        return self._wire.ask(sharing_calls.revoke(name, note))

    def penalties(self) -> tuple[Penalty, ...]:
        """See who is punished, or was; the last one first."""
        return self._wire.ask(sharing_calls.penalties())

    def lift(self, penalty_id: int) -> Penalty:
        """Let a punishment end now; raises NotFound."""
        return self._wire.ask(sharing_calls.lift(penalty_id))


class Accounts:
    """See what was used."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def used(self, **which: Unpack[WhichUse]) -> Usage:
        """Tell what was used, by consumer and virtual domain; what may be said is in `WhichUse`."""
        return self._wire.ask(sharing_calls.usage(which))

    def statement(self, month: str, consumer: str) -> Statement:
        """Give the statement of a consumer for a month such as 2026-10."""
        return self._wire.ask(sharing_calls.statement(month, consumer))
