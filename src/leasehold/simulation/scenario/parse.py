"""From the keys of a scenario, however they came, to a `Scenario`; every one checked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leasehold.configuration.agreements import read_agreements
from leasehold.configuration.domains import read_domains
from leasehold.configuration.gateway import read_gateway
from leasehold.configuration.keys import MOST_SEED, MOST_SLOTS, Keys
from leasehold.configuration.moments import RunTime
from leasehold.configuration.resources import read_resources
from leasehold.configuration.sharing import read_sharing_of_run
from leasehold.configuration.terms import ClusterTerms, read_terms
from leasehold.model.errors import InvalidField
from leasehold.simulation.scenario.agreed import check_agreements
from leasehold.simulation.scenario.parse_stream import parse_stream
from leasehold.simulation.scenario.spec import (
    DEFAULT_SEED,
    TOO_WIDE,
    ClusterSpec,
    ModelStream,
    Scenario,
    StreamSpec,
)
from leasehold.simulation.workload.sizing import SIZE_RULES

_NEEDS_HORIZON = "a number of seconds: the DAS-2 model never ends"


def scenario_from_dict(values: Mapping[str, Any], folder: Path = Path()) -> Scenario:
    """Check the keys of a scenario; paths of logs and policies in it count from ``folder``.

    Raises InvalidField or UnknownName with the place of the key as field, InputError for a policy's file.
    """
    keys = Keys(values)
    reference_mips = keys.whole("reference_mips", 1)
    defaults = read_terms(keys.table("defaults"), ClusterTerms(speed_mips=reference_mips), folder)
    clusters = tuple(_cluster(table, defaults, folder) for table in keys.tables("cluster"))
    streams = tuple(parse_stream(table, folder, clusters) for table in keys.tables("stream"))
    sharing = read_sharing_of_run(keys.table("sharing"))
    scenario = Scenario(
        name=keys.text("name"),
        streams=streams,
        clusters=clusters,
        gateway=read_gateway(keys.table("gateway"), folder),
        defaults=defaults,
        seed=keys.whole("seed", DEFAULT_SEED, least=0, most=MOST_SEED),
        horizon_ms=keys.milliseconds("horizon_s", None, least_ms=1),
        drain=keys.flag("drain", default=True),
        too_wide=keys.name_of("too_wide", TOO_WIDE, "error"),
        reference_mips=reference_mips,
        title=keys.text("title", ""),
        domains=read_domains(keys),
        agreements=read_agreements(keys, RunTime(sharing.starts_at_ms)),
        sharing=sharing,
    )
    keys.done()
    return _fitting(scenario)


def _fitting(scenario: Scenario) -> Scenario:
    """Check what concerns more than one key."""
    if not scenario.streams:
        raise InvalidField("stream", None, "at least one [[stream]]")
    _check_different("stream", [stream.name for stream in scenario.streams])
    _check_different("cluster", [cluster.name for cluster in scenario.clusters])
    if not scenario.clusters and not any(_makes_clusters(stream) for stream in scenario.streams):
        raise InvalidField("cluster", None, "at least one [[cluster]], or a stream with cluster_by")
    if scenario.horizon_ms is None and any(isinstance(s, ModelStream) for s in scenario.streams):
        raise InvalidField("horizon_s", None, _NEEDS_HORIZON)
    if not any(_makes_clusters(stream) for stream in scenario.streams):
        check_agreements(scenario)  # otherwise when the logs have told which clusters there are
    return scenario


def _makes_clusters(stream: StreamSpec) -> bool:
    return not isinstance(stream, ModelStream) and stream.cluster_by is not None


def _check_different(kind: str, names: list[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidField(f"{kind}[{index}].name", name, f"a name that no other {kind} has")


def _cluster(keys: Keys, defaults: ClusterTerms, folder: Path) -> ClusterSpec:
    name, slots = keys.text("name"), keys.whole_or_name("slots", SIZE_RULES, most=MOST_SLOTS)
    resources = read_resources(keys)
    return ClusterSpec(name, slots, read_terms(keys, defaults, folder), resources)
