"""Probes and metrics: for everybody, or for who has a token, as it was set."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.service.api.house import House, asked, house_in
from tests.waiting import until

from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.principal import Role


def test_a_service_at_work_is_alive_and_ready(house: House) -> None:
    for path, said in (("/healthz", {"status": "ok"}), ("/readyz", {"status": "ok", "warnings": []})):
        answer = house.ask("GET", path)
        assert (answer.status_code, answer.json()) == (200, said)


@pytest.mark.parametrize(
    ("ahead_s", "warning"),
    [
        (60, None),
        (-60, None),
        (61, "the gateway's time is 61 s ahead of the machine's clock: set the clock right"),
        (-3600, "the gateway's time is 3600 s behind the machine's clock: set the clock right"),
    ],
)
def test_a_wrong_clock_is_warned_of_and_keeps_nobody_from_asking(
    house: House, ahead_s: float, warning: str | None
) -> None:
    house.federation.health.ahead_s = lambda: ahead_s
    answer = house.ask("GET", "/readyz")
    assert (answer.status_code, answer.json()["warnings"]) == (200, [warning] if warning else [])
    house.submit(house.token())


def test_the_log_says_once_that_the_clock_is_wrong_and_that_it_is_right_again(house: House) -> None:
    told = [("warning", "the clock is off"), ("info", "the clock is right again")]

    def about_the_clock() -> list[tuple[str, str]]:
        return [found for one in logs if (found := (one["log_level"], one["event"])) in told]

    with capture_logs() as logs:
        house.federation.health.ahead_s = lambda: 61.0
        until(lambda: about_the_clock() == told[:1])
        house.federation.health.ahead_s = lambda: 0.0
        until(lambda: about_the_clock() == told)


def test_who_is_not_ready_says_why(house: House) -> None:
    house.federation.health.trouble = "still starting"
    answer = house.ask("GET", "/readyz")
    assert (answer.status_code, answer.json()["detail"]) == (503, "still starting")
    assert house.ask("GET", "/healthz").status_code == 200


def test_who_found_a_promise_broken_is_not_worth_keeping_and_gives_no_details(house: House) -> None:
    house.federation.health.broken = "slot 7 was given to climate and physics"
    answer = house.ask("GET", "/healthz")
    assert answer.status_code == 503
    assert "climate" not in answer.text


def test_metrics_count_answers_by_route_and_never_by_lease(house: House) -> None:
    token = house.token(Role.FEDERATION_ADMIN)
    lease = house.submit(token)["id"]
    house.ask("GET", f"/v1/leases/{lease}", token)
    house.ask("GET", "/no/such/path")
    answer = house.ask("GET", "/metrics", token)
    assert answer.headers["Content-Type"].startswith("text/plain")
    counted = [line for line in answer.text.splitlines() if "http_request_duration_seconds_count" in line]
    assert [line.removeprefix("leasehold_http_request_duration_seconds_count") for line in counted] == [
        '{method="POST",route="/v1/leases",status="201"} 1.0',
        '{method="GET",route="/v1/leases/{lease_id}",status="200"} 1.0',
        '{method="GET",route="other",status="404"} 1.0',
    ]


def test_whatever_is_no_way_to_ask_for_a_lease_counts_as_rejected(house: House) -> None:
    token = house.token()
    house.submit(token)
    house.ask("POST", "/v1/leases", "lh_no_such_token", json=asked())
    house.ask("POST", "/v1/leases", house.token(Role.PEER, sites=("das3",)), json=asked())
    house.ask("POST", "/v1/leases", token, content=b"vms: 2")
    house.ask("POST", "/v1/leases", token, json=asked(vms=0))
    house.ask("POST", "/v1/leases", token, json=asked(local=True, type=None))
    for vms in (1, 2):
        house.ask("POST", "/v1/leases", token, json=asked(vms=vms), headers={"Idempotency-Key": "same"})
    house.ask("DELETE", "/v1/leases/4711", token)
    told = house.ask("GET", "/metrics", house.token(Role.FEDERATION_ADMIN)).text
    assert [line for line in told.splitlines() if line.startswith("leasehold_requests_total")] == [
        'leasehold_requests_total{outcome="accepted"} 2.0',
        'leasehold_requests_total{outcome="repeated"} 0.0',
        'leasehold_requests_total{outcome="rejected"} 6.0',
    ]


@pytest.mark.parametrize("needs_token", [True, False])
def test_who_may_look_is_as_it_was_set(tmp_path: Path, needs_token: bool) -> None:  # noqa: FBT001 - the case
    settings = ApiSettings("0", probes_need_token=needs_token, metrics_need_token=needs_token)
    paths = ("/healthz", "/readyz", "/metrics")
    with house_in(tmp_path, settings) as house:
        nobody = [house.ask("GET", path).status_code for path in paths]
        member = [house.ask("GET", path, house.token()).status_code for path in paths]
        operator = house.token(Role.SITE_OPERATOR, sites=("das3",))
        known = [house.ask("GET", path, operator).status_code for path in paths]
    assert (nobody, member) == (([401] * 3, [403] * 3) if needs_token else ([200] * 3, [200] * 3))
    assert known == [200] * 3
