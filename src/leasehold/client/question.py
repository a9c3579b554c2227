"""What a question to a gateway is: a request, and how its answer is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from leasehold.client.answer import Answer
from leasehold.client.errors import BadAnswer
from leasehold.client.reading import read

T = TypeVar("T")
PAGE = 1000
"""So many leases are asked for at once, the most that a gateway gives."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One question.

    ``read``        makes something of the answer, and raises the error of a no
    ``key``         the Idempotency-Key that it goes with, "" without
    ``repeatable``  whether asking twice does no more than asking once
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, Any] | None = None
    key: str = ""
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a long answer, and the question for the next part, None at the end."""

    items: tuple[T, ...]
    following: "Call[Page[T]] | None"


def paged(path: str, words: tuple[tuple[str, str], ...], key: str, kind: type[T]) -> Call[Page[T]]:
    """Ask for the first page of ``kind``s, which an answer has under ``key``."""

    def page(answer: Answer) -> Page[T]:
        cursor = _named(answer, "next")
        following = None if cursor is None else replace(call, query=(*query, ("cursor", str(cursor))))
        return Page(all_of(key, kind)(answer), following)

    query = (*words, ("limit", str(PAGE)))
    call = Call("GET", path, page, query=query)
    return call


def one(kind: type[T]) -> Callable[[Answer], T]:
    """Read an answer that is one record."""
    return lambda answer: read(kind, answer.values())


def all_of(key: str, kind: type[T]) -> Callable[[Answer], tuple[T, ...]]:
    """Read an answer that has records under a key."""
    return lambda answer: tuple(read(kind, one) for one in _named(answer, key))


def _named(answer: Answer, key: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return answer.values()[key]
    except (KeyError, TypeError) as error:
        raise BadAnswer(f"the gateway's answer has no {key!r}") from error


def nothing(answer: Answer) -> None:
    """Read an answer that says no more than yes."""
    answer.text()
