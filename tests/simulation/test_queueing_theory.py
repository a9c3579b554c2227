"""The whole simulator against formulas of queueing theory: the answer lies in the interval that it must.

Requests arrive in a Poisson stream and take exponential times. Intervals are those of ten independent
repetitions, 99 %; the first tenth of each warms up.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from math import factorial
from random import Random
from statistics import fmean, stdev

import pytest

from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.leasing.overhead import OverheadModel
from leasehold.model.effect import LeaseClosed, StartLease
from leasehold.model.request import LeaseType
from leasehold.routing.queueing import ClusterLoad, ServiceMoments, preemptive_response_s
from leasehold.routing.registry import routing_policy
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import site

pytestmark = pytest.mark.soak

REPETITIONS = range(10)
JOBS = 6_000
T_99 = 3.25
"""Student's t for 9 degrees of freedom."""


class Times:
    """Keeps from each lease how long after its submission it started and ended, in seconds."""

    def __init__(self, *, local: bool) -> None:
        self.local = local
        self.waits_s: list[float] = []
        self.responses_s: list[float] = []
        self.handlers: Mapping[type, Handler] = {StartLease: self._started, LeaseClosed: self._closed}

    def submitted(self, *_: object) -> None:
        """Nothing is kept of a submission."""

    def _started(self, effect: StartLease, now_ms: int) -> None:
        if effect.lease.request.is_local == self.local:
            self.waits_s.append((now_ms - effect.lease.request.submit_ms) / 1000)

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        if effect.lease.request.is_local == self.local:
            self.responses_s.append((now_ms - effect.lease.request.submit_ms) / 1000)


def poisson(rate_per_s: float, mean_s: float, seed: int, home: str | None) -> Iterator[WorkloadJob]:
    random, clock_s = Random(f"{seed} {home}"), 0.0
    for _ in range(JOBS):
        clock_s += random.expovariate(rate_per_s)
        needs_ms = max(1, round(1000 * random.expovariate(1 / mean_s)))
        kind = LeaseType.SUSPENDABLE if home is None else LeaseType.NON_PREEMPTABLE
        yield WorkloadJob(round(1000 * clock_s), 1, needs_ms, needs_ms, site=home, lease_type=kind)


def played(jobs: Iterable[WorkloadJob], slots: int, times: Times) -> Times:
    free = OverheadModel(suspend_ms_per_gib=0, resume_ms_per_gib=0)
    routing = Routing(routing_policy("rr")(Random(0)), learns=False)
    gateway = Gateway([site("a", slots, "fcfs", overhead=free)], routing)
    for _ in SimulatedWorld(gateway, iter(enumerate(jobs, 1)), times).run():
        pass
    return times


def interval(repetitions: Iterable[list[float]]) -> tuple[float, float]:
    """The confidence interval of the mean."""
    means = [fmean(values[len(values) // 10 :]) for values in repetitions]
    half = T_99 * stdev(means) / len(means) ** 0.5
    return fmean(means) - half, fmean(means) + half


def erlang_c_wait_s(rate_per_s: float, mean_s: float, servers: int) -> float:
    """The mean wait of M/M/c, from Erlang's C."""
    offered = rate_per_s * mean_s
    full = offered**servers / factorial(servers) / (1 - offered / servers)
    waits = full / (sum(offered**k / factorial(k) for k in range(servers)) + full)
    return waits * mean_s / (servers - offered)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (4, 0.7), (8, 0.8)])
def test_jobs_of_one_vm_wait_as_long_as_in_m_m_c(servers: int, load: float) -> None:
    rate_per_s = load * servers / 10
    streams = (poisson(rate_per_s, 10, seed, home="a") for seed in REPETITIONS)
    low, high = interval(played(jobs, servers, Times(local=True)).waits_s for jobs in streams)
    expected = erlang_c_wait_s(rate_per_s, 10, servers)
    assert low <= expected <= high
    assert high - low < 0.9 * expected


RATE = 0.03
OWN = ServiceMoments(10, 2 * 10**2)
GUESTS = ServiceMoments(12, 2 * 12**2)


def shared(seed: int) -> Iterator[WorkloadJob]:
    """The jobs of one machine whose guests give way at no cost: the preemptive-resume queue of the paper."""
    own = poisson(RATE, OWN.mean_s, seed, home="a")
    guests = poisson(RATE, GUESTS.mean_s, seed, home=None)
    return merge(own, guests, key=lambda job: job.submit_ms)


def test_guests_take_as_long_as_eq_4_of_jpdc_2012_says() -> None:
    found = [played(shared(seed), 1, Times(local=False)).responses_s for seed in REPETITIONS]
    low, high = interval(found)
    assert low <= preemptive_response_s(ClusterLoad("a", RATE, OWN, GUESTS), RATE) <= high
    assert high - low < 0.3 * low


def test_local_jobs_wait_as_long_as_alone() -> None:
    """The same machine, seen by its own users: M/M/1, whatever the guests do."""
    found = [played(shared(seed), 1, Times(local=True)).waits_s for seed in REPETITIONS]
    low, high = interval(found)
    assert low <= erlang_c_wait_s(RATE, OWN.mean_s, 1) <= high
