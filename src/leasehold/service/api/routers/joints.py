"""Joint leases: ask for components that run together, look at them, take one back."""

from typing import Annotated, cast

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from leasehold.service.api.door import EXPLAINING, Admitted, Call, GuardedRoute, needs
from leasehold.service.api.fields import Number
from leasehold.service.api.joint_submission import joint_submission
from leasehold.service.api.models.explanations import JointLeaseExplanation, show_joint_explanation
from leasehold.service.api.models.joints import (
    JointLease,
    JointLeaseRequest,
    JointPage,
    JointQuery,
    show_joint,
)
from leasehold.service.api.openapi import headers, refuses
from leasehold.service.api.paging import cursor_at, link_next, place_of
from leasehold.service.api.problems import Kind
from leasehold.service.api.routers.leases import IdempotencyKey
from leasehold.service.auth.permissions import Permission, Target, allowed, require, visible
from leasehold.service.commands import CancelJoint
from leasehold.service.errors import NoSuchJoint
from leasehold.service.store.filters import LeaseFilter
from leasehold.service.store.rows import JointRow

router = APIRouter(prefix="/v1/joint-leases", tags=["leases"], route_class=GuardedRoute)

LOCATION = headers({"Location": "Where the joint lease can be seen."})


@router.post(
    "",
    operation_id="submitJointLease",
    status_code=201,
    response_description="The joint lease. One that can never be served is `refused`, with its reason.",
    responses={
        201: {"headers": LOCATION},
        200: {"model": JointLease, "description": "What came of it before.", "headers": LOCATION},
        **refuses(Kind.IDEMPOTENCY_CONFLICT, Kind.TOO_MANY_OPEN),
    },
)
@needs(Permission.LEASE_SUBMIT)
async def submit_joint_lease(
    call: Admitted, body: JointLeaseRequest, response: Response, idempotency_key: IdempotencyKey = ""
) -> JointLease:
    """Ask for machines at several sites, all or nothing.

    Each component becomes a Non-preemptable lease of its own, which has the number of this one as `joint`.
    The answer comes once all of it is kept durably.
    """
    call.charge(len(body.components) - 1)
    command = joint_submission(body, call.principal, idempotency_key)
    row, new = cast("tuple[JointRow, bool]", await call.federation.do(command))
    response.headers["Location"] = f"{router.prefix}/{row.joint.id}"
    response.status_code = 201 if new else 200
    return show_joint(row)


@router.post("/explain", operation_id="explainJointLease", responses=refuses(Kind.TOO_MANY_OPEN))
@needs(Permission.LEASE_SUBMIT, cost=EXPLAINING)
async def explain_joint_lease(call: Admitted, body: JointLeaseRequest) -> JointLeaseExplanation:
    """Say what would become of a joint lease if it were asked for now; nothing is changed.

    For each component: the sites that there are (`virtual`), and those that are open to it (`extended`).
    """
    call.charge(len(body.components) - 1)
    command = joint_submission(body, call.principal, "")
    return show_joint_explanation(await call.federation.explain_joint(command))


@router.get("", operation_id="listJointLeases")
@needs(Permission.LEASE_SEE)
def list_joint_leases(
    call: Admitted, query: Annotated[JointQuery, Query()], request: Request, response: Response
) -> JointPage:
    """List the joint leases of which at least one component may be seen, newest first."""
    which = LeaseFilter(visible=visible(call.principal, Permission.LEASE_SEE))
    rows = call.federation.store.joints(which, query.limit + 1, before_id=place_of(query.cursor))
    page = rows[: query.limit]
    cursor = cursor_at(page[-1].joint.id) if len(rows) > len(page) else None
    link_next(request, response, cursor)
    return JointPage(joints=[show_joint(row) for row in page], next=cursor)


@router.get("/{joint_id:number}", operation_id="showJointLease", responses=refuses(Kind.NO_SUCH_JOINT))
@needs(Permission.LEASE_SEE)
def show_joint_lease(call: Admitted, joint_id: Number) -> JointLease:
    """Show one joint lease."""
    return show_joint(_visible_joint(call, joint_id))


@router.delete("/{joint_id:number}", operation_id="cancelJointLease", responses=refuses(Kind.NO_SUCH_JOINT))
@needs(Permission.LEASE_CANCEL)
async def cancel_joint_lease(call: Admitted, joint_id: Number) -> JointLease:
    """Take a joint lease back, with all of its components. One that is over stays as it is."""
    await run_in_threadpool(_check_cancel, call, joint_id)
    return show_joint(cast("JointRow", await call.federation.do(CancelJoint(joint_id))))


def _check_cancel(call: Call, joint_id: int) -> None:
    """Let pass who may cancel every component. Raises NoSuchJoint, and Forbidden for who may only see it."""
    _visible_joint(call, joint_id)
    for row in call.federation.store.components(joint_id):
        require(call.principal, Permission.LEASE_CANCEL, Target.lease(row))


def _visible_joint(call: Call, joint_id: int) -> JointRow:
    """A joint lease of which the caller may see a component; any other is not there."""
    row = call.federation.store.joint(joint_id)
    components = () if row is None else call.federation.store.components(joint_id)
    if row is None or not any(allowed(call.principal, Permission.LEASE_SEE, Target.lease(one)) for one in components):
        raise NoSuchJoint(joint_id)
    return row
