"""Requests that make no sense: each gets a 4xx that names the field, its value, and what was expected."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import House, asked, house_in

TYPES = "'cancelable', 'suspendable', 'migratable' or 'non-preemptable'"
FIELDS = (
    "one of type, vms, duration_s, memory_mib, cores, gpus, image, ssh_key, deadline, ready, local, site, name,"
    " project, group, domain, claims, wait, max_restarts, notify, command"
)
A_TIME = "a time with its zone and at most milliseconds, as in '2026-11-21T10:43:36.120Z'"
NO_DEADLINE = "none: a suspendable lease promises no deadline"
LATER = "2100-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One house for all cases: none of them may leave anything behind."""
    folder: Path = tmp_path_factory.mktemp("house")
    with house_in(folder) as house:
        yield house
        assert house.federation.store.highest_lease_id() == 0


@pytest.fixture(scope="module")
def token(house: House) -> str:
    return house.token(sites=("das3", "lyon"))


@pytest.mark.parametrize(
    ("fields", "field", "value", "expected"),
    [
        ({"vms": 0}, "vms", 0, "at least 1"),
        ({"vms": -1}, "vms", -1, "at least 1"),
        ({"vms": 1_000_001}, "vms", 1_000_001, "at most 1000000"),
        ({"vms": 2**63}, "vms", 2**63, "at most 1000000"),
        ({"vms": 2.0}, "vms", 2.0, "a whole number"),
        ({"vms": "2"}, "vms", "2", "a whole number"),
        ({"vms": True}, "vms", True, "a whole number"),
        ({"vms": None}, "vms", None, "a value"),
        ({"gpus": "2 or 3"}, "gpus", "2 or 3", "GPUs of one machine, such as 2, a100:2 or a100:0.5"),
        ({"duration_s": 0}, "duration_s", 0, "more than 0 and at most 315360000 seconds (10 years)"),
        ({"duration_s": 1e400}, "duration_s", None, "a number of seconds"),
        (
            {"duration_s": 315_360_000.001},
            "duration_s",
            315_360_000.001,
            "more than 0 and at most 315360000 seconds (10 years)",
        ),
        ({"duration_s": 0.0005}, "duration_s", 0.0005, "a number of seconds with at most three decimals"),
        ({"duration_s": "60"}, "duration_s", "60", "a number of seconds"),
        ({"duration_s": True}, "duration_s", True, "a number of seconds"),
        ({"memory_mib": 0}, "memory_mib", 0, "at least 1"),
        ({"memory_mib": 2**31 + 1}, "memory_mib", 2**31 + 1, "at most 2147483648"),
        ({"type": "Suspendable"}, "type", "Suspendable", TYPES),
        ({"type": 1}, "type", 1, TYPES),
        (
            {"type": None},
            "type",
            None,
            "one of cancelable, suspendable, migratable, non-preemptable",
        ),
        ({"name": "x" * 201}, "name", "x" * 200 + "…", "to have at most 200 characters"),
        ({"name": "a\nb"}, "name", "a\nb", "no control characters"),
        ({"name": "\x00"}, "name", "\x00", "no control characters"),
        ({"name": "\x9b31m"}, "name", "\x9b31m", "no control characters"),
        ({"name": 7}, "name", 7, "a valid string"),
        ({"command": "sh run.sh"}, "command", "sh run.sh", "a valid list"),
        ({"command": ["a", "b\x00"]}, "command[1]", "b\x00", "no NUL character"),
        ({"command": ["a", 1]}, "command[1]", 1, "a valid string"),
        ({"deadline": 1_795_257_816}, "deadline", 1_795_257_816, A_TIME),
        ({"deadline": "2100-01-01T00:00:00"}, "deadline", "2100-01-01T00:00:00", A_TIME),
        ({"ready": "tomorrow"}, "ready", "tomorrow", A_TIME),
        ({"ready": "2100-01-01T00:00:00.0005Z"}, "ready", "2100-01-01T00:00:00.0005Z", A_TIME),
        (
            {"ready": "2100-02-30T00:00:00Z"},
            "ready",
            "2100-02-30T00:00:00Z",
            "a time that exists, as in '2026-11-21T10:43:36.120Z'",
        ),
        ({"deadline": LATER}, "deadline", "2100-01-01T00:00:00.000Z", NO_DEADLINE),
        (
            {"type": "migratable", "ready": LATER, "deadline": LATER},
            "deadline",
            "2100-01-01T00:00:00.000Z",
            "a time after the ready time",
        ),
        (
            {"type": "migratable", "deadline": "2001-01-01T00:00:00Z"},
            "deadline",
            "2001-01-01T00:00:00.000Z",
            "a time after the ready time",
        ),
        ({"local": "yes"}, "local", "yes", "true or false"),
        ({"local": True, "site": "das3"}, "type", "suspendable", "non-preemptable for a local request"),
        ({"local": True, "type": None}, "site", None, "the home site of a local request"),
        ({"site": "das3"}, "site", "das3", "none: only a local request names its site"),
        ({"site": ""}, "site", "", "to have at least 1 character"),
        ({"image": "../debian"}, "image", "../debian", "the name of an image, of letters, digits and ._:+-"),
        ({"ssh_key": "ssh-dss AAAA"}, "ssh_key", "ssh-dss AAAA", "a public key as in a file id_ed25519.pub"),
        ({"walltime": 60}, "walltime", 60, FIELDS),
        ({"durations_s": 60}, "durations_s", 60, f"{FIELDS} (did you mean 'duration_s'?)"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else "",
)
def test_a_wrong_field_is_named_with_its_value_and_what_was_expected(
    house: House, token: str, fields: dict[str, Any], field: str, value: Any, expected: str
) -> None:
    content = json.dumps(asked(**fields)).replace("Infinity", "1e400")
    answer = house.ask("POST", "/v1/leases", token, content=content, headers={"Content-Type": "application/json"})
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (422, "urn:leasehold:problem:invalid-request")
    assert (problem["field"], problem["value"], problem["expected"]) == (field, value, expected)
    assert problem["detail"].endswith(f", expected {expected}")
    assert "\n" not in problem["detail"]
    assert "None" not in problem["detail"]


def test_an_unknown_home_is_named_with_those_that_there_are(house: House) -> None:
    token = house.token(sites=("lion",))
    answer = house.ask("POST", "/v1/leases", token, json=asked(type=None, local=True))
    assert answer.status_code == 422
    assert answer.json()["expected"] == "one of das3, lyon (did you mean 'lyon'?)"


def test_a_long_command_is_refused_by_words_and_by_bytes(house: House, token: str) -> None:
    words = house.ask("POST", "/v1/leases", token, json=asked(command=["x"] * 101)).json()
    assert (words["field"], words["expected"]) == (
        "command",
        "to have at most 100 items after validation, not 101",
    )
    many = house.ask("POST", "/v1/leases", token, json=asked(command=["é" * 4097])).json()
    assert (many["field"], many["expected"]) == ("command", "at most 8192 bytes in all words together")


def test_several_wrong_fields_are_all_told_at_once(house: House, token: str) -> None:
    problem = house.ask("POST", "/v1/leases", token, json={"vms": 0, "typ": "x"}).json()
    assert [error["field"] for error in problem["errors"]] == ["vms", "duration_s", "typ"]
    assert problem["field"] == "vms"
    assert problem["detail"].count("; ") == 2


def test_a_thousand_wrong_fields_make_no_long_answer(house: House, token: str) -> None:
    problem = house.ask("POST", "/v1/leases", token, json={f"f{i}": 0 for i in range(1000)}).json()
    assert len(problem["errors"]) == 20


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "a value"),
        (b"null", "a JSON object"),
        (b"[]", "a JSON object"),
        (b'"x"', "a JSON object"),
        (b"{", "JSON (EOF while parsing an object at line 1 column 1)"),
        (b"\xff", "JSON (expected value at line 1 column 1)"),
        (b'{"vms": NaN}', "JSON (expected value at line 1 column 9)"),
        (b'{"name": "\\ud800"}', "JSON (unexpected end of hex escape at line 1 column 17)"),
        (b"[" * 5000 + b"]" * 5000, "JSON (recursion limit exceeded at line 1 column 202)"),
        (b'{"vms": ' + b"1" * 5000 + b"}", "JSON (number out of range at line 1 column 4310)"),
    ],
    ids=["nothing", "null", "list", "text", "cut", "no text", "nan", "surrogate", "nested", "number"],
)
def test_a_body_that_is_no_object_is_said_to_be_none(house: House, token: str, body: bytes, expected: str) -> None:
    answer = house.ask("POST", "/v1/leases", token, content=body, headers={"Content-Type": "application/json"})
    problem = answer.json()
    assert (answer.status_code, problem["field"]) == (422, "body")
    assert problem["expected"] == expected
    assert "None" not in problem["detail"]


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ("/v1/leases/x", "lease_id", "x"),
        ("/v1/leases/-1", "lease_id", "-1"),
        ("/v1/leases/+1", "lease_id", "+1"),
        ("/v1/leases/1_0", "lease_id", "1_0"),
        ("/v1/leases/1.0", "lease_id", "1.0"),
        ("/v1/leases/%EF%BC%91", "lease_id", "\uff11"),
        (f"/v1/leases/{2**63}", "lease_id", str(2**63)),
        (f"/v1/leases/{'9' * 6000}/journal", "lease_id", "9" * 200 + "…"),
        (f"/v1/jobs/{'9' * 6000}", "job_id", "9" * 200 + "…"),
        ("/v1/jobs/x/result", "job_id", "x"),
        ("/v1/coallocations/plan1", "coallocation_id", "plan1"),
        ("/v1/leases?limit=0", "limit", "0"),
        ("/v1/leases?limit=1001", "limit", "1001"),
        ("/v1/leases?state=asleep", "state[0]", "asleep"),
        ("/v1/leases?open=perhaps", "open", "perhaps"),
        ("/v1/leases?since=yesterday", "since", "yesterday"),
        ("/v1/leases?stat=running", "stat", "running"),
        ("/v1/leases?site=", "site", ""),
        ("/v1/leases?consumer=a%00b", "consumer", "a\x00b"),
        ("/v1/leases?cursor=x", "cursor", "x"),
        ("/v1/leases?cursor=%C3%A9", "cursor", "é"),
        ("/v1/leases?cursor=cDAx", "cursor", "cDAx"),  # p01, which no page is called
        ("/v1/leases?cursor=cDkyMjMzNzIwMzY4NTQ3NzU4MDg", "cursor", "cDkyMjMzNzIwMzY4NTQ3NzU4MDg"),  # p2**63
        (f"/v1/changes?after={2**63}", "after", str(2**63)),
        ("/v1/changes?lease=1&lease=all", "lease[1]", "all"),
        ("/v1/sites/a%0Ab", "name", "a\nb"),
    ],
)
def test_a_path_or_query_that_makes_no_sense_is_never_the_servers_fault(
    house: House, token: str, path: str, field: str, value: str
) -> None:
    answer = house.ask("GET", path, token)
    assert answer.status_code == 422, answer.text
    assert (answer.json()["field"], answer.json()["value"]) == (field, value)


