"""What is wrong in the printed algorithms of JPDC 2012, shown on the printed algorithms themselves."""

import math
from random import Random

import pytest
from tests.routing import literal
from tests.routing.federations import random_cluster, random_federation

from leasehold.model.request import LeaseType
from leasehold.routing.proportional import Rtdp, least_rate_first_proportions
from leasehold.routing.queueing import ClusterLoad, MarginalCost, allocate, mean_response_s

SEED = 2012


@pytest.mark.parametrize("seed", range(100))
def test_eq_7_the_printed_parenthesis_breaks_the_zero_at_psi(seed: int) -> None:
    """The first request costs psi, so at z = psi all room is unused: only the corrected one agrees."""
    cluster = random_cluster(Random(seed), "c")
    psi, spare = literal.psi(cluster), cluster.spare_rate_per_s
    assert literal.phi(cluster, psi, literal.corrected_numerator(cluster)) == pytest.approx(spare)
    assert literal.phi(cluster, psi, literal.numerator(cluster)) > (1 + 1e-6) * spare


@pytest.mark.parametrize("seed", range(100))
def test_eq_7_the_printed_rate_does_not_have_the_marginal_cost_that_it_is_made_for(seed: int) -> None:
    cluster = random_cluster(Random(seed), "c")
    z = 3 * literal.psi(cluster)
    right = cluster.spare_rate_per_s - literal.phi(cluster, z, literal.corrected_numerator(cluster))
    printed = cluster.spare_rate_per_s - literal.phi(cluster, z, literal.numerator(cluster))
    assert derivative(cluster, right) == pytest.approx(z, rel=1e-6)
    assert abs(derivative(cluster, printed) / z - 1) > 1e-4


def derivative(cluster: ClusterLoad, x: float) -> float:
    """Differentiate x T(x) of eq 4 by a complex step; the formula holds for any x."""
    spare, step = 1 - cluster.local_load, 1e-30
    at = complex(x, step)
    work = cluster.local_rate_per_s * cluster.local.square_s2 + at * cluster.external.square_s2
    rest = spare - cluster.external.mean_s * at
    return (at * (cluster.external.mean_s + work / (2 * rest)) / spare).imag / step


def test_line_7_the_printed_loop_always_stops_at_one_cluster() -> None:
    random = Random(SEED)
    for _ in range(300):
        clusters, rate = random_federation(random)
        cheapest = min(clusters, key=literal.psi)
        room = cheapest.spare_rate_per_s
        if rate >= room:
            with pytest.raises(literal.NeverEndsError):
                literal.pap(clusters, rate)
        else:
            used, rates = literal.pap(clusters, rate)
            assert used == 1
            assert math.fsum(rates) == pytest.approx(rate)


def test_algorithm_1_as_printed_fails_wherever_the_best_split_uses_more_than_one_cluster() -> None:
    random = Random(SEED)
    endless = wrong = right = 0
    for _ in range(300):
        clusters, rate = random_federation(random)
        best = allocate(clusters, rate)
        try:
            _, rates = literal.pap(clusters, rate)
        except literal.NeverEndsError:
            endless += 1
            continue
        if mean_response_s(clusters, rates) > (1 + 1e-9) * mean_response_s(clusters, best.rates_per_s):
            wrong += 1
        else:
            assert max(best.proportions) == 1
            right += 1
    assert endless + wrong + right == 300
    assert endless > 100
    assert endless + wrong > 200


def test_a_tolerance_of_0_001_seconds_is_no_tolerance_for_short_service_times() -> None:
    """With service times of milliseconds the printed bisection stops at once, far from the rate wanted."""
    cluster = random_cluster(Random(3), "c")
    scaled = ClusterLoad(
        "ms",
        cluster.local_rate_per_s * 1e4,
        type(cluster.local)(cluster.local.mean_s / 1e4, cluster.local.square_s2 / 1e8),
        type(cluster.external)(cluster.external.mean_s / 1e4, cluster.external.square_s2 / 1e8),
    )
    rate = 0.05 * scaled.spare_rate_per_s
    curve = MarginalCost.of(scaled)
    high = curve.psi_s * 2
    while curve.rate_at(high) < rate:
        high *= 2
    assert high - curve.psi_s < 0.001
    assert curve.rate_at((curve.psi_s + high) / 2) > 2 * rate
    assert allocate([scaled], rate).rates_per_s == pytest.approx([rate])


def test_eq_26_the_printed_lrf_rates_sum_to_n_minus_1_times_the_rate() -> None:
    local = [0.0306, 0.0383, 0.0511, 0.02]
    assert sum(literal.lrf_rates(local, 0.15)) == pytest.approx(3 * 0.15)
    assert sum(least_rate_first_proportions(local)) == pytest.approx(1)


@pytest.mark.parametrize("type_shares", [(0.25, 0.25, 0.25, 0.25), (0.5, 0.25, 0.125, 0.125)])
def test_algorithm_2_step_5_changes_nothing(type_shares: tuple[float, ...]) -> None:
    """One factor for all shares of a type moves no argmin; powers of two keep rounding out of it."""
    random = Random(SEED)
    proportions, fastest = [0.171, 0.607, 0.222], 1
    types = random.choices(range(4), weights=type_shares, k=3_000)
    dispatcher = Rtdp(proportions, fastest)
    ours = [dispatcher.next(LeaseType(kind)) for kind in types]
    assert ours == literal.rtdp_sequence(proportions, types, type_shares, fastest)
