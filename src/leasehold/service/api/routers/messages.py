"""Messages: how a site that decides for itself and its gateway keep in touch."""

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field
from pydantic.types import Strict

from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.protocol.base import RequestModel, ResponseModel
from leasehold.protocol.fields import MAX_INT64, MAX_VMS, Name
from leasehold.service.api.authorizer import Authorized, GuardedRoute, needs
from leasehold.service.auth.permissions import Permission, Target, require
from leasehold.service.commands import MessageBatch
from leasehold.service.messages.routing import MOST_AT_ONCE
from leasehold.service.messages.wire import LARGEST, About

router = APIRouter(prefix="/v1/sites", tags=["messages"], route_class=GuardedRoute)

Seq = Annotated[int, Strict(), Field(ge=0, le=MAX_INT64)]
Count = Annotated[int, Strict(), Field(ge=0, le=MAX_VMS)]
Ms = Annotated[int, Strict(), Field(ge=-1, le=LARGEST)]
Flag = Annotated[bool, Strict()]


class AboutSite(RequestModel):
    """How a site is, as it says itself."""

    identity: Name = Field(description="Of the site's store: the same for as long as that lives.")
    slots: Annotated[int, Strict(), Field(ge=1, le=MAX_VMS)]
    speed_mips: Annotated[int, Strict(), Field(ge=1, le=MAX_VMS)]
    reference_mips: Annotated[int, Strict(), Field(ge=1, le=MAX_VMS)]
    driver: Name
    can_suspend: Flag
    can_migrate: Flag
    lends: Flag = Field(description="Whether it takes new guests.")
    local_vms: Count
    guest_vms: Count
    waiting_local: Count
    waiting_guests: Count
    waiting_local_vms: Count
    waiting_guest_vms: Count
    is_gateway: Flag = Field(default=False, description="A peer, which tells of its sites as of one.")
    widest_vms: Count = Field(0, description="The most that one lease can have at a peer.")
    widest_free_vms: Count = Field(0, description="The most that one lease could have there at once.")


class Report(RequestModel):
    """What has become of a lease that the gateway sent there."""

    kind: Literal["report"]
    lease: Annotated[int, Strict(), Field(ge=1, le=LARGEST)]
    state: LeaseState
    reason: Reason | Literal[""]
    planned_ms: Ms
    first_start_ms: Ms
    preemptions: Annotated[int, Strict(), Field(ge=0, le=LARGEST)]
    overhead_vm_ms: Annotated[int, Strict(), Field(ge=0, le=LARGEST)]


class ReportMessage(RequestModel):
    """One message to the gateway."""

    seq: Annotated[int, Strict(), Field(ge=1, le=MAX_INT64)]
    body: Report


class Exchange(RequestModel):
    """What a site sends: how it is, its messages, and how far it has read."""

    about: AboutSite
    messages: list[ReportMessage] = Field(default_factory=list, max_length=MOST_AT_ONCE)
    acknowledged: Seq = Field(description="The last message of the gateway's that the site has taken in.")
    wait_s: float = Field(
        0.0, strict=True, ge=0, le=30, description="How long to wait for messages where there are none."
    )


class MessageShown(ResponseModel):
    """One message to the site: an offer or a recall."""

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
    about = About.from_dict(body.about.model_dump())
    post = call.federation.post
    received = await post.take_in(MessageBatch(name, messages, body.acknowledged, about))
    waiting = await post.messages(name, body.acknowledged, body.wait_s)
    shown = [MessageShown(seq=row.seq, body=json.loads(row.body)) for row in waiting]
    return Exchanged(messages=shown, acknowledged=received)
