"""From the keys of a scenario, however they came, to a `Scenario`; every one checked."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from leasehold.leasing.disciplines import reservation_depth
from leasehold.leasing.overhead import OverheadModel, Storage
from leasehold.leasing.repair import REPAIRS
from leasehold.model.errors import InvalidField
from leasehold.simulation.scenario.keys import NOTHING, Keys
from leasehold.simulation.scenario.parse_stream import parse_stream
from leasehold.simulation.scenario.policies import absolute, find_routing_policy, find_victim_policy
from leasehold.simulation.scenario.spec import (
    DEFAULT_SEED,
    LOCAL_QUEUES,
    MOMENTS,
    TOO_WIDE,
    ClusterSpec,
    ClusterTerms,
    GatewaySpec,
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
    defaults = _terms(keys.table("defaults"), ClusterTerms(speed_mips=reference_mips), folder)
    clusters = tuple(_cluster(table, defaults, folder) for table in keys.tables("cluster"))
    streams = tuple(parse_stream(table, folder, clusters) for table in keys.tables("stream"))
    scenario = Scenario(
        name=keys.text("name"),
        streams=streams,
        clusters=clusters,
        gateway=_gateway(keys.table("gateway"), folder),
        defaults=defaults,
        seed=keys.whole("seed", DEFAULT_SEED, least=0),
        horizon_ms=keys.milliseconds("horizon_s", None, least_ms=1),
        drain=keys.flag("drain", default=True),
        too_wide=keys.name_of("too_wide", TOO_WIDE, "error"),
        reference_mips=reference_mips,
        title=keys.text("title", ""),
    )
    keys.done()
    return _fitting(scenario)


def _fitting(scenario: Scenario) -> Scenario:
    """Check what concerns more than one key."""
    if not scenario.streams:
        raise InvalidField("stream", NOTHING, "at least one [[stream]]")
    _check_different("stream", [stream.name for stream in scenario.streams])
    _check_different("cluster", [cluster.name for cluster in scenario.clusters])
    if not scenario.clusters and not any(_makes_clusters(stream) for stream in scenario.streams):
        raise InvalidField("cluster", NOTHING, "at least one [[cluster]], or a stream with cluster_by")
    if scenario.horizon_ms is None and any(isinstance(s, ModelStream) for s in scenario.streams):
        raise InvalidField("horizon_s", NOTHING, _NEEDS_HORIZON)
    return scenario


def _makes_clusters(stream: StreamSpec) -> bool:
    return not isinstance(stream, ModelStream) and stream.cluster_by is not None


def _check_different(kind: str, names: list[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidField(f"{kind}[{index}].name", name, f"a name that no other {kind} has")


def _gateway(keys: Keys, folder: Path) -> GatewaySpec:
    usual = GatewaySpec()
    policy = absolute(keys.text("policy", usual.policy), folder)
    with keys.at("policy"):
        find_routing_policy(policy)
    gateway = GatewaySpec(
        policy=policy,
        moments=keys.name_of("moments", MOMENTS, usual.moments),
        try_elsewhere=keys.flag("try_elsewhere", default=usual.try_elsewhere),
        tick_ms=keys.milliseconds("tick_s", usual.tick_ms, least_ms=1),
    )
    keys.done()
    return gateway


def _cluster(keys: Keys, defaults: ClusterTerms, folder: Path) -> ClusterSpec:
    name, slots = keys.text("name"), keys.whole_or_name("slots", SIZE_RULES)
    return ClusterSpec(name, slots, _terms(keys, defaults, folder))


def _terms(keys: Keys, usual: ClusterTerms, folder: Path) -> ClusterTerms:
    """Read the terms of a cluster, or those of all clusters, and refuse keys that are no terms."""
    victims = absolute(keys.text("victims", usual.victims), folder)
    with keys.at("victims"):
        find_victim_policy(victims)
    terms = ClusterTerms(
        speed_mips=keys.whole("speed_mips", usual.speed_mips),
        local_policy=_discipline(keys, "local_policy", usual.local_policy),
        guest_policy=_discipline(keys, "guest_policy", usual.guest_policy),
        victims=victims,
        value_order=keys.flag("value_order", default=usual.value_order),
        local_queue=keys.name_of("local_queue", LOCAL_QUEUES, usual.local_queue),
        non_preemptable_share=keys.number("non_preemptable_share", usual.non_preemptable_share, 0, 1),
        non_preemptable_max_ms=keys.milliseconds("non_preemptable_max_s", usual.non_preemptable_max_ms, 1),
        repair=keys.name_of("repair", REPAIRS, usual.repair),
        overhead=_overhead(keys.table("overhead"), usual.overhead),
    )
    keys.done()
    return terms


def _discipline(keys: Keys, key: str, usual: str) -> str:
    name = keys.text(key, usual)
    with keys.at(key):
        reservation_depth(name)
    return name


def _overhead(keys: Keys, usual: OverheadModel) -> OverheadModel:
    storage = Storage(keys.name_of("storage", list(Storage), usual.storage))
    numbers = {
        f.name: keys.take(f.name, getattr(usual, f.name))
        for f in fields(OverheadModel)
        if f.name != "storage"
    }
    keys.done()
    with keys.inside():
        return replace(usual, storage=storage, **numbers)
