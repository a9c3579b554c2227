"""Peer gateways. A peer's token is write-only: no response contains it."""

from typing import Annotated

from pydantic import Field
from pydantic.types import Strict

from leasehold.gateway.peering import MOST_HOPS, AskWhen
from leasehold.protocol.base import A_MOMENT, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import MAX_VMS, Moment, OrEmpty, OrNone, OrZero, Text

_LINK = {
    "status": "up", "offered": 12, "taken": 10, "refused": 2, "open": 3, "open_vms": 8,
    "rate_per_hour": 1.5, "last_heard_at": A_MOMENT, "problem": "",
}  # fmt: skip
_PEER = {
    "name": "north", "url": "https://north.example.org", "ask": "none-can", "max_vms": 16, "max_hops": 2,
    "added_at": A_MOMENT, "added_by": "operator", "borrowing": _LINK, "lending": _LINK,
    "has": {"slots": 64, "free": 20, "widest": 32, "widest_free": 12, "beyond": [{"widest": 48, "widest_free": 40}]},
}  # fmt: skip

Hops = Annotated[int, Strict(), Field(ge=1, le=MOST_HOPS)]
Most = Annotated[int, Strict(), Field(ge=0, le=MAX_VMS)]


class PeerSpec(RequestModel):
    """The configuration of a peer."""

    model_config = examples({"url": "https://north.example.org", "token": "lh_3f9a6c1b2d04_…", "max_vms": 16})

    url: Text = Field(default="", description="Its URL, needed for lending to it; empty: nothing is lent to it.")
    token: Text | None = Field(default=None, description="The token it issued to us, role `peer`; left out: unchanged.")
    ask: AskWhen = Field(
        default=AskWhen.NONE_CAN,
        description="When to borrow: if `none-can` of our sites take a request, `none-can-now`, or `never`.",
    )
    max_vms: Most | None = Field(default=None, description="Maximum VMs it may hold here at a time; null: no limit.")
    max_hops: Hops = Field(
        default=1,
        description="Maximum hops, in all, of a request that is exchanged with it; 1: none is passed on.",
    )


class CapacityBeyond(ResponseModel):
    """What can be had through a peer, so many hops beyond it."""

    widest: int = Field(description="The most VMs one lease can have there.")
    widest_free: int = Field(description="The most VMs one lease could get there immediately.")


class LinkStatus(ResponseModel):
    """Traffic in one direction between two gateways, and the state of that link."""

    status: str = Field(description="`up`, `closed` (accepts nothing now), `silent` or `off`.")
    offered: OrZero
    taken: OrZero
    refused: OrZero
    open: OrZero
    open_vms: OrZero
    rate_per_hour: Annotated[float, Field(default=0.0)] = Field(
        description="Requests offered per hour, weighted towards the last day."
    )
    last_heard_at: OrNone[Moment]
    problem: OrEmpty


class PeerCapacity(ResponseModel):
    """The capacity a peer lends, by its last report."""

    slots: int = Field(description="VMs of all its lending sites.")
    free: int
    widest: int = Field(description="The most VMs one lease can have there.")
    widest_free: int = Field(description="The most VMs one lease could get there immediately.")
    beyond: tuple[CapacityBeyond, ...] = Field(description="The same at its own peers, at theirs, and so on.")


class Peer(ResponseModel):
    """One gateway with which requests are exchanged."""

    model_config = examples(_PEER)

    name: str
    url: str
    ask: str
    max_vms: int | None
    max_hops: int
    added_at: Moment
    added_by: OrEmpty
    borrowing: LinkStatus = Field(description="Requests we send to it.")
    lending: LinkStatus = Field(description="Requests it sends to us.")
    has: OrNone[PeerCapacity] = Field(description="null: it has not reported yet.")


class PeerList(ResponseModel):
    """All peers, by name."""

    peers: tuple[Peer, ...]
