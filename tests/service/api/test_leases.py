"""Leases over HTTP: asked for, looked at, taken back, made longer."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.service.api.house import House, asked

from leasehold.model.reason import Reason, sentence
from leasehold.service.auth.principal import Role


def at(text: str) -> datetime:
    """Read a time of the wire."""
    return datetime.fromisoformat(text)


# Asking for one


def test_an_accepted_request_is_a_lease_with_a_place(house: House) -> None:
    answer = house.ask("POST", "/v1/leases", house.token(), json=asked(name="sky-survey", command=["sh", "run.sh"]))
    lease = answer.json()
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/v1/leases/{lease['id']}"
    assert lease["site"] in {"das3", "lyon"}
    told = {
        "name": "sky-survey",
        "type": "suspendable",
        "vms": 2,
        "duration_s": 3600,
        "memory_mib": 1024,
        "consumer": "physics",
        "group": "",
        "local": False,
        "home": None,
        "state": "starting",
        "reason": "room-free",
        "explanation": sentence(Reason.ROOM_FREE),
        "deadline_at": None,
        "planned_start_at": None,
        "expected": None,
        "ended_at": None,
        "preemptions": 0,
        "migrations": 0,
        "restarts": 0,
        "max_restarts": None,
        "command": ["sh", "run.sh"],
    }
    assert {name: lease[name] for name in told} == told
    assert (lease["submitted_at"], lease["started_at"]) == (lease["ready_at"], None)
    later = house.running(lease["id"], house.token())
    assert at(later["ends_at"]) - at(later["started_at"]) == timedelta(hours=1)


def test_a_request_that_no_site_could_ever_serve_is_a_refused_lease_and_no_error(house: House) -> None:
    lease = house.submit(house.token(), vms=65)
    assert (lease["state"], lease["reason"]) == ("refused", "wider-than-any-site")
    assert lease["ended_at"] is not None


def test_a_request_that_waits_says_when_it_is_planned_and_why_not_now(house: House) -> None:
    token = house.token(sites=("das3",))
    house.submit(token, type=None, local=True, vms=64, duration_s=600.5)
    lease = house.submit(token, type=None, local=True, vms=64)
    assert (lease["state"], lease["reason"], lease["type"]) == ("waiting", "room-in-use", "non-preemptable")
    assert lease["local"] is True
    assert lease["home"] == "das3"
    assert lease["started_at"] is None
    assert lease["ends_at"] is None
    wait = at(lease["planned_start_at"]) - at(lease["submitted_at"])
    assert timedelta(seconds=590) < wait <= timedelta(seconds=600.5)


def test_a_deadline_and_a_ready_time_come_back_in_utc(house: House) -> None:
    lease = house.submit(
        house.token(),
        type="migratable",
        duration_s=0.5,
        ready="2100-01-01T01:00:00+01:00",
        deadline="2100-01-01T00:00:01.250Z",
    )
    assert lease["duration_s"] == 0.5
    assert lease["ready_at"] == "2100-01-01T00:00:00.000Z"
    assert lease["deadline_at"] == "2100-01-01T00:00:01.250Z"


@pytest.mark.parametrize(
    ("sites", "said", "home"),
    [(("das3",), None, "das3"), (("das3", "lyon"), "lyon", "lyon")],
    ids=["its only home", "the one it names"],
)
def test_a_local_request_is_made_at_a_home_of_its_caller(
    house: House, sites: tuple[str, ...], said: str | None, home: str
) -> None:
    lease = house.submit(house.token(sites=sites), type=None, local=True, site=said)
    assert (lease["home"], lease["site"]) == (home, home)


@pytest.mark.parametrize(
    ("groups", "said", "group"),
    [((), None, ""), (("astro", "lattice"), None, "astro"), (("astro", "lattice"), "lattice", "lattice")],
)
def test_a_lease_is_of_the_group_that_was_named_or_else_of_the_callers_first(
    house: House, groups: tuple[str, ...], said: str | None, group: str
) -> None:
    assert house.submit(house.token(groups=groups), group=said)["group"] == group


def test_a_group_of_others_is_not_ones_own(house: House) -> None:
    answer = house.ask("POST", "/v1/leases", house.token(groups=("astro",)), json=asked(group="lattice"))
    assert answer.status_code == 403
    assert "lease.submit-in-group" in answer.json()["detail"]


def test_how_often_it_may_begin_again_is_its_users_to_say_for_a_guest(house: House) -> None:
    token = house.token(sites=("das3",))
    assert house.submit(token, max_restarts=0)["max_restarts"] == 0
    answer = house.ask("POST", "/v1/leases", token, json=asked(type=None, local=True, max_restarts=1))
    assert (answer.status_code, answer.json()["field"]) == (422, "max_restarts")
    assert house.ask("POST", "/v1/leases", token, json=asked(max_restarts=101)).status_code == 422


# Asking twice


def test_the_same_key_and_request_get_the_same_lease(house: House) -> None:
    token, headers = house.token(), {"Idempotency-Key": "night-run-7"}
    first = house.ask("POST", "/v1/leases", token, json=asked(), headers=headers)
    body = '  {"duration_s": 3600.0, "memory_mib": 1024, "type": "suspendable", "vms": 2}'
    second = house.ask(
        "POST", "/v1/leases", token, content=body, headers=headers | {"Content-Type": "application/json"}
    )
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert first.headers["Location"] == second.headers["Location"]


def test_a_repeated_request_is_answered_even_when_its_ready_time_has_passed(house: House) -> None:
    token, headers = house.token(), {"Idempotency-Key": "early"}
    body = asked(ready="2001-01-01T00:00:00Z")
    statuses = [house.ask("POST", "/v1/leases", token, json=body, headers=headers).status_code for _ in range(2)]
    assert statuses == [201, 200]


def test_the_same_key_with_another_request_is_a_conflict(house: House) -> None:
    token, headers = house.token(), {"Idempotency-Key": "night-run-7"}
    house.ask("POST", "/v1/leases", token, json=asked(), headers=headers)
    answer = house.ask("POST", "/v1/leases", token, json=asked(vms=3), headers=headers)
    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:leasehold:problem:idempotency-conflict"


def test_keys_of_different_consumers_have_nothing_to_do_with_each_other(house: House) -> None:
    headers = {"Idempotency-Key": "1"}
    for consumer in ("physics", "climate"):
        token = house.token(consumer=consumer)
        assert house.ask("POST", "/v1/leases", token, json=asked(), headers=headers).status_code == 201


# Looking


def test_leases_are_listed_newest_first_by_whatever_one_asks(house: House) -> None:
    physics, climate = house.token(sites=("das3",)), house.token(consumer="climate")
    local = house.submit(physics, type=None, local=True)["id"]
    over = house.submit(physics)["id"]
    house.ask("DELETE", f"/v1/leases/{over}", physics)
    theirs = house.submit(climate)["id"]
    admin = house.token(Role.FEDERATION_ADMIN, consumer="operator")
    for lease in (local, theirs):
        house.running(lease, admin)

    def listed(query: str) -> list[int]:
        answer = house.ask("GET", f"/v1/leases?{query}", admin).json()
        assert answer["next"] is None
        return [lease["id"] for lease in answer["leases"]]

    assert listed("") == [theirs, over, local]
    assert listed("consumer=physics") == [over, local]
    assert listed("open=true") == [theirs, local]
    assert listed("open=false") == [over]
    assert listed("state=cancelled") == [over]
    assert listed("state=cancelled&state=running") == [theirs, over, local]
    assert listed("site=das3&consumer=physics&open=true") == [local]
    assert listed("since=2100-01-01T00:00:00Z") == []
    assert listed("since=2001-01-01T00:00:00Z") == [theirs, over, local]
    mine = house.ask("GET", "/v1/leases", climate).json()["leases"]
    assert [lease["id"] for lease in mine] == [theirs]


def test_a_lease_is_shown_as_it_was_answered(house: House) -> None:
    token = house.token()
    lease = house.submit(token)
    shown = house.ask("GET", f"/v1/leases/{lease['id']}", token).json()
    assert shown.keys() == lease.keys()
    # Its machines may have been seen in the meantime.
    changed = {name for name, value in shown.items() if value != lease[name]}
    assert changed in (set(), {"state", "started_at", "ends_at"})


def test_the_journal_tells_what_happened_and_why(house: House) -> None:
    token = house.token(sites=("das3",))
    lease = house.submit(token, type=None, local=True)["id"]
    house.ask("DELETE", f"/v1/leases/{lease}", token)
    entries = house.ask("GET", f"/v1/leases/{lease}/journal", token).json()["entries"]
    assert entries[0]["what"] == "submitted"
    assert entries[-1]["state"] == "cancelled"
    assert [entry["seq"] for entry in entries] == sorted({entry["seq"] for entry in entries})
    started = next(entry for entry in entries if entry["what"] == "start")
    assert (started["reason"], started["rule"], started["site"]) == ("room-free", "home-first", "das3")
    assert started["explanation"] == sentence(Reason.ROOM_FREE)


def test_the_console_is_plain_text(house: House) -> None:
    token = house.token()
    lease = house.submit(token)["id"]
    answer = house.ask("GET", f"/v1/leases/{lease}/console", token)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_a_console_that_is_at_another_site_is_said_to_be_there(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    token = house.token()
    lease = house.submit(token)["id"]
    row = house.federation.store.lease(lease)
    assert row is not None
    row.lease.site = "far-away"
    monkeypatch.setattr(type(house.federation.store), "lease", lambda *_: row)
    answer = house.ask("GET", f"/v1/leases/{lease}/console", token)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:leasehold:problem:console-elsewhere")
    assert answer.json()["detail"].startswith(f"lease {lease} is at far-away, which decides for itself")


# Changing


def test_a_lease_is_cancelled_once_and_stays_so(house: House) -> None:
    token = house.token()
    lease = house.submit(token)["id"]
    answers = [house.ask("DELETE", f"/v1/leases/{lease}", token) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    first, second = (answer.json() for answer in answers)
    assert first == second
    assert (first["state"], first["reason"], first["ends_at"]) == ("cancelled", "cancelled-by-user", None)


def test_a_lease_lasts_longer_where_nobody_is_in_the_way(house: House) -> None:
    token = house.token(sites=("das3",))
    lease = house.submit(token, type=None, local=True)
    assert lease["ends_at"] is None  # its time begins when its machines are seen
    lease = house.running(lease["id"], token)
    answer = house.ask("POST", f"/v1/leases/{lease['id']}/extension", token, json={"by_s": 600.25})
    assert answer.status_code == 200
    assert at(answer.json()["ends_at"]) - at(lease["ends_at"]) == timedelta(seconds=600.25)


def test_a_lease_that_holds_nothing_cannot_last_longer_now(house: House) -> None:
    token = house.token(sites=("das3",))
    house.submit(token, type=None, local=True, vms=64)
    waiting = house.submit(token, type=None, local=True, vms=64)
    answer = house.ask("POST", f"/v1/leases/{waiting['id']}/extension", token, json={"by_s": 60})
    assert answer.status_code == 409
    problem = answer.json()
    assert (problem["type"], problem["reason"]) == ("urn:leasehold:problem:cannot-extend", "not-running")


def test_a_lease_that_is_over_cannot_last_longer(house: House) -> None:
    token = house.token()
    lease = house.submit(token)["id"]
    house.ask("DELETE", f"/v1/leases/{lease}", token)
    answer = house.ask("POST", f"/v1/leases/{lease}/extension", token, json={"by_s": 60})
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:leasehold:problem:lease-closed")


# What is not there


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/extension", {"by_s": 60}),
        ("GET", "/journal", None),
        ("GET", "/console", None),
    ],
)
def test_what_one_may_not_see_is_not_there_as_if_it_had_never_been(
    house: House, method: str, path: str, body: Any
) -> None:
    theirs = house.submit(house.token(consumer="climate"))["id"]
    token = house.token()
    answers = [house.ask(method, f"/v1/leases/{lease}{path}", token, json=body) for lease in (theirs, 4711, 2**63 - 1)]
    assert [answer.status_code for answer in answers] == [404, 404, 404]
    problems = [answer.json() for answer in answers]
    assert problems[0] == problems[1] | {"detail": problems[0]["detail"]}
    assert problems[0]["detail"] == problems[1]["detail"].replace("4711", str(theirs))


# Waiting, or not


def test_what_cannot_start_now_waits_unless_it_says_that_it_does_not(house: House) -> None:
    token = house.token()
    for site, vms, duration_s in (("das3", 64, 3600), ("lyon", 32, 7200)):
        owner = house.token(consumer=f"owner-{site}", sites=(site,))
        house.submit(owner, local=True, site=site, vms=vms, type=None, duration_s=duration_s)
    queued = house.submit(token, type="migratable", vms=2)
    refused = house.submit(token, type="migratable", vms=2, wait=False)
    assert (queued["state"], queued["site"]) == ("waiting", "das3")
    assert (refused["state"], refused["reason"]) == ("refused", "no-room-at-ready-time")


@pytest.mark.parametrize("kind", ["cancelable", "suspendable"])
def test_who_waits_in_any_case_cannot_say_that_it_does_not(house: House, kind: str) -> None:
    answer = house.ask("POST", "/v1/leases", house.token(), json=asked(type=kind, wait=False))
    assert answer.status_code == 422
    assert f"a {kind} lease waits for room in any case" in answer.text
