"""Jobs that wait for nodes are told when they start, over HTTP; that is scored when they have."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import House
from tests.service.api.job_house import furnished, over, submit

from leasehold.protocol.fields import read_moment, unix_ms


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house of one's own."""
    with furnished(tmp_path) as house:
        yield house


def _refresh(house: House) -> None:
    house.portal.call(house.federation.forecasts.refresh)


def _waiting(house: House, token: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Fill both nodes with a gcc for an hour, and ask for one more; give the jobs that run, and the one that waits."""
    nodes = house.ask("GET", "/v1/nodes", token).json()["nodes"]
    cores = max(node["cores"] for node in nodes if node["name"].startswith("das3/"))
    wide = {"software": ["gcc"], "cores": cores, "command": ["sleep", "3600"], "execution_s": 3600}
    running = [submit(house, token, **wide) for _ in range(2)]
    waiting = submit(house, token, **wide | {"command": ["true"]})
    assert [len(job["attempts"]) for job in (*running, waiting)] == [1, 1, 0]
    return running, waiting


def test_a_job_without_a_lease_is_told_when_it_starts_and_what_may_move_it(house: House) -> None:
    token = house.token()
    running, waiting = _waiting(house, token)
    assert house.ask("GET", f"/v1/jobs/{waiting['id']}/estimate", token).status_code == 404
    _refresh(house)
    told = house.ask("GET", f"/v1/jobs/{waiting['id']}/estimate", token).json()
    assert [one["what"] for one in told["estimates"]] == ["start", "end"]
    start, end = told["estimates"]
    assert [site["site"] for site in start["sites"]] == ["das3"]
    assert unix_ms(read_moment(start["earliest_at"])) <= unix_ms(read_moment(start["latest_at"]))
    assert unix_ms(read_moment(start["expected_at"])) < unix_ms(read_moment(end["expected_at"]))
    assert [one["job"] for one in house.ask("GET", "/v1/estimates", token).json()["jobs"]] == [waiting["id"]]
    shown = house.ask("GET", f"/v1/jobs/{waiting['id']}", token).json()
    assert shown["expected"]["expected_at"] == start["expected_at"]
    assert house.ask("GET", f"/v1/jobs/{running[0]['id']}", token).json()["expected"] is None


def test_others_are_not_told(house: House) -> None:
    token, other = house.token(), house.token(consumer="climate")
    _, waiting = _waiting(house, token)
    _refresh(house)
    assert house.ask("GET", f"/v1/jobs/{waiting['id']}/estimate", other).status_code == 404
    assert house.ask("GET", "/v1/estimates", other).json() == {"leases": [], "jobs": []}


def test_a_job_that_no_node_will_ever_serve_has_none(house: House) -> None:
    token = house.token()
    submit(house, token, cores=1_000)
    _refresh(house)
    assert house.ask("GET", "/v1/estimates", token).json()["jobs"] == []


def test_it_is_scored_when_its_lease_has_machines_and_when_it_is_over(house: House) -> None:
    token = house.token()
    running, waiting = _waiting(house, token)
    _refresh(house)
    for job in running:
        house.ask("DELETE", f"/v1/jobs/{job['id']}", token)
    over(house, token, waiting["id"])
    _refresh(house)
    told = house.ask("GET", "/v1/calibration", token).json()
    scores = {(one["what"], one["scored"]) for one in told["scores"] if (one["whom"], one["site"]) == ("job", "")}
    assert scores == {("start", 1), ("end", 1)}
    assert {(one["job"], one["lease"]) for one in told["predictions"] if one["job"]} == {(waiting["id"], None)}
    (lease,) = [one["lease"] for one in house.ask("GET", f"/v1/jobs/{waiting['id']}", token).json()["attempts"]]
    began = house.ask("GET", f"/v1/leases/{lease}", token).json()["started_at"]
    assert [one["happened_at"] for one in told["predictions"] if one["job"] and one["what"] == "start"] == [began]
    other = house.token(consumer="climate")
    assert not any(one["job"] for one in house.ask("GET", "/v1/calibration", other).json()["predictions"])


def test_one_that_is_taken_back_is_not_scored(house: House) -> None:
    token = house.token()
    _, waiting = _waiting(house, token)
    _refresh(house)
    house.ask("DELETE", f"/v1/jobs/{waiting['id']}", token)
    _refresh(house)
    assert not [one for one in house.federation.forecasts._open.values() if one.job_id is not None]
    scores = house.ask("GET", "/v1/calibration", token).json()["scores"]
    assert not [one for one in scores if one["whom"] == "job"]
