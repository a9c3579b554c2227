"""Leases: ask for one, look at them, take one back, let one last longer."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool

from leasehold.service.api.door import EXPLAINING, Admitted, Call, GuardedRoute, needs, seen_by
from leasehold.service.api.fields import Key, Number
from leasehold.service.api.models.changes import JournalPage, JournalQuery, leases_named, show_entry
from leasehold.service.api.models.explanations import LeaseExplanation, show_explanation
from leasehold.service.api.models.leases import (
    ExtensionRequest,
    Lease,
    LeasePage,
    LeaseQuery,
    LeaseRequest,
    show_lease,
)
from leasehold.service.api.openapi import headers, refuses
from leasehold.service.api.paging import cursor_at, link_next, place_of
from leasehold.service.api.problems import Kind
from leasehold.service.api.submission import submission
from leasehold.service.auth.permissions import Permission, Target, allowed, require, visible
from leasehold.service.errors import NoSuchLease
from leasehold.service.store.filters import LeaseFilter
from leasehold.service.store.rows import LeaseRow

router = APIRouter(prefix="/v1/leases", tags=["leases"], route_class=GuardedRoute)

LOCATION = headers({"Location": "Where the lease can be seen."})

IdempotencyKey = Annotated[
    Key,
    Header(
        alias="Idempotency-Key",
        description="Any text that the caller has not used before. The same request with the same key again "
        "gets the same lease; so a request whose answer was lost can be repeated.",
    ),
]


@router.post(
    "",
    operation_id="submitLease",
    status_code=201,
    response_description="The lease. One that can never be served is `refused`, with its reason.",
    responses={
        201: {"headers": LOCATION},
        200: {"model": Lease, "description": "The lease that came of it before.", "headers": LOCATION},
        **refuses(Kind.IDEMPOTENCY_CONFLICT, Kind.TOO_MANY_OPEN),
    },
)
@needs(Permission.LEASE_SUBMIT, Permission.LEASE_SUBMIT_LOCAL)
async def submit_lease(
    call: Admitted, body: LeaseRequest, response: Response, idempotency_key: IdempotencyKey = ""
) -> Lease:
    """Ask for machines.

    The answer comes once the request is kept durably: whatever happens then, it is not lost, and not run
    twice.
    """
    row, new = await call.federation.submit(submission(body, call.principal, idempotency_key))
    response.headers["Location"] = f"{router.prefix}/{row.lease.id}"
    response.status_code = 201 if new else 200
    return show_lease(row)


@router.post("/explain", operation_id="explainLease", responses=refuses(Kind.TOO_MANY_OPEN))
@needs(Permission.LEASE_SUBMIT, Permission.LEASE_SUBMIT_LOCAL, cost=EXPLAINING)
async def explain_lease(call: Admitted, body: LeaseRequest) -> LeaseExplanation:
    """Say what would become of a lease if it were asked for now: where, when, and at whose cost, or why not.

    It is decided by the same code as a lease that is asked for, and then undone: nothing is changed.
    """
    return show_explanation(await call.federation.explain(submission(body, call.principal, "")))


@router.get("", operation_id="listLeases")
@needs(Permission.LEASE_SEE)
async def list_leases(
    call: Admitted, query: Annotated[LeaseQuery, Query()], request: Request, response: Response
) -> LeasePage:
    """List leases, newest first. New ones that come in between move nothing from one page to another."""
    which = LeaseFilter(
        visible=visible(call.principal, Permission.LEASE_SEE),
        states=tuple(query.states),
        site=query.site,
        consumer=query.consumer,
        since_ms=query.since_ms,
        open=query.open,
    )
    before_id = place_of(query.cursor)
    rows = await run_in_threadpool(call.federation.store.leases, which, query.limit + 1, before_id=before_id)
    if query.site and not rows:
        await call.federation.check_place(query.site)
    page = rows[: query.limit]
    cursor = cursor_at(page[-1].lease.id) if len(rows) > len(page) else None
    link_next(request, response, cursor)
    return LeasePage(leases=[show_lease(row) for row in page], next=cursor)


@router.get("/{lease_id:number}", operation_id="showLease", responses=refuses(Kind.NO_SUCH_LEASE))
@needs(Permission.LEASE_SEE)
def show_one_lease(call: Admitted, lease_id: Number) -> Lease:
    """Show one lease."""
    return show_lease(_visible_lease(call, lease_id))


@router.delete("/{lease_id:number}", operation_id="cancelLease", responses=refuses(Kind.NO_SUCH_LEASE))
@needs(Permission.LEASE_CANCEL)
async def cancel_lease(call: Admitted, lease_id: Number) -> Lease:
    """Take a lease back, wherever it is in its life. One that is over stays as it is."""
    await _check(call, lease_id, Permission.LEASE_CANCEL)
    return show_lease(await call.federation.cancel(lease_id))


@router.post(
    "/{lease_id:number}/extension",
    operation_id="extendLease",
    responses=refuses(Kind.NO_SUCH_LEASE, Kind.CANNOT_EXTEND, Kind.LEASE_CLOSED),
)
@needs(Permission.LEASE_EXTEND)
async def extend_lease(call: Admitted, lease_id: Number, body: ExtensionRequest) -> Lease:
    """Let a lease last longer, if nobody is in the way."""
    await _check(call, lease_id, Permission.LEASE_EXTEND)
    return show_lease(await call.federation.extend(lease_id, body.by_ms))


@router.get("/{lease_id:number}/journal", operation_id="showLeaseJournal", responses=refuses(Kind.NO_SUCH_LEASE))
@needs(Permission.LEASE_SEE)
def show_journal(
    call: Admitted,
    lease_id: Number,
    query: Annotated[JournalQuery, Query()],
    request: Request,
    response: Response,
) -> JournalPage:
    """Tell what happened to a lease and why, oldest first."""
    _visible_lease(call, lease_id)
    after_seq = place_of(query.cursor) or 0
    rows = call.federation.store.journal(after_seq, query.limit + 1, lease_id=lease_id)
    page = rows[: query.limit]
    cursor = cursor_at(page[-1].seq) if len(rows) > len(page) else None
    link_next(request, response, cursor)
    may_see = seen_by(call, Permission.LEASE_SEE, leases_named(page))
    return JournalPage(entries=[show_entry(row, may_see) for row in page], next=cursor)


@router.get(
    "/{lease_id:number}/console",
    operation_id="showLeaseConsole",
    response_class=PlainTextResponse,
    responses=refuses(Kind.NO_SUCH_LEASE, Kind.CONSOLE_ELSEWHERE),
)
@needs(Permission.LEASE_SEE)
async def show_console(call: Admitted, lease_id: Number) -> PlainTextResponse:
    """Give what the machines of a lease have written to their consoles."""
    await _check(call, lease_id, Permission.LEASE_SEE)
    return PlainTextResponse(await call.federation.console(lease_id))


async def _check(call: Call, lease_id: int, permission: Permission) -> None:
    """Let pass who may do this with that lease. Raises NoSuchLease, and Forbidden for who may only see it."""
    row = await run_in_threadpool(_visible_lease, call, lease_id)
    require(call.principal, permission, Target.lease(row))


def _visible_lease(call: Call, lease_id: int) -> LeaseRow:
    """A lease that the caller may see; any other is not there. Raises NoSuchLease."""
    row = call.federation.store.lease(lease_id)
    if row is None or not allowed(call.principal, Permission.LEASE_SEE, Target.lease(row)):
        raise NoSuchLease(lease_id)
    return row
