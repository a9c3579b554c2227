"""The agreements of one engine: what is said about them, who is told, and what is to be written of that.

What may follow what is `leasehold.sharing.records`'s to say. Whoever asks for the same thing twice gets the same
answer, and nothing happens the second time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leasehold.gateway.gateway import Gateway
from leasehold.model.agreement import CPUS, EVERYBODY, Agreement, Standing
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.event import Agreed, Event
from leasehold.model.use import Segment
from leasehold.service.commands import (
    AmendAgreement,
    ProposeAgreement,
    PublishAgreement,
    ResumeAgreement,
    RevokeAgreement,
    SignAgreement,
    SuspendAgreement,
)
from leasehold.service.engine.agenda import AgreementsEnd
from leasehold.service.engine.agreement_rows import record_of, row_of_record
from leasehold.service.engine.penalties import PenaltyBook
from leasehold.service.engine.use import segments
from leasehold.service.errors import NoSuchAgreement
from leasehold.service.store.batch import Batch
from leasehold.service.store.filters import EVERYTHING, UsageFilter
from leasehold.service.store.rows import AGREEMENTS
from leasehold.sharing import records as life
from leasehold.sharing.book import check_delegation
from leasehold.sharing.limits import reach_ms
from leasehold.sharing.parties import Provider, Providers
from leasehold.sharing.records import AgreementRecord, Revision, agreed, in_force

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine
    from leasehold.service.messages.wire import About

Did = tuple[list[Event], AgreementRecord]
"""What the decision core is told, and how the agreement stands now."""


class AgreementBook:
    """Reads what is said about agreements; ``records`` are all that there are, or ever were."""

    def __init__(self, engine: "Engine") -> None:
        """Begin with those in the store."""
        self.records: dict[str, AgreementRecord] = {row.name: record_of(row) for row in engine.store.agreements()}
        self._engine = engine
        self._changed: dict[str, AgreementRecord] = {}
        self._agreed = agreed(self.records)
        self.penalties = PenaltyBook(engine)
        self.moves: Mapping[type, Callable[[Any, int], Did]] = {
            ProposeAgreement: self._propose,
            AmendAgreement: self._amend,
            SignAgreement: self._sign,
            PublishAgreement: self._publish,
            SuspendAgreement: self._suspend,
            ResumeAgreement: self._resume,
            RevokeAgreement: self._revoke,
        }

    def furnish(self, gateway: Gateway, now_ms: int) -> Sequence[Segment]:
        """Tell a new gateway what holds and who is punished; give what was used as far back as that looks."""
        sharing = gateway.quotas.sharing
        if sharing is None:
            return ()
        for name, about in self._engine.handlers.correspondence.abouts.items():
            self.join(name, about)
        sharing.agree(self._agreed, now_ms)
        sharing.penalties.take_up(self.penalties.standing(now_ms))
        return self._history(sharing.ledger.watched.reach_ms, now_ms)

    def _history(self, reach_ms: int, now_ms: int) -> Sequence[Segment]:
        if not reach_ms:
            return ()
        return segments(self._engine.store.usage(UsageFilter(EVERYTHING, now_ms - reach_ms, now_ms)))

    def join(self, name: str, about: "About") -> None:
        """A site that decides for itself, or a peer, provides what it says that it has."""
        sharing = self._engine.gateway.quotas.sharing
        if sharing is not None:
            sharing.join(Provider(name, {CPUS: about.slots}))

    def part_with(self, name: str) -> None:
        """A site that decides for itself, or a peer, provides nothing any more."""
        sharing = self._engine.gateway.quotas.sharing
        if sharing is not None:
            sharing.part_with(name)

    def is_domain(self, name: str) -> bool:
        """Whether this is the name of a virtual domain, which no site may have."""
        return name in set(map(self.domain_of, self.providers.places))

    def domain_of(self, site: str) -> str:
        """Name the virtual domain that a site is in, "" for none."""
        return self.providers.domain_of(site)

    @property
    def providers(self) -> Providers:
        """Who there is to provide anything."""
        sharing = self._engine.gateway.quotas.sharing
        return Providers(()) if sharing is None else sharing.providers

    @property
    def agreed(self) -> tuple[Agreement, ...]:
        """What the decision core is to hold everybody to."""
        return self._agreed

    # What is asked

    def _propose(self, command: ProposeAgreement, now_ms: int) -> Did:
        agreement, before = command.agreement, self.records.get(command.agreement.name)
        if before is not None and not before.is_over and _is_again(before.current, agreement, command.by):
            return [], before
        proposed = life.propose(agreement, command.by, now_ms, self.records)
        self._check(agreement)
        return self._keep("proposed", proposed, command.by, now_ms)

    def _amend(self, command: AmendAgreement, now_ms: int) -> Did:
        record = self._find(command.agreement.name)
        if _is_again(record.to_sign, command.agreement, command.by):
            return [], record
        amended = life.amend(record, command.agreement, command.by, now_ms)
        self._check(command.agreement)
        return self._keep("amended", amended, command.by, now_ms)

    def _sign(self, command: SignAgreement, now_ms: int) -> Did:
        record = self._find(command.name)
        signed = life.sign(record, command.side, command.revision, command.by, now_ms)
        told = {"side": command.side.value, "revision": command.revision}
        return self._keep("signed", signed, command.by, now_ms, **told)

    def _publish(self, command: PublishAgreement, now_ms: int) -> Did:
        record = self._find(command.name)
        if command.published:
            return self._keep("published", life.publish(record), command.by, now_ms)
        return self._keep("unpublished", life.unpublish(record), command.by, now_ms)

    def _suspend(self, command: SuspendAgreement, now_ms: int) -> Did:
        record = self._find(command.name)
        if record.standing is Standing.SUSPENDED:
            return [], record
        suspended = life.suspend(record, command.by, now_ms, command.note)
        return self._keep("suspended", suspended, command.by, now_ms, note=command.note)

    def _resume(self, command: ResumeAgreement, now_ms: int) -> Did:
        record = self._find(command.name)
        if record.standing is Standing.SIGNED:
            return [], record
        return self._keep("resumed", life.resume(record, command.by, now_ms), command.by, now_ms)

    def _revoke(self, command: RevokeAgreement, now_ms: int) -> Did:
        record = self._find(command.name)
        if record.standing is Standing.REVOKED:
            return [], record
        revoked = life.revoke(self.records, command.name, command.by, now_ms, command.note)
        for below in revoked.values():
            self._take_down("revoked", below, command.by, now_ms, note=command.note)
        return self._tell(now_ms, frozenset(revoked)), self.records[command.name]

    # What time brings

    def expire(self, now_ms: int) -> list[Event]:
        """End the agreements whose end has come, and mind the next one."""
        for record in life.expire(self.records, now_ms).values():
            self._take_down("expired", record, "", now_ms)
        events = self._tell(now_ms)
        ends = (record.agreement.end_ms for record in self.records.values() if not record.is_over)
        next_ms = min((end_ms for end_ms in ends if end_ms is not None), default=None)
        if next_ms is not None:
            self._engine.agenda.add(next_ms, AgreementsEnd())
        return events

    def count(self, now_ms: int) -> tuple[int, int]:
        """Say how many agreements are in force, and how many punishments stand."""
        holding = sum(in_force(self.records, name, now_ms) for name in self.records)
        return holding, len(self.penalties.standing(now_ms))

    # What is written

    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changed) or self.penalties.has_news()

    def save(self, batch: Batch) -> None:
        """Write everything into the store."""
        batch.upsert(AGREEMENTS, [row_of_record(record) for record in self._changed.values()])
        self.penalties.save(batch)

    def saved(self) -> None:
        """Everything is in the store."""
        self._changed.clear()
        self.penalties.saved()

    # How

    def _find(self, name: str) -> AgreementRecord:
        if name not in self.records:
            raise NoSuchAgreement(name)
        return self.records[name]

    def _keep(self, what: str, record: AgreementRecord, by: str, now_ms: int, **told: object) -> Did:
        """Keep what has become of an agreement, if anything has."""
        if record == self.records.get(record.name):
            return [], record
        self._take_down(what, record, by, now_ms, **told)
        return self._tell(now_ms), record

    def _take_down(self, what: str, record: AgreementRecord, by: str, now_ms: int, **told: object) -> None:
        self.records[record.name] = self._changed[record.name] = record
        provider, consumer = record.agreement.provider, record.agreement.consumer
        detail = {"agreement": record.name, "consumer": consumer, "by": by, **told}
        self._engine.minutes.line_about_site(provider, f"agreement-{what}", now_ms, **detail)

    def _tell(self, now_ms: int, revoked: frozenset[str] = frozenset()) -> list[Event]:
        """Tell the decision core what holds from now on, if that has changed; and mind its end."""
        now_agreed = agreed(self.records)
        if now_agreed == self._agreed:
            return []
        self._agreed = now_agreed
        self._engine.agenda.add(now_ms, AgreementsEnd())
        reach = max((reach_ms(agreement.limit) for agreement in now_agreed), default=0)
        history = (*self._history(reach, now_ms), *segments(self._engine.minutes.usage))
        return [Agreed(now_agreed, history, revoked)]

    # Checks

    def check_domain(self, name: str) -> None:
        """Refuse to bind a request to what nobody provides; raises UnknownName."""
        if name and not self.providers.sites_of(name) and name not in self._engine.handlers.peers.rows:
            raise UnknownName("domain", name, self._known() - {EVERYBODY})

    def _check(self, agreement: Agreement) -> None:
        """Refuse what could never mean anything here. Raises InvalidField."""
        provider, resource, providers = agreement.provider, agreement.resource, self.providers
        is_ours = bool(providers.sites_of(provider))
        if not is_ours and provider not in self._engine.handlers.peers.rows:
            raise UnknownName("provider", provider, self._known())
        if is_ours and resource != CPUS and not providers.capacity(provider, resource):
            raise InvalidField("resource", resource, f"something that {provider} has")
        if agreement.parent:
            check_delegation(agreement, self._find(agreement.parent).agreement, providers)

    def _known(self) -> set[str]:
        places, peers = self.providers.places, self._engine.handlers.peers.rows
        return {*places, *map(self.domain_of, places), *peers, EVERYBODY} - {""}


def _is_again(waiting: Revision | None, agreement: Agreement, by: str) -> bool:
    """Whether somebody has said the same before."""
    return waiting is not None and waiting.agreement == agreement and waiting.drawn_up.by == by
