"""The submission form: a page for people. It knows nobody, and shows the token that is typed into it."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from leasehold.service.api.authorizer import GuardedRoute, needs
from leasehold.service.api.form.page import headers, page
from leasehold.service.auth.permissions import Permission

FORM = "/form/jobs"

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/form/jobs", response_class=HTMLResponse)
@needs(Permission.JOB_SUBMIT)
async def show_form() -> HTMLResponse:
    """Give the page. It is open to all; what it asks for is not."""
    return HTMLResponse(page(), headers=dict(headers()))
