"""What a scenario file says, what it leaves as usual, and that nothing of it is lost."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.workload.table2 import CLUSTERS, READINGS

from leasehold.configuration.terms import ClusterTerms
from leasehold.leasing.overhead import OverheadModel, Storage
from leasehold.model.request import LeaseType
from leasehold.simulation.scenario.parse import (
    load_scenario,
    packaged_names,
    packaged_path,
    scenario_from_dict,
    to_toml,
)
from leasehold.simulation.scenario.spec import LogStream, ModelStream, Scenario
from leasehold.simulation.workload.das2 import Das2Parameters

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = [*map(packaged_path, packaged_names()), *sorted((REPOSITORY / "examples").glob("*.toml"))]

Load = Callable[[str], Scenario]

FULL = """\
name = "full"
title = "Everything that can be said"
seed = 7
horizon_s = 86_400.5
drain = false
reference_mips = 1000

[gateway]
policy = "pap-rnd"
moments = "told"
try_elsewhere = true
tick_s = 0.25

[defaults]
victims = "mov"
guest_policy = "easy"
overhead = { suspend_ms_per_gib = 16_000, storage = "shared" }

[[cluster]]
name = "a"
slots = 64
speed_mips = 2000
local_policy = "hybrid:3"
guest_policy = "fcfs"
victims = "mlip"
value_order = false
local_queue = "refuse"
non_preemptable_share = 0.25
non_preemptable_max_s = 600
repair = "replan"

[cluster.overhead]
network_mbps = 1000

[[cluster]]
name = "b"
slots = "peak"

