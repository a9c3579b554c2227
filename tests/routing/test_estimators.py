"""A gateway learns what its streams are like from the requests that it sees."""

import math
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType, Request
from leasehold.routing.estimators import LoadEstimator, StreamEstimator
from leasehold.routing.moments import StreamMoments

HOUR_S = 3600.0
arrivals = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(1, 500), st.integers(1, 10**6)), min_size=1, max_size=60
)


def request(vms: int, duration_ms: int, site: str | None = None) -> Request:
    return Request(1, LeaseType.NON_PREEMPTABLE, vms, duration_ms, 0, 0, site=site)


def poisson_stream(rate_per_s: float, horizon_s: float, random: Random) -> list[tuple[int, int, float]]:
    """Draw (time in ms, VMs, duration in s): 1 to 9 VMs, log-normal durations of mean about 420 s."""
    now_s, seen = 0.0, []
    while (now_s := now_s + random.expovariate(rate_per_s)) < horizon_s:
        seen.append((round(1000 * now_s), random.randint(1, 9), random.lognormvariate(5.54, 1.0)))
    return seen


@given(arrivals, st.one_of(st.none(), st.floats(1, 1e6)))
def test_estimates_are_weighted_means_of_all_that_was_seen(
    gaps: list[tuple[int, int, int]], time_constant_s: float | None
) -> None:
    """The oracle keeps every request and weighs it by exp(-age / time constant)."""
    estimator, now, seen = StreamEstimator(0, time_constant_s), 0, []
    for gap, vms, duration_ms in gaps:
        now += gap
        estimator.observe(vms, duration_ms / 1000, now)
        seen.append((now, vms, duration_ms / 1000))
    now += 1000
    tau = time_constant_s or math.inf
    weights = [math.exp(-(now - then) / 1000 / tau) for then, _, _ in seen]
    watched_s = now / 1000 if math.isinf(tau) else tau * (1 - math.exp(-now / 1000 / tau))
    learnt = estimator.moments(now)
    assert learnt.seen == len(seen)
    assert learnt.rate_per_s == pytest.approx(sum(weights) / watched_s)
    # of old requests alone nothing but ratios of vanishing weights would be left to compare
    if weights[-1] > 1e-100:
        total = sum(weights)
        mean_work = sum(w * v * d for w, (_, v, d) in zip(weights, seen, strict=True)) / total
        squares = sum(w * (v * d) ** 2 for w, (_, v, d) in zip(weights, seen, strict=True)) / total
        assert learnt.mean_vms == pytest.approx(sum(w * s[1] for w, s in zip(weights, seen, strict=True)) / total)
        assert learnt.mean_duration_s == pytest.approx(
            sum(w * s[2] for w, s in zip(weights, seen, strict=True)) / total
        )
        assert learnt.mean_vm_s == pytest.approx(mean_work)
        assert learnt.cv_vm_s is not None
        assert (learnt.cv_vm_s**2 + 1) * mean_work**2 == pytest.approx(squares)


def test_without_forgetting_the_error_vanishes_as_the_stream_goes_on() -> None:
    errors = []
    for horizon_s in (2e3, 2e4, 2e5, 2e6):
        relative = []
        for seed in range(5):
            estimator = StreamEstimator(time_constant_s=None)
            for now_ms, vms, duration_s in poisson_stream(0.02, horizon_s, Random(seed)):
                estimator.observe(vms, duration_s, now_ms)
            learnt = estimator.moments(round(1000 * horizon_s))
            relative += [learnt.rate_per_s / 0.02 - 1, learnt.mean_vms / 5 - 1]
            relative.append(learnt.mean_vm_s / (5 * math.exp(5.54 + 0.5)) - 1)
        errors.append(math.sqrt(sum(e * e for e in relative) / len(relative)))
    assert all(later < earlier for earlier, later in pairwise(errors))
    assert errors[-1] < 0.01


