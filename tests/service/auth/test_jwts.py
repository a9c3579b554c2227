"""JWTs of both profiles from a real issuer: good ones are somebody, and with one thing wrong none is."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.auth.issuer import (
    AUDIENCE,
    LocalIssuer,
    public_pem,
    published,
    sign,
    sign_by_hand,
    signing_key,
)
from tests.service.auth.stores import Clock

from leasehold.configuration.agreements import agreement_from_dict
from leasehold.model.agreement import EVERYBODY
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType, Request
from leasehold.service.auth.errors import BearerError, Forbidden, Unauthenticated
from leasehold.service.auth.issuers import Grant, Profile, TrustedIssuer
from leasehold.service.auth.jwts import Jwts, principal_of
from leasehold.service.auth.permissions import Permission, ScopedPrincipal, reach
from leasehold.service.auth.principal import Principal, Role, check_consumer
from leasehold.sharing.parties import accounts_of_guest, is_path, prefixes

GRANTS = {
    "/cms/production": Grant(frozenset({Role.GROUP_MANAGER})),
    "/cms/operators": Grant(frozenset({Role.SITE_OPERATOR}), sites=frozenset({"das3"})),
    "/cms": Grant(frozenset({Role.MEMBER}), sites=frozenset({"das5"})),
}
ANYBODY = {Profile.WLCG: "https://wlcg.cern.ch/jwt/v1/any", Profile.SCITOKENS: "ANY"}


def trusting(issuer: LocalIssuer, profile: Profile = Profile.WLCG, **more: Any) -> Jwts:
    """Trust an issuer with the grants above."""
    grants = GRANTS if profile is Profile.WLCG else {}
    given_ = {"audience": (AUDIENCE,), "profile": profile, "grants": grants} | more
    return Jwts([TrustedIssuer(issuer.url, **given_)], Clock())


def find(jwts: Jwts, token: str) -> Principal:
    return asyncio.run(jwts.find(token))


def refusal(jwts: Jwts, token: str) -> str:
    """Why the token is not good."""
    with pytest.raises(Unauthenticated) as error:
        find(jwts, token)
    assert error.value.error is BearerError.INVALID_TOKEN
    assert len(token) < 8 or token not in error.value.problem  # shorter ones are parts of words
    return error.value.problem


# Good ones


@pytest.mark.parametrize(("algorithm", "kid"), [("RS256", "rsa"), ("ES256", "ec")])
def test_a_wlcg_token_with_scopes_is_a_member_who_may_what_they_say(
    issuer: LocalIssuer, algorithm: str, kid: str
) -> None:
    who = find(trusting(issuer), sign(issuer.wlcg(), algorithm, kid))
    assert isinstance(who, ScopedPrincipal)
    assert who.consumer == f"e1eb758b@{issuer.url.removeprefix('http://')}"
    assert who.roles == {Role.MEMBER}
    assert (who.groups, who.sites, who.token_id) == ((), frozenset(), "")
    assert {permission for permission in Permission if reach(who, permission)} == {
        Permission.LEASE_SUBMIT,
        Permission.LEASE_SUBMIT_LOCAL,
        Permission.LEASE_SUBMIT_IN_GROUP,
        Permission.JOB_SUBMIT,
        Permission.LEASE_SEE,
        Permission.LEASE_ENTER,
        Permission.JOB_SEE,
        Permission.CHANGES_SEE,
        Permission.SITE_SEE,
        Permission.NODE_SEE,
        Permission.TOKEN_INSPECT_SELF,
    }


@pytest.mark.parametrize("algorithm", ["RS384", "PS256", "ES384", "EdDSA"])
def test_other_signatures_with_a_private_key_are_as_good(issuer: LocalIssuer, algorithm: str) -> None:
    issuer.publish(published("other", signing_key(algorithm), alg=algorithm))
    assert find(trusting(issuer), sign(issuer.wlcg(), algorithm, "other")).roles == {Role.MEMBER}


@pytest.mark.parametrize(
    ("scope", "gives"),
    [
        (
            "compute.create",
            {
                Permission.LEASE_SUBMIT,
                Permission.LEASE_SUBMIT_LOCAL,
                Permission.LEASE_SUBMIT_IN_GROUP,
                Permission.JOB_SUBMIT,
            },
        ),
        ("compute.read", {Permission.LEASE_SEE, Permission.LEASE_ENTER, Permission.JOB_SEE, Permission.CHANGES_SEE}),
        ("compute.modify", {Permission.LEASE_EXTEND}),
        ("compute.cancel", {Permission.LEASE_CANCEL, Permission.JOB_CANCEL}),
        ("compute.cancel openid storage.read:/", {Permission.LEASE_CANCEL, Permission.JOB_CANCEL}),
    ],
)
@pytest.mark.parametrize("profile", Profile)
def test_each_scope_gives_its_own_permissions(
    issuer: LocalIssuer, profile: Profile, scope: str, gives: set[Permission]
) -> None:
    claims = issuer.wlcg(scope=scope) if profile is Profile.WLCG else issuer.scitoken(scope=scope)
    who = find(trusting(issuer, profile), sign(claims))
    assert isinstance(who, ScopedPrincipal)
    assert who.permissions == gives | {
        Permission.SITE_SEE,
        Permission.NODE_SEE,
        Permission.TOKEN_INSPECT_SELF,
    }


def test_scopes_give_no_more_than_the_roles_of_the_issuer(issuer: LocalIssuer) -> None:
    operators = trusting(issuer, roles=frozenset({Role.SITE_OPERATOR}), sites=frozenset({"das3"}), grants={})
    who = find(operators, sign(issuer.wlcg(scope="compute.create compute.modify")))
    assert who.sites == {"das3"}
    assert not reach(who, Permission.LEASE_SUBMIT)
    assert not reach(who, Permission.LEASE_EXTEND)
    assert not reach(who, Permission.SITE_DRAIN)
    assert reach(who, Permission.LEASE_SUBMIT_LOCAL)


def test_scopes_may_be_given_another_meaning(issuer: LocalIssuer) -> None:
    scopes = {"condor:/READ": frozenset({Permission.LEASE_SEE})}
    who = find(trusting(issuer, Profile.SCITOKENS, scopes=scopes), sign(issuer.scitoken(scope="condor:/READ")))
    assert reach(who, Permission.LEASE_SEE)
    assert not reach(who, Permission.LEASE_SUBMIT)


@pytest.mark.parametrize(
    ("groups", "roles", "theirs", "sites"),
    [
        (["/cms"], {Role.MEMBER}, ("cms",), {"das5"}),
        (["/cms/uscms", "/cms"], {Role.MEMBER}, ("cms/uscms", "cms"), {"das5"}),
        (["/cms/production", "/cms"], {Role.GROUP_MANAGER}, ("cms/production",), set()),
        (["/cms", "/cms/production"], {Role.MEMBER}, ("cms", "cms/production"), {"das5"}),
        (["/cms/operators", "/cms"], {Role.SITE_OPERATOR}, ("cms/operators", "cms"), {"das3"}),
    ],
)
def test_without_scopes_the_first_group_that_is_known_says_what_somebody_is(
    issuer: LocalIssuer, groups: list[str], roles: set[Role], theirs: tuple[str, ...], sites: set[str]
) -> None:
    who = find(trusting(issuer), sign(issuer.wlcg(scope="openid", **{"wlcg.groups": groups})))
    assert who.roles == roles
    assert who.groups == theirs
    assert who.sites == sites
    assert not isinstance(who, ScopedPrincipal)


@pytest.mark.parametrize("scope", ["compute.read", "storage.read:/ compute.read"])
def test_beside_a_capability_groups_give_nothing(issuer: LocalIssuer, scope: str) -> None:
    who = find(trusting(issuer), sign(issuer.wlcg(scope=scope, **{"wlcg.groups": ["/cms/operators"]})))
    assert who.roles == {Role.MEMBER}
    assert not who.groups


@pytest.mark.parametrize("version", ["scitoken:2.0", "scitokens:2.0"])
def test_a_scitoken_is_taken_in_either_spelling_of_its_version(issuer: LocalIssuer, version: str) -> None:
    assert find(trusting(issuer, Profile.SCITOKENS), sign(issuer.scitoken(ver=version))).roles == {Role.MEMBER}


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.99"])
def test_every_minor_version_of_the_wlcg_profile_is_taken(issuer: LocalIssuer, version: str) -> None:
    find(trusting(issuer), sign(issuer.wlcg(**{"wlcg.ver": version})))


@pytest.mark.parametrize("audience", [AUDIENCE, [AUDIENCE], ["https://elsewhere.example", AUDIENCE]])
def test_one_of_several_audiences_is_enough(issuer: LocalIssuer, audience: object) -> None:
    find(trusting(issuer), sign(issuer.wlcg(aud=audience)))


@pytest.mark.parametrize("profile", Profile)
def test_a_token_for_everybody_is_taken_only_where_the_configuration_says_so(
    issuer: LocalIssuer, profile: Profile
) -> None:
    claims = issuer.wlcg() if profile is Profile.WLCG else issuer.scitoken()
    token = sign(claims | {"aud": ANYBODY[profile]})
    assert refusal(trusting(issuer, profile), token) == "the token is meant for another audience"
    find(trusting(issuer, profile, audience=(AUDIENCE, ANYBODY[profile])), token)


SKEWED: list[Callable[[int], dict[str, object]]] = [
    lambda now: {"exp": now - 45},
    lambda now: {"nbf": now + 45},
    lambda now: {"iat": now + 45},
]


@pytest.mark.parametrize("change", SKEWED)
def test_clocks_may_differ_by_a_minute_and_no_more(
    issuer: LocalIssuer, change: Callable[[int], dict[str, object]]
) -> None:
    token = sign(issuer.wlcg(**change(int(time.time()))))
    find(trusting(issuer), token)
    assert refusal(trusting(issuer, clock_skew_s=1), token).startswith("the token")


# On whose account


ISSUERS = [
    "https://wlcg.example",
    "https://wlcg.example/atlas",
    "https://wlcg.example/atlas/evil",
    "https://wlcg.example:8443",
    "https://evil.wlcg.example",
    "https://cern.ch/a",
]
SUBJECTS = st.text(st.sampled_from("ab@/*.:-_ %\t\0"), min_size=1, max_size=6) | st.sampled_from(
    ["atlas/evil", "@das3", "*", "alice@wlcg.example", "alice@wlcg.example/atlas", "atlas", "..", "alice"]
)
GROUPS = ["/cms", "/cms/production", "/cms/operators"]


def account(url: str, subject: str, group: str | None) -> tuple[str, str] | None:
    """The group and the whole path under which the bearer's request is accounted; None: not let in."""
    trusted = TrustedIssuer(url, (AUDIENCE,), Profile.WLCG, grants=GRANTS)
    claims: dict[str, Any] = {"wlcg.ver": "1.0", "sub": subject}
    claims |= {"scope": "compute.create"} if group is None else {"wlcg.groups": [group]}
    try:
        who = principal_of(trusted, claims)
    except Unauthenticated:
        return None
    first = who.groups[0] if who.groups else ""
    request = Request(1, LeaseType.CANCELABLE, 1, 1, 0, 0, consumer=who.consumer, group=first)
    return first, request.path


