"""Agreements and penalties. Their terms are the keys of a file of agreements, as JSON."""

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema
from pydantic.types import Strict

from leasehold.configuration.agreements import agreement_schema
from leasehold.protocol.base import A_MOMENT, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import MAX_INT64, Moment, OrEmpty, OrFalse, OrNone, Text
from leasehold.sharing.records import AgreementSide

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


class SignatureSpec(RequestModel):
    """For whom somebody signs, and what they have read."""

    model_config = examples({"side": "consumer", "revision": 1})

    side: AgreementSide = Field(description="For whom: `provider` or `consumer`.")
    revision: Annotated[int, Strict(), Field(ge=1, le=MAX_INT64)] = Field(
        description="The revision that was read and is agreed to."
    )


class PublicationSpec(RequestModel):
    """Who may see an agreement."""

    model_config = examples({"published": True})

    published: bool = Field(default=True, strict=True, description="Whether everybody may see it, or only its parties.")


class NoteSpec(RequestModel):
    """Why something is done."""

    model_config = examples({"note": "new switches until Thursday"})

    note: Text = Field(default="", description="For the others who look at the agreement.")


class Signature(ResponseModel):
    """Who, and when."""

    by: str = Field(description="Who it was.")
    at: Moment


class Revision(ResponseModel):
    """One wording of an agreement, and who has signed it."""

    model_config = examples(_REVISION)

    revision: int = Field(description="Counts up with every amendment.")
    terms: Json = Field(description="What it says, under the keys of a file of agreements.")
    drawn_up: Signature = Field(description="By whom, and when.")
    provider: OrNone[Signature] = Field(description="Who has signed for the provider; null: nobody yet.")
    consumer: OrNone[Signature] = Field(description="Who has signed for the consumer; null: nobody yet.")


class Agreement(ResponseModel):
    """One agreement with its life so far."""

    model_config = examples(_AGREEMENT)

    name: str
    standing: str = Field(description="`proposed`, `signed`, `suspended`, `expired` or `revoked`.")
    in_force: bool = Field(
        description="Whether it holds now: signed, in its time, and so is what it passes on a part of."
    )
    current: Revision = Field(description="The revision that holds; of a proposal, the one to sign.")
    amendment: OrNone[Revision] = Field(
        description="The next revision, which waits for signatures while the current one holds; null: none."
    )
    since: Moment = Field(description="Since when it stands as it does.")
    since_by: OrEmpty = Field(description="Who moved it there; empty where its time had come.")
    published: OrFalse = Field(description="Whether everybody may see it.")
    note: OrEmpty

    @property
    def to_sign(self) -> Revision | None:
        """The revision that waits for signatures, None if none does."""
        return self.current if self.standing == "proposed" else self.amendment


class AgreementList(ResponseModel):
    """Agreements, by name."""

    agreements: tuple[Agreement, ...] = Field(description="Those that are published, and those of one's own.")


class Penalty(ResponseModel):
    """A punishment: for its time no rule between these two may be broken."""

    model_config = examples(_PENALTY)

    id: int
    agreement: str = Field(description="The agreement that was broken.")
    provider: str = Field(description="Who lends under it.")
    consumer: str
    points: int = Field(description="How grave that is: the penalty of the agreement.")
    stands: bool = Field(description="Whether it has neither ended nor been lifted.")
    since: Moment = Field(description="Since when it stands.")
    until: Moment | None = Field(description="When it ends by itself; null: never.")
    lease: int = Field(description="The lease with which it was broken.")
    lifted_at: OrNone[Moment] = Field(description="When somebody lifted it.")
    lifted_by: OrEmpty = Field(description="Who lifted it.")


class PenaltyList(ResponseModel):
    """Punishments, the last one first."""

    penalties: tuple[Penalty, ...] = Field(description="Those that concern the caller.")
