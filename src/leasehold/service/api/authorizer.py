"""Which requests are let in: each route says what permission it needs, and that is settled before the body is read.

So a request without the permission learns nothing about the route, and costs nothing. Bodies are read strictly:
JSON in UTF-8, without what other readers of JSON would take differently.
"""

import json
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from leasehold.model.errors import LeaseholdError
from leasehold.service.auth.authenticator import Authenticator
from leasehold.service.auth.limits import Limiter
from leasehold.service.auth.permissions import Permission, Scope, Target, allowed, reach, require_some
from leasehold.service.auth.principal import Principal
from leasehold.service.auth.sessions import COOKIE, Sessions, require_same_origin
from leasehold.service.federation import Federation

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

SUBMISSIONS = ("/v1/leases", "/v1/coallocations", "/v1/jobs", "/submit")
"""Submissions are stored for long, so they have a quota besides that of requests."""

PLANNING = 10
"""Cost of a request that is planned and then discarded; most cost 1."""

_NOT_JSON = 415
_ANONYMOUS = Principal("", frozenset())


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its principal, and the federation that answers it."""

    principal: Principal
    federation: Federation
    charge: Callable[[int], None] = lambda _: None
    """Count so many more requests of this caller, since the request turned out to be that much work."""


def needs(*permissions: Permission, cost: int = 1) -> Callable[[Endpoint], Endpoint]:
    """Declare the permissions of an endpoint; one of them suffices, and Forbidden names the first.

    ``cost`` is the number of requests that it counts as.
    """

    def declare(endpoint: Endpoint) -> Endpoint:
        endpoint.permissions = permissions  # type: ignore[attr-defined]  # functions carry what is put on them
        endpoint.cost = cost  # type: ignore[attr-defined]  # as before
        return endpoint

    return declare


class Authorizer:
    """Authenticates and authorizes callers, or raises Unauthenticated, Forbidden or TooManyRequests."""

    def __init__(
        self,
        federation: Federation,
        authenticator: Authenticator,
        limiter: Limiter,
        open_paths: frozenset[str],
        submissions: Limiter,
        sessions: Sessions,
    ) -> None:
        self.federation = federation
        self._authenticator = authenticator
        self._limiter = limiter
        self._open_paths = open_paths
        self._submissions = submissions
        self._sessions = sessions

    async def authorize(self, request: Request, permissions: tuple[Permission, ...], cost: int = 1) -> Call:
        """Authenticate the caller, count the request, and check that the caller has a permission for it at all."""
        if request.scope["path"] in self._open_paths:
            return Call(await self._of_session(request) or _ANONYMOUS, self.federation)
        principal = await self._principal(request)
        self._limiter.take(principal.consumer, monotonic(), cost)
        if not any(reach(principal, permission) for permission in permissions):
            require_some(principal, permissions[0])
        counting = [self._limiter]
        if request.method == "POST" and request.scope["path"] in SUBMISSIONS:
            self._submissions.take(principal.consumer, monotonic())
            counting.append(self._submissions)

        def charge(more: int) -> None:
            for limiter in counting:
                limiter.count(principal.consumer, monotonic(), more)

        return Call(principal, self.federation, charge)

    async def reauthorize(self, request: Request, permission: Permission) -> bool:
        """Whether a caller that was authorized long ago would be authorized now."""
        try:
            require_some(await self._principal(request), permission)
        except LeaseholdError:
            return False
        return True

    async def _of_session(self, request: Request) -> Principal | None:
        """Whose session the cookie of a request is; a token in its header goes before it."""
        cookie = request.cookies.get(COOKIE)
        if cookie is None or "authorization" in request.headers:
            return None
        principal = await self._sessions.principal(cookie)
        if principal is not None:
            origin = self.federation.config.service.url or str(request.base_url)
            require_same_origin(request.method, request.headers, origin)
        return principal

    async def _principal(self, request: Request) -> Principal:
        in_session = await self._of_session(request)
        if in_session is not None:
            return in_session
        address = request.client.host if request.client else ""
        return await self._authenticator.principal(request.headers.get("authorization"), address)


class GuardedRoute(APIRoute):
    """A route behind the authorizer; one that does not say what it needs cannot even be made."""

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """What one must be allowed to use it: any of these."""
        declared: tuple[Permission, ...] = self.endpoint.permissions  # type: ignore[attr-defined]
        return declared

    @property
    def cost(self) -> int:
        """As how many requests it counts."""
        cost: int = self.endpoint.cost  # type: ignore[attr-defined]  # as permissions
        return cost

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Authorize the caller, then handle the request as any route does."""
        go_on, permissions, cost, has_body = (
            super().get_route_handler(),
            self.permissions,
            self.cost,
            self.body_field is not None,
        )

        async def guarded(request: Request) -> Response:
            authorizer: Authorizer = request.app.state.authorizer
            request.scope["leasehold.call"] = await authorizer.authorize(request, permissions, cost)
            return await go_on(await self.readable(request) if has_body else _strict(request))

        return guarded

    async def readable(self, request: Request) -> Request:
        """Give a request whose body can be read; raises HTTPException for one that is not JSON."""
        media_type, length = media_type_of(request), request.headers.get("content-length", "0")
        has_body = length != "0" or "transfer-encoding" in request.headers
        if has_body and media_type != "application/json":
            raise HTTPException(_NOT_JSON, f"Content-Type: got {media_type!r}, expected 'application/json'")
        return _strict(request)


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


def _strict(request: Request) -> Request:
    return JsonRequest(request.scope, request.receive)


async def _authorized(request: Request) -> Call:
    call: Call = request.scope["leasehold.call"]
    return call


Authorized = Annotated[Call, Depends(_authorized)]
"""The parameter through which an endpoint receives its `Call`."""


def seen_by(call: Call, permission: Permission, lease_ids: Iterable[int]) -> Callable[[int], bool]:
    """Return a check whether the caller may see a lease: some of these, and no other. Reads the store."""
    if Scope.ALL in reach(call.principal, permission):
        return lambda _lease_id: True
    rows = filter(None, map(call.federation.store.lease, lease_ids))
    seen = {row.lease.id for row in rows if allowed(call.principal, permission, Target.lease(row))}
    return seen.__contains__


def jobs_seen_by(call: Call, job_ids: Iterable[int]) -> set[int]:
    """Give those of these jobs that the caller may see. Reads the store."""
    store = call.federation.store
    rows = [(row, store.attempts([number])) for number in job_ids if (row := store.job(number)) is not None]
    return {row.record.id for row, tries in rows if allowed(call.principal, Permission.JOB_SEE, Target.job(row, tries))}


class _InPath(Convertor[str]):
    """Matches a number in a path: anything but the name of a sibling route.

    `Number` checks it and reports its name and value. Starlette's own ``int`` answers instead as if the route
    did not exist, and fails for more digits than Python reads.
    """

    regex = "(?!plan(?:/|$))[^/]+"

    def convert(self, value: str) -> str:
        """Leave it as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Leave it as it is."""
        return value


register_url_convertor("number", _InPath())