@pytest.mark.parametrize("kind", ["leases", "jobs", "coallocations"])
def test_what_can_only_be_asked_by_post_is_not_taken_for_a_number(house: House, token: str, kind: str) -> None:
    answer = house.ask("GET", f"/v1/{kind}/plan", token)
    assert (answer.status_code, answer.json()["detail"]) == (405, "method: got GET, expected POST")


@pytest.mark.parametrize("key", ["", " a b", "ä", "x" * 201], ids=["empty", "blank", "not ASCII", "long"])
def test_a_key_that_no_header_should_carry_is_refused_unless_it_is_none(house: House, token: str, key: str) -> None:
    headers = [(b"Idempotency-Key", key.encode()), (b"Authorization", f"Bearer {token}".encode())]

    async def ask() -> int:
        answer = await house.client.post("/v1/leases", json=asked(vms=0), headers=headers)
        return len(answer.json().get("errors", [1]))

    assert house.portal.call(ask) == (2 if key else 1)


@pytest.mark.parametrize("by_s", [0, -1, None, "1", 1e-9])
def test_an_extension_must_be_longer_than_nothing(house: House, token: str, by_s: Any) -> None:
    answer = house.ask("POST", "/v1/leases/1/extension", token, json={"by_s": by_s})
    assert (answer.status_code, answer.json()["field"]) == (422, "by_s")
