"""The dashboard: pages that show what the API answers, to whom the API would answer it.

Each page names the permission of the route whose content it shows, and calls the function of that route or reads the
store with the same filter. A page without a session leads to the sign-in; the first page shows sums to everyone, where
the configuration makes them public.
"""

import html
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from secrets import token_urlsafe
from time import monotonic
from typing import Annotated, Any
from urllib.parse import parse_qs, parse_qsl, quote, urlencode

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from leasehold.forecasting.calibration import ENOUGH
from leasehold.model.errors import InvalidField, LeaseholdError
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LEASE_TYPES
from leasehold.protocol.activity import DECIDED, DecisionFilter, QueuedLeasesFilter, QueueFilter, TimelineFilter
from leasehold.protocol.agreements import Agreement
from leasehold.protocol.base import RequestModel
from leasehold.protocol.fields import Name, Number, Text, moment_at, read_moment, unix_ms
from leasehold.protocol.forecasts import FIGURE_NAMES, LeaseEstimate, WhatIfSpec
from leasehold.protocol.leases import ExtensionSpec, JournalEntry, JournalQuery, Lease, LeaseFilter, LeaseSpec
from leasehold.protocol.nodes import NodeFilter
from leasehold.protocol.plans import ENOUGH_FUTURES, PlannedAlternative, PlanQuery
from leasehold.protocol.problems import Kind
from leasehold.protocol.sites import DrainSpec
from leasehold.routing.registry import routing_policy_names
from leasehold.service.api.authorizer import PLANNING, Authorized, Call, GuardedRoute, needs, seen_by
from leasehold.service.api.dashboard import figures
from leasehold.service.api.dashboard.pages import HEADERS, STATIC_FILES, ms_of, page, plural, static
from leasehold.service.api.routers import activity, agreements, forecasts, leases, nodes, sites, usage
from leasehold.service.api.routers.changes import EventStream, Follower, _place, follow
from leasehold.service.api.views import leases_named, show_change, show_lease
from leasehold.service.auth.errors import Forbidden, TooManyRequests, Unauthenticated
from leasehold.service.auth.permissions import FEDERATION, Permission, Target, allowed, reach, require, visible
from leasehold.service.auth.principal import Principal
from leasehold.service.auth.sessions import COOKIE, require_same_origin
from leasehold.service.auth.sign_in import COOKIE as SIGN_IN_COOKIE
from leasehold.service.auth.sign_in import LASTS_S, SignInError
from leasehold.service.engine.engine import Engine
from leasehold.service.errors import NoSuchLease, ServiceError, Unavailable
from leasehold.service.sites import Overview
from leasehold.service.store import filters
from leasehold.service.store.filters import EVERYTHING, JournalFilter, Visible
from leasehold.service.store.rows import JournalRow
from leasehold.sharing.broker import next_room_ms, readings
from leasehold.sharing.offers import BrokerReading

HOME, DOCS, ICON, SIGN_IN, STATIC, FORM = "/", "/docs", "/favicon.ico", "/sign-in", "/static", "/form/jobs"
PROVIDER, CALLBACK = f"{SIGN_IN}/provider", f"{SIGN_IN}/callback"
OPEN_PAGES = (HOME, DOCS, ICON, SIGN_IN, PROVIDER, CALLBACK, *(f"{STATIC}/{name}" for name in STATIC_FILES))

FRESH_S = 2.0
"""How long one snapshot is served to all callers without a session: together they cost the engine one query."""

_BAD_GATEWAY = 502
PAGE = 50
NOBODY = Visible()
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class NavigationItem:
    """One entry of the navigation."""

    path: str
    title: str


NAVIGATION = (
    NavigationItem("/", "Overview"),
    NavigationItem("/loans", "Loans"),
    NavigationItem("/queue", "Queue"),
    NavigationItem("/timeline", "Timeline"),
    NavigationItem("/leases", "Leases"),
    NavigationItem("/nodes", "Nodes"),
    NavigationItem("/what-if", "What if"),
    NavigationItem("/history", "History"),
    NavigationItem("/decisions", "Decisions"),
)
"""The pages, in the order of an owner's questions."""


class PageRoute(GuardedRoute):
    """A route for people: who has no session is led to the sign-in, and back."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Handle the request as any guarded route does, but for the sign-in."""
        guarded = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await guarded(request)
            except Unauthenticated:
                if request.method != "GET" or request.headers.get("authorization"):
                    raise
                here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                if request.headers.get("sec-fetch-site") == "cross-site":
                    return _once_more(_prefix(request) + here)
                return RedirectResponse(f"{_prefix(request)}{SIGN_IN}?next={quote(here, safe='')}", 303)

        return handle


def _once_more(address: str) -> HTMLResponse:
    """Ask the browser for the page again, as from here: a link on another site comes without the session."""
    refresh = (
        f'<!DOCTYPE html><meta http-equiv="refresh" content="0;url={html.escape(address)}"><title>Leasehold</title>'
    )
    return HTMLResponse(refresh, headers=dict(HEADERS))


router = APIRouter(route_class=PageRoute, include_in_schema=False)


# --- the frame -----------------------------------------------------------------------------------------------


def _prefix(request: Request) -> str:
    prefix: str = request.app.state.settings.prefix
    return prefix


def show(
    call: Call, request: Request, template: str, here: str, status: int = 200, /, **values: object
) -> HTMLResponse:
    """Show a page within the frame; ``here`` is the entry of the navigation that it belongs to."""
    federation, principal = call.federation, call.principal
    frame: dict[str, object] = {
        "version": request.app.state.settings.version,
        "navigation": NAVIGATION,
        "here": here,
        "caller": principal if principal.consumer else None,
        "may_submit": _may_submit(principal),
        "ready": federation.health.ready,
        "why_not": federation.health.why_not if principal.consumer else "",
        "now_ms": federation.clock(),
        "last_seq": federation.feed.last_seq,
        "address": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
    }
    return page(template, _prefix(request), status, **(frame | values))


