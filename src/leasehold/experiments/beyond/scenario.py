"""A configuration as a scenario: that of JPDC 2012 where its sweeps meet, with the contender's rules."""

from typing import Any

from leasehold.experiments.beyond.settings import STUDY, Configuration, plan
from leasehold.experiments.intergrid import scenario as published
from leasehold.experiments.intergrid.settings import BASE
from leasehold.experiments.intergrid.settings import plan as published_plan
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.spec import Scenario

STAND_IN = "rr"
"""The policy in the scenario of one that no scenario can name, because nobody can know what it knows."""


def scenario(configuration: Configuration, replication: int) -> Scenario:
    """Give the scenario of one run."""
    return scenario_from_dict(as_keys(configuration, replication))


def as_keys(configuration: Configuration, replication: int) -> dict[str, Any]:
    """Give the keys of its file."""
    setting, contender = configuration.setting, configuration.contender
    known = published_plan(STUDY, configuration.hours)
    reading = next(one for one in known.readings if one.name == setting.reading)
    base = known.configurations[known.name_of(reading, BASE, STAND_IN)]
    made = published.as_keys(base, replication) | {"name": configuration.name}
    made["gateway"] |= {**setting.gateway, **contender.gateway}
    made["defaults"] |= {**setting.defaults, **contender.defaults}
    if is_clairvoyant(configuration):
        made["gateway"]["policy"] = STAND_IN
    return made if setting.log is None else _on_a_log(made)


def is_clairvoyant(configuration: Configuration) -> bool:
    """Whether its policy knows the future."""
    return bool(configuration.contender.gateway["policy"] == plan(configuration.hours).foresight)


def _on_a_log(made: dict[str, Any]) -> dict[str, Any]:
    """Leave the guests alone of the streams, and let all machines be alike: local jobs come from a log."""
    speed = made["defaults"].pop("speed_mips")
    guests = [stream for stream in made["stream"] if "site" not in stream]
    load = plan().said["logs"]["guest_load"]
    return made | {
        "reference_mips": speed,
        "cluster": [cluster | {"speed_mips": speed} for cluster in made["cluster"]],
        "stream": [stream | {"load": load} for stream in guests],
    }
