"""The agreements of one engine, and the penalties for breaking them.

What may follow what is decided in `leasehold.sharing.records`. A command that is repeated gets the same answer, and
nothing happens the second time.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from leasehold.configuration.agreements import agreement_from_dict, agreement_to_dict
from leasehold.model.agreement import CPUS, EVERYBODY, Agreement, Penalty, Standing
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.event import Agreed, Event, PenaltyLifted
from leasehold.model.use import Segment
from leasehold.service.commands import (
    AmendAgreement,
    LiftPenalty,
    ProposeAgreement,
    PublishAgreement,
    ResumeAgreement,
    RevokeAgreement,
    SignAgreement,
    SuspendAgreement,
)
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.timers import AgreementsEnd
from leasehold.service.engine.usage import segments
from leasehold.service.errors import NoSuchAgreement, NoSuchPenalty
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.store.filters import EVERYTHING, UsageFilter
from leasehold.service.store.rows import AGREEMENTS, PENALTIES, USAGE, AgreementRow, PeerRow, PenaltyRow
from leasehold.sharing import records as life
from leasehold.sharing.book import check_delegation
from leasehold.sharing.limits import reach_ms
from leasehold.sharing.parties import Provider, Providers
from leasehold.sharing.records import AgreementRecord, Revision, Signature, Span, agreed, in_force

Json = dict[str, Any]
AgreementCommand = (
    ProposeAgreement
    | AmendAgreement
    | SignAgreement
    | PublishAgreement
    | SuspendAgreement
    | ResumeAgreement
    | RevokeAgreement
)
Did = tuple[list[Event], AgreementRecord]
"""Events for the decision core, and the agreement as it is now."""


class AgreementRepository:
    """The agreements: ``records`` holds all, past ones included; ``penalties`` are for breaking them."""

    def __init__(self, context: EngineContext, peers: Mapping[str, PeerRow]) -> None:
        """Begin with the agreements in the store; ``peers`` holds all peers by name."""
        self.records: dict[str, AgreementRecord] = {row.name: record_of(row) for row in context.store.agreements()}
        self.penalties = PenaltyRepository(context)
        self._store = context.store
        self._unit = context.unit
        self._core = context.core
        self._journal = context.journal
        self._timers = context.timers
        self._peers = peers
        self._agreed = agreed(self.records)

    def brief(self, remotes: Mapping[str, SiteStatus], now_ms: int) -> Sequence[Segment]:
        """Pass the agreements in force and the penalties to a new gateway.

        Returns the usage as far back as the agreements look.
        """
        sharing = self._core.gateway.quotas.sharing
        if sharing is None:
            return ()
        for name, status in remotes.items():
            sharing.join(Provider(name, status.told(name).units))
        sharing.agree(self._agreed, now_ms)
        sharing.penalties.take_up(self.penalties.standing(now_ms))
        return self.history(now_ms)

    def history(self, now_ms: int) -> Sequence[Segment]:
        """Read the usage as far back as the agreements look."""
        sharing = self._core.gateway.quotas.sharing
        return () if sharing is None else self._history(sharing.ledger.watched.reach_ms, now_ms)

    def _history(self, reach_ms: int, now_ms: int) -> Sequence[Segment]:
        if not reach_ms:
            return ()
        return segments(self._store.usage(UsageFilter(EVERYTHING, now_ms - reach_ms, now_ms)))

    def is_domain(self, name: str) -> bool:
        """Whether this is the name of a virtual domain, which no site may have."""
        return name in set(map(self.domain_of, self.providers.places))

    def domain_of(self, site: str) -> str:
        """Name the virtual domain that a site is in, "" for none."""
        return self.providers.domain_of(site)

    @property
    def providers(self) -> Providers:
        """All providers."""
        sharing = self._core.gateway.quotas.sharing
        return Providers(()) if sharing is None else sharing.providers

    @property
    def agreed(self) -> tuple[Agreement, ...]:
        """The agreements that the decision core enforces."""
        return self._agreed

    # Commands

    def carry_out(self, command: AgreementCommand, now_ms: int) -> Did:  # noqa: PLR0911 - one for each command
        """Execute a command; raises InvalidField, NoSuchAgreement."""
        match command:
            case ProposeAgreement():
                return self._propose(command, now_ms)
            case AmendAgreement():
                return self._amend(command, now_ms)
            case SignAgreement():
                return self._sign(command, now_ms)
            case PublishAgreement():
                return self._publish(command, now_ms)
            case SuspendAgreement():
                return self._suspend(command, now_ms)
            case ResumeAgreement():
                return self._resume(command, now_ms)
            case RevokeAgreement():
                return self._revoke(command, now_ms)

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
        return self._keep("signed", signed, command.by, now_ms, side=command.side.value, revision=command.revision)

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
            self._write("revoked", below, command.by, now_ms, note=command.note)
        return self._tell(now_ms, frozenset(revoked)), self.records[command.name]

    # Expiry

    def expire(self, now_ms: int) -> list[Event]:
        """End the agreements that have expired, and set the timer for the next one."""
        for record in life.expire(self.records, now_ms).values():
            self._write("expired", record, "", now_ms)
        events = self._tell(now_ms)
        ends = (record.agreement.end_ms for record in self.records.values() if not record.is_over)
        next_ms = min((end_ms for end_ms in ends if end_ms is not None), default=None)
        if next_ms is not None:
            self._timers.add(next_ms, AgreementsEnd())
        return events

    def count(self, now_ms: int) -> tuple[int, int]:
        """Return how many agreements are in force, and how many penalties stand."""
        holding = sum(in_force(self.records, name, now_ms) for name in self.records)
        return holding, len(self.penalties.standing(now_ms))

    # How

    def _find(self, name: str) -> AgreementRecord:
        if name not in self.records:
            raise NoSuchAgreement(name)
        return self.records[name]

    def _keep(self, what: str, record: AgreementRecord, by: str, now_ms: int, **detail: object) -> Did:
        """Store an agreement if it has changed."""
        if record == self.records.get(record.name):
            return [], record
        self._write(what, record, by, now_ms, **detail)
        return self._tell(now_ms), record

    def _write(self, what: str, record: AgreementRecord, by: str, now_ms: int, **more: object) -> None:
        self.records[record.name] = record
        self._unit.put(AGREEMENTS, row_of_record(record))
        provider, consumer = record.agreement.provider, record.agreement.consumer
        detail = {"agreement": record.name, "consumer": consumer, "by": by, **more}
        self._journal.site(provider, f"agreement-{what}", now_ms, **detail)

    def _tell(self, now_ms: int, revoked: frozenset[str] = frozenset()) -> list[Event]:
        """Pass the agreements in force to the decision core if they have changed, and set the timer for their end."""
        now_agreed = agreed(self.records)
        if now_agreed == self._agreed:
            return []
        self._agreed = now_agreed
        self._timers.add(now_ms, AgreementsEnd())
        reach = max((reach_ms(agreement.limit) for agreement in now_agreed), default=0)
        history = (*self._history(reach, now_ms), *segments(self._unit.rows(USAGE)))
        return [Agreed(now_agreed, history, revoked)]

    # Checks

    def check_domain(self, name: str) -> None:
        """Reject a request bound to an unknown provider; raises UnknownName."""
        if name and not self.providers.sites_of(name) and name not in self._peers:
            raise UnknownName("domain", name, self._known() - {EVERYBODY})

    def _check(self, agreement: Agreement) -> None:
        """Reject an agreement that could never apply here. Raises InvalidField."""
        provider, resource, providers = agreement.provider, agreement.resource, self.providers
        is_ours = bool(providers.sites_of(provider))
        if not is_ours and provider not in self._peers:
            raise UnknownName("provider", provider, self._known())
        if is_ours and resource != CPUS and not providers.capacity(provider, resource):
            raise InvalidField("resource", resource, f"something that {provider} has")
        if agreement.parent:
            check_delegation(agreement, self._find(agreement.parent).agreement, providers)

    def _known(self) -> set[str]:
        places, peers = self.providers.places, self._peers
        return {*places, *map(self.domain_of, places), *peers, EVERYBODY} - {""}


def _is_again(waiting: Revision | None, agreement: Agreement, by: str) -> bool:
    """Whether a command repeats the last revision."""
    return waiting is not None and waiting.agreement == agreement and waiting.drawn_up.by == by


class PenaltyRepository:
    """Imposes and lifts penalties."""

    def __init__(self, context: EngineContext) -> None:
        """Begin with those in the store."""
        self._unit = context.unit
        self._journal = context.journal
        self._rows = {row.id: row for row in context.store.penalties()}
        self._last_id = max(self._rows, default=0)

    def standing(self, now_ms: int) -> list[Penalty]:
        """Give those that stand."""
        return [row.penalty for row in self._rows.values() if stands(row, now_ms)]

    def impose(self, penalty: Penalty, lease_id: int) -> None:
        """Impose a penalty on the consumer of a lease that broke a rule."""
        self._last_id += 1
        self._keep(PenaltyRow(self._last_id, penalty, lease_id))

    def lift(self, command: LiftPenalty, now_ms: int) -> tuple[list[Event], PenaltyRow]:
        """Lift a penalty; one that has ended stays unchanged. Raises NoSuchPenalty."""
        row = self._rows.get(command.penalty_id)
        if row is None:
            raise NoSuchPenalty(command.penalty_id)
        if not stands(row, now_ms):
            return [], row
        lifted = replace(row, lifted_ms=now_ms, lifted_by=command.by)
        self._keep(lifted)
        penalty = row.penalty
        detail = {"agreement": penalty.agreement, "consumer": penalty.consumer, "penalty": row.id}
        self._journal.site(penalty.provider, "penalty-lifted", now_ms, by=command.by, **detail)
        return [PenaltyLifted(penalty.agreement, penalty.consumer)], lifted

    def _keep(self, row: PenaltyRow) -> None:
        self._rows[row.id] = row
        self._unit.put(PENALTIES, row)


def stands(row: PenaltyRow, now_ms: int) -> bool:
    """Whether a penalty has neither ended nor been lifted."""
    return row.lifted_ms is None and (row.penalty.until_ms is None or now_ms < row.penalty.until_ms)


# --- rows ------------------------------------------------------------------------------------------------


def row_of_record(record: AgreementRecord) -> AgreementRow:
    """Make the row of an agreement, with its history."""
    current, amendment = record.current, record.amendment
    return AgreementRow(
        name=record.name,
        revision=current.number,
        document=json.dumps(agreement_to_dict(current.agreement)),
        drawn_up_ms=current.drawn_up.at_ms,
        drawn_up_by=current.drawn_up.by,
        signatures=json.dumps(_signatures(current)),
        amendment="" if amendment is None else json.dumps(_revision_dict(amendment)),
        revisions=record.revisions,
        standing=record.standing.value,
        since_ms=record.since.at_ms,
        since_by=record.since.by,
        published=record.published,
        note=record.note,
        held=json.dumps([_span_dict(span) for span in record.held]),
    )


def record_of(row: AgreementRow) -> AgreementRecord:
    """Read an agreement with its history.

    An agreement stored by an earlier version, with terms that this one rejects, grants nothing until it is
    amended: it is suspended, and its note states the error. Rejecting it would keep the gateway from starting.
    """
    try:
        return _record(row)
    except InvalidField as error:
        note = f"suspended at a start: its stored terms are refused ({error})"
        log = structlog.get_logger("leasehold.agreements")
        log.warning("stored agreement refused", agreement=row.name, problem=str(error))
        terms = json.dumps(_nothing(json.loads(row.document)))
        is_signed = row.standing == Standing.SIGNED.value
        standing = Standing.SUSPENDED.value if is_signed else row.standing
        held = json.dumps([one | {"document": _nothing(one["document"])} for one in json.loads(row.held)])
        return _record(replace(row, document=terms, amendment="", standing=standing, note=note, held=held))


def _nothing(document: Json) -> Json:
    """Return the terms of an agreement between the same parties on the same resource that grants nothing."""
    kept = {key: document[key] for key in ("name", "provider", "consumer", "resource") if key in document}
    return kept | {"kind": "commitment", "lending_limit": 0} | {
        "epoch_share": 0, "epoch_s": 3600, "burst_share": 0, "burst_s": 3600
    }  # fmt: skip


def _record(row: AgreementRow) -> AgreementRecord:
    current = {
        "number": row.revision,
        "document": json.loads(row.document),
        "drawn_up": {"by": row.drawn_up_by, "at_ms": row.drawn_up_ms},
        "signatures": json.loads(row.signatures),
    }
    return AgreementRecord(
        current=_revision(current),
        standing=Standing(row.standing),
        since=Signature(row.since_by, row.since_ms),
        amendment=_revision(json.loads(row.amendment)) if row.amendment else None,
        revisions=row.revisions,
        published=row.published,
        note=row.note,
        held=tuple(_span(document) for document in json.loads(row.held)),
    )


def _revision_dict(revision: Revision) -> Json:
    return {
        "number": revision.number,
        "document": agreement_to_dict(revision.agreement),
        "drawn_up": _signature(revision.drawn_up),
        "signatures": _signatures(revision),
    }


def _revision(record: Json) -> Revision:
    signed = {side: Signature(**signature) for side, signature in record["signatures"].items()}
    return Revision(
        agreement_from_dict(record["document"]),
        record["number"],
        Signature(**record["drawn_up"]),
        signed.get("provider"),
        signed.get("consumer"),
    )


def _span_dict(span: Span) -> Json:
    return {
        "document": agreement_to_dict(span.agreement),
        "begin_ms": span.begin_ms,
        "end_ms": span.end_ms,
    }


def _span(record: Json) -> Span:
    return Span(agreement_from_dict(record["document"]), record["begin_ms"], record["end_ms"])


def _signatures(revision: Revision) -> Json:
    sides = {"provider": revision.provider, "consumer": revision.consumer}
    return {side: _signature(signed) for side, signed in sides.items() if signed is not None}


def _signature(signature: Signature) -> Json:
    return {"by": signature.by, "at_ms": signature.at_ms}
