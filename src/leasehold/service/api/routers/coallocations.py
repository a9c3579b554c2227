"""Co-allocations: submit components that run together; plan, list and cancel them."""

from typing import Annotated, cast

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from leasehold.model.coallocation import Claim, CoAllocationRequest, Component
from leasehold.model.errors import InvalidField
from leasehold.model.reason import sentence
from leasehold.protocol.coallocations import (
    CoAllocation,
    CoAllocationComponent,
    CoAllocationPage,
    CoAllocationQuery,
    CoAllocationSpec,
    ComponentSpec,
    InputFile,
)
from leasehold.protocol.fields import Number, moment_at, planned, read_duration, unix_ms
from leasehold.protocol.plans import CoAllocationPlan
from leasehold.protocol.problems import Kind
from leasehold.service.api.authorizer import PLANNING, Authorized, Call, GuardedRoute, needs
from leasehold.service.api.openapi import headers, refuses
from leasehold.service.api.paging import cursor_at, cut_page, place_of
from leasehold.service.api.routers.leases import IdempotencyKey, request_hash
from leasehold.service.api.views import show_coallocation_plan
from leasehold.service.auth.permissions import Permission, Target, allowed, require, require_submission, visible
from leasehold.service.auth.principal import Principal
from leasehold.service.commands import CancelCoAllocation, SubmitCoAllocation
from leasehold.service.errors import NoSuchCoAllocation
from leasehold.service.store.filters import LeaseFilter
from leasehold.service.store.rows import CoAllocationRow

router = APIRouter(prefix="/v1/coallocations", tags=["leases"], route_class=GuardedRoute)

LOCATION = headers({"Location": "Where the co-allocation can be seen."})


@router.post(
    "",
    operation_id="submitCoAllocation",
    status_code=201,
    response_description="The co-allocation. One that can never be served is `refused`, with its reason.",
    responses={
        201: {"headers": LOCATION},
        200: {
            "model": CoAllocation,
            "description": "The co-allocation created with this key.",
            "headers": LOCATION,
        },
        **refuses(Kind.IDEMPOTENCY_CONFLICT, Kind.TOO_MANY_OPEN),
    },
)
@needs(Permission.LEASE_SUBMIT)
async def submit_coallocation(
    call: Authorized, body: CoAllocationSpec, response: Response, idempotency_key: IdempotencyKey = ""
) -> CoAllocation:
    """Request machines at several sites, all or nothing.

    Each component becomes a Non-preemptable lease of its own, which has the number of this one as `coallocation`.
    The response comes once all of it is stored durably.
    """
    call.charge(len(body.components) - 1)
    command = _submission(body, call.principal, idempotency_key)
    row, new = cast("tuple[CoAllocationRow, bool]", await call.federation.do(command))
    response.headers["Location"] = f"{router.prefix}/{row.coallocation.id}"
    response.status_code = 201 if new else 200
    return show_coallocation(row)


@router.post("/plan", operation_id="planCoAllocation", responses=refuses(Kind.TOO_MANY_OPEN))
@needs(Permission.LEASE_SUBMIT, cost=PLANNING)
async def plan_coallocation(call: Authorized, body: CoAllocationSpec) -> CoAllocationPlan:
    """Say what would happen to a co-allocation submitted now; nothing changes.

    For each component: the sites that there are (`virtual`), and those that are open to it (`extended`).
    """
    call.charge(len(body.components) - 1)
    command = _submission(body, call.principal, "")
    return show_coallocation_plan(await call.federation.plan_coallocation(command))


@router.get("", operation_id="listCoAllocations")
@needs(Permission.LEASE_SEE)
async def list_coallocations(
    call: Authorized, query: Annotated[CoAllocationQuery, Query()], request: Request, response: Response
) -> CoAllocationPage:
    """List the co-allocations of which at least one component may be seen, newest first."""
    which = LeaseFilter(visible=visible(call.principal, Permission.LEASE_SEE))
    before_id = place_of(query.cursor)
    rows = await run_in_threadpool(call.federation.store.coallocations, which, query.limit + 1, before_id=before_id)
    page, cursor = cut_page(rows, query.limit, lambda row: cursor_at(row.coallocation.id), request, response)
    return CoAllocationPage(coallocations=tuple(show_coallocation(row) for row in page), next=cursor)


