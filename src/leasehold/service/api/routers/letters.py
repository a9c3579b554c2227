"""Letters: how a site that decides for itself and its gateway keep in touch."""

import json

from fastapi import APIRouter

from leasehold.service.api.door import Admitted, GuardedRoute, needs
from leasehold.service.api.fields import Name
from leasehold.service.api.models.letters import Exchange, Exchanged, LetterShown
from leasehold.service.auth.permissions import Permission, Target, require
from leasehold.service.commands import Mail
from leasehold.service.letters.wire import About

router = APIRouter(prefix="/v1/sites", tags=["letters"], route_class=GuardedRoute)


@router.post("/{name}/letters", operation_id="exchangeLetters")
@needs(Permission.LETTERS_EXCHANGE)
async def exchange_letters(call: Admitted, name: Name, body: Exchange) -> Exchanged:
    """Take in what a site reports, and give it what it is offered; letters come again until acknowledged."""
    require(call.principal, Permission.LETTERS_EXCHANGE, Target.site(name))
    letters = tuple((letter.seq, letter.body.model_dump_json()) for letter in body.letters)
    about = About.from_dict(body.about.model_dump())
    post = call.federation.post
    received = await post.take_in(Mail(name, letters, body.acknowledged, about))
    waiting = await post.letters(name, body.acknowledged, body.wait_s)
    shown = [LetterShown(seq=row.seq, body=json.loads(row.body)) for row in waiting]
    return Exchanged(letters=shown, acknowledged=received)
