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
    """The side a caller signs for, and the revision it has read."""

    model_config = examples({"side": "consumer", "revision": 1})

    side: AgreementSide = Field(description="The side signed for: `provider` or `consumer`.")
    revision: Annotated[int, Strict(), Field(ge=1, le=MAX_INT64)] = Field(
        description="The revision that was read and is agreed to."
    )


class PublicationSpec(RequestModel):
    """The visibility of an agreement."""

    model_config = examples({"published": True})

    published: bool = Field(
        default=True, strict=True, description="True: visible to every caller; false: only to its parties."
    )


class NoteSpec(RequestModel):
    """An optional note with an action."""

    model_config = examples({"note": "new switches until Thursday"})

    note: Text = Field(default="", description="Shown to others with access to the agreement.")


class Signature(ResponseModel):
    """An action's author and time."""

    by: str = Field(description="The consumer name of the token used.")
    at: Moment


class Revision(ResponseModel):
    """One revision of an agreement, with its signatures."""

    model_config = examples(_REVISION)

    revision: int = Field(description="Increases by one with every amendment.")
    terms: Json = Field(description="The terms, with the same keys as in an agreements file.")
    drawn_up: Signature = Field(description="Author and time.")
    provider: OrNone[Signature] = Field(description="The provider's signature; null: not signed yet.")
    consumer: OrNone[Signature] = Field(description="The consumer's signature; null: not signed yet.")


class Agreement(ResponseModel):
    """One agreement and its current state."""

    model_config = examples(_AGREEMENT)

    name: str
    standing: str = Field(description="`proposed`, `signed`, `suspended`, `expired` or `revoked`.")
    in_force: bool = Field(
        description="Whether it applies now: signed, within its period, and its parent agreement, if any, in force too."
    )
    current: Revision = Field(description="The revision in force; for a proposal, the one to sign.")
    amendment: OrNone[Revision] = Field(
        description="The next revision, awaiting signatures while the current one stays in force; null: none."
    )
    since: Moment = Field(description="When it entered its present state.")
    since_by: OrEmpty = Field(description="The caller that changed the state; empty: the change was due by time.")
    published: OrFalse = Field(description="Whether every caller may see it.")
    note: OrEmpty

    @property
    def to_sign(self) -> Revision | None:
        """The revision that waits for signatures, None if none does."""
        return self.current if self.standing == "proposed" else self.amendment


class AgreementList(ResponseModel):
    """Agreements, by name."""

    agreements: tuple[Agreement, ...] = Field(description="Published agreements, and those the caller is party to.")


class Penalty(ResponseModel):
    """A penalty: while it is active, no rule between provider and consumer may be exceeded."""

    model_config = examples(_PENALTY)

    id: int
    agreement: str = Field(description="The agreement that was broken.")
    provider: str = Field(description="The provider under the agreement.")
    consumer: str
    points: int = Field(description="Severity: the penalty set in the agreement.")
    stands: bool = Field(description="Whether it is active: neither expired nor lifted.")
    since: Moment = Field(description="When it was imposed.")
    until: Moment | None = Field(description="When it expires; null: never.")
    lease: int = Field(description="The lease that broke it.")
    lifted_at: OrNone[Moment] = Field(description="When it was lifted; null: it was not.")
    lifted_by: OrEmpty = Field(description="The caller that lifted it.")


class PenaltyList(ResponseModel):
    """Penalties, newest first."""

    penalties: tuple[Penalty, ...] = Field(description="Penalties the caller may see.")
