"""Authentication: from the Authorization header of a request to its principal, for every kind of token."""

import asyncio
import re
import time

from leasehold.service.auth.errors import BearerError, Unauthenticated
from leasehold.service.auth.jwts import Jwts
from leasehold.service.auth.key_sets import Seconds
from leasehold.service.auth.limits import FAILURES, Limiter, RateLimit, address_key
from leasehold.service.auth.principal import Principal
from leasehold.service.auth.tokens import PREFIX, Tokens

MOST_CHARACTERS = 16_384
"""The longest token that is accepted."""

_BEARER = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # b64token, RFC 6750, section 2.1
_HOW = "show a token: Authorization: Bearer TOKEN"


def bearer_token(authorization: str | None) -> str:
    """Read the token from the header of a request.

    Raises Unauthenticated: without an error code if there is no bearer token, as an invalid request if it
    cannot be one.
    """
    scheme, _, token = (authorization or "").strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated(BearerError.NONE, _HOW)
    token = token.strip()
    if len(token) > MOST_CHARACTERS or not _BEARER.fullmatch(token):
        raise Unauthenticated(BearerError.INVALID_REQUEST, _HOW)
    return token


class Authenticator:
    """Identifies callers. Belongs to one event loop, and never blocks it.

    A token that was valid a few seconds ago is accepted at once; any other is looked up. An address may fail as
    often as ``failures`` allows; after that its failures are answered with the time of the next try. A valid
    token is accepted however often its address has failed: many people may share an address, and one of them
    must not be able to lock the others out. ``clock`` returns seconds.
    """

    def __init__(
        self, tokens: Tokens, jwts: Jwts, failures: RateLimit = FAILURES, clock: Seconds = time.monotonic
    ) -> None:
        self._tokens = tokens
        self._jwts = jwts
        self._failures = Limiter(failures, "too many tokens from this address were not valid")
        self._clock = clock

    async def principal(self, authorization: str | None, address: str = "") -> Principal:
        """Return the principal for the Authorization header of a request from this address; "" is not limited.

        Raises Unauthenticated, or TooManyRequests where the address has failed too often before; Forbidden
        for a good token that gives nothing here; IssuerUnreachable where the keys of the token's issuer
        cannot be had.
        """
        token = bearer_token(authorization)
        known = self._cached(token)
        return known if known is not None else await self._look_up(token, address_key(address))

    async def _look_up(self, token: str, key: str) -> Principal:
        try:
            return await self._find(token)
        except Unauthenticated:
            if key:
                self._failures.take(key, self._clock())
            raise

    def _cached(self, token: str) -> Principal | None:
        return self._tokens.cached(token) or self._jwts.cached(token)

    async def _find(self, token: str) -> Principal:
        if token.startswith(PREFIX):
            return await asyncio.to_thread(self._tokens.find, token)
        return await self._jwts.find(token)
