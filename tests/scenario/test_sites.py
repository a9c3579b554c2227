"""What the gateway is given: settings of its sites, a routing policy, and what that is told."""

import math
from collections.abc import Callable

import pytest

from leasehold.leasing.backfill import repair_conflicts, replan_all
from leasehold.model.errors import InvalidField
from leasehold.routing.policies.pap_rtdp import PapRtdp
from leasehold.simulation.scenario.parse import load_scenario, packaged_path
from leasehold.simulation.scenario.sites import routing, site_settings, told_moments
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.scenario.spec import Scenario

Load = Callable[[str], Scenario]

TERMS = [
    ("", "queues_locals", True),
    ('local_queue = "refuse"', "queues_locals", False),
    ('local_policy = "fcfs"', "local_depth", 0),
    ('local_policy = "easy"', "local_depth", 1),
    ('guest_policy = "hybrid:5"', "guest_depth", 5),
    ("", "guest_depth", None),
    ("", "repair", repair_conflicts),
    ('repair = "replan"', "repair", replan_all),
    ("", "non_preemptable_share_vms", None),
    ("non_preemptable_share = 0.5", "non_preemptable_share_vms", 4),
    ("non_preemptable_share = 0.49", "non_preemptable_share_vms", 3),
    ("non_preemptable_share = 0", "non_preemptable_share_vms", 0),
    ("non_preemptable_max_s = 1.5", "non_preemptable_max_ms", 1500),
    ("speed_mips = 70", "speed_mips", 70),
]


@pytest.mark.parametrize(("key", "setting", "value"), TERMS)
def test_terms_become_settings(loaded: Load, small_toml: str, key: str, setting: str, value: object) -> None:
    (site,) = site_settings(loaded(small_toml.replace("slots = 8", f"slots = 8\n{key}")))
    assert getattr(site, setting) == value


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ("", "by-value:moml"),
        ('victims = "mov"', "by-value:mov"),
        ('victims = "mov"\nvalue_order = false', "mov"),
    ],
)
def test_the_order_of_the_types_comes_before_the_policy(loaded: Load, small_toml: str, keys: str, name: str) -> None:
    (site,) = site_settings(loaded(small_toml.replace("slots = 8", f"slots = 8\n{keys}")))
    assert site.victims.name == name


def test_a_size_that_is_still_a_rule_is_refused(loaded: Load, small_toml: str) -> None:
    with pytest.raises(InvalidField, match="slots of cluster a"):
        site_settings(loaded(small_toml.replace("slots = 8", 'slots = "peak"')))


class TestRouting:
    def test_has_the_policy_and_the_switches(self, loaded: Load, small_toml: str) -> None:
        keys = 'policy = "pap-rtdp"\ntry_elsewhere = true\ntick_s = 3'
        made = routing(loaded(small_toml.replace('policy = "rr"', keys)))
        assert isinstance(made.policy, PapRtdp)
        assert (made.try_elsewhere, made.tick_ms) == (True, 3000)

    def test_draws_from_a_stream_of_its_own(self, loaded: Load, small_toml: str) -> None:
        draws = [routing(loaded(f"seed = {seed}\n{small_toml}")).policy.random.random() for seed in (1, 1, 2)]
        assert draws[0] == draws[1] != draws[2]


class TestTold:
    def test_nothing_unless_the_scenario_says_so(self, loaded: Load, small_toml: str) -> None:
        told = told_moments(loaded(small_toml))
        assert (told.external, told.local) == (None, {})

    def test_the_model_is_told_and_a_log_is_not(self, loaded: Load, small_toml: str) -> None:
        told = told_moments(loaded(small_toml.replace("[gateway]", '[gateway]\nmoments = "told"')))
        assert told.external is not None
        assert told.external.was_told
        assert told.local == {}

    def test_a_stream_with_a_part_from_a_log_is_not_told(self, loaded: Load, small_toml: str) -> None:
        text = small_toml.replace("[gateway]", '[gateway]\nmoments = "told"')
        told = told_moments(loaded(text.replace('site = "a"', 'site = "a"\nexternal = { group = [1] }')))
        assert told.external is None

    def test_a_cluster_without_jobs_of_its_own_is_told_so(self, loaded: Load, small_toml: str) -> None:
        text = small_toml.replace("[gateway]", '[gateway]\nmoments = "told"')
        told = told_moments(loaded(text.replace("[[stream]]", '[[cluster]]\nname = "b"\nslots = 1\n[[stream]]', 1)))
        assert told.local["b"].rate_per_s == 0

    def test_the_demonstration_is_told_the_numbers_of_the_reading(self) -> None:
        told = told_moments(load_scenario(packaged_path("demo")))
        assert told.external is not None
        assert math.isclose(told.external.rate_per_s, 0.15, rel_tol=1e-4)
        assert math.isclose(sum(local.rate_per_s for local in told.local.values()), 0.12, rel_tol=1e-4)

    def test_what_is_told_is_what_comes(self) -> None:
        """Two streams at one cluster, one with twice the load; against the mean over 40,000 jobs."""
        scenario = load_scenario(
            packaged_path("demo"),
            {"stream.C128.site": "C64", "stream.C64.load": 2, "stream.*.b": 0.5, "horizon_s": 400_000},
        )
        told = told_moments(scenario).local["C64"]
        jobs = [job for job in open_streams(scenario, []) if job.site == "C64"]
        work = [job.vms * job.actual_ms / 1000 for job in jobs]
        mean = sum(work) / len(work)
        square = sum(value * value for value in work) / len(work)
        assert told.cv_vm_s is not None
        assert math.isclose(told.rate_per_s, len(jobs) / 400_000, rel_tol=0.05)
        assert math.isclose(told.mean_vms, sum(job.vms for job in jobs) / len(jobs), rel_tol=0.05)
        assert math.isclose(told.mean_vm_s, mean, rel_tol=0.05)
        assert math.isclose(told.cv_vm_s, math.sqrt(square / mean**2 - 1), rel_tol=0.05)
