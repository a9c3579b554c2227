"""Between the agreements of `leasehold.sharing` and the rows of the store."""

import json
from typing import Any

from leasehold.configuration.agreements import agreement_from_dict, agreement_to_dict
from leasehold.model.agreement import Penalty, Standing
from leasehold.service.store.rows import AgreementRow, PenaltyRow
from leasehold.sharing.records import Record, Revision, Signature

Json = dict[str, Any]


def row_of_record(record: Record) -> AgreementRow:
    """Write an agreement down, with its life so far."""
    current, amendment = record.current, record.amendment
    return {
        "name": record.name,
        "revision": current.number,
        "document": json.dumps(agreement_to_dict(current.agreement)),
        "drawn_up_ms": current.drawn_up.at_ms,
        "drawn_up_by": current.drawn_up.by,
        "signatures": json.dumps(_signatures(current)),
        "amendment": "" if amendment is None else json.dumps(_told(amendment)),
        "revisions": record.revisions,
        "standing": record.standing.value,
        "since_ms": record.since.at_ms,
        "since_by": record.since.by,
        "published": int(record.published),
        "note": record.note,
    }


def record_of(row: AgreementRow) -> Record:
    """Read an agreement with its life so far."""
    current = {
        "number": row["revision"],
        "document": json.loads(row["document"]),
        "drawn_up": {"by": row["drawn_up_by"], "at_ms": row["drawn_up_ms"]},
        "signatures": json.loads(row["signatures"]),
    }
    return Record(
        current=_revision(current),
        standing=Standing(row["standing"]),
        since=Signature(row["since_by"], row["since_ms"]),
        amendment=_revision(json.loads(row["amendment"])) if row["amendment"] else None,
        revisions=row["revisions"],
        published=bool(row["published"]),
        note=row["note"],
    )


def penalty_of(row: PenaltyRow) -> Penalty:
    """Read a punishment as the decision core knows it."""
    return Penalty(
        row["agreement"],
        row["provider"],
        row["consumer"],
        row["points"],
        row["since_ms"],
        row["until_ms"],
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


def _signatures(revision: Revision) -> Json:
    sides = {"provider": revision.provider, "consumer": revision.consumer}
    return {side: _signature(signed) for side, signed in sides.items() if signed is not None}


def _signature(signature: Signature) -> Json:
    return {"by": signature.by, "at_ms": signature.at_ms}
