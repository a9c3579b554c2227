"""One run: owners' and spot jobs, with the fields of Alibaba's spot GPU trace, on a cluster planned by its nodes."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import cos, exp, log, pi
from random import Random
from typing import Any, ClassVar

from leasehold.experiments import evaluation
from leasehold.experiments.intergrid.metrics import MS_PER_HOUR, LeaseObserver
from leasehold.experiments.intergrid.world import observed
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.vectors import VectorBackfiller
from leasehold.model.effect import LeaseClosed
from leasehold.model.lease import Lease
from leasehold.model.request import GPU_MILLI, LeaseType, Request
from leasehold.routing.policy import (
    Dispatch,
    Hold,
    Information,
    RoutingPolicy,
    RoutingView,
    Selection,
    Verdict,
    Waiting,
)
from leasehold.simulation.run import make_gateway
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.sites import routing
from leasehold.simulation.workload.job import WorkloadJob

SITE, OWNERS, SPOT = "gpus", "HP", "Spot"
QUOTA, LAST = "forecast-quota", "last"
HOUR_S, DAY_H, TICK_S = 3_600, 24, 60


@dataclass(frozen=True, slots=True)
class Variant(evaluation.Configuration):
    """How spot jobs are admitted, which give way, and which nodes they get; ``what`` in words."""

    what: str
    routing: str
    victims: str
    nodes: str


@dataclass(frozen=True, slots=True)
class SpotPlan(evaluation.Plan[Variant]):
    """Everything that is compared, for a number of hours of requests."""

    hours: int

    def name_of(self, variant: Variant) -> str:
        """Name a configuration."""
        return f"spot-{variant.name}-{self.hours}h"


@cache
def plan(hours: int) -> SpotPlan:
    """Read what is compared."""
    stated = evaluation.read(__package__, "spot.toml")
    variants = [Variant(**one) for one in stated["variant"]]
    return SpotPlan(stated, {f"spot-{one.name}-{hours}h": one for one in variants}, hours)


# The load


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job, by fields of the trace; times in seconds."""

    gpu_model: str
    cpu_request: int
    gpu_request: int
    worker_num: int
    submit_time: int
    duration: int
    job_type: str


def trace(stated: Mapping[str, Any], hours: int, seed: int) -> list[TraceJob]:
    """Draw all jobs of a period, in order of submission; the kinds have streams of their own."""
    cluster, jobs = stated["cluster"], list[TraceJob]()
    for kind, load in stated["load"].items():
        random = Random(f"{seed}/{kind}")
        for at_s in _arrivals(load, hours, random):
            gpus, workers = _drawn(load["gpus"], random), _drawn(load["workers"], random)
            length_s = min(load["longest_s"], load["median_s"] * exp(load["sigma"] * random.gauss(0.0, 1.0)))
            cores = gpus * cluster["cores_per_gpu"]
            jobs.append(TraceJob(cluster["model"], cores, gpus, workers, at_s, max(60, round(length_s)), kind))
    return sorted(jobs, key=lambda job: (job.submit_time, job.job_type))


def _arrivals(load: Mapping[str, float], hours: int, random: Random) -> Iterator[int]:
    """Draw a Poisson process by thinning one of the greatest rate."""
    greatest = load["per_hour"] * (1 + load["swing"])
    at_h = 0.0
    while (at_h := at_h - log(1 - random.random()) / greatest) < hours:
        rate = load["per_hour"] * (1 + load["swing"] * cos(2 * pi * (at_h - load["peak_hour"]) / DAY_H))
        if random.random() * greatest < rate:
            yield int(at_h * HOUR_S)


def _drawn(weighted: Sequence[tuple[int, float]], random: Random) -> int:
    values, weights = zip(*weighted, strict=True)
    return int(random.choices(values, weights)[0])


def workload(jobs: Iterable[TraceJob]) -> Iterator[WorkloadJob]:
    """Give the jobs as they are submitted: those of the owners at home, spot jobs from outside."""
    for number, job in enumerate(jobs, 1):
        is_own = job.job_type == OWNERS
        yield WorkloadJob(
            submit_ms=1_000 * job.submit_time,
            vms=job.worker_num,
            requested_ms=1_000 * job.duration,
            actual_ms=1_000 * job.duration,
            consumer=job.job_type,
            source_id=str(number),
            lease_type=LeaseType.NON_PREEMPTABLE if is_own else LeaseType.SUSPENDABLE,
            site=SITE if is_own else None,
            source=job.job_type,
            cores=job.cpu_request,
            gpu_model=job.gpu_model,
            gpu_milli=GPU_MILLI * job.gpu_request,
        )


# A published rule


