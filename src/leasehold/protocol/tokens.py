"""Tokens. The secret is shown once, on creation."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from leasehold.protocol.base import A_MOMENT, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import AnyNumberOf, Duration, Moment, Name, OrEmpty, OrNone, Text

_MOST_NAMES = 100
_TOKEN = {
    "id": "3f9a6c1b2d04", "consumer": "physics", "roles": ["member"], "groups": ["astro"], "sites": [],
    "note": "", "created_at": A_MOMENT, "expires_at": None, "revoked_at": None,
}  # fmt: skip

Names = Annotated[list[Name], Field(max_length=_MOST_NAMES)]


class Role(StrEnum):
    """A role in a federation; `leasehold.service.auth.permissions` lists what each may do."""

    MEMBER = "member"
    GROUP_MANAGER = "group-manager"
    SITE_OPERATOR = "site-operator"
    FEDERATION_ADMIN = "federation-admin"
    PEER = "peer"


class TokenSpec(RequestModel):
    """The consumer and the roles of a new token."""

    model_config = examples(
        {"consumer": "physics", "roles": ["member"], "groups": ["astro"], "expires_in_s": 2_592_000},
        {"consumer": "das3-operators", "roles": ["site-operator"], "sites": ["das3"]},
    )

    consumer: Name = Field(description="The name under which its leases are accounted.")
    roles: list[Role] = Field(min_length=1, max_length=len(Role), description="Its roles in the federation.")
    groups: Names = Field(default=[], description="Its groups; a group manager manages their leases.")
    sites: Names = Field(default=[], description="A member's home sites; an operator's sites; a peer's site.")
    expires_in_s: Duration | None = Field(
        default=None,
        description="Validity in seconds; left out: until it is revoked.",
    )
    note: Text = Field(default="", description="A note on its purpose.")


class Token(ResponseModel):
    """An issued token, without its secret."""

    model_config = examples(_TOKEN)

    id: str
    consumer: str
    roles: AnyNumberOf[str]
    groups: AnyNumberOf[str]
    sites: AnyNumberOf[str]
    note: OrEmpty
    created_at: Moment
    expires_at: OrNone[Moment]
    revoked_at: OrNone[Moment]


class NewToken(Token):
    """A new token, with its secret."""

    model_config = examples(_TOKEN | {"token": "lh_3f9a6c1b2d04_…"})

    token: str = Field(repr=False, description="The secret to present. It is never shown again.")


class TokenList(ResponseModel):
    """All tokens ever issued, oldest first."""

    tokens: tuple[Token, ...]


class Caller(ResponseModel):
    """The authenticated caller and its permissions."""

    consumer: str
    roles: AnyNumberOf[str]
    groups: AnyNumberOf[str]
    sites: AnyNumberOf[str]
    token_id: OrNone[str] = Field(description="null: authenticated with a JWT.")
    permissions: Annotated[dict[str, tuple[str, ...]], Field(default={})] = Field(
        description="Permissions with their scope: `own`, `group`, `site`, `all`.",
    )
