"""Nodes and images over HTTP."""

from collections.abc import Iterator

import pytest
from tests.service.api.house import House
from tests.service.api.job_house import furnished


@pytest.fixture(scope="module")
def still_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One house for all tests in which nothing comes to be."""
    with furnished(tmp_path_factory.mktemp("house")) as house:
        yield house


def test_nodes_are_listed_by_name_with_what_they_have(still_house: House) -> None:
    answer = still_house.ask("GET", "/v1/nodes", still_house.token())
    nodes = answer.json()["nodes"]
    assert [one["name"] for one in nodes] == ["das3/n1", "das3/n2", "lyon/n1"]
    told = {
        "site": "das3", "cores": 4, "free_cores": 4, "memory_mib": 16_384, "software": ["gcc 12.2.0"],
        "packages": 1, "is_host": False, "runs": True, "problem": "", "failures": 0, "failed_at": None,
    }  # fmt: skip
    assert {name: nodes[0][name] for name in told} == told
    assert nodes[0]["seen_at"].endswith("Z")
    assert nodes[2]["is_host"] is True


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("site=lyon", ["lyon/n1"]),
        ("software=gcc%20%3E%3D%2012", ["das3/n1", "das3/n2"]),
        ("software=gcc%20%3C%2012", []),
        ("limit=2", ["das3/n1", "das3/n2"]),
    ],
)
def test_nodes_are_chosen_by_site_and_software(still_house: House, query: str, names: list[str]) -> None:
    listed = still_house.ask("GET", f"/v1/nodes?{query}", still_house.token()).json()["nodes"]
    assert [one["name"] for one in listed] == names


def test_nodes_come_page_by_page_and_briefly(still_house: House) -> None:
    token, cursor, names = still_house.token(), "", list[str]()
    while True:
        page = still_house.ask("GET", f"/v1/nodes?limit=1&brief=true{cursor}", token).json()
        names += [one["name"] for one in page["nodes"]]
        assert page["nodes"][0]["software"] == []
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert names == ["das3/n1", "das3/n2", "lyon/n1"]
    assert still_house.ask("GET", "/v1/nodes?cursor=bm9uZQ!", token).json()["field"] == "cursor"
    assert still_house.ask("GET", "/v1/nodes?software=%21", token).status_code == 422


def test_images_are_listed_with_what_is_in_them(still_house: House) -> None:
    (image,) = still_house.ask("GET", "/v1/images", still_house.token()).json()["images"]
    told = {
        "name": "debian", "site": "lyon", "state": "there", "software": ["python3 3.13.5"], "packages": [],
        "size_bytes": 10**8, "least_memory_mib": 256, "problem": "",
    }  # fmt: skip
    assert {name: image[name] for name in told} == told