@given(st.lists(st.tuples(st.sampled_from(ISSUERS), SUBJECTS, st.none() | st.sampled_from(GROUPS)), min_size=2))
def test_no_two_subjects_share_an_account_or_are_beneath_one_another(
    bearers: list[tuple[str, str, str | None]],
) -> None:
    paths: dict[str, tuple[str, str]] = {}
    for url, subject, group in bearers:
        found = account(url, subject, group)
        if found is None:
            continue
        stated, path = found
        assert stated == (group or "").removeprefix("/")
        above = [one for one in accounts_of_guest(path, "") if one not in ("", EVERYBODY, path)]
        assert above == list(prefixes(stated)), "on no account but the stated groups'"
        assert paths.setdefault(path, (url, subject)) == (url, subject)
        assert is_path(path)
        with pytest.raises(InvalidField):  # nor can a token of our own have that name
            check_consumer("consumer", path.rpartition("/")[2], [Role.MEMBER])


def test_an_agreement_with_a_group_of_the_wlcg_profile_is_about_that_groups_use() -> None:
    found = account("https://wlcg.example", "alice", "/cms/production")
    assert found == ("cms/production", "cms/production/alice@wlcg.example")
    terms = {"name": "x", "provider": "das3", "consumer": "cms/production", "kind": "no-limit"}
    agreed = agreement_from_dict(terms)
    assert agreed.consumer in accounts_of_guest(found[1], "")
    assert len(set(accounts_of_guest(found[1], ""))) == len(accounts_of_guest(found[1], ""))


