"""``[[issuer]]``: whose tokens count beside those that this gateway gives out, read and written."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from leasehold.configuration.keys import Keys
from leasehold.configuration.plain import Plain
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.service.auth.issuers import COMPUTE_SCOPES, Grant, Profile, TrustedIssuer
from leasehold.service.auth.permissions import Permission
from leasehold.service.auth.principal import Role

Name = TypeVar("Name", bound=StrEnum)

_SECONDS = ("clock_skew_s", "keys_cached_s", "keys_kept_s")


def read_issuer(keys: Keys) -> TrustedIssuer:
    """Check the keys of an issuer; raises InvalidField or UnknownName with the place of the key as field."""
    read: Plain = {
        "url": keys.text("url"),
        "audience": keys.texts("audience"),
        "profile": Profile(keys.name_of("profile", Profile)),
        "roles": _names(keys, "roles", Role, (Role.MEMBER,)),
        "sites": frozenset(keys.texts("sites", ())),
        "scopes": _scopes(keys),
        "grants": _grants(keys.table("grants")),
        **{name: keys.whole(name, least=0) for name in _SECONDS if name in keys},
    }
    keys.done()
    try:
        return TrustedIssuer(**read)
    except InvalidField as error:
        field = error.field.removeprefix("issuer.")
        raise InvalidField(keys.where(field), error.value, error.expected) from None


def _scopes(keys: Keys) -> dict[str, frozenset[Permission]]:
    """Read what each scope permits; without the table it is what the WLCG profile says."""
    if "scopes" not in keys:
        return dict(COMPUTE_SCOPES)
    table = keys.table("scopes")
    return {scope: _names(table, scope, Permission) for scope in table.left()}


def _grants(table: Keys) -> dict[str, Grant]:
    return {group: _grant(table.table(group)) for group in table.left()}


def _grant(keys: Keys) -> Grant:
    grant = Grant(
        roles=_names(keys, "roles", Role),
        groups=keys.texts("groups", ()),
        sites=frozenset(keys.texts("sites", ())),
    )
    keys.done()
    return grant


def _names(
    keys: Keys, key: str, kind: type[Name], default: tuple[Name, ...] | None = None
) -> frozenset[Name]:
    """Read a list of names of one kind; without a default it must be there."""
    texts = keys.texts(key) if default is None else keys.texts(key, default)
    known = [str(name) for name in kind]
    for text in texts:
        if text not in known:
            raise UnknownName(keys.where(key), text, known)
    return frozenset(kind(text) for text in texts)


def issuer_to_dict(issuer: TrustedIssuer) -> Plain:
    """Give the keys of an issuer."""
    told: Plain = {
        "url": issuer.url,
        "audience": list(issuer.audience),
        "profile": str(issuer.profile),
        "roles": _sorted(issuer.roles),
        "sites": _sorted(issuer.sites),
        **{name: getattr(issuer, name) for name in _SECONDS},
        "scopes": {scope: _sorted(permitted) for scope, permitted in issuer.scopes.items()},
    }
    grants = {group: _grant_to_dict(grant) for group, grant in issuer.grants.items()}
    return told | ({"grants": grants} if grants else {})


def _grant_to_dict(grant: Grant) -> Plain:
    return {"roles": _sorted(grant.roles), "groups": list(grant.groups), "sites": _sorted(grant.sites)}


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(str(name) for name in names)
