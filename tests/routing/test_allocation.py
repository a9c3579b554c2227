"""PAP splits the external rate so that no other split has a smaller mean response time."""

import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from tests.routing.federations import random_federation, table_2

from leasehold.model.errors import InvalidField
from leasehold.routing.queueing import (
    Allocation,
    ClusterLoad,
    Infeasible,
    Saturated,
    ServiceMoments,
    allocate,
    mean_response_s,
    normalised,
    spare_capacity_proportions,
)

Instance = tuple[list[ClusterLoad], float]
R2_LOCAL_RATES = (0.0306, 0.0383, 0.0511)
TABLE_2_LOCAL_RATES = (0.0994, 0.1243, 0.1657)


@pytest.fixture(scope="module")
def instances() -> list[Instance]:
    random = Random(2012)
    return [random_federation(random) for _ in range(300)]


@pytest.fixture(scope="module")
def solved(instances: list[Instance]) -> list[tuple[list[ClusterLoad], float, Allocation]]:
    return [(clusters, rate, allocate(clusters, rate)) for clusters, rate in instances]


def cost(cluster: ClusterLoad, x: complex) -> complex:
    """Write eq 4 times x anew, for complex x too."""
    spare = 1 - cluster.local_rate_per_s * cluster.local.mean_s
    work = cluster.local_rate_per_s * cluster.local.square_s2 + x * cluster.external.square_s2
    return x * (cluster.external.mean_s + work / (2 * (spare - cluster.external.mean_s * x))) / spare


def marginal_cost(cluster: ClusterLoad, x: float) -> float:
    """Differentiate by a complex step, exact to the last digits and without any formula of the paper."""
    return cost(cluster, complex(x, 1e-30)).imag / 1e-30


def lagrange_rates(clusters: Sequence[ClusterLoad], rate: float) -> list[float]:
    """Solve the convex problem by two nested root searches on the numerical derivative."""

    def rates(z: float) -> list[float]:
        return [rate_with(cluster, z) for cluster in clusters]

    low = min(marginal_cost(cluster, 0.0) for cluster in clusters)
    high = 2 * low
    while sum(rates(high)) < rate:
        high *= 2
    z = brentq(lambda z: sum(rates(z)) - rate, low, high, xtol=1e-300, rtol=1e-15)
    return rates(z)


def rate_with(cluster: ClusterLoad, z: float) -> float:
    if marginal_cost(cluster, 0.0) >= z:
        return 0.0
    most = (1 - cluster.local_load) / cluster.external.mean_s * (1 - 1e-12)
    return float(brentq(lambda x: marginal_cost(cluster, x) - z, 0.0, most, xtol=1e-300, rtol=1e-15))


def test_300_random_federations_agree_with_an_independent_convex_solver(
    solved: list[tuple[list[ClusterLoad], float, Allocation]],
) -> None:
    for clusters, rate, allocation in solved:
        expected = lagrange_rates(clusters, rate)
        assert allocation.rates_per_s == pytest.approx(expected, rel=1e-8, abs=1e-8 * rate)


def test_300_random_federations_are_never_beaten_by_slsqp(
    solved: list[tuple[list[ClusterLoad], float, Allocation]],
) -> None:
    converged = 0
    for clusters, rate, allocation in solved:
        ours = mean_response_s(clusters, allocation.rates_per_s)
        theirs = slsqp_mean_response_s(clusters, rate)
        assert ours <= theirs * (1 + 1e-8)
        converged += theirs == pytest.approx(ours, rel=1e-8)
    assert converged > 270, "SLSQP mostly reaches the same optimum, so it would have found a better one"


