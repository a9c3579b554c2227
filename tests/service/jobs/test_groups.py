"""A job of three nodes of which two have to be left, in a federation whose node dies: it goes on, in one attempt."""

from dataclasses import replace
from pathlib import Path
from typing import cast

from tests.service.api.house import SETTINGS, house_in
from tests.service.api.job_house import submit
from tests.waiting import until

from leasehold.service.config import JobsSpec, ServiceConfig, SiteSpec, default_terms
from leasehold.service.drivers.emulated.driver import EmulatedDriver

FOR_EVER = ["work-until-stopped"]
SITE = SiteSpec("das3", 4, replace(default_terms()), options={"nodes": [{"count": 4}]})
CONFIG = ServiceConfig(clusters=(SITE,), jobs=JobsSpec(look_every_ms=250))


def test_it_goes_on_without_the_node_that_died(tmp_path: Path) -> None:
    with house_in(tmp_path, SETTINGS, CONFIG) as house:
        house.wait_for_nodes(1)
        token = house.token()
        job = submit(house, token, command=FOR_EVER, nodes=3, need=2, execution_s=3600)
        assert (job["needs"]["nodes"], job["needs"]["need"]) == (3, 2)
        path = f"/v1/jobs/{job['id']}"
        until(lambda: house.ask("GET", path, token).json()["state"] == "running")
        [attempt] = house.ask("GET", path, token).json()["attempts"]
        lost = attempt["nodes"][1]
        driver = cast("EmulatedDriver", house.federation._reconcilers["das3"].driver)
        house.portal.call(driver.kill_node, lost.partition("/")[2], 3_600_000)
        until(lambda: len(house.ask("GET", path, token).json()["attempts"][0]["nodes"]) == 2)
        shown = house.ask("GET", path, token).json()
        assert (shown["state"], len(shown["attempts"])) == ("running", 1)
        assert lost not in shown["attempts"][0]["nodes"]
        house.portal.call(driver.kill_node, shown["attempts"][0]["nodes"][0].partition("/")[2], 3_600_000)
        until(
            lambda: len(house.ask("GET", path, token).json()["attempts"]) > 1 or _waits(house.ask("GET", path, token))
        )


def _waits(answer: object) -> bool:
    """With one node left it has to begin again, for which there are too few nodes."""
    return bool(answer.json()["state"] == "waiting")  # type: ignore[attr-defined]


def test_more_than_there_are_cannot_be_needed(tmp_path: Path) -> None:
    with house_in(tmp_path, SETTINGS, CONFIG) as house:
        body = {"command": ["true"], "execution_s": 60, "nodes": 3, "need": 4}
        answer = house.ask("POST", "/v1/jobs", house.token(), json=body)
        assert answer.status_code == 422
        assert answer.json()["detail"] == "need: got 4, expected at most the number of nodes, 3; 0: all of them"
