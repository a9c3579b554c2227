"""JWTs of trusted issuers: checks that a token is genuine, valid and meant for us, and derives its principal.

PyJWT checks signatures and times; this module states the requirements. What a token claims (its issuer, key and
algorithm) only selects among what the configuration trusts.

Both profiles know capabilities (scopes such as ``compute.create``); WLCG knows groups besides. A token with
capabilities is judged by these alone, and its groups are ignored, as the WLCG profile wants it (section
2.2.3): its bearer gets the roles that the configuration gives to the issuer, and of their permissions what
the scopes name. A scope with a path (``compute.read:/x``) is narrower than anything that can be told apart
here, and gives nothing. A token without capabilities is judged by its groups: the first that the
configuration knows gives its roles.

The profiles let a capability concern everything of its issuer. Here it concerns what is the subject's own, so
that members of one organisation do not cancel each other's leases; a role gives more.
"""

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

import jwt

from leasehold.service.auth.errors import BearerError, Forbidden, Unauthenticated
from leasehold.service.auth.issuers import GROUP_NAME, Profile, TrustedIssuer, by_url, group_path
from leasehold.service.auth.key_sets import ALGORITHMS, Fetch, KeySet, Seconds, fetch_json
from leasehold.service.auth.permissions import Permission, ScopedPrincipal
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.auth.tokens import Clock, TokenCache, hash_of
from leasehold.sharing.parties import MOST_NAME, is_name, is_path

Claims = Mapping[str, Any]

_SENTENCES: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.ExpiredSignatureError, "has expired"),
    (jwt.ImmatureSignatureError, "is not valid yet"),
    (jwt.InvalidAudienceError, "is meant for another audience"),
    (jwt.MissingRequiredClaimError, "lacks a claim that its profile requires"),
    (jwt.InvalidAlgorithmError, "is signed with an algorithm that is not accepted"),
    (jwt.InvalidSignatureError, "is not signed by its issuer"),
)
"""Messages for tokens that PyJWT rejects; the first that fits."""


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
        cache: TokenCache | None = None,
    ) -> None:
        self._issuers = by_url(issuers)
        self._key_sets = {url: KeySet(issuer, fetch, clock) for url, issuer in self._issuers.items()}
        self._now_ms = now_ms
        self._cache = cache or TokenCache()

    def cached(self, text: str) -> Principal | None:
        """Return the principal of a token seen in the last seconds, without checking its signature again."""
        return self._cache.get(hash_of(text), self._now_ms())

    async def find(self, text: str) -> Principal:
        """Return the principal of a token.

        Raises Unauthenticated where it is not good, Forbidden where it gives nothing here, IssuerUnreachable
        where its keys cannot be had.
        """
        issuer, kid = self._issuer_and_kid(text)
        key = await self._key_sets[issuer.url].key(kid)
        claims = _verified(text, key, issuer)
        principal = principal_of(issuer, claims)
        self._cache.put(hash_of(text), principal, self._now_ms(), self._cache.generation, _until_ms(claims, issuer))
        return principal

    def _issuer_and_kid(self, text: str) -> tuple[TrustedIssuer, str]:
        """Read, unverified, the issuer and the key that the token claims."""
        try:
            complete = jwt.decode_complete(text, options={"verify_signature": False})
        except jwt.PyJWTError:
            raise _invalid("is neither one of this gateway nor a JWT") from None
        issuer = self._issuers.get(str(complete["payload"].get("iss")))
        kid = complete["header"].get("kid")
        if issuer is None:
            raise _invalid("is of an issuer that is not trusted here")
        if not kid:
            raise _invalid("does not name its key")
        return issuer, kid


def _verified(text: str, key: jwt.PyJWK, issuer: TrustedIssuer) -> Claims:
    """Check signature, times, issuer, audience and required claims. Raises Unauthenticated."""
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
    return next((text for kind, text in _SENTENCES if isinstance(error, kind)), "cannot be verified")


def _until_ms(claims: Claims, issuer: TrustedIssuer) -> int:
    return (int(claims["exp"]) + issuer.clock_skew_s) * 1000