def _may_submit(principal: Principal) -> bool:
    return any(reach(principal, one) for one in (Permission.LEASE_SUBMIT, Permission.LEASE_SUBMIT_LOCAL))


async def _form(request: Request) -> dict[str, str]:
    """Read the fields of a form; of several with one name, the last."""
    return {name: value.strip() for name, value in parse_qsl((await request.body()).decode("utf-8", "replace"))}


def _link(request: Request, path: str, **changed: object) -> str:
    """Return the address of a page with these parameters, without those that are None."""
    query = {name: value for name, value in changed.items() if value not in (None, "")}
    return f"{_prefix(request)}{path}" + (f"?{urlencode(query)}" if query else "")


@router.get(STATIC + "/{name}")
@needs(Permission.SITE_SEE)
async def show_static(name: str) -> Response:
    """Give a style, a script, or the licences of what comes from others."""
    return static(name) or Response(status_code=404)


@router.get(ICON)
@needs(Permission.SITE_SEE)
async def show_no_icon() -> Response:
    """Browsers ask for one by themselves; pages that are ours have none."""
    return Response(status_code=204, headers={"Cache-Control": "max-age=86400"})


# --- sign in and out -----------------------------------------------------------------------------------------


def _back(request: Request, address: str) -> str:
    """Return where to go after the sign-in: a page of ours, whatever the address says."""
    inside = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return _prefix(request) + (address if inside else HOME)


@router.get(SIGN_IN, response_class=HTMLResponse)
@needs(Permission.SITE_SEE)
async def show_sign_in(call: Authorized, request: Request, next: str = HOME, code: str = "") -> Response:  # noqa: A002
    """Show the sign-in; a link with the code of one signs in at once."""
    token = request.app.state.sessions.token_of_link(code) if code else ""
    if token:
        return await _signed_in(request, token, next)
    problem = "This sign-in link has expired: the gateway was restarted." if code else ""
    return _sign_in_page(call, request, next, problem)


@router.post(SIGN_IN, response_class=HTMLResponse)
@needs(Permission.SITE_SEE)
async def sign_in(call: Authorized, request: Request) -> Response:
    """Begin a session with the token that was typed in."""
    origin = call.federation.config.service.url or str(request.base_url)
    require_same_origin(request.method, request.headers, origin)
    fields = await _form(request)
    address = fields.get("next", HOME)
    try:
        return await _signed_in(request, fields.get("token", ""), address)
    except (Unauthenticated, TooManyRequests) as error:
        status = error.status if isinstance(error, Unauthenticated) else 429
        said = str(error)
        return _sign_in_page(call, request, address, f"{said[:1].upper()}{said[1:]}.", status)


def _sign_in_page(call: Call, request: Request, address: str, problem: str, status: int = 200) -> HTMLResponse:
    providers = request.app.state.sign_in.names
    return show(call, request, "sign-in.html", SIGN_IN, status, next=address, problem=problem, providers=providers)


@router.post(PROVIDER)
@needs(Permission.SITE_SEE)
async def sign_in_at_provider(call: Authorized, request: Request) -> Response:
    """Begin a sign-in at an OpenID provider."""
    base = call.federation.config.service.url or f"{str(request.base_url).rstrip('/')}{_prefix(request)}"
    require_same_origin(request.method, request.headers, base)
    fields = await _form(request)
    address = fields.get("next", HOME)
    try:
        provider, cookie = await request.app.state.sign_in.begin(
            fields.get("provider", ""), f"{base}{CALLBACK}", address
        )
    except SignInError as error:
        return _sign_in_page(call, request, address, f"{error}.", _BAD_GATEWAY)
    # a form leads only to this gateway, as its policy says; a page of ours leads on
    response = _once_more(provider)
    response.set_cookie(
        SIGN_IN_COOKIE,
        cookie,
        max_age=LASTS_S,
        path=f"{_prefix(request)}{SIGN_IN}",
        secure=base.startswith("https:"),
        httponly=True,
        samesite="lax",  # it is sent when the provider sends the browser back
    )
    return response


@router.get(CALLBACK)
@needs(Permission.SITE_SEE)
async def end_sign_in(call: Authorized, request: Request) -> Response:
    """Take the browser back from the provider, and begin its session."""
    cookie = request.cookies.get(SIGN_IN_COOKIE, "")
    try:
        token, address = await request.app.state.sign_in.end(cookie, request.query_params)
        response = await _signed_in(request, token, address)
    except SignInError as error:
        return _sign_in_page(call, request, HOME, f"{error}.", _BAD_GATEWAY)
    except (Unauthenticated, Forbidden, TooManyRequests, Unavailable) as error:
        return _sign_in_page(call, request, HOME, f"{error}.", 403)
    # what the browser asks for on this way still counts as sent by the provider, without the session: it asks again
    page = _once_more(_back(request, address))
    page.raw_headers.extend(pair for pair in response.raw_headers if pair[0] == b"set-cookie")
    page.delete_cookie(SIGN_IN_COOKIE, path=f"{_prefix(request)}{SIGN_IN}")
    return page


async def _signed_in(request: Request, token: str, address: str) -> Response:
    peer = request.client.host if request.client else ""
    cookie, lasts_s = await request.app.state.sessions.begin(token, peer)
    response = RedirectResponse(_back(request, address), 303, headers={"Cache-Control": "no-store"})
    url: str = request.app.state.authorizer.federation.config.service.url
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=lasts_s,
        path=_prefix(request) or "/",
        secure=request.url.scheme == "https" or url.startswith("https:"),
        httponly=True,
        samesite="strict",
    )
    return response