# One thing wrong

WRONG_CLAIMS = [
    ({"exp": 1_500_000_000}, "the token has expired"),
    ({"nbf": 9_500_000_000}, "the token is not valid yet"),
    ({"iat": 9_500_000_000}, "the token is not valid yet"),
    ({"aud": "https://elsewhere.example"}, "the token is meant for another audience"),
    ({"aud": AUDIENCE + "/"}, "the token is meant for another audience"),
    ({"aud": {"for": AUDIENCE}}, "the token is meant for another audience"),
    ({"iss": "https://elsewhere.example"}, "the token is of an issuer that is not trusted here"),
    ({"iss": None}, "the token is of an issuer that is not trusted here"),
    ({"iss": ["a", "b"]}, "the token is of an issuer that is not trusted here"),
    ({"exp": None}, "the token lacks a claim that its profile requires"),
    ({"aud": None}, "the token lacks a claim that its profile requires"),
    ({"sub": None}, "the token lacks a claim that its profile requires"),
    ({"exp": "never"}, "the token cannot be verified"),
    ({"exp": float("inf")}, "the token cannot be verified"),
    ({"sub": 7}, "the token cannot be verified"),
    ({"sub": ""}, "the token has no subject of 1 to 255 characters"),
    ({"sub": "x" * 256}, "the token has no subject of 1 to 255 characters"),
    ({"sub": "line\nbreak"}, "the token has a subject that is not printable ASCII"),
    (
        {"sub": "m\N{LATIN SMALL LETTER U WITH DIAERESIS}ller"},
        "the token has a subject that is not printable ASCII",
    ),
    *(
        (
            {"sub": subject},
            "the token has a subject with a blank or '/', or one that begins with '@' or '*'",
        )
        for subject in ("atlas/evil", "/atlas", "atlas/", "@das3", "*", "*x", "two words", " x", "a/../b")
    ),
    ({"scope": ["compute.read"]}, "the token has scopes that are not text"),
]
WRONG_IN_WLCG = [
    ({"jti": None}, "the token lacks a claim that its profile requires"),
    ({"iat": None}, "the token lacks a claim that its profile requires"),
    ({"wlcg.ver": None}, "the token lacks a claim that its profile requires"),
    ({"wlcg.ver": "2.0"}, "the token is of another version than the profile of its issuer"),
    ({"wlcg.ver": "1"}, "the token is of another version than the profile of its issuer"),
    ({"wlcg.ver": "1.0-beta"}, "the token is of another version than the profile of its issuer"),
    ({"wlcg.ver": 1.0}, "the token is of another version than the profile of its issuer"),
    ({"scope": None, "wlcg.groups": "/cms"}, "the token has groups that are not a list of WLCG group names"),
    ({"scope": None, "wlcg.groups": [7]}, "the token has groups that are not a list of WLCG group names"),
    ({"scope": None, "wlcg.groups": ["cms"]}, "the token has groups that are not a list of WLCG group names"),
]
WRONG_IN_SCITOKENS = [
    ({"nbf": None}, "the token lacks a claim that its profile requires"),
    ({"scope": None}, "the token lacks a claim that its profile requires"),
    ({"ver": None}, "the token lacks a claim that its profile requires"),
    ({"ver": "scitoken:1.0"}, "the token is of another version than the profile of its issuer"),
    ({"ver": "scitoken:2.1"}, "the token is of another version than the profile of its issuer"),
    ({"ver": 2.0}, "the token is of another version than the profile of its issuer"),
]


