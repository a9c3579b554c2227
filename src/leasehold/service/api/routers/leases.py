"""Leases: submit, list, explain, cancel and extend them."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool

from leasehold.forecasting.estimates import Foreseen
from leasehold.gateway.planning import Plan
from leasehold.model.errors import InvalidField
from leasehold.model.request import LEASE_TYPES, LeaseType, check_request
from leasehold.model.request import Request as LeaseRequest
from leasehold.model.resources import parse_gpus
from leasehold.protocol.base import RequestModel
from leasehold.protocol.explanations import LeaseExplanation
from leasehold.protocol.fields import Key, Number, read_duration, unix_ms
from leasehold.protocol.leases import (
    ExtensionSpec,
    JournalPage,
    JournalQuery,
    Lease,
    LeaseAccess,
    LeaseFilter,
    LeasePage,
    LeaseSpec,
    MachineAccess,
)
from leasehold.protocol.plans import LeasePlan, PlanQuery
from leasehold.protocol.problems import Kind
from leasehold.service.api.authorizer import PLANNING, Authorized, Call, GuardedRoute, needs, seen_by
from leasehold.service.api.openapi import headers, refuses
from leasehold.service.api.paging import cursor_at, cut_page, place_of
from leasehold.service.api.views import (
    elsewhere_of,
    leases_in_plan,
    leases_named,
    show_entry,
    show_lease,
    show_lease_explanation,
    show_plan,
)
from leasehold.service.auth.permissions import Permission, Target, allowed, require, require_submission, visible
from leasehold.service.auth.principal import Principal
from leasehold.service.commands import Submit
from leasehold.service.errors import NoSuchLease
from leasehold.service.messages.about_plans import Planned
from leasehold.service.store import filters
from leasehold.service.store.rows import LeaseMetadata, LeaseRow

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
        200: {"model": Lease, "description": "The lease created with this key.", "headers": LOCATION},
        **refuses(Kind.IDEMPOTENCY_CONFLICT, Kind.TOO_MANY_OPEN),
    },
)
@needs(Permission.LEASE_SUBMIT, Permission.LEASE_SUBMIT_LOCAL)
async def submit_lease(
    call: Authorized, body: LeaseSpec, response: Response, idempotency_key: IdempotencyKey = ""
) -> Lease:
    """Request machines.

    The response comes once the request is stored durably: whatever happens then, it is not lost, and not run
    twice.
    """
    call.federation.notices.check(body.notify)
    row, new = await call.federation.submit(_submission(body, call.principal, idempotency_key))
    response.headers["Location"] = f"{router.prefix}/{row.lease.id}"
    response.status_code = 201 if new else 200
    return show_lease(row)


@router.post("/plan", operation_id="planLease", responses=refuses(Kind.TOO_MANY_OPEN))
@needs(Permission.LEASE_SUBMIT, Permission.LEASE_SUBMIT_LOCAL, cost=PLANNING)
async def plan_lease(call: Authorized, body: LeaseSpec, query: Annotated[PlanQuery, Query()]) -> LeasePlan:
    """Say what would happen to a lease submitted now: where and when it would run, at whose cost, or why not.

    The same code decides as for a submitted lease, and the decision is then undone: nothing changes. Requests that
    would be better off are tried in the same way. With `within_s` futures are simulated besides: they say when it
    starts with a 90 % interval, and how likely it is preempted, as its own type and as others.
    """
    wanted = _submission(body, call.principal, "")
    plan = await call.federation.plan(wanted)
    answer = await call.federation.plan_elsewhere(plan.prospect, wanted.metadata)
    foreseen: list[Foreseen] = []
    if query.within_s and not plan.prospect.is_refused and plan.prospect.elsewhere is None:
        foreseen = await call.federation.forecasts.foresee(plan.prospect.request, 1000 * query.within_s)
    return await run_in_threadpool(_shown_plan, call, plan, foreseen, answer)


def _shown_plan(call: Call, plan: Plan, foreseen: Sequence[Foreseen], answer: Planned | None) -> LeasePlan:
    site = plan.prospect.site
    history = call.federation.store.preempted_at(site) if site else ()
    shown = elsewhere_of(call.federation, plan.prospect, answer)
    return show_plan(plan, history, foreseen, seen_by(call, Permission.LEASE_SEE, leases_in_plan(plan)), shown)


@router.get("", operation_id="listLeases")
@needs(Permission.LEASE_SEE)
async def list_leases(
    call: Authorized, query: Annotated[LeaseFilter, Query()], request: Request, response: Response
) -> LeasePage:
    """List leases, newest first. New ones that come in between move nothing from one page to another."""
    which = filters.LeaseFilter(
        visible=visible(call.principal, Permission.LEASE_SEE),
        states=tuple(query.state),
        site=query.site,
        consumer=query.consumer,
        since_ms=None if query.since is None else unix_ms(query.since),
        open=query.open,
    )
    before_id = place_of(query.cursor)
    rows = await run_in_threadpool(call.federation.store.leases, which, query.limit + 1, before_id=before_id)
    if query.site and not rows:
        await call.federation.sites.check_name(query.site)
    page, cursor = cut_page(rows, query.limit, lambda row: cursor_at(row.lease.id), request, response)
    expected = call.federation.forecasts.of
    return LeasePage(leases=tuple(show_lease(row, expected(row.lease.id)) for row in page), next=cursor)


@router.get("/{lease_id:number}", operation_id="showLease", responses=refuses(Kind.NO_SUCH_LEASE))
@needs(Permission.LEASE_SEE)
async def show_one_lease(call: Authorized, lease_id: Number) -> Lease:
    """Show one lease."""
    row = await run_in_threadpool(_visible_lease, call, lease_id)
    return show_lease(row, call.federation.forecasts.of(lease_id))


@router.delete("/{lease_id:number}", operation_id="cancelLease", responses=refuses(Kind.NO_SUCH_LEASE))
@needs(Permission.LEASE_CANCEL)
async def cancel_lease(call: Authorized, lease_id: Number) -> Lease:
    """Cancel a lease in any state. One that is over stays unchanged."""
    await _check(call, lease_id, Permission.LEASE_CANCEL)
    return show_lease(await call.federation.cancel(lease_id))


@router.post(
    "/{lease_id:number}/extension",
    operation_id="extendLease",
    responses=refuses(Kind.NO_SUCH_LEASE, Kind.CANNOT_EXTEND, Kind.LEASE_CLOSED)
    | {202: {"model": Lease, "description": "Its site has a manager of its own, which was asked: `asked_duration_s`."}},
)
@needs(Permission.LEASE_EXTEND)
async def extend_lease(call: Authorized, response: Response, lease_id: Number, body: ExtensionSpec) -> Lease:
    """Extend a lease, if no other lease needs its machines.

    A site with a manager of its own, or a peer, is asked. If it does not answer within a few seconds, the answer is
    202: the lease shows in `asked_duration_s` what was asked for, and later what its site has decided.
    """
    await _check(call, lease_id, Permission.LEASE_EXTEND)
    lease = show_lease(await call.federation.extend(lease_id, read_duration(body.by_s)))
    response.status_code = 200 if lease.asked_duration_s is None else 202
    return lease


@router.post(
    "/{lease_id:number}/checkpointed",
    operation_id="reportCheckpoint",
    responses=refuses(Kind.NO_SUCH_LEASE, Kind.CANNOT_CHECKPOINT, Kind.LEASE_CLOSED),
)
@needs(Permission.LEASE_EXTEND)
async def report_checkpoint(call: Authorized, lease_id: Number) -> Lease:
    """Report that the guest has saved its work by its own means, just now.

    Victim policies count what is lost from then on; a guest that was told of its preemption needs no more time, and
    is preempted at once.
    """
    await _check(call, lease_id, Permission.LEASE_EXTEND)
    return show_lease(await call.federation.checkpointed(lease_id))


@router.get("/{lease_id:number}/journal", operation_id="showLeaseJournal", responses=refuses(Kind.NO_SUCH_LEASE))
@needs(Permission.LEASE_SEE)
async def show_journal(
    call: Authorized,
    lease_id: Number,
    query: Annotated[JournalQuery, Query()],
    request: Request,
    response: Response,
) -> JournalPage:
    """List what happened to a lease and why, oldest first."""

    def show() -> JournalPage:
        _visible_lease(call, lease_id)
        after_seq = place_of(query.cursor) or 0
        rows = call.federation.store.journal(after_seq, query.limit + 1, lease_id=lease_id)
        page, cursor = cut_page(rows, query.limit, lambda row: cursor_at(row.seq), request, response)
        may_see = seen_by(call, Permission.LEASE_SEE, leases_named(page))
        return JournalPage(entries=tuple(show_entry(row, may_see) for row in page), next=cursor)

    return await run_in_threadpool(show)


@router.get("/{lease_id:number}/explanation", operation_id="explainLease", responses=refuses(Kind.NO_SUCH_LEASE))
@needs(Permission.LEASE_SEE, cost=PLANNING)
async def explain_lease(call: Authorized, lease_id: Number) -> LeaseExplanation:
    """Say what happened to a lease and why: every reason at every site, who took its machines, and what would help.

    Other leases are named only to those who may see them. What would help was tried: by the code that decides.
    """
    row = await run_in_threadpool(_visible_lease, call, lease_id)
    account = await call.federation.explain(row)

    def show() -> LeaseExplanation:
        return show_lease_explanation(row, account, seen_by(call, Permission.LEASE_SEE, account.leases_named()))

    return await run_in_threadpool(show)


@router.get(
    "/{lease_id:number}/console",
    operation_id="showLeaseConsole",
    response_class=PlainTextResponse,
    responses=refuses(Kind.NO_SUCH_LEASE, Kind.CONSOLE_ELSEWHERE),
)
@needs(Permission.LEASE_ENTER)
async def show_console(call: Authorized, lease_id: Number) -> PlainTextResponse:
    """Give what the machines of a lease have written to their consoles, to its owner alone."""
    await _check(call, lease_id, Permission.LEASE_ENTER)
    return PlainTextResponse(await call.federation.console(lease_id))


@router.get(
    "/{lease_id:number}/access",
    operation_id="showLeaseAccess",
    responses=refuses(Kind.NO_SUCH_LEASE, Kind.CONSOLE_ELSEWHERE),
)
@needs(Permission.LEASE_ENTER)
async def show_access(call: Authorized, lease_id: Number) -> LeaseAccess:
    """Say where the owner of a lease, and nobody else, can log in to its machines by SSH now.

    Only the key that the lease was submitted with opens them.
    """
    await _check(call, lease_id, Permission.LEASE_ENTER)
    machines = await call.federation.access(lease_id)
    return LeaseAccess(machines=tuple(MachineAccess.of(one) for one in machines))


async def _check(call: Call, lease_id: int, permission: Permission) -> None:
    """Check that the caller may do this with the lease. Raises NoSuchLease, or Forbidden if it may only see it."""
    row = await run_in_threadpool(_visible_lease, call, lease_id)
    require(call.principal, permission, Target.lease(row))


def _visible_lease(call: Call, lease_id: int) -> LeaseRow:
    """Return a lease that the caller may see. Raises NoSuchLease for any other."""
    row = call.federation.store.lease(lease_id)
    if row is None or not allowed(call.principal, Permission.LEASE_SEE, Target.lease(row)):
        raise NoSuchLease(lease_id)
    return row


def _submission(body: LeaseSpec, principal: Principal, key: str) -> Submit:
    """Make the command for a request that this caller may make.

    Raises InvalidField, and Forbidden for what is not theirs: another's group, a site that is not their home.
    What depends on the time is left to the federation, which alone knows whether the request was made before
    (``key``), and so cannot be too late.
    """
    home, group = _home(body, principal), _group(body, principal)
    gpu_model, gpu_milli = parse_gpus(body.gpus) if body.gpus else ("", 0)
    request = LeaseRequest(
        id=0,
        lease_type=_lease_type(body),
        vms=body.vms,
        duration_ms=read_duration(body.duration_s),
        submit_ms=0,  # the engine says when
        ready_ms=0 if body.ready is None else unix_ms(body.ready),
        deadline_ms=None if body.deadline is None else unix_ms(body.deadline),
        site=home,
        consumer=principal.consumer,
        memory_mib=body.memory_mib,
        cores=body.cores,
        gpu_model=gpu_model,
        gpu_milli=gpu_milli,
        image=body.image,
        login=bool(body.ssh_key),
        group=group,
        domain=_domain(body),
        claims=tuple(sorted(body.claims.items())),
        wait=body.wait,
        is_foreign=principal.is_foreign,
        max_restarts=body.max_restarts,
    )
    check_request(request)
    if request.is_local and body.max_restarts is not None:
        raise InvalidField("max_restarts", body.max_restarts, "none: a local request does not begin again")
    _check_wait(request)
    if body.notify and request.lease_type is LeaseType.NON_PREEMPTABLE:
        raise InvalidField("notify", body.notify, "nothing: a non-preemptable lease is never preempted")
    require_submission(principal, home=home, group=group)
    metadata = LeaseMetadata(
        body.name, tuple(body.command), project=body.project, notify=body.notify, ssh_key=body.ssh_key
    )
    return Submit(request, metadata, key=key, request_hash=request_hash(body) if key else "")


def _lease_type(body: LeaseSpec) -> LeaseType:
    if body.type is not None:
        return LEASE_TYPES[body.type]
    if body.local:
        return LeaseType.NON_PREEMPTABLE
    raise InvalidField("type", None, f"one of {', '.join(LEASE_TYPES)}")


def _home(body: LeaseSpec, principal: Principal) -> str | None:
    """The home site of a local request, None for any other."""
    if not body.local:
        if body.site is not None:
            raise InvalidField("site", body.site, "none: only a local request names its site")
        return None
    if body.site is not None:
        return body.site
    if len(principal.sites) != 1:
        raise InvalidField("site", None, "the home site of a local request")
    return next(iter(principal.sites))


def _check_wait(request: LeaseRequest) -> None:
    """Raise InvalidField for ``wait: false`` where a lease waits for room in any case."""
    always = request.is_local or request.lease_type.is_best_effort
    if always and not request.wait:
        kind = "local" if request.is_local else request.lease_type.label
        raise InvalidField("wait", "false", f"true: a {kind} lease waits for room in any case")


def _group(body: LeaseSpec, principal: Principal) -> str:
    """The group that was named, or the caller's first; "" where there is none."""
    return next(iter(principal.groups), "") if body.group is None else body.group


def _domain(body: LeaseSpec) -> str:
    """What a guest is bound to; a local request has its home."""
    if body.local and body.domain:
        raise InvalidField("domain", body.domain, "none: a local request is bound to its home site")
    return body.domain


def request_hash(body: RequestModel, kind: str = "") -> str:
    """The same for requests that mean the same: spaces, order and spelled-out defaults do not count."""
    return sha256((kind + body.model_dump_json(exclude_defaults=True)).encode()).hexdigest()
