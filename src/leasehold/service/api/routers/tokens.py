"""Tokens: issue, list and revoke them, and show the caller's own identity."""

from typing import cast

from fastapi import APIRouter, Request, Response

from leasehold.protocol.fields import Name, read_duration
from leasehold.protocol.problems import Kind
from leasehold.protocol.tokens import Caller, NewToken, Token, TokenList, TokenSpec
from leasehold.service.api.authorizer import Authorized, GuardedRoute, needs
from leasehold.service.api.openapi import refuses
from leasehold.service.auth.permissions import Permission, Scope, reach
from leasehold.service.auth.principal import Principal
from leasehold.service.auth.tokens import Tokens
from leasehold.service.errors import NoSuchToken
from leasehold.service.store.rows import TokenRow

router = APIRouter(prefix="/v1/tokens", tags=["tokens"], route_class=GuardedRoute)


@router.post("", operation_id="createToken", status_code=201)
@needs(Permission.TOKEN_MANAGE)
def create_token(request: Request, body: TokenSpec, response: Response) -> NewToken:
    """Issue a token for a consumer. Its text is in this response and nowhere else."""
    owner = Principal(body.consumer, frozenset(body.roles), tuple(body.groups), frozenset(body.sites))
    expires_in_ms = None if body.expires_in_s is None else read_duration(body.expires_in_s)
    row, text = _tokens(request).issue(owner, expires_in_ms=expires_in_ms, note=body.note)
    response.headers["Cache-Control"] = "no-store"
    return show_new_token(row, text)


@router.get("", operation_id="listTokens")
@needs(Permission.TOKEN_MANAGE)
def list_tokens(request: Request) -> TokenList:
    """List all tokens ever issued, without their secrets."""
    return TokenList(tokens=tuple(show_token(row) for row in _tokens(request).list()))


@router.get("/self", operation_id="inspectToken")
@needs(Permission.TOKEN_INSPECT_SELF)
async def inspect_token(call: Authorized) -> Caller:
    """Show the caller's identity and permissions."""
    return show_caller(call.principal)


@router.delete("/{token_id}", operation_id="revokeToken", status_code=204, responses=refuses(Kind.NO_SUCH_TOKEN))
@needs(Permission.TOKEN_MANAGE)
def revoke_token(request: Request, token_id: Name) -> None:
    """Revoke a token; one that is already revoked stays so."""
    if not _tokens(request).revoke(token_id):
        raise NoSuchToken(token_id)


def _tokens(request: Request) -> Tokens:
    return cast("Tokens", request.app.state.tokens)


def show_token(row: TokenRow) -> Token:
    """Show a token as it is in the store, without its hash."""
    return Token.of(row, **_names(row))


def show_new_token(row: TokenRow, text: str) -> NewToken:
    """Show a new token to the caller that created it."""
    return NewToken.of(row, token=text, **_names(row))


def show_caller(principal: Principal) -> Caller:
    """Show a principal to itself."""
    reaches = {permission: reach(principal, permission) for permission in Permission}
    return Caller(
        consumer=principal.consumer,
        roles=tuple(sorted(principal.roles)),
        groups=tuple(principal.groups),
        sites=tuple(sorted(principal.sites)),
        token_id=principal.token_id or None,
        permissions={permission: _words(scope) for permission, scope in reaches.items() if scope},
    )


def _words(scope: Scope) -> tuple[str, ...]:
    return tuple(str(part.name).lower() for part in scope)


def _names(row: TokenRow) -> dict[str, tuple[str, ...]]:
    return {name: tuple(getattr(row, name).split()) for name in ("roles", "groups", "sites")}
