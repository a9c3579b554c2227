"""A configuration as a scenario of Leasehold, such as ``leasehold sim run`` could run as well."""

from collections.abc import Iterator, Mapping
from math import log
from typing import Any

from leasehold.experiments.intergrid.settings import GUESTS, SECONDS_PER_HOUR, Configuration, plan
from leasehold.leasing.victims.registry import VICTIM_POLICIES
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.spec import Scenario


def scenario(configuration: Configuration, replication: int) -> Scenario:
    """Give the scenario; replications differ in the random streams, and in nothing else."""
    return scenario_from_dict(as_keys(configuration, replication))


def as_keys(configuration: Configuration, replication: int) -> dict[str, Any]:
    """Give the keys of its file."""
    reading, said = configuration.reading, plan(configuration.study).said
    return {
        "name": configuration.name,
        "seed": replication,
        "horizon_s": configuration.hours * SECONDS_PER_HOUR,
        "reference_mips": reading.reference_mips,
        "gateway": {"policy": routing_of(configuration), "moments": "told", "try_elsewhere": False},
        "defaults": {"local_queue": "refuse", **victims_of(configuration)},
        "cluster": [_cluster(configuration, cluster) for cluster in said["published"]["cluster"]],
        "stream": list(_streams(configuration, said)),
    }


WITH_AND_WITHOUT = ("preempting", "never")
"""What is studied where preemption itself is: `without_preemption` says what the second is."""


def routing_of(configuration: Configuration) -> str:
    """Say which policy routes: the one that is studied, or round robin where victims or preemption are."""
    is_routing = configuration.policy not in {*VICTIM_POLICIES, *WITH_AND_WITHOUT}
    return configuration.policy if is_routing else "rr"


def victims_of(configuration: Configuration) -> dict[str, Any]:
    """Say who gives way: by MOML within the least valuable lease types, or by the policy that is studied."""
    is_studied = configuration.policy in VICTIM_POLICIES
    return {"victims": configuration.policy if is_studied else "moml", "value_order": not is_studied}


def _cluster(configuration: Configuration, cluster: Mapping[str, Any]) -> dict[str, Any]:
    reading = configuration.reading
    return {**cluster, "speed_mips": reading.reference_mips} if reading.same_speed else dict(cluster)


def _streams(configuration: Configuration, said: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the stream of each cluster, then the external one."""
    reading, usual_per_s = configuration.reading, said["published"]["local_per_s"]
    for site, alpha in reading.local_alphas.items():
        stream = said["stream"][site] | {"alpha": alpha * usual_per_s / configuration.local_per_s}
        yield {"name": site, "site": site, "model": "das2", **in_seconds(stream, reading.unit_s)}
    guests = in_seconds(said["stream"][GUESTS] | configuration.guests, reading.unit_s)
    yield {"name": GUESTS, "model": "das2", "types": configuration.types, **guests}


def in_seconds(stream: Mapping[str, float], unit_s: int) -> dict[str, float]:
    """Give a stream whose durations (a is a logarithm) and gaps have this unit, in seconds."""
    return {**stream, "a": stream["a"] + log(unit_s), "alpha": stream["alpha"] * unit_s}
