"""Pages: each begins where the one before ended, so that whatever comes in between moves nothing."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from leasehold.model.errors import InvalidField
from leasehold.protocol.fields import MAX_INT64


def cursor_at(place: int) -> str:
    """Write down where a page ended, in a form that promises nothing about itself."""
    return urlsafe_b64encode(f"p{place}".encode()).decode().rstrip("=")


def place_of(cursor: str | None) -> int | None:
    """Read where a page ended; None where it is to be the first. Raises InvalidField."""
    if cursor is None:
        return None
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        place = int(text.removeprefix("p"))
    except (Error, ValueError):
        place = -1
    if place < 0 or place > MAX_INT64 or cursor_at(place) != cursor:
        raise InvalidField("cursor", cursor, "the `next` of the page before")
    return place


def cursor_after(name: str) -> str:
    """Write down the name after which the next page begins, where the names are the order."""
    return urlsafe_b64encode(f"n{name}".encode()).decode().rstrip("=")


def name_after(cursor: str | None) -> str:
    """Read after which name a page begins; "" where it is to be the first. Raises InvalidField."""
    if cursor is None:
        return ""
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (Error, ValueError):
        text = ""
    if not text.startswith("n") or cursor_after(text[1:]) != cursor:
        raise InvalidField("cursor", cursor, "the `next` of the page before")
    return text[1:]


def link_next(request: Request, response: Response, cursor: str | None) -> None:
    """Name the next page in a Link header too (RFC 8288)."""
    if cursor is not None:
        query = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
        url = f"{request.url.path}?{urlencode([*query, ('cursor', cursor)])}"
        response.headers["Link"] = f'<{url}>; rel="next"'
