"""The configuration file against Table 2 and section 5.2 of JPDC 2012, and what follows from it."""

from dataclasses import replace
from itertools import pairwise
from math import exp

import pytest

from leasehold.experiments.intergrid.plan import FederationRun, PaperReading, plan
from leasehold.experiments.intergrid.world import as_keys, scenario
from leasehold.routing.policies.pap_rnd import PAPER_SPREAD, cluster_load
from leasehold.routing.queueing import ClusterLoad, allocate
from leasehold.routing.view import SiteFacts
from leasehold.simulation.scenario.sites import told_moments
from leasehold.simulation.workload.das2 import Das2Moments, Das2Parameters

POLICIES = 5


def at(reading: str, point: str, policy: str = "pap-rtdp") -> FederationRun:
    read = plan("003")
    return read.configurations[read.name_of(named(reading), point, policy)]


def named(reading: str) -> PaperReading:
    return next(one for one in plan("003").readings if one.name == reading)


def moments(configuration: FederationRun, stream: str) -> Das2Moments:
    keys = as_keys(configuration, 1)
    named_so = next(entry for entry in keys["stream"] if entry["name"] == stream)
    names = ("l", "m", "h", "q", "p_one", "p_pow2", "a", "b", "alpha", "beta")
    return Das2Parameters.named({name: named_so[name] for name in names}).moments()


def loads(configuration: FederationRun) -> list[ClusterLoad]:
    """The clusters as PAP sees them."""
    made = scenario(configuration, 1)
    told = told_moments(made)
    assert told.external is not None
    return [
        cluster_load(
            SiteFacts(cluster.name, int(cluster.slots), cluster.terms.speed_mips, made.reference_mips),
            told.local[cluster.name],
            told.external,
            PAPER_SPREAD,
        )
        for cluster in made.clusters
    ]


def pap(configuration: FederationRun) -> tuple[float, ...]:
    clusters = loads(configuration)
    return allocate(clusters, moments(configuration, "guests").rate_per_s).proportions


def test_table_2_is_as_printed() -> None:
    """l, m, h, q, a, b, alpha, beta, P_one, P_pow2 of every row with a single value."""
    streams = plan("003").stated["stream"]
    rows = {
        "C64": (0.8, 2.5, 6, 0.9, 5.0, 1.7, 2.0, 0.35, 0.3, 0.6),
        "C128": (0.8, 3.5, 7, 0.9, 5.35, 1.7, 1.6, 0.35, 0.3, 0.6),
        "C256": (0.8, 4.5, 8, 0.9, 5.5, 1.7, 1.2, 0.35, 0.3, 0.6),
    }
    for name, row in rows.items():
        assert tuple(streams[name].values()) == row
    assert [streams["guests"][key] for key in ("l", "h", "q", "b", "beta", "p_one", "p_pow2")] == [
        0.8, 6, 0.9, 1.7, 0.5, 0.2, 0.5,
    ]  # fmt: skip


def test_the_swept_ranges_are_those_of_table_2() -> None:
    values = {entry["letter"]: entry["values"] for entry in plan("003").stated["sweep"]}
    assert (min(values["a"]), max(values["a"])) == (2.5, 3.5)
    assert (min(values["b"]), max(values["b"])) == (3.0, 5.4)
    assert max(values["c"]) == pytest.approx(7.0, abs=0.15)
    assert plan("003").stated["sweep"][3]["guests"] == {"alpha": 7.0, "beta": 1.1}


def test_the_axes_show_what_the_parameters_mean() -> None:
    read = plan("003")
    for letter, shown in (("a", "mean_vms"), ("c", "rate_per_s")):
        for point in read.sweeps[letter].points:
            means = moments(at("R2", point.name), "guests")
            assert point.shown == pytest.approx(getattr(means, shown), abs=0.005)
    for a, point in zip(read.stated["sweep"][1]["values"], read.sweeps["b"].points, strict=True):
        assert point.shown == pytest.approx(exp(a + 1.7**2 / 2), abs=0.5)
    for point in read.sweeps["d"].points:
        total = sum(moments(at("R2", point.name), site).rate_per_s for site in ("C64", "C128", "C256"))
        assert point.shown == pytest.approx(total, abs=0.0005)


