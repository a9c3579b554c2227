"""Who asks? From the Authorization header of a request to a principal, whatever kind of token it shows."""

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
"""The longest token that is looked at."""

_BEARER = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # b64token, RFC 6750, section 2.1
_HOW = "show a token: Authorization: Bearer TOKEN"


def bearer_token(authorization: str | None) -> str:
    """Read the token off the header of a request.

    Raises Unauthenticated: without an error where no bearer token was shown, as an invalid request where what
    was shown cannot be one.
    """
    scheme, _, token = (authorization or "").strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated(BearerError.NONE, _HOW)
    token = token.strip()
    if len(token) > MOST_CHARACTERS or not _BEARER.fullmatch(token):
        raise Unauthenticated(BearerError.INVALID_REQUEST, _HOW)
    return token


class Authenticator:
    """Finds out who asks. Belongs to one event loop, and never blocks it.

    A token that was good a few seconds ago is good at once. For any other, its address may fail as often as
    ``failures`` says; after that nothing from there is looked at until some time has passed. Addresses that
    many people share are why this is generous. ``clock`` gives seconds.
    """

    def __init__(
        self, tokens: Tokens, jwts: Jwts, failures: RateLimit = FAILURES, clock: Seconds = time.monotonic
    ) -> None:
        self._tokens = tokens
        self._jwts = jwts
        self._failures = Limiter(failures, "too many tokens from this address were not valid")
        self._clock = clock

    async def principal(self, authorization: str | None, address: str = "") -> Principal:
        """Say who asks, by the Authorization header of a request from this address; "" is not limited.

        Raises Unauthenticated; Forbidden for a good token that gives nothing here; TooManyRequests for an
        address that failed too often; IssuerUnreachable where the keys of the token's issuer cannot be had.
        """
        token = bearer_token(authorization)
        known = self._recall(token)
        return known if known is not None else await self._look_up(token, address_key(address))

    async def _look_up(self, token: str, key: str) -> Principal:
        self._failures.check(key, self._clock())
        try:
            return await self._find(token)
        except Unauthenticated:
            if key:
                self._failures.count(key, self._clock())
            raise

    def _recall(self, token: str) -> Principal | None:
        return self._tokens.recall(token) or self._jwts.recall(token)

    async def _find(self, token: str) -> Principal:
        if token.startswith(PREFIX):
            return await asyncio.to_thread(self._tokens.find, token)
        return await self._jwts.find(token)
