"""From the keys of a scenario, however they came, to a `Scenario`; every one checked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leasehold.configuration.agreements import read_agreements
from leasehold.configuration.keys import Keys
from leasehold.configuration.tables import GATEWAY, SHARING_OF_RUN, read_domains
from leasehold.configuration.terms import ClusterTerms, read_terms
from leasehold.configuration.times import RunTime
from leasehold.model.errors import InvalidField
from leasehold.simulation.scenario.agreed import check_agreements
from leasehold.simulation.scenario.parse_stream import parse_stream
from leasehold.simulation.scenario.spec import (
    CLUSTER,
    SCENARIO,
    ClusterSpec,
    ModelStream,
    Scenario,
    StreamSpec,
)

_NEEDS_HORIZON = "a number of seconds: the DAS-2 model never ends"


def scenario_from_dict(values: Mapping[str, Any], folder: Path = Path()) -> Scenario:
    """Check the keys of a scenario; paths of logs and policies in it count from ``folder``.

    Raises InvalidField or UnknownName with the place of the key as field, InputError for a policy's file.
    """
    keys = Keys(values, folder=folder)
    own = SCENARIO.values(keys)
    defaults = read_terms(keys.table("defaults"), ClusterTerms(speed_mips=own["reference_mips"]))
    clusters = tuple(_read_cluster(table, defaults) for table in keys.tables("cluster"))
    sharing = SHARING_OF_RUN.read(keys.table("sharing"))
    scenario = Scenario(
        **own,
        streams=tuple(parse_stream(table, clusters) for table in keys.tables("stream")),
        clusters=clusters,
        gateway=GATEWAY.read(keys.table("gateway")),
        defaults=defaults,
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


def _read_cluster(keys: Keys, defaults: ClusterTerms) -> ClusterSpec:
    own = CLUSTER.values(keys)
    return ClusterSpec(**own, terms=read_terms(keys, defaults))