[[stream]]
name = "log"
log = "logs/b.swf.gz"
site = "b"
external = { group = [3, 4], user = ["7"] }
types = { suspendable = 0.75, migratable = 0.25 }
slack = [0.5, 1]
consumer_by = "group"
size = "allocated"
overrun = "kill"
memory_mib = 512
load = 1.5
begin_s = 60
end_s = 3_600
shift_s = 10
"""


class TestReading:
    def test_every_key_arrives(self, loaded: Load, tmp_path: Path) -> None:
        scenario = loaded(FULL)
        assert (scenario.name, scenario.title, scenario.seed) == ("full", "Everything that can be said", 7)
        assert (scenario.horizon_ms, scenario.drain, scenario.reference_mips) == (86_400_500, False, 1000)
        gateway = scenario.gateway
        assert (gateway.policy, gateway.moments, gateway.try_elsewhere) == ("pap-rnd", "told", True)
        assert gateway.tick_ms == 250
        stream = scenario.streams[0]
        assert isinstance(stream, LogStream)
        assert stream.path == str(tmp_path / "logs" / "b.swf.gz")
        assert (stream.format, stream.site) == ("swf", "b")
        assert stream.external == {"group": ("3", "4"), "user": ("7",)}
        assert stream.mix.shares[LeaseType.SUSPENDABLE] == 0.75
        assert stream.mix.slack == (0.5, 1)
        reading = stream.reading
        assert (reading.size, reading.overrun, reading.memory_mib) == ("allocated", "kill", 512)
        assert (stream.consumer_by, stream.load) == ("group", 1.5)
        window = stream.window
        assert (window.begin_ms, window.end_ms, window.shift_ms) == (60_000, 3_600_000, 10_000)

    def test_a_cluster_says_its_terms(self, loaded: Load) -> None:
        cluster = loaded(FULL).clusters[0]
        overhead = OverheadModel(suspend_ms_per_gib=16_000, storage=Storage.SHARED, network_mbps=1000)
        assert cluster.terms == ClusterTerms(
            speed_mips=2000,
            local_policy="hybrid:3",
            guest_policy="fcfs",
            victims="mlip",
            value_order=False,
            local_queue="refuse",
            non_preemptable_share=0.25,
            non_preemptable_max_ms=600_000,
            repair="replan",
            overhead=overhead,
        )

    def test_what_a_cluster_leaves_open_the_defaults_say(self, loaded: Load) -> None:
        terms = loaded(FULL).clusters[1].terms
        assert (terms.victims, terms.guest_policy) == ("mov", "easy")
        assert terms.overhead == OverheadModel(suspend_ms_per_gib=16_000, storage=Storage.SHARED)

    def test_what_nobody_says_is_as_usual(self, loaded: Load, small_toml: str) -> None:
        scenario = loaded(small_toml)
        assert scenario.clusters[0].terms == ClusterTerms()
        assert (scenario.seed, scenario.drain, scenario.gateway.moments) == (1, True, "learnt")

    def test_a_cluster_without_a_speed_has_the_reference_speed(self, loaded: Load, small_toml: str) -> None:
        scenario = loaded("reference_mips = 600\n" + small_toml)
        assert scenario.clusters[0].terms.speed_mips == 600

    @pytest.mark.parametrize(
        ("name", "expected"), [("a.swf", "swf"), ("a.SWF.gz", "swf"), ("a.gwf", "gwf"), ("a.gwf.gz", "gwf")]
    )
    def test_the_format_of_a_log_follows_from_its_name(
        self, loaded: Load, small_toml: str, name: str, expected: str
    ) -> None:
        stream = loaded(small_toml.replace("own.swf", name)).streams[0]
        assert isinstance(stream, LogStream)
        assert stream.format == expected

    def test_a_format_may_be_said(self, loaded: Load, small_toml: str) -> None:
        stream = loaded(small_toml.replace('"own.swf"', '"own.txt"\nformat = "gwf"')).streams[0]
        assert isinstance(stream, LogStream)
        assert stream.format == "gwf"


class TestRoundTrip:
    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
    def test_of_every_file_that_we_ship(self, path: Path) -> None:
        scenario = load_scenario(path)
        assert scenario_from_dict(scenario.to_dict()) == scenario

    def test_as_a_dictionary(self, loaded: Load) -> None:
        scenario = loaded(FULL)
        assert scenario_from_dict(scenario.to_dict()) == scenario

    def test_as_a_file(self, loaded: Load) -> None:
        scenario = loaded(FULL)
        assert loaded(to_toml(scenario)) == scenario

    def test_odd_names_survive(self, loaded: Load, small_toml: str) -> None:
        scenario = loaded(small_toml.replace('"small"', r'"a \"quoted\" \\ name = [x] # y é"'))
        assert scenario.name == 'a "quoted" \\ name = [x] # y é'
        assert loaded(to_toml(scenario)) == scenario


class TestDemo:
    """The demonstration is reading R2 of JPDC 2012, Table 2."""

    @pytest.fixture
    def demo(self) -> Scenario:
        return load_scenario(packaged_path("demo"))

    def test_has_the_published_clusters(self, demo: Scenario) -> None:
        found = {cluster.name: (cluster.slots, cluster.terms.speed_mips) for cluster in demo.clusters}
        assert found == {name: (cluster.slots, cluster.speed_mips) for name, cluster in CLUSTERS.items()}
        assert demo.reference_mips == READINGS["R2"].reference_mips

    def test_has_the_streams_of_the_reading(self, demo: Scenario) -> None:
        reading = READINGS["R2"]
        for stream in demo.streams:
            assert isinstance(stream, ModelStream)
            wanted = reading.external if stream.site is None else reading.local[stream.site]
            parameters = Das2Parameters.named(stream.parameters)
            assert parameters.sizes == wanted.sizes
            assert math.isclose(parameters.durations.log_mean, wanted.durations.log_mean, rel_tol=1e-6)
            assert math.isclose(parameters.gaps.scale_s, wanted.gaps.scale_s, rel_tol=1e-5)
            assert parameters.gaps.shape == wanted.gaps.shape

    def test_lasts_two_days(self, demo: Scenario) -> None:
        assert demo.horizon_ms == 2 * 86_400_000
