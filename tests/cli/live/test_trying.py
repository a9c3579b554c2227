"""``leasehold agreement try --on live``: what was asked of a gateway lately, played again."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import Gateway, Reply, lease

TERMS = """\
[[agreement]]
name = "physics-at-das"
provider = "das"
consumer = "physics"
kind = "no-limit"
lending_limit = 2
begin = 2026-11-01T00:00:00Z
"""
SITE: dict[str, Any] = {
    "name": "das3", "slots": 4, "speed_mips": 1000, "status": "up", "driver": "emulated",
    "capabilities": {}, "vms": {"local": 0, "guests": 0, "free": 4}, "waiting": {"local": 0, "guests": 0},
    "domain": "das", "resources": {"licence:matlab": 1},
}  # fmt: skip
LIMIT_OF_ONE: dict[str, Any] = {
    "name": "physics-at-das", "provider": "das", "consumer": "physics", "kind": "no-limit",
    "lending_limit": 1,
}  # fmt: skip


def asked(lease_id: int, minute: int, **values: Any) -> dict[str, Any]:
    """A lease of physics of two VMs, submitted in this minute, that ran for half an hour."""
    submitted, ended = f"2026-11-21T08:{minute:02}:00.000Z", f"2026-11-21T08:{minute + 30:02}:00.000Z"
    ran = {"state": "completed", "started_at": submitted, "ended_at": ended, "submitted_at": submitted}
    usual = {**ran, "ready_at": submitted, "consumer": "user-1", "group": "physics", "duration_s": 3600}
    return lease(lease_id, **(usual | values))


def signed(terms: dict[str, Any], standing: str = "signed") -> dict[str, Any]:
    drawn_up = {"by": "das3-office", "at": "2026-11-01T00:00:00.000Z"}
    revision = {"revision": 1, "terms": terms, "drawn_up": drawn_up}
    told = {"name": terms["name"], "standing": standing, "in_force": standing == "signed"}
    return {**told, "current": revision, "since": "2026-11-01T00:00:00.000Z"}


@pytest.fixture(autouse=True)
def _past(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "terms.toml").write_text(TERMS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("leasehold.cli.live.times.now", lambda: datetime(2026, 11, 21, 10, 0, tzinfo=UTC))
    leases = [
        asked(4, 21, state="cancelled", started_at=None),
        asked(3, 20, group="climate", claims={"licence:matlab": 1}),
        asked(2, 10),
        asked(1, 0),
        asked(0, 0, submitted_at="2026-10-01T00:00:00.000Z"),
    ]
    gateway.answer("GET", "/v1/leases", Reply(body={"leases": leases, "next": None}))
    gateway.answer("GET", "/v1/sites", Reply(body={"sites": [SITE]}))


def agreed(gateway: Gateway, *agreements: dict[str, Any]) -> None:
    gateway.answer("GET", "/v1/agreements", Reply(body={"agreements": list(agreements)}))


def consumers(cli: Cli) -> dict[str, Any]:
    said = cli("agreement", "try", "terms.toml", "--on", "live", "--json")
    assert said.code == 0, said.err
    assert said.err.startswith("3 leases since 2026-11-14 10:00 UTC; guests are routed by ")
    return {row["name"]: row for row in json.loads(said.out)["consumers"]}


def test_the_leases_of_the_last_days_are_played_as_they_ran(cli: Cli, gateway: Gateway) -> None:
    """Two leases of two VMs and half an hour, ten minutes apart: one by one, the second waits 20 minutes."""
    agreed(gateway)
    found = consumers(cli)
    assert set(found) == {"physics", "climate"}
    physics = found["physics"]
    assert physics["without"] == {
        "requests": 2, "wait_mean_s": 0, "wait_p95_s": 0, "preemptions": 0, "refused": 0, "slot_h": 2.0,
    }  # fmt: skip
    assert physics["with"]["wait_p95_s"] == 20 * 60
    assert found["climate"]["without"]["slot_h"] == 1.0


def test_what_is_agreed_now_is_kept_unless_the_file_says_otherwise(cli: Cli, gateway: Gateway) -> None:
    other = {**LIMIT_OF_ONE, "name": "other"}
    part = {**LIMIT_OF_ONE, "name": "part", "consumer": "physics/users", "parent": "gone"}
    agreed(gateway, signed(other), signed({**LIMIT_OF_ONE, "name": "gone"}, "suspended"), signed(part))
    physics = consumers(cli)["physics"]
    assert (physics["without"]["refused"], physics["with"]["refused"]) == (2, 2)


def test_nothing_to_try_it_on_is_said(cli: Cli, gateway: Gateway) -> None:
    agreed(gateway)
    said = cli("agreement", "try", "terms.toml", "--on", "live", "--days", "0.01")
    assert said.code == 2
    assert "--days: got 0.01, expected more" in said.err
