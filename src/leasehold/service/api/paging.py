"""Pages: each begins where the one before ended, so that whatever comes in between moves nothing."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from leasehold.model.errors import InvalidField
from leasehold.protocol.fields import MAX_INT64

T = TypeVar("T")


def cursor_at(place: int) -> str:
    """Encode where a page ended, in a form that promises nothing about itself."""
    return _encoded(f"p{place}")


def place_of(cursor: str | None) -> int | None:
    """Decode where a page ended; None for the first page. Raises InvalidField."""
    if cursor is None:
        return None
    try:
        place = int(_decoded(cursor).removeprefix("p"))
    except ValueError:
        place = -1
    if place < 0 or place > MAX_INT64 or cursor_at(place) != cursor:
        raise InvalidField("cursor", cursor, _NEXT)
    return place


def cursor_after(name: str) -> str:
    """Encode the name after which the next page begins, for lists in order of names."""
    return _encoded(f"n{name}")


def name_after(cursor: str | None) -> str:
    """Decode the name after which a page begins; "" for the first page. Raises InvalidField."""
    if cursor is None:
        return ""
    text = _decoded(cursor)
    if not text.startswith("n") or cursor_after(text[1:]) != cursor:
        raise InvalidField("cursor", cursor, _NEXT)
    return text[1:]


def cut_page(
    rows: Sequence[T], limit: int, cursor_of: Callable[[T], str], request: Request, response: Response
) -> tuple[Sequence[T], str | None]:
    """Cut rows, of which one more than ``limit`` was read, to a page; returns it with the cursor of the next.

    The cursor is None on the last page; otherwise the response gets a Link header too (RFC 8288).
    """
    page = rows[:limit]
    if len(rows) == len(page):
        return page, None
    cursor = cursor_of(page[-1])
    query = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    response.headers["Link"] = f'<{request.url.path}?{urlencode([*query, ("cursor", cursor)])}>; rel="next"'
    return page, cursor


_NEXT = "the `next` of the page before"


def _encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> str:
    """Decode a cursor; "" for what is not one."""
    try:
        return urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (Error, ValueError):
        return ""
