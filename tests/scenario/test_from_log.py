"""The scenario around one log."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.simulation.scenario.from_log import LogOptions, scenario_for_log
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.sources import open_streams, with_sizes
from leasehold.simulation.workload.das2 import Das2Parameters

Swf = Callable[..., Path]

JOBS = [(0, 100, 4, 1, 1, 1), (50, 100, 6, 1, 1, 2), (86_400, 100, 6, 1, 1, 2)]


@pytest.fixture
def log(swf: Swf) -> Path:
    return swf("own.swf", JOBS, header="; MaxProcs: 64\n")


def test_is_one_cluster_as_large_as_the_header_says(log: Path) -> None:
    scenario = with_sizes(scenario_for_log(log))
    assert [(cluster.name, cluster.slots) for cluster in scenario.clusters] == [("own", 64)]
    assert [job.site for job in open_streams(scenario, [])] == ["own"] * 3
    assert not scenario.has_externals


def test_is_named_after_the_log_without_its_suffixes(log: Path) -> None:
    packed = log.with_name("my.cluster.swf.gz")
    packed.write_bytes(log.read_bytes())
    assert scenario_for_log(packed).name == "my.cluster"


def test_size_and_name_may_be_said(log: Path) -> None:
    scenario = scenario_for_log(log, LogOptions(procs="7", site="mine"))
    assert [(cluster.name, cluster.slots) for cluster in scenario.clusters] == [("mine", 7)]


@pytest.mark.parametrize("procs", ["0", "-3", "1.5", "many", "1e3"])
def test_a_size_that_is_none_is_refused(log: Path, procs: str) -> None:
    with pytest.raises(InvalidField, match="--procs: got"):
        scenario_for_log(log, LogOptions(procs=procs))


def test_a_field_may_make_clusters(log: Path) -> None:
    scenario = with_sizes(scenario_for_log(log, LogOptions(cluster_by="partition")))
    assert {cluster.name: cluster.slots for cluster in scenario.clusters} == {
        "partition-1": 4,
        "partition-2": 6,
    }


def test_another_field_is_refused(log: Path) -> None:
    with pytest.raises(UnknownName, match="partition"):
        scenario_for_log(log, LogOptions(cluster_by="partitions"))


def test_keys_are_set_as_in_a_file(log: Path) -> None:
    scenario = scenario_for_log(log, LogOptions(), {"cluster.*.local_policy": "easy", "seed": 9})
    assert scenario.clusters[0].terms.local_policy == "easy"
    assert scenario.seed == 9


class TestGuests:
    def test_from_another_log(self, log: Path, swf: Swf) -> None:
        other = swf("other.swf", [(10, 5, 1, 1, 1, 1)])
        jobs = list(open_streams(scenario_for_log(log, LogOptions(guests=str(other))), []))
        assert [(job.source, job.site) for job in jobs] == [
            ("local", "own"), ("guests", None), ("local", "own"), ("local", "own")
        ]  # fmt: skip

    def test_from_the_model_until_the_log_ends(self, log: Path) -> None:
        scenario = scenario_for_log(log, LogOptions(guests="das2"))
        assert scenario.horizon_ms == 86_400_001
        assert sum(job.site is not None for job in open_streams(scenario, [])) == len(JOBS)

    def test_from_the_model_until_the_horizon(self, log: Path) -> None:
        scenario = scenario_for_log(log, LogOptions(guests="das2"), {"horizon_s": 600})
        assert scenario.horizon_ms == 600_000

    @pytest.mark.parametrize("slots", [8, 9, 16, 31, 64, 100, 4096])
    def test_from_the_model_ask_for_a_fifth_of_the_cluster(self, log: Path, slots: int) -> None:
        scenario = scenario_for_log(log, LogOptions(procs=str(slots), guests="das2"))
        (guests,) = (Das2Parameters.named(s.parameters) for s in scenario.streams if s.name == "guests")  # type: ignore[union-attr]
        moments = guests.moments()
        assert moments.rate_per_s * moments.mean_work_vm_s == pytest.approx(slots / 5)
        assert guests.sizes.largest <= slots

    def test_from_the_model_need_a_cluster_of_some_size(self, log: Path) -> None:
        with pytest.raises(InvalidField, match="fewer than 8"):
            scenario_for_log(log, LogOptions(procs="7", guests="das2"))

    def test_survive_in_a_manifest(self, log: Path) -> None:
        scenario = scenario_for_log(log, LogOptions(guests="das2"))
        assert scenario_from_dict(scenario.to_dict()) == scenario