def test_the_rate_is_unbiased_from_the_first_hour_on_with_forgetting_too() -> None:
    """The mean over many streams is the true rate, long before a time constant has passed."""
    for horizon_s in (0.2 * HOUR_S, HOUR_S, 5 * HOUR_S):
        rates = []
        for seed in range(300):
            estimator = StreamEstimator(time_constant_s=HOUR_S)
            for now_ms, vms, duration_s in poisson_stream(0.02, horizon_s, Random(seed)):
                estimator.observe(vms, duration_s, now_ms)
            rates.append(estimator.moments(round(1000 * horizon_s)).rate_per_s)
        assert sum(rates) / len(rates) == pytest.approx(0.02, rel=0.03)


def test_a_changed_stream_is_learnt_within_some_time_constants() -> None:
    estimator = StreamEstimator(time_constant_s=HOUR_S)
    for second in range(0, 10 * 3600, 10):
        estimator.observe(1, 60.0, 1000 * second)
    for second in range(10 * 3600, 15 * 3600, 100):
        estimator.observe(8, 600.0, 1000 * second)
    learnt = estimator.moments(15 * 3600 * 1000)
    assert learnt.rate_per_s == pytest.approx(0.01, rel=0.08)
    assert learnt.mean_vms == pytest.approx(8, rel=0.08)


def test_a_stream_that_falls_silent_fades_but_keeps_its_sizes() -> None:
    estimator = StreamEstimator(time_constant_s=HOUR_S)
    estimator.observe(4, 100.0, 1000)
    after_years = estimator.moments(10**12)
    assert (after_years.rate_per_s, after_years.mean_vm_s, after_years.seen) == (0.0, 400.0, 1)
    estimator.observe(2, 50.0, 10**12)
    assert estimator.moments(10**12).mean_vm_s == 100.0


def test_streams_are_kept_apart() -> None:
    learnt = LoadEstimator(time_constant_s=None)
    learnt.observe_external(request(5, 420_000), 10_000)
    learnt.observe_local("a", request(2, 60_000, "a"), 20_000)
    learnt.observe_local("a", request(4, 60_000, "a"), 40_000)
    external, local = learnt.stream(None, 100_000), learnt.stream("a", 100_000)
    assert (external.rate_per_s, external.mean_vms, external.mean_vm_s) == (0.01, 5, 2100)
    assert (local.rate_per_s, local.mean_vms, local.mean_duration_s, local.mean_vm_s) == (0.02, 3, 60, 180)
    assert local.cv_vm_s == pytest.approx(1 / 3)
    assert learnt.stream("b", 100_000) == StreamMoments(0, 0, 0, 0, None, seen=0)


def test_before_any_time_has_passed_no_rate_is_claimed() -> None:
    learnt = LoadEstimator(start_ms=5000)
    learnt.observe_external(request(5, 420_000), 5000)
    assert learnt.stream(None, 5000).rate_per_s == 0
    assert learnt.stream(None, 6000).rate_per_s == pytest.approx(1, rel=1e-4)


def test_told_moments_are_those_of_independent_sizes_and_durations() -> None:
    told = StreamMoments.told(0.15, 5, 420, 0.5)
    assert (told.mean_vm_s, told.cv_vm_s, told.was_told) == (2100, 0.5, True)
    assert not LoadEstimator().stream(None, 0).was_told


def test_what_makes_no_sense_is_refused_by_name() -> None:
    estimator = StreamEstimator()
    estimator.observe(1, 1.0, 1000)
    with pytest.raises(InvalidField, match="now_ms: got 999, expected 1000 or later"):
        estimator.observe(1, 1.0, 999)
    with pytest.raises(InvalidField, match="time_constant_s: got 0"):
        StreamEstimator(time_constant_s=0)
    with pytest.raises(InvalidField, match="rate_per_s: got nan"):
        StreamMoments.told(math.nan, 5, 420)
    with pytest.raises(InvalidField, match="cv_vm_s: got -1"):
        StreamMoments.told(0.15, 5, 420, -1)
