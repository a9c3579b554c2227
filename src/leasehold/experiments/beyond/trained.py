"""Tables that were learnt at another rate: local users used to come more often than they do now, or less.

Before the first request of a run, each site has looked on for as long as its counts are remembered, while its
own users came so many times as often. From then on it learns as ever.
"""

from collections.abc import Mapping
from typing import Any

from leasehold.experiments.beyond.scenario import as_keys, is_clairvoyant
from leasehold.experiments.beyond.settings import Configuration
from leasehold.experiments.intergrid.world import observed
from leasehold.gateway.gateway import Gateway
from leasehold.routing.demand import WEEK_MS, Demand
from leasehold.routing.policy import Information
from leasehold.simulation.run import make_gateway
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.sites import routing
from leasehold.simulation.scenario.sources import open_streams

MS_PER_S = 1_000
SEEDS_APART = 1_000_000
"""Added to the seed of the run: what was learnt are not the requests that are still to come."""

Memory = Mapping[str, Any]
"""What a table was, as `Demand.memory` gives it."""


def is_trained(configuration: Configuration) -> bool:
    """Whether something was learnt before, and the policy may ask for it."""
    if not configuration.setting.trained_rate or is_clairvoyant(configuration):
        return False
    return configuration.contender.information is Information.LIVE


def train(gateway: Gateway, configuration: Configuration, replication: int) -> None:
    """Let the sites of a gateway that has not begun yet remember another rate."""
    for name, memory in learnt(configuration, replication).items():
        floor = gateway.sites[name].floor
        floor.demand = Demand.recalled(memory, floor.settings.slots)


def learnt(configuration: Configuration, replication: int) -> dict[str, Memory]:
    """Give the table of each site after a week without guests, as if that ended just now."""
    made = scenario_from_dict(_before(configuration, replication))
    gateway = make_gateway(made, routing(made))
    for name in gateway.sites:
        gateway.knowledge.outlook(name, 0)
    observed(gateway, open_streams(made, []), WEEK_MS)
    found = gateway.knowledge.memory()["demand"]
    return {name: ending_now(memory) for name, memory in found.items()}


def _before(configuration: Configuration, replication: int) -> dict[str, Any]:
    """Give the week before: the same users, coming so many times as often."""
    made, rate = as_keys(configuration, SEEDS_APART + replication), configuration.setting.trained_rate
    of_locals = [stream | {"load": rate} for stream in made["stream"] if "site" in stream]
    return made | {"horizon_s": WEEK_MS // MS_PER_S, "stream": of_locals}


def ending_now(memory: Memory) -> Memory:
    """Let the time at which a table was last looked at be 0."""
    seen_ms, started_ms = memory["seen_ms"], memory["last_start_ms"]
    return {
        **memory,
        "seen_ms": 0,
        "at_ms": memory["at_ms"] - seen_ms,
        "last_start_ms": None if started_ms is None else started_ms - seen_ms,
    }