@pytest.mark.parametrize(("change", "problem"), WRONG_CLAIMS + WRONG_IN_WLCG)
def test_a_wlcg_token_with_one_thing_wrong_is_refused(
    issuer: LocalIssuer, change: dict[str, object], problem: str
) -> None:
    assert refusal(trusting(issuer), sign_anything(issuer.wlcg(**change))) == problem


@pytest.mark.parametrize(("change", "problem"), WRONG_CLAIMS + WRONG_IN_SCITOKENS)
def test_a_scitoken_with_one_thing_wrong_is_refused(
    issuer: LocalIssuer, change: dict[str, object], problem: str
) -> None:
    jwts = trusting(issuer, Profile.SCITOKENS)
    assert refusal(jwts, sign_anything(issuer.scitoken(**change))) == problem


def sign_anything(claims: dict[str, Any]) -> str:
    """Sign claims that PyJWT would not write."""
    return jwt.api_jws.encode(json.dumps(claims).encode(), signing_key("RS256"), "RS256", {"kid": "rsa"})


def test_a_token_of_the_other_profile_is_refused(issuer: LocalIssuer) -> None:
    lacks = "the token lacks a claim that its profile requires"
    assert refusal(trusting(issuer), sign(issuer.scitoken(jti="1"))) == lacks
    assert refusal(trusting(issuer, Profile.SCITOKENS), sign(issuer.wlcg())) == lacks


