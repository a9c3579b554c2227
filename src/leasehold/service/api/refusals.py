"""Which problem follows from which error: one table for the federation's, and one for the framework's."""

from collections.abc import Callable
from math import ceil

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from leasehold.model.errors import InvalidField, LeaseholdError
from leasehold.service.api import wrong_fields
from leasehold.service.api.errors import NoResult, NoSuchToken, TooManyStreams
from leasehold.service.api.last_resort import defect
from leasehold.service.api.problems import Kind, problem
from leasehold.service.auth.errors import Forbidden, TooManyRequests, Unauthenticated
from leasehold.service.errors import (
    CannotExtend,
    CannotForget,
    CannotRemovePeer,
    Closed,
    ConsoleElsewhere,
    IdempotencyConflict,
    NoSuchAgreement,
    NoSuchCoAllocation,
    NoSuchJob,
    NoSuchLease,
    NoSuchPeer,
    NoSuchPenalty,
    NoSuchSite,
    TooManyOpen,
    Unavailable,
)
from leasehold.service.store.errors import StoreUnavailable
from leasehold.sharing.records import AgreementMove

RETRY_SOON = {"Retry-After": "1"}
RETRY_LATER = {"Retry-After": "30"}
"""For what goes away when leases or streams of the caller end."""


def _unavailable(error: Unavailable | StoreUnavailable) -> Response:
    """Where it is the store's fault, the store's own words stay inside: they name files and servers."""
    is_the_stores = isinstance(error, StoreUnavailable) or isinstance(error.__cause__, StoreUnavailable)
    words = "the store does not answer" if is_the_stores else str(error)
    return problem(Kind.UNAVAILABLE, words, RETRY_SOON)


def _of_a_move(error: AgreementMove) -> Response:
    return problem(
        Kind.AGREEMENT_MOVE,
        str(error),
        field=error.field,
        value=str(error.value),
        expected=error.expected,
    )


_OURS: dict[type[LeaseholdError], Callable[..., Response]] = {
    InvalidField: wrong_fields.from_core,
    NoSuchLease: lambda error: problem(Kind.NO_SUCH_LEASE, str(error)),
    ConsoleElsewhere: lambda error: problem(Kind.CONSOLE_ELSEWHERE, str(error)),
    NoSuchCoAllocation: lambda error: problem(Kind.NO_SUCH_COALLOCATION, str(error)),
    NoSuchJob: lambda error: problem(Kind.NO_SUCH_JOB, str(error)),
    NoResult: lambda error: problem(Kind.NO_RESULT, str(error)),
    NoSuchSite: lambda error: problem(Kind.NO_SUCH_SITE, str(error)),
    NoSuchPeer: lambda error: problem(Kind.NO_SUCH_PEER, str(error)),
    NoSuchAgreement: lambda error: problem(Kind.NO_SUCH_AGREEMENT, str(error)),
    NoSuchPenalty: lambda error: problem(Kind.NO_SUCH_PENALTY, str(error)),
    AgreementMove: _of_a_move,
    NoSuchToken: lambda error: problem(Kind.NO_SUCH_TOKEN, str(error)),
    IdempotencyConflict: lambda error: problem(Kind.IDEMPOTENCY_CONFLICT, str(error)),
    TooManyOpen: lambda error: problem(Kind.TOO_MANY_OPEN, str(error), RETRY_LATER),
    TooManyStreams: lambda error: problem(Kind.TOO_MANY_STREAMS, str(error), RETRY_LATER),
    CannotExtend: lambda error: problem(Kind.CANNOT_EXTEND, str(error), reason=error.reason),
    CannotForget: lambda error: problem(Kind.CANNOT_FORGET, str(error)),
    CannotRemovePeer: lambda error: problem(Kind.CANNOT_REMOVE_PEER, str(error)),
    Closed: lambda error: problem(Kind.LEASE_CLOSED, str(error)),
    Unavailable: _unavailable,
    StoreUnavailable: _unavailable,
    Unauthenticated: lambda error: _challenged(_FRAMEWORKS[error.status], error),
    Forbidden: lambda error: _challenged(Kind.FORBIDDEN, error),
    TooManyRequests: lambda error: problem(Kind.TOO_MANY_REQUESTS, str(error), _wait(error)),
}

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


def install(app: FastAPI) -> None:
    """Let the application answer every error as a problem."""
    app.add_exception_handler(LeaseholdError, _of_ours)
    app.add_exception_handler(HTTPException, _of_framework)
    app.add_exception_handler(RequestValidationError, _of_edge)


async def _of_ours(_request: Request, error: Exception) -> Response:
    for cls in type(error).__mro__:
        if cls in _OURS:
            return _OURS[cls](error)
    return defect(error)


async def _of_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _FRAMEWORKS.get(error.status_code, Kind.UNREADABLE)
    if kind is Kind.NOT_FOUND:
        return problem(kind, "path: expected one of those in /v1/openapi.json")
    if kind is Kind.METHOD_NOT_ALLOWED:
        can = ", ".join(_methods_here(request))
        return problem(kind, f"method: got {request.method}, expected {can}", {"Allow": can})
    return problem(kind, error.detail, error.headers)


async def _of_edge(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return wrong_fields.from_edge(error.errors(), _known_fields(request))


def _challenged(kind: Kind, error: Unauthenticated | Forbidden) -> Response:
    return problem(kind, str(error), {"WWW-Authenticate": error.challenge})


def _known_fields(request: Request) -> list[str]:
    """The fields that the body or the query of a route may have."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    asked = [route.body_field] if route.body_field else route.dependant.query_params
    models = [field.field_info.annotation for field in asked]
    return [
        field.alias or name
        for model in models
        if isinstance(model, type) and issubclass(model, BaseModel)
        for name, field in model.model_fields.items()
    ]


def _methods_here(request: Request) -> list[str]:
    """The methods of all routes with this path; Starlette tells those of the first one only."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    path = next(route.path for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in routes if route.path == path for method in route.methods or ()})


def _wait(error: TooManyRequests) -> dict[str, str]:
    return {"Retry-After": str(ceil(error.wait_s))}
