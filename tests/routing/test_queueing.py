"""Eq 4 of JPDC 2012 and its two relatives, against an event simulation and closed forms."""

import math
import statistics
from collections import deque
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student
from tests.routing import literal
from tests.routing.federations import random_cluster

from leasehold.model.errors import InvalidField
from leasehold.routing.queueing import (
    ClusterLoad,
    Discipline,
    MarginalCost,
    Saturated,
    ServiceMoments,
    mean_response_s,
    no_priority_response_s,
    non_preemptive_response_s,
    preemptive_response_s,
    vm_service_time_s,
)

Job = list[float]  # arrival, rest of its service
Choice = Callable[[Job | None, deque[Job], deque[Job]], Job]


def locals_preempt(_current: Job | None, local: deque[Job], external: deque[Job]) -> Job:
    return local[0] if local else external[0]


def locals_first(current: Job | None, local: deque[Job], external: deque[Job]) -> Job:
    return current or (local[0] if local else external[0])


def first_come(current: Job | None, local: deque[Job], external: deque[Job]) -> Job:
    return current or min([*list(local)[:1], *list(external)[:1]])


def simulated_responses_s(
    cluster: ClusterLoad, rate: float, choose: Choice, requests: int, random: Random
) -> list[float]:
    """Serve two Poisson streams of gamma-distributed work one job at a time."""
    local: deque[Job] = deque()
    external: deque[Job] = deque()
    streams = ((local, cluster.local_rate_per_s, cluster.local), (external, rate, cluster.external))
    arrivals = [random.expovariate(rate) for _, rate, _ in streams]
    now, current, responses = 0.0, None, list[float]()
    while len(responses) < requests:
        current = choose(current, local, external) if local or external else None
        which = arrivals.index(min(arrivals))
        if current is not None and now + current[1] <= arrivals[which]:
            now += current[1]
            if external and current is external[0]:
                responses.append(now - external.popleft()[0])
            else:
                local.popleft()
            current = None
        else:
            if current is not None:
                current[1] -= arrivals[which] - now
            now = arrivals[which]
            queue, stream_rate, service = streams[which]
            queue.append([now, drawn_service_s(service, random)])
            arrivals[which] += random.expovariate(stream_rate)
    return responses


def drawn_service_s(service: ServiceMoments, random: Random) -> float:
    squared_cv = service.square_s2 / service.mean_s**2 - 1
    if squared_cv < 1e-9:
        return service.mean_s
    return random.gammavariate(1 / squared_cv, service.mean_s * squared_cv)


def confidence_interval(values: list[float], batches: int = 30, level: float = 0.99) -> tuple[float, float]:
    size = len(values) // batches
    means = [statistics.fmean(values[i * size : (i + 1) * size]) for i in range(batches)]
    half = student.ppf((1 + level) / 2, batches - 1) * statistics.stdev(means) / math.sqrt(batches)
    return statistics.fmean(means) - half, statistics.fmean(means) + half


def load(local_rate: float, tau: float, local_cv: float, theta: float, external_cv: float) -> ClusterLoad:
    return ClusterLoad(
        "c", local_rate, ServiceMoments.from_cv(tau, local_cv), ServiceMoments.from_cv(theta, external_cv)
    )


EXPONENTIAL = (load(0.4, 1.0, 1.0, 0.8, 1.0), 0.35)
CONSTANT = (load(0.5, 0.7, 0.0, 1.2, 0.0), 0.25)
SPREAD_OUT = (load(0.4, 1.0, 1.2, 0.9, 1.3), 0.3)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("cluster", "rate"), [pytest.param(*EXPONENTIAL, marks=pytest.mark.example), CONSTANT, SPREAD_OUT]
)
@pytest.mark.parametrize(
    ("choose", "formula", "others"),
    [
        (locals_preempt, preemptive_response_s, (non_preemptive_response_s, no_priority_response_s)),
        (locals_first, non_preemptive_response_s, (preemptive_response_s, no_priority_response_s)),
        (first_come, no_priority_response_s, (preemptive_response_s, non_preemptive_response_s)),
    ],
)
def test_response_time_is_what_a_simulation_shows(
    cluster: ClusterLoad, rate: float, choose: Choice, formula: Discipline, others: tuple[Discipline, ...]
) -> None:
    responses = simulated_responses_s(cluster, rate, choose, 100_000, Random(8))
    low, high = confidence_interval(responses)
    assert low < formula(cluster, rate) < high
    assert not any(low < other(cluster, rate) < high for other in others), "the simulation tells them apart"


