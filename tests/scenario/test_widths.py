"""A request that no cluster could ever serve is an error in the input, unless the scenario says otherwise."""

from dataclasses import replace

import pytest

from leasehold.model.errors import InvalidField
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.sources import fitting
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.workload.job import WorkloadJob


@pytest.fixture
def two_clusters() -> Scenario:
    return scenario_from_dict(
        {
            "name": "two",
            "cluster": [{"name": "a", "slots": 4}, {"name": "b", "slots": 8}],
            "stream": [{"name": "log", "log": "any.swf", "site": "a"}],
        }
    )


def job(vms: int, site: str | None) -> WorkloadJob:
    return WorkloadJob(0, vms, 1000, 1000, source_id="7", source="log", site=site)


@pytest.mark.parametrize(("vms", "site"), [(4, "a"), (8, "b"), (8, None)])
def test_what_fits_somewhere_passes(two_clusters: Scenario, vms: int, site: str | None) -> None:
    wanted = job(vms, site)
    assert list(fitting(iter([wanted]), two_clusters)) == [wanted]


@pytest.mark.parametrize(
    ("vms", "site", "expected"),
    [(5, "a", "at most 4, what its cluster a has"), (9, None, "at most 8, what the widest cluster has")],
)
def test_what_fits_nowhere_is_an_error(two_clusters: Scenario, vms: int, site: str | None, expected: str) -> None:
    with pytest.raises(InvalidField, match=f"log job 7: VMs: got {vms}, expected {expected}"):
        list(fitting(iter([job(vms, site)]), two_clusters))


def test_or_is_left_to_the_clusters_to_refuse(two_clusters: Scenario) -> None:
    lenient = replace(two_clusters, too_wide="refuse")
    assert [found.vms for found in fitting(iter([job(9, None)]), lenient)] == [9]
