"""Agreements: find, propose, sign and end them; and the penalties for breaking one."""

from typing import Annotated

from fastapi import APIRouter, Body, Response
from starlette.concurrency import run_in_threadpool

from leasehold.configuration.agreements import agreement_from_dict, agreement_to_dict
from leasehold.model.errors import InvalidField
from leasehold.protocol.agreements import (
    Agreement,
    AgreementList,
    NoteSpec,
    Penalty,
    PenaltyList,
    PublicationSpec,
    Revision,
    Signature,
    SignatureSpec,
    Terms,
)
from leasehold.protocol.fields import Name, Number, moment_at
from leasehold.protocol.problems import Kind
from leasehold.service.agreements import AgreementState, Party
from leasehold.service.api.authorizer import Authorized, Call, GuardedRoute, needs
from leasehold.service.api.openapi import headers, refuses
from leasehold.service.auth.permissions import (
    FEDERATION,
    Permission,
    Scope,
    Target,
    allowed,
    reach,
    require,
)
from leasehold.service.auth.principal import Principal
from leasehold.service.engine.agreements import stands
from leasehold.service.errors import NoSuchAgreement, NoSuchPenalty
from leasehold.service.store.rows import PenaltyRow
from leasehold.sharing.parties import prefixes
from leasehold.sharing.records import AgreementSide
from leasehold.sharing.records import Revision as RevisionRecord
from leasehold.sharing.records import Signature as SignatureRecord


def speaks(principal: Principal, permission: Permission, party: Party) -> bool:
    """Whether a principal has a permission for a party: over its group or one above, or over all of its sites."""
    if party.group:
        return any(allowed(principal, permission, Target(group=group)) for group in prefixes(party.group))
    if party.sites:
        return all(allowed(principal, permission, Target.site(site)) for site in party.sites)
    return allowed(principal, permission, FEDERATION)


def require_to_speak(principal: Principal, permission: Permission, *parties: Party) -> None:
    """Raise Forbidden unless the principal may act for one of these parties."""
    if not any(speaks(principal, permission, party) for party in parties):
        require(principal, permission, FEDERATION)


def may_see(principal: Principal, state: AgreementState) -> bool:
    """Whether a principal may see an agreement: it is published, or the principal belongs to a party."""
    parties = (state.provider, state.consumer, state.sites)
    return state.record.published or any(concerns(principal, party) for party in parties)


def concerns(principal: Principal, party: Party) -> bool:
    """Whether a principal belongs to a party: through a group of it, above or below it, or through a site."""
    scope = reach(principal, Permission.AGREEMENT_SEE)
    if Scope.ALL in scope:
        return True
    if Scope.SITE in scope and not principal.sites.isdisjoint(party.sites):
        return True
    if Scope.GROUP not in scope or not party.group:
        return False
    return any(party.group in prefixes(group) or group in prefixes(party.group) for group in principal.groups)


router = APIRouter(prefix="/v1/agreements", tags=["agreements"], route_class=GuardedRoute)
penalties = APIRouter(prefix="/v1/penalties", tags=["agreements"], route_class=GuardedRoute)

MAY_NOT = refuses(Kind.NO_SUCH_AGREEMENT, Kind.AGREEMENT_MOVE)
LOCATION = headers({"Location": "Where the agreement can be seen."})

_SIGN = {
    AgreementSide.PROVIDER: Permission.AGREEMENT_SIGN_AS_PROVIDER,
    AgreementSide.CONSUMER: Permission.AGREEMENT_SIGN_AS_CONSUMER,
}


@router.get("", operation_id="listAgreements")
@needs(Permission.AGREEMENT_SEE)
async def list_agreements(call: Authorized) -> AgreementList:
    """List the published agreements, and those of the caller's groups and sites."""
    states = await call.federation.agreements.list()
    seen = tuple(show_agreement(state) for state in states if may_see(call.principal, state))
    return AgreementList(agreements=seen)


@router.get("/{name}", operation_id="showAgreement", responses=refuses(Kind.NO_SUCH_AGREEMENT))
@needs(Permission.AGREEMENT_SEE)
async def show_one_agreement(call: Authorized, name: Name) -> Agreement:
    """Show one agreement."""
    return show_agreement(await _visible(call, name))


