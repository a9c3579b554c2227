"""Jobs: submit, plan, list, explain and cancel them, and fetch the result of one."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from leasehold.configuration.job_description.description import JobDescription, show_gpus
from leasehold.jobs.job import FAULT_SENTENCES, AttemptState, Backup, JobRecord
from leasehold.matching.devices import devices_of
from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.matching.software import software
from leasehold.matching.verdict import Verdict, sentence
from leasehold.model.errors import InvalidField
from leasehold.model.request import LEASE_TYPES
from leasehold.model.resources import parse_gpus
from leasehold.protocol.explanations import JobExplanation
from leasehold.protocol.fields import (
    LeaseTypeName,
    Number,
    is_file_name,
    moment_at,
    planned,
    read_duration,
    show_duration,
    unix_ms,
)
from leasehold.protocol.forecasts import JobEstimate
from leasehold.protocol.jobs import (
    Attempt,
    Job,
    JobFilter,
    JobInput,
    JobLog,
    JobNeeds,
    JobOutcome,
    JobPage,
    JobPlace,
    JobProspect,
    JobResult,
    JobSpec,
    NodeGroup,
    NodeVerdict,
    OutputFile,
    PlannedJobAlternative,
)
from leasehold.protocol.plans import Elsewhere, PlannedOutcome
from leasehold.protocol.problems import Kind
from leasehold.service import jobs as service
from leasehold.service.api.authorizer import PLANNING, Authorized, Call, needs, seen_by
from leasehold.service.api.job_body import DECLARED, JobRoute
from leasehold.service.api.openapi import headers, refuses
from leasehold.service.api.paging import cursor_at, cut_page, place_of
from leasehold.service.api.routers.files import PARTS, Content
from leasehold.service.api.routers.forecasts import job_estimate
from leasehold.service.api.routers.leases import IdempotencyKey, request_hash
from leasehold.service.api.views import elsewhere_of, outcome_of, show_expected, show_preemptions, show_steps
from leasehold.service.api.views import explain_job as explanation_of
from leasehold.service.auth.permissions import Permission, Target, allowed, require, require_job, visible
from leasehold.service.auth.principal import Principal
from leasehold.service.commands import SubmitJob
from leasehold.service.errors import NoResult, NoSuchJob
from leasehold.service.files import FileStore, NoSuchFile
from leasehold.service.forecasts import Estimated, Forecasts
from leasehold.service.job_plans import JobAlternative, JobChange, JobPlan
from leasehold.service.job_plans import JobOutcome as CoreOutcome
from leasehold.service.jobs import Chosen
from leasehold.service.store import filters
from leasehold.service.store.rows import AttemptRow, JobRow, StoredJob

_TO_START = frozenset({AttemptState.QUEUED, AttemptState.ORDERED, AttemptState.SUSPENDED})

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=JobRoute)

LOCATION = headers({"Location": "Where the job can be seen."})

# A number in a path is one by its form here: so it is known that nothing but POST is for /v1/jobs/plan.


@router.post(
    "",
    operation_id="submitJob",
    status_code=201,
    response_description="The job. One that cannot run anywhere here is `refused`, with its reason.",
    responses={
        201: {"headers": LOCATION},
        200: {"model": Job, "description": "The job created with this key.", "headers": LOCATION},
        **refuses(Kind.IDEMPOTENCY_CONFLICT, Kind.TOO_MANY_OPEN),
    },
    openapi_extra=DECLARED,
)
@needs(Permission.JOB_SUBMIT)
async def submit_job(call: Authorized, body: JobSpec, response: Response, idempotency_key: IdempotencyKey = "") -> Job:
    """Submit a command, to be run where its needs are met.

    XML is accepted too, as `application/xml` with the names of JSDL. The response comes once the job is stored
    durably: whatever happens then, it runs to its end and has one result. An array counts as many submissions as it
    has jobs, against the rate limit and the limit of open requests alike.
    """
    command = _submission(body, call.principal, idempotency_key)
    check_files(call.federation.files, command)
    found, new = await call.federation.jobs.submit(command)
    if new and command.array:
        call.charge(len(command.array) - 1)
    job = show_job(*found)
    response.headers["Location"] = f"{router.prefix}/{job.id}"
    response.status_code = 201 if new else 200
    return job


@router.post("/plan", operation_id="planJob", openapi_extra=DECLARED)
@needs(Permission.JOB_SUBMIT, cost=PLANNING)
async def plan_job(call: Authorized, body: JobSpec) -> JobProspect:
    """Say what would happen to a job submitted now, what would go better, and how each node matches it.

    Nothing changes. Each alternative was tried.
    """
    plan = await call.federation.plan_job(_submission(body, call.principal, ""))
    lease, elsewhere = plan.outcome.lease, None
    if lease is not None and plan.metadata is not None:
        answer = await call.federation.plan_elsewhere(lease, plan.metadata)
        elsewhere = elsewhere_of(call.federation, lease, answer)
    return show_plan(plan, elsewhere)


@router.get("", operation_id="listJobs")
@needs(Permission.JOB_SEE)
async def list_jobs(
    call: Authorized, query: Annotated[JobFilter, Query()], request: Request, response: Response
) -> JobPage:
    """List jobs, newest first. New ones that come in between move nothing from one page to another."""
    which = filters.JobFilter(
        visible=visible(call.principal, Permission.JOB_SEE),
        states=tuple(query.state),
        site=query.site,
        consumer=query.consumer,
        since_ms=None if query.since is None else unix_ms(query.since),
        open=query.open,
        array=query.array,
    )
    found = await call.federation.jobs.jobs(which, query.limit + 1, place_of(query.cursor))
    page, cursor = cut_page(found, query.limit, lambda one: cursor_at(one[0].record.id), request, response)
    return JobPage(jobs=tuple(show_job(*one, call.federation.forecasts) for one in page), next=cursor)


@router.get("/{job_id:number}", operation_id="showJob", responses=refuses(Kind.NO_SUCH_JOB))
@needs(Permission.JOB_SEE)
async def show_one_job(call: Authorized, job_id: Number) -> Job:
    """Show one job, with all of its attempts."""
    return show_job(*await _visible_job(call, job_id), call.federation.forecasts)


@router.get("/{job_id:number}/estimate", operation_id="showJobEstimate", responses=refuses(Kind.NO_SUCH_JOB))
@needs(Permission.JOB_SEE)
async def show_job_estimate(call: Authorized, job_id: Number) -> JobEstimate:
    """Show when a job that waits for nodes is expected to start and to end; 404 while nothing is known of that.

    Once it has asked for machines, what is expected is said of its leases.
    """
    await _visible_job(call, job_id)
    found = call.federation.forecasts.of_job(job_id)
    if found is None:
        raise NoSuchJob(job_id)
    return job_estimate(job_id, found, call.federation.clock())


@router.delete("/{job_id:number}", operation_id="cancelJob", responses=refuses(Kind.NO_SUCH_JOB))
@needs(Permission.JOB_CANCEL)
async def cancel_job(call: Authorized, job_id: Number) -> Job:
    """Cancel a job with all of its attempts. One that is over stays unchanged."""
    found = await _visible_job(call, job_id)
    require(call.principal, Permission.JOB_CANCEL, Target.job(*found))
    return show_job(*await call.federation.jobs.cancel(job_id))


@router.get("/{job_id:number}/explanation", operation_id="explainJob", responses=refuses(Kind.NO_SUCH_JOB))
@needs(Permission.JOB_SEE, cost=PLANNING)
async def explain_job(call: Authorized, job_id: Number) -> JobExplanation:
    """Say what happened to a job and why: every reason, who took its machines, and what each node says to it now."""
    found = await _visible_job(call, job_id)
    account, groups = await call.federation.explain_job(found)

    def show() -> JobExplanation:
        may_see = seen_by(call, Permission.LEASE_SEE, account.leases_named())
        return JobExplanation(
            job=show_job(*found),
            steps=show_steps(account.lines),
            preemptions=show_preemptions(account, may_see),
            groups=tuple(map(_group, groups)),
        )

    return await run_in_threadpool(show)


@router.get(
    "/{job_id:number}/result",
    operation_id="showJobResult",
    responses=refuses(Kind.NO_SUCH_JOB, Kind.NO_RESULT),
)
@needs(Permission.JOB_SEE)
async def show_job_result(call: Authorized, job_id: Number) -> JobResult:
    """Return the result of a job: the same each time, whatever happens to its other attempts."""
    row, _ = await _visible_job(call, job_id)
    result = await call.federation.jobs.result(job_id)
    if result is None:
        raise NoResult(job_id, row.record.state)
    return show_result(result)


@router.get(
    "/{job_id:number}/output",
    operation_id="showJobOutput",
    responses=refuses(Kind.NO_SUCH_JOB, Kind.CONSOLE_ELSEWHERE),
)
@needs(Permission.JOB_SEE)
async def show_job_output(call: Authorized, job_id: Number) -> JobLog:
    """Return what the command of a job has written so far, while it runs and afterwards."""
    await _visible_job(call, job_id)
    return JobLog.of(await call.federation.jobs.log(job_id), job=job_id)


@router.get(
    "/{job_id:number}/files/{name}",
    operation_id="readJobFile",
    status_code=200,
    response_class=Content,
    responses=refuses(Kind.NO_SUCH_JOB, Kind.NO_SUCH_FILE) | PARTS,
)
@needs(Permission.JOB_SEE)
async def read_job_file(call: Authorized, job_id: Number, name: str) -> Content:
    """Return the content of a file that a job left behind, or a part of it (`Range`)."""
    row, _ = await _visible_job(call, job_id)
    result = await call.federation.jobs.result(job_id)
    gone = NoSuchFile(f"(of job {job_id}: {name!r:.200})")
    for file in () if result is None else result.files:
        if file.name == name and file.sha256:
            return Content(call.federation.files.content(row.record.request.consumer, file.sha256), gone)
    raise gone


def check_files(files: FileStore, command: SubmitJob) -> None:
    """Check that the inputs of a job are stored, and that no two files of it have one name; raises InvalidField."""
    names: set[str] = set()
    for number, file in enumerate(command.needs.inputs):
        if not file.sha256:
            continue
        if file.name in names or not is_file_name(file.name):
            raise InvalidField(f"inputs[{number}].name", file.name, "the name of a file without folders, each once")
        names.add(file.name)
        try:
            stored = files.get(command.consumer, file.sha256)
        except NoSuchFile:
            stored = None
        if stored is None or not stored.is_complete:
            raise InvalidField(f"inputs[{number}].sha256", file.sha256, "a file that you have stored")
        if stored.size_bytes != file.size_bytes:
            raise InvalidField(f"inputs[{number}].size_bytes", file.size_bytes, f"{stored.size_bytes}, as it is stored")


async def _visible_job(call: Call, job_id: int) -> StoredJob:
    """Return a job that the caller may see. Raises NoSuchJob for any other."""
    found = await call.federation.jobs.job(job_id)
    if not allowed(call.principal, Permission.JOB_SEE, Target.job(*found)):
        raise NoSuchJob(job_id)
    return found


def _submission(body: JobSpec, principal: Principal, key: str) -> SubmitJob:
    """Make the command for a job that this caller may submit; raises InvalidField and Forbidden.

    What depends on the time and on the nodes is left to the federation.
    """
    group = next(iter(principal.groups), "") if body.group is None else body.group
    require_job(principal, group)
    if body.reliability is not None and body.deadline is None:
        raise InvalidField("deadline", None, "a time: reliability is the probability of ending by then")
    return SubmitJob(
        consumer=principal.consumer,
        command=tuple(body.command),
        needs=_needs_of(body),
        name=body.name,
        group=group,
        environment=tuple(body.environment.items()),
        array=tuple(body.array),
        deadline_ms=None if body.deadline is None else unix_ms(body.deadline),
        lease_type=LEASE_TYPES[body.type],
        backup=Backup(body.backup),
        reliability=body.reliability,
        restarts=body.restarts,
        key=key,
        request_hash=request_hash(body, "job ") if key else "",
        is_foreign=principal.is_foreign,
    )


def description_of(body: JobSpec) -> JobDescription:
    """Give the description of a job that a file has."""
    return JobDescription(
        name=body.name,
        group=body.group or "",
        command=tuple(body.command),
        environment=tuple(body.environment.items()),
        array=tuple(body.array),
        needs=_needs_of(body),
        deadline_ms=None if body.deadline is None else unix_ms(body.deadline),
        reliability=body.reliability,
        backup=Backup(body.backup),
        lease_type=LEASE_TYPES[body.type],
        restarts=body.restarts,
    )


def _needs_of(body: JobSpec) -> Needs:
    gpu_model, gpu_milli = parse_gpus(body.gpus) if body.gpus else ("", 0)
    return Needs(
        amounts=Amounts(body.cores, body.memory_mib, body.disk_mib, devices_of(gpu_milli)),
        gpu_model=gpu_model,
        execution_ms=read_duration(body.execution_s),
        nodes=body.nodes,
        need=body.need,
        cpu_mhz=body.cpu_mhz,
        software=tuple(software(text) for text in body.software),
        inputs=tuple(
            InputFile(file.name, file.size_bytes, file.place, sha256=file.sha256 or "") for file in body.inputs
        ),
        outputs=tuple(body.outputs),
    )


def show_job(row: JobRow, attempts: Sequence[AttemptRow], forecasts: Forecasts | None = None) -> Job:
    """Show a job as it is in the store; ``forecasts`` know what is expected of it."""
    record, request = row.record, row.record.request
    open_leases = [one.lease_id for one in attempts if one.attempt.state in _TO_START and one.lease_id is not None]
    return Job.of(
        request,
        record,
        request.job,
        row,
        explanation=explanation_of(record.reason, record.what),
        submitted_at=moment_at(request.job.submitted_ms),
        expected=show_expected(_estimated(record, open_leases, forecasts)),
        next_try_at=planned(record.next_ms),
        environment=dict(request.environment),
        array=request.array_id or None,
        array_index=request.array_index if request.array_id else None,
        type=request.lease_type.label,
        needs=_needs(request.job.needs),
        outputs=request.job.needs.outputs,
        restarts_used=record.restarts,
        attempts=tuple(_attempt(attempt) for attempt in attempts),
    )


def _estimated(record: JobRecord, open_leases: Sequence[int], forecasts: Forecasts | None) -> Estimated | None:
    """Give what is expected of the lease of a job's present attempt, or of the job while it waits for nodes."""
    if forecasts is None:
        return None
    if open_leases:
        return forecasts.of(open_leases[-1])
    return None if record.open_attempts or record.state.is_final else forecasts.of_job(record.id)


