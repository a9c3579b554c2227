"""Who may do what: the table of the code against the rules written a second time, the other way round.

Here each line is a permission and each column a relation between who asks and what it is about; a cell has
the letters of the roles that may.
"""

import dataclasses
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.service.auth.errors import Forbidden
from leasehold.service.auth.permissions import (
    FEDERATION,
    PERMISSIONS,
    Permission,
    Scope,
    ScopedPrincipal,
    Target,
    allowed,
    reach,
    require,
    require_some,
    require_submission,
    visible,
)
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.store.filters import Visible
from leasehold.service.store.rows import AttemptRow, JobRow, LeaseRow
from leasehold.testing.rows import lease_row

LETTERS = {
    "m": Role.MEMBER,
    "g": Role.GROUP_MANAGER,
    "o": Role.SITE_OPERATOR,
    "a": Role.FEDERATION_ADMIN,
    "p": Role.PEER,
}

# Who asks is `physics`, of the group `astro`, with the site `das3`.
RELATIONS = {
    "own": Target(consumer="physics"),
    "group's": Target(consumer="climate", group="astro"),
    "at site": Target(consumer="climate", sites=frozenset({"das3"})),
    "away": Target(consumer="climate", sites=frozenset({"das3", "das5"})),  # local to das3, runs at das5
    "others'": Target(consumer="climate", group="ocean", sites=frozenset({"das5"})),
    "all": FEDERATION,
}

RULES = """
                            own    group's  at site  away   others'  all
lease.submit                mga    a        a        a      a        a
lease.submit-local          a      a        mgoa     mgoa   a        a
lease.submit-in-group       a      mgoa     a        a      a        a
lease.see                   mga    ga       oa       oa     a        a
lease.enter                 mgoa   -        -        -      -        -
lease.cancel                mga    ga       oa       oa     a        a
lease.extend                mga    ga       a        a      a        a
job.submit                  mga    a        a        a      a        a
job.see                     mga    ga       oa       oa     a        a
job.cancel                  mga    ga       oa       oa     a        a
node.see                    mgoa   mgoa     mgoa     mgoa   mgoa     mgoa
changes.see                 mga    ga       oa       oa     a        a
site.see                    mgoa   mgoa     mgoa     mgoa   mgoa     mgoa
site.drain                  a      a        oa       oa     a        a
site.forget                 a      a        a        a      a        a
peer.see                    a      a        a        a      a        a
peer.manage                 a      a        a        a      a        a
agreement.see               a      mga      oa       oa     a        a
agreement.propose           a      ga       oa       oa     a        a
agreement.sign-as-provider  a      ga       oa       oa     a        a
agreement.sign-as-consumer  a      ga       oa       oa     a        a
agreement.revoke            a      ga       oa       oa     a        a
penalty.lift                a      a        oa       oa     a        a
usage.see                   mga    ga       oa       oa     a        a
future.ask                  oa     oa       oa       oa     oa       oa
snapshot.take               a      a        a        a      a        a
token.manage                a      a        a        a      a        a
token.inspect-self          mgoap  a        a        a      a        a
messages.exchange           a      a        pa       pa     a        a
metrics.see                 oa     oa       oa       oa     oa       oa
"""
LINES = {line.split()[0]: line.split()[1:] for line in RULES.strip().splitlines()[1:]}


def asking(*roles: Role) -> Principal:
    return Principal("physics", frozenset(roles), ("astro",), frozenset({"das3"}))


def lease(consumer: str, group: str, site: str, home: str | None) -> LeaseRow:
    return lease_row(1, consumer=consumer, group=group, site=site, home=home)


def test_the_rules_name_every_permission_once_and_the_table_knows_each() -> None:
    assert list(LINES) == [str(permission) for permission in Permission]
    assert list(PERMISSIONS) == list(Permission)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("permission", Permission)
def test_each_role_may_what_the_rules_say_and_nothing_else(role: Role, permission: Permission) -> None:
    may = {
        relation: role in {LETTERS[letter] for letter in cell.strip("-")}
        for relation, cell in zip(RELATIONS, LINES[permission], strict=True)
    }
    assert {name: allowed(asking(role), permission, target) for name, target in RELATIONS.items()} == may


roles = st.sets(st.sampled_from(Role))
permissions = st.sampled_from(Permission)
targets = st.sampled_from(list(RELATIONS.values()))


@given(first=roles, second=roles, permission=permissions, target=targets)
def test_several_roles_give_what_each_of_them_gives(
    first: set[Role], second: set[Role], permission: Permission, target: Target
) -> None:
    apart = any(allowed(asking(*some), permission, target) for some in (first, second))
    assert allowed(asking(*first, *second), permission, target) == apart


def test_without_a_role_nothing_may_be_done() -> None:
    assert not any(reach(asking(), permission) for permission in Permission)


@pytest.mark.parametrize("role", Role)
def test_a_nameless_owner_group_or_site_is_nobodys(role: Role) -> None:
    nameless = Principal("", frozenset({role}), ("",), frozenset())
    everywhere = {permission for permission in Permission if PERMISSIONS[permission].get(role) == Scope.ALL}
    assert {permission for permission in Permission if allowed(nameless, permission, FEDERATION)} == everywhere


