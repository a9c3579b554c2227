"""Messages over HTTP: who may write them, what is refused, and how an operator lets go of a site for good."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.service.api.house import House, house_in

from leasehold.service import federation
from leasehold.service.auth.principal import Role
from leasehold.service.messages import routing as post_

STATUS: dict[str, Any] = {
    "identity": "store-1", "slots": 100, "speed_mips": 1, "reference_mips": 1, "driver": "emulated",
    "can_suspend": True, "can_migrate": True, "lends": True, "local_vms": 0, "guest_vms": 0,
    "waiting_local": 0, "waiting_guests": 0, "waiting_local_vms": 0, "waiting_guest_vms": 0,
}  # fmt: skip
RUNNING = {
    "kind": "report", "lease": 1, "state": "running", "reason": "room-free", "planned_ms": -1,
    "first_start_ms": 1, "preemptions": 0, "overhead_vm_ms": 0, "migrations": 0, "work_left": -1,
        "prepared_until_ms": -1, "onward": [], "command": None,
}  # fmt: skip

NODE: dict[str, Any] = {
    "name": "n1", "cores": 2, "memory_mib": 4_096, "disk_mib": 0, "free_cores": 0, "free_memory_mib": 4_096,
    "free_disk_mib": 0, "cpu_mhz": 0, "bytes_per_s": 0, "gpu_model": "", "gpus": 0, "gpu_shares": 0, "free_gpus": [],
    "takes_files": True, "is_host": False, "runs": True, "problem": "", "fault": "", "software": 0,
}  # fmt: skip


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as house:
        yield house


@pytest.fixture
def peer(house: House) -> str:
    return house.token(Role.PEER, consumer="far-manager", sites=("far",))


def exchange(house: House, token: str, name: str = "far", **body: Any) -> httpx2.Response:
    status = STATUS | body.pop("status", {})
    path = f"/v1/sites/{name}/messages"
    return house.ask("POST", path, token, json={"status": status, "acknowledged": 0} | body)


def wide(house: House) -> dict[str, Any]:
    """A lease that only the remote site is large enough for."""
    return house.submit(house.token(), vms=80)


def test_a_site_is_given_its_offers_again_and_again_until_it_has_taken_them_in(house: House, peer: str) -> None:
    assert exchange(house, peer).json() == {"messages": [], "acknowledged": 0}
    lease = wide(house)
    assert (lease["site"], lease["state"]) == ("far", "waiting")
    for _ in range(2):
        [message] = exchange(house, peer).json()["messages"]
        assert (message["seq"], message["body"]["kind"], message["body"]["lease"]) == (1, "offer", lease["id"])
    assert exchange(house, peer, acknowledged=1).json()["messages"] == []
    assert house.federation.store.messages("far", 0, 10) == []


def test_a_report_counts_once_and_shows_at_once(house: House, peer: str) -> None:
    exchange(house, peer)
    lease = wide(house)
    told = RUNNING | {"lease": lease["id"]}
    for _ in range(2):
        assert exchange(house, peer, messages=[{"seq": 1, "body": told}]).json()["acknowledged"] == 1
    assert house.ask("GET", f"/v1/leases/{lease['id']}", house.token()).json()["state"] == "running"


def test_a_node_that_offers_itself_is_known_as_it_says(house: House, peer: str) -> None:
    nodes = {"kind": "nodes", "listing": 1, "software": [[]], "nodes": [NODE], "complete": True, "age_ms": 0}
    offer = {"node": NODE | {"free_cores": 2, "software": -1}, "age_ms": 0, "lasts_ms": 60_000}
    told = [{"seq": 1, "body": nodes}, {"seq": 2, "body": {"kind": "offered", "offers": [offer]}}]
    assert exchange(house, peer, messages=told).json()["acknowledged"] == 2
    [node] = house.ask("GET", "/v1/nodes?site=far", house.token()).json()["nodes"]
    assert (node["name"], node["free_cores"]) == ("far/n1", 2)


def test_an_offer_without_its_time_is_refused_with_the_place_of_what_is_missing(house: House, peer: str) -> None:
    body = {"kind": "offered", "offers": [{"node": NODE | {"software": -1}, "age_ms": 0}]}
    answer = exchange(house, peer, messages=[{"seq": 1, "body": body}])
    assert (answer.status_code, answer.json()["field"]) == (422, "messages[0].body.offers[0].lasts_ms")


def test_the_clock_of_a_site_need_not_be_right(house: House, peer: str) -> None:
    """Who asked for now is offered without a time; a planned start beyond all calendars is shown."""
    exchange(house, peer)
    lease = wide(house)
    [message] = exchange(house, peer).json()["messages"]
    assert message["body"]["ready_ms"] is None
    told = RUNNING | {"lease": lease["id"], "state": "waiting", "planned_ms": 2**53}
    assert exchange(house, peer, messages=[{"seq": 1, "body": told}]).status_code == 200
    assert house.ask("GET", f"/v1/leases/{lease['id']}", house.token()).json()["planned_start_at"] > "9999"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"acknowledged": 7}, "acknowledged"),
        ({"acknowledged": -1}, "acknowledged"),
        ({"messages": [{"seq": 2, "body": RUNNING}]}, "messages"),
        ({"messages": [{"seq": 1, "body": RUNNING}, {"seq": 1, "body": RUNNING}]}, "messages"),
        ({"messages": [{"seq": 1, "body": RUNNING | {"kind": "offer"}}]}, "messages[0].body.kind"),
        ({"messages": [{"seq": 1, "body": RUNNING | {"state": "asleep"}}]}, "messages[0].body.state"),
        ({"messages": [{"seq": 1, "body": RUNNING | {"preemptions": 2**63}}]}, "messages[0].body.preemptions"),
        ({"status": {"slots": 0}}, "status.slots"),
        ({"status": {"slots": "many"}}, "status.slots"),
        ({"status": {"reference_mips": 2}}, "reference_mips"),
        ({"status": {"mood": "good"}}, "status.mood"),
        ({"wait_s": 1e9}, "wait_s"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    house: House, peer: str, body: dict[str, Any], field: str
) -> None:
    exchange(house, peer)
    answer = exchange(house, peer, **body)
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert house.federation.store.message_numbers("far") == (0, 0)


def test_a_site_may_write_for_itself_only(house: House, peer: str) -> None:
    assert exchange(house, peer, "north").status_code == 403
    assert exchange(house, house.token(Role.SITE_OPERATOR, sites=("far",))).status_code == 403
    assert exchange(house, "").status_code == 401


@pytest.mark.parametrize("name", ["das3", "gateway"])
def test_a_site_cannot_call_itself_like_one_of_the_gateways_own(house: House, name: str) -> None:
    answer = exchange(house, house.token(Role.FEDERATION_ADMIN), name)
    assert (answer.status_code, answer.json()["field"]) == (422, "site")


class TestExtending:
    @pytest.fixture
    def lease(self, house: House, peer: str) -> dict[str, Any]:
        exchange(house, peer)
        lease = wide(house)
        exchange(house, peer, acknowledged=1, messages=[{"seq": 1, "body": RUNNING | {"lease": lease["id"]}}])
        return lease

    def extend(self, house: House, lease: dict[str, Any]) -> httpx2.Response:
        return house.ask("POST", f"/v1/leases/{lease['id']}/extension", house.token(), json={"by_s": 60})

    def decide(self, house: House, peer: str, lease: dict[str, Any], refusal: str | None = None) -> None:
        """Let the site read what it is asked, and answer it."""
        [message] = exchange(house, peer, acknowledged=1, wait_s=30).json()["messages"]
        asked = message["body"]
        assert asked == {"kind": "extend", "lease": lease["id"], "duration_ms": lease["duration_s"] * 1000 + 60_000}
        said = asked | {"kind": "extended", "refusal": refusal}
        answer = exchange(house, peer, acknowledged=2, messages=[{"seq": 2, "body": said}])
        assert answer.status_code == 200, answer.text

    def test_who_does_not_answer_within_seconds_was_asked_and_nothing_else_is_asked_meanwhile(
        self, monkeypatch: pytest.MonkeyPatch, house: House, peer: str, lease: dict[str, Any]
    ) -> None:
        monkeypatch.setattr(federation, "EXTENSION_WITHIN_S", 0)
        asked = self.extend(house, lease)
        assert (asked.status_code, asked.json()["asked_duration_s"]) == (202, lease["duration_s"] + 60)
        assert asked.json()["duration_s"] == lease["duration_s"]
        again = self.extend(house, lease)
        assert (again.status_code, again.json()["reason"]) == (409, "extension-under-way")
        self.decide(house, peer, lease)
        shown = house.ask("GET", f"/v1/leases/{lease['id']}", house.token()).json()
        assert (shown["duration_s"], shown.get("asked_duration_s")) == (lease["duration_s"] + 60, None)
        journal = house.ask("GET", f"/v1/leases/{lease['id']}/journal", house.token()).json()["entries"]
        assert [entry["what"] for entry in journal][-3:] == ["extension-asked", "deny", "extend"]

    @pytest.mark.parametrize(("refusal", "status"), [(None, 200), ("room-in-use", 409)])
    def test_who_answers_at_once_decides_what_the_user_is_told(
        self,
        monkeypatch: pytest.MonkeyPatch,
        house: House,
        peer: str,
        lease: dict[str, Any],
        refusal: str | None,
        status: int,
    ) -> None:
        monkeypatch.setattr(federation, "EXTENSION_WITHIN_S", 3_600)
        with ThreadPoolExecutor(1) as another:
            answer = another.submit(self.extend, house, lease)
            self.decide(house, peer, lease, refusal)
            told = answer.result()
        assert (told.status_code, told.json().get("reason")) == (status, refusal or "extended")

    def test_one_that_has_ended_meanwhile_is_not_extended(
        self, monkeypatch: pytest.MonkeyPatch, house: House, peer: str, lease: dict[str, Any]
    ) -> None:
        monkeypatch.setattr(federation, "EXTENSION_WITHIN_S", 3_600)
        with ThreadPoolExecutor(1) as another:
            answer = another.submit(self.extend, house, lease)
            exchange(house, peer, acknowledged=1, wait_s=30)
            over = RUNNING | {"lease": lease["id"], "state": "completed", "reason": "completed"}
            exchange(house, peer, acknowledged=2, messages=[{"seq": 2, "body": over}])
            told = answer.result()
        assert (told.status_code, told.json()["reason"]) == (409, "not-running")

    def test_a_site_that_is_away_is_not_waited_for(
        self, monkeypatch: pytest.MonkeyPatch, house: House, lease: dict[str, Any]
    ) -> None:
        monkeypatch.setattr(federation, "EXTENSION_WITHIN_S", 3_600)
        monkeypatch.setattr(post_, "SILENT_AFTER_MS", -1)
        assert self.extend(house, lease).status_code == 202


def test_a_cancel_is_written_down_and_waits_for_the_site(house: House, peer: str) -> None:
    exchange(house, peer)
    lease = wide(house)
    for _ in range(2):
        assert house.ask("DELETE", f"/v1/leases/{lease['id']}", house.token()).json()["state"] == "waiting"
    kinds = [message["body"]["kind"] for message in exchange(house, peer).json()["messages"]]
    assert kinds == ["offer", "recall"]
    journal = house.ask("GET", f"/v1/leases/{lease['id']}/journal", house.token()).json()["entries"]
    assert [entry["what"] for entry in journal] == ["submitted", "dispatch", "recalled"]


def test_a_site_is_drained_from_the_gateway_like_its_own(house: House, peer: str) -> None:
    exchange(house, peer)
    admin = house.token(Role.FEDERATION_ADMIN)
    assert house.ask("POST", "/v1/sites/far/drain", admin).json()["status"] == "drained"
    assert wide(house)["state"] == "held"
    assert house.ask("POST", "/v1/sites/far/resume", admin).json()["status"] == "up"
    assert [message["body"]["kind"] for message in exchange(house, peer).json()["messages"]] == ["offer"]


class TestForSomebodyWhoWillNotComeBack:
    @pytest.fixture(autouse=True)
    def _silence(self, monkeypatch: pytest.MonkeyPatch, house: House, peer: str) -> None:
        """The site was heard of, has a lease and a message, and is silent: no minute need pass for that."""
        exchange(house, peer)
        exchange(house, peer, messages=[{"seq": 1, "body": RUNNING | {"lease": wide(house)["id"]}}])
        self.fall_silent(monkeypatch, house)

    def fall_silent(self, monkeypatch: pytest.MonkeyPatch, house: House) -> None:
        monkeypatch.setattr(post_, "SILENT_AFTER_MS", -1)
        house.portal.call(house.federation.sites.mark_silent)

    def test_an_operator_sees_that_it_is_away(self, house: House) -> None:
        site = house.ask("GET", "/v1/sites/far", house.token()).json()
        assert (site["status"], site["problem"]) == ("unreachable", "its manager does not call")

    def test_it_is_forgotten_and_comes_again_with_an_empty_store(self, house: House, peer: str) -> None:
        admin = house.token(Role.FEDERATION_ADMIN)
        again = {"identity": "store-2"}
        refused = exchange(house, peer, status=again)
        assert (refused.status_code, refused.json()["field"]) == (422, "identity")
        assert "leasehold site forget far" in refused.json()["expected"]
        assert house.ask("DELETE", "/v1/sites/far", admin).status_code == 204
        lease = house.ask("GET", "/v1/leases/1", admin).json()
        assert (lease["state"], lease["reason"]) == ("failed", "machines-lost")
        assert house.ask("GET", "/v1/sites/far", admin).status_code == 404
        assert house.federation.store.messages("far", 0, 10) == []
        assert exchange(house, peer, status=again).json() == {"messages": [], "acknowledged": 0}
        assert wide(house)["site"] == "far"
        assert [message["seq"] for message in exchange(house, peer, status=again).json()["messages"]] == [1]

    def test_who_comes_again_with_the_old_store_is_refused(self, house: House, peer: str) -> None:
        house.ask("DELETE", "/v1/sites/far", house.token(Role.FEDERATION_ADMIN))
        answer = exchange(house, peer, acknowledged=1)
        assert (answer.status_code, answer.json()["field"]) == (422, "acknowledged")

    def test_who_is_in_touch_stays(self, house: House, peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(post_, "SILENT_AFTER_MS", 60_000)
        exchange(house, peer)
        answer = house.ask("DELETE", "/v1/sites/far", house.token(Role.FEDERATION_ADMIN))
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:leasehold:problem:cannot-forget")

    @pytest.mark.parametrize(("name", "status"), [("das3", 409), ("nowhere", 404)])
    def test_no_other_site_can_be_forgotten(self, house: House, name: str, status: int) -> None:
        answer = house.ask("DELETE", f"/v1/sites/{name}", house.token(Role.FEDERATION_ADMIN))
        assert answer.status_code == status
