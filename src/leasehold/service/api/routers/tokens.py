"""Tokens: give one out, see who has any, take one back; and find out who one is oneself."""

from typing import cast

from fastapi import APIRouter, Request, Response

from leasehold.service.api.door import Admitted, GuardedRoute, needs
from leasehold.service.api.errors import NoSuchToken
from leasehold.service.api.fields import Name
from leasehold.service.api.models.tokens import (
    Caller,
    NewToken,
    TokenList,
    TokenRequest,
    show_caller,
    show_new_token,
    show_token,
)
from leasehold.service.api.openapi import refuses
from leasehold.service.api.problems import Kind
from leasehold.service.auth.permissions import Permission
from leasehold.service.auth.tokens import Tokens

router = APIRouter(prefix="/v1/tokens", tags=["tokens"], route_class=GuardedRoute)


@router.post("", operation_id="createToken", status_code=201)
@needs(Permission.TOKEN_MANAGE)
def create_token(request: Request, body: TokenRequest, response: Response) -> NewToken:
    """Make a token for somebody. Its text is in this answer, and nowhere else."""
    row, text = _tokens(request).issue(body.owner(), expires_in_ms=body.expires_in_ms, note=body.note)
    response.headers["Cache-Control"] = "no-store"
    return show_new_token(row, text)


@router.get("", operation_id="listTokens")
@needs(Permission.TOKEN_MANAGE)
def list_tokens(request: Request) -> TokenList:
    """List all tokens ever given out, without what makes them valid."""
    return TokenList(tokens=[show_token(row) for row in _tokens(request).list()])


@router.get("/self", operation_id="inspectToken")
@needs(Permission.TOKEN_INSPECT_SELF)
async def inspect_token(call: Admitted) -> Caller:
    """Tell who the caller is here, and what they may."""
    return show_caller(call.principal)


@router.delete("/{token_id}", operation_id="revokeToken", status_code=204, responses=refuses(Kind.NO_SUCH_TOKEN))
@needs(Permission.TOKEN_MANAGE)
def revoke_token(request: Request, token_id: Name) -> None:
    """Refuse a token from now on; one that is refused already stays so."""
    if not _tokens(request).revoke(token_id):
        raise NoSuchToken(token_id)


def _tokens(request: Request) -> Tokens:
    return cast("Tokens", request.app.state.tokens)