def test_every_sweep_goes_up() -> None:
    for sweep in plan("003").sweeps.values():
        assert all(one.shown < other.shown for one, other in pairwise(sweep.points))


def test_three_sweeps_meet_in_one_point_which_is_run_once() -> None:
    read = plan("003")
    meeting = [letter for letter, sweep in read.sweeps.items() if any(p.name == "base" for p in sweep.points)]
    assert meeting == ["a", "b", "c"]
    different = 5 + 4 + 4 + 5
    assert len(read.configurations) == 2 * different * POLICIES + 2 * POLICIES
    base = at("R2", "base")
    means = moments(base, "guests")
    assert means.mean_vms == pytest.approx(5, abs=0.02)
    assert means.rate_per_s == pytest.approx(0.15, abs=0.0001)


def test_in_the_fourth_the_external_rate_is_nearly_the_same() -> None:
    """Weibull (7.0, 1.1): 0.148 a second."""
    assert moments(at("R2", "d0.12"), "guests").rate_per_s == pytest.approx(0.148, abs=0.0005)


@pytest.mark.parametrize(
    ("reading", "rates"),
    [
        ("R0", (0.0994, 0.1243, 0.1657)),
        ("R2", (0.0306, 0.0383, 0.0511)),
        ("R1", (0.0166, 0.0207, 0.0276)),
        ("plain", (0.0994, 0.1243, 0.1657)),
    ],
)
def test_local_rates_of_the_readings(reading: str, rates: tuple[float, ...]) -> None:
    found = [moments(at(reading, "base"), site).rate_per_s for site in ("C64", "C128", "C256")]
    assert found == pytest.approx(rates, abs=0.00006)


@pytest.mark.parametrize(
    ("reading", "local_loads"),
    [("R2", (0.363, 0.366, 0.714)), ("R0", (0.39, 0.40, 0.77)), ("R1", (0.327, 0.330, 0.644))],
)
def test_local_loads_of_the_readings(reading: str, local_loads: tuple[float, ...]) -> None:
    assert [one.local_load for one in loads(at(reading, "base"))] == pytest.approx(local_loads, abs=0.006)


def test_speeds_left_out_the_clusters_own_users_ask_for_several_times_what_there_is() -> None:
    """Rate, mean number of VMs and mean duration over processors: 3.9, 5.9 and 8.1 times."""
    found = [one.local_load for one in loads(at("plain", "base"))]
    assert found == pytest.approx([3.9, 5.9, 8.1], abs=0.1)


@pytest.mark.parametrize(
    ("reading", "shares"),
    [("R2", (0.195, 0.805, 0.0)), ("R0", (0.0, 1.0, 0.0)), ("R1", (0.171, 0.607, 0.222))],
)
def test_shares_that_pap_gives(reading: str, shares: tuple[float, ...]) -> None:
    assert pap(at(reading, "base")) == pytest.approx(shares, abs=0.005)


def test_all_policies_of_a_replication_meet_the_same_requests() -> None:
    made = [as_keys(at("R2", "base", policy), 7) for policy in plan("003").policies]
    for one in made:
        assert one["stream"] == made[0]["stream"]
        assert (one["seed"], one["horizon_s"]) == (7, 172_800)


def test_the_quick_plan_is_shorter_and_nothing_else() -> None:
    quick, whole = plan("003", 6), plan("003")
    assert not quick.configurations.keys() & whole.configurations.keys()
    for one, other in zip(quick.configurations.values(), whole.configurations.values(), strict=True):
        assert one.hours == 6
        assert replace(one, name=other.name, hours=other.hours) == other


def test_words_about_a_reading_do_not_decide_its_results() -> None:
    assert "why" not in at("R2", "base").as_data()["reading"]
