"""Sites over HTTP: looked at, drained, resumed."""

import pytest
from tests.service.api.house import House

from leasehold.service.auth.principal import Role


def test_sites_are_listed_in_the_order_of_the_configuration_with_who_has_what(house: House) -> None:
    token = house.token(sites=("das3",))
    house.submit(token, type=None, local=True, vms=60)
    house.submit(token, type=None, local=True, vms=60)
    house.submit(token, vms=3)
    sites = house.ask("GET", "/v1/sites", token).json()["sites"]
    assert [site["name"] for site in sites] == ["das3", "lyon"]
    das3 = sites[0]
    assert (das3["slots"], das3["status"], das3["driver"], das3["problem"]) == (64, "up", "emulated", "")
    assert (das3["vms"]["local"], das3["waiting"]["local"]) == (60, 1)
    assert sum(site["vms"]["guests"] for site in sites) == 3
    assert das3["vms"]["local"] + das3["vms"]["guests"] + das3["vms"]["free"] == 64
    assert das3["capabilities"] == {
        "suspend": True,
        "migrate": True,
        "checkpoint": False,
        "commands": True,
        "login": False,
    }
    assert house.ask("GET", "/v1/sites/das3", token).json()["vms"] == das3["vms"]


def test_a_site_says_how_long_it_takes_and_how_that_is_known(house: House) -> None:
    token = house.token()
    house.submit(token)
    shown = house.ask("GET", "/v1/sites/das3", token).json()["overheads"]
    assert [(one["operation"], one["configured_s"], one["count"]) for one in shown[1:]] == [
        ("suspend", 160, 0),
        ("resume", 126, 0),
        ("migrate", 372.5, 0),
    ]
    assert [one["learnt_s"] for one in shown[1:]] == [160, 126, 372.5]
    assert (shown[0]["operation"], shown[0]["configured_s"]) == ("start", None)


def test_a_site_is_drained_with_a_note_and_resumed(house: House) -> None:
    token = house.token(Role.SITE_OPERATOR, consumer="das3-operators", sites=("das3",))
    drained = house.ask("POST", "/v1/sites/das3/drain", token, json={"note": "new switches"})
    assert drained.status_code == 200
    told = drained.json()
    assert (told["status"], told["drained_by"], told["note"]) == ("drained", "das3-operators", "new switches")
    guest = house.submit(house.token())
    assert guest["site"] == "lyon"
    resumed = house.ask("POST", "/v1/sites/das3/resume", token).json()
    assert (resumed["status"], resumed["drained_by"], resumed["note"]) == ("up", "", "")


@pytest.mark.parametrize("body", [None, {}], ids=["no body", "an empty one"])
def test_a_note_need_not_be_given(house: House, body: dict[str, str] | None) -> None:
    token = house.token(Role.FEDERATION_ADMIN)
    answer = house.ask("POST", "/v1/sites/lyon/drain", token, json=body)
    assert (answer.status_code, answer.json()["status"]) == (200, "drained")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("POST", "/drain"), ("POST", "/resume")],
    ids=["show", "drain", "resume"],
)
def test_a_site_that_is_not_there_is_not_found(house: House, method: str, path: str) -> None:
    answer = house.ask(method, f"/v1/sites/nowhere{path}", house.token(Role.FEDERATION_ADMIN))
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:leasehold:problem:no-such-site")


def test_a_site_that_is_not_there_is_told_with_those_that_are(house: House) -> None:
    answer = house.ask("GET", "/v1/sites/dsa3", house.token(Role.FEDERATION_ADMIN))
    assert answer.json()["detail"] == ("no site named 'dsa3', expected one of das3, lyon (did you mean 'das3'?)")


def test_leases_of_a_site_that_is_not_there_are_not_just_none(house: House) -> None:
    token = house.token()
    assert house.ask("GET", "/v1/leases?site=lyon", token).json()["leases"] == []
    answer = house.ask("GET", "/v1/leases?site=loyn", token)
    assert answer.status_code == 422
    assert "did you mean 'lyon'?" in answer.json()["detail"]
    lease = house.ask("GET", "/v1/leases/44", token)
    assert (lease.status_code, lease.json()["detail"]) == (404, "no lease with ID 44")
