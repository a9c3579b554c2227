"""What nobody foresaw: a problem without details for the caller, everything for the log, one id for both."""

import logging
from secrets import token_hex

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leasehold.service.api.problems import Kind, problem

_log = logging.getLogger(__name__)


def defect(error: BaseException) -> Response:
    """Log a defect, and answer where to find it there."""
    name = token_hex(8)
    _log.error("defect %s", name, exc_info=error)
    return problem(Kind.DEFECT, f"This is not your fault. The log of the service knows it as {name}.", id=name)


class LastResort:
    """Turns whatever escapes into a 500; where the answer has begun already, its connection is broken off."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        begun = False

        async def watching(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watching)
        except Exception as error:
            if begun or scope["type"] != "http":
                raise
            await defect(error)(scope, receive, send)