@router.get("/{coallocation_id:number}", operation_id="showCoAllocation", responses=refuses(Kind.NO_SUCH_COALLOCATION))
@needs(Permission.LEASE_SEE)
async def get_coallocation(call: Authorized, coallocation_id: Number) -> CoAllocation:
    """Show one co-allocation."""
    return show_coallocation(await run_in_threadpool(_visible_coallocation, call, coallocation_id))


@router.delete(
    "/{coallocation_id:number}", operation_id="cancelCoAllocation", responses=refuses(Kind.NO_SUCH_COALLOCATION)
)
@needs(Permission.LEASE_CANCEL)
async def cancel_coallocation(call: Authorized, coallocation_id: Number) -> CoAllocation:
    """Cancel a co-allocation with all of its components. One that is over stays unchanged."""
    await run_in_threadpool(_check_cancel, call, coallocation_id)
    return show_coallocation(cast("CoAllocationRow", await call.federation.do(CancelCoAllocation(coallocation_id))))


def _check_cancel(call: Call, coallocation_id: int) -> None:
    """Check that the caller may cancel every component. Raises NoSuchCoAllocation or Forbidden."""
    _visible_coallocation(call, coallocation_id)
    for row in call.federation.store.components(coallocation_id):
        require(call.principal, Permission.LEASE_CANCEL, Target.lease(row))


def _visible_coallocation(call: Call, coallocation_id: int) -> CoAllocationRow:
    """Return a co-allocation of which the caller may see a component. Raises NoSuchCoAllocation for any other."""
    row = call.federation.store.coallocation(coallocation_id)
    components = () if row is None else call.federation.store.components(coallocation_id)
    if row is None or not any(allowed(call.principal, Permission.LEASE_SEE, Target.lease(one)) for one in components):
        raise NoSuchCoAllocation(coallocation_id)
    return row


def _submission(body: CoAllocationSpec, principal: Principal, key: str) -> SubmitCoAllocation:
    """Make the command for a co-allocation that this caller may submit; raises InvalidField and Forbidden.

    What depends on the time and on the sites is left to the federation.
    """
    group = next(iter(principal.groups), "") if body.group is None else body.group
    require_submission(principal, home=None, group=group)
    request = CoAllocationRequest(
        id=0,
        components=tuple(_component(one, body) for one in body.components),
        submit_ms=0,  # the engine says when
        ready_ms=0 if body.ready is None else unix_ms(body.ready),
        first_lease_id=0,
        consumer=principal.consumer,
        group=group,
        claim=Claim(body.claim),
        place=body.place,
        deadline_ms=None if body.deadline is None else unix_ms(body.deadline),
        tries=body.tries,
        retries=body.retries,
        margin_ms=read_duration(body.margin_s),
        is_foreign=principal.is_foreign,
    )
    hashed = request_hash(body, "coallocation ") if key else ""
    return SubmitCoAllocation(request, body.name, tuple(body.command), key=key, request_hash=hashed)


def _component(one: ComponentSpec, body: CoAllocationSpec) -> Component:
    duration_s = one.duration_s or body.duration_s
    if duration_s is None:
        raise InvalidField("duration_s", None, "a duration, of the component or of the co-allocation")
    files = tuple((file.site, file.mib) for file in one.files)
    return Component(one.vms, read_duration(duration_s), one.site or "", files, one.memory_mib, one.image)


def show_coallocation(row: CoAllocationRow) -> CoAllocation:
    """Show a co-allocation as it is in the store."""
    coallocation, request = row.coallocation, row.coallocation.request
    return CoAllocation.of(
        coallocation,
        request,
        row,
        explanation=sentence(coallocation.reason),
        submitted_at=moment_at(request.submit_ms),
        starts_at=planned(coallocation.start_ms),
        ended_at=planned(coallocation.end_ms),
        components=tuple(
            CoAllocationComponent.of(
                part,
                component,
                lease=part.lease_id,
                wanted_site=component.site,
                files=tuple(InputFile(site=site, mib=mib) for site, mib in component.files),
            )
            for component, part in zip(request.components, coallocation.parts, strict=True)
        ),
    )