@router.post("/sign-out")
@needs(Permission.SITE_SEE)
async def sign_out(request: Request) -> Response:
    """End the session."""
    response = RedirectResponse(f"{_prefix(request)}/", 303)
    response.delete_cookie(COOKIE, path=_prefix(request) or "/", httponly=True, samesite="strict")
    return response


# --- 1: overview ---------------------------------------------------------------------------------------------


class LastLook:
    """The last snapshot for callers without a session."""

    def __init__(self) -> None:
        self._at_s = float("-inf")
        self._overview: Overview | None = None

    async def overview(self, call: Call) -> Overview:
        """Return the last snapshot if it is fresh, else a new one."""
        if self._overview is None or monotonic() - self._at_s > FRESH_S:
            self._overview = await call.federation.sites.overview(NOBODY)
            self._at_s = monotonic()
        return self._overview


_GIVING_WAY = (LeaseState.SUSPENDING, LeaseState.SUSPENDED, LeaseState.MIGRATING, LeaseState.RESUMING)


@router.get(HOME, response_class=HTMLResponse)
@needs(Permission.SITE_SEE)
async def show_overview(call: Authorized, request: Request) -> HTMLResponse:
    """Show each site as a bar, what is on loan to whom, and who gives way now."""
    state, principal, federation = request.app.state, call.principal, call.federation
    url = federation.config.service.url or str(request.base_url).rstrip("/")
    if not principal.consumer and state.settings.page_needs_token:
        return show(call, request, "welcome.html", HOME, url=url)
    sees = visible(principal, Permission.LEASE_SEE) if reach(principal, Permission.LEASE_SEE) else NOBODY
    await state.today.look(federation)
    if principal.consumer:
        overview = await federation.sites.overview(sees)
        giving = filters.LeaseFilter(sees, states=_GIVING_WAY, open=True)
        recalls = [show_lease(row) for row in await run_in_threadpool(federation.store.leases, giving, PAGE)]
    else:
        overview, recalls = await state.last_look.overview(call), []
    bars = [figures.site_bar(site) for site in overview.sites]
    used = {kind for bar in bars for kind, vms in bar.kinds.items() if vms}
    return show(
        call,
        request,
        "overview.html",
        HOME,
        bars=bars,
        kinds=[kind for kind in figures.KINDS if kind in used or kind in ("own users", "free")],
        waiting=overview.waiting,
        lent=sum(bar.lent for bar in bars),
        slots=sum(bar.slots for bar in bars),
        free=sum(bar.free for bar in bars),
        today=state.today,
        delay_ms=figures.DELAY_MS,
        loans=figures.loans_now(overview),
        recalls=recalls,
        url=url,
    )


# --- 2: loans ------------------------------------------------------------------------------------------------

_PERIODS: Mapping[str, tuple[str, int, int]] = {
    "1h": ("hour", 3_600_000, 120_000),
    "1d": ("24 hours", _DAY_MS, 3_600_000),
    "7d": ("7 days", 7 * _DAY_MS, 6 * 3_600_000),
    "30d": ("30 days", 30 * _DAY_MS, _DAY_MS),
}
"""Periods by name: their title, how long they are, and the steps in which they are drawn (ms)."""


def _period(call: Call, name: str) -> tuple[str, int, int, int]:
    """Return the title of a period, its begin and its end, and its step; it begins at a whole step."""
    if name not in _PERIODS:
        raise InvalidField("period", name, f"one of {', '.join(_PERIODS)}")
    title, span_ms, step_ms = _PERIODS[name]
    now_ms = call.federation.clock()
    return title, (now_ms - span_ms) // step_ms * step_ms, now_ms, step_ms


@router.get("/loans", response_class=HTMLResponse)
@needs(Permission.USAGE_SEE)
async def show_loans(call: Authorized, request: Request, period: str = "1h") -> HTMLResponse:
    """Show who lent how much to whom, and the agreements under which it was."""
    title, begin_ms, end_ms, step_ms = _period(call, period)
    which = filters.UsageFilter(visible(call.principal, Permission.USAGE_SEE), begin_ms, end_ms)
    used, steps = await call.federation.agreements.drawn_up(
        lambda accounts: usage.used_in_steps(call.federation.store, accounts.going_on, which, step_ms)
    )
    config = call.federation.config
    domains = {site: domain.name for domain in config.domains for site in domain.sites}
    providers = dict.fromkeys(domains.get(site.name, site.name) for site in config.clusters)
    under: tuple[Agreement, ...] = ()
    if reach(call.principal, Permission.AGREEMENT_SEE):
        under = (await agreements.list_agreements(call)).agreements
    return show(
        call,
        request,
        "loans.html",
        "/loans",
        matrix=figures.matrix(used, steps, list(providers)),
        balances=usage.show_balances(used),
        period=period,
        periods=_PERIODS,
        title=title,
        step_ms=step_ms,
        agreements=under,
    )