@given(st.floats(0.1, 5), st.floats(0.01, 0.98))
def test_without_local_requests_an_exponential_cluster_is_m_m_1(theta: float, load_: float) -> None:
    alone = load(0.0, 0.0, 0.0, theta, 1.0)
    expected = theta / (1 - load_)
    for formula in (preemptive_response_s, non_preemptive_response_s, no_priority_response_s):
        assert formula(alone, load_ / theta) == pytest.approx(expected, rel=1e-9)


@given(st.floats(0.1, 5), st.floats(0.01, 0.6), st.floats(0.01, 0.35))
def test_priorities_only_shift_work_between_the_streams(service: float, rho: float, share: float) -> None:
    """Kleinrock's conservation law for M/M/1: the mean number of jobs is that without priorities."""
    both = load(rho / service, service, 1.0, service, 1.0)
    in_system = (rho + share) / (1 - rho - share)
    local = rho / (1 - rho)
    assert share / service * preemptive_response_s(both, share / service) + local == pytest.approx(in_system)
    waiting_local = (rho + share) * service / (1 - rho)
    held_local = rho / service * (service + waiting_local)
    held_external = share / service * non_preemptive_response_s(both, share / service)
    assert held_local + held_external == pytest.approx(in_system)


def test_mean_response_weighs_clusters_by_what_they_get() -> None:
    one, other = load(0.0, 0.0, 0.0, 1.0, 1.0), load(0.0, 0.0, 0.0, 0.5, 1.0)
    assert mean_response_s([one, other], [0.5, 1.0]) == pytest.approx((0.5 * 2 + 1.0 * 1) / 1.5)
    assert mean_response_s([one, other], [0.5, 0.0]) == pytest.approx(2)
    with pytest.raises(InvalidField, match="external rate"):
        mean_response_s([one, other], [0.0, 0.0])


def test_work_beyond_the_capacity_is_a_typed_error_that_names_the_cluster() -> None:
    with pytest.raises(Saturated, match=r"'c' is saturated: load 1\.2"):
        preemptive_response_s(load(0.5, 1.0, 0.1, 1.0, 0.5), 0.7)
    with pytest.raises(Saturated, match="load 1, expected below 1"):
        MarginalCost.of(load(0.5, 2.0, 0.1, 1.0, 0.5))


@pytest.mark.parametrize("seed", range(50))
def test_phi_is_eq_11_with_its_parenthesis_in_the_right_place(seed: int) -> None:
    cluster = random_cluster(Random(seed), "c")
    curve = MarginalCost.of(cluster)
    assert curve.psi_s == pytest.approx(literal.psi(cluster))
    for z in (curve.psi_s, 1.5 * curve.psi_s, 100 * curve.psi_s):
        expected = literal.phi(cluster, z, literal.corrected_numerator(cluster))
        assert curve.phi(z) == pytest.approx(expected)
        assert curve.rate_at(z) == pytest.approx(curve.spare_rate_per_s - curve.phi(z), abs=1e-12)


@pytest.mark.parametrize("seed", range(50))
def test_the_rate_for_a_marginal_cost_has_that_marginal_cost(seed: int) -> None:
    cluster = random_cluster(Random(seed), "c")
    curve = MarginalCost.of(cluster)
    for z in (1.01 * curve.psi_s, 3 * curve.psi_s, 50 * curve.psi_s):
        x, step = curve.rate_at(z), 1e-6 * curve.rate_at(z)
        slope = sum(s * (x + s * step) * preemptive_response_s(cluster, x + s * step) for s in (1, -1))
        assert slope / (2 * step) == pytest.approx(z, rel=1e-5)


def test_vms_are_spread_over_the_cluster_and_seconds_stay_seconds() -> None:
    """JPDC 2012, section 5.2 read with 600 MIPS: 4.99 VMs for 420 s on 64 elements of 2000 MIPS."""
    assert vm_service_time_s(4.99 * 420, 600, 64 * 2000) == pytest.approx(9.82, abs=0.005)
    assert ServiceMoments.from_cv(9.82, 0.5).square_s2 == pytest.approx((0.5 * 9.82) ** 2 + 9.82**2)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ServiceMoments(-1.0, 1.0), "mean_s"),
        (lambda: ServiceMoments(2.0, 3.9), "square_s2"),
        (lambda: ServiceMoments(math.nan, 1.0), "mean_s"),
        (lambda: load(math.inf, 1.0, 0.1, 1.0, 0.5), "local_rate_per_s of c"),
        (lambda: load(0.1, 1.0, 0.1, 0.0, 0.5), "external service time of c"),
        (lambda: vm_service_time_s(1.0, 600, 0), "cluster_mips"),
    ],
)
def test_numbers_that_no_queue_has_are_refused_by_name(make: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        make()
    assert refused.value.field == field
