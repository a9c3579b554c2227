"""Messages: how a site that decides for itself and its gateway keep in touch."""

import json
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Discriminator, Field, Tag
from pydantic.types import Strict

from leasehold.protocol.base import RequestModel, ResponseModel
from leasehold.protocol.fields import MAX_INT64, Name
from leasehold.protocol.wrong_fields import WRONG_KIND
from leasehold.service.api.authorizer import Authorized, GuardedRoute, needs
from leasehold.service.auth.permissions import Permission, Target, require
from leasehold.service.commands import MessageBatch
from leasehold.service.messages.about_jobs import (
    BuildableTold,
    BuildTold,
    FilesSent,
    ImagesTold,
    NodesOffered,
    NodesTold,
    OutputTold,
)
from leasehold.service.messages.about_plans import Planned
from leasehold.service.messages.routing import MOST_AT_ONCE
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.messages.wire import Extended, Report

router = APIRouter(prefix="/v1/sites", tags=["messages"], route_class=GuardedRoute)

Seq = Annotated[int, Strict(), Field(ge=0, le=MAX_INT64)]


def _kind_in_brackets(body: object) -> str | None:
    """Give the tag of a body's model: that it is in brackets keeps it out of the names of fields."""
    kind = body.get("kind") if isinstance(body, dict) else getattr(body, "kind", None)
    return f"[{kind}]" if kind in _KINDS else None


_KINDS = ("report", "extended", "nodes", "offered", "images", "buildable", "built", "output", "sent", "planned")

ToGateway = Annotated[
    Annotated[Report, Tag("[report]")]
    | Annotated[Extended, Tag("[extended]")]
    | Annotated[NodesTold, Tag("[nodes]")]
    | Annotated[NodesOffered, Tag("[offered]")]
    | Annotated[ImagesTold, Tag("[images]")]
    | Annotated[BuildableTold, Tag("[buildable]")]
    | Annotated[BuildTold, Tag("[built]")]
    | Annotated[OutputTold, Tag("[output]")]
    | Annotated[FilesSent, Tag("[sent]")]
    | Annotated[Planned, Tag("[planned]")],
    Discriminator(
        _kind_in_brackets,
        custom_error_type=WRONG_KIND,
        custom_error_message=f"Input should be one of {', '.join(_KINDS)}",
    ),
]
"""What a site may say."""


class ReportMessage(RequestModel):
    """One message to the gateway."""

    seq: Annotated[int, Strict(), Field(ge=1, le=MAX_INT64)]
    body: ToGateway


class Exchange(RequestModel):
    """What a site sends: how it is, its messages, and how far it has read."""

    status: SiteStatus
    messages: list[ReportMessage] = Field(default_factory=list, max_length=MOST_AT_ONCE)
    acknowledged: Seq = Field(description="The last message of the gateway that the site has applied.")
    wait_s: float = Field(
        0.0, strict=True, ge=0, le=30, description="How long to wait for messages where there are none."
    )


class MessageShown(ResponseModel):
    """One message to the site, as an offer or a recall."""

    seq: int
    body: dict[str, Any]


class Exchanged(ResponseModel):
    """What the gateway answers: its messages, and how far it has read."""

    messages: list[MessageShown]
    acknowledged: int


@router.post("/{name}/messages", operation_id="exchangeMessages")
@needs(Permission.MESSAGES_EXCHANGE)
async def exchange_messages(call: Authorized, name: Name, body: Exchange) -> Exchanged:
    """Take in what a site reports, and give it what it is offered; messages come again until acknowledged."""
    require(call.principal, Permission.MESSAGES_EXCHANGE, Target.site(name))
    messages = tuple((message.seq, message.body.model_dump_json()) for message in body.messages)
    body.status.check()
    exchange = call.federation.messages
    received = await exchange.receive(MessageBatch(name, messages, body.acknowledged, body.status))
    waiting = await exchange.messages(name, body.acknowledged, body.wait_s)
    shown = [MessageShown(seq=row.seq, body=json.loads(row.body)) for row in waiting]
    return Exchanged(messages=shown, acknowledged=received)
