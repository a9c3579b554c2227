"""What would become of a request? Asked, without making it."""

from fastapi import APIRouter

from leasehold.gateway.explaining import Explanation, explain_joint, explain_request
from leasehold.model.errors import InvalidField
from leasehold.model.joint import JointRequest
from leasehold.model.request import Request as CoreRequest
from leasehold.model.request import check_request
from leasehold.service.api.door import Admitted, Call, GuardedRoute, needs
from leasehold.service.api.joint_submission import joint_submission
from leasehold.service.api.models.environments import EnvironmentQuestion, Environments, show_environments
from leasehold.service.api.models.joints import JointLeaseRequest
from leasehold.service.api.models.leases import LeaseRequest
from leasehold.service.api.submission import submission
from leasehold.service.auth.permissions import Permission

router = APIRouter(prefix="/v1/environments", tags=["leases"], route_class=GuardedRoute)


@router.post("", operation_id="explainRequest")
@needs(Permission.LEASE_SUBMIT)
async def explain(call: Admitted, body: EnvironmentQuestion) -> Environments:
    """Say which sites there are for a request, which of them agreements open to it, and where it would run.

    Nothing is asked for and nothing is changed by it.
    """
    if body.lease is not None and body.joint is None:
        return show_environments(await _of_a_lease(call, body.lease))
    if body.joint is not None and body.lease is None:
        return show_environments(await _of_a_joint(call, body.joint))
    raise InvalidField("lease", None, "exactly one of lease and joint")


async def _of_a_lease(call: Call, body: LeaseRequest) -> Explanation:
    asked = submission(body, call.principal, "")
    if asked.site is not None:
        raise InvalidField("local", "true", "an outside request: a local one has its home site")
    now_ms = call.federation.clock()
    request = check_request(
        CoreRequest(
            0,
            asked.lease_type,
            asked.vms,
            asked.duration_ms,
            now_ms,
            max(now_ms, asked.ready_ms or now_ms),
            asked.deadline_ms,
            consumer=asked.consumer,
            memory_mib=asked.memory_mib,
            group=asked.group,
            domain=asked.domain,
            claims=asked.claims,
        )
    )
    return await call.federation.ask(lambda engine: explain_request(engine.gateway, request, now_ms))


async def _of_a_joint(call: Call, body: JointLeaseRequest) -> Explanation:
    asked = joint_submission(body, call.principal, "")
    now_ms = call.federation.clock()
    request = JointRequest(
        0,
        asked.components,
        now_ms,
        max(now_ms, asked.ready_ms or now_ms),
        0,
        asked.consumer,
        asked.group,
        asked.claim,
        asked.place,
        asked.deadline_ms,
        asked.tries,
        asked.retries,
        asked.margin_ms,
    )
    return await call.federation.ask(lambda engine: explain_joint(engine.gateway, request, now_ms))
