"""Tokens. What makes one valid is shown once, when it is made."""

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
    """What somebody is in a federation; `leasehold.service.auth.permissions` says what each may do."""

    MEMBER = "member"
    GROUP_MANAGER = "group-manager"
    SITE_OPERATOR = "site-operator"
    FEDERATION_ADMIN = "federation-admin"
    PEER = "peer"


class TokenSpec(RequestModel):
    """For whom a token is to be made, and what they are."""

    model_config = examples(
        {"consumer": "physics", "roles": ["member"], "groups": ["astro"], "expires_in_s": 2_592_000},
        {"consumer": "das3-operators", "roles": ["site-operator"], "sites": ["das3"]},
    )

    consumer: Name = Field(description="The name under which leases are accounted.")
    roles: list[Role] = Field(min_length=1, max_length=len(Role), description="What they are in the federation.")
    groups: Names = Field(default=[], description="Of these groups; a group manager manages their leases.")
    sites: Names = Field(default=[], description="A member's home sites; what an operator runs; where a peer is.")
    expires_in_s: Duration | None = Field(
        default=None,
        description="For how long it is good, in seconds; left out: until it is revoked.",
    )
    note: Text = Field(default="", description="To remember later what it is for.")


class Token(ResponseModel):
    """A token that was given out, without what makes it valid."""

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
    """A token that was just made."""

    model_config = examples(_TOKEN | {"token": "lh_3f9a6c1b2d04_…"})

    token: str = Field(repr=False, description="What is to be shown. It cannot be had a second time.")


class TokenList(ResponseModel):
    """All tokens ever given out, oldest first."""

    tokens: tuple[Token, ...]


class Caller(ResponseModel):
    """Who asks, and what they may."""

    consumer: str
    roles: AnyNumberOf[str]
    groups: AnyNumberOf[str]
    sites: AnyNumberOf[str]
    token_id: OrNone[str] = Field(description="null: a JWT was shown.")
    permissions: Annotated[dict[str, tuple[str, ...]], Field(default={})] = Field(
        description="What they may, and over what: `own`, `group`, `site`, `all`.",
    )
