"""The form for jobs, and what it asks besides `/v1/jobs`, where its fields are read."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from leasehold.configuration.job_description.documents import to_xml
from leasehold.protocol.base import RequestModel
from leasehold.protocol.fields import CommandWords
from leasehold.protocol.jobs import JobSpec
from leasehold.service.api.authorizer import Authorized, needs
from leasehold.service.api.job_body import JobRoute
from leasehold.service.api.routers.dashboard import FORM, PageRoute, show
from leasehold.service.api.routers.jobs import description_of
from leasehold.service.auth.permissions import Permission

router = APIRouter(prefix=FORM, route_class=JobRoute, include_in_schema=False)
pages = APIRouter(prefix=FORM, route_class=PageRoute, include_in_schema=False)


@pages.get("", response_class=HTMLResponse)
@needs(Permission.JOB_SUBMIT)
async def show_form(call: Authorized, request: Request) -> HTMLResponse:
    """Return the page."""
    return show(call, request, "job.html", "/submit", groups=call.principal.groups)


class CommandLine(RequestModel):
    """The command of the form, alone."""

    command: CommandWords


@router.post("/words")
@needs(Permission.JOB_SUBMIT)
async def split_command(_: Authorized, body: CommandLine) -> list[str]:
    """Return the words into which a command line is split."""
    return list(body.command)


@router.post("/xml", response_class=Response)
@needs(Permission.JOB_SUBMIT)
async def describe_job(_: Authorized, body: JobSpec) -> Response:
    """Return the job as XML, in a form that `leasehold job submit` reads."""
    return Response(to_xml(description_of(body)), media_type="application/xml")
