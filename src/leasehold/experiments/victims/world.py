"""One run: the published base, with somebody who asks at every preemption, or with guarantees."""

from collections.abc import Mapping
from typing import Any

from leasehold.experiments.intergrid.metrics import Watch
from leasehold.experiments.intergrid.scenario import as_keys
from leasehold.experiments.intergrid.settings import SECONDS_PER_HOUR
from leasehold.experiments.victims.instants import Asked, means
from leasehold.experiments.victims.often import Often
from leasehold.experiments.victims.settings import INSTANTS, Plan
from leasehold.gateway.gateway import Gateway
from leasehold.simulation.kernel import World
from leasehold.simulation.run import collecting_less_garbage, make_gateway
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.sites import routing
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.scenario.spec import Scenario


def run(plan: Plan, what: str, replication: int) -> dict[str, float]:
    """Let the requests of the period come, and everything end; returns what was measured."""
    keys = {} if what == INSTANTS else plan.variants[what].keys
    made = _scenario(plan, keys, replication)
    gateway = make_gateway(made, routing(made))
    if what == INSTANTS:
        asked = _ask_at(gateway, plan)
        _pass(made, gateway, plan.hours)
        return means(asked)
    return _pass(made, gateway, plan.hours)


def _scenario(plan: Plan, keys: Mapping[str, Any], replication: int) -> Scenario:
    """Give the scenario of the base, but for these keys of all clusters."""
    said = as_keys(plan.base, replication)
    return scenario_from_dict(said | {"defaults": said["defaults"] | keys})


def _ask_at(gateway: Gateway, plan: Plan) -> list[Asked]:
    """Put somebody who asks before the victim policy of each site; what is decided stays the same."""
    asked = []
    for site in gateway.sites.values():
        settings = site.floor.settings
        settings.victims = Asked(settings.victims, plan.rules)
        asked.append(settings.victims)
    return asked


def _pass(made: Scenario, gateway: Gateway, hours: int) -> dict[str, float]:
    often = Often(Watch(gateway.sites, made.reference_mips, hours * SECONDS_PER_HOUR * 1_000))
    with collecting_less_garbage():
        for _ in World(gateway, enumerate(open_streams(made, []), 1), often).run():
            pass
    return often.read()