REQUIRED_CLAIMS: Mapping[Profile, tuple[str, ...]] = {
    Profile.WLCG: ("exp", "iat", "iss", "sub", "aud", "jti", "wlcg.ver"),  # section 2.1.1
    Profile.SCITOKENS: (
        "exp",
        "nbf",
        "iss",
        "sub",
        "aud",
        "scope",
        "ver",
    ),  # Claims; sub: for accounting here
}

_WLCG_VERSION = re.compile(r"1\.[0-9]+")  # any minor version of a major one that is known: section 4.3.3
_SCITOKENS_VERSIONS = (
    "scitoken:2.0",
    "scitokens:2.0",
)  # the second is how the C++ library wrote it for years
_CAPABILITY = re.compile(r"(storage|compute)\.")

ALWAYS = frozenset({Permission.SITE_SEE, Permission.NODE_SEE, Permission.TOKEN_INSPECT_SELF})
"""Permissions that need no scope: they disclose nothing about other callers."""


def principal_of(issuer: TrustedIssuer, claims: Claims) -> Principal:
    """Derive the principal from these claims, after signature, times and audience were checked.

    Raises Unauthenticated if the claims do not follow the profile, Forbidden if they grant nothing here.
    """
    _check_version(issuer.profile, claims)
    consumer = f"{_subject(claims)}@{issuer.name}"
    scopes = _scopes(claims)
    if issuer.profile is Profile.SCITOKENS or _has_capabilities(scopes, issuer):
        return _by_scopes(issuer, consumer, scopes)
    return _by_groups(issuer, consumer, _groups(claims))


def _check_version(profile: Profile, claims: Claims) -> None:
    if profile is Profile.WLCG:
        version = claims.get("wlcg.ver")
        is_known = isinstance(version, str) and _WLCG_VERSION.fullmatch(version) is not None
    else:
        is_known = claims.get("ver") in _SCITOKENS_VERSIONS
    if not is_known:
        raise _invalid("is of another version than the profile of its issuer")


def _subject(claims: Claims) -> str:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 1 <= len(subject) <= MOST_NAME:
        raise _invalid(f"has no subject of 1 to {MOST_NAME} characters")
    if not (subject.isascii() and subject.isprintable()):
        raise _invalid("has a subject that is not printable ASCII")
    if not is_name(subject):
        raise _invalid("has a subject with a blank or '/', or one that begins with '@' or '*'")
    return subject


def _scopes(claims: Claims) -> list[str]:
    scope = claims.get("scope", "")
    if not isinstance(scope, str):
        raise _invalid("has scopes that are not text")
    return scope.split()


def _has_capabilities(scopes: Iterable[str], issuer: TrustedIssuer) -> bool:
    return any(_CAPABILITY.match(scope) or scope in issuer.scopes for scope in scopes)


def _by_scopes(issuer: TrustedIssuer, consumer: str, scopes: Iterable[str]) -> Principal:
    named: frozenset[Permission] = frozenset().union(*(issuer.scopes.get(scope, ()) for scope in scopes))
    if not named:
        raise Forbidden(consumer, "any permission", f"a token with a scope among {', '.join(issuer.scopes)}")
    return ScopedPrincipal(consumer, issuer.roles, sites=issuer.sites, permissions=named | ALWAYS)


def _groups(claims: Claims) -> list[str]:
    groups = claims.get("wlcg.groups", [])
    if not isinstance(groups, list) or not all(
        isinstance(name, str) and GROUP_NAME.fullmatch(name) and is_path(group_path(name)) for name in groups
    ):
        raise _invalid("has groups that are not a list of WLCG group names")
    return list(dict.fromkeys(groups))


def _by_groups(issuer: TrustedIssuer, consumer: str, groups: list[str]) -> Principal:
    """Return the grant of the first group that has one: the order of the groups states the role to act in.

    Joining several would give the sites of one to the roles of another.
    """
    first = next((group for group in groups if group in issuer.grants), None)
    if first is None:
        raise Forbidden(consumer, "any permission", "a token with a scope, or of a group, that gives one")
    grant = issuer.grants[first]
    own = (first,) if Role.GROUP_MANAGER in grant.roles else tuple(groups)
    return Principal(consumer, grant.roles, grant.groups or tuple(map(group_path, own)), grant.sites)


def _invalid(what: str) -> Unauthenticated:
    return Unauthenticated(BearerError.INVALID_TOKEN, f"the token {what}")
