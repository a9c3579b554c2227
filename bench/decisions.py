"""How long does one decision take? In process, processor time, without reading and writing.

    python -m bench.decisions [--horizon-s N] [--draws N]

The requests are those of the demo scenario. A request counts with the whole instant at which it comes alone:
it is planned or routed, guests give way, others are planned again, and the effects are made.
"""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from random import Random
from statistics import median, quantiles
from time import thread_time_ns
from typing import Any

from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway
from leasehold.leasing.overhead import OverheadModel
from leasehold.leasing.victims.candidate import Candidate, vms_of
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.effect import Effect
from leasehold.model.event import Event, Submitted
from leasehold.model.request import LeaseType, Request
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.scenario.parse import load_scenario, packaged_path
from leasehold.simulation.scenario.sites import routing, site_settings
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.workload.job import WorkloadJob

CROWDS = (5, 20, 60)
POLICIES = ("mov", "mlip", "moml", "exact-cover", "pareto")
PREEMPTABLE = (LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE)


@dataclass(frozen=True, slots=True)
class Latency:
    """Microseconds that one kind of decision took: half of them less than the median, 99 % less than p99."""

    what: str
    count: int
    median_us: float
    p99_us: float

    @classmethod
    def of(cls, what: str, times_ns: Sequence[int]) -> "Latency":
        """Sum up the times of single decisions."""
        return cls(what, len(times_ns), median(times_ns) / 1e3, quantiles(times_ns, n=100)[98] / 1e3)


class TimedGateway(Gateway):
    """A gateway that notes how long it took over each request that came alone."""

    local_ns: list[int]
    guest_ns: list[int]

    def handle(self, events: Iterable[Event], now_ms: int) -> list[Effect]:
        """Decide as ever, and note the time."""
        news = list(events)
        begun_ns = thread_time_ns()
        effects = super().handle(news, now_ms)
        passed_ns = thread_time_ns() - begun_ns
        if len(news) == 1 and isinstance(news[0], Submitted):
            (self.local_ns if news[0].request.is_local else self.guest_ns).append(passed_ns)
        return effects


def request_latencies(horizon_s: int) -> list[Latency]:
    """Let the demo scenario pass, and time the gateway in it."""
    scenario = load_scenario(packaged_path("demo"), {"horizon_s": horizon_s})
    sites = site_settings(scenario)
    gateway = TimedGateway(sites, routing(scenario), scenario.reference_mips)
    gateway.local_ns, gateway.guest_ns = [], []
    world = SimulatedWorld(gateway, enumerate(open_streams(scenario, []), 1), _Nobody())
    for _ in world.run():
        pass
    return [Latency.of("local request", gateway.local_ns), Latency.of("routed guest", gateway.guest_ns)]


@dataclass
class _Nobody:
    """An observer who wants to be told nothing."""

    handlers: Mapping[type, Handler] = field(default_factory=dict)

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Nothing is kept of a submission."""


def victim_latencies(draws: int) -> list[Latency]:
    """Time the choice of victims for a third of what so many guests hold, on drawn guests."""
    return [_victim_latency(name, guests, draws) for name in POLICIES for guests in CROWDS]


def _victim_latency(name: str, guests: int, draws: int) -> Latency:
    random, policy = Random(guests), victim_policy(name)
    times_ns = []
    for _ in range(draws):
        candidates = [_candidate(number, random) for number in range(guests)]
        needed_vms = max(1, vms_of(candidates) // 3)
        begun_ns = thread_time_ns()
        policy.choose(candidates, needed_vms)
        times_ns.append(thread_time_ns() - begun_ns)
    return Latency.of(f"victims by {name}, of {guests} guests", times_ns)


def _candidate(number: int, random: Random) -> Candidate:
    kind, vms = random.choice(PREEMPTABLE), random.choice([1, 2, 3, 4, 8, 16])
    cost_vm_ms = OverheadModel().cost_vm_ms(kind, random.choice([512, 1024, 2048]), vms)
    return Candidate(number, kind, vms, cost_vm_ms, ends_ms=0)


def latencies(horizon_s: int, draws: int) -> list[dict[str, Any]]:
    """Time every kind of decision."""
    return [asdict(one) for one in chain(request_latencies(horizon_s), victim_latencies(draws))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--horizon-s", type=int, default=172_800)
    parser.add_argument("--draws", type=int, default=200)
    given = parser.parse_args()
    print(json.dumps(latencies(given.horizon_s, given.draws)))
