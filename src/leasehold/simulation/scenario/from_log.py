"""A scenario around one workload log: its cluster (or clusters), its jobs at home, and guests if wished."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from itertools import chain
from math import log2
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from leasehold.model.errors import InvalidField
from leasehold.simulation.scenario.parse import format_of, overridden, scenario_from_dict
from leasehold.simulation.scenario.sources import open_blocks, with_sizes
from leasehold.simulation.scenario.spec import SIZE_RULES, ModelStream, Scenario
from leasehold.simulation.workload.das2 import Das2Parameters
from leasehold.simulation.workload.lease_mix import LeaseMix
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.log_table import LOG_TABLE, LogSummary, write_log
from leasehold.simulation.workload.mapping import LogMapping, mapped_records
from leasehold.simulation.workload.slurm import accounting_records

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
    ``guests``      where guests come from: another log, or ``das2`` for the model
    ``guest_share`` what the model's guests ask for, as a share of all slots
    ``external``    by fields of the log, the values of jobs that are guests themselves
    ``nodes``       ``[[cluster.nodes]]`` of its cluster, which is then planned by them
    ``name``        name of the run, that of the log if it is empty
    """

    procs: str = ""
    site: str = ""
    cluster_by: str | None = None
    guests: str | None = None
    guest_share: float = _GUEST_SHARE
    external: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nodes: Sequence[Mapping[str, Any]] = ()
    name: str = ""


def scenario_for_log(
    path: Path, options: LogOptions = LogOptions(), overrides: Mapping[str, Any] | None = None
) -> Scenario:
    """Make the scenario; ``overrides`` are set over its keys as if it were a file.

    Raises InvalidField, UnknownName or InputError as for a scenario file.
    """
    values = overridden(_values(path, options), overrides or {})
    scenario = scenario_from_dict(values)
    if not 0 < options.guest_share <= 1:
        raise InvalidField("--guest-share", options.guest_share, "a number above 0, of at most 1")
    if options.guests == MODEL:
        return _with_model_guests(with_sizes(scenario), options.guest_share)
    return scenario


def read_accounting(
    paths: Sequence[Path], folder: Path, zone: tzinfo, procs: int | None = None
) -> tuple[Path, LogSummary]:
    """Read Slurm accounting, in one file or in several that may overlap, into a table below ``folder``.

    Raises InputError, with file and line, for a file that is not accounting.
    """
    notes = ReadingNotes(", ".join(map(str, paths)))
    records = chain.from_iterable(accounting_records(path, zone, notes) for path in paths)
    return folder / LOG_TABLE, write_log(records, folder, notes, distinct=True, procs=procs)


def read_mapped(
    paths: Sequence[Path], mapping: LogMapping, folder: Path, zone: tzinfo, procs: int | None = None
) -> tuple[Path, LogSummary]:
    """Read a log in columns, in one file or in several, into a table below ``folder``; raises InputError as above."""
    notes = ReadingNotes(", ".join(map(str, paths)))
    records = chain.from_iterable(mapped_records(path, mapping, zone, notes) for path in paths)
    return folder / LOG_TABLE, write_log(records, folder, notes, distinct=False, procs=procs)


def zone_of(name: str) -> tzinfo:
    """Find a time zone; raises InvalidField for a name that is not known."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidField("--timezone", name, "a time zone such as Europe/Amsterdam") from None


def _values(path: Path, options: LogOptions) -> dict[str, Any]:
    """Write down the keys of the scenario."""
    name = options.name or path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    own: dict[str, Any] = {"name": "local", "log": str(path)}
    if format_of(path) == "parquet":
        own["size"] = "allocated"  # accounting knows what its jobs held
    if options.external:
        own |= {"external": {name: list(values) for name, values in options.external.items()}, "types": TAKEN_BACK}
    values: dict[str, Any] = {"name": name, "cluster": [], "stream": [own]}
    if options.cluster_by is not None:
        own |= {"cluster_by": options.cluster_by, "slots": _slots(options.procs or "peak")}
    else:
        own["site"] = options.site or name
        size: dict[str, Any] = {"slots": _slots(options.procs or "max-procs")}
        if options.nodes:
            own["vm"] = "node"
            size = {"plan": "nodes", "nodes": [dict(kind) for kind in options.nodes]}
            values["too_wide"] = "refuse"
        values["cluster"] = [{"name": own["site"], **size}]
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


def _with_model_guests(scenario: Scenario, share: float) -> Scenario:
    """Add external requests of the DAS-2 model, until the log ends unless the scenario ends before.

    Where clusters have enough GPUs, more of them want a GPU for each VM, as large a share of all GPUs.
    """
    slots = [int(cluster.slots) for cluster in scenario.clusters]
    mix = LeaseMix.named(TAKEN_BACK)
    guests = [ModelStream("guests", _guest_parameters(max(slots), sum(slots), share), mix=mix)]
    kinds = [(kind.gpus.count, kind.count) for one in scenario.clusters for kind in one.nodes if kind.gpus is not None]
    gpus = sum(each * many for each, many in kinds)
    if gpus >= _FEWEST_SLOTS:
        parameters = _guest_parameters(gpus, gpus, share)
        guests.append(ModelStream("gpu-guests", parameters, mix=mix, gpus=("", 1000)))
    if scenario.horizon_ms is None:
        last_ms = max(int(block.submit_ms[-1]) for block in open_blocks(scenario, []))
        scenario = replace(scenario, horizon_ms=last_ms + 1)
    return replace(scenario, streams=(*scenario.streams, *guests))


def _guest_parameters(widest: int, slots: int, share: float) -> dict[str, float]:
    """Take the external stream of JPDC 2012, section 5.2.2, cut to the clusters.

    Durations are as there; no request is wider than the widest cluster, and all of them together ask for this
    share of all slots.
    """
    if widest < _FEWEST_SLOTS:
        raise InvalidField("--guests", MODEL, f"a log for a cluster of fewer than {_FEWEST_SLOTS} slots")
    high = min(6.0, log2(widest))
    medium = max(high - 3.25, min(1.0, high - 1.5))
    sizes = {"l": min(0.8, medium / 2), "m": medium, "h": high, "q": 0.9, "p_one": 0.2, "p_pow2": 0.5}
    values = {**sizes, "a": 4.595, "b": 1.7, "alpha": 1.0, "beta": 0.5}
    once = Das2Parameters.named(values).moments()
    return {**values, "alpha": once.rate_per_s * once.mean_work_vm_s / (share * slots)}
