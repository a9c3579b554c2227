"""What can be asked of a gateway: a call without its input and output, and how its response is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from leasehold.client.response import Response
from leasehold.protocol.base import NextPage, RequestModel, ResponseModel

T = TypeVar("T")
M = TypeVar("M", bound=ResponseModel)
N = TypeVar("N", bound=NextPage)
Query = tuple[tuple[str, str], ...]

PAGE = 1000
"""So many entries are asked for at once, the most that a gateway gives."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request.

    ``read``        makes something of the response, and raises the error of a no
    ``key``         the Idempotency-Key that it goes with, "" without
    ``repeatable``  whether asking twice does no more than asking once
    """

    method: str
    path: str
    read: Callable[[Response], T]
    query: Query = ()
    body: Mapping[str, Any] | None = None
    key: str = ""
    repeatable: bool = True


def reads(kind: type[M]) -> Callable[[Response], M]:
    """Read a response that is one record."""
    return lambda response: response.read(kind)


def nothing(response: Response) -> None:
    """Read a response that says no more than yes."""
    response.text()


def query_of(spec: RequestModel) -> Query:
    """Give what is asked for as a query: a list as several of the same name."""
    words: list[tuple[str, str]] = []
    for name, value in spec.said().items():
        values = value if isinstance(value, list) else [value]
        words += [(name, str(one).lower() if isinstance(one, bool) else str(one)) for one in values]
    return tuple(words)


class Source(Generic[T]):
    """What gives one thing after the other: a list of several pages, changes, the states of a job."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list, and where the next part begins, None at the end."""

    items: tuple[T, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Pages(Source[T]):
    """A list that comes in pages."""

    first: Call[Page[T]]

    def after(self, page: Page[T]) -> Call[Page[T]] | None:
        """Give the call for the page after this one, None at the end."""
        return None if page.next is None else replace(self.first, query=(*self.first.query, ("cursor", page.next)))


def pages(path: str, spec: RequestModel | None, kind: type[N], items: Callable[[N], tuple[T, ...]]) -> Pages[T]:
    """Ask for all pages of a list, each of this kind, with these items."""

    def read(response: Response) -> Page[T]:
        found = response.read(kind)
        return Page(items(found), found.next)

    query = () if spec is None else query_of(spec)
    return Pages(Call("GET", path, read, query=(*query, ("limit", str(PAGE)))))
