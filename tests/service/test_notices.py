"""Guests that are told of their preemption, on real parts: the API, emulated machines, a server of the guest's."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import pytest
from tests.service.api.house import PATIENCE_S, House, house_in
from tests.waiting import until

from leasehold.model.errors import InputError
from leasehold.service.auth.principal import Role
from leasehold.service.config import ServiceConfig, ServiceSpec, SiteSpec, default_terms
from leasehold.service.config_file import load_config
from leasehold.service.notices import is_below

LONG_S = 600
"""Longer than any test: what does not wait for it comes earlier for a reason."""


def config(*webhooks: str, notice_s: int = LONG_S) -> ServiceConfig:
    terms = replace(default_terms(), notice_ms=notice_s * 1000)
    return ServiceConfig(clusters=(SiteSpec("das3", 4, terms),), service=ServiceSpec(webhooks=webhooks))


@contextmanager
def hooks(statuses: list[int]) -> Iterator[tuple[str, SimpleQueue[dict[str, Any]]]]:
    """A server that keeps what it is told, and answers with these statuses, the last one again and again."""
    heard = SimpleQueue[dict[str, Any]]()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
            self.send_response(status)
            if status == 307:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
            heard.put(body | {"path": self.path, "status": status})

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def show(house: House, lease_id: int, token: str) -> dict[str, Any]:
    shown: dict[str, Any] = house.ask("GET", f"/v1/leases/{lease_id}", token).json()
    return shown


def whats(house: House, lease_id: int, token: str) -> list[str]:
    entries = house.ask("GET", f"/v1/leases/{lease_id}/journal", token).json()["entries"]
    return [entry["what"] for entry in entries]


@pytest.mark.parametrize("kind", ["cancelable", "suspendable"])
def test_a_guest_is_told_saves_its_work_and_gives_way(tmp_path: Path, kind: str) -> None:
    with house_in(tmp_path, config=config()) as house:
        member, owner = house.token(), house.token(consumer="owner", sites=("das3",))
        guest = house.submit(member, type=kind, vms=4, notify="SIGUSR1")
        house.running(guest["id"], member)
        local = house.submit(owner, type=None, local=True, vms=2)
        until(lambda: "is told by SIGUSR1" in house.ask("GET", f"/v1/leases/{guest['id']}/console", member).text)
        assert show(house, local["id"], owner)["state"] == "starting"
        assert "notified" in whats(house, guest["id"], member)
        answer = house.ask("POST", f"/v1/leases/{guest['id']}/checkpointed", member)
        assert answer.status_code == 200, answer.text
        house.running(local["id"], owner)


def test_a_webhook_is_called_until_it_answers(tmp_path: Path) -> None:
    with hooks([503, 200]) as (server, heard), house_in(tmp_path, config=config(f"{server}/hooks/")) as house:
        member, owner = house.token(), house.token(consumer="owner", sites=("das3",))
        guest = house.submit(member, type="cancelable", vms=4, notify=f"{server}/hooks/mine?key=1")
        house.running(guest["id"], member)
        house.submit(owner, type=None, local=True, vms=2)
        first, second = (heard.get(timeout=PATIENCE_S) for _ in range(2))
        assert (first["status"], second["status"]) == (503, 200)
        assert second["path"] == "/hooks/mine?key=1"
        assert (second["lease"], second["site"], second["event"]) == (guest["id"], "das3", "preemption")


def test_no_redirect_is_followed(tmp_path: Path) -> None:
    with hooks([307, 200]) as (server, heard), house_in(tmp_path, config=config(f"{server}/hooks")) as house:
        member, owner = house.token(), house.token(consumer="owner", sites=("das3",))
        guest = house.submit(member, type="cancelable", vms=4, notify=f"{server}/hooks")
        house.running(guest["id"], member)
        house.submit(owner, type=None, local=True, vms=2)
        assert [heard.get(timeout=PATIENCE_S)["path"] for _ in range(2)] == ["/hooks", "/hooks"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"notify": "https://inside.example.org/admin"}, "an address below https://hooks.example.org/ours/"),
        ({"notify": "https://hooks.example.org/ours/../admin"}, "an address below"),
        ({"notify": "https://hooks.example.org@inside.example.org/ours/"}, "an address below"),
        ({"notify": "SIGKILL"}, "notify"),
        ({"notify": "ftp://hooks.example.org/ours/"}, "notify"),
        ({"notify": "file", "type": "non-preemptable"}, "never preempted"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    with house_in(tmp_path, config=config("https://hooks.example.org/ours/")) as house:
        body = {"type": "cancelable", "vms": 1, "duration_s": 60} | fields
        answer = house.ask("POST", "/v1/leases", house.token(), json=body)
        assert answer.status_code == 422
        assert words in answer.json()["detail"]


def test_only_whoever_may_change_a_lease_reports_for_it(tmp_path: Path) -> None:
    with house_in(tmp_path, config=config()) as house:
        member = house.token()
        guest = house.submit(member, type="cancelable", vms=1)
        house.running(guest["id"], member)
        path = f"/v1/leases/{guest['id']}/checkpointed"
        assert house.ask("POST", path, house.token(consumer="chemistry")).status_code == 404
        operator = house.token(Role.SITE_OPERATOR, consumer="operator", sites=("das3",))
        assert house.ask("POST", path, operator).status_code == 403
        shown = house.ask("POST", path, member).json()
        assert shown["checkpointed_at"] >= shown["started_at"]


@pytest.mark.parametrize(
    ("address", "allowed", "yes"),
    [
        ("https://a.org/x", "https://a.org", True),
        ("https://a.org/x", "https://a.org/x", True),
        ("https://a.org/x/y", "https://a.org/x", True),
        ("https://a.org:443/x/y", "https://a.org/x/", True),
        ("https://A.org/x/y", "https://a.org/x/", True),
        ("https://a.org/xy", "https://a.org/x", False),
        ("http://a.org/x", "https://a.org/x", False),
        ("https://a.org:8443/x", "https://a.org/x", False),
        ("https://a.org.evil.org/x", "https://a.org/", False),
        ("https://a.org/x/../y", "https://a.org/x", False),
        ("https://a.org/x/%2e%2e/y", "https://a.org/x", False),
        ("https://user@a.org/x", "https://a.org/x", False),
        ("https://a.org:port/x", "https://a.org/x", False),
    ],
)
def test_which_addresses_are_below_another(address: str, allowed: str, yes: bool) -> None:  # noqa: FBT001 - expected
    assert is_below(address, allowed) is yes


@pytest.mark.parametrize("address", ["http://hooks.example.org/", "hooks.example.org", "https://a.org/?x", "ftp://a"])
def test_a_configuration_names_safe_addresses(tmp_path: Path, address: str) -> None:
    path = tmp_path / "leasehold.toml"
    path.write_text(f'[service]\nwebhooks = ["{address}"]\n[[cluster]]\nname = "a"\nslots = 1\n')
    with pytest.raises(InputError, match="an address such as"):
        load_config(path)
