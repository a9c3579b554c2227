"""A scenario around one workload log: its cluster (or clusters), its jobs at home, and guests if wished."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log2
from pathlib import Path
from typing import Any

from leasehold.model.errors import InvalidField
from leasehold.simulation.scenario.parse import overridden, scenario_from_dict
from leasehold.simulation.scenario.sources import open_blocks, with_sizes
from leasehold.simulation.scenario.spec import SIZE_RULES, ModelStream, Scenario
from leasehold.simulation.workload.das2 import Das2Parameters
from leasehold.simulation.workload.lease_mix import LeaseMix

MODEL = "das2"
_FEWEST_SLOTS = 8
_GUEST_SHARE = 0.2

TAKEN_BACK: dict[str, float] = {"cancelable": 0.25, "suspendable": 0.5, "migratable": 0.25}
"""Lease types of the guests of a log: all can be taken back, so that its own users notice nothing."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What is to be made of a log.

    ``procs``       slots of its cluster: a number, ``max-procs`` (what its header says) or ``peak``; where
                    clusters are made by ``cluster_by``, of each of them
    ``site``        name of the cluster, the log's own if it is empty
    ``cluster_by``  a field of the log: one cluster for each value
    ``guests``      where guests come from: another log, or ``das2`` for the model, at a fifth of all slots
    """

    procs: str = ""
    site: str = ""
    cluster_by: str | None = None
    guests: str | None = None


def scenario_for_log(
    path: Path, options: LogOptions = LogOptions(), overrides: Mapping[str, Any] | None = None
) -> Scenario:
    """Make the scenario; ``overrides`` are set over its keys as if it were a file.

    Raises InvalidField, UnknownName or InputError as for a scenario file.
    """
    values = overridden(_values(path, options), overrides or {})
    scenario = scenario_from_dict(values)
    if options.guests == MODEL:
        return _with_model_guests(with_sizes(scenario))
    return scenario


def _values(path: Path, options: LogOptions) -> dict[str, Any]:
    """Write down the keys of the scenario."""
    name = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    own: dict[str, Any] = {"name": "local", "log": str(path)}
    values: dict[str, Any] = {"name": name, "cluster": [], "stream": [own]}
    if options.cluster_by is not None:
        own |= {"cluster_by": options.cluster_by, "slots": _slots(options.procs or "peak")}
    else:
        own["site"] = options.site or name
        values["cluster"] = [{"name": own["site"], "slots": _slots(options.procs or "max-procs")}]
    if options.guests is not None and options.guests != MODEL:
        guests = {"name": "guests", "log": options.guests, "external": True, "types": TAKEN_BACK}
        values["stream"].append(guests)
    return values


def _slots(procs: str) -> int | str:
    if procs in SIZE_RULES:
        return procs
    if not procs.isdecimal() or int(procs) < 1:
        raise InvalidField("--procs", procs, f"a whole number of at least 1, or one of {', '.join(SIZE_RULES)}")
    return int(procs)


def _with_model_guests(scenario: Scenario) -> Scenario:
    """Add external requests of the DAS-2 model, until the log ends unless the scenario ends before."""
    slots = [int(cluster.slots) for cluster in scenario.clusters]
    parameters = _guest_parameters(max(slots), sum(slots))
    guests = ModelStream("guests", parameters, mix=LeaseMix.named(TAKEN_BACK))
    if scenario.horizon_ms is None:
        last_ms = max(int(block.submit_ms[-1]) for block in open_blocks(scenario, []))
        scenario = replace(scenario, horizon_ms=last_ms + 1)
    return replace(scenario, streams=(*scenario.streams, guests))


def _guest_parameters(widest: int, slots: int) -> dict[str, float]:
    """Take the external stream of JPDC 2012, section 5.2.2, cut to the clusters.

    Durations are as there; no request is wider than the widest cluster, and all of them together ask for a
    fifth of all slots.
    """
    if widest < _FEWEST_SLOTS:
        raise InvalidField("--guests", MODEL, f"a log for a cluster of fewer than {_FEWEST_SLOTS} slots")
    high = min(6.0, log2(widest))
    medium = max(high - 3.25, min(1.0, high - 1.5))
    sizes = {"l": min(0.8, medium / 2), "m": medium, "h": high, "q": 0.9, "p_one": 0.2, "p_pow2": 0.5}
    values = {**sizes, "a": 4.595, "b": 1.7, "alpha": 1.0, "beta": 0.5}
    once = Das2Parameters.named(values).moments()
    return {**values, "alpha": once.rate_per_s * once.mean_work_vm_s / (_GUEST_SHARE * slots)}