@router.get("/agreements/{name}", response_class=HTMLResponse)
@needs(Permission.AGREEMENT_SEE)
async def show_agreement(call: Authorized, request: Request, name: str) -> HTMLResponse:
    """Show the terms of an agreement, and how much of each of its windows is used."""
    agreement = await agreements.show_one_agreement(call, name)
    state = await call.federation.agreements.get(name)
    now_ms = call.federation.clock()
    consumer = str(agreement.current.terms.get("consumer", ""))

    def read(engine: Engine) -> list[tuple[str, BrokerReading, int | None]]:
        sharing = engine.gateway.quotas.sharing
        if sharing is None:
            return []
        places = [site for site in state.sites.sites if site in engine.gateway.sites]
        return [
            (site, one, next_room_ms(sharing, one, site, now_ms))
            for site in places
            for one in readings(sharing, consumer, site, now_ms)
            if one.agreement == name
        ]

    windows = await call.federation.ask(read)
    return show(call, request, "agreement.html", "/loans", agreement=agreement, windows=windows, consumer=consumer)


# --- 3: queue ------------------------------------------------------------------------------------------------


class QueueQuery(RequestModel):
    """What of the queue: of this consumer, type and last reason, at this site; and where a page begins."""

    consumer: Text = ""
    type: Text = ""
    reason: Text = ""
    site: Text = ""
    cursor: Text = ""


@router.get("/queue", response_class=HTMLResponse)
@needs(Permission.LEASE_SEE)
async def show_queue(
    call: Authorized, request: Request, response: Response, query: Annotated[QueueQuery, Query()]
) -> HTMLResponse:
    """Show what waits, in groups first: by consumer, type and reason; and the leases of a group."""
    if query.type and query.type not in LEASE_TYPES:
        raise InvalidField("type", query.type, f"one of {', '.join(LEASE_TYPES)}")
    found = await activity.show_groups_of_queue(call, QueueFilter.of(site=query.site))
    chosen = query.model_dump(exclude={"cursor"})
    rows: tuple[Lease, ...] = ()
    following = None
    if any(chosen.values()) or found.leases <= PAGE:
        which = QueuedLeasesFilter.of(**chosen, limit=PAGE, cursor=query.cursor)
        listed = await activity.list_queued_leases(call, which, request, response)
        rows = listed.leases
        following = _link(request, "/queue", **chosen, cursor=listed.next) if listed.next else None
    return show(
        call,
        request,
        "queue.html",
        "/queue",
        groups=figures.grouped(found.groups),
        total=found.leases,
        vms=found.vms,
        chosen={name: value for name, value in chosen.items() if value},
        rows=rows,
        expected=await _expected_of(call, rows),
        following=following,
        is_first=not query.cursor,
    )


async def _expected_of(call: Call, rows: Sequence[Lease]) -> Mapping[int, LeaseEstimate]:
    """Look up the estimates of these leases that the caller was just shown."""
    found, now_ms = call.federation.forecasts, call.federation.clock()
    known = ((row.id, found.of(row.id)) for row in rows if not row.is_over)
    return {lease_id: forecasts.show(one, now_ms) for lease_id, one in known if one is not None}


# --- 4: timeline ---------------------------------------------------------------------------------------------

_SPANS: Mapping[str, int] = {
    "1m": 60_000, "2m": 120_000, "5m": 300_000, "15m": 900_000, "1h": 3_600_000, "6h": 21_600_000, "1d": _DAY_MS,
}  # fmt: skip
_COMFORTABLE = 350
"""So many leases are well seen in one timeline."""


class TimelineQuery(RequestModel):
    """Which part of the timeline: of this length, up to a moment, of one site; and the lease to mark."""

    span: Text = ""
    to: Text = ""
    site: Text = ""
    lease: Number = 0


