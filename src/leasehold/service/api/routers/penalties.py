"""Penalties: see who is punished, and let a punishment end before its time."""

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from leasehold.service.agreements import Party
from leasehold.service.api.door import Admitted, Call, GuardedRoute, needs
from leasehold.service.api.fields import Number
from leasehold.service.api.models.agreements import Penalty, PenaltyList, show_penalty
from leasehold.service.api.openapi import refuses
from leasehold.service.api.parties import concerns, require_to_speak
from leasehold.service.api.problems import Kind
from leasehold.service.auth.permissions import Permission
from leasehold.service.errors import NoSuchPenalty
from leasehold.service.store.rows import PenaltyRow

router = APIRouter(prefix="/v1/penalties", tags=["agreements"], route_class=GuardedRoute)


@router.get("", operation_id="listPenalties")
@needs(Permission.AGREEMENT_SEE)
async def list_penalties(call: Admitted) -> PenaltyList:
    """List the punishments that concern the caller's groups and sites, the last one first."""
    now_ms = call.federation.clock()
    return PenaltyList(penalties=[show_penalty(row, now_ms) for row, _ in await _visible(call)])


@router.post("/{penalty_id}/lift", operation_id="liftPenalty", responses=refuses(Kind.NO_SUCH_PENALTY))
@needs(Permission.PENALTY_LIFT)
async def lift_penalty(call: Admitted, penalty_id: Number) -> Penalty:
    """Let a punishment end now, for who imposed it; one that has ended stays as it is."""
    found = [provider for row, provider in await _visible(call) if row.id == penalty_id]
    if not found:
        raise NoSuchPenalty(penalty_id)
    require_to_speak(call.principal, Permission.PENALTY_LIFT, found[0])
    row = await call.federation.agreements.lift(penalty_id, call.principal.consumer)
    return show_penalty(row, call.federation.clock())


async def _visible(call: Call) -> list[tuple[PenaltyRow, Party]]:
    """The punishments that the caller may know of, each with who imposed it."""
    rows = await run_in_threadpool(call.federation.store.penalties)
    parties = await call.federation.agreements.sides_of(rows)
    return [
        (row, provider)
        for row, (provider, consumer) in zip(reversed(rows), reversed(parties), strict=True)
        if concerns(call.principal, provider) or concerns(call.principal, consumer)
    ]
