"""JWTs of trusted issuers: is this one genuine, still good, and meant for us? Then who shows it?

Everything about signatures and times is PyJWT's; this says what is asked of it. What a token itself says (its
issuer, its key, its algorithm) only chooses among what the configuration trusts.
"""

import time
from collections.abc import Iterable

import jwt

from leasehold.service.auth.errors import BearerError, Unauthenticated
from leasehold.service.auth.fetching import fetch_json
from leasehold.service.auth.issuers import TrustedIssuer, by_url
from leasehold.service.auth.key_sets import ALGORITHMS, Fetch, KeySet, Seconds
from leasehold.service.auth.memory import Memory, hash_of
from leasehold.service.auth.principal import Principal
from leasehold.service.auth.profiles import REQUIRED_CLAIMS, Claims, principal_of
from leasehold.service.auth.tokens import Clock

_SENTENCES: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.ExpiredSignatureError, "the token has expired"),
    (jwt.ImmatureSignatureError, "the token is not valid yet"),
    (jwt.InvalidAudienceError, "the token is meant for somebody else"),
    (jwt.MissingRequiredClaimError, "the token lacks a claim that its profile requires"),
    (jwt.InvalidAlgorithmError, "the token is signed with an algorithm that is not accepted"),
    (jwt.InvalidSignatureError, "the token is not signed by its issuer"),
)
"""What is said of a token that PyJWT refuses; the first that fits."""


class Jwts:
    """The tokens of all trusted issuers. Belongs to one event loop, and never blocks it.

    ``now_ms`` gives Unix milliseconds, ``clock`` seconds for the age of keys. Raises InvalidField where two
    issuers are the same.
    """

    def __init__(
        self,
        issuers: Iterable[TrustedIssuer],
        now_ms: Clock,
        fetch: Fetch = fetch_json,
        clock: Seconds = time.monotonic,
        memory: Memory | None = None,
    ) -> None:
        self._issuers = by_url(issuers)
        self._key_sets = {url: KeySet(issuer, fetch, clock) for url, issuer in self._issuers.items()}
        self._now_ms = now_ms
        self._memory = memory or Memory()

    def recall(self, text: str) -> Principal | None:
        """Give who showed this token in the last seconds, without checking its signature again."""
        return self._memory.recall(hash_of(text), self._now_ms())

    async def find(self, text: str) -> Principal:
        """Say who shows a token.

        Raises Unauthenticated where it is not good, Forbidden where it gives nothing here, IssuerUnreachable
        where its keys cannot be had.
        """
        issuer, kid = self._issuer_and_kid(text)
        key = await self._key_sets[issuer.url].key(kid)
        claims = _verified(text, key, issuer)
        principal = principal_of(issuer, claims)
        self._memory.remember(hash_of(text), principal, self._now_ms(), self._memory.era, _until_ms(claims, issuer))
        return principal

    def _issuer_and_kid(self, text: str) -> tuple[TrustedIssuer, str]:
        """Read, unverified, who claims to have signed it, and with which key."""
        try:
            complete = jwt.decode_complete(text, options={"verify_signature": False})
        except jwt.PyJWTError:
            raise _invalid("the token is neither one of this gateway nor a JWT") from None
        issuer = self._issuers.get(str(complete["payload"].get("iss")))
        kid = complete["header"].get("kid")
        if issuer is None:
            raise _invalid("the token is of an issuer that is not trusted here")
        if not kid:
            raise _invalid("the token does not name its key")
        return issuer, kid


def _verified(text: str, key: jwt.PyJWK, issuer: TrustedIssuer) -> Claims:
    """Check signature, times, issuer, audience and that nothing is missing. Raises Unauthenticated."""
    try:
        return jwt.decode(
            text,
            key,
            algorithms=ALGORITHMS,
            audience=issuer.audience,
            issuer=issuer.url,
            leeway=issuer.clock_skew_s,
            options={"require": list(REQUIRED_CLAIMS[issuer.profile]), "enforce_minimum_key_length": True},
        )
    except jwt.PyJWTError as error:
        raise _invalid(_sentence(error)) from None


def _sentence(error: jwt.PyJWTError) -> str:
    return next((said for kind, said in _SENTENCES if isinstance(error, kind)), "the token cannot be verified")


def _until_ms(claims: Claims, issuer: TrustedIssuer) -> int:
    return (int(claims["exp"]) + issuer.clock_skew_s) * 1000


def _invalid(problem: str) -> Unauthenticated:
    return Unauthenticated(BearerError.INVALID_TOKEN, problem)