def _needs(needs: Needs) -> JobNeeds:
    return JobNeeds.of(
        needs,
        needs.amounts,
        gpus=show_gpus(needs),
        software=tuple(str(one) for one in needs.software),
        inputs=tuple(_input(file) for file in needs.inputs),
    )


def _input(file: InputFile) -> JobInput:
    return JobInput(name=file.name, size_bytes=file.size_bytes, place=file.place, sha256=file.sha256 or None)


def _attempt(row: AttemptRow) -> Attempt:
    return Attempt.of(
        row,
        row.attempt,
        lease=row.lease_id,
        virtual=bool(row.attempt.image),
        backup=row.attempt.is_backup,
        fault=row.attempt.fault or "",
        explanation="" if row.attempt.fault is None else FAULT_SENTENCES[row.attempt.fault],
    )


def show_result(result: service.JobResult) -> JobResult:
    """Show the result of a job."""
    return JobResult.of(result, job=result.job_id, files=tuple(map(OutputFile.of, result.files)))


def show_plan(plan: JobPlan, elsewhere: Elsewhere | None) -> JobProspect:
    """Show what would become of a job, what would go better, and who would decide on its lease."""
    return JobProspect(
        **_outcome(plan.outcome),
        places=tuple(_place(chosen) for chosen in plan.outcome.chosen),
        groups=tuple(_group(one) for one in plan.groups),
        alternatives=tuple(map(_alternative, plan.alternatives)),
        untried=plan.untried,
        elsewhere=elsewhere,
    )


