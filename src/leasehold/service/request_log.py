"""One line of log for each request, and an id by which it is found again.

The id is in the answer, in every line that is logged meanwhile, and is the caller's own where it sends one.
"""

import re
from time import perf_counter
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUEST_LOGGER = "leasehold.request"
ID_HEADER = "X-Request-ID"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_UNREMARKABLE = ("/healthz", "/readyz", "/metrics")
"""Asked for by machines every few seconds; said only where somebody wants to hear everything."""


class RequestLog:
    """Wraps an application, and says of each request who asked what, and how and when it was answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._log = structlog.get_logger(REQUEST_LOGGER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, request_id, status = perf_counter(), _id_of(scope), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[ID_HEADER] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(id=request_id):
            try:
                await self._app(scope, receive, noting)
            finally:
                self._say(scope, status, (perf_counter() - began_s) * 1000)

    def _say(self, scope: Scope, status: int, ms: float) -> None:
        """Say it; a ``status`` of 0 is an answer that never began, because who asked had gone."""
        route = getattr(scope.get("route"), "path_format", "")
        say = self._log.debug if route in _UNREMARKABLE else self._log.info
        say("request", consumer=_consumer(scope), method=scope["method"], route=route, status=status, ms=ms)


def _id_of(scope: Scope) -> str:
    given = Headers(scope=scope).get(ID_HEADER, "")
    return given if _ID.fullmatch(given) else uuid4().hex[:16]


def _consumer(scope: Scope) -> str:
    call = scope.get("leasehold.call")
    return "" if call is None else str(call.principal.consumer)