NOTHING = [
    {"scope": "storage.read:/"},
    {"scope": "compute.read:/only/here"},
    {"scope": "compute.reading"},
    {"scope": "Compute.Read"},
    {"scope": "openid"},
    {"scope": ""},
    {"scope": None},
    {"scope": None, "wlcg.groups": []},
    {"scope": None, "wlcg.groups": ["/atlas"]},
    {"scope": None, "wlcg.groups": ["/cms/uscms"]},  # a subgroup of one that is known
    {"scope": "storage.read:/", "wlcg.groups": ["/cms"]},  # has a capability, so that groups do not count
]


@pytest.mark.parametrize("change", NOTHING)
def test_a_token_that_gives_nothing_here_is_known_but_may_nothing(
    issuer: LocalIssuer, change: dict[str, object]
) -> None:
    with pytest.raises(Forbidden, match="lacks any permission here") as error:
        find(trusting(issuer), sign(issuer.wlcg(**change)))
    assert 'error="insufficient_scope"' in error.value.challenge


# Signatures


def test_a_token_without_a_signature_is_refused(issuer: LocalIssuer) -> None:
    not_accepted = "the token is signed with an algorithm that is not accepted"
    for algorithm in ("none", "None", "NONE"):
        assert refusal(trusting(issuer), sign_by_hand(issuer.wlcg(), algorithm, None)) == not_accepted


def test_the_public_key_is_no_shared_secret(issuer: LocalIssuer) -> None:
    for kid, algorithm in (("rsa", "RS256"), ("ec", "ES256")):
        token = sign_by_hand(issuer.wlcg(), "HS256", public_pem(signing_key(algorithm)), kid)
        problem = "the token is signed with an algorithm that is not accepted"
        assert refusal(trusting(issuer), token) == problem


