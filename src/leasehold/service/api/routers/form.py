"""The submission form, a page for browsers. It is not authenticated; its requests carry the token typed into it."""

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
    """Return the page. It is public; the requests that it sends are not."""
    return HTMLResponse(page(), headers=dict(headers()))
