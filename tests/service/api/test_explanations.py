"""Why a lease waits and who took its machines, over HTTP: for its owner in full, of others only what one may see."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.service.api.house import House, house_in

from leasehold.service.auth.principal import Role


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as house:
        yield house


def explained(house: House, lease_id: int, token: str) -> dict[str, Any]:
    answer = house.ask("GET", f"/v1/leases/{lease_id}/explanation", token)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def local(house: House, consumer: str, site: str, vms: int) -> dict[str, Any]:
    token = house.token(consumer=consumer, sites=(site,))
    return house.submit(token, type=None, local=True, site=site, vms=vms, duration_s=600)


def guest(house: House, consumer: str, vms: int, **others: Any) -> dict[str, Any]:
    token = house.token(consumer=consumer)
    made = house.submit(token, **{"type": "suspendable", "vms": vms, "duration_s": 600, "domain": "lyon"} | others)
    house.running(made["id"], token)
    return made


def test_the_owner_of_a_preempted_lease_is_told_for_whom_and_why_without_a_name(house: House) -> None:
    mine = guest(house, "climate", 16)
    other = guest(house, "physics", 16, type="migratable")
    taker = local(house, "boss", "lyon", 10)
    told = explained(house, mine["id"], house.token(consumer="climate"))
    assert "local-needs-room" in [step["reason"] for step in told["steps"]]
    (one,) = told["preemptions"]
    assert (one["site"], one["reason"]) == ("lyon", "local-needs-room")
    assert (one["for_whom"], one["for_lease"], one["needed_vms"]) == ("a local user of lyon", None, None)
    assert (one["victims"], one["victims_hidden"], one["candidates"]) == ([mine["id"]], 0, 2)
    assert one["tried"]
    assert one["cost_vm_s"] > 0
    assert {"by": "type", "type": "migratable", "vms": 16} not in one["spared_as"]  # the other has no more value then
    assert {"boss", "physics"}.isdisjoint(json.dumps(told).split('"'))
    operator = explained(house, mine["id"], house.token(Role.SITE_OPERATOR, sites=("lyon",)))
    (seen,) = operator["preemptions"]
    assert seen["for_whom"] == f"lease {taker['id']} of boss, a local request of lyon for 10 VMs"
    assert (seen["for_lease"], seen["needed_vms"]) == (taker["id"], 10)
    assert other["id"] not in seen["victims"]


def test_a_lease_that_waits_is_told_what_would_start_sooner(house: House) -> None:
    local(house, "boss", "lyon", 30)
    token = house.token(consumer="climate")
    waits = house.submit(token, type="suspendable", vms=4, duration_s=600, domain="lyon")
    assert waits["state"] == "waiting"
    told = explained(house, waits["id"], token)
    assert "room-in-use" in [step["reason"] for step in told["steps"]]
    better = {one["change"]: one for one in told["alternatives"]}
    assert better["vms"]["vms"] == 2
    assert better["site"]["domain"] == "das3"
    assert better["site"]["outcome"]["verdict"] == "as-asked"
    assert house.ask("GET", f"/v1/leases/{waits['id']}", token).json()["state"] == "waiting"


def test_a_refused_lease_is_told_what_each_site_said_and_what_would_be_taken(house: House) -> None:
    token = house.token(consumer="climate")
    refused = house.submit(token, type="suspendable", vms=100, duration_s=600)
    told = explained(house, refused["id"], token)
    last = told["steps"][-1]
    by_gateway = next(step for step in told["steps"] if step["what"] == "refuse")
    assert [(one["site"], one["reason"]) for one in by_gateway["sites"]] == [
        ("das3", "wider-than-site"), ("lyon", "wider-than-site")
    ]  # fmt: skip
    assert last["state"] == "refused"
    assert told["now"]["verdict"] == "refused"
    assert {one["change"]: one["vms"] for one in told["alternatives"]}["vms"] == 64


def test_what_was_decided_in_a_row_alike_is_told_once(house: House) -> None:
    token = house.token(consumer="climate")
    lease = guest(house, "climate", 1)
    told = explained(house, lease["id"], token)
    said = [(step["what"], step["site"], step["reason"]) for step in told["steps"]]
    assert all(one != other for one, other in pairwise(said))
    assert told["preemptions"] == told["alternatives"] == []


CONSUMERS = ("astronomers", "biologists", "chemists", "demographers")
BOSSES = ("boss-of-das3", "boss-of-lyon")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 4))])
def test_nobody_learns_a_name_that_is_not_theirs_to_see(house: House, seed: int) -> None:
    """Everybody asks why of every lease that they may see, after many were preempted."""
    random, leases = Random(seed), list[dict[str, Any]]()
    for _ in range(24):
        kind = random.choice(["cancelable", "suspendable", "suspendable", "migratable"])
        token = house.token(consumer=random.choice(CONSUMERS))
        site = random.choice(["das3", "lyon"])
        leases.append(house.submit(token, type=kind, vms=random.choice([4, 8, 16]), duration_s=600, domain=site))
    for boss, site in zip(BOSSES, ("das3", "lyon"), strict=True):
        leases += [local(house, boss, site, random.choice([8, 20])) for _ in range(2)]
    callers: dict[str, tuple[str, set[str] | None]] = {  # None: who may see some of everybody
        "operator": (house.token(Role.SITE_OPERATOR, sites=("lyon",)), None),
        "admin": (house.token(Role.FEDERATION_ADMIN), None),
    }
    callers |= {name: (house.token(consumer=name), {name}) for name in (*CONSUMERS, *BOSSES)}
    preemptions = 0
    for caller, (token, own) in callers.items():
        visible = {one["id"] for one in house.ask("GET", "/v1/leases?limit=1000", token).json()["leases"]}
        for lease in leases:
            path = f"/v1/leases/{lease['id']}/explanation"
            if lease["id"] not in visible:
                assert house.ask("GET", path, token).status_code == 404
                continue
            told = explained(house, lease["id"], token)
            preemptions += len(told["preemptions"])
            for one in told["preemptions"]:
                assert set(one["victims"]) | ({one["for_lease"]} - {None}) <= visible, caller
                assert one["lease"] in one["victims"]
            plan = {"type": "suspendable", "vms": 60, "duration_s": 60}
            if own is not None:
                planned = house.ask("POST", "/v1/leases/plan", token, json=plan).json()
                assert {one["lease"] for one in (*planned["victims"], *planned["delays"])} <= visible
                journal = house.ask("GET", f"/v1/leases/{lease['id']}/journal", token).text
                text = json.dumps([told, planned]) + journal
                assert [name for name in (*CONSUMERS, *BOSSES) if name not in own and name in text] == []
    assert preemptions
