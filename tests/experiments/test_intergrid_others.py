"""The two smaller studies: what their files say, against what their publications say."""

from math import exp

import pytest

from leasehold.experiments.intergrid import world
from leasehold.experiments.intergrid.plan import STUDIES, FederationRun, configuration_named, plan
from leasehold.experiments.intergrid.world import as_keys, in_seconds, scenario
from leasehold.routing.policies.pap_rnd import PAPER_SPREAD, cluster_load
from leasehold.routing.queueing import allocate
from leasehold.routing.view import SiteFacts
from leasehold.simulation.scenario.sites import told_moments
from leasehold.simulation.workload.das2 import Das2Moments, Das2Parameters


def moments(configuration: FederationRun, stream: str) -> Das2Moments:
    keys = as_keys(configuration, 1)
    named = next(entry for entry in keys["stream"] if entry["name"] == stream)
    names = ("l", "m", "h", "q", "p_one", "p_pow2", "a", "b", "alpha", "beta")
    return Das2Parameters.named({name: named[name] for name in names}).moments()


class TestSlidesOf2011:
    """Three clusters of 32, 64 and 128 nodes."""

    def at(self, reading: str, point: str, policy: str = "pap-rnd") -> FederationRun:
        return plan("001").configurations[f"001-{reading}-{point}-{policy}-48h"]

    def test_clusters_types_and_policies(self) -> None:
        published = plan("001").stated["published"]
        assert [cluster["slots"] for cluster in published["cluster"]] == [32, 64, 128]
        assert published["types"] == {
            "suspendable": 0.4,
            "cancelable": 0.1,
            "non-preemptable": 0.4,
            "migratable": 0.1,
        }

    def test_every_range_is_the_printed_one(self) -> None:
        values = {entry["letter"]: entry["values"] for entry in plan("001").stated["sweep"]}
        ranges = {letter: (min(each), max(each)) for letter, each in values.items()}
        assert ranges == {"a": (1.5, 3.0), "b": (1.5, 2.6), "c": (0.7, 3.0)}

    def test_the_axes_show_what_the_parameters_mean(self) -> None:
        read = plan("001")
        for point in read.sweeps["a"].points:
            means = moments(self.at("minutes", point.name), "guests")
            assert point.shown == pytest.approx(means.mean_vms, abs=0.005)
        for a, point in zip(read.stated["sweep"][1]["values"], read.sweeps["b"].points, strict=True):
            assert point.shown == pytest.approx(exp(a + 1.5**2 / 2), abs=0.05)
        for point in read.sweeps["c"].points:
            means = moments(self.at("minutes", point.name), "guests")
            assert point.shown == pytest.approx(60 * means.rate_per_s, abs=0.001)

    def test_the_load_of_local_requests_does_not_depend_on_the_unit(self) -> None:
        """Rate x mean VMs x mean duration over nodes: .420, .210, .105."""
        for reading in ("minutes", "seconds"):
            for site, slots, load in (("C32", 32, 0.420), ("C64", 64, 0.210), ("C128", 128, 0.105)):
                local = moments(self.at(reading, "base"), site)
                assert local.rate_per_s * local.mean_work_vm_s / slots == pytest.approx(load, abs=0.002)

    def test_the_stated_local_rate_is_that_of_the_streams(self) -> None:
        rates = [moments(self.at("minutes", "base"), site).rate_per_s for site in ("C32", "C64", "C128")]
        assert sum(rates) == pytest.approx(plan("001").stated["published"]["local_per_s"], abs=0.0001)

    @pytest.mark.parametrize(("point", "shares"), [("base", (0, 0, 1)), ("c0.714", (0, 0.07, 0.93))])
    def test_shares_that_pap_gives(self, point: str, shares: tuple[float, ...]) -> None:
        made = scenario(self.at("minutes", point), 1)
        told = told_moments(made)
        assert told.external is not None
        clusters = [
            cluster_load(SiteFacts(one.name, int(one.slots), 1, 1), told.local[one.name], told.external, PAPER_SPREAD)
            for one in made.clusters
        ]
        found = allocate(clusters, told.external.rate_per_s).proportions
        assert found == pytest.approx(shares, abs=0.02)

    def test_minutes_in_seconds(self) -> None:
        assert in_seconds({"a": 0.0, "alpha": 2.0, "b": 1.0}, 60) == pytest.approx(
            {"a": 4.0943, "alpha": 120.0, "b": 1.0}, abs=1e-4
        )


class TestVictims:
    """MOV, MLIP and MOML where round robin routes."""

    def keys(self, point: str, policy: str = "moml", reading: str = "r2") -> dict[str, object]:
        return as_keys(configuration_named(f"000-{reading}-{point}-{policy}-6h"), 1)

    def test_the_policy_chooses_among_all_types(self) -> None:
        for policy in ("mov", "mlip", "moml"):
            keys = self.keys("base", policy)
            assert keys["defaults"] == {"local_queue": "refuse", "victims": policy, "value_order": False}
            assert keys["gateway"] == {"policy": "rr", "moments": "told", "try_elsewhere": False}

    def test_the_share_of_best_effort_requests_is_swept(self) -> None:
        for point in plan("000").sweeps["b"].points:
            assert sum(point.types.values()) == pytest.approx(1)
            best_effort = point.types["cancelable"] + point.types["suspendable"]
            assert 100 * best_effort == pytest.approx(point.shown)

    def test_the_share_of_local_requests_is_swept_at_the_same_total_rate(self) -> None:
        for point in plan("000").sweeps["c"].points:
            configuration = configuration_named(f"000-r2-{point.name}-mov-48h")
            local = sum(moments(configuration, site).rate_per_s for site in ("C64", "C128", "C256"))
            guests = moments(configuration, "guests").rate_per_s
            assert local + guests == pytest.approx(0.27, abs=0.0005)
            assert 100 * local / (local + guests) == pytest.approx(point.shown, abs=0.1)

    def test_it_has_the_streams_and_readings_of_the_later_paper(self) -> None:
        ours, theirs = plan("000"), plan("003")
        assert ours.stated["stream"] == theirs.stated["stream"]
        assert ours.readings == theirs.readings
        assert ours.stated["published"]["cluster"] == theirs.stated["published"]["cluster"]

    def test_every_part_of_both_figures_is_claimed(self) -> None:
        assert {claim.figure for claim in STUDIES["000"].claims} == {"2a", "2b", "2c", "3a", "3b", "3c"}

    def test_a_run_preempts_and_another_policy_others(self) -> None:
        found = {policy: world.run(configuration_named(f"000-r2-base-{policy}-2h"), 1) for policy in ("mov", "mlip")}
        assert found["mov"]["preemptions"] > found["mlip"]["preemptions"] > 0