def _outcome(outcome: CoreOutcome) -> dict[str, Any]:
    lease, consequences = outcome.lease, outcome.consequences
    return {
        "verdict": "refused" if outcome.is_refused else "with-consequences" if consequences else "as-asked",
        "consequences": consequences,
        "state": outcome.state,
        "reason": outcome.reason,
        "explanation": explanation_of(outcome.reason, outcome.what),
        "what": outcome.what,
        "surest": outcome.surest,
        "lease": None if lease is None else PlannedOutcome(**outcome_of(lease)),
    }


def _alternative(one: JobAlternative) -> PlannedJobAlternative:
    needs, change = one.job.needs, one.change
    return PlannedJobAlternative(
        change=change.value,
        nodes=needs.nodes if change is JobChange.NODES else None,
        cores=needs.amounts.cores if change is JobChange.CORES else None,
        memory_mib=needs.amounts.memory_mib if change is JobChange.MEMORY else None,
        gpus=show_gpus(needs) if change is JobChange.GPUS else None,
        execution_s=show_duration(needs.execution_ms) if change is JobChange.EXECUTION else None,
        type=cast("LeaseTypeName", one.job.lease_type.label) if change is JobChange.TYPE else None,
        software=tuple(map(str, needs.software)) if change is JobChange.SOFTWARE else (),
        outcome=JobOutcome(**_outcome(one.outcome)),
    )


def _place(chosen: Chosen) -> JobPlace:
    return JobPlace.of(
        chosen,
        virtual=bool(chosen.image or chosen.builds),
        builds=tuple(f"{name} {version}".rstrip() for name, version in chosen.builds),
        reason=chosen.why,
        explanation=sentence(chosen.why),
    )


def _group(group: service.NodeGroup) -> NodeGroup:
    return NodeGroup.of(group, group.says, as_node=_verdict(group.says.as_node), as_host=_verdict(group.says.as_host))


def _verdict(verdict: Verdict | None) -> NodeVerdict | None:
    if verdict is None:
        return None
    return NodeVerdict(
        answer=cast("Literal['never', 'wait', 'fit']", verdict.answer.name.lower()),
        reason=verdict.why,
        explanation=sentence(verdict.why),
        what=verdict.what,
    )
