"""How much of a body is read: no more than is allowed, whether its length was said before or not."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOO_LARGE = 413


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
