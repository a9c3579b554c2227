"""How a body is read: JSON in UTF-8, without what other readers of JSON would take differently."""

import json
from typing import Any

from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request

_NOT_JSON = 415


class JsonRequest(Request):
    """Reads a body strictly: no NaN, no lone surrogates, no numbers or nestings without end."""

    async def json(self) -> Any:  # noqa: ANN401 - whatever a body may be, as in Request
        """Read the body. Raises json.JSONDecodeError, which becomes a problem."""
        body = await self.body()
        try:
            return from_json(body, allow_inf_nan=False, cache_strings="keys")
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None


def media_type_of(request: Request) -> str:
    """Give what a body says of itself to be."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_content_type(request: Request) -> None:
    """Raise HTTPException 415 for a body that does not say of itself that it is JSON."""
    media_type = media_type_of(request)
    if _has_body(request) and media_type != "application/json":
        raise HTTPException(_NOT_JSON, f"Content-Type: got {media_type!r}, expected 'application/json'")


def _has_body(request: Request) -> bool:
    length = request.headers.get("content-length", "0")
    return length != "0" or "transfer-encoding" in request.headers
