"""Peers: the gateways that this one exchanges requests with."""

import asyncio
from typing import cast

from fastapi import APIRouter, Request

from leasehold.service.api.door import Admitted, GuardedRoute, needs
from leasehold.service.api.fields import Name
from leasehold.service.api.models.peers import Peer, PeerList, PeerRequest, show_peer
from leasehold.service.api.openapi import refuses
from leasehold.service.api.problems import Kind
from leasehold.service.auth.permissions import Permission
from leasehold.service.auth.principal import Role
from leasehold.service.auth.tokens import Tokens, roles_of

router = APIRouter(prefix="/v1/peers", tags=["peers"], route_class=GuardedRoute)


@router.get("", operation_id="listPeers")
@needs(Permission.PEER_SEE)
async def list_peers(call: Admitted) -> PeerList:
    """List all peers, with what went to and fro."""
    return PeerList(peers=[show_peer(state) for state in await call.federation.peers.list()])


@router.get("/{name}", operation_id="showPeer", responses=refuses(Kind.NO_SUCH_PEER))
@needs(Permission.PEER_SEE)
async def show_one_peer(call: Admitted, name: Name) -> Peer:
    """Show one peer."""
    return show_peer(await call.federation.peers.get(name))


@router.put("/{name}", operation_id="keepPeer")
@needs(Permission.PEER_MANAGE)
async def keep_peer(call: Admitted, name: Name, body: PeerRequest) -> Peer:
    """Exchange requests with another gateway from now on, or on these terms; what is left out is as usual."""
    by = call.principal.consumer
    return show_peer(await call.federation.peers.keep(name, body.agreement(), body.token, by))


@router.delete(
    "/{name}",
    operation_id="removePeer",
    status_code=204,
    responses=refuses(Kind.NO_SUCH_PEER, Kind.CANNOT_REMOVE_PEER),
)
@needs(Permission.PEER_MANAGE)
async def remove_peer(request: Request, call: Admitted, name: Name) -> None:
    """Exchange nothing with a peer any more, and refuse the tokens that were made for it.

    While leases are under way between the two, only one that has been silent for a minute can be removed:
    ours that are there have failed then, and its own that are here are ended.
    """
    await call.federation.peers.remove(name, by=call.principal.consumer)
    await asyncio.to_thread(_revoke_tokens, cast("Tokens", request.app.state.tokens), name)


def _revoke_tokens(tokens: Tokens, name: str) -> None:
    for row in tokens.list():
        if row.sites == name and Role.PEER in roles_of(row):
            tokens.revoke(row.id)
