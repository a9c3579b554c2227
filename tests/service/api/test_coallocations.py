"""Co-allocations and environments over HTTP."""

from typing import Any

import pytest
from tests.service.api.house import House

from leasehold.service.auth.principal import Role


def body(*vms: int, **said: Any) -> dict[str, Any]:
    """Ask for components of so many VMs."""
    return {"components": [{"vms": count} for count in vms], "duration_s": 3600} | said


def submit(house: House, token: str, *vms: int, **said: Any) -> dict[str, Any]:
    answer = house.ask("POST", "/v1/coallocations", token, json=body(*vms, **said))
    assert answer.status_code == 201, answer.text
    coallocation: dict[str, Any] = answer.json()
    return coallocation


# Asking for one


def test_a_coallocation_has_components_that_are_leases(house: House) -> None:
    token = house.token()
    answer = house.ask("POST", "/v1/coallocations", token, json=body(64, 32, name="wave", command=["true"]))
    coallocation = answer.json()
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/v1/coallocations/{coallocation['id']}"
    told = {"name": "wave", "consumer": "physics", "claim": "incremental", "place": "worst-fit", "tried": 1}
    assert {name: coallocation[name] for name in told} == told
    assert [component["site"] for component in coallocation["components"]] == ["das3", "lyon"]
    for component in coallocation["components"]:
        lease = house.ask("GET", f"/v1/leases/{component['lease']}", token).json()
        assert (lease["coallocation"], lease["type"], lease["name"]) == (coallocation["id"], "non-preemptable", "wave")


def test_an_ordinary_lease_is_of_no_coallocation(house: House) -> None:
    assert house.submit(house.token())["coallocation"] is None


def test_everything_that_can_be_said_of_one(house: House) -> None:
    components = [
        {"vms": 2, "duration_s": 60, "site": "lyon", "memory_mib": 2048},
        {"vms": 1, "files": [{"site": "lyon", "mib": 7}]},
    ]
    said = body(components=components, claim="reservation", place="close-to-files", tries=2, retries=1)
    coallocation = house.ask("POST", "/v1/coallocations", house.token(), json=said).json()
    first, second = coallocation["components"]
    assert (first["wanted_site"], first["duration_s"], first["memory_mib"]) == ("lyon", 60, 2048)
    assert (second["files"], second["site"], second["duration_s"]) == (
        [{"site": "lyon", "mib": 7}],
        "lyon",
        3600,
    )


def test_a_coallocation_that_could_never_be_served_is_refused_and_no_error(house: House) -> None:
    coallocation = submit(house, house.token(), 65, 1)
    assert (coallocation["state"], coallocation["reason"]) == ("refused", "wider-than-any-site")
    assert coallocation["ended_at"] is not None