names = st.sampled_from(["", "physics", "climate", "astro", "das3", "das5"])
people = st.builds(
    Principal,
    consumer=names.filter(bool),
    roles=st.frozensets(st.sampled_from(Role)),
    groups=st.lists(names, max_size=2).map(tuple),
    sites=st.frozensets(names.filter(bool), max_size=2),
)
leases = st.builds(lease, names.filter(bool), names, names, st.none() | names.filter(bool))


def is_visible(row: LeaseRow, seen: Visible) -> bool:
    """Read `Visible` as its docstring says, for one lease."""
    return (
        seen.everything
        or row.lease.request.consumer == seen.consumer
        or (row.lease.request.group != "" and row.lease.request.group in seen.groups)
        or bool(({row.lease.site, row.lease.request.site} - {""}) & set(seen.sites))
    )


@given(who=people, row=leases)
def test_a_list_shows_exactly_the_leases_that_may_be_seen_one_by_one(who: Principal, row: LeaseRow) -> None:
    one_by_one = allowed(who, Permission.LEASE_SEE, Target.lease(row))
    try:
        listed = is_visible(row, visible(who, Permission.LEASE_SEE))
    except Forbidden:
        listed = False
    assert listed == one_by_one


def test_what_roles_see_is_said_to_the_store() -> None:
    see = Permission.LEASE_SEE
    assert visible(asking(Role.MEMBER), see) == Visible(consumer="physics")
    assert visible(asking(Role.GROUP_MANAGER), see) == Visible(consumer="physics", groups=("astro",))
    assert visible(asking(Role.SITE_OPERATOR), see) == Visible(sites=("das3",))
    assert visible(asking(Role.FEDERATION_ADMIN), see).everything
    with pytest.raises(Forbidden):
        visible(asking(Role.PEER), see)


def scoped(who: Principal, *given_: Permission) -> ScopedPrincipal:
    fields = {field.name: getattr(who, field.name) for field in dataclasses.fields(who)}
    return ScopedPrincipal(**fields, permissions=frozenset(given_))


@given(who=people, given_=st.sets(permissions), permission=permissions, target=targets)
def test_a_tokens_scopes_only_ever_take_away(
    who: Principal, given_: set[Permission], permission: Permission, target: Target
) -> None:
    expected = permission in given_ and allowed(who, permission, target)
    assert allowed(scoped(who, *given_), permission, target) == expected


MAY_REQUEST = [
    (Role.MEMBER, None, ""),
    (Role.MEMBER, None, "astro"),
    (Role.MEMBER, "das3", ""),
    (Role.GROUP_MANAGER, None, "astro"),
    (Role.SITE_OPERATOR, "das3", ""),
    (Role.FEDERATION_ADMIN, None, "ocean"),
    (Role.FEDERATION_ADMIN, "das5", "ocean"),
]
MAY_NOT_REQUEST = [
    (Role.MEMBER, None, "ocean"),
    (Role.MEMBER, "das3", "ocean"),
    (Role.MEMBER, "das5", ""),
    (Role.GROUP_MANAGER, "das5", "astro"),
    (Role.SITE_OPERATOR, None, ""),
    (Role.SITE_OPERATOR, "das5", ""),
    (Role.PEER, None, ""),
    (Role.PEER, "das3", ""),
]


@pytest.mark.parametrize(("role", "home", "group"), MAY_REQUEST)
def test_requests_are_made_for_oneself_at_home_and_in_ones_own_groups(role: Role, home: str | None, group: str) -> None:
    require_submission(asking(role), home=home, group=group)


@pytest.mark.parametrize(("role", "home", "group"), MAY_NOT_REQUEST)
def test_requests_elsewhere_or_in_others_groups_are_refused(role: Role, home: str | None, group: str) -> None:
    with pytest.raises(Forbidden):
        require_submission(asking(role), home=home, group=group)


def test_a_refusal_says_who_what_and_what_would_have_been_needed() -> None:
    with pytest.raises(Forbidden) as refusal:
        require(asking(Role.MEMBER), Permission.LEASE_CANCEL, RELATIONS["others'"])
    assert str(refusal.value) == (
        "physics (member) lacks lease.cancel here, which takes member (own) or group-manager (own, its "
        "groups') or site-operator (at its sites) or federation-admin"
    )
    assert refusal.value.challenge == (
        'Bearer realm="leasehold", error="insufficient_scope", error_description="lease.cancel is needed"'
    )


def test_a_refusal_of_a_token_with_scopes_says_so() -> None:
    member = scoped(asking(Role.MEMBER), Permission.LEASE_SEE)
    with pytest.raises(Forbidden, match=r"lacks lease.cancel here, which takes a token with a scope for it"):
        require_some(member, Permission.LEASE_CANCEL)


@pytest.mark.parametrize(
    ("state", "may"),
    [("ordered", True), ("running", True), ("succeeded", True), ("failed", False), ("fenced", False)],
)
def test_an_operator_sees_and_cancels_a_job_only_where_it_is(state: str, *, may: bool) -> None:
    operator = Principal("keeper", frozenset({Role.SITE_OPERATOR}), sites=frozenset({"das3"}))
    at = {"das3": state, "lyon": "running"}
    attempts = [SimpleNamespace(site=site, attempt=SimpleNamespace(state=stands)) for site, stands in at.items()]
    job = SimpleNamespace(record=SimpleNamespace(request=SimpleNamespace(consumer="climate", group="")))
    target = Target.job(cast("JobRow", job), cast("list[AttemptRow]", attempts))
    for permission in (Permission.JOB_SEE, Permission.JOB_CANCEL):
        assert allowed(operator, permission, target) == may