@router.get("/timeline", response_class=HTMLResponse)
@needs(Permission.USAGE_SEE)
async def show_timeline(call: Authorized, request: Request, query: Annotated[TimelineQuery, Query()]) -> HTMLResponse:
    """Show what leases held, site by site, and who took room from whom."""
    now_ms, site = call.federation.clock(), query.site
    sees = visible(call.principal, Permission.USAGE_SEE)
    end_ms = min(now_ms, _moment("to", query.to)) if query.to else now_ms
    span = query.span or await run_in_threadpool(_fitting_span, call, sees, end_ms)
    if span not in _SPANS:
        raise InvalidField("span", span, f"one of {', '.join(_SPANS)}")
    window = (end_ms - _SPANS[span], end_ms)
    which = TimelineFilter.of(
        since=moment_at(window[0]), until=moment_at(window[1]), site=site, limit=figures.MOST_SEGMENTS
    )
    found = await activity.show_what_was_held(call, which)
    half_ms = _SPANS[span] // 2
    return show(
        call,
        request,
        "timeline.html",
        "/timeline",
        lanes=figures.lanes(found),
        more=found.more,
        window=window,
        span=span,
        spans=_SPANS,
        site=site,
        sites=[one.name for one in call.federation.config.clusters],
        chosen=query.lease,
        is_now=not query.to,
        preemptions=found.preemptions[::-1],
        earlier=_link(request, "/timeline", span=span, site=site, to=_iso(end_ms - half_ms)),
        later=_link(request, "/timeline", span=span, site=site, to=_iso(end_ms + half_ms)) if query.to else None,
        current=_link(request, "/timeline", span=span, site=site),
        ticks=[(10_000 * tick // 6, window[0] + _SPANS[span] * tick // 6) for tick in range(1, 6)],
        sees_all=sees.everything,
    )


def _fitting_span(call: Call, sees: Visible, end_ms: int) -> str:
    """Choose the span in which a few hundred leases held machines: minutes of a busy site, a day of a quiet one."""
    which = filters.UsageFilter(sees, end_ms - _DAY_MS, end_ms)
    latest = call.federation.store.holding_between(which, _COMFORTABLE)
    if not latest:
        return "1h"
    age_ms = end_ms - latest[-1].end_ms
    if len(latest) == _COMFORTABLE:
        return next((name for name, span_ms in reversed([*_SPANS.items()]) if span_ms <= age_ms), "1m")
    return next((name for name, span_ms in _SPANS.items() if span_ms >= age_ms), "1h")


async def _seer(call: Call, lines: Sequence[JournalRow]) -> Callable[[int], bool]:
    return await run_in_threadpool(seen_by, call, Permission.LEASE_SEE, leases_named(lines))


def _iso(at_ms: int) -> str:
    return f"{moment_at(at_ms).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _moment(field: str, text: str) -> int:
    try:
        return unix_ms(read_moment(text))
    except ValueError as error:
        raise InvalidField(field, text, str(error)) from None


# --- 5: leases, and the story of one -------------------------------------------------------------------------


class LeasesQuery(RequestModel):
    """Which leases: in these states, of this consumer; or the one of this number."""

    id: Text = ""
    state: Text = ""
    consumer: Text = ""
    cursor: Text = ""


_STATES: Mapping[str, Mapping[str, object]] = {
    "": {},
    "open": {"open": True},
    "running": {"state": ["running"]},
    "preempted": {"state": ["suspending", "suspended", "resuming", "migrating"]},
    "over": {"open": False},
}


@router.get("/leases", response_class=HTMLResponse)
@needs(Permission.LEASE_SEE)
async def show_leases(
    call: Authorized, request: Request, response: Response, query: Annotated[LeasesQuery, Query()]
) -> Response:
    """List leases, newest first, and find one by its number."""
    if query.id:
        return RedirectResponse(f"{_prefix(request)}/leases/{quote(query.id, safe='')}", 303)
    if query.state not in _STATES:
        raise InvalidField("state", query.state, f"one of {', '.join(filter(None, _STATES))}")
    wanted = LeaseFilter.of(**_STATES[query.state], consumer=query.consumer, limit=PAGE, cursor=query.cursor)
    found = await leases.list_leases(call, wanted, request, response)
    chosen = {"state": query.state, "consumer": query.consumer}
    return show(
        call,
        request,
        "leases.html",
        "/leases",
        rows=found.leases,
        expected=await _expected_of(call, found.leases),
        states=list(_STATES),
        following=_link(request, "/leases", **chosen, cursor=found.next) if found.next else None,
        is_first=not query.cursor,
        **chosen,
    )


@router.get("/leases/{lease_id:number}", response_class=HTMLResponse)
@needs(Permission.LEASE_SEE)
async def show_story(
    call: Authorized,
    request: Request,
    response: Response,
    *,
    lease_id: Number,
    cursor: str = "",
    done: str = "",
    help: str = "",  # noqa: A002 - its name in the address
) -> HTMLResponse:
    """Tell what happened to a lease and why, and offer what the caller may do with it; on demand, what would help."""
    return await _story(call, request, response, lease_id, cursor=cursor, done=done, helps=bool(help))


_DONE = {
    "cancelled": "The lease was cancelled.",
    "extended": "The lease was extended.",
    "asked": "Its site was asked to extend the lease, and has not answered yet.",
    "submitted": "Submitted.",
    "drained": "The site is drained: no more leases start here, and running ones stay.",
    "resumed": "The site takes leases again.",
}


async def _story(  # noqa: PLR0913 - as above
    call: Call,
    request: Request,
    response: Response,
    lease_id: int,
    *,
    cursor: str = "",
    done: str = "",
    helps: bool = False,
    problem: str = "",
    status: int = 200,
) -> HTMLResponse:
    federation = call.federation
    lease = await leases.show_one_lease(call, lease_id)
    explained = None
    if helps:  # alternatives are planned by the engine, so nobody is given them who did not ask
        call.charge(PLANNING)
        explained = await leases.explain_lease(call, lease_id)
    query = JournalQuery.of(limit=200, cursor=cursor)
    journal = await leases.show_journal(call, lease_id, query, request, response)
    row = await run_in_threadpool(federation.store.lease, lease_id)
    target = Target() if row is None else Target.lease(row)
    taken = await run_in_threadpool(_room_taken, call, lease_id, journal.entries)
    now_ms = federation.clock()
    end_ms = now_ms if lease.ended_at is None else ms_of(lease.ended_at)
    return show(
        call,
        request,
        "lease.html",
        "/leases",
        status,
        lease=lease,
        entries=journal.entries,
        following=_link(request, f"/leases/{lease_id}", cursor=journal.next) if journal.next else None,
        phases=figures.phases(journal.entries, end_ms),
        taken=taken,
        may_cancel=not lease.is_over and allowed(call.principal, Permission.LEASE_CANCEL, target),
        may_extend=lease.state is LeaseState.RUNNING and allowed(call.principal, Permission.LEASE_EXTEND, target),
        done=_DONE.get(done, ""),
        problem=problem,
        waited_ms=_waited_ms(lease, now_ms),
        expected=None if lease.is_over else await _expected(call, lease_id),
        explained=explained,
        help_link=_link(request, f"/leases/{lease_id}", help=1),
    )


async def _expected(call: Call, lease_id: int) -> LeaseEstimate | None:
    try:
        return await forecasts.show_estimate(call, lease_id)
    except NoSuchLease:
        return None  # nothing is known of it yet


def _waited_ms(lease: Lease, now_ms: int) -> int:
    earliest_ms = max(ms_of(lease.submitted_at), ms_of(lease.ready_at))
    until = lease.started_at or lease.ended_at
    return max(0, (now_ms if until is None else ms_of(until)) - earliest_ms)


def _room_taken(call: Call, lease_id: int, entries: Sequence[JournalEntry]) -> list[figures.Taken]:
    """Find from whom room was taken for a lease: the lines of those who gave it are beside that of its start."""
    store, found = call.federation.store, []
    for entry in entries:
        if entry.what != Outcome.START.value or entry.reason not in (Reason.ROOM_MADE, Reason.RESERVED_START):
            continue
        around = JournalFilter(EVERYTHING, whats=(Outcome.PREEMPT.value,), site=entry.site)
        lines = store.lines_between(entry.seq - 2_000, entry.seq + 200, 500, which=around)
        for at_ms, record in figures.taken_for(lease_id, lines).items():
            victims = [one for one in record.get("victims") or [] if isinstance(one, int)]  # type: ignore[attr-defined]
            may_see = seen_by(call, Permission.LEASE_SEE, set(victims))
            seen = tuple(one for one in victims if may_see(one))
            hidden = len(victims) - len(seen)
            sizes = [record.get(name) if not hidden else None for name in ("freed_vms", "needed_vms")]
            freed, needed = (one if isinstance(one, int) else None for one in sizes)
            found.append(figures.Taken(at_ms, entry.site, seen, hidden, freed, needed))
    return found


@router.post("/leases/{lease_id:number}/cancel")
@needs(Permission.LEASE_CANCEL)
async def cancel(call: Authorized, request: Request, lease_id: Number) -> Response:
    """Cancel a lease, and show it."""
    await leases.cancel_lease(call, lease_id)
    return RedirectResponse(_link(request, f"/leases/{lease_id}", done="cancelled"), 303)


@router.post("/leases/{lease_id:number}/extend", response_class=HTMLResponse)
@needs(Permission.LEASE_EXTEND)
async def extend(call: Authorized, request: Request, response: Response, lease_id: Number) -> Response:
    """Extend a lease by minutes, and show it; or why it cannot be."""
    minutes = (await _form(request)).get("minutes", "")
    try:
        by_s = round(float(minutes) * 60, 3)
        lease = await leases.extend_lease(call, response, lease_id, ExtensionSpec(by_s=by_s))
    except ValueError:
        problem = f"minutes: got {minutes!r}, expected a number"
        return await _story(call, request, response, lease_id, problem=problem, status=422)
    except (InvalidField, ServiceError) as error:
        if isinstance(error, NoSuchLease):
            raise
        status = error.kind.status if isinstance(error, ServiceError) else Kind.INVALID_REQUEST.status
        return await _story(call, request, response, lease_id, problem=str(error), status=status)
    return RedirectResponse(
        _link(request, f"/leases/{lease_id}", done="extended" if lease.asked_duration_s is None else "asked"), 303
    )


# --- 6: nodes ------------------------------------------------------------------------------------------------


@router.get("/nodes", response_class=HTMLResponse)
@needs(Permission.NODE_SEE)
async def show_nodes(
    call: Authorized, request: Request, response: Response, site: str = "", cursor: str = "", done: str = ""
) -> HTMLResponse:
    """Show the nodes of a site as bars: what is in use of their cores, and what is wrong with them."""
    states = (await sites.list_sites(call)).sites
    names = [one.name for one in states]
    site = site or (names[0] if names else "")
    state = await sites.show_one_site(call, site)
    query = NodeFilter.of(site=site, brief=True, limit=200, cursor=cursor)
    found = await nodes.list_nodes(call, query, request, response)
    following = _link(request, "/nodes", site=site, cursor=found.next) if found.next else None
    may_drain = allowed(call.principal, Permission.SITE_DRAIN, Target.site(state.name))
    return show(
        call,
        request,
        "nodes.html",
        "/nodes",
        site=state,
        sites=names,
        rows=sorted(found.nodes, key=lambda node: in_order(node.name)),
        following=following,
        may_drain=may_drain,
        done=_DONE.get(done, ""),
        is_first=not cursor,
    )


def in_order(name: str) -> list[tuple[int, str]]:
    """Give the order of names in which numbers count as such: n2 is before n10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


@router.post("/sites/{name}/drain")
@needs(Permission.SITE_DRAIN)
async def drain(call: Authorized, request: Request, name: Name) -> Response:
    """Drain a site with the note of the form, and show it."""
    note = (await _form(request)).get("note", "")
    await sites.drain_site(call, name, DrainSpec(note=note))
    return RedirectResponse(_link(request, "/nodes", site=name, done="drained"), 303)


@router.post("/sites/{name}/resume")
@needs(Permission.SITE_DRAIN)
async def resume(call: Authorized, request: Request, name: Name) -> Response:
    """Let a site take leases again, and show it."""
    await sites.resume_site(call, name)
    return RedirectResponse(_link(request, "/nodes", site=name, done="resumed"), 303)


# --- 7: what if ----------------------------------------------------------------------------------------------

_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600}


def _spec(fields: Mapping[str, str]) -> LeaseSpec:
    """Read a lease from the fields of the form; raises InvalidField."""
    values: dict[str, object] = {name: fields.get(name, "") for name in ("name", "group", "domain", "image", "ssh_key")}
    for name in ("vms", "memory_mib"):
        text = fields.get(name, "")
        if text or name == "vms":
            if not text.isdecimal() or not text.isascii():
                raise InvalidField(name, text, "a whole number")
            values[name] = int(text)
    try:
        values["duration_s"] = round(float(fields.get("duration_s", "")) * _UNITS.get(fields.get("unit", ""), 60), 3)
    except (ValueError, OverflowError):
        raise InvalidField("duration_s", fields.get("duration_s", ""), "a number") from None
    if fields.get("type") == "local":
        values |= {"local": True, "site": fields.get("site") or None}
    else:
        values["type"] = fields.get("type")
    if fields.get("command"):
        values["command"] = ["sh", "-c", fields["command"]]
    return LeaseSpec.of(**values)


def _lease_form(call: Call, fields: Mapping[str, str], problem: str = "", wrong: str = "") -> dict[str, object]:
    """Give what the form of a lease shows; a problem of a field that is not in it is told above it."""
    config, principal = call.federation.config, call.principal
    names = [one.name for one in config.clusters]
    homes = [name for name in names if allowed(principal, Permission.LEASE_SUBMIT_LOCAL, Target.site(name))]
    is_shown = wrong in ("type", "vms", "duration_s", "memory_mib", "domain", "image", "ssh_key") or (
        (wrong == "site" and homes) or (wrong == "group" and principal.groups)
    )
    return {
        "fields": fields,
        "types": list(LEASE_TYPES),
        "homes": homes,
        "groups": principal.groups,
        "images": call.federation.images,
        "may_guest": bool(reach(principal, Permission.LEASE_SUBMIT)),
        "problem": problem,
        "wrong": wrong if is_shown else "",
        "key": token_urlsafe(16),
    }


@router.get("/what-if", response_class=HTMLResponse)
@needs(Permission.LEASE_SUBMIT, Permission.LEASE_SUBMIT_LOCAL)
async def show_what_if(call: Authorized, request: Request) -> HTMLResponse:
    """Say what would happen to a request made now; nothing is submitted. Its address holds the request."""
    fields = {name: values[-1] for name, values in parse_qs(request.url.query).items()}
    found, problem, wrong = None, "", ""
    if fields.get("vms"):
        try:
            call.charge(PLANNING)
            found = await leases.plan_lease(call, _spec(fields), _read_query(fields))
        except InvalidField as error:
            problem, wrong = str(error), error.field
        except LeaseholdError as error:
            problem = str(error)
    compared, no_change = None, ""
    if "horizon" in fields:
        require(call.principal, Permission.FUTURE_ASK, FEDERATION)
        try:
            compared = await forecasts.ask_what_if(call, _changes(fields))
        except InvalidField as error:
            no_change = str(error)
    can_foresee = found is not None and found.verdict != "refused" and found.elsewhere is None
    others = [] if found is None else [(one, _asked_so(request, fields, one)) for one in found.alternatives]
    return show(
        call,
        request,
        "what-if.html",
        "/what-if",
        422 if problem or no_change else 200,
        found=found,
        others=others,
        enough=ENOUGH_FUTURES,
        foresee=_link(request, "/what-if", **{**fields, "within_s": _FORESEEN_S})
        if can_foresee and not fields.get("within_s")
        else "",
        may_ask=allowed(call.principal, Permission.FUTURE_ASK, FEDERATION),
        compared=compared,
        no_change=no_change,
        figure_names=FIGURE_NAMES,
        sites=[one.name for one in await call.federation.sites.list()],
        policies=routing_policy_names(),
        **_lease_form(call, fields, problem, wrong),
    )


def _changes(fields: Mapping[str, str]) -> WhatIfSpec:
    """Read what would be different, and for how long, from the fields of the form; raises InvalidField."""
    changes: list[dict[str, object]] = [{name: fields[name]} for name in ("drain", "policy") if fields.get(name)]
    if fields.get("load"):
        changes.append({"load": _finite(fields, "load")})
    if fields.get("resize") or fields.get("slots"):
        changes.append({"site": fields.get("resize", ""), "slots": _size(fields, "slots")})
    if fields.get("lend") or fields.get("share"):
        changes.append({"lend": fields.get("lend", ""), "share": _finite(fields, "share") / 100})
    if fields.get("add") or fields.get("add_slots"):
        changes.append({"add_site": fields.get("add", ""), "slots": _size(fields, "add_slots")})
    if not changes:
        raise InvalidField("changes", "", "at least one change")
    return WhatIfSpec(changes=changes, horizon_s=round(_finite(fields, "horizon") * 3600, 3))


def _read_query(fields: Mapping[str, str]) -> PlanQuery:
    """Read for how long to simulate futures; raises InvalidField."""
    return PlanQuery.of(within_s=fields.get("within_s") or "0")


_FORESEEN_S = 2
"""Seconds of a processor that the answer to a request is worth: as on the command line."""


def _size(fields: Mapping[str, str], name: str) -> int:
    slots = fields.get(name, "")
    if not slots.isdecimal() or not slots.isascii() or len(slots) > _DIGITS:
        raise InvalidField(name, slots, f"a whole number of at most {_DIGITS} digits")
    return int(slots)


_DIGITS = 9
"""Of the size of a site: more would be a slip."""


def _finite(fields: Mapping[str, str], name: str) -> float:
    given = fields.get(name, "")
    try:
        value = float(given)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise InvalidField(name, given, "a number")
    return value


def _asked_so(request: Request, fields: Mapping[str, str], other: PlannedAlternative) -> str | None:
    """Return the address of the same question with an alternative in place of what was asked for.

    None for a later start, which the form does not have.
    """
    if other.change == "ready":
        return None
    changed: dict[str, object] = {"type": other.type, "vms": other.vms, "domain": other.domain}
    if other.duration_s is not None:
        changed |= {"duration_s": other.duration_s, "unit": "seconds"}
    return _link(request, "/what-if", **{**fields, **{name: value for name, value in changed.items() if value}})


@router.get("/submit", response_class=HTMLResponse)
@needs(Permission.LEASE_SUBMIT, Permission.LEASE_SUBMIT_LOCAL)
async def show_submit(call: Authorized, request: Request) -> HTMLResponse:
    """Show the form for a lease."""
    fields = {name: values[-1] for name, values in parse_qs(request.url.query).items()}
    return show(call, request, "submit.html", "/submit", **_lease_form(call, fields))


@router.post("/submit", response_class=HTMLResponse)
@needs(Permission.LEASE_SUBMIT, Permission.LEASE_SUBMIT_LOCAL)
async def submit(call: Authorized, request: Request, response: Response) -> Response:
    """Submit a lease, and lead to its story; or say beside its field what is wrong. Sent twice, it is one lease."""
    fields = await _form(request)
    try:
        lease = await leases.submit_lease(call, _spec(fields), response, fields.get("key", ""))
    except InvalidField as error:
        form, status = _lease_form(call, fields, str(error), error.field), Kind.INVALID_REQUEST.status
    except ServiceError as error:
        form, status = _lease_form(call, fields, str(error)), error.kind.status
    else:
        return RedirectResponse(_link(request, f"/leases/{lease.id}", done="submitted"), 303)
    return show(call, request, "submit.html", "/submit", status, **form)


# --- 8: history ----------------------------------------------------------------------------------------------


@router.get("/history", response_class=HTMLResponse)
@needs(Permission.LEASE_SEE)
async def show_history(call: Authorized, request: Request, period: str = "1h") -> HTMLResponse:
    """Show how long leases waited, own users' and guests', and how often guests were preempted."""
    title, begin_ms, end_ms, step_ms = _period(call, period)
    which = filters.LeaseFilter(visible(call.principal, Permission.LEASE_SEE), since_ms=begin_ms)
    groups = await run_in_threadpool(call.federation.store.outcomes, which, 0, step_ms)
    may_see = bool(reach(call.principal, Permission.SITE_SEE))
    calibration = await forecasts.show_calibration(call) if may_see else None
    return show(
        call,
        request,
        "history.html",
        "/history",
        history=figures.history(groups, begin_ms, end_ms, step_ms),
        period=period,
        periods=_PERIODS,
        title=title,
        bucket_ms=step_ms,
        calibration=calibration,
        enough=ENOUGH,
    )


# --- 9: decisions --------------------------------------------------------------------------------------------


class DecisionsQuery(RequestModel):
    """Which decisions: of this kind, for this reason, at this site, about this; and where a page begins."""

    what: Text = ""
    reason: Text = ""
    site: Text = ""
    consumer: Text = ""
    lease: Text = ""
    cursor: Text = ""


@router.get("/decisions", response_class=HTMLResponse)
@needs(Permission.CHANGES_SEE)
async def show_decisions(
    call: Authorized, request: Request, response: Response, query: Annotated[DecisionsQuery, Query()]
) -> HTMLResponse:
    """List what was decided, latest first; each line has an address of its own."""
    if query.lease and not (query.lease.isascii() and query.lease.isdecimal()):
        raise InvalidField("lease", query.lease, "the number of a lease")
    chosen = query.model_dump(exclude={"cursor"})
    lease = int(query.lease) if query.lease else None
    which = DecisionFilter.of(**chosen | {"lease": lease}, limit=PAGE, cursor=query.cursor)
    found = await activity.list_decisions(call, which, request, response)
    return show(
        call,
        request,
        "decisions.html",
        "/decisions",
        lines=found.decisions,
        chosen=chosen,
        whats=DECIDED,
        reasons=sorted(Reason),
        sites=[one.name for one in call.federation.config.clusters],
        following=_link(request, "/decisions", **chosen, cursor=found.next) if found.next else None,
        is_first=not query.cursor,
    )


@router.get("/decisions/{seq}", response_class=HTMLResponse)
@needs(Permission.CHANGES_SEE)
async def show_decision(call: Authorized, request: Request, seq: Number) -> HTMLResponse:
    """Show one line of the journal."""
    which = JournalFilter(visible(call.principal, Permission.CHANGES_SEE))
    lines = await run_in_threadpool(call.federation.store.lines_between, seq - 1, seq, 1, which=which)
    if not lines:
        raise HTTPException(404)
    [line] = lines
    change = show_change(line, await _seer(call, lines))
    return show(call, request, "decision.html", "/decisions", change=change,
                 is_int=lambda value: isinstance(value, int) and not isinstance(value, bool))  # fmt: skip


# --- news ----------------------------------------------------------------------------------------------------


@router.get("/news", response_class=EventStream, dependencies=[Depends(_place)])
@needs(Permission.CHANGES_SEE)
async def tell_news(
    call: Authorized, request: Request, after: Annotated[Number, Query()], address: str = HOME, lease: Number = 0
) -> EventStream:
    """Tell a page how much has happened since it was made, as a line with a link that shows it; nothing moves."""
    which = JournalFilter(visible(call.principal, Permission.CHANGES_SEE), leases=(lease,) if lease else ())
    follower = Follower(
        federation=call.federation,
        which=which,
        may_listen=lambda: request.app.state.authorizer.reauthorize(request, Permission.CHANGES_SEE),
    )
    pages = follow(request.app.state.streams, follower, after)
    return EventStream(_news(pages, _back(request, address)),
                       headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})  # fmt: skip


async def _news(pages: AsyncIterator[list[JournalRow]], address: str) -> AsyncIterator[bytes]:
    count = 0
    async for lines in pages:
        count += len(lines)
        if not lines:
            yield KEEPALIVE_COMMENT
            continue
        text = f'{plural(count, "change")} since this page was made. <a href="{html.escape(address)}">Show</a>'
        yield format_sse_event(event="news", data_str=text)


# --- the interface -------------------------------------------------------------------------------------------


@router.get(DOCS, response_class=HTMLResponse)
@needs(Permission.SITE_SEE)
async def show_docs(call: Authorized, request: Request) -> HTMLResponse:
    """List every route, as a page."""
    return show(call, request, "docs.html", DOCS, tags=routes_of(request.app))


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
