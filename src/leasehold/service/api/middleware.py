"""What every request passes on its way in and out: metrics, pages for problems, and the limit of a body."""

from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leasehold.protocol.problems import MEDIA_TYPE
from leasehold.service.api.home.page import headers, problem_page
from leasehold.service.metrics import Metrics

TOO_LARGE = 413
SUBMISSION = ("POST", "/v1/leases")
_FAULTS_OF_CALLERS = range(400, 500)


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


class ProblemPages:
    """Shows problems as pages, with the same status, where HTML is accepted: by browsers, not by programs."""

    def __init__(self, app: ASGIApp, version: str) -> None:
        self._app = app
        self._version = version

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
                body = problem_page(self._version, message["body"])
                changed = MutableHeaders(raw=start["headers"])
                changed.update(headers())
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
    """Refuses larger bodies: at once where their length is said, else as soon as they are too large."""

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with the bytes counted that are read of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        read = 0

        async def counting() -> Message:
            nonlocal read
            if not read:
                self._check(_said_length(scope))
            message = await receive()
            read += len(message.get("body", b""))
            self._check(read)
            return message

        await self._app(scope, counting, send)

    def _check(self, length: int) -> None:
        if length > self._most:
            raise HTTPException(TOO_LARGE, f"body: expected at most {self._most} bytes")


def _said_length(scope: Scope) -> int:
    """The length that the headers promise; 0 where they do not."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
