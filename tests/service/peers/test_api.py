"""Peers over HTTP: agreed with, looked at, removed; and what is kept of them where."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import House, house_in

from leasehold.service.auth.principal import Role
from leasehold.service.auth.tokens import new_text
from leasehold.service.messages import routing as post_
from leasehold.service.messages.uplink import Uplink

NOWHERE = "http://127.0.0.1:1"
STATUS: dict[str, Any] = {
    "identity": "store-1", "slots": 100, "speed_mips": 1, "reference_mips": 1, "driver": "gateway",
    "can_suspend": True, "can_migrate": True, "lends": True, "local_vms": 0, "guest_vms": 0,
    "waiting_local": 0, "waiting_guests": 0, "waiting_local_vms": 0, "waiting_guest_vms": 0,
    "gateway_id": "6f1c", "widest_vms": 80, "widest_free_vms": 80,
}  # fmt: skip


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as house:
        yield house


@pytest.fixture
def admin(house: House) -> str:
    return house.token(Role.FEDERATION_ADMIN, consumer="operator")


@pytest.fixture
def _uncalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is called: lines come to nothing at once."""

    async def run(_uplink: Uplink) -> None:
        return

    monkeypatch.setattr(Uplink, "run", run)


def keep(house: House, admin: str, name: str = "north", **body: Any) -> Any:
    answer = house.ask("PUT", f"/v1/peers/{name}", admin, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def call(house: House, name: str = "north", token: str = "", **body: Any) -> Any:
    token = token or house.token(Role.PEER, consumer=f"peer/{name}", sites=(name,))
    path = f"/v1/sites/{name}/messages"
    return house.ask("POST", path, token, json={"status": STATUS, "acknowledged": 0} | body)


def test_one_that_lends_only_needs_no_address(house: House, admin: str) -> None:
    told = keep(house, admin, max_vms=8)
    assert (told["lending"]["status"], told["borrowing"]["status"], told["max_vms"]) == ("off", "silent", 8)
    assert call(house).json() == {"messages": [], "acknowledged": 0}
    told = house.ask("GET", "/v1/peers/north", admin).json()
    assert told["borrowing"]["status"] == "up"
    assert told["has"] == {"slots": 100, "free": 100, "widest": 80, "widest_free": 80, "beyond": []}


def test_what_no_site_can_take_is_offered_and_what_becomes_of_it_is_counted(house: House, admin: str) -> None:
    keep(house, admin)
    token = house.token(Role.PEER, consumer="peer/north", sites=("north",))
    call(house, token=token)
    lease = house.submit(house.token(), vms=70)
    assert (lease["site"], lease["reason"]) == ("north", "sent-to-peer")
    [message] = call(house, token=token).json()["messages"]
    assert (message["body"]["kind"], message["body"]["vms"]) == ("offer", 70)
    way = house.ask("GET", "/v1/peers/north", admin).json()["borrowing"]
    assert (way["offered"], way["taken"], way["open"], way["open_vms"]) == (1, 0, 1, 70)
    running = {
        "kind": "report", "lease": lease["id"], "state": "running", "reason": "room-free", "planned_ms": -1,
        "first_start_ms": 1, "preemptions": 0, "overhead_vm_ms": 0, "migrations": 0, "work_left": -1,
        "prepared_until_ms": -1, "onward": [], "command": None,
    }  # fmt: skip
    call(house, token=token, messages=[{"seq": 1, "body": running}], acknowledged=1)
    way = house.ask("GET", "/v1/peers/north", admin).json()["borrowing"]
    assert (way["offered"], way["taken"], way["refused"], way["open"]) == (1, 1, 0, 1)


def test_a_peer_is_no_site(house: House, admin: str) -> None:
    keep(house, admin)
    call(house)
    names = [site["name"] for site in house.ask("GET", "/v1/sites", admin).json()["sites"]]
    assert "north" not in names
    for method, path in (
        ("GET", "/v1/sites/north"),
        ("POST", "/v1/sites/north/drain"),
        ("DELETE", "/v1/sites/north"),
    ):
        assert house.ask(method, path, admin).status_code == 404
    assert house.ask("GET", "/v1/peers/south", admin).status_code == 404


def test_who_was_not_agreed_with_is_not_heard(house: House) -> None:
    answer = call(house)
    assert (answer.status_code, answer.json()["field"]) == (422, "peer")
    assert "leasehold peer add north" in answer.json()["expected"]


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("das3", {}, "name"),
        ("gateway", {}, "name"),
        ("a b", {}, "name"),
        ("north", {"url": "http://north.example.org", "token": new_text()}, "url"),
        ("north", {"url": "north", "token": new_text()}, "url"),
        ("north", {"url": "https://", "token": new_text()}, "url"),
        ("north", {"url": "https://north.example.org"}, "token"),
        ("north", {"url": "https://north.example.org", "token": "hunter2"}, "token"),
        ("north", {"ask": "always"}, "ask"),
        ("north", {"max_vms": -1}, "max_vms"),
        ("north", {"mood": "good"}, "mood"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    house: House, admin: str, name: str, body: dict[str, Any], field: str
) -> None:
    answer = house.ask("PUT", f"/v1/peers/{name}", admin, json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert "hunter2" not in answer.text
    assert house.ask("GET", "/v1/peers", admin).json() == {"peers": []}


@pytest.mark.usefixtures("_uncalled")
def test_a_token_is_kept_for_its_owner_alone_and_shown_to_nobody(house: House, admin: str, tmp_path: Path) -> None:
    secret = new_text()
    told = keep(house, admin, url="https://north.example.org", token=secret)
    [file] = tmp_path.rglob("north.token")
    assert file.read_text().strip() == secret
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert secret not in str(told)
    assert secret not in house.ask("GET", "/v1/peers", admin).text
    keep(house, admin, url="https://elsewhere.example.org")
    assert file.read_text().strip() == secret
    keep(house, admin)
    assert not file.exists()


def test_it_is_there_again_after_a_restart(tmp_path: Path) -> None:
    with house_in(tmp_path) as house:
        admin = house.token(Role.FEDERATION_ADMIN)
        keep(house, admin, url=NOWHERE, token=new_text(), ask="none-can-now", max_vms=3)
    with house_in(tmp_path) as house:
        told = house.ask("GET", "/v1/peers/north", house.token(Role.FEDERATION_ADMIN)).json()
    assert (told["url"], told["ask"], told["max_vms"]) == (NOWHERE, "none-can-now", 3)
    assert told["lending"]["status"] == "silent"


def test_without_its_token_it_is_said_what_is_missing(tmp_path: Path) -> None:
    with house_in(tmp_path) as house:
        keep(house, house.token(Role.FEDERATION_ADMIN), url=NOWHERE, token=new_text())
    [file] = tmp_path.rglob("north.token")
    file.unlink()
    with house_in(tmp_path) as house:
        told = house.ask("GET", "/v1/peers/north", house.token(Role.FEDERATION_ADMIN)).json()
    assert "north.token: cannot be read" in told["lending"]["problem"]


class TestRemoving:
    def test_takes_everything_along_and_its_token_counts_no_more(self, house: House, admin: str) -> None:
        keep(house, admin)
        token = house.token(Role.PEER, consumer="peer/north", sites=("north",))
        assert call(house, token=token).status_code == 200
        assert house.ask("DELETE", "/v1/peers/north", admin).status_code == 204
        assert house.ask("GET", "/v1/peers", admin).json() == {"peers": []}
        assert call(house, token=token).status_code == 401
        assert house.ask("DELETE", "/v1/peers/north", admin).status_code == 404

    def test_waits_for_what_is_there_unless_it_is_silent(
        self, house: House, admin: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keep(house, admin)
        call(house)
        lease = house.submit(house.token(), vms=70)
        answer = house.ask("DELETE", "/v1/peers/north", admin)
        assert (answer.status_code, answer.json()["type"]) == (
            409,
            "urn:leasehold:problem:cannot-remove-peer",
        )
        monkeypatch.setattr(post_, "SILENT_AFTER_MS", -1)
        assert house.ask("GET", "/v1/peers/north", admin).json()["borrowing"]["status"] == "silent"
        assert house.ask("DELETE", "/v1/peers/north", admin).status_code == 204
        lost = house.ask("GET", f"/v1/leases/{lease['id']}", admin).json()
        assert (lost["state"], lost["reason"]) == ("failed", "peer-removed")