def test_a_shared_secret_that_an_issuer_publishes_is_no_key(issuer: LocalIssuer) -> None:
    secret = {
        "kty": "oct",
        "kid": "shared",
        "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "alg": "HS256",
    }
    issuer.publish(secret, published("rsa", signing_key("RS256")))
    token = sign_by_hand(issuer.wlcg(), "HS256", bytes(32), "shared")
    assert refusal(trusting(issuer), token) == "the token names a key that its issuer does not have"


def test_a_token_signed_by_somebody_else_is_refused(issuer: LocalIssuer) -> None:
    token = sign(issuer.wlcg(), name="of somebody else")
    assert refusal(trusting(issuer), token) == "the token is not signed by its issuer"


def test_claims_that_were_changed_after_signing_are_refused(issuer: LocalIssuer) -> None:
    header, _, signature = sign(issuer.wlcg()).split(".")
    _, claims, _ = sign(issuer.wlcg(sub="operator"), name="of somebody else").split(".")
    problem = refusal(trusting(issuer), f"{header}.{claims}.{signature}")
    assert problem == "the token is not signed by its issuer"


def test_a_key_is_used_with_its_own_algorithm_only(issuer: LocalIssuer) -> None:
    token = sign(issuer.wlcg(), "ES256", "rsa")
    assert refusal(trusting(issuer), token) == "the token is signed with an algorithm that is not accepted"


def test_a_key_that_is_too_short_is_not_relied_on(issuer: LocalIssuer) -> None:
    issuer.publish(published("short", signing_key("RS256-short")))
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = sign(issuer.wlcg(), "RS256-short", "short")
    assert refusal(trusting(issuer), token) == "the token cannot be verified"


def test_a_key_for_encryption_signs_nothing(issuer: LocalIssuer) -> None:
    issuer.publish(published("rsa", signing_key("RS256"), use="enc"), published("ec", signing_key("ES256")))
    problem = "the token names a key that its issuer does not have"
    assert refusal(trusting(issuer), sign(issuer.wlcg())) == problem


def test_a_token_has_to_name_its_key(issuer: LocalIssuer) -> None:
    assert refusal(trusting(issuer), sign(issuer.wlcg(), kid=None)) == "the token does not name its key"


def test_an_issuer_is_not_asked_for_what_is_not_its_own(issuer: LocalIssuer) -> None:
    jwts = trusting(issuer)
    refusal(jwts, sign(issuer.wlcg(iss="https://elsewhere.example")))
    refusal(jwts, sign(issuer.wlcg(), kid=None))
    refusal(jwts, "no.jwt.atall")
    assert not issuer.asked


@given(st.text(st.characters(codec="ascii")) | st.from_regex(r"[\w-]+\.[\w-]+\.[\w-]*", fullmatch=True))
def test_whatever_is_no_jwt_is_refused_in_the_same_words(text: str) -> None:
    assert refusal(Jwts([], Clock()), text) == "the token is neither one of this gateway nor a JWT"


# Remembered


def test_a_good_token_is_known_for_five_seconds(issuer: LocalIssuer) -> None:
    clock = Clock()
    clock.now_ms = int(time.time()) * 1_000
    trusted = TrustedIssuer(issuer.url, (AUDIENCE,), Profile.WLCG)
    jwts, token = Jwts([trusted], clock), sign(issuer.wlcg())
    assert jwts.cached(token) is None
    who = find(jwts, token)
    clock.now_ms += 4_999
    assert jwts.cached(token) == who
    clock.now_ms += 1
    assert jwts.cached(token) is None


def test_a_token_is_not_known_for_longer_than_it_is_good(issuer: LocalIssuer) -> None:
    clock, now = Clock(), int(time.time())
    clock.now_ms = (now + 3_600) * 1_000
    trusted = TrustedIssuer(issuer.url, (AUDIENCE,), Profile.WLCG, clock_skew_s=2)
    jwts, token = Jwts([trusted], clock), sign(issuer.wlcg(exp=now + 3_600))
    who = find(jwts, token)
    clock.now_ms += 1_999
    assert jwts.cached(token) == who
    clock.now_ms += 1
    assert jwts.cached(token) is None
