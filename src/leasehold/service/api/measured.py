"""How long answers take, by route: until an answer begins, since a stream may go on for days.

And which requests for leases the gateway has not taken in, whoever turned them away.
"""

from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leasehold.service.metrics import Metrics

SUBMISSION = ("POST", "/v1/leases")
_FAULTS_OF_CALLERS = range(400, 500)


class Measured:
    """Tells the metrics of every answer."""

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
                route = getattr(scope.get("route"), "path_format", "")
                self._metrics.answered(route, scope["method"], message["status"], perf_counter() - began_s)
                if _is_rejection(scope, message["status"]):
                    self._metrics.rejected()
            await send(message)

        await self._app(scope, receive, measuring)


def _is_rejection(scope: Scope, status: int) -> bool:
    """Whether somebody asks for a lease and is told that this is no way to ask for one."""
    return (scope["method"], scope["path"]) == SUBMISSION and status in _FAULTS_OF_CALLERS
