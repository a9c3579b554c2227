"""The application: everything of the API put together. Any ASGI server can run it."""

from time import perf_counter
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leasehold.protocol.files import PIECE_BYTES
from leasehold.protocol.problems import MEDIA_TYPE
from leasehold.service.api.authorizer import Authorizer
from leasehold.service.api.dashboard.figures import Today
from leasehold.service.api.dashboard.pages import HEADERS, problem_page
from leasehold.service.api.error_handlers import Problems
from leasehold.service.api.openapi import DESCRIPTION, TAGS, TITLE, finish
from leasehold.service.api.routers import (
    activity,
    agreements,
    changes,
    coallocations,
    dashboard,
    files,
    forecasts,
    form,
    guest_files,
    health,
    jobs,
    leases,
    messages,
    nodes,
    peers,
    sites,
    usage,
)
from leasehold.service.api.routers import tokens as tokens_
from leasehold.service.api.routers.changes import Streams
from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.authenticator import Authenticator
from leasehold.service.auth.limits import Limiter
from leasehold.service.auth.sessions import Sessions
from leasehold.service.auth.sign_in import SignIn
from leasehold.service.auth.tokens import Tokens
from leasehold.service.federation import Federation
from leasehold.service.messages.routing import CALL_BYTES
from leasehold.service.metrics import Metrics

TOO_LARGE = 413
SUBMISSION = ("POST", "/v1/leases")
_FAULTS_OF_CALLERS = range(400, 500)


# What every request passes on its way in and out


class MetricsMiddleware:
    """Measures response times by route, up to the start of the response: a stream may last for days.

    It also counts the rejected submissions of leases, whichever layer rejected them.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = perf_counter()

        async def measuring(message: Message) -> None:
            if message["type"] == "http.response.start":
                route, status = getattr(scope.get("route"), "path_format", ""), message["status"]
                self._metrics.answered(route, scope["method"], status, perf_counter() - began_s)
                if (scope["method"], scope["path"]) == SUBMISSION and status in _FAULTS_OF_CALLERS:
                    self._metrics.rejected()
            await send(message)

        await self._app(scope, receive, measuring)


class BehindPrefix:
    """Takes the prefix off paths for proxies that leave it on; pages write it before each of their links."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{self._prefix}/"):
            scope = dict(scope, path=scope["path"][len(self._prefix) :] or "/")
            scope["raw_path"] = scope["path"].encode()
        await self._app(scope, receive, send)


class ProblemPages:
    """Shows problems as pages, with the same status, where HTML is accepted: by browsers, not by programs."""

    def __init__(self, app: ASGIApp, version: str, prefix: str) -> None:
        self._app = app
        self._version = version
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("accept", ""):
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def showing(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_problem(message):
                start = message
            elif start is not None:
                body = problem_page(self._version, self._prefix, message["body"])
                changed = MutableHeaders(raw=start["headers"])
                changed.update(HEADERS)
                changed["Content-Type"] = "text/html; charset=utf-8"
                changed["Content-Length"] = str(len(body))
                await send(start)
                await send({"type": "http.response.body", "body": body})
                start = None
            else:
                await send(message)

        await self._app(scope, receive, showing)


def _is_problem(start: Message) -> bool:
    return Headers(raw=start["headers"]).get("content-type", "").startswith(MEDIA_TYPE)


class BodyLimit:
    """Refuses larger bodies: at once where their length is said, else as soon as they are too large.

    A piece of a file may have `PIECE_BYTES`, and a call of a site's manager `CALL_BYTES`.
    """

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with the bytes counted that are read of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        read = 0
        most = max(self._most, _needed(scope["method"], scope["path"]))

        async def counting() -> Message:
            nonlocal read
            if not read:
                _check(_said_length(scope), most)
            message = await receive()
            read += len(message.get("body", b""))
            _check(read, most)
            return message

        await self._app(scope, counting, send)


def _needed(method: str, path: str) -> int:
    """Say how large a body may be in any case, whatever the operator allows for others."""
    if method == "PUT" and path.startswith((files.router.prefix, guest_files.router.prefix)):
        return PIECE_BYTES
    is_call = method == "POST" and path.startswith(messages.router.prefix) and path.endswith("/messages")
    return CALL_BYTES if is_call else 0


def _check(length: int, most: int) -> None:
    if length > most:
        raise HTTPException(TOO_LARGE, f"body: expected at most {most} bytes")


def _said_length(scope: Scope) -> int:
    """The length that the headers promise; 0 where they do not."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


DOCUMENT = "/v1/openapi.json"
"""The one path beside the probes that takes no token."""

ROUTERS = (
    *(leases.router, coallocations.router, jobs.router, nodes.router, nodes.images, files.router),
    *(sites.router, changes.router, tokens_.router, messages.router, guest_files.router, form.router, peers.router),
    *(agreements.router, agreements.penalties, usage.router, forecasts.router, activity.router, health.router),
    form.pages,
    dashboard.router,
)
"""Asked in this order: the one that has most to do first."""


class Api(FastAPI):
    """The application. Call `close_streams` when the service begins to stop: streams end by nothing else."""

    def close_streams(self) -> None:
        """End all streams of changes, and refuse new ones; clients resume at the next process."""
        self.state.streams.close()
        self.state.messages.close()

    def build_middleware_stack(self) -> ASGIApp:
        """Put our middleware around the router, and nothing else: every request and answer passes through each layer.

        FastAPI has four more: handlers of errors, telemetry, a limit of bodies, and a page for errors that nothing
        handles. `Problems`, `MetricsMiddleware` and `BodyLimit` do that here.
        """
        app: ASGIApp = AsyncExitStackMiddleware(self.router)
        for middleware, positional, named in reversed(self.user_middleware):
            app = middleware(app, *positional, **named)
        return app

    def openapi(self) -> dict[str, Any]:
        """Give the OpenAPI document."""
        if not self.openapi_schema:
            finish(super().openapi(), health.open_to_all(self.state.settings))
        return super().openapi()


def create_app(federation: Federation, authenticator: Authenticator, tokens: Tokens, settings: ApiSettings) -> Api:
    """Put the API in front of a federation; ``tokens`` are those that the authenticator asks, too."""
    app = Api(
        title=TITLE,
        version=settings.version,
        description=DESCRIPTION,
        openapi_tags=TAGS,
        openapi_url=DOCUMENT,
        docs_url=None,  # it would load its script from another network
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # we have our own
        routes=[route for router in ROUTERS for route in router.routes],
    )
    app.state.settings = settings
    app.state.tokens = tokens
    app.state.messages = federation.messages
    app.state.last_look, app.state.today = dashboard.LastLook(), Today()
    app.state.streams = Streams(settings.streams_per_consumer, federation.metrics)
    limiter = Limiter(settings.rate, "there were too many requests")
    submissions = Limiter(settings.submissions, "more was submitted than one consumer may in an hour")
    open_paths = health.open_to_all(settings)
    sessions = app.state.sessions = Sessions(settings.session_key, authenticator, tokens, federation.clock)
    app.state.sign_in = SignIn(federation.config.issuers, settings.session_key, federation.clock)
    app.state.authorizer = Authorizer(federation, authenticator, limiter, open_paths, submissions, sessions)
    # the last one added is the first one asked
    app.add_middleware(BodyLimit, most_bytes=settings.body_kib * 1024)
    app.add_middleware(Problems)
    app.add_middleware(ProblemPages, version=settings.version, prefix=settings.prefix)
    app.add_middleware(MetricsMiddleware, metrics=federation.metrics)
    if settings.prefix:
        app.add_middleware(BehindPrefix, prefix=settings.prefix)
    return app
