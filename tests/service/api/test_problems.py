"""What HTTP itself can get wrong, and what nobody foresaw: a problem for each, and never a stack trace."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import House, asked, house_in

from leasehold.model.errors import InvariantBroken
from leasehold.protocol.problems import MEDIA_TYPE, Kind
from leasehold.service.api.error_handlers import Problems
from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.limits import RateLimit
from leasehold.service.auth.principal import Role
from leasehold.service.config import Limits, ServiceConfig, SiteSpec
from leasehold.service.errors import Unavailable
from leasehold.service.store.errors import StoreUnavailable

JSON = {"Content-Type": "application/json"}


def told(answer: Any, kind: Kind) -> dict[str, Any]:
    """Check that an answer is a problem of this kind, and give it."""
    assert answer.headers["Content-Type"] == MEDIA_TYPE, answer.text
    problem: dict[str, Any] = answer.json()
    assert (problem["type"], problem["title"]) == (kind.urn, kind.title)
    assert answer.status_code == problem["status"] == kind.status
    assert problem["detail"]
    return problem


# HTTP


@pytest.mark.parametrize("path", ["/v1", "/v2/leases", "/v1/leases/", "/docs/", "/v1/leases/1/nothing"])
def test_a_path_that_leads_nowhere(house: House, path: str) -> None:
    told(house.ask("GET", path), Kind.NOT_FOUND)


@pytest.mark.parametrize(
    ("method", "path", "can"),
    [
        ("PUT", "/v1/leases", "GET, POST"),
        ("PATCH", "/v1/leases/1", "DELETE, GET"),
        ("GET", "/v1/sites/das3/drain", "POST"),
        ("BREW", "/v1/sites", "GET"),
    ],
)
def test_a_method_that_a_path_does_not_have_is_answered_with_all_that_it_has(
    house: House, method: str, path: str, can: str
) -> None:
    answer = house.ask(method, path)
    told(answer, Kind.METHOD_NOT_ALLOWED)
    assert answer.headers["Allow"] == can


@pytest.mark.parametrize(
    "headers",
    [{}, {"Content-Type": "text/plain"}, {"Content-Type": "application/jsonx"}, {"Content-Type": "é"}],
    ids=["none", "text", "nearly", "not ASCII"],
)
def test_a_body_must_say_that_it_is_json(house: House, headers: dict[str, str]) -> None:
    raw = {name: value.encode() for name, value in headers.items()}
    answer = house.ask("POST", "/v1/leases", house.token(), content=b'{"vms": 1}', headers=raw)
    told(answer, Kind.NOT_JSON)


def test_json_may_say_its_character_set_in_any_case(house: House) -> None:
    headers = {"Content-Type": "Application/JSON; charset=UTF-8"}
    answer = house.ask("POST", "/v1/leases", house.token(), content=b'{"vms": 0}', headers=headers)
    told(answer, Kind.INVALID_REQUEST)


async def _chunks(count: int) -> Any:
    for _ in range(count):
        yield b" " * 1024


@pytest.mark.parametrize("how", ["with its length", "in chunks"])
def test_a_body_over_the_limit_is_not_read_to_its_end(house: House, how: str) -> None:
    content = b" " * (64 * 1024 + 1) if how == "with its length" else _chunks(65)
    answer = house.ask("POST", "/v1/leases", house.token(), content=content, headers=JSON)
    assert "65536 bytes" in told(answer, Kind.TOO_LARGE)["detail"]


@pytest.mark.parametrize("how", ["with its length", "in chunks"])
def test_a_body_of_just_the_limit_is_read(house: House, how: str) -> None:
    content = b" " * (64 * 1024) if how == "with its length" else _chunks(64)
    answer = house.ask("POST", "/v1/leases", house.token(), content=content, headers=JSON)
    told(answer, Kind.INVALID_REQUEST)


def test_a_body_that_says_a_wrong_length_is_counted(house: House) -> None:
    headers = JSON | {"Content-Length": "10"}
    answer = house.ask("POST", "/v1/leases", house.token(), content=b" " * (64 * 1024 + 1), headers=headers)
    told(answer, Kind.TOO_LARGE)


# Who asks


@pytest.mark.parametrize("token", ["", "guess", "lh_000000000000_" + "A" * 43])
def test_who_shows_no_valid_token_is_told_how_and_nothing_else(house: House, token: str) -> None:
    answer = house.ask("POST", "/v1/leases", token, content=b"no JSON either", headers=JSON)
    told(answer, Kind.UNAUTHENTICATED)
    assert answer.headers["WWW-Authenticate"].startswith('Bearer realm="leasehold"')


def test_a_header_that_can_be_no_token_is_unreadable(house: House) -> None:
    answer = house.ask("GET", "/v1/leases", headers={"Authorization": "Bearer a b"})
    told(answer, Kind.UNREADABLE)
    assert 'error="invalid_request"' in answer.headers["WWW-Authenticate"]


def test_who_may_not_is_stopped_before_the_body_is_looked_at(house: House) -> None:
    token = house.token(Role.PEER, sites=("das3",))
    answer = house.ask("POST", "/v1/leases", token, content=b"no JSON either", headers=JSON)
    assert "lease.submit" in told(answer, Kind.FORBIDDEN)["detail"]
    assert 'error="insufficient_scope"' in answer.headers["WWW-Authenticate"]


@pytest.fixture
def strict_house(tmp_path: Path) -> Iterator[House]:
    """A house that allows two requests at once, one more in a hundred seconds, and two open leases."""
    settings = ApiSettings(version="0", rate=RateLimit(0.01, 2))
    config = ServiceConfig((SiteSpec("das3", 8),), limits=Limits(open_requests_per_consumer=2))
    with house_in(tmp_path, settings, config) as house:
        yield house


def test_who_asks_too_often_is_told_when_to_come_again_and_others_are_not(strict_house: House) -> None:
    physics, climate = strict_house.token(), strict_house.token(consumer="climate")
    answers = [strict_house.ask("GET", "/v1/leases", physics) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    told(answers[2], Kind.TOO_MANY_REQUESTS)
    assert 0 < int(answers[2].headers["Retry-After"]) <= 100
    assert strict_house.ask("GET", "/v1/leases", climate).status_code == 200


def test_what_is_refused_for_asking_too_often_is_not_done(strict_house: House) -> None:
    token = strict_house.token()
    answers = [strict_house.ask("POST", "/v1/leases", token, json=asked()) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert strict_house.federation.store.highest_lease_id() == 2


_LEASE = {"type": "suspendable", "vms": 1, "duration_s": 60}
_JOB = {"command": ["true"], "execution_s": 60}
_COALLOCATION = {"components": [{"vms": 1}] * 5, "duration_s": 60}


@pytest.mark.parametrize(
    ("path", "body", "cost"),
    [
        ("/v1/leases", _LEASE, 1),
        ("/v1/jobs", _JOB, 1),
        ("/v1/coallocations", _COALLOCATION, 5),
        ("/v1/leases/plan", _LEASE, 10),
        ("/v1/jobs/plan", _JOB, 10),
        ("/v1/coallocations/plan", _COALLOCATION, 14),
    ],
)
def test_what_takes_more_work_counts_as_more_requests(
    tmp_path: Path, path: str, body: dict[str, Any], cost: int
) -> None:
    """One at once, and another in a thousand seconds: so long is waited for each that was counted."""
    with house_in(tmp_path, ApiSettings(version="0", rate=RateLimit(0.001, 1))) as house:
        token = house.token()
        assert house.ask("POST", path, token, json=body).status_code in {200, 201}
        refused = house.ask("GET", "/v1/leases", token)
        told(refused, Kind.TOO_MANY_REQUESTS)
        assert (cost - 1) * 1000 < int(refused.headers["Retry-After"]) <= cost * 1000


def test_each_component_of_a_coallocation_is_one_of_what_a_consumer_submits(tmp_path: Path) -> None:
    settings = ApiSettings(version="0", rate=RateLimit(0), submissions=RateLimit(5 / 3600, 5))
    with house_in(tmp_path, settings=settings) as house:
        token = house.token()
        assert house.ask("POST", "/v1/coallocations/plan", token, json=_COALLOCATION).status_code == 200
        assert house.ask("POST", "/v1/coallocations", token, json=_COALLOCATION).status_code == 201
        told(house.ask("POST", "/v1/leases", token, json=_LEASE), Kind.TOO_MANY_REQUESTS)


def test_a_consumer_has_only_so_many_open_leases(tmp_path: Path) -> None:
    config = ServiceConfig((SiteSpec("das3", 8),), limits=Limits(open_requests_per_consumer=2))
    with house_in(tmp_path, ApiSettings(version="0"), config) as house:
        token = house.token()
        answers = [house.ask("POST", "/v1/leases", token, json=asked()) for _ in range(3)]
        told(answers[2], Kind.TOO_MANY_OPEN)
        assert int(answers[2].headers["Retry-After"]) > 0


# What nobody foresaw


@pytest.mark.parametrize("error", [RuntimeError("secret"), InvariantBroken("secret")])
def test_a_defect_is_told_without_details_and_logged_under_the_same_name(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    async def broken() -> None:
        raise error

    monkeypatch.setattr(house.federation.sites, "list", broken)
    with caplog.at_level(logging.ERROR):
        problem = told(house.ask("GET", "/v1/sites", house.token()), Kind.DEFECT)
    assert "secret" not in str(problem)
    [record] = caplog.records
    assert problem["id"] in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is error


STORE = StoreUnavailable("disk full at /data/store.db")


@pytest.mark.parametrize(
    ("error", "cause"),
    [(Unavailable("stopping"), None), (STORE, None), (Unavailable(str(STORE)), STORE)],
    ids=["stopping", "the store, to a reader", "the store, to the engine"],
)
def test_what_cannot_be_promised_now_may_be_asked_again_soon(
    house: House, monkeypatch: pytest.MonkeyPatch, error: Exception, cause: Exception | None
) -> None:
    async def away(_request: object) -> None:
        raise error from cause

    monkeypatch.setattr(house.federation, "submit", away)
    answer = house.ask("POST", "/v1/leases", house.token(), json=asked())
    assert "/data" not in told(answer, Kind.UNAVAILABLE)["detail"]
    assert answer.headers["Retry-After"] == "1"


def test_a_defect_in_the_middle_of_an_answer_breaks_it_off() -> None:
    async def half(_scope: object, _receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError

    async def story() -> list[str]:
        sent: list[str] = []

        async def send(message: Any) -> None:
            sent.append(message["type"])

        with pytest.raises(RuntimeError):
            await Problems(half)({"type": "http"}, asyncio.Queue().get, send)
        return sent

    assert asyncio.run(story()) == ["http.response.start"]


def test_a_consumer_submits_so_much_an_hour_and_others_are_not_touched(tmp_path: Path) -> None:
    settings = ApiSettings(version="0", rate=RateLimit(0), submissions=RateLimit(3 / 3600, 3))
    lease = {"type": "suspendable", "vms": 1, "duration_s": 60}
    with house_in(tmp_path, settings=settings) as house:
        token = house.token()
        for path, body in (
            ("/v1/leases", lease),
            ("/v1/coallocations", {"components": [{"vms": 1}], "duration_s": 60}),
            ("/v1/jobs", {"command": ["true"], "execution_s": 60}),
        ):
            assert house.ask("POST", path, token, json=body).status_code == 201
        refused = house.ask("POST", "/v1/leases", token, json=lease)
        assert "more was submitted than one consumer may in an hour" in told(refused, Kind.TOO_MANY_REQUESTS)["detail"]
        assert int(refused.headers["Retry-After"]) > 600
        assert house.ask("POST", "/v1/leases/plan", token, json=lease).status_code == 200
        assert house.ask("GET", "/v1/leases", token).status_code == 200
        assert house.ask("POST", "/v1/leases", house.token(consumer="other"), json=lease).status_code == 201