def test_the_same_key_gets_the_same_coallocation(house: House) -> None:
    key = {"Idempotency-Key": "once"}
    token = house.token()
    first, again = (house.ask("POST", "/v1/coallocations", token, json=body(1, 1), headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    other = house.ask("POST", "/v1/coallocations", token, json=body(1, 2), headers=key)
    assert other.status_code == 409


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        ({"components": []}, "components"),
        ({"components": [{"vms": 1}], "duration_s": None}, "duration_s: missing, expected a duration"),
        ({"place": "best-fit"}, "placement policy: got 'best-fit', expected one of"),
        ({"components": [{"vms": 1, "site": "mars"}]}, "site: got 'mars', expected one of das3, lyon"),
        ({"margin_s": -1}, "margin_s"),
        ({"claim": "later"}, "claim"),
        ({"group": "lattice"}, "lease.submit-in-group"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(house: House, said: dict[str, Any], detail: str) -> None:
    answer = house.ask("POST", "/v1/coallocations", house.token(), json=body(1, 1) | said)
    assert answer.status_code in {403, 422}
    assert detail in answer.json()["detail"]


# Looking at them, and taking one back


def test_everybody_sees_their_own_and_the_newest_first(house: House) -> None:
    mine, others = house.token(), house.token(consumer="climate")
    first, second = submit(house, mine, 1, 1)["id"], submit(house, mine, 1)["id"]
    submit(house, others, 1)
    listed = house.ask("GET", "/v1/coallocations?limit=1", mine)
    assert [one["id"] for one in listed.json()["coallocations"]] == [second]
    following = house.ask("GET", f"/v1/coallocations?cursor={listed.json()['next']}", mine).json()
    assert ([one["id"] for one in following["coallocations"]], following["next"]) == ([first], None)


def test_who_takes_a_coallocation_back_takes_all_its_components_back(house: House) -> None:
    token = house.token()
    coallocation = submit(house, token, 2, 2)
    answer = house.ask("DELETE", f"/v1/coallocations/{coallocation['id']}", token)
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    for component in coallocation["components"]:
        lease = house.ask("GET", f"/v1/leases/{component['lease']}", token).json()
        assert (lease["state"], lease["reason"]) == ("cancelled", "cancelled-by-user")
    again = house.ask("DELETE", f"/v1/coallocations/{coallocation['id']}", token)
    assert again.json() == answer.json()


def test_one_that_is_not_there_is_said_not_to_be(house: House) -> None:
    answer = house.ask("GET", "/v1/coallocations/77", house.token())
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:leasehold:problem:no-such-coallocation")


def test_who_may_see_one_component_of_another_sees_the_whole_and_may_not_end_it(house: House) -> None:
    components = [{"vms": 1, "site": "das3"}, {"vms": 1, "site": "lyon"}]
    made = submit(house, house.token(consumer="climate"), components=components)
    operator = house.token(Role.SITE_OPERATOR, sites=("das3",))
    assert house.ask("GET", f"/v1/coallocations/{made['id']}", operator).status_code == 200
    assert house.ask("DELETE", f"/v1/coallocations/{made['id']}", operator).status_code == 403


# What would become of a request


def test_what_would_become_of_a_lease_that_is_not_asked_for(house: House) -> None:
    token = house.token()
    asked = {"type": "suspendable", "vms": 40, "duration_s": 60}
    told = house.ask("POST", "/v1/leases/plan", token, json=asked).json()
    assert (told["sites"], told["blocked"]) == (["das3"], [])
    assert (told["state"], told["site"], told["reason"]) == ("starting", "das3", "room-free")
    assert told["starts_at"] is not None
    assert told["starts_at"] < told["ends_at"]
    assert told["walltime_s"] == 60
    assert told["domains"][0]["domain"] == "das3"
    assert house.ask("GET", "/v1/leases", token).json()["leases"] == []


def test_a_local_request_and_its_price_are_planned_too(house: House) -> None:
    token = house.token(sites=("lyon",))
    guest = {"type": "suspendable", "vms": 32, "duration_s": 600, "domain": "lyon"}
    house.ask("POST", "/v1/leases", token, json=guest)
    asked = {"local": True, "vms": 32, "duration_s": 60}
    told = house.ask("POST", "/v1/leases/plan", token, json=asked).json()
    assert (told["state"], told["reason"]) == ("starting", "room-made")
    assert (told["preempted_leases"], told["preempted_vms"]) == (1, 32)


def test_who_would_give_way_is_named_to_those_who_may_see_them(house: House) -> None:
    guest = house.submit(house.token(consumer="climate"), type="suspendable", vms=32, duration_s=600, domain="lyon")
    asked = {"local": True, "site": "lyon", "vms": 32, "duration_s": 60}
    stranger = house.token(sites=("lyon",))
    told = house.ask("POST", "/v1/leases/plan", stranger, json=asked).json()
    assert (told["verdict"], told["consequences"]) == ("with-consequences", ["preempts"])
    assert (told["preempted_leases"], told["victims"]) == (1, [])
    operator = house.token(Role.SITE_OPERATOR, sites=("lyon",))
    told = house.ask("POST", "/v1/leases/plan", operator, json=asked).json()
    assert [(one["lease"], one["then"]) for one in told["victims"]] == [(guest["id"], "suspending")]


def test_how_often_guests_were_preempted_at_its_site_comes_from_those_that_ended_there(house: House) -> None:
    climate, owner = house.token(consumer="climate"), house.token(sites=("lyon",))
    preempted = house.submit(climate, type="suspendable", vms=32, duration_s=600, domain="lyon")
    house.running(preempted["id"], climate)
    local = house.submit(owner, type=None, local=True, vms=32, duration_s=600)
    for lease, token in ((preempted, climate), (local, owner)):
        house.ask("DELETE", f"/v1/leases/{lease['id']}", token)
    spared = house.submit(climate, type="suspendable", vms=1, duration_s=600, domain="lyon")
    house.running(spared["id"], climate)
    house.ask("DELETE", f"/v1/leases/{spared['id']}", climate)
    asked = {"type": "suspendable", "vms": 1, "duration_s": 60, "domain": "lyon"}
    told = house.ask("POST", "/v1/leases/plan", owner, json=asked).json()
    assert (told["verdict"], told["site"]) == ("as-asked", "lyon")
    assert told["risk"] == [{"site": "lyon", "type": "suspendable", "ended": 2, "preempted": 1}]


def test_what_would_become_of_a_coallocation(house: House) -> None:
    told = house.ask("POST", "/v1/coallocations/plan", house.token(), json=body(64, 32)).json()
    assert told["sites"] == ["das3", "lyon"]
    assert [one["virtual"] for one in told["components"]] == [["das3", "lyon"], ["das3", "lyon"]]
    assert house.ask("GET", "/v1/coallocations", house.token()).json()["coallocations"] == []


@pytest.mark.parametrize("asked", [{}, {"vms": 1, "duration_s": 1, "type": "suspendable", "site": "das3"}])
def test_what_cannot_be_asked_for_cannot_be_planned(house: House, asked: dict[str, Any]) -> None:
    token = house.token(sites=("das3",))
    for path in ("/v1/leases", "/v1/leases/plan"):
        assert house.ask("POST", path, token, json=asked).status_code == 422
