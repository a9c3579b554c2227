"""What can be asked of a gateway: calls without input and output, their responses, and when one is made again."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from leasehold.client.errors import BadResponse, Lost, Unreachable, problem_error
from leasehold.model.errors import InvalidField
from leasehold.protocol.base import NextPage, RequestModel, ResponseModel
from leasehold.protocol.problems import Problem, problem_in
from leasehold.protocol.wrong_fields import wrong_field

T = TypeVar("T")
M = TypeVar("M", bound=ResponseModel)
N = TypeVar("N", bound=NextPage)

_OK = 200
_REDIRECTION = 300


def read(kind: type[M], content: bytes | str) -> M:
    """Read a body; what this model does not have is left out. Raises BadResponse for one that is not of this kind."""
    try:
        return kind.model_validate_json(content, strict=True, extra="ignore")
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            raise BadResponse("the response is not JSON, so whatever answers is not a gateway") from error
        wrong = InvalidField(**wrong_field(first | {"loc": ("response", *first["loc"])}, ()))
        raise BadResponse(f"the response is not a valid {kind.__name__}: {wrong}") from error


@dataclass(frozen=True, slots=True)
class Response:
    """Status, headers (their names in small letters) and body of one response."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_yes(self) -> bool:
        """Whether what was asked was done."""
        return _OK <= self.status < _REDIRECTION

    @property
    def retry_after_s(self) -> float | None:
        """When to ask again, where the gateway says so in seconds."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isdecimal() else None

    def text(self) -> str:
        """Give the body as text; raises the ProblemError that goes with a no."""
        if not self.is_yes:
            raise problem_error(self.problem(), self.retry_after_s)
        return self.content.decode(errors="replace")

    def read(self, kind: type[M]) -> M:
        """Read the body; raises ProblemError for a no, and BadResponse for what is not of this kind."""
        self.text()
        return read(kind, self.content)

    def problem(self) -> Problem:
        """Read what the gateway says when it says no; a proxy before it may say it in other words."""
        said = problem_in(self.content, self.headers.get("content-type", ""), self.status)
        return said or Problem(type="about:blank", title="", detail="", status=self.status)


Query = tuple[tuple[str, str], ...]

PAGE = 1000
"""So many entries are asked for at once, the most that a gateway gives."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request.

    ``read``        makes something of the response, and raises the error of a no
    ``content``     is sent as it is, in place of a ``body``
    ``key``         the Idempotency-Key that it goes with, "" without
    ``repeatable``  whether asking twice does no more than asking once
    """

    method: str
    path: str
    read: Callable[[Response], T]
    query: Query = ()
    body: Mapping[str, Any] | None = None
    content: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    key: str = ""
    repeatable: bool = True


def reads(kind: type[M]) -> Callable[[Response], M]:
    """Read a response that is one record."""
    return lambda response: response.read(kind)


def as_bytes(response: Response) -> bytes:
    """Read a response that is a content; raises the ProblemError that goes with a no."""
    response.text()
    return response.content


def nothing(response: Response) -> None:
    """Read a response that says no more than yes."""
    response.text()


def query_of(spec: RequestModel) -> Query:
    """Give what is asked for as a query: a list as several of the same name."""
    words: list[tuple[str, str]] = []
    for name, value in spec.to_json().items():
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


_TRY_AGAIN = frozenset({429, 502, 503, 504})
"""Statuses with which a gateway, or a proxy before it, says: nothing was done, ask again."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to retry requests that may be repeated.

    ``tries``          how often in all
    ``connect_tries``  how often as long as there was no connection: nothing was sent then, and nothing is in doubt
    ``first_s``        the pause before the second try; it doubles with each, and varies by up to a half, so
                       that many that were turned away together do not come back together
    ``longest_s``      the longest pause; a gateway that wants a longer one is taken at its word at once
    """

    tries: int = 8
    connect_tries: int = 8
    first_s: float = 0.25
    longest_s: float = 8.0

    def pause_s(self, failures: int) -> float:
        """Say how long to wait after so many failures in a row."""
        full_s = min(self.longest_s, self.first_s * 2 ** (failures - 1))
        return random.uniform(full_s / 2, full_s)


class Attempts:
    """The tries of one call so far, and whether there will be another."""

    def __init__(self, policy: RetryPolicy, key: str = "") -> None:
        self._policy = policy
        self._key = key
        self._failures = 0
        self._in_doubt = False

    def after_failure(self, failure: Unreachable) -> float:
        """Give the pause before the next try, in seconds; raises the failure where there will be none."""
        self._failures += 1
        self._in_doubt = self._in_doubt or isinstance(failure, Lost)
        if self._failures >= (self._policy.tries if self._in_doubt else self._policy.connect_tries):
            raise Lost(failure.url, failure.why, self._key) if self._in_doubt else failure
        return self._policy.pause_s(self._failures)

    def after_response(self, response: Response) -> float | None:
        """Give the pause before the next try, None where this is the answer."""
        self._failures += 1
        wanted_s = response.retry_after_s or 0.0
        over = self._failures >= self._policy.tries or wanted_s > self._policy.longest_s
        if over or response.status not in _TRY_AGAIN:
            return None
        return max(wanted_s, self._policy.pause_s(self._failures))

    def reset(self) -> None:
        """Forget the failures: it works."""
        self._failures = 0


ONCE = RetryPolicy(tries=1, connect_tries=1)
"""For what must not be asked twice."""
