"""Tokens on the wire. What makes one valid is shown once, when it is made."""

from typing import Annotated, Any

from pydantic import Field

from leasehold.service.api.fields import DurationMs, Name, Text
from leasehold.service.api.models.base import A_MOMENT, Asked, Shown, examples
from leasehold.service.api.moments import show_moment, show_planned
from leasehold.service.auth.permissions import Permission, Scope, reach
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.store.rows import TokenRow

_MOST_NAMES = 100
_TOKEN = {
    "id": "3f9a6c1b2d04", "consumer": "physics", "roles": ["member"], "groups": ["astro"], "sites": [],
    "note": "", "created_at": A_MOMENT, "expires_at": None, "revoked_at": None,
}  # fmt: skip

Names = Annotated[list[Name], Field(max_length=_MOST_NAMES)]


class TokenRequest(Asked):
    """For whom a token is to be made, and what they are."""

    model_config = examples(
        {"consumer": "physics", "roles": ["member"], "groups": ["astro"], "expires_in_s": 2_592_000},
        {"consumer": "das3-operators", "roles": ["site-operator"], "sites": ["das3"]},
    )

    consumer: Name = Field(description="The name under which leases are accounted.")
    roles: list[Role] = Field(min_length=1, max_length=len(Role), description="What they are in the federation.")
    groups: Names = Field([], description="Of these groups; a group manager manages their leases.")
    sites: Names = Field([], description="A member's home sites; what an operator runs; where a peer is.")
    expires_in_ms: DurationMs | None = Field(
        None,
        alias="expires_in_s",
        description="For how long it is good, in seconds; left out: until it is revoked.",
    )
    note: Text = Field("", description="To remember later what it is for.")

    def owner(self) -> Principal:
        """Who will show it."""
        return Principal(self.consumer, frozenset(self.roles), tuple(self.groups), frozenset(self.sites))


class Token(Shown):
    """A token that was given out, without what makes it valid."""

    model_config = examples(_TOKEN)

    id: str
    consumer: str
    roles: list[str]
    groups: list[str]
    sites: list[str]
    note: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class NewToken(Token):
    """A token that was just made."""

    model_config = examples(_TOKEN | {"token": "lh_3f9a6c1b2d04_…"})

    token: str = Field(description="What is to be shown. It cannot be had a second time.")


class TokenList(Shown):
    """All tokens ever given out, oldest first."""

    tokens: list[Token]


class Caller(Shown):
    """Who asks, and what they may."""

    consumer: str
    roles: list[str]
    groups: list[str]
    sites: list[str]
    token_id: str | None = Field(description="null: a JWT was shown.")
    permissions: dict[str, list[str]] = Field(
        description="What they may, and over what: `own`, `group`, `site`, `all`.",
    )


def show_token(row: TokenRow) -> Token:
    """Show a token as it is in the store, without its hash."""
    return Token(**_shared(row))


def show_new_token(row: TokenRow, text: str) -> NewToken:
    """Show a token to who has made it."""
    return NewToken(**_shared(row), token=text)


def show_caller(principal: Principal) -> Caller:
    """Tell somebody who they are here."""
    reaches = {permission: reach(principal, permission) for permission in Permission}
    return Caller(
        consumer=principal.consumer,
        roles=sorted(principal.roles),
        groups=list(principal.groups),
        sites=sorted(principal.sites),
        token_id=principal.token_id or None,
        permissions={permission: _words(scope) for permission, scope in reaches.items() if scope},
    )


def _words(scope: Scope) -> list[str]:
    return [str(part.name).lower() for part in scope]


def _shared(row: TokenRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "consumer": row.consumer,
        "roles": row.roles.split(),
        "groups": row.groups.split(),
        "sites": row.sites.split(),
        "note": row.note,
        "created_at": show_moment(row.created_ms),
        "expires_at": show_planned(row.expires_ms),
        "revoked_at": show_planned(row.revoked_ms),
    }
