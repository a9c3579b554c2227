"""Maps errors to problems (RFC 9457): those of the federation, of the framework, and unexpected ones."""

import logging
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from secrets import token_hex
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leasehold.model.errors import InvalidField, LeaseholdError
from leasehold.protocol.fields import show_duration, show_moment
from leasehold.protocol.problems import MEDIA_TYPE, Kind
from leasehold.protocol.wrong_fields import named_field, wrong_field
from leasehold.service.auth.errors import Forbidden, TooManyRequests, Unauthenticated
from leasehold.service.errors import ServiceError, Unavailable
from leasehold.service.store.errors import StoreUnavailable
from leasehold.sharing.records import AgreementMove

RETRY_SOON = {"Retry-After": "1"}

_MOST_FIELDS = 20
_INSIDE: dict[str, tuple[str, Callable[[int], object]]] = {
    "duration_ms": ("duration_s", show_duration),
    "by_ms": ("by_s", show_duration),
    "deadline_ms": ("deadline", show_moment),
    "ready_ms": ("ready", show_moment),
}
"""What the core calls by another name than the wire, and how its value reads there."""

_FRAMEWORKS: dict[int, Kind] = {
    kind.status: kind
    for kind in (
        Kind.UNREADABLE,
        Kind.UNAUTHENTICATED,
        Kind.FORBIDDEN,
        Kind.NOT_FOUND,
        Kind.METHOD_NOT_ALLOWED,
        Kind.TOO_LARGE,
        Kind.NOT_JSON,
        Kind.UNAVAILABLE,
    )
}

_log = logging.getLogger(__name__)


class Problems:
    """Answers every error as a problem; where the answer has begun, its connection is broken off.

    One layer is for all of them: with handlers for each kind of error, Starlette puts two around every request, and a
    third one for what nothing handles.
    """

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
            await _problem_of(error, Request(scope))(scope, receive, send)


def _problem_of(error: Exception, request: Request) -> Response:
    match error:
        case LeaseholdError():
            return _of_ours(error)
        case HTTPException():
            return _of_framework(error, request)
        case RequestValidationError():
            return _of_edge(error, request)
        case _:
            return _defect(error)


def problem(kind: Kind, detail: str, headers: Mapping[str, str] | None = None, **more: object) -> Response:
    """Build the response for a problem; ``more`` are further members of it."""
    members = {"type": kind.urn, "title": kind.title, "status": kind.status, "detail": detail}
    return Response(to_json(members | more, inf_nan_mode="null"), kind.status, headers, MEDIA_TYPE)


# Errors of the federation


def _of_ours(error: LeaseholdError) -> Response:
    """Most errors know their kind; here are those that say more, or that come from where no HTTP is known."""
    match error:
        case Unavailable() | StoreUnavailable():
            answer = _unavailable(error)
        case ServiceError():
            answer = problem(error.kind, str(error), error.headers, **error.members)
        case AgreementMove():
            more = {"field": error.field, "value": str(error.value), "expected": error.expected}
            answer = problem(Kind.AGREEMENT_MOVE, str(error), None, **more)
        case InvalidField():
            answer = _of_core(error)
        case Unauthenticated():
            answer = problem(_FRAMEWORKS[error.status], str(error), {"WWW-Authenticate": error.challenge})
        case Forbidden():
            answer = problem(Kind.FORBIDDEN, str(error), {"WWW-Authenticate": error.challenge})
        case TooManyRequests():
            answer = problem(Kind.TOO_MANY_REQUESTS, str(error), {"Retry-After": str(ceil(error.wait_s))})
        case _:
            answer = _defect(error)
    return answer


def _unavailable(error: Unavailable | StoreUnavailable) -> Response:
    """Where it is the store's fault, the store's own words stay inside: they name files and servers."""
    is_the_stores = isinstance(error, StoreUnavailable) or isinstance(error.__cause__, StoreUnavailable)
    words = "the store does not answer" if is_the_stores else str(error)
    return problem(Kind.UNAVAILABLE, words, RETRY_SOON)


def _of_core(error: InvalidField) -> Response:
    """Answer what the core says about one field, in the words of the wire."""
    name, value = error.field, error.value
    if name in _INSIDE and isinstance(value, int):
        name, show = _INSIDE[name]
        value = show(value)
    return _invalid([named_field(name, value, error.expected)])


# Errors of the framework


def _of_framework(error: HTTPException, request: Request) -> Response:
    kind = _FRAMEWORKS.get(error.status_code, Kind.UNREADABLE)
    if kind is Kind.NOT_FOUND:
        return problem(kind, "path: expected one of those in /v1/openapi.json")
    if kind is Kind.METHOD_NOT_ALLOWED:
        can = ", ".join(_methods_here(request))
        return problem(kind, f"method: got {request.method}, expected {can}", {"Allow": can})
    return problem(kind, error.detail, error.headers)


def _methods_here(request: Request) -> list[str]:
    """The methods of all routes with this path; Starlette tells those of the first one only."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    path = next(route.path for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in routes if route.path == path for method in route.methods or ()})


def _of_edge(error: RequestValidationError, request: Request) -> Response:
    known = _known_fields(request)
    return _invalid([wrong_field(one, known) for one in error.errors()])


def _known_fields(request: Request) -> list[str]:
    """The fields that the body or the query of a route may have."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    fields = [route.body_field] if route.body_field else route.dependant.query_params
    models = [field.field_info.annotation for field in fields]
    return [
        name
        for model in models
        if isinstance(model, type) and issubclass(model, BaseModel)
        for name in model.model_fields
    ]


def _invalid(fields: Sequence[dict[str, Any]]) -> Response:
    shown = fields[:_MOST_FIELDS]
    detail = "; ".join(str(InvalidField(it["field"], it["value"], it["expected"])) for it in shown)
    more = shown[0] | ({"errors": shown} if len(fields) > 1 else {})
    return problem(Kind.INVALID_REQUEST, detail, **more)


# Defects


def _defect(error: BaseException) -> Response:
    """Log a defect, and answer where to find it there: no details for the caller, everything for the log."""
    name = token_hex(8)
    _log.error("defect %s", name, exc_info=error)
    return problem(Kind.DEFECT, f"This is not your fault. The log of the service knows it as {name}.", id=name)