def slsqp_mean_response_s(clusters: Sequence[ClusterLoad], rate: float) -> float:
    """Minimise eq 3 under eq 5, starting from the split in proportion to the spare rates."""
    most = np.array([c.spare_rate_per_s for c in clusters])

    def mean_response(rates: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
        return float(sum(cost(c, x).real for c, x in zip(clusters, rates, strict=True)) / rate)

    def slope(rates: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> list[float]:
        return [marginal_cost(c, x) / rate for c, x in zip(clusters, rates, strict=True)]

    found = minimize(
        mean_response,
        most * rate / most.sum(),
        jac=slope,
        method="SLSQP",
        bounds=[(0, m * (1 - 1e-9)) for m in most],
        constraints={"type": "eq", "fun": lambda x: x.sum() - rate, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    exact = found.x * rate / found.x.sum()
    return mean_response(exact)


def test_the_kuhn_tucker_conditions_hold(
    solved: list[tuple[list[ClusterLoad], float, Allocation]],
) -> None:
    for clusters, rate, allocation in solved:
        assert math.fsum(allocation.rates_per_s) == pytest.approx(rate, rel=1e-12)
        assert math.fsum(allocation.proportions) == pytest.approx(1, rel=1e-12)
        for cluster, x in zip(clusters, allocation.rates_per_s, strict=True):
            marginal = marginal_cost(cluster, x)
            if x > 0:
                assert marginal == pytest.approx(allocation.marginal_cost_s, rel=1e-8)
            else:
                assert marginal >= allocation.marginal_cost_s * (1 - 1e-12)


def test_some_instances_leave_clusters_out_and_some_use_all(
    solved: list[tuple[list[ClusterLoad], float, Allocation]],
) -> None:
    left_out = sum(0.0 in allocation.rates_per_s for *_, allocation in solved)
    assert 100 < left_out < 290


@given(st.integers(0, 10_000), st.floats(1e-9, 1 - 1e-9))
def test_it_holds_from_an_idle_gateway_to_the_brink_of_saturation(seed: int, share: float) -> None:
    clusters, _ = random_federation(Random(seed))
    rate = share * sum(cluster.spare_rate_per_s for cluster in clusters)
    allocation = allocate(clusters, rate)
    assert math.fsum(allocation.rates_per_s) == pytest.approx(rate, rel=1e-12)
    for cluster, x in zip(clusters, allocation.rates_per_s, strict=True):
        assert 0 <= x < cluster.spare_rate_per_s


def test_more_external_load_than_room_is_a_typed_error_with_both_rates() -> None:
    clusters, _ = random_federation(Random(1))
    spare = sum(cluster.spare_rate_per_s for cluster in clusters)
    with pytest.raises(Infeasible, match="expected below the spare") as refused:
        allocate(clusters, 1.01 * spare)
    assert refused.value.spare_rate_per_s == pytest.approx(spare)
    assert refused.value.external_rate_per_s == pytest.approx(1.01 * spare)


def test_clusters_that_their_own_users_saturate_are_left_out() -> None:
    service = ServiceMoments.from_cv(1.0, 0.5)
    full, idle = ClusterLoad("full", 1.1, service, service), ClusterLoad("idle", 0.1, service, service)
    assert allocate([full, idle], 0.5).proportions == (0.0, 1.0)
    with pytest.raises(Infeasible):
        allocate([full], 0.5)


def test_equal_clusters_get_equal_shares_and_one_cluster_gets_all() -> None:
    service = ServiceMoments.from_cv(2.0, 1.5)
    twins = [ClusterLoad(name, 0.2, service, service) for name in "abc"]
    assert allocate(twins, 0.6).proportions == pytest.approx((1 / 3,) * 3)
    assert allocate(twins[:1], 0.1).proportions == (1.0,)


def test_an_external_rate_of_zero_is_refused_by_name() -> None:
    with pytest.raises(InvalidField, match="external rate: got 0"):
        allocate(random_federation(Random(1))[0], 0)


def test_the_fallback_shares_follow_the_spare_rates() -> None:
    service = ServiceMoments.from_cv(1.0, 0.5)
    loads = [ClusterLoad(name, rate, service, service) for name, rate in (("a", 0.4), ("b", 0.8), ("c", 1.5))]
    assert spare_capacity_proportions(loads) == pytest.approx((0.75, 0.25, 0.0))
    with pytest.raises(Saturated, match="'c' is saturated"):
        spare_capacity_proportions(loads[2:])
    with pytest.raises(InvalidField, match="sum of weights"):
        normalised([0.0, 0.0])


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (0.07, (0, 1, 0)),
        (0.09, (0.084, 0.916, 0)),
        (0.11, (0.137, 0.863, 0)),
        (0.13, (0.171, 0.829, 0)),
        (0.15, (0.195, 0.805, 0)),
    ],
)
def test_shares_on_table_2_at_600_mips(rate: float, expected: tuple[float, ...]) -> None:
    clusters, _ = table_2(rate, reference_mips=600, local_rates_per_s=R2_LOCAL_RATES)
    assert [c.local_load for c in clusters] == pytest.approx((0.363, 0.366, 0.714), abs=0.004)
    assert allocate(clusters, rate).proportions == pytest.approx(expected, abs=0.0015)


@pytest.mark.parametrize(
    ("external_mean_s", "expected"), [(939, (0.17, 0.53, 0.30)), (420, (0.195, 0.805, 0)), (85, (0, 1, 0))]
)
def test_longer_requests_spread_over_more_clusters(external_mean_s: float, expected: tuple[float, ...]) -> None:
    clusters, rate = table_2(
        0.15, reference_mips=600, local_rates_per_s=R2_LOCAL_RATES, external_mean_s=external_mean_s
    )
    assert allocate(clusters, rate).proportions == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("total_local", "expected"),
    [(0.04, (0, 0.60, 0.40)), (0.08, (0.09, 0.76, 0.15)), (0.16, (0.23, 0.77, 0))],
)
def test_busier_big_clusters_lose_their_share(total_local: float, expected: tuple[float, ...]) -> None:
    local = [rate * total_local / 0.12 for rate in R2_LOCAL_RATES]
    clusters, rate = table_2(0.15, reference_mips=600, local_rates_per_s=local)
    assert allocate(clusters, rate).proportions == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize(
    ("reference_mips", "slowdown", "expected"),
    [(200, 1, (0, 1, 0)), (250, 1, (0.084, 0.916, 0)), (1, 1, (0, 0, 1)), (1000, 6, (0.171, 0.607, 0.222))],
)
def test_the_unit_of_the_durations_decides(reference_mips: float, slowdown: float, expected: tuple[float, ...]) -> None:
    """JPDC 2012, section 4.1 says that scaling service times changes nothing; at given rates it does."""
    local = [rate / slowdown for rate in TABLE_2_LOCAL_RATES]
    clusters, rate = table_2(0.15, reference_mips=reference_mips, local_rates_per_s=local)
    assert allocate(clusters, rate).proportions == pytest.approx(expected, abs=0.0025)


def test_table_2_in_plain_seconds_has_no_allocation() -> None:
    """At 4 to 8 times the capacity in local work alone there is nothing to split."""
    clusters, rate = table_2(0.15, reference_mips=2400, local_rates_per_s=TABLE_2_LOCAL_RATES)
    assert min(cluster.local_load for cluster in clusters) > 1
    with pytest.raises(Infeasible):
        allocate(clusters, rate)
