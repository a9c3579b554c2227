"""The pages for people: what this gateway is and how its sites are, and which routes there are."""

from collections.abc import Mapping
from time import monotonic
from urllib.parse import parse_qs

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders

from leasehold.protocol.fields import show_moment
from leasehold.service.api.authorizer import Authorized, Call, GuardedRoute, needs
from leasehold.service.api.home.page import docs_page, headers, render, shown
from leasehold.service.api.routers.form import FORM
from leasehold.service.auth.errors import Unauthenticated
from leasehold.service.auth.permissions import Permission, reach, visible
from leasehold.service.auth.principal import Principal
from leasehold.service.sites import Overview
from leasehold.service.store.filters import Visible

HOME, DOCS, ICON = "/", "/docs", "/favicon.ico"
OPEN_PAGES = (HOME, DOCS, ICON, "/form")

FRESH_S = 2.0
"""How long one snapshot is served to all callers without a token: together they cost the engine one query."""

NOBODY = Visible()
_NOTHING: Mapping[str, object] = {"overview": None, "kinds": [], "holders": [], "more": 0}

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


class LastLook:
    """The last snapshot for callers without a token."""

    def __init__(self) -> None:
        self._at_s = float("-inf")
        self._overview: Overview | None = None

    async def overview(self, call: Call) -> Overview:
        """Return the last snapshot if it is fresh, else a new one."""
        if self._overview is None or monotonic() - self._at_s > FRESH_S:
            self._overview = await call.federation.sites.overview(NOBODY)
            self._at_s = monotonic()
        return self._overview


@router.get(HOME, response_class=HTMLResponse)
@needs(Permission.SITE_SEE)
async def show_home(call: Authorized, request: Request) -> HTMLResponse:
    """Show the page, with as much of the sites as the configuration makes public."""
    state = request.app.state
    if state.settings.page_needs_token:
        return _page(call, request, _NOTHING)
    return _page(call, request, shown(await state.last_look.overview(call)))


@router.post(HOME, response_class=HTMLResponse)
@needs(Permission.SITE_SEE)
async def show_home_to(request: Request) -> HTMLResponse:
    """Show the page for the token typed into it. Nothing is kept: no cookie, no session."""
    token = parse_qs((await request.body()).decode("utf-8", "replace")).get("token", [""])[0].strip()
    anonymous = Call(Principal("", frozenset()), request.app.state.authorizer.federation)
    try:
        call: Call = await request.app.state.authorizer.authorize(_showing(request, token), (Permission.SITE_SEE,))
    except Unauthenticated as error:
        return _page(anonymous, request, _NOTHING, error.status, problem=f"{error}.")
    principal = call.principal
    sees = visible(principal, Permission.LEASE_SEE) if reach(principal, Permission.LEASE_SEE) else NOBODY
    return _page(call, request, shown(await call.federation.sites.overview(sees)), consumer=principal.consumer)


def _showing(request: Request, token: str) -> Request:
    """Return the request as if the token had come in its header, for a path that accepts one."""
    scope = dict(request.scope, path="/v1/sites")
    sent = MutableHeaders(raw=[*scope["headers"]])
    sent["Authorization"] = f"Bearer {token.encode('ascii', 'replace').decode()}"
    scope["headers"] = sent.raw
    return Request(scope)


def _page(
    call: Call,
    request: Request,
    values: Mapping[str, object],
    status: int = 200,
    *,
    consumer: str = "",
    problem: str = "",
) -> HTMLResponse:
    federation, settings = call.federation, request.app.state.settings
    page = render(
        "home.html",
        settings.version,
        **values,
        consumer=consumer,
        problem=problem,
        ready=federation.health.ready,
        why_not=federation.health.why_not,
        now=show_moment(federation.clock()),
        url=federation.config.service.url or str(request.base_url).rstrip("/"),
    )
    return HTMLResponse(page, status, headers=dict(headers()))


@router.get(DOCS, response_class=HTMLResponse)
@needs(Permission.SITE_SEE)
async def show_docs(request: Request) -> HTMLResponse:
    """List every route, as a page."""
    settings = request.app.state.settings
    return HTMLResponse(docs_page(settings.version, routes_of(request.app)), headers=dict(headers()))


def routes_of(app: FastAPI) -> dict[str, list[dict[str, str]]]:
    """Give the routes of the interface by what they are about, each with the first line of what it does."""
    found: dict[str, list[dict[str, str]]] = {}
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            summary = route.description.partition("\n")[0]
            for method in sorted(route.methods or ()):
                line = {"method": method, "path": route.path_format, "says": summary}
                found.setdefault(str(route.tags[0] if route.tags else "others"), []).append(line)
    return found


@router.get("/form")
@needs(Permission.JOB_SUBMIT)
async def find_form() -> RedirectResponse:
    """Lead to the form."""
    return RedirectResponse(FORM)


@router.get(ICON)
@needs(Permission.SITE_SEE)
async def show_no_icon() -> Response:
    """Browsers ask for one by themselves; pages that are ours have none."""
    return Response(status_code=204, headers={"Cache-Control": "max-age=86400"})
