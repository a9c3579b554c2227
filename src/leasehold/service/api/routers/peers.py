"""Peers: the gateways that this one exchanges requests with."""

import asyncio
from typing import cast

from fastapi import APIRouter, Request

from leasehold.protocol.fields import Name
from leasehold.protocol.peers import CapacityBeyond, LinkStatus, Peer, PeerCapacity, PeerList, PeerSpec
from leasehold.protocol.problems import Kind
from leasehold.service.api.authorizer import Authorized, GuardedRoute, needs
from leasehold.service.api.openapi import refuses
from leasehold.service.auth.permissions import Permission
from leasehold.service.auth.principal import Role
from leasehold.service.auth.tokens import Tokens, roles_of
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.peers.peers import PeerState, PeerTerms

router = APIRouter(prefix="/v1/peers", tags=["peers"], route_class=GuardedRoute)


@router.get("", operation_id="listPeers")
@needs(Permission.PEER_SEE)
async def list_peers(call: Authorized) -> PeerList:
    """List all peers, with what was exchanged with them."""
    return PeerList(peers=tuple(show_peer(state) for state in await call.federation.peers.list()))


@router.get("/{name}", operation_id="showPeer", responses=refuses(Kind.NO_SUCH_PEER))
@needs(Permission.PEER_SEE)
async def show_one_peer(call: Authorized, name: Name) -> Peer:
    """Show one peer."""
    return show_peer(await call.federation.peers.get(name))


@router.put("/{name}", operation_id="keepPeer")
@needs(Permission.PEER_MANAGE)
async def keep_peer(call: Authorized, name: Name, body: PeerSpec) -> Peer:
    """Add another gateway as a peer, or change its terms; terms left out take their defaults."""
    by, terms = call.principal.consumer, PeerTerms(body.url, body.ask, body.max_vms, body.max_hops)
    return show_peer(await call.federation.peers.keep(name, terms, body.token, by))


@router.delete(
    "/{name}",
    operation_id="removePeer",
    status_code=204,
    responses=refuses(Kind.NO_SUCH_PEER, Kind.CANNOT_REMOVE_PEER),
)
@needs(Permission.PEER_MANAGE)
async def remove_peer(request: Request, call: Authorized, name: Name) -> None:
    """Remove a peer, and revoke the tokens that were made for it.

    While leases are under way between the two, only one that has been silent for a minute can be removed:
    ours that are there have failed then, and its own that are here are ended.
    """
    await call.federation.peers.remove(name, by=call.principal.consumer)
    await asyncio.to_thread(_revoke_tokens, cast("Tokens", request.app.state.tokens), name)


def _revoke_tokens(tokens: Tokens, name: str) -> None:
    for row in tokens.list():
        if row.sites == name and Role.PEER in roles_of(row):
            tokens.revoke(row.id)


def show_peer(state: PeerState) -> Peer:
    """Show a peer as this gateway knows it."""
    row = state.row
    return Peer.of(
        row,
        borrowing=LinkStatus.of(state.borrowing, state.borrowing.traffic),
        lending=LinkStatus.of(state.lending, state.lending.traffic),
        has=None if state.status is None else _has(state.status),
    )


def _has(status: SiteStatus) -> PeerCapacity:
    return PeerCapacity(
        slots=status.slots,
        free=status.free_vms,
        widest=status.widest_vms,
        widest_free=status.widest_free_vms,
        beyond=tuple(CapacityBeyond(widest=one.slots, widest_free=one.free_vms) for one in status.beyond),
    )
