"""What do the claims of a JWT say? The two profiles, and what becomes of a token's scopes and groups here.

Both profiles know capabilities (scopes such as ``compute.create``); WLCG knows groups besides. A token with
capabilities is judged by these alone, and its groups are ignored, as the WLCG profile wants it (section
2.2.3): its bearer gets the roles that the configuration gives to the issuer, and of their permissions what
the scopes name. A scope with a path (``compute.read:/x``) is narrower than anything that can be told apart
here, and gives nothing. A token without capabilities is judged by its groups: the first that the
configuration knows gives its roles.

The profiles let a capability concern everything of its issuer. Here it concerns what is the subject's own, so
that members of one organisation do not cancel each other's leases; who should do more gets a role for it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.service.auth.errors import BearerError, Forbidden, Unauthenticated
from leasehold.service.auth.issuers import GROUP_NAME, Profile, TrustedIssuer, group_path
from leasehold.service.auth.permissions import Permission, ScopedPrincipal
from leasehold.service.auth.principal import Principal, Role
from leasehold.sharing.paths import MOST_NAME, is_name, is_path

Claims = Mapping[str, Any]

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
"""What needs no scope: it tells nothing about anybody else."""


def principal_of(issuer: TrustedIssuer, claims: Claims) -> Principal:
    """Say who shows a token with these claims, whose signature, times and audience were found good.

    Raises Unauthenticated where the claims are not those of the profile, Forbidden where they give nothing
    here.
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
        raise _invalid("has scopes that are no text")
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
        raise _invalid("has groups that are no list of WLCG group names")
    return list(dict.fromkeys(groups))


def _by_groups(issuer: TrustedIssuer, consumer: str, groups: list[str]) -> Principal:
    """Let the first group count that gives anything: the order of the groups says what somebody acts as.

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
