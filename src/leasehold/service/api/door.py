"""Who is let in: each route says what one must be allowed, and nobody gets further before that is settled.

It is settled before the body is read: who may not ask learns nothing about how to ask, and costs nothing.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from leasehold.model.errors import LeaseholdError
from leasehold.service.api.body import JsonRequest, check_content_type
from leasehold.service.auth.authenticator import Authenticator
from leasehold.service.auth.limits import Limiter
from leasehold.service.auth.permissions import Permission, Scope, Target, allowed, reach, require_some
from leasehold.service.auth.principal import Principal
from leasehold.service.federation import Federation

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

SUBMISSIONS = ("/v1/leases", "/v1/coallocations", "/v1/jobs")
"""What is asked for here is kept for long, so that there is a quota of it beside that of requests."""

EXPLAINING = 10
"""What a request costs that is planned for and then thrown away; most cost 1."""

_NOBODY = Principal("", frozenset())


@dataclass(frozen=True, slots=True)
class Call:
    """One call: who makes it, and the federation that is to answer."""

    principal: Principal
    federation: Federation
    charge: Callable[[int], None] = lambda _: None
    """Count so many more requests of this caller: what it asked for turned out to be that much work."""


def needs(*permissions: Permission, cost: int = 1) -> Callable[[Endpoint], Endpoint]:
    """Declare what one must be allowed to use this endpoint: one thing, or the first or else the second.

    ``cost`` is as how many requests it counts.
    """

    def declare(endpoint: Endpoint) -> Endpoint:
        endpoint.permissions = permissions  # type: ignore[attr-defined]  # functions carry what is put on them
        endpoint.cost = cost  # type: ignore[attr-defined]  # as before
        return endpoint

    return declare


class Door:
    """Lets callers in, or raises Unauthenticated, Forbidden or TooManyRequests."""

    def __init__(
        self,
        federation: Federation,
        authenticator: Authenticator,
        limiter: Limiter,
        open_paths: frozenset[str],
        submissions: Limiter,
    ) -> None:
        self.federation = federation
        self._authenticator = authenticator
        self._limiter = limiter
        self._open_paths = open_paths
        self._submissions = submissions

    async def admit(self, request: Request, permissions: tuple[Permission, ...], cost: int = 1) -> Call:
        """Find out who asks, count it, and check that they may do such a thing at all."""
        if request.scope["path"] in self._open_paths:
            return Call(_NOBODY, self.federation)
        principal = await self._who(request)
        self._limiter.take(principal.consumer, monotonic(), cost)
        _let_pass(principal, permissions)
        counting = [self._limiter]
        if request.method == "POST" and request.scope["path"] in SUBMISSIONS:
            self._submissions.take(principal.consumer, monotonic())
            counting.append(self._submissions)

        def charge(more: int) -> None:
            for limiter in counting:
                limiter.count(principal.consumer, monotonic(), more)

        return Call(principal, self.federation, charge)

    async def may_stay(self, request: Request, permission: Permission) -> bool:
        """Whether somebody who was admitted long ago would be admitted now."""
        try:
            require_some(await self._who(request), permission)
        except LeaseholdError:
            return False
        return True

    async def _who(self, request: Request) -> Principal:
        address = request.client.host if request.client else ""
        return await self._authenticator.principal(request.headers.get("authorization"), address)


class GuardedRoute(APIRoute):
    """A route behind the door; one that does not say what it needs cannot even be made."""

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
        """Admit the caller, then go on as every route does."""
        go_on, permissions, cost, has_body = (
            super().get_route_handler(),
            self.permissions,
            self.cost,
            self.body_field is not None,
        )

        async def guarded(request: Request) -> Response:
            request.scope["leasehold.call"] = await request.app.state.door.admit(request, permissions, cost)
            return await go_on(await self.readable(request) if has_body else _strict(request))

        return guarded

    async def readable(self, request: Request) -> Request:
        """Give a request whose body can be read; raises HTTPException for one that is no JSON."""
        check_content_type(request)
        return _strict(request)


async def _admitted(request: Request) -> Call:
    call: Call = request.scope["leasehold.call"]
    return call


def _strict(request: Request) -> Request:
    return JsonRequest(request.scope, request.receive)


Admitted = Annotated[Call, Depends(_admitted)]
"""What an endpoint takes to know who calls, and whom to ask."""


def _let_pass(principal: Principal, permissions: tuple[Permission, ...]) -> None:
    if not any(reach(principal, permission) for permission in permissions):
        require_some(principal, permissions[0])


def seen_by(call: Call, permission: Permission, lease_ids: Iterable[int]) -> Callable[[int], bool]:
    """Say which of these leases a caller may see, and that of any other it may not. Reads the store."""
    if Scope.ALL in reach(call.principal, permission):
        return lambda _lease_id: True
    rows = filter(None, map(call.federation.store.lease, lease_ids))
    seen = {row.lease.id for row in rows if allowed(call.principal, permission, Target.lease(row))}
    return seen.__contains__
