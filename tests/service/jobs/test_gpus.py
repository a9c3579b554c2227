"""Jobs that need GPUs, at a site that is planned by nodes: matching chooses the nodes, and the plan keeps to them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import SETTINGS, House, house_in
from tests.service.api.job_house import over, submit
from tests.waiting import until

from leasehold.model.resources import NodeResources
from leasehold.service.auth.principal import Role
from leasehold.service.config import JobsSpec, ServiceConfig, SiteSpec

FOR_EVER = ["work-until-stopped"]
NODES = (
    NodeResources("gpu1", 8, 16_384, "a100", 2),
    NodeResources("gpu2", 8, 16_384, "t4", 2),
    NodeResources("cpu1", 16, 16_384),
)
CONFIG = ServiceConfig(
    clusters=(SiteSpec("das3", sum(node.cores for node in NODES), nodes=NODES), SiteSpec("lyon", 4)),
    jobs=JobsSpec(look_every_ms=250),
)


def shown(house: House, token: str, job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = house.ask("GET", f"/v1/jobs/{job['id']}", token).json()
    return found


def running(house: House, token: str, job: dict[str, Any]) -> dict[str, Any]:
    until(lambda: shown(house, token, job)["state"] == "running")
    [attempt] = shown(house, token, job)["attempts"]
    lease: dict[str, Any] = house.ask("GET", f"/v1/leases/{attempt['lease']}", token).json()
    return lease | {"on": attempt["nodes"]}


def free_gpus(house: House, token: str) -> dict[str, list[float]]:
    nodes = house.ask("GET", "/v1/nodes?site=das3", token).json()["nodes"]
    return {node["name"]: node["free_gpus"] for node in nodes if node["gpus"]}


def test_each_gets_gpus_of_its_model_and_all_else_on_the_nodes_that_were_chosen(tmp_path: Path) -> None:
    with house_in(tmp_path, SETTINGS, CONFIG) as house:
        house.wait_for_nodes(2)
        token = house.token()
        both = {"das3/gpu1": [1, 1], "das3/gpu2": [1, 1]}
        assert free_gpus(house, token) == both
        one = submit(house, token, command=FOR_EVER, gpus="t4:1", cores=3, execution_s=3600)
        assert one["needs"]["gpus"] == "t4:1"
        lease = running(house, token, one)
        assert (lease["on"], lease["nodes"]) == (["das3/gpu2"], ["gpu2[0]"])
        assert (lease["cores"], lease["gpus"]) == (3, "t4:1")
        two = submit(house, token, command=FOR_EVER, gpus="1", nodes=2, execution_s=3600)
        lease = running(house, token, two)
        assert sorted(lease["nodes"]) == ["gpu1[0]", "gpu2[1]"]
        until(lambda: free_gpus(house, token) == {"das3/gpu1": [1, 0], "das3/gpu2": [0, 0]})
        waits = submit(house, token, gpus="t4:1")
        until(lambda: shown(house, token, waits)["state"] == "waiting")
        assert shown(house, token, waits)["what"].startswith("gpus-in-use")
        house.ask("DELETE", f"/v1/jobs/{one['id']}", token)
        assert over(house, token, waits["id"])["state"] == "completed"
        house.ask("DELETE", f"/v1/jobs/{two['id']}", token)
        until(lambda: free_gpus(house, token) == both)


def test_an_owner_gets_its_gpu_back_from_a_job(tmp_path: Path) -> None:
    with house_in(tmp_path, SETTINGS, CONFIG) as house:
        house.wait_for_nodes(2)
        token = house.token()
        job = submit(house, token, command=FOR_EVER, gpus="a100:2", execution_s=3600)
        running(house, token, job)
        body = {"vms": 1, "duration_s": 1, "gpus": "a100:1", "command": ["true"], "local": True, "site": "das3"}
        own = house.ask("POST", "/v1/leases", house.token(Role.SITE_OPERATOR, sites=("das3",)), json=body)
        assert own.status_code == 201, own.text
        until(lambda: shown(house, token, job)["attempts"][0]["state"] == "suspended")
        [attempt] = shown(house, token, job)["attempts"]
        assert house.ask("GET", f"/v1/leases/{attempt['lease']}", token).json()["preemptions"] == 1


SHARED = (
    NodeResources("gpu1", 8, 16_384, "a100", 2, 4),
    NodeResources("gpu2", 8, 16_384, "t4", 2, 0),
)


def planned_by(*nodes: NodeResources) -> ServiceConfig:
    site = SiteSpec("das3", sum(node.cores for node in nodes), nodes=nodes)
    return ServiceConfig(clusters=(site,), jobs=JobsSpec(look_every_ms=250))


def test_fractions_share_a_device_with_each_other_and_with_leases(tmp_path: Path) -> None:
    with house_in(tmp_path, SETTINGS, planned_by(*SHARED)) as house:
        house.wait_for_nodes(1)
        token = house.token()
        one = submit(house, token, command=FOR_EVER, gpus="a100:0.5", execution_s=3600)
        assert one["needs"]["gpus"] == "a100:0.5"
        lease = running(house, token, one)
        assert (lease["gpus"], lease["nodes"]) == ("a100:0.5", ["gpu1[0]"])
        # 0.3 of a device is two of its four shares.
        two = submit(house, token, command=FOR_EVER, gpus="0.3", execution_s=3600)
        assert running(house, token, two)["nodes"] == ["gpu1[0]"]
        until(lambda: free_gpus(house, token)["das3/gpu1"] == [1, 0])
        body = {"type": "suspendable", "vms": 1, "duration_s": 3600, "gpus": "a100:0.25", "command": FOR_EVER}
        assert house.ask("POST", "/v1/leases", token, json=body).status_code == 201
        until(lambda: free_gpus(house, token)["das3/gpu1"] == [0.75, 0])
        body = {"command": ["true"], "execution_s": 60, "gpus": "a100:0.9"}
        plan = house.ask("POST", "/v1/jobs/plan", token, json=body).json()
        assert [one["gpus"] for one in plan["alternatives"] if one["change"] == "gpus"] == ["a100:0.75"]
        whole = submit(house, token, gpus="a100:1")
        until(lambda: shown(house, token, whole)["state"] == "waiting")
        assert shown(house, token, whole)["what"].startswith("gpus-in-use")
        house.ask("DELETE", f"/v1/jobs/{one['id']}", token)
        until(lambda: free_gpus(house, token)["das3/gpu1"] == [0.75, 0.5])
        assert shown(house, token, whole)["state"] == "waiting"
        house.ask("DELETE", f"/v1/jobs/{two['id']}", token)
        assert over(house, token, whole["id"])["state"] == "completed"


def test_who_lends_gpus_only_whole_refuses_a_fraction_before_there_is_a_lease(tmp_path: Path) -> None:
    with house_in(tmp_path, SETTINGS, planned_by(SHARED[1])) as house:
        house.wait_for_nodes(1)
        token = house.token()
        job = over(house, token, submit(house, token, gpus="t4:0.5")["id"])
        assert (job["state"], job["reason"], job["what"]) == ("refused", "never-here", "gpus-lent-whole")
        assert job["explanation"].endswith("lends its GPUs only whole, and a fraction of one is required")
        assert job["attempts"] == []
        body = {"command": ["true"], "execution_s": 60, "gpus": "t4:0.5"}
        plan = house.ask("POST", "/v1/jobs/plan", token, json=body).json()
        assert [(one["change"], one["gpus"]) for one in plan["alternatives"]] == [("gpus", "t4:1")]
        body = {"type": "suspendable", "vms": 1, "duration_s": 60, "gpus": "t4:0.5"}
        lease = house.ask("POST", "/v1/leases", token, json=body).json()
        until(lambda: house.ask("GET", f"/v1/leases/{lease['id']}", token).json()["reason"] == "gpus-lent-whole")


@pytest.mark.parametrize("gpus", ["a100:1.5", "a100:0", "0", "a100:0.0001", "a100:-1", "a100:0.5:2", "65"])
def test_gpus_that_no_machine_can_have_are_refused_with_one_line(house: House, gpus: str) -> None:
    answer = house.ask("POST", "/v1/jobs", house.token(), json={"command": ["true"], "execution_s": 60, "gpus": gpus})
    assert answer.status_code == 422
    assert answer.json()["detail"] == (
        f"gpus: got {gpus!r}, expected MODEL:NUMBER such as a100:2 or a100:0.5, a model, or a number; "
        "fractions only below 1"
    )


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house"), SETTINGS, CONFIG) as made:
        yield made


def test_what_no_node_has_is_refused_at_once(tmp_path: Path) -> None:
    with house_in(tmp_path, SETTINGS, CONFIG) as house:
        house.wait_for_nodes(2)
        token = house.token()
        three = over(house, token, submit(house, token, gpus="3")["id"])
        assert (three["state"], three["reason"]) == ("refused", "never-here")
        assert three["what"] == "too-few-gpus: asks for 3 GPUs on each node, and none has more than 2 GPUs"
        other = over(house, token, submit(house, token, gpus="h100:1")["id"])
        assert other["what"].startswith("other-gpu-model")


def test_the_dashboard_says_how_many_are_in_use_where_nodes_have_some(tmp_path: Path) -> None:
    with house_in(tmp_path, SETTINGS, CONFIG) as house:
        house.wait_for_nodes(2)
        token = house.token(Role.FEDERATION_ADMIN)
        job = submit(house, token, command=FOR_EVER, gpus="a100:1", execution_s=3600)
        running(house, token, job)
        until(lambda: free_gpus(house, token)["das3/gpu1"] == [1, 0])
        page = house.ask("GET", "/nodes?site=das3", token, headers={"Accept": "text/html"}).text
        assert "1 of 2 a100" in page
        assert "0 of 2 t4" in page
        assert "GPUs in use" not in house.ask("GET", "/nodes?site=lyon", token, headers={"Accept": "text/html"}).text


def test_a_plan_tries_gpus_of_any_model_and_fewer_of_them(tmp_path: Path) -> None:
    with house_in(tmp_path, SETTINGS, CONFIG) as house:
        house.wait_for_nodes(2)

        def better(**said: Any) -> list[tuple[str, str]]:
            body = {"command": ["true"], "execution_s": 60, **said}
            found = house.ask("POST", "/v1/jobs/plan", house.token(), json=body).json()
            assert found["verdict"] == "refused"
            return [(one["change"], one["gpus"]) for one in found["alternatives"]]

        assert better(gpus="h100:1") == [("gpus", "1")]
        assert better(gpus="a100:4") == [("gpus", "a100:2")]
        assert better(gpus="3") == [("gpus", "2")]
