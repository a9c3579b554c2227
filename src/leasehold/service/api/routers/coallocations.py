"""Co-allocations: ask for components that run together, look at them, take one back."""

from typing import Annotated, cast

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from leasehold.service.api.coallocation_submission import coallocation_submission
from leasehold.service.api.door import EXPLAINING, Admitted, Call, GuardedRoute, needs
from leasehold.service.api.fields import Number
from leasehold.service.api.models.coallocations import (
    CoAllocation,
    CoAllocationPage,
    CoAllocationQuery,
    CoAllocationSpec,
    show_coallocation,
)
from leasehold.service.api.models.explanations import CoAllocationExplanation, show_coallocation_explanation
from leasehold.service.api.openapi import headers, refuses
from leasehold.service.api.paging import cursor_at, link_next, place_of
from leasehold.service.api.problems import Kind
from leasehold.service.api.routers.leases import IdempotencyKey
from leasehold.service.auth.permissions import Permission, Target, allowed, require, visible
from leasehold.service.commands import CancelCoAllocation
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
        200: {"model": CoAllocation, "description": "What came of it before.", "headers": LOCATION},
        **refuses(Kind.IDEMPOTENCY_CONFLICT, Kind.TOO_MANY_OPEN),
    },
)
@needs(Permission.LEASE_SUBMIT)
async def submit_coallocation(
    call: Admitted, body: CoAllocationSpec, response: Response, idempotency_key: IdempotencyKey = ""
) -> CoAllocation:
    """Ask for machines at several sites, all or nothing.

    Each component becomes a Non-preemptable lease of its own, which has the number of this one as `coallocation`.
    The answer comes once all of it is kept durably.
    """
    call.charge(len(body.components) - 1)
    command = coallocation_submission(body, call.principal, idempotency_key)
    row, new = cast("tuple[CoAllocationRow, bool]", await call.federation.do(command))
    response.headers["Location"] = f"{router.prefix}/{row.coallocation.id}"
    response.status_code = 201 if new else 200
    return show_coallocation(row)


@router.post("/explain", operation_id="explainCoAllocation", responses=refuses(Kind.TOO_MANY_OPEN))
@needs(Permission.LEASE_SUBMIT, cost=EXPLAINING)
async def explain_coallocation(call: Admitted, body: CoAllocationSpec) -> CoAllocationExplanation:
    """Say what would become of a co-allocation if it were asked for now; nothing is changed.

    For each component: the sites that there are (`virtual`), and those that are open to it (`extended`).
    """
    call.charge(len(body.components) - 1)
    command = coallocation_submission(body, call.principal, "")
    return show_coallocation_explanation(await call.federation.explain_coallocation(command))


@router.get("", operation_id="listCoAllocations")
@needs(Permission.LEASE_SEE)
def list_coallocations(
    call: Admitted, query: Annotated[CoAllocationQuery, Query()], request: Request, response: Response
) -> CoAllocationPage:
    """List the co-allocations of which at least one component may be seen, newest first."""
    which = LeaseFilter(visible=visible(call.principal, Permission.LEASE_SEE))
    rows = call.federation.store.coallocations(which, query.limit + 1, before_id=place_of(query.cursor))
    page = rows[: query.limit]
    cursor = cursor_at(page[-1].coallocation.id) if len(rows) > len(page) else None
    link_next(request, response, cursor)
    return CoAllocationPage(coallocations=[show_coallocation(row) for row in page], next=cursor)


@router.get("/{coallocation_id:number}", operation_id="showCoAllocation", responses=refuses(Kind.NO_SUCH_COALLOCATION))
@needs(Permission.LEASE_SEE)
def get_coallocation(call: Admitted, coallocation_id: Number) -> CoAllocation:
    """Show one co-allocation."""
    return show_coallocation(_visible_coallocation(call, coallocation_id))


@router.delete(
    "/{coallocation_id:number}", operation_id="cancelCoAllocation", responses=refuses(Kind.NO_SUCH_COALLOCATION)
)
@needs(Permission.LEASE_CANCEL)
async def cancel_coallocation(call: Admitted, coallocation_id: Number) -> CoAllocation:
    """Take a co-allocation back, with all of its components. One that is over stays as it is."""
    await run_in_threadpool(_check_cancel, call, coallocation_id)
    return show_coallocation(cast("CoAllocationRow", await call.federation.do(CancelCoAllocation(coallocation_id))))


def _check_cancel(call: Call, coallocation_id: int) -> None:
    """Let pass who may cancel every component. Raises NoSuchCoAllocation, and Forbidden for who may only see it."""
    _visible_coallocation(call, coallocation_id)
    for row in call.federation.store.components(coallocation_id):
        require(call.principal, Permission.LEASE_CANCEL, Target.lease(row))


def _visible_coallocation(call: Call, coallocation_id: int) -> CoAllocationRow:
    """A co-allocation of which the caller may see a component; any other is not there."""
    row = call.federation.store.coallocation(coallocation_id)
    components = () if row is None else call.federation.store.components(coallocation_id)
    if row is None or not any(allowed(call.principal, Permission.LEASE_SEE, Target.lease(one)) for one in components):
        raise NoSuchCoAllocation(coallocation_id)
    return row
