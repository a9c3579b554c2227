"""A plan of a job says what its lease would cost others, and what would go better: each is tried, and undone."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import SETTINGS, House, house_in
from tests.service.api.job_house import CONFIG, asked, furnished

from leasehold.configuration.tables import SharingSpec
from leasehold.service.config import ServiceConfig, SiteSpec, default_terms


@pytest.fixture(scope="module")
def still_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house in which no job runs."""
    with furnished(tmp_path_factory.mktemp("house")) as house:
        yield house


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house of one site with 8 VMs on four nodes of four cores, whose owner takes Non-preemptable guests."""
    terms = replace(default_terms(), non_preemptable_share=1.0, non_preemptable_max_ms=86_400_000)
    site = SiteSpec("das3", 8, terms, options={"nodes": [{"count": 4}]})
    with house_in(
        tmp_path, SETTINGS, ServiceConfig(clusters=(site,), jobs=CONFIG.jobs, sharing=SharingSpec())
    ) as house:
        house.wait_for_nodes(1)
        yield house


def plan(house: House, **said: Any) -> dict[str, Any]:
    answer = house.ask("POST", "/v1/jobs/plan", house.token(), json=asked(**said))
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def better(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["change"]: one for one in told["alternatives"]}


def test_what_starts_at_once_needs_nothing_better(still_house: House) -> None:
    told = plan(still_house, software=["gcc >= 12"])
    assert (told["verdict"], told["consequences"], told["alternatives"]) == ("as-asked", [], [])
    assert (told["lease"]["verdict"], told["lease"]["site"]) == ("as-asked", "das3")


def test_no_node_is_so_large_and_the_largest_is_tried(still_house: House) -> None:
    told = plan(still_house, memory_mib=100_000)
    assert (told["verdict"], told["lease"]) == ("refused", None)
    other = better(told)["memory"]
    assert (other["memory_mib"], other["cores"], other["nodes"]) == (65_536, None, None)
    assert (other["outcome"]["verdict"], other["outcome"]["lease"]["site"]) == ("as-asked", "lyon")
    assert better(plan(still_house, cores=64))["cores"]["cores"] == 4


def test_no_site_has_so_many_nodes_and_as_many_as_there_are_is_tried(still_house: House) -> None:
    told = plan(still_house, nodes=3, need=3, software=["gcc"])
    assert told["verdict"] == "refused"
    assert better(told)["nodes"]["nodes"] == 2
    assert better(told)["nodes"]["outcome"]["state"] == "running"


def test_no_node_has_this_version_and_any_is_tried(still_house: House) -> None:
    told = plan(still_house, software=["gcc >= 99"])
    assert told["verdict"] == "refused"
    assert better(told)["software"]["software"] == ["gcc"]
    assert "software" not in better(plan(still_house, software=["fortran-77"]))


def test_an_image_that_is_built_first_is_a_consequence(still_house: House) -> None:
    told = plan(still_house, software=["python3-numpy >= 1.24"])
    assert (told["verdict"], told["state"]) == ("with-consequences", "building")
    assert told["consequences"][0] == "builds"


def test_a_deadline_that_is_too_tight_is_left_out(still_house: House) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=20)).isoformat(timespec="milliseconds")
    told = plan(still_house, deadline=soon, execution_s=3600)
    assert told["verdict"] == "refused"
    assert better(told)["deadline"]["outcome"]["verdict"] == "as-asked"


def test_a_type_of_lease_that_its_owner_does_not_take_is_refused_and_others_are_tried(still_house: House) -> None:
    told = plan(still_house, software=["gcc"], type="non-preemptable")
    assert (told["verdict"], told["state"], told["lease"]["verdict"]) == ("refused", "running", "refused")
    assert better(told)["type"]["type"] in {"cancelable", "suspendable", "migratable"}
    assert better(told)["type"]["outcome"]["verdict"] == "as-asked"


def test_where_all_room_is_held_a_lease_that_does_not_wait_is_refused_and_one_that_does_is_tried(house: House) -> None:
    guest = house.submit(house.token(), vms=8, duration_s=7200)["id"]
    house.running(guest, house.token())
    told = plan(house, type="non-preemptable")
    assert (told["verdict"], told["state"], told["lease"]["reason"]) == ("refused", "running", "no-room-at-ready-time")
    other = better(told)["type"]["outcome"]
    assert (other["verdict"], other["consequences"]) == ("with-consequences", ["waits"])
    assert other["lease"]["starts_at"] is not None
    assert house.ask("GET", f"/v1/leases/{guest}", house.token()).json()["state"] == "running"
    assert house.ask("GET", "/v1/jobs", house.token()).json()["jobs"] == []


def test_what_fits_before_an_owner_comes_is_shorter(house: House) -> None:
    owner = house.token(sites=("das3",))
    ready = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="milliseconds")
    house.submit(owner, type=None, local=True, site="das3", vms=8, duration_s=7200, ready=ready)
    told = plan(house, execution_s=7200)
    assert "waits" in told["consequences"]
    shorter = better(told)["execution"]
    assert 1500 < shorter["execution_s"] <= 1800  # the margin is 2
    assert shorter["outcome"]["verdict"] == "as-asked"
