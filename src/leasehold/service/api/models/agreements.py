"""Agreements and penalties on the wire. Their terms are the keys of a file of agreements, as JSON."""

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema
from pydantic.types import Strict

from leasehold.configuration.agreements import agreement_schema, agreement_to_dict
from leasehold.service.agreements import AgreementState
from leasehold.service.api.fields import MAX_INT64, Text
from leasehold.service.api.models.base import A_MOMENT, Asked, Shown, examples
from leasehold.service.api.moments import show_moment, show_planned
from leasehold.service.engine.penalties import stands
from leasehold.service.store.rows import PenaltyRow
from leasehold.sharing.records import AgreementSide, Revision, Signature

Json = dict[str, Any]

_TERMS: Json = {
    "name": "atlas-at-das3", "provider": "das3", "consumer": "atlas", "kind": "commitment",
    "epoch_share": 0.3, "epoch_s": 1200, "burst_share": 0.6, "burst_s": 300,
}  # fmt: skip
_SIGNED = {"by": "das3-operators", "at": A_MOMENT}
_REVISION = {
    "revision": 1, "terms": _TERMS, "drawn_up": _SIGNED, "provider": _SIGNED,
    "consumer": {"by": "atlas-managers", "at": A_MOMENT},
}  # fmt: skip
_AGREEMENT = {
    "name": "atlas-at-das3", "standing": "signed", "in_force": True, "current": _REVISION, "amendment": None,
    "since": A_MOMENT, "since_by": "atlas-managers", "published": True, "note": "",
}  # fmt: skip
_PENALTY = {
    "id": 3, "agreement": "atlas-at-das3", "provider": "das3", "consumer": "atlas", "points": 10,
    "stands": True, "since": A_MOMENT, "until": "2026-11-21T11:43:36.120Z", "lease": 42, "lifted_at": None,
    "lifted_by": "",
}  # fmt: skip


def _terms_schema() -> Json:
    """The keys of one agreement; which of them go together, the schema of a file says."""
    named: Json = agreement_schema()["$defs"]
    plain = {"title", "type", "required", "properties", "additionalProperties"}
    agreement = {key: value for key, value in named["agreement"].items() if key in plain}
    for_runs = {"begin_s", "end_s"}
    agreement["properties"] = {key: value for key, value in agreement["properties"].items() if key not in for_runs}

    def inlined(part: object) -> Any:  # noqa: ANN401 - JSON
        if isinstance(part, list):
            return [inlined(one) for one in part]
        if not isinstance(part, dict):
            return part
        rest = {key: inlined(value) for key, value in part.items() if key != "$ref"}
        return {**named[part["$ref"].rpartition("/")[2]], **rest} if "$ref" in part else rest

    found: Json = inlined(agreement)
    return found | {"examples": [_TERMS]}


Terms = Annotated[Json, WithJsonSchema(_terms_schema())]
"""The terms of an agreement: checked by `leasehold.configuration.agreements`, as those of a file are."""


class SignRequest(Asked):
    """For whom somebody signs, and what they have read."""

    model_config = examples({"side": "consumer", "revision": 1})

    side: AgreementSide = Field(description="For whom: `provider` or `consumer`.")
    revision: Annotated[int, Strict(), Field(ge=1, le=MAX_INT64)] = Field(
        description="The revision that was read and is agreed to."
    )


class PublishRequest(Asked):
    """Who may see an agreement."""

    model_config = examples({"published": True})

    published: bool = Field(default=True, strict=True, description="Whether everybody may see it, or only its parties.")


class NoteRequest(Asked):
    """Why something is done."""

    model_config = examples({"note": "new switches until Thursday"})

    note: Text = Field("", description="For the others who look at the agreement.")


class SignatureShown(Shown):
    """Who, and when."""

    by: str = Field(description="Who it was.")
    at: str


class RevisionShown(Shown):
    """One wording of an agreement, and who has signed it."""

    model_config = examples(_REVISION)

    revision: int = Field(description="Counts up with every amendment.")
    terms: Json = Field(description="What it says, under the keys of a file of agreements.")
    drawn_up: SignatureShown = Field(description="By whom, and when.")
    provider: SignatureShown | None = Field(description="Who has signed for the provider; null: nobody yet.")
    consumer: SignatureShown | None = Field(description="Who has signed for the consumer; null: nobody yet.")


class Agreement(Shown):
    """One agreement with its life so far."""

    model_config = examples(_AGREEMENT)

    name: str
    standing: str = Field(description="`proposed`, `signed`, `suspended`, `expired` or `revoked`.")
    in_force: bool = Field(
        description="Whether it holds now: signed, in its time, and so is what it passes on a part of."
    )
    current: RevisionShown = Field(description="The revision that holds; of a proposal, the one to sign.")
    amendment: RevisionShown | None = Field(
        description="The next revision, which waits for signatures while the current one holds; null: none."
    )
    since: str = Field(description="Since when it stands as it does.")
    since_by: str = Field(description="Who moved it there; empty where its time had come.")
    published: bool = Field(description="Whether everybody may see it.")
    note: str


class AgreementList(Shown):
    """Agreements, by name."""

    agreements: list[Agreement] = Field(description="Those that are published, and those of one's own.")


class Penalty(Shown):
    """A punishment: for its time no rule between these two may be broken."""

    model_config = examples(_PENALTY)

    id: int
    agreement: str = Field(description="The agreement that was broken.")
    provider: str = Field(description="Who lends under it.")
    consumer: str
    points: int = Field(description="How grave that is: the penalty of the agreement.")
    stands: bool = Field(description="Whether it has neither ended nor been lifted.")
    since: str = Field(description="Since when it stands.")
    until: str | None = Field(description="When it ends by itself; null: never.")
    lease: int = Field(description="The lease with which it was broken.")
    lifted_at: str | None = Field(description="When somebody lifted it.")
    lifted_by: str = Field(description="Who lifted it.")


class PenaltyList(Shown):
    """Punishments, the last one first."""

    penalties: list[Penalty] = Field(description="Those that concern the caller.")


def show_agreement(state: AgreementState) -> Agreement:
    """Show an agreement as it is now."""
    record = state.record
    return Agreement(
        name=record.name,
        standing=record.standing.value,
        in_force=state.in_force,
        current=_revision(record.current),
        amendment=None if record.amendment is None else _revision(record.amendment),
        since=show_moment(record.since.at_ms),
        since_by=record.since.by,
        published=record.published,
        note=record.note,
    )


def _revision(revision: Revision) -> RevisionShown:
    return RevisionShown(
        revision=revision.number,
        terms=agreement_to_dict(revision.agreement),
        drawn_up=_signature(revision.drawn_up),
        provider=None if revision.provider is None else _signature(revision.provider),
        consumer=None if revision.consumer is None else _signature(revision.consumer),
    )


def _signature(signature: Signature) -> SignatureShown:
    return SignatureShown(by=signature.by, at=show_moment(signature.at_ms))


def show_penalty(row: PenaltyRow, now_ms: int) -> Penalty:
    """Show a punishment as it is now."""
    return Penalty(
        id=row.id,
        agreement=row.agreement,
        provider=row.provider,
        consumer=row.consumer,
        points=row.points,
        stands=stands(row, now_ms),
        since=show_moment(row.since_ms),
        until=show_planned(row.until_ms),
        lease=row.lease_id,
        lifted_at=show_planned(row.lifted_ms),
        lifted_by=row.lifted_by,
    )
