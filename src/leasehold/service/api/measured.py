"""How long answers take, by route: until an answer begins, since a stream may go on for days."""

from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leasehold.service.metrics import Metrics


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
                route = getattr(scope.get("route"), "path", "")
                self._metrics.answered(route, scope["method"], message["status"], perf_counter() - began_s)
            await send(message)

        await self._app(scope, receive, measuring)
