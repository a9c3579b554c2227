"""The OpenAPI document: what FastAPI knows of the routes, and what holds for all of them alike."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from pydantic.json_schema import models_json_schema

from leasehold.protocol.leases import Change
from leasehold.protocol.problems import MEDIA_TYPE, Kind, Problem

Json = dict[str, Any]

TITLE = "Leasehold"
DESCRIPTION = """\
Request machines from a federation of sites, and follow their state.

- **Times** are ISO-8601 in UTC with milliseconds; durations are seconds with at most three decimals.
- **Errors** are returned as `application/problem+json` (RFC 9457), in one line; an error of a field gives its
  name, its value and what was expected.
- **A request that can never be served is not an error**: it becomes a lease in the state `refused`, with its reason.
- **Callers** present a bearer token. A resource that they may not see is answered with 404; an action that they
  may not perform on a resource they can see, with 403.
"""
TAGS = [
    {"name": "leases", "description": "Machines for some time, under one of four types."},
    {"name": "jobs", "description": "Commands with requirements, run where these are met."},
    {"name": "sites", "description": "The clusters of the federation."},
    {"name": "changes", "description": "A live stream of events."},
    {"name": "tokens", "description": "Credentials of callers."},
    {"name": "peers", "description": "Gateways with which requests are exchanged."},
    {"name": "agreements", "description": "What providers lend to consumers, how much of it, and on which terms."},
    {"name": "forecasts", "description": "Estimates of when leases start and end, how they did, and what-if."},
    {"name": "activity", "description": "The queue in groups, the feed of decisions, and what was held when."},
    {"name": "usage", "description": "Usage by consumer, site and agreement."},
    {"name": "messages", "description": "Between a gateway and the sites that decide for themselves."},
    {"name": "health", "description": "Probes and metrics for monitoring."},
]

_ALWAYS = (Kind.UNREADABLE, Kind.INVALID_REQUEST, Kind.TOO_MANY_REQUESTS, Kind.DEFECT, Kind.UNAVAILABLE)
_WITH_TOKEN = (Kind.UNAUTHENTICATED, Kind.FORBIDDEN)
_WITH_BODY = (Kind.TOO_LARGE, Kind.NOT_JSON)

_HEADERS: dict[HTTPStatus, Json] = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "The kind of token that is required."},
    HTTPStatus.TOO_MANY_REQUESTS: {"Retry-After": "In how many seconds to ask again."},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "In how many seconds to ask again."},
}
_STREAM = "text/event-stream"


_SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "lh_<id>_<secret>, or a JWT",
    "description": "A token of this gateway, or a JWT (WLCG, SciTokens) of an issuer that it trusts.",
}


def refuses(*kinds: Kind) -> dict[int | str, Json]:
    """Declare the kinds of problems that a route has beside those that all routes have."""
    declared: dict[int | str, Json] = {}
    for kind in kinds:
        _add(declared, kind.status, kind)
    return declared


def finish(document: Json, open_paths: frozenset[str]) -> Json:
    """Add to FastAPI's document what holds everywhere: problems, headers, tokens. Changes it in place."""
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas |= _schemas()
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    components["securitySchemes"] = {"token": _SCHEME}
    for path, operation in _operations(document):
        _finish_operation(operation, takes_token=path not in open_paths)
    return document


def _schemas() -> Json:
    _, made = models_json_schema(
        [(Problem, "serialization"), (Change, "serialization")], ref_template="#/components/schemas/{model}"
    )
    schemas: Json = made["$defs"]
    return schemas


def _operations(document: Json) -> Iterator[tuple[str, Json]]:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def _finish_operation(operation: Json, *, takes_token: bool) -> None:
    responses = operation["responses"]
    if MEDIA_TYPE not in responses.get("422", {}).get("content", {}):
        responses.pop("422", None)  # FastAPI's own, which is never sent
    for kind in _ALWAYS + _WITH_TOKEN * takes_token + _WITH_BODY * ("requestBody" in operation):
        _add(responses, str(kind.status), kind)
    if takes_token:
        operation["security"] = [{"token": []}]
    if _STREAM in responses.get("200", {}).get("content", {}):
        responses["200"]["content"][_STREAM] = {}  # only OpenAPI 3.2 can say what an event is
    for status, described in _HEADERS.items():
        if str(status.value) in responses:
            responses[str(status.value)]["headers"] = headers(described)


def headers(described: Json) -> Json:
    """Declare headers that an answer always has, each with what it says."""
    return {
        name: {"description": words, "schema": {"type": "string"}, "required": True}
        for name, words in described.items()
    }


def _add(responses: dict[Any, Json], status: int | str, kind: Kind) -> None:
    """Document a kind of problem, beside others that have the same status."""
    known = responses.get(status)
    words = f"{kind.title} (`{kind.urn}`)."
    responses[status] = {
        "description": f"{known['description']} {words}" if known else words,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
