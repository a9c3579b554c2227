"""Table 2 of JPDC 2012 and its readings: the numbers as printed, and what follows from them."""

import pytest
from tests.workload.table2 import (
    CLUSTERS,
    EXTERNAL_GAPS_WHILE_LOCAL_VARIES,
    EXTERNAL_MIDPOINT,
    EXTERNAL_SWEEPS,
    LOCAL_TABLE2,
    READINGS,
    external_stream,
    local_streams,
)

from leasehold.simulation.workload.das2 import LognormalDurations, TwoStageSizes, WeibullGaps


@pytest.mark.parametrize(
    ("cluster", "size", "duration", "gap"),
    [
        ("C64", (0.8, 2.5, 6.0, 0.9), 5.0, 2.0),
        ("C128", (0.8, 3.5, 7.0, 0.9), 5.35, 1.6),
        ("C256", (0.8, 4.5, 8.0, 0.9), 5.5, 1.2),
    ],
)
def test_local_parameters_are_those_printed(
    cluster: str, size: tuple[float, float, float, float], duration: float, gap: float
) -> None:
    stream = LOCAL_TABLE2[cluster]

    assert stream.sizes == TwoStageSizes(*size, one=0.3, power_of_two=0.6)
    assert stream.durations == LognormalDurations(duration, 1.7)
    assert stream.gaps == WeibullGaps(gap, 0.35)


@pytest.mark.parametrize(("cluster", "rate"), [("C64", 0.0994), ("C128", 0.1243), ("C256", 0.1657)])
def test_local_rates(cluster: str, rate: float) -> None:
    assert LOCAL_TABLE2[cluster].gaps.rate_per_s() == pytest.approx(rate, abs=5e-5)


@pytest.mark.parametrize(("cluster", "mean_s"), [("C64", 630), ("C128", 893), ("C256", 1038)])
def test_local_mean_durations_of_eq_30(cluster: str, mean_s: float) -> None:
    assert LOCAL_TABLE2[cluster].durations.paper_mean_s() == pytest.approx(mean_s, abs=0.6)


@pytest.mark.parametrize("cluster", list(CLUSTERS))
def test_no_request_is_wider_than_the_cluster_it_is_for(cluster: str) -> None:
    assert LOCAL_TABLE2[cluster].sizes.largest == CLUSTERS[cluster].slots
    assert external_stream().sizes.largest <= CLUSTERS[cluster].slots


@pytest.mark.parametrize(
    ("medium", "eq_28", "true"),
    [(2.5, 3.33, 4.50), (2.75, 5.43, 4.99), (3.0, 5.54, 5.44), (3.25, 5.66, 5.88), (3.5, 5.79, 6.33)],
)
def test_external_mean_sizes(medium: float, eq_28: float, true: float) -> None:
    sizes = external_stream(medium).sizes

    assert sizes.paper_mean() == pytest.approx(eq_28, abs=0.005)
    assert sizes.mean() == pytest.approx(true, abs=0.005)


def test_420_seconds_is_a_of_4_595() -> None:
    durations = external_stream(mean_s=420.0).durations

    assert durations.log_mean == pytest.approx(4.595, abs=5e-4)
    assert durations.paper_mean_s() == pytest.approx(420.0)


@pytest.mark.parametrize(("log_mean", "mean_s"), [(3.0, 85), (5.4, 939)])
def test_external_durations_span_the_swept_range(log_mean: float, mean_s: float) -> None:
    assert LognormalDurations(log_mean, 1.7).paper_mean_s() == pytest.approx(mean_s, abs=0.5)


@pytest.mark.parametrize(("scale", "rate"), [(3.8, 0.1316), (7.0, 0.0714)])
def test_external_rates_span_the_swept_range(scale: float, rate: float) -> None:
    assert WeibullGaps(scale, 0.5).rate_per_s() == pytest.approx(rate, abs=5e-5)


def test_external_rate_while_the_local_rate_varies() -> None:
    assert EXTERNAL_GAPS_WHILE_LOCAL_VARIES.rate_per_s() == pytest.approx(0.148, abs=5e-4)


def test_the_midpoint_is_the_middle_of_each_range() -> None:
    middle = {name: (sweep.least + sweep.most) / 2.0 for name, sweep in EXTERNAL_SWEEPS.items()}

    assert EXTERNAL_MIDPOINT.sizes.medium == middle["m"]
    assert EXTERNAL_MIDPOINT.durations.log_mean == pytest.approx(middle["a"])
    assert EXTERNAL_MIDPOINT.gaps.scale_s == pytest.approx(middle["alpha"])


def test_r2_has_its_local_rate_in_the_whole_grid() -> None:
    scales = [stream.gaps.scale_s for stream in READINGS["R2"].local.values()]
    rates = [stream.gaps.rate_per_s() for stream in READINGS["R2"].local.values()]

    assert scales == pytest.approx([6.49, 5.19, 3.89], abs=0.005)
    assert rates == pytest.approx([0.0306, 0.0383, 0.0511], abs=5e-5)
    assert sum(rates) == pytest.approx(0.12)


@pytest.mark.parametrize(
    ("reading", "loads"),
    [("R2", (0.363, 0.366, 0.714)), ("R1", (0.327, 0.330, 0.644)), ("R0", (0.39, 0.40, 0.77))],
)
def test_local_load_of_each_reading(reading: str, loads: tuple[float, float, float]) -> None:
    found = []
    for name, cluster in CLUSTERS.items():
        moments = READINGS[reading].local[name].moments()
        capacity = cluster.slots * cluster.speed_mips / READINGS[reading].reference_mips
        found.append(moments.rate_per_s * moments.mean_work_vm_s / capacity)

    assert found == pytest.approx(loads, rel=0.02)


def test_r0_is_the_table_to_the_letter() -> None:
    assert READINGS["R0"].local == LOCAL_TABLE2
    assert READINGS["R0"].reference_mips == 200


def test_r1_has_six_times_fewer_local_requests() -> None:
    for name, stream in READINGS["R1"].local.items():
        assert stream.gaps.rate_per_s() == pytest.approx(LOCAL_TABLE2[name].gaps.rate_per_s() / 6.0)


def test_another_total_rate_keeps_the_proportions() -> None:
    rates = [stream.gaps.rate_per_s() for stream in local_streams(0.04).values()]
    printed = [stream.gaps.rate_per_s() for stream in LOCAL_TABLE2.values()]

    assert sum(rates) == pytest.approx(0.04)
    assert [rate / 0.04 for rate in rates] == pytest.approx([rate / sum(printed) for rate in printed])
