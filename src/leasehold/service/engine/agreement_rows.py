"""Between the agreements of `leasehold.sharing` and the rows of the store."""

import json
from dataclasses import replace
from typing import Any

import structlog

from leasehold.configuration.agreements import agreement_from_dict, agreement_to_dict
from leasehold.model.agreement import Penalty, Standing
from leasehold.model.errors import InvalidField
from leasehold.service.store.rows import AgreementRow, PenaltyRow
from leasehold.sharing.records import AgreementRecord, Revision, Signature, Span

Json = dict[str, Any]


def row_of_record(record: AgreementRecord) -> AgreementRow:
    """Write an agreement down, with its life so far."""
    current, amendment = record.current, record.amendment
    return AgreementRow(
        name=record.name,
        revision=current.number,
        document=json.dumps(agreement_to_dict(current.agreement)),
        drawn_up_ms=current.drawn_up.at_ms,
        drawn_up_by=current.drawn_up.by,
        signatures=json.dumps(_signatures(current)),
        amendment="" if amendment is None else json.dumps(_told(amendment)),
        revisions=record.revisions,
        standing=record.standing.value,
        since_ms=record.since.at_ms,
        since_by=record.since.by,
        published=record.published,
        note=record.note,
        held=json.dumps([_told_span(span) for span in record.held]),
    )


def record_of(row: AgreementRow) -> AgreementRecord:
    """Read an agreement with its life so far.

    One whose terms this version would refuse, kept by an earlier one, gives nothing until it is amended: it
    is suspended, and its note says what is wrong with it. A start is not the time to refuse it.
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
    """Give the terms of an agreement between the same two about the same resource that gives nothing."""
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
        held=tuple(_span(told) for told in json.loads(row.held)),
    )


def penalty_of(row: PenaltyRow) -> Penalty:
    """Read a punishment as the decision core knows it."""
    return Penalty(
        row.agreement,
        row.provider,
        row.consumer,
        row.points,
        row.since_ms,
        row.until_ms,
    )


def _told(revision: Revision) -> Json:
    return {
        "number": revision.number,
        "document": agreement_to_dict(revision.agreement),
        "drawn_up": _signature(revision.drawn_up),
        "signatures": _signatures(revision),
    }


def _revision(told: Json) -> Revision:
    signed = {side: Signature(**signature) for side, signature in told["signatures"].items()}
    return Revision(
        agreement_from_dict(told["document"]),
        told["number"],
        Signature(**told["drawn_up"]),
        signed.get("provider"),
        signed.get("consumer"),
    )


def _told_span(span: Span) -> Json:
    return {
        "document": agreement_to_dict(span.agreement),
        "begin_ms": span.begin_ms,
        "end_ms": span.end_ms,
    }


def _span(told: Json) -> Span:
    return Span(agreement_from_dict(told["document"]), told["begin_ms"], told["end_ms"])


def _signatures(revision: Revision) -> Json:
    sides = {"provider": revision.provider, "consumer": revision.consumer}
    return {side: _signature(signed) for side, signed in sides.items() if signed is not None}


def _signature(signature: Signature) -> Json:
    return {"by": signature.by, "at_ms": signature.at_ms}
