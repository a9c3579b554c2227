"""The issuers whose JWTs are trusted, and how far; read from the configuration and checked once."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from types import MappingProxyType
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from leasehold.configuration.declaration import Choice, Key, Plain, Table, Text, Texts, TextSet, Whole
from leasehold.configuration.keys import NOTHING, Keys
from leasehold.model.errors import InvalidField
from leasehold.service.auth.permissions import Permission
from leasehold.service.auth.principal import Role, check_roles

MOST_SKEW_S = 600
LEAST_CACHED_S = 60
MOST_KEPT_S = 30 * 86_400

GROUP_NAME = re.compile(r"(/[a-zA-Z0-9][a-zA-Z0-9_.-]*)+")
"""The syntax of a group of the WLCG profile (section 2.1.1)."""


def group_path(group: str) -> str:
    """Return the path of a WLCG group as agreements and accounts write it: without the leading slash."""
    return group.removeprefix("/")


_SUBMIT = frozenset(
    {
        Permission.LEASE_SUBMIT,
        Permission.LEASE_SUBMIT_LOCAL,
        Permission.LEASE_SUBMIT_IN_GROUP,
        Permission.JOB_SUBMIT,
    }
)
COMPUTE_SCOPES: Mapping[str, frozenset[Permission]] = MappingProxyType(
    {
        "compute.create": _SUBMIT,
        "compute.read": frozenset(
            {Permission.LEASE_SEE, Permission.LEASE_ENTER, Permission.JOB_SEE, Permission.CHANGES_SEE}
        ),
        "compute.modify": frozenset({Permission.LEASE_EXTEND}),
        "compute.cancel": frozenset({Permission.LEASE_CANCEL, Permission.JOB_CANCEL}),
    }
)
"""The permissions that the scopes of the WLCG profile (section 2.2.1) grant."""


class Profile(StrEnum):
    """Which claims a token has, and what they mean."""

    WLCG = "wlcg"  # WLCG Common JWT Profiles 1.x, https://doi.org/10.5281/zenodo.3460258
    SCITOKENS = "scitokens"  # SciTokens 2.0, https://scitokens.org/technical_docs/Claims


@dataclass(frozen=True, slots=True)
class Grant:
    """The roles and sites that members of an issuer's group have here."""

    roles: Annotated[frozenset[Role], TextSet("at least one", of=Role)]
    groups: Annotated[
        tuple[str, ...],
        Texts(
            "groups here: those that a group manager manages, or in which a member may make requests."
            " Empty: for a manager the group of the grant, for others all groups of the token"
        ),
    ] = ()
    sites: Annotated[
        frozenset[str],
        TextSet("home sites of members, sites that operators run, the site for which a peer speaks"),
    ] = frozenset()


GRANT = Table(Grant, "Roles, groups and sites of the members of a group of an issuer.")


