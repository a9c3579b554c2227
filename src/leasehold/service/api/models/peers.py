"""Peer gateways on the wire. The token that one is shown comes in, and never goes out again."""

from typing import Annotated

from pydantic import Field
from pydantic.types import Strict

from leasehold.gateway.peering import AskWhen
from leasehold.service.api.fields import MAX_VMS, Text
from leasehold.service.api.models.base import A_MOMENT, Asked, Shown, examples
from leasehold.service.api.moments import show_moment, show_planned
from leasehold.service.messages.wire import About
from leasehold.service.peers.peers import Agreement, PeerState, Way

_WAY = {
    "status": "up", "offered": 12, "taken": 10, "refused": 2, "open": 3, "open_vms": 8,
    "rate_per_hour": 1.5, "last_heard_at": A_MOMENT, "problem": "",
}  # fmt: skip
_PEER = {
    "name": "north", "url": "https://north.example.org", "ask": "none-can", "max_vms": 16,
    "added_at": A_MOMENT, "added_by": "operator", "borrowing": _WAY, "lending": _WAY,
    "has": {"slots": 64, "free": 20, "widest": 32, "widest_free": 12},
}  # fmt: skip

Most = Annotated[int, Strict(), Field(ge=0, le=MAX_VMS)]


class PeerRequest(Asked):
    """What is agreed with a peer."""

    model_config = examples({"url": "https://north.example.org", "token": "lh_3f9a6c1b2d04_…", "max_vms": 16})

    url: Text = Field("", description="Where it is called, so that it can ask us; empty: we lend it nothing.")
    token: Text | None = Field(None, description="What it gave us, role `peer`; left out: what it gave before.")
    ask: AskWhen = Field(
        AskWhen.NONE_CAN,
        description="When we ask it: where `none-can` of our sites take it, `none-can-now`, or `never`.",
    )
    max_vms: Most | None = Field(None, description="Most VMs that it may have here at a time; null: any number.")

    def agreement(self) -> Agreement:
        """What is agreed, without the token."""
        return Agreement(self.url, self.ask, self.max_vms)


class WayShown(Shown):
    """What went one way between two gateways, and whether anything can now."""

    status: str = Field(description="`up`, `closed` (takes nothing now), `silent` or `off`.")
    offered: int
    taken: int
    refused: int
    open: int
    open_vms: int
    rate_per_hour: float = Field(description="Requests offered in an hour, the last day counting most.")
    last_heard_at: str | None
    problem: str


class PeerHas(Shown):
    """What a peer lends, as it last said itself."""

    slots: int = Field(description="VMs of all its sites that lend.")
    free: int
    widest: int = Field(description="The most that one lease can have there.")
    widest_free: int = Field(description="The most that one lease could have there at once.")


class Peer(Shown):
    """One gateway that requests are exchanged with."""

    model_config = examples(_PEER)

    name: str
    url: str
    ask: str
    max_vms: int | None
    added_at: str
    added_by: str
    borrowing: WayShown = Field(description="What we ask of it.")
    lending: WayShown = Field(description="What it asks of us.")
    has: PeerHas | None = Field(description="null: it was never heard of.")


class PeerList(Shown):
    """All peers, by name."""

    peers: list[Peer]


def show_peer(state: PeerState) -> Peer:
    """Show a peer as this gateway knows it."""
    row = state.row
    return Peer(
        name=row.name,
        url=row.url,
        ask=row.ask,
        max_vms=row.max_vms,
        added_at=show_moment(row.added_ms),
        added_by=row.added_by,
        borrowing=_way(state.borrowing),
        lending=_way(state.lending),
        has=None if state.about is None else _has(state.about),
    )


def _way(way: Way) -> WayShown:
    traffic = way.traffic
    return WayShown(
        status=way.status,
        offered=traffic.offered,
        taken=traffic.taken,
        refused=traffic.refused,
        open=traffic.open,
        open_vms=traffic.open_vms,
        rate_per_hour=traffic.rate_per_hour,
        last_heard_at=show_planned(way.last_heard_ms),
        problem=way.problem,
    )


def _has(about: About) -> PeerHas:
    return PeerHas(slots=about.slots, free=about.free_vms, widest=about.widest_vms, widest_free=about.widest_free_vms)
