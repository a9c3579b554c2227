"""Tokens over HTTP: given out, listed, taken back, looked at by whoever shows them."""

from typing import Any

import pytest
from tests.service.api.house import House

from leasehold.service.auth.principal import Role


@pytest.fixture
def admin(house: House) -> str:
    return house.token(Role.FEDERATION_ADMIN, consumer="operator")


def test_a_new_token_is_shown_once_and_works_at_once(house: House, admin: str) -> None:
    body = {"consumer": "astro-pipeline", "roles": ["member"], "groups": ["astro"], "note": "nightly"}
    answer = house.ask("POST", "/v1/tokens", admin, json=body)
    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    assert made["token"].startswith(f"lh_{made['id']}_")
    assert {name: made[name] for name in body} == body
    assert (made["expires_at"], made["revoked_at"]) == (None, None)
    assert house.submit(made["token"])["group"] == "astro"
    listed = house.ask("GET", "/v1/tokens", admin)
    assert made["token"] not in listed.text
    assert listed.json()["tokens"][-1] == {name: value for name, value in made.items() if name != "token"}


def test_a_revoked_token_is_refused_from_then_on(house: House, admin: str) -> None:
    made = house.ask("POST", "/v1/tokens", admin, json={"consumer": "physics", "roles": ["member"]}).json()
    assert house.ask("GET", "/v1/leases", made["token"]).status_code == 200
    revoked = house.ask("DELETE", f"/v1/tokens/{made['id']}", admin)
    assert (revoked.status_code, revoked.content) == (204, b"")
    assert house.ask("GET", "/v1/leases", made["token"]).status_code == 401
    tokens = house.ask("GET", "/v1/tokens", admin).json()["tokens"]
    assert [token["revoked_at"] is None for token in tokens] == [True, False]


def test_who_lost_the_answer_may_revoke_again(house: House, admin: str) -> None:
    made = house.ask("POST", "/v1/tokens", admin, json={"consumer": "physics", "roles": ["member"]}).json()
    path = f"/v1/tokens/{made['id']}"
    assert [house.ask("DELETE", path, admin).status_code for _ in range(2)] == [204, 204]
    unknown = house.ask("DELETE", "/v1/tokens/000000000000", admin)
    assert (unknown.status_code, unknown.json()["type"]) == (404, "urn:leasehold:problem:no-such-token")


def test_a_token_may_be_good_for_some_time_only(house: House, admin: str) -> None:
    body = {"consumer": "physics", "roles": ["member"], "expires_in_s": 3600}
    made = house.ask("POST", "/v1/tokens", admin, json=body).json()
    assert made["expires_at"] > made["created_at"]


def test_whoever_asks_is_told_who_they_are_and_what_they_may(house: House) -> None:
    token = house.token(Role.SITE_OPERATOR, consumer="das3-operators", sites=("das3",))
    told = house.ask("GET", "/v1/tokens/self", token).json()
    assert (told["consumer"], told["roles"], told["sites"]) == ("das3-operators", ["site-operator"], ["das3"])
    assert token.startswith(f"lh_{told['token_id']}_")
    assert told["permissions"]["site.drain"] == ["site"]
    assert told["permissions"]["metrics.see"] == ["all"]
    assert "token.manage" not in told["permissions"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"roles": ["member"]}, "consumer"),
        ({"consumer": "a b", "roles": ["member"]}, "consumer"),
        ({"consumer": "physics", "roles": []}, "roles"),
        ({"consumer": "physics", "roles": ["king"]}, "roles[0]"),
        ({"consumer": "physics", "roles": ["group-manager"]}, "groups"),
        ({"consumer": "physics", "roles": ["site-operator"]}, "sites"),
        ({"consumer": "physics", "roles": ["peer", "member"], "sites": ["das3"]}, "roles"),
        ({"consumer": "physics", "roles": ["member"], "groups": ["a b"]}, "groups"),
        ({"consumer": "physics", "roles": ["member"], "groups": ["a"] * 101}, "groups"),
        ({"consumer": "physics", "roles": ["member"], "expires_in_s": 0}, "expires_in_s"),
        ({"consumer": "physics", "roles": ["member"], "secret": "mine"}, "secret"),
    ],
)
def test_a_token_that_would_make_no_sense_is_not_made(
    house: House, admin: str, body: dict[str, Any], field: str
) -> None:
    answer = house.ask("POST", "/v1/tokens", admin, json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert len(house.tokens.list()) == 1
