"""Jobs: ask for one, look at them, take one back, get what came of one, or ask what would."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from leasehold.service.api.door import EXPLAINING, Admitted, Call, needs
from leasehold.service.api.errors import NoResult
from leasehold.service.api.fields import Number
from leasehold.service.api.job_submission import job_submission
from leasehold.service.api.models.jobs import (
    Job,
    JobPage,
    JobQuery,
    JobSubmission,
    Result,
    show_job,
    show_result,
)
from leasehold.service.api.models.prospects import JobProspect, show_prospect
from leasehold.service.api.openapi import headers, refuses
from leasehold.service.api.paging import cursor_at, link_next, place_of
from leasehold.service.api.problems import Kind
from leasehold.service.api.routers.leases import IdempotencyKey
from leasehold.service.api.xml_body import DECLARED, JobRoute
from leasehold.service.auth.permissions import Permission, Target, allowed, require, visible
from leasehold.service.errors import NoSuchJob
from leasehold.service.store.filters import JobFilter
from leasehold.service.store.rows import AttemptRow, JobRow

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=JobRoute)

LOCATION = headers({"Location": "Where the job can be seen."})

# A number in a path is one by its form here: so it is known that nothing but POST is for /v1/jobs/explain.

Stored = tuple[JobRow, list[AttemptRow]]


@router.post(
    "",
    operation_id="submitJob",
    status_code=201,
    response_description="The job. One that cannot run anywhere here is `refused`, with its reason.",
    responses={
        201: {"headers": LOCATION},
        200: {"model": Job, "description": "The job that came of it before.", "headers": LOCATION},
        **refuses(Kind.IDEMPOTENCY_CONFLICT, Kind.TOO_MANY_OPEN),
    },
    openapi_extra=DECLARED,
)
@needs(Permission.JOB_SUBMIT)
async def submit_job(
    call: Admitted, body: JobSubmission, response: Response, idempotency_key: IdempotencyKey = ""
) -> Job:
    """Ask for a command to be run where there is what it needs.

    Also in XML, as `application/xml` under the names of JSDL. The answer comes once the job is kept durably:
    whatever happens then, it is run to its end, and its result is one.
    """
    row, new = await call.federation.jobs.submit(job_submission(body, call.principal, idempotency_key))
    response.headers["Location"] = f"{router.prefix}/{row.id}"
    response.status_code = 201 if new else 200
    return show_job(*await call.federation.jobs.job(row.id))


@router.post("/explain", operation_id="explainJob", openapi_extra=DECLARED)
@needs(Permission.JOB_SUBMIT, cost=EXPLAINING)
async def explain_job(call: Admitted, body: JobSubmission) -> JobProspect:
    """Say what would become of a job, and what the nodes say to it. Nothing is changed by it."""
    return show_prospect(await call.federation.jobs.explain(job_submission(body, call.principal, "")))


@router.get("", operation_id="listJobs")
@needs(Permission.JOB_SEE)
async def list_jobs(
    call: Admitted, query: Annotated[JobQuery, Query()], request: Request, response: Response
) -> JobPage:
    """List jobs, newest first. New ones that come in between move nothing from one page to another."""
    which = JobFilter(
        visible=visible(call.principal, Permission.JOB_SEE),
        states=tuple(query.states),
        site=query.site,
        consumer=query.consumer,
        since_ms=query.since_ms,
        open=query.open,
    )
    found = await call.federation.jobs.jobs(which, query.limit + 1, place_of(query.cursor))
    page = found[: query.limit]
    cursor = cursor_at(page[-1][0].id) if len(found) > len(page) else None
    link_next(request, response, cursor)
    return JobPage(jobs=[show_job(*one) for one in page], next=cursor)


@router.get("/{job_id:number}", operation_id="showJob", responses=refuses(Kind.NO_SUCH_JOB))
@needs(Permission.JOB_SEE)
async def show_one_job(call: Admitted, job_id: Number) -> Job:
    """Show one job, with all of its attempts."""
    return show_job(*await _visible_job(call, job_id))


@router.delete("/{job_id:number}", operation_id="cancelJob", responses=refuses(Kind.NO_SUCH_JOB))
@needs(Permission.JOB_CANCEL)
async def cancel_job(call: Admitted, job_id: Number) -> Job:
    """Take a job back, with all of its attempts. One that is over stays as it is."""
    found = await _visible_job(call, job_id)
    require(call.principal, Permission.JOB_CANCEL, Target.job(*found))
    await call.federation.jobs.cancel(job_id)
    return show_job(*await call.federation.jobs.job(job_id))


@router.get(
    "/{job_id:number}/result",
    operation_id="showJobResult",
    responses=refuses(Kind.NO_SUCH_JOB, Kind.NO_RESULT),
)
@needs(Permission.JOB_SEE)
async def show_job_result(call: Admitted, job_id: Number) -> Result:
    """Give what came of a job: the same each time, whatever becomes of its other attempts."""
    row, _ = await _visible_job(call, job_id)
    result = await call.federation.jobs.result(job_id)
    if result is None:
        raise NoResult(job_id, row.state)
    return show_result(result)


async def _visible_job(call: Call, job_id: int) -> Stored:
    """A job that the caller may see; any other is not there. Raises NoSuchJob."""
    found = await call.federation.jobs.job(job_id)
    if not allowed(call.principal, Permission.JOB_SEE, Target.job(*found)):
        raise NoSuchJob(job_id)
    return found
