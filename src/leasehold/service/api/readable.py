"""Problems for people: who asks with a browser gets a page instead of JSON, with the same status."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leasehold.service.api.home.page import headers, problem_page
from leasehold.service.api.problems import MEDIA_TYPE


class Readable:
    """Shows problems as pages to whoever accepts HTML, as browsers do and programs do not."""

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
