"""One run: the product's own gateway and clusters in the simulated world, and a light observer."""

from leasehold.experiments.intergrid.metrics import Watch
from leasehold.experiments.intergrid.scenario import scenario
from leasehold.experiments.intergrid.settings import SECONDS_PER_HOUR, Configuration
from leasehold.simulation.kernel import World
from leasehold.simulation.run import collecting_less_garbage, make_gateway
from leasehold.simulation.scenario.sites import routing
from leasehold.simulation.scenario.sources import open_streams


def run(configuration: Configuration, replication: int) -> dict[str, float]:
    """Let the requests of the period come, and everything end; returns what was measured."""
    made = scenario(configuration, replication)
    gateway = make_gateway(made, routing(made))
    watch = Watch(gateway.sites, made.reference_mips, configuration.hours * SECONDS_PER_HOUR * 1_000)
    world = World(gateway, enumerate(open_streams(made, []), 1), watch)
    with collecting_less_garbage():
        for _ in world.run():
            pass
    return watch.read()
