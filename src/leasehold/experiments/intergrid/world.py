"""One run of a configuration: the product's own gateway and clusters in the simulated world."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, log
from random import Random
from typing import Any, ClassVar

from leasehold.experiments.intergrid.metrics import LeaseObserver
from leasehold.experiments.intergrid.plan import (
    GUESTS,
    NEVER,
    PREEMPTING,
    SECONDS_PER_HOUR,
    FederationRun,
    configuration_named,
    plan,
)
from leasehold.gateway.gateway import Gateway
from leasehold.leasing.victims.registry import VICTIM_POLICIES
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policy import (
    Dispatch,
    Hold,
    Information,
    Refuse,
    RoutingPolicy,
    RoutingView,
    Verdict,
    Waiting,
)
from leasehold.routing.view import SiteFacts
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.run import collecting_less_garbage, make_gateway
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.sites import routing
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.workload.job import WorkloadJob


def measure(name: str, replication: int) -> dict[str, float]:
    """Run one configuration, by its name."""
    return run(configuration_named(name), replication)


def run(configuration: FederationRun, replication: int) -> dict[str, float]:
    """Run the requests of the period to their end; returns what was measured."""
    made, jobs = scenario(configuration, replication), None
    how = routing(made)
    if configuration.policy == NEVER:
        policy = WaitsForRoom(how.policy.random)
        how, jobs = replace(how, policy=policy), policy.hardened(open_streams(made, []))
    gateway = make_gateway(made, how)
    horizon_ms = configuration.hours * SECONDS_PER_HOUR * 1_000
    return observed(gateway, jobs or open_streams(made, []), horizon_ms)


def observed(
    gateway: Gateway, jobs: Iterator[WorkloadJob], horizon_ms: int, by: type[LeaseObserver] = LeaseObserver
) -> dict[str, float]:
    """Run these jobs on a gateway to their end; occupancy is that before the horizon."""
    observer = by([site.settings for site in gateway.sites.values()], gateway.reference_mips, horizon_ms)
    world = SimulatedWorld(gateway, enumerate(jobs, 1), observer)
    with collecting_less_garbage():
        for _ in world.run():
            pass
    return observer.read()


# The scenario, such as ``leasehold sim run`` could run as well


def scenario(configuration: FederationRun, replication: int) -> Scenario:
    """Give the scenario; replications differ in the random streams, and in nothing else."""
    return scenario_from_dict(as_keys(configuration, replication))


def as_keys(configuration: FederationRun, replication: int) -> dict[str, Any]:
    """Give the keys of its file.

    What is studied is a routing policy; or a victim policy, or preemption, where round robin routes. Else
    MOML chooses the victims, within the least valuable lease types.
    """
    reading, stated, policy = configuration.reading, plan(configuration.study).stated, configuration.policy
    is_of_victims = policy in VICTIM_POLICIES
    routes = "rr" if is_of_victims or policy in {PREEMPTING, NEVER} else policy
    victims = {"victims": policy if is_of_victims else "moml", "value_order": not is_of_victims}
    speed = {"speed_mips": reading.reference_mips} if reading.same_speed else {}
    return {
        "name": configuration.name,
        "seed": replication,
        "horizon_s": configuration.hours * SECONDS_PER_HOUR,
        "reference_mips": reading.reference_mips,
        "gateway": {"policy": routes, "moments": "told", "try_elsewhere": False},
        "defaults": {"local_queue": "refuse", **victims},
        "cluster": [{**cluster, **speed} for cluster in stated["published"]["cluster"]],
        "stream": list(_streams(configuration, stated)),
    }


def _streams(configuration: FederationRun, stated: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the stream of each cluster, then the external one."""
    reading, stated_per_s = configuration.reading, stated["published"]["local_per_s"]
    for site, alpha in reading.local_alphas.items():
        stream = stated["stream"][site] | {"alpha": alpha * stated_per_s / configuration.local_per_s}
        yield {"name": site, "site": site, "model": "das2", **in_seconds(stream, reading.unit_s)}
    guests = in_seconds(stated["stream"][GUESTS] | configuration.guests, reading.unit_s)
    yield {"name": GUESTS, "model": "das2", "types": configuration.types, **guests}


def in_seconds(stream: Mapping[str, float], unit_s: int) -> dict[str, float]:
    """Give a stream whose durations (a is a logarithm) and gaps have this unit, in seconds."""
    return {**stream, "a": stream["a"] + log(unit_s), "alpha": stream["alpha"] * unit_s}


# Without preemption


class WaitsForRoom(RoutingPolicy):
    """Does the site whose turn it is have room right now? No policy to use: it is for comparison.

    Every guest comes as Non-preemptable, so that local requests are refused where guests hold the room that
    they need. Guests that can wait still do: at the gateway, until a cluster has room for them.

    Rule: each request gets the next site in turn, as with RR, and goes out once that has the VMs free. Until
    then best-effort requests wait, Migratable ones as long as their deadline allows; others are refused.
    Source: our reading of the baseline of ACSC 2011.
    """

    name: ClassVar[str] = NEVER
    information: ClassVar[Information] = Information.LIVE

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._jobs: dict[int, WorkloadJob] = {}
        self._site: dict[int, SiteFacts] = {}
        self._until_ms: dict[int, float] = {}

    def hardened(self, jobs: Iterator[WorkloadJob]) -> Iterator[WorkloadJob]:
        """Make every guest Non-preemptable; remembers what it was."""
        for number, job in enumerate(jobs, 1):
            if job.site is None:
                self._jobs[number] = job
                yield replace(job, lease_type=LeaseType.NON_PREEMPTABLE, deadline_ms=None)
            else:
                yield job

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Dispatch a request that finds room."""
        if request.id not in self._site:
            self._take_turn(request.id, view.sites, now_ms)
        site = self._site[request.id]
        if view.live(site.name).free_vms >= request.vms:
            return Dispatch(site.name)
        return Hold() if self._can_wait(request.id, now_ms) else Refuse()

    def select(self, waiting: Sequence[Waiting], view: RoutingView, now_ms: int) -> Sequence[Waiting]:
        """Give those that have room, and those that cannot wait any longer: thousands may be waiting."""
        free_vms = {site.name: view.live(site.name).free_vms for site in view.sites}
        return [
            one
            for one in waiting
            if one.request.vms <= free_vms[self._site[one.request.id].name]
            or not self._can_wait(one.request.id, now_ms)
        ]

    def _take_turn(self, number: int, sites: Sequence[SiteFacts], now_ms: int) -> None:
        site = self._site[number] = sites[len(self._site) % len(sites)]
        self._until_ms[number] = _until_ms(self._jobs[number], site, now_ms)

    def _can_wait(self, number: int, now_ms: int) -> bool:
        return now_ms <= self._until_ms[number]


def _until_ms(job: WorkloadJob, site: SiteFacts, now_ms: int) -> float:
    """Give the time until which a new request can wait: now, for ever, or while its deadline allows."""
    if job.lease_type.is_best_effort:
        return inf
    if job.deadline_ms is None:
        return now_ms - 1
    return job.deadline_ms - job.requested_ms * site.reference_mips / site.speed_mips
