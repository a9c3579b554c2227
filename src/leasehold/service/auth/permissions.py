"""Authorization: one table states which role grants which permission over what.

A route asks `require` with its permission and what it is about; a list asks `visible` whose rows to look for.
With several roles, a principal has the permissions of each. A token with scopes (see
`leasehold.service.auth.jwts`) restricts them to those that its scopes name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from functools import reduce
from operator import or_
from typing import Self

from leasehold.service.auth.errors import Forbidden
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.store.filters import HAS_JOB, Visible
from leasehold.service.store.rows import AttemptRow, JobRow, LeaseRow


class Permission(StrEnum):
    """An action; every route of the API names one."""

    LEASE_SUBMIT = "lease.submit"
    LEASE_SUBMIT_LOCAL = "lease.submit-local"
    LEASE_SUBMIT_IN_GROUP = "lease.submit-in-group"  # besides one of those two, for a request that names one
    LEASE_SEE = "lease.see"
    LEASE_ENTER = "lease.enter"  # read its console, and be told where one can log in
    LEASE_CANCEL = "lease.cancel"
    LEASE_EXTEND = "lease.extend"
    JOB_SUBMIT = "job.submit"  # and lease.submit-in-group for one that names a group
    JOB_SEE = "job.see"
    JOB_CANCEL = "job.cancel"
    NODE_SEE = "node.see"  # and images
    CHANGES_SEE = "changes.see"
    SITE_SEE = "site.see"
    SITE_DRAIN = "site.drain"
    SITE_FORGET = "site.forget"
    PEER_SEE = "peer.see"
    PEER_MANAGE = "peer.manage"
    AGREEMENT_SEE = "agreement.see"  # besides the published ones, which are public
    AGREEMENT_PROPOSE = "agreement.propose"
    AGREEMENT_SIGN_AS_PROVIDER = "agreement.sign-as-provider"
    AGREEMENT_SIGN_AS_CONSUMER = "agreement.sign-as-consumer"
    AGREEMENT_REVOKE = "agreement.revoke"
    PENALTY_LIFT = "penalty.lift"
    USAGE_SEE = "usage.see"
    FUTURE_ASK = "future.ask"  # what-if, whose answer is about everybody
    SNAPSHOT_TAKE = "snapshot.take"
    TOKEN_MANAGE = "token.manage"  # noqa: S105 - its name
    TOKEN_INSPECT_SELF = "token.inspect-self"  # noqa: S105 - its name
    MESSAGES_EXCHANGE = "messages.exchange"
    METRICS_SEE = "metrics.see"


class Scope(Flag):
    """The objects over which a principal has a permission; `|` joins scopes. Only ALL includes the others."""

    NOTHING = 0
    OWN = auto()  # what is accounted to themselves
    GROUP = auto()  # what belongs to one of their groups
    SITE = auto()  # what is at one of their sites: runs or waits there, or is local to it
    ALL = auto()


OWN, GROUP, SITE, ALL = Scope.OWN, Scope.GROUP, Scope.SITE, Scope.ALL
MEMBER, MANAGER, OPERATOR = Role.MEMBER, Role.GROUP_MANAGER, Role.SITE_OPERATOR
ADMIN, PEER = Role.FEDERATION_ADMIN, Role.PEER

# fmt: off
PERMISSIONS: Mapping[Permission, Mapping[Role, Scope]] = {
    Permission.LEASE_SUBMIT:          {MEMBER: OWN,   MANAGER: OWN,                          ADMIN: ALL},
    Permission.LEASE_SUBMIT_LOCAL:    {MEMBER: SITE,  MANAGER: SITE,        OPERATOR: SITE,  ADMIN: ALL},
    Permission.LEASE_SUBMIT_IN_GROUP: {MEMBER: GROUP, MANAGER: GROUP,       OPERATOR: GROUP, ADMIN: ALL},
    Permission.LEASE_SEE:             {MEMBER: OWN,   MANAGER: OWN | GROUP, OPERATOR: SITE,  ADMIN: ALL},
    Permission.LEASE_ENTER:           {MEMBER: OWN,   MANAGER: OWN,         OPERATOR: OWN,   ADMIN: OWN},
    Permission.LEASE_CANCEL:          {MEMBER: OWN,   MANAGER: OWN | GROUP, OPERATOR: SITE,  ADMIN: ALL},
    Permission.LEASE_EXTEND:          {MEMBER: OWN,   MANAGER: OWN | GROUP,                  ADMIN: ALL},
    Permission.JOB_SUBMIT:            {MEMBER: OWN,   MANAGER: OWN,                          ADMIN: ALL},
    Permission.JOB_SEE:               {MEMBER: OWN,   MANAGER: OWN | GROUP, OPERATOR: SITE,  ADMIN: ALL},
    Permission.JOB_CANCEL:            {MEMBER: OWN,   MANAGER: OWN | GROUP, OPERATOR: SITE,  ADMIN: ALL},
    Permission.NODE_SEE:              {MEMBER: ALL,   MANAGER: ALL,         OPERATOR: ALL,   ADMIN: ALL},
    Permission.CHANGES_SEE:           {MEMBER: OWN,   MANAGER: OWN | GROUP, OPERATOR: SITE,  ADMIN: ALL},
    Permission.SITE_SEE:              {MEMBER: ALL,   MANAGER: ALL,         OPERATOR: ALL,   ADMIN: ALL},
    Permission.SITE_DRAIN:            {                                     OPERATOR: SITE,  ADMIN: ALL},
    Permission.SITE_FORGET:           {                                                      ADMIN: ALL},
    Permission.PEER_SEE:              {                                                      ADMIN: ALL},
    Permission.PEER_MANAGE:           {                                                      ADMIN: ALL},
    Permission.AGREEMENT_SEE:         {MEMBER: GROUP, MANAGER: GROUP,       OPERATOR: SITE,  ADMIN: ALL},
    Permission.AGREEMENT_PROPOSE:     {               MANAGER: GROUP,       OPERATOR: SITE,  ADMIN: ALL},
    Permission.AGREEMENT_SIGN_AS_PROVIDER: {          MANAGER: GROUP,       OPERATOR: SITE,  ADMIN: ALL},
    Permission.AGREEMENT_SIGN_AS_CONSUMER: {          MANAGER: GROUP,       OPERATOR: SITE,  ADMIN: ALL},
    Permission.AGREEMENT_REVOKE:      {               MANAGER: GROUP,       OPERATOR: SITE,  ADMIN: ALL},
    Permission.PENALTY_LIFT:          {                                     OPERATOR: SITE,  ADMIN: ALL},
    Permission.USAGE_SEE:             {MEMBER: OWN,   MANAGER: OWN | GROUP, OPERATOR: SITE,  ADMIN: ALL},
    Permission.FUTURE_ASK:            {                                     OPERATOR: ALL,   ADMIN: ALL},
    Permission.SNAPSHOT_TAKE:         {                                                      ADMIN: ALL},
    Permission.TOKEN_MANAGE:          {                                                      ADMIN: ALL},
    Permission.TOKEN_INSPECT_SELF:    {MEMBER: OWN,   MANAGER: OWN, PEER: OWN, OPERATOR: OWN,   ADMIN: ALL},
    Permission.MESSAGES_EXCHANGE:      {PEER: SITE,                                           ADMIN: ALL},
    Permission.METRICS_SEE:           {                                     OPERATOR: ALL,   ADMIN: ALL},
}
# fmt: on
"""All permissions that roles grant; what is not listed is denied."""


@dataclass(frozen=True, slots=True)
class ScopedPrincipal(Principal):
    """The bearer of a token with scopes: only ``permissions`` are left of those that the roles grant."""

    permissions: frozenset[Permission] = frozenset()


@dataclass(frozen=True, slots=True)
class Target:
    """The object of a request; fields that do not apply stay empty and match no principal.

    ``consumer``  its owner
    ``group``     the group that it belongs to
    ``sites``     its current site, and its home
    """

    consumer: str = ""
    group: str = ""
    sites: frozenset[str] = frozenset()

    @classmethod
    def lease(cls, row: LeaseRow) -> Self:
        """Make a target of a lease."""
        places = {row.lease.site, row.lease.request.site or ""} - {""}
        return cls(row.lease.request.consumer, row.lease.request.group, frozenset(places))

    @classmethod
    def job(cls, job: JobRow, attempts: Iterable[AttemptRow]) -> Self:
        """Make a target of a job: at the sites of its live or successful attempts only."""
        there = frozenset(row.site for row in attempts if row.attempt.state in HAS_JOB)
        return cls(job.record.request.consumer, job.record.request.group, there)

    @classmethod
    def site(cls, name: str) -> Self:
        """Make a target of a site, or of an action there."""
        return cls(sites=frozenset({name}))


FEDERATION = Target()
"""Objects of the whole federation: tokens, metrics. Only a permission over ALL reaches them."""


def _is_own(principal: Principal, target: Target) -> bool:
    return bool(target.consumer) and target.consumer == principal.consumer


def _is_of_group(principal: Principal, target: Target) -> bool:
    return bool(target.group) and target.group in principal.groups


def _is_at_site(principal: Principal, target: Target) -> bool:
    return not principal.sites.isdisjoint(target.sites)


_REACHES: Mapping[Scope, Callable[[Principal, Target], bool]] = {
    Scope.OWN: _is_own,
    Scope.GROUP: _is_of_group,
    Scope.SITE: _is_at_site,
    Scope.ALL: lambda _principal, _target: True,
}


def reach(principal: Principal, permission: Permission) -> Scope:
    """Return the scopes over which a principal has a permission, joined; NOTHING if none."""
    if isinstance(principal, ScopedPrincipal) and permission not in principal.permissions:
        return Scope.NOTHING
    given = PERMISSIONS[permission]
    return reduce(or_, (given[role] for role in principal.roles if role in given), Scope.NOTHING)


def allowed(principal: Principal, permission: Permission, target: Target) -> bool:
    """Whether a principal has a permission over this target."""
    return any(_REACHES[scope](principal, target) for scope in reach(principal, permission))


def require(principal: Principal, permission: Permission, target: Target) -> None:
    """Raise Forbidden unless the principal has a permission over this target."""
    if not allowed(principal, permission, target):
        raise _forbidden(principal, permission)


def require_some(principal: Principal, permission: Permission) -> None:
    """Raise Forbidden if the principal has a permission over nothing at all.

    This check comes before the target of a request is known.
    """
    if not reach(principal, permission):
        raise _forbidden(principal, permission)


def require_submission(principal: Principal, *, home: str | None, group: str) -> None:
    """Raise Forbidden unless the principal may submit leases: at its site ``home`` or, with None, from outside.

    A request may belong to no group ("") or to one of the principal's own.
    """
    if home is None:
        require(principal, Permission.LEASE_SUBMIT, Target(consumer=principal.consumer))
    else:
        require(principal, Permission.LEASE_SUBMIT_LOCAL, Target.site(home))
    if group:
        require(principal, Permission.LEASE_SUBMIT_IN_GROUP, Target(group=group))


def require_job(principal: Principal, group: str) -> None:
    """Raise Forbidden unless the principal may submit a job, in no group ("") or in one of its own."""
    require(principal, Permission.JOB_SUBMIT, Target(consumer=principal.consumer))
    if group:
        require(principal, Permission.LEASE_SUBMIT_IN_GROUP, Target(group=group))


def visible(principal: Principal, permission: Permission) -> Visible:
    """Return which leases or changes a principal may see; raises Forbidden if it may see none."""
    require_some(principal, permission)
    scope = reach(principal, permission)
    return Visible(
        everything=Scope.ALL in scope,
        consumer=principal.consumer if Scope.OWN in scope else "",
        groups=principal.groups if Scope.GROUP in scope else (),
        sites=tuple(sorted(principal.sites)) if Scope.SITE in scope else (),
    )


_IN_WORDS = {Scope.OWN: "own", Scope.GROUP: "its groups'", Scope.SITE: "at its sites"}


def _forbidden(principal: Principal, permission: Permission) -> Forbidden:
    roles = ", ".join(sorted(principal.roles)) or "no role"
    return Forbidden(f"{principal.consumer} ({roles})", permission, _what_gives(principal, permission))


def _what_gives(principal: Principal, permission: Permission) -> str:
    """Name the roles that grant a permission, and over what; or the scopes, if the token lacks them."""
    if isinstance(principal, ScopedPrincipal) and permission not in principal.permissions:
        return "a token with a scope for it"
    return " or ".join(_in_words(role, scope) for role, scope in PERMISSIONS[permission].items())


def _in_words(role: Role, scope: Scope) -> str:
    over = ", ".join(_IN_WORDS[part] for part in scope if part in _IN_WORDS)
    return f"{role} ({over})" if over else role
