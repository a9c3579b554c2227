"""Agreements of a live gateway: found, moved on, and what was used under them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from leasehold.model.agreement import CPUS, EVERYBODY, Agreement
from leasehold.service.accounting import Ground
from leasehold.service.commands import (
    AmendAgreement,
    Command,
    LiftPenalty,
    ProposeAgreement,
    PublishAgreement,
    ResumeAgreement,
    RevokeAgreement,
    SignAgreement,
    SuspendAgreement,
)
from leasehold.service.engine.engine import Engine
from leasehold.service.engine.usage import GoingOn, going_on
from leasehold.service.engine_thread import EngineThread
from leasehold.service.errors import NoSuchAgreement
from leasehold.service.store.rows import PenaltyRow
from leasehold.sharing.parties import Providers
from leasehold.sharing.records import AgreementRecord, AgreementSide, in_force

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Party:
    """The principals that may act for one side of an agreement.

    ``group``  the managers of this group, or of one above it; "" if the side is not a group
    ``sites``  the operators of these sites
    """

    group: str = ""
    sites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgreementState:
    """An agreement as it is now, its two parties, and the sites that it covers."""

    record: AgreementRecord
    in_force: bool
    provider: Party
    consumer: Party
    sites: Party

    def side(self, side: AgreementSide) -> Party:
        """Return the party of this side."""
        return self.provider if side is AgreementSide.PROVIDER else self.consumer


@dataclass(frozen=True, slots=True)
class Accounts:
    """What accounts are drawn up from besides the store.

    ``going_on``  what leases hold now
    """

    states: list[AgreementState]
    ground: Ground
    going_on: GoingOn


class Agreements:
    """The agreements of one gateway."""

    def __init__(self, engine: EngineThread) -> None:
        self._engine = engine
        self._one_at_a_time = asyncio.Lock()

    async def list(self) -> list[AgreementState]:
        """Give all agreements that there are, or ever were, by name."""
        return await self._engine.ask(_states)

    async def _accounts(self) -> Accounts:
        """Look at everything that accounts are drawn up from, all at one moment."""

        def look(engine: Engine) -> Accounts:
            providers = engine.agreements.providers
            cpus = {name: providers.capacity(name, CPUS) for name in _names(providers)}
            ground = Ground(cpus, {site: providers.domain_of(site) for site in providers.places})
            return Accounts(_states(engine), ground, going_on(engine.gateway, engine.now_ms))

        return await self._engine.ask(look)

    async def drawn_up(self, work: Callable[[Accounts], T]) -> T:
        """Draw accounts up beside the engine: one at a time, so that they never take most of a processor.

        What they are drawn up from is looked up when it is their turn, so that a waiting question holds no copy of
        all leases: while Python collects garbage among what is new, all threads wait.
        """
        async with self._one_at_a_time:
            return await asyncio.to_thread(work, await self._accounts())

    async def get(self, name: str) -> AgreementState:
        """Look at one; raises NoSuchAgreement."""
        return await self._engine.ask(_finding(name))

    async def parties(self, agreement: Agreement) -> tuple[Party, Party]:
        """Return the parties for the provider and the consumer of a proposed agreement."""
        return await self._engine.ask(lambda engine: _parties(engine, agreement))

    async def sides_of(self, penalties: Sequence[PenaltyRow]) -> Sequence[tuple[Party, Party]]:
        """Return the parties for the provider and the consumer of these penalties."""

        def look(engine: Engine) -> Sequence[tuple[Party, Party]]:
            of_rows = [row.penalty for row in penalties]
            return [(Party(sites=_sites(engine, one.provider)), _consumer(engine, one.consumer)) for one in of_rows]

        return await self._engine.ask(look)

    async def propose(self, agreement: Agreement, by: str) -> AgreementState:
        """Draw one up; raises InvalidField for what could not be."""
        return await self._do(ProposeAgreement(agreement, by), agreement.name)

    async def amend(self, agreement: Agreement, by: str) -> AgreementState:
        """Draw up other terms for one; raises InvalidField for what could not be."""
        return await self._do(AmendAgreement(agreement, by), agreement.name)

    async def sign(self, name: str, side: AgreementSide, revision: int, by: str) -> AgreementState:
        """Sign a revision for one side; raises AgreementMove where that is not the one to be signed."""
        return await self._do(SignAgreement(name, side, revision, by), name)

    async def publish(self, name: str, by: str, *, published: bool) -> AgreementState:
        """Publish one, or show it to its parties only."""
        return await self._do(PublishAgreement(name, published, by), name)

    async def suspend(self, name: str, by: str, note: str) -> AgreementState:
        """Put one out of force for a while."""
        return await self._do(SuspendAgreement(name, by, note), name)

    async def resume(self, name: str, by: str) -> AgreementState:
        """Put one in force again."""
        return await self._do(ResumeAgreement(name, by), name)

    async def revoke(self, name: str, by: str, note: str) -> AgreementState:
        """End one, and all that was passed on of it."""
        return await self._do(RevokeAgreement(name, by, note), name)

    async def lift(self, penalty_id: int, by: str) -> PenaltyRow:
        """Let a punishment end now; raises NoSuchPenalty."""
        return cast("PenaltyRow", await self._engine.do(LiftPenalty(penalty_id, by)))

    async def _do(self, command: Command, name: str) -> AgreementState:
        await self._engine.do(command)
        return await self.get(name)


def _states(engine: Engine) -> list[AgreementState]:
    records = engine.agreements.records
    return [_state(engine, records[name]) for name in sorted(records)]


def _names(providers: Providers) -> set[str]:
    return {EVERYBODY, *(provider for site in providers.places for provider in providers.over(site))}


def _finding(name: str) -> Callable[[Engine], AgreementState]:
    def look(engine: Engine) -> AgreementState:
        record = engine.agreements.records.get(name)
        if record is None:
            raise NoSuchAgreement(name)
        return _state(engine, record)

    return look


def _state(engine: Engine, record: AgreementRecord) -> AgreementState:
    holds = in_force(engine.agreements.records, record.name, engine.now_ms)
    provider, consumer = _parties(engine, record.agreement)
    sites = Party(sites=_sites(engine, record.agreement.provider))
    return AgreementState(record, holds, provider, consumer, sites)


def _parties(engine: Engine, agreement: Agreement) -> tuple[Party, Party]:
    """In a delegation the consumer of the parent speaks for the provider."""
    parent = engine.agreements.records.get(agreement.parent)
    if parent is None:
        provider = Party(sites=_sites(engine, agreement.provider))
    else:
        provider = _consumer(engine, parent.agreement.consumer)
    return provider, _consumer(engine, agreement.consumer)


def _consumer(engine: Engine, consumer: str) -> Party:
    if consumer == EVERYBODY:
        return Party()
    if consumer.startswith("@"):
        return Party(sites=_sites(engine, consumer[1:]))
    return Party(group=consumer)


def _sites(engine: Engine, provider: str) -> tuple[str, ...]:
    """Name the sites of a provider; none for all providers, for which only an administrator may act."""
    if provider == EVERYBODY:
        return ()
    return tuple(sorted(engine.agreements.providers.sites_of(provider)))
