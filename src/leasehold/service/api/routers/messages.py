"""Messages: how a site that decides for itself and its gateway keep in touch."""

import json

from fastapi import APIRouter

from leasehold.service.api.door import Admitted, GuardedRoute, needs
from leasehold.service.api.fields import Name
from leasehold.service.api.models.messages import Exchange, Exchanged, MessageShown
from leasehold.service.auth.permissions import Permission, Target, require
from leasehold.service.commands import Mail
from leasehold.service.messages.wire import About

router = APIRouter(prefix="/v1/sites", tags=["messages"], route_class=GuardedRoute)


@router.post("/{name}/messages", operation_id="exchangeMessages")
@needs(Permission.MESSAGES_EXCHANGE)
async def exchange_messages(call: Admitted, name: Name, body: Exchange) -> Exchanged:
    """Take in what a site reports, and give it what it is offered; messages come again until acknowledged."""
    require(call.principal, Permission.MESSAGES_EXCHANGE, Target.site(name))
    messages = tuple((message.seq, message.body.model_dump_json()) for message in body.messages)
    about = About.from_dict(body.about.model_dump())
    post = call.federation.post
    received = await post.take_in(Mail(name, messages, body.acknowledged, about))
    waiting = await post.messages(name, body.acknowledged, body.wait_s)
    shown = [MessageShown(seq=row.seq, body=json.loads(row.body)) for row in waiting]
    return Exchanged(messages=shown, acknowledged=received)
