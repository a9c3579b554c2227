"""One run: the product's own gateway and clusters in the simulated world, and a light observer."""

from collections.abc import Iterator
from dataclasses import replace

from leasehold.experiments.intergrid.metrics import Watch
from leasehold.experiments.intergrid.scenario import scenario
from leasehold.experiments.intergrid.settings import SECONDS_PER_HOUR, Configuration
from leasehold.experiments.intergrid.without_preemption import WaitsForRoom, is_without
from leasehold.gateway.gateway import Gateway
from leasehold.simulation.kernel import World
from leasehold.simulation.run import collecting_less_garbage, make_gateway
from leasehold.simulation.scenario.sites import routing
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.workload.job import Job


def run(configuration: Configuration, replication: int) -> dict[str, float]:
    """Let the requests of the period come, and everything end; returns what was measured."""
    made, jobs = scenario(configuration, replication), None
    how = routing(made)
    if is_without(configuration):
        policy = WaitsForRoom(how.policy.random)
        how, jobs = replace(how, policy=policy), policy.hardened(open_streams(made, []))
    gateway = make_gateway(made, how)
    horizon_ms = configuration.hours * SECONDS_PER_HOUR * 1_000
    return observed(gateway, jobs or open_streams(made, []), horizon_ms)


def observed(gateway: Gateway, jobs: Iterator[Job], horizon_ms: int) -> dict[str, float]:
    """Let these jobs come to a gateway, and everything end; occupancy is that before the horizon."""
    watch = Watch(gateway.sites, gateway.reference_mips, horizon_ms)
    world = World(gateway, enumerate(jobs, 1), watch)
    with collecting_less_garbage():
        for _ in world.run():
            pass
    return watch.read()
