"""Peer gateways. The token that one is shown comes in, and never goes out again."""

from typing import Annotated

from pydantic import Field
from pydantic.types import Strict

from leasehold.gateway.peering import AskWhen
from leasehold.protocol.base import A_MOMENT, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import MAX_VMS, Moment, OrEmpty, OrNone, OrZero, Text

_LINK = {
    "status": "up", "offered": 12, "taken": 10, "refused": 2, "open": 3, "open_vms": 8,
    "rate_per_hour": 1.5, "last_heard_at": A_MOMENT, "problem": "",
}  # fmt: skip
_PEER = {
    "name": "north", "url": "https://north.example.org", "ask": "none-can", "max_vms": 16,
    "added_at": A_MOMENT, "added_by": "operator", "borrowing": _LINK, "lending": _LINK,
    "has": {"slots": 64, "free": 20, "widest": 32, "widest_free": 12},
}  # fmt: skip

Most = Annotated[int, Strict(), Field(ge=0, le=MAX_VMS)]


class PeerSpec(RequestModel):
    """What is agreed with a peer."""

    model_config = examples({"url": "https://north.example.org", "token": "lh_3f9a6c1b2d04_…", "max_vms": 16})

    url: Text = Field(default="", description="Where it is called, so that it can ask us; empty: we lend it nothing.")
    token: Text | None = Field(default=None, description="What it gave us, role `peer`; left out: what it gave before.")
    ask: AskWhen = Field(
        default=AskWhen.NONE_CAN,
        description="When we ask it: where `none-can` of our sites take it, `none-can-now`, or `never`.",
    )
    max_vms: Most | None = Field(
        default=None, description="Most VMs that it may have here at a time; null: any number."
    )


class LinkStatus(ResponseModel):
    """What went one way between two gateways, and whether anything can now."""

    status: str = Field(description="`up`, `closed` (takes nothing now), `silent` or `off`.")
    offered: OrZero
    taken: OrZero
    refused: OrZero
    open: OrZero
    open_vms: OrZero
    rate_per_hour: Annotated[float, Field(default=0.0)] = Field(
        description="Requests offered in an hour, the last day counting most."
    )
    last_heard_at: OrNone[Moment]
    problem: OrEmpty


class PeerCapacity(ResponseModel):
    """What a peer lends, as it last said itself."""

    slots: int = Field(description="VMs of all its sites that lend.")
    free: int
    widest: int = Field(description="The most that one lease can have there.")
    widest_free: int = Field(description="The most that one lease could have there at once.")


class Peer(ResponseModel):
    """One gateway that requests are exchanged with."""

    model_config = examples(_PEER)

    name: str
    url: str
    ask: str
    max_vms: int | None
    added_at: Moment
    added_by: OrEmpty
    borrowing: LinkStatus = Field(description="What we ask of it.")
    lending: LinkStatus = Field(description="What it asks of us.")
    has: OrNone[PeerCapacity] = Field(description="null: it was never heard of.")


class PeerList(ResponseModel):
    """All peers, by name."""

    peers: tuple[Peer, ...]