class Scopes(Key):
    """A table: for each scope, the permissions that it grants."""

    accepts = "table of lists of [permissions](api.md#permissions)"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the table."""
        if name not in keys:
            return keys.take(name, default)
        table, permissions = keys.table(name), TextSet("", of=Permission)
        return {scope: permissions.read(table, scope, NOTHING) for scope in table.left()}

    def write(self, value: Mapping[str, frozenset[Permission]]) -> Plain:
        """Give the table."""
        return {scope: sorted(str(one) for one in permitted) for scope, permitted in value.items()}


class Grants(Key):
    """A table of tables: for each group, its `Grant`."""

    accepts = "tables with `roles`, `groups`, `sites`, by group"

    def read(self, keys: Keys, name: str, default: object) -> object:  # noqa: ARG002 - an absent table is empty
        """Take the tables."""
        table = keys.table(name)
        return {group: GRANT.read(table.table(group)) for group in table.left()}

    def write(self, value: Mapping[str, Grant]) -> Plain:
        """Give the tables."""
        return {group: GRANT.to_dict(grant) for group, grant in value.items()}


@dataclass(frozen=True, slots=True)
class TrustedIssuer:
    """An issuer of JWTs that are accepted.

    Default times are those of the WLCG profile, section 4.3.1. Of the groups of a token without scopes the
    first that is in ``grants`` counts, and no other. Names are to the letter, and a group gives nothing to
    those of its subgroups. Raises InvalidField, with ``issuer.`` before the name of the field.
    """

    url: Annotated[str, Text("issuer, exactly as in the claim iss")]
    audience: Annotated[
        tuple[str, ...],
        Texts(
            "names of this gateway in the claim aud",
            more="; values that stand for every audience, `https://wlcg.cern.ch/jwt/v1/any` (WLCG) and"
            " `ANY` (SciTokens), count only if they are listed",
        ),
    ]
    profile: Annotated[
        Profile,
        Choice(
            "profile of its tokens: wlcg or scitokens",
            more=", with the claims of WLCG Common JWT Profiles 1.x or of SciTokens 2.0",
            of=Profile,
        ),
    ]
    roles: Annotated[
        frozenset[Role], TextSet("roles of a token with scopes", more="; they grant nothing beyond the scopes", of=Role)
    ] = frozenset({Role.MEMBER})
    sites: Annotated[frozenset[str], TextSet("home sites of the bearers of its tokens")] = frozenset()
    clock_skew_s: Annotated[
        int, Whole("maximum clock difference", more=f", in seconds, {MOST_SKEW_S} at most", least=0)
    ] = 60
    keys_cached_s: Annotated[int, Whole("time for which its keys are cached", more=", in seconds", least=0)] = 6 * 3_600
    keys_kept_s: Annotated[
        int, Whole("time for which cached keys are used while it cannot be reached", more=", in seconds", least=0)
    ] = 4 * 86_400
    client_id: Annotated[
        str,
        Text(
            "ID under which this gateway is registered there as a public client, for the sign-in on the dashboard",
            more="; its redirect URI is that of the gateway with `/sign-in/callback`",
            unset="no sign-in there",
            optional=True,
        ),
    ] = ""
    sign_in_scope: Annotated[str, Text("scopes that the sign-in asks for")] = "openid"
    scopes: Annotated[
        Mapping[str, frozenset[Permission]],
        Scopes("permissions of each scope", unset="`compute.create`, `.read`, `.modify` and `.cancel`"),
    ] = field(default_factory=lambda: COMPUTE_SCOPES)
    grants: Annotated[
        Mapping[str, Grant],
        Grants(
            "roles, groups and sites by group, for tokens without scopes",
            more=" (WLCG only)",
            unset="none",
            optional=True,
        ),
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_url(self.url)
        if not self.audience or not all(self.audience):
            raise InvalidField("issuer.audience", list(self.audience), "at least one name of this gateway")
        check_roles(self.roles, (), self.sites, "issuer.")
        self._check_grants()
        _check_seconds("clock_skew_s", self.clock_skew_s, 0, MOST_SKEW_S)
        _check_seconds("keys_cached_s", self.keys_cached_s, LEAST_CACHED_S, MOST_KEPT_S)
        _check_seconds("keys_kept_s", self.keys_kept_s, self.keys_cached_s, MOST_KEPT_S)

    def _check_grants(self) -> None:
        if self.grants and self.profile is not Profile.WLCG:
            raise InvalidField("issuer.grants", list(self.grants), "no grants: SciTokens have no groups")
        for group, grant in self.grants.items():
            if not GROUP_NAME.fullmatch(group):
                raise InvalidField("issuer.grants", group, "a group of the WLCG profile, such as /cms/production")
            check_roles(grant.roles, grant.groups or (group_path(group),), grant.sites, f"issuer.grants.{group}.")

    @property
    def name(self) -> str:
        """The part after the @ in the names of its consumers: its host, and the path if it has one.

        The path is included because one host may serve the issuers of several organisations, which may have
        given the same subject to different people. It is written with ``:`` instead of ``/``, so that no consumer
        is below another by the name of an issuer.
        """
        parts = urlsplit(self.url)
        return f"{parts.netloc}{parts.path}".rstrip("/").replace("/", ":").lower()

    @property
    def discovery_url(self) -> str:
        """The URL of its metadata, by OpenID Connect Discovery 1.0, section 4."""
        return f"{self.url.rstrip('/')}/.well-known/openid-configuration"


ISSUER = Table(TrustedIssuer, "Issuers whose tokens are accepted besides those of this gateway.")


def read_issuer(keys: Keys) -> TrustedIssuer:
    """Check the keys of an issuer; raises InvalidField or UnknownName with the place of the key as field."""
    values = ISSUER.values(keys)
    keys.done()
    try:
        return TrustedIssuer(**values)
    except InvalidField as error:
        field_name = error.field.removeprefix("issuer.")
        raise InvalidField(keys.where(field_name), error.value, error.expected) from None


def by_url(issuers: Iterable[TrustedIssuer]) -> dict[str, TrustedIssuer]:
    """Index issuers by their URL. Raises InvalidField if two would give their consumers the same names."""
    found: dict[str, TrustedIssuer] = {}
    names: set[str] = set()
    for issuer in issuers:
        if issuer.name in names:
            raise InvalidField("issuer.url", issuer.url, "each issuer once")
        names.add(issuer.name)
        found[issuer.url] = issuer
    return found


def is_fetchable(url: str) -> bool:
    """Whether keys may be fetched from this URL: over HTTPS, or from this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port  # raises where it is none
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host)))


def is_inside(url: str) -> bool:
    """Whether a URL names this machine or a private network, where others' metadata must not lead us."""
    host = urlsplit(url).hostname or ""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))
    return not address.is_global


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_url(url: str) -> None:
    if not url.isprintable() or " " in url or not is_fetchable(url) or _has_more(urlsplit(url)):
        raise InvalidField(
            "issuer.url", url, "https://HOST[/PATH] as in the claim iss, without user, query or fragment"
        )


def _has_more(parts: SplitResult) -> bool:
    return bool(parts.query or parts.fragment or "@" in parts.netloc)


def _check_seconds(key: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidField(f"issuer.{key}", value, f"{least} to {most} seconds")