class ForecastQuota(RoutingPolicy):
    """Does the owners' demand, as forecast, leave this spot job room? No policy to use: it is for comparison.

    Rule: the spot jobs together may hold what the owners' demand leaves: the greater of what these hold now and of the
        most that they held in each of the next ``hours`` of the day, in the mean of the last ``days`` days.
    Source: our reading of GFS (Duan et al., ASPLOS 2026).
    """

    name: ClassVar[str] = QUOTA
    information: ClassVar[Information] = Information.LIVE

    def __init__(self, random: Random, hours: int, days: int) -> None:
        """Forecast for so many hours, from so many days."""
        super().__init__(random)
        self._hours = hours
        self._greatest: deque[int] = deque(maxlen=days * DAY_H + 1)
        self._hour = -1

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Start what fits into the quota, if it can start at once."""
        if request.vms * request.cores > self._left(view, now_ms):
            return Hold()
        ask = view.live(SITE).earliest_start_ms
        start_ms = ask(request.vms, request.duration_ms, request) if ask else now_ms
        return Dispatch(SITE) if start_ms is not None and start_ms <= now_ms else Hold()

    def select(self, waiting: Sequence[Waiting], view: RoutingView, now_ms: int) -> Selection:
        """Give those that fit into the quota, in their order; again at the next tick."""
        left = self._left(view, now_ms)
        return Selection([one for one in waiting if one.request.vms * one.request.cores <= left], now_ms)

    def _left(self, view: RoutingView, now_ms: int) -> int:
        """Say how much of the quota is left, in cores."""
        live, slots = view.live(SITE), view.sites[0].slots
        own = slots - live.free_vms - live.running_guest_vms + live.local_waiting_vms
        self._note(own, now_ms)
        return slots - self._forecast(own) - live.running_guest_vms - live.guest_waiting_vms

    def _note(self, own: int, now_ms: int) -> None:
        """Keep the greatest demand of each hour; an hour in which nothing was seen is like the one before."""
        hour = now_ms // MS_PER_HOUR
        while self._hour < hour:
            self._greatest.append(self._greatest[-1] if self._greatest and self._hour < hour - 1 else own)
            self._hour += 1
        self._greatest[-1] = max(self._greatest[-1], own)

    def _forecast(self, own: int) -> int:
        """Give what they hold now, or the mean of the days in the hour that has most of it."""
        known, greatest = list(self._greatest), own
        for ahead in range(1, self._hours + 1):
            same = [known[place] for place in range(len(known) - 1 + ahead - DAY_H, -1, -DAY_H)]
            if same:
                greatest = max(greatest, round(sum(same) / len(same)))
        return greatest


# The run


class SpotObserver(LeaseObserver):
    """Counts GPUs, besides all else.

    gpus_preempted  GPUs that spot jobs gave up to owners' jobs, each time counted
    spot_gpu_h      GPU-hours of the spot jobs that got all their time
    own_gpu_h       the same of the owners' jobs
    spot_wait_s     mean time of the spot jobs in which they did not work: until they started, and while they were saved
    """

    def __init__(self, sites: Iterable[SiteSettings], reference_mips: int, horizon_ms: int) -> None:
        super().__init__(sites, reference_mips, horizon_ms)
        self._gpus = dict.fromkeys(("gpus_preempted", "spot_gpu_h", "own_gpu_h"), 0.0)
        self._idle_ms: list[int] = []

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        lease = effect.lease
        granted_ms = self._granted_ms[lease.id]
        super()._closed(effect, now_ms)
        gpu_h = _gpus(lease) * granted_ms / MS_PER_HOUR
        self._gpus["own_gpu_h" if lease.request.is_local else "spot_gpu_h"] += gpu_h
        if not lease.request.is_local:
            self._gpus["gpus_preempted"] += _gpus(lease) * lease.preemptions
            self._idle_ms.append(now_ms - lease.request.ready_ms - granted_ms)

    def read(self) -> dict[str, float]:
        """Give all metrics."""
        return super().read() | self._gpus | {"spot_wait_s": sum(self._idle_ms) / len(self._idle_ms) / 1_000}


def _gpus(lease: Lease) -> float:
    return lease.vms * lease.request.gpu_milli / GPU_MILLI


def measure(name: str, seed: int) -> dict[str, float]:
    """Run one configuration, by its name."""
    hours = int(name.rpartition("-")[2].removesuffix("h"))
    read = plan(hours)
    return run(read, read.configurations[name], seed)


def run(read: SpotPlan, variant: Variant, seed: int) -> dict[str, float]:
    """Run the requests of the period to their end."""
    made = scenario_from_dict(as_keys(read, variant, seed))
    how = replace(routing(made), learns=True)
    if variant.routing == QUOTA:
        how = replace(how, policy=ForecastQuota(how.policy.random, **read.stated["quota"]))
    gateway = make_gateway(made, how)
    spot = gateway.sites[SITE].open_to_guests(0).queue
    assert isinstance(spot, VectorBackfiller)
    spot.guests_last = variant.nodes == LAST
    jobs = workload(trace(read.stated, read.hours, seed))
    return observed(gateway, jobs, read.hours * MS_PER_HOUR, SpotObserver)


def as_keys(read: SpotPlan, variant: Variant, seed: int) -> dict[str, Any]:
    """Give the keys of the scenario, such as ``leasehold sim run`` reads them; its streams are drawn elsewhere."""
    cluster = read.stated["cluster"]
    gpus = {"model": cluster["model"], "count": cluster["gpus"], "shares": 1}
    node = {
        "count": cluster["nodes"],
        "cores": cluster["cores"],
        "memory_mib": cluster["memory_mib"],
        "gpus": gpus,
    }
    return {
        "name": variant.name,
        "seed": seed,
        "horizon_s": read.hours * HOUR_S,
        "gateway": {"policy": "rr" if variant.routing == QUOTA else variant.routing, "tick_s": TICK_S},
        "cluster": [{"name": SITE, "plan": "nodes", "victims": variant.victims, "nodes": [node]}],
        "stream": [
            {
                "name": "spot",
                "model": "das2",
                "l": 0.0,
                "m": 1.5,
                "h": 4.0,
                "q": 0.7,
                "p_one": 0.4,
                "p_pow2": 0.6,
                "a": 8.0,
                "b": 1.5,
                "alpha": 100.0,
                "beta": 0.7,
            }
        ],
    }
