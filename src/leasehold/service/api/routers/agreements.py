"""Agreements: discover them, draw one up, sign it, and let it end."""

from typing import Annotated

from fastapi import APIRouter, Body, Response

from leasehold.configuration.agreements import agreement_from_dict
from leasehold.model.errors import InvalidField
from leasehold.service.agreements import AgreementState
from leasehold.service.api.door import Admitted, Call, GuardedRoute, needs
from leasehold.service.api.fields import Name
from leasehold.service.api.models.agreements import (
    Agreement,
    AgreementList,
    NoteRequest,
    PublishRequest,
    SignRequest,
    Terms,
    show_agreement,
)
from leasehold.service.api.openapi import headers, refuses
from leasehold.service.api.parties import may_see, require_to_speak
from leasehold.service.api.problems import Kind
from leasehold.service.auth.permissions import Permission
from leasehold.service.errors import NoSuchAgreement
from leasehold.sharing.records import AgreementSide

router = APIRouter(prefix="/v1/agreements", tags=["agreements"], route_class=GuardedRoute)

MAY_NOT = refuses(Kind.NO_SUCH_AGREEMENT, Kind.AGREEMENT_MOVE)
LOCATION = headers({"Location": "Where the agreement can be seen."})

_SIGN = {
    AgreementSide.PROVIDER: Permission.AGREEMENT_SIGN_AS_PROVIDER,
    AgreementSide.CONSUMER: Permission.AGREEMENT_SIGN_AS_CONSUMER,
}


@router.get("", operation_id="listAgreements")
@needs(Permission.AGREEMENT_SEE)
async def list_agreements(call: Admitted) -> AgreementList:
    """List the agreements that are published, and those of one's own groups and sites."""
    states = await call.federation.agreements.list()
    seen = [show_agreement(state) for state in states if may_see(call.principal, state)]
    return AgreementList(agreements=seen)


@router.get("/{name}", operation_id="showAgreement", responses=refuses(Kind.NO_SUCH_AGREEMENT))
@needs(Permission.AGREEMENT_SEE)
async def show_one_agreement(call: Admitted, name: Name) -> Agreement:
    """Show one agreement."""
    return show_agreement(await _visible(call, name))


@router.post(
    "",
    operation_id="proposeAgreement",
    status_code=201,
    responses={201: {"headers": LOCATION}, **refuses(Kind.AGREEMENT_MOVE)},
)
@needs(Permission.AGREEMENT_PROPOSE)
async def propose_agreement(call: Admitted, body: Annotated[Terms, Body()], response: Response) -> Agreement:
    """Draw up an agreement for one of its parties; it holds once both have signed it.

    One with a `parent` passes a part of that one on. The same again, by the same caller, changes nothing.
    """
    agreement = agreement_from_dict(body)
    parties = await call.federation.agreements.parties(agreement)
    require_to_speak(call.principal, Permission.AGREEMENT_PROPOSE, *parties)
    state = await call.federation.agreements.propose(agreement, call.principal.consumer)
    response.headers["Location"] = f"{router.prefix}/{agreement.name}"
    return show_agreement(state)


@router.put("/{name}", operation_id="amendAgreement", responses=MAY_NOT)
@needs(Permission.AGREEMENT_PROPOSE)
async def amend_agreement(call: Admitted, name: Name, body: Annotated[Terms, Body()]) -> Agreement:
    """Draw up other terms; the old ones hold until both parties have signed these."""
    state = await _visible(call, name)
    require_to_speak(call.principal, Permission.AGREEMENT_PROPOSE, state.provider, state.consumer)
    agreement = agreement_from_dict(body)
    if agreement.name != name:
        raise InvalidField("name", agreement.name, f"{name}, as in the path")
    return show_agreement(await call.federation.agreements.amend(agreement, call.principal.consumer))


@router.post("/{name}/sign", operation_id="signAgreement", responses=MAY_NOT)
@needs(Permission.AGREEMENT_SIGN_AS_PROVIDER, Permission.AGREEMENT_SIGN_AS_CONSUMER)
async def sign_agreement(call: Admitted, name: Name, body: SignRequest) -> Agreement:
    """Sign a revision for one side. With both signatures it holds; who signs again changes nothing."""
    state = await _visible(call, name)
    require_to_speak(call.principal, _SIGN[body.side], state.side(body.side))
    by = call.principal.consumer
    return show_agreement(await call.federation.agreements.sign(name, body.side, body.revision, by))


@router.post("/{name}/publish", operation_id="publishAgreement", responses=MAY_NOT)
@needs(Permission.AGREEMENT_PROPOSE)
async def publish_agreement(call: Admitted, name: Name, body: PublishRequest | None = None) -> Agreement:
    """Let everybody see an agreement, or only its parties."""
    state = await _visible(call, name)
    require_to_speak(call.principal, Permission.AGREEMENT_PROPOSE, state.provider, state.consumer)
    published = body is None or body.published
    by = call.principal.consumer
    return show_agreement(await call.federation.agreements.publish(name, by, published=published))


@router.post("/{name}/suspend", operation_id="suspendAgreement", responses=MAY_NOT)
@needs(Permission.AGREEMENT_SIGN_AS_PROVIDER)
async def suspend_agreement(call: Admitted, name: Name, body: NoteRequest | None = None) -> Agreement:
    """Put an agreement out of force for a while, for its provider; leases that run stay."""
    state = await _visible(call, name)
    require_to_speak(call.principal, Permission.AGREEMENT_SIGN_AS_PROVIDER, state.provider)
    return show_agreement(await call.federation.agreements.suspend(name, call.principal.consumer, _note(body)))


@router.post("/{name}/resume", operation_id="resumeAgreement", responses=MAY_NOT)
@needs(Permission.AGREEMENT_SIGN_AS_PROVIDER)
async def resume_agreement(call: Admitted, name: Name) -> Agreement:
    """Put a suspended agreement in force again; for one that is in force nothing changes."""
    state = await _visible(call, name)
    require_to_speak(call.principal, Permission.AGREEMENT_SIGN_AS_PROVIDER, state.provider)
    return show_agreement(await call.federation.agreements.resume(name, call.principal.consumer))


@router.post("/{name}/revoke", operation_id="revokeAgreement", responses=MAY_NOT)
@needs(Permission.AGREEMENT_REVOKE)
async def revoke_agreement(call: Admitted, name: Name, body: NoteRequest | None = None) -> Agreement:
    """End an agreement, for either of its parties, and all that was passed on of it.

    Leases that run stay until their own end; those that wait are asked about again.
    """
    state = await _visible(call, name)
    require_to_speak(call.principal, Permission.AGREEMENT_REVOKE, state.provider, state.consumer)
    return show_agreement(await call.federation.agreements.revoke(name, call.principal.consumer, _note(body)))


async def _visible(call: Call, name: str) -> AgreementState:
    """An agreement that the caller may see; any other is not there. Raises NoSuchAgreement."""
    state = await call.federation.agreements.get(name)
    if not may_see(call.principal, state):
        raise NoSuchAgreement(name)
    return state


def _note(body: NoteRequest | None) -> str:
    return "" if body is None else body.note
