"""How tokens look; their text is no part of it."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from leasehold.cli.live.moments import show_moment
from leasehold.client import Caller, Token
from leasehold.client.access import Access

HEADS = ["ID", "CONSUMER", "ROLES", "GROUPS", "SITES", "CREATED", "EXPIRES", "REVOKED", "NOTE"]


def overview(tokens: Iterable[Token]) -> list[list[str]]:
    """Show each token in a line."""
    return [
        [
            token.id,
            token.consumer,
            *map(",".join, (token.roles, token.groups, token.sites)),
            *map(_when, (token.created_at, token.expires_at, token.revoked_at)),
            token.note,
        ]
        for token in tokens
    ]


def account(token: Token) -> str:
    """Say in one line whose token it is, and what for."""
    until = "" if token.expires_at is None else f"; until {show_moment(token.expires_at)}"
    return f"token {token.id} is for {_who(token)}{until}"


def introduction(caller: Caller, access: Access) -> Iterator[str]:
    """Say who is who at a gateway, what they may, and how that is known."""
    yield _who(caller)
    for name, value in _facts(caller, access):
        yield f"  {name:<10}  {value}"


def _facts(caller: Caller, access: Access) -> Iterator[tuple[str, str]]:
    yield "gateway", access.url
    yield "token", f"{caller.token_id or 'of another issuer'}, from {access.token.origin}"
    for permission, scopes in (caller.permissions or {}).items():
        yield "may", f"{permission} ({', '.join(scopes)})"


def _who(somebody: Caller | Token) -> str:
    groups = f", groups {', '.join(somebody.groups)}" if somebody.groups else ""
    sites = f", sites {', '.join(somebody.sites)}" if somebody.sites else ""
    return f"{somebody.consumer} as {', '.join(somebody.roles)}{groups}{sites}"


def _when(moment: datetime | None) -> str:
    return "" if moment is None else show_moment(moment)