@router.post(
    "",
    operation_id="proposeAgreement",
    status_code=201,
    responses={201: {"headers": LOCATION}, **refuses(Kind.AGREEMENT_MOVE)},
)
@needs(Permission.AGREEMENT_PROPOSE)
async def propose_agreement(call: Authorized, body: Annotated[Terms, Body()], response: Response) -> Agreement:
    """Propose an agreement, as one of its parties; it takes effect once both have signed it.

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
async def amend_agreement(call: Authorized, name: Name, body: Annotated[Terms, Body()]) -> Agreement:
    """Propose new terms; the old ones hold until both parties have signed the new ones."""
    state = await _visible(call, name)
    require_to_speak(call.principal, Permission.AGREEMENT_PROPOSE, state.provider, state.consumer)
    agreement = agreement_from_dict(body)
    if agreement.name != name:
        raise InvalidField("name", agreement.name, f"{name}, as in the path")
    return show_agreement(await call.federation.agreements.amend(agreement, call.principal.consumer))


@router.post("/{name}/sign", operation_id="signAgreement", responses=MAY_NOT)
@needs(Permission.AGREEMENT_SIGN_AS_PROVIDER, Permission.AGREEMENT_SIGN_AS_CONSUMER)
async def sign_agreement(call: Authorized, name: Name, body: SignatureSpec) -> Agreement:
    """Sign a revision for one side. It takes effect with both signatures; signing again changes nothing."""
    state = await _visible(call, name)
    require_to_speak(call.principal, _SIGN[body.side], state.side(body.side))
    by = call.principal.consumer
    return show_agreement(await call.federation.agreements.sign(name, body.side, body.revision, by))


@router.post("/{name}/publish", operation_id="publishAgreement", responses=MAY_NOT)
@needs(Permission.AGREEMENT_PROPOSE)
async def publish_agreement(call: Authorized, name: Name, body: PublicationSpec | None = None) -> Agreement:
    """Make an agreement visible to all callers, or only to its parties."""
    state = await _visible(call, name)
    require_to_speak(call.principal, Permission.AGREEMENT_PROPOSE, state.provider, state.consumer)
    published = body is None or body.published
    by = call.principal.consumer
    return show_agreement(await call.federation.agreements.publish(name, by, published=published))


@router.post("/{name}/suspend", operation_id="suspendAgreement", responses=MAY_NOT)
@needs(Permission.AGREEMENT_SIGN_AS_PROVIDER)
async def suspend_agreement(call: Authorized, name: Name, body: NoteSpec | None = None) -> Agreement:
    """Suspend an agreement, as its provider; running leases stay."""
    state = await _visible(call, name)
    require_to_speak(call.principal, Permission.AGREEMENT_SIGN_AS_PROVIDER, state.provider)
    return show_agreement(await call.federation.agreements.suspend(name, call.principal.consumer, _note(body)))


@router.post("/{name}/resume", operation_id="resumeAgreement", responses=MAY_NOT)
@needs(Permission.AGREEMENT_SIGN_AS_PROVIDER)
async def resume_agreement(call: Authorized, name: Name) -> Agreement:
    """Resume a suspended agreement; one that is in force stays unchanged."""
    state = await _visible(call, name)
    require_to_speak(call.principal, Permission.AGREEMENT_SIGN_AS_PROVIDER, state.provider)
    return show_agreement(await call.federation.agreements.resume(name, call.principal.consumer))


@router.post("/{name}/revoke", operation_id="revokeAgreement", responses=MAY_NOT)
@needs(Permission.AGREEMENT_REVOKE)
async def revoke_agreement(call: Authorized, name: Name, body: NoteSpec | None = None) -> Agreement:
    """Revoke an agreement, as either party, and everything delegated from it.

    Running leases stay until their own end; waiting ones are checked again.
    """
    state = await _visible(call, name)
    require_to_speak(call.principal, Permission.AGREEMENT_REVOKE, state.provider, state.consumer)
    return show_agreement(await call.federation.agreements.revoke(name, call.principal.consumer, _note(body)))


async def _visible(call: Call, name: str) -> AgreementState:
    """Return an agreement that the caller may see. Raises NoSuchAgreement for any other."""
    state = await call.federation.agreements.get(name)
    if not may_see(call.principal, state):
        raise NoSuchAgreement(name)
    return state


def _note(body: NoteSpec | None) -> str:
    return "" if body is None else body.note


@penalties.get("", operation_id="listPenalties")
@needs(Permission.AGREEMENT_SEE)
async def list_penalties(call: Authorized) -> PenaltyList:
    """List the penalties that concern the caller's groups and sites, newest first."""
    now_ms = call.federation.clock()
    return PenaltyList(penalties=tuple(show_penalty(row, now_ms) for row, _ in await _visible_penalties(call)))


@penalties.post("/{penalty_id}/lift", operation_id="liftPenalty", responses=refuses(Kind.NO_SUCH_PENALTY))
@needs(Permission.PENALTY_LIFT)
async def lift_penalty(call: Authorized, penalty_id: Number) -> Penalty:
    """Lift a penalty, as the provider that imposed it; one that has ended stays unchanged."""
    found = [provider for row, provider in await _visible_penalties(call) if row.id == penalty_id]
    if not found:
        raise NoSuchPenalty(penalty_id)
    require_to_speak(call.principal, Permission.PENALTY_LIFT, found[0])
    row = await call.federation.agreements.lift(penalty_id, call.principal.consumer)
    return show_penalty(row, call.federation.clock())


async def _visible_penalties(call: Call) -> list[tuple[PenaltyRow, Party]]:
    """The penalties that the caller may see, each with the provider that imposed it."""
    rows = await run_in_threadpool(call.federation.store.penalties)
    parties = await call.federation.agreements.sides_of(rows)
    return [
        (row, provider)
        for row, (provider, consumer) in zip(reversed(rows), reversed(parties), strict=True)
        if concerns(call.principal, provider) or concerns(call.principal, consumer)
    ]


def show_agreement(state: AgreementState) -> Agreement:
    """Show an agreement as it is now."""
    record = state.record
    return Agreement.of(
        record,
        in_force=state.in_force,
        current=_revision(record.current),
        amendment=None if record.amendment is None else _revision(record.amendment),
        since=moment_at(record.since.at_ms),
        since_by=record.since.by,
    )


def _revision(revision: RevisionRecord) -> Revision:
    return Revision(
        revision=revision.number,
        terms=agreement_to_dict(revision.agreement),
        drawn_up=_signature(revision.drawn_up),
        provider=None if revision.provider is None else _signature(revision.provider),
        consumer=None if revision.consumer is None else _signature(revision.consumer),
    )


def _signature(signature: SignatureRecord) -> Signature:
    return Signature.of(signature)


def show_penalty(row: PenaltyRow, now_ms: int) -> Penalty:
    """Show a penalty as it is now."""
    return Penalty.of(row, row.penalty, stands=stands(row, now_ms), lease=row.lease_id)
