"""Scenarios from plain data, from files and by name; keys set from outside; and written in one normal form."""

import copy
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from leasehold.configuration import toml
from leasehold.configuration.agreements import read_agreements
from leasehold.configuration.keys import Keys
from leasehold.configuration.tables import GATEWAY, SHARING_OF_RUN, read_domains
from leasehold.configuration.terms import ClusterTerms, read_terms
from leasehold.configuration.times import RunTime
from leasehold.configuration.toml import TomlFile, read_toml
from leasehold.model.agreement import MILLION
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.simulation.scenario.events import (
    FAILURES,
    USERS,
    check_kinds,
    check_timeline,
    read_starts,
    read_timeline,
)
from leasehold.simulation.scenario.jobs import read_jobs, read_nodes
from leasehold.simulation.scenario.sites import check_agreements
from leasehold.simulation.scenario.spec import (
    CLUSTER,
    FORMATS,
    LOG_STREAM,
    MADE_CLUSTERS,
    MIX,
    MODEL_STREAM,
    PEAK,
    SCENARIO,
    SIZE_RULES,
    WINDOW,
    ClusterSpec,
    LogStream,
    LogWindow,
    ModelStream,
    Scenario,
    StreamSpec,
    among,
)
from leasehold.simulation.workload.das2 import PARAMETER_NAMES, Das2Parameters
from leasehold.simulation.workload.interpretation import NODE
from leasehold.simulation.workload.lease_mix import EVEN_MIX
from leasehold.simulation.workload.together import TOGETHER, StreamCoAllocations

MODELS = ("das2",)
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
        streams=tuple(_read_stream(table, clusters) for table in keys.tables("stream")),
        clusters=clusters,
        gateway=GATEWAY.read(keys.table("gateway")),
        defaults=defaults,
        domains=read_domains(keys),
        agreements=read_agreements(keys, RunTime(sharing.starts_at_ms)),
        sharing=sharing,
        timeline=read_timeline(keys, RunTime(sharing.starts_at_ms)),
        jobs=read_jobs(keys),
    )
    keys.done()
    return _fitting(scenario)


def _fitting(scenario: Scenario) -> Scenario:
    """Check what concerns more than one key."""
    if not scenario.streams and not scenario.jobs:
        raise InvalidField("stream", None, "at least one [[stream]]")
    if scenario.jobs and not any(cluster.nodes for cluster in scenario.clusters):
        raise InvalidField("job", None, "a cluster with [[cluster.nodes]] for the jobs to run on")
    with_nodes = {cluster.name for cluster in scenario.clusters if cluster.nodes}
    for index, entry in enumerate(scenario.timeline):
        if entry.kind == "node-failure" and entry.site in with_nodes:
            raise InvalidField(f"timeline[{index}].site", entry.site, "a cluster without [[cluster.nodes]]")
    _check_different("stream", [stream.name for stream in scenario.streams])
    _check_different("cluster", [cluster.name for cluster in scenario.clusters])
    if not scenario.clusters and not any(_makes_clusters(stream) for stream in scenario.streams):
        raise InvalidField("cluster", None, "at least one [[cluster]], or a stream with cluster_by")
    _check_images(scenario)
    if scenario.horizon_ms is None and any(isinstance(s, ModelStream) for s in scenario.streams):
        raise InvalidField("horizon_s", None, _NEEDS_HORIZON)
    if not any(_makes_clusters(stream) for stream in scenario.streams):
        managed = [one.name for one in scenario.clusters if one.manager_delay_ms is not None]
        check_kinds(scenario.timeline, managed)
        names = {"site": [one.name for one in scenario.clusters], "stream": [one.name for one in scenario.streams]}
        check_timeline(scenario.timeline, names)
        check_agreements(scenario)  # otherwise once the logs have named the clusters
    return scenario


def _check_images(scenario: Scenario) -> None:
    there = sorted({image for cluster in scenario.clusters for image in cluster.images})
    for index, stream in enumerate(scenario.streams):
        if stream.image and not stream.has_externals:
            raise InvalidField(
                f"stream[{index}].image", stream.image, "requests from outside: a site's own users have its machines"
            )
        if stream.image and not there:
            raise InvalidField(f"stream[{index}].image", stream.image, "none: no cluster has images")
        if stream.image and stream.image not in there:
            raise UnknownName(f"stream[{index}].image", stream.image, there)


def _makes_clusters(stream: StreamSpec) -> bool:
    return not isinstance(stream, ModelStream) and stream.cluster_by is not None


def _check_different(kind: str, names: list[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidField(f"{kind}[{index}].name", name, f"a name that no other {kind} has")


def _read_cluster(keys: Keys, defaults: ClusterTerms) -> ClusterSpec:
    own = CLUSTER.values(keys)
    failures = FAILURES.read(keys.table("failures")) if "failures" in keys else keys.take("failures", None)
    starts = read_starts(keys.table("starts")) if "starts" in keys else keys.take("starts", None)
    if own["peer_ask"] and own["manager_delay_ms"] is None:
        raise InvalidField(keys.where("peer_ask"), own["peer_ask"], "manager_delay_s beside it")
    if own["manager_delay_ms"] is not None:
        for name, value in (("starts", starts), ("failures", failures), ("native_order", own["native_order"])):
            if value:
                raise InvalidField(keys.where(name), name, "nothing beside manager_delay_s")
    if starts is not None and own["native_order"]:
        expected = "nothing beside starts: the cluster's scheduler says when its jobs start"
        raise InvalidField(keys.where("native_order"), own["native_order"], expected)
    nodes = read_nodes(keys)
    own["slots"] = _size(keys, own, sum(kind.cores * kind.count for kind in nodes))
    for name, value in (("failures", failures), ("starts", starts), ("manager_delay_s", own["manager_delay_ms"])):
        if nodes and value:
            raise InvalidField(keys.where(name), name, "nothing beside [[cluster.nodes]]")
    return ClusterSpec(**own, terms=read_terms(keys, defaults), failures=failures, starts=starts, nodes=nodes)


def _size(keys: Keys, own: dict[str, Any], cores: int) -> int | str:
    """Say how large a cluster is: as it states, or as its nodes have cores where it is planned by these."""
    stated: int | str = own["slots"]
    if own["plan"] == "slots":
        return stated or keys.whole_or_name("slots", SIZE_RULES)  # raises: it is missing
    if not cores:
        raise InvalidField(keys.where("plan"), "nodes", "[[cluster.nodes]] beside it")
    if stated not in ("", cores):
        raise InvalidField(keys.where("slots"), stated, f"nothing beside plan = nodes, which has {cores}")
    if own["native_order"] or own["peer_ask"]:
        raise InvalidField(keys.where("plan"), "nodes", "slots beside native_order or peer_ask")
    return cores


def _read_stream(keys: Keys, clusters: Sequence[ClusterSpec]) -> StreamSpec:
    names = [cluster.name for cluster in clusters]
    kinds = [kind for kind in ("log", "model") if kind in keys]
    if len(kinds) != 1:
        found = " and ".join(kinds) or None
        raise InvalidField(keys.where("log"), found, 'either log = "file" or model = "das2"')
    stream = _log(keys, names) if kinds == ["log"] else _model(keys, names)
    together = _together(keys, names, has_externals=stream.has_externals)
    for key, value in (("domain", stream.domain), ("claims", stream.claims)):
        if together is not None and value:
            expected = "nothing: co-allocations are not bound, and claim nothing"
            raise InvalidField(keys.where(key), value, expected)
    users = USERS.read(keys.table("users")) if "users" in keys else keys.take("users", None)
    keys.done()
    return replace(stream, together=together, users=users)


def _model(keys: Keys, clusters: Sequence[str]) -> ModelStream:
    keys.name_of("model", MODELS)
    parameters = {key: keys.number(key) for key in PARAMETER_NAMES}
    if "longest_s" in keys:
        parameters["longest_s"] = keys.number("longest_s")
    with keys.inside():
        Das2Parameters.named(parameters)
    stream = ModelStream(**among(MODEL_STREAM, clusters).values(keys), parameters=parameters)
    return replace(stream, mix=MIX.take(keys)) if stream.has_externals else stream


def _log(keys: Keys, clusters: Sequence[str]) -> LogStream:
    values = among(LOG_STREAM, clusters).values(keys)
    path = Path(values["path"])
    values["format"] = values["format"] or format_of(path)
    if values["format"] is None:
        expected = f"one of {', '.join(FORMATS)}, since the name {path.name} does not say"
        raise InvalidField(keys.where("format"), None, expected)
    stream = LogStream(**values)
    if stream.replay_cancelled and stream.format == "gwf":
        expected = "a log that says which jobs were cancelled: SWF, or a table in Parquet"
        raise InvalidField(keys.where("replay_cancelled"), True, expected)  # noqa: FBT003 - the value
    if stream.reading.vm == NODE and stream.format != "parquet":
        raise InvalidField(keys.where("vm"), NODE, "processor: only a table in Parquet states nodes")
    _check_whose(keys, stream)
    return replace(
        stream,
        slots=PEAK if stream.cluster_by is None else MADE_CLUSTERS.values(keys)["slots"],
        mix=MIX.take(keys) if stream.has_externals else EVEN_MIX,
        window=_window(keys, LogWindow(from_zero=stream.format != "swf")),
    )


def _together(keys: Keys, clusters: Sequence[str], *, has_externals: bool) -> StreamCoAllocations | None:
    """Read ``together``, None where it is absent; files are at one of these clusters."""
    if "together" not in keys:
        keys.take("together", None)
        return None
    place, table = keys.where("together"), keys.table("together")
    if not has_externals:
        raise InvalidField(place, "together", "nothing here: only requests from outside can be co-allocations")
    together = TOGETHER.read(table)
    if round(together.claim_part * MILLION) == MILLION:
        expected = "a part of the time to the start, less than 1"
        raise InvalidField(table.where("claim_part"), together.claim_part, expected)
    for name in together.files:
        if name not in clusters:
            raise UnknownName(f"{table.where('files')}.{name}", name, clusters)
    return together


def format_of(path: Path) -> str | None:
    """Tell the format of a log by its name, ``.gz`` left out; None where it does not tell."""
    suffix = Path(path.name.removesuffix(".gz")).suffix.removeprefix(".").lower()
    return suffix if suffix in FORMATS else None


def _check_whose(keys: Keys, stream: LogStream) -> None:
    """Reject a log whose jobs have no owner, or more than one."""
    answers = {"site": stream.site, "cluster_by": stream.cluster_by, "external": stream.external is True}
    present = [key for key, value in answers.items() if value]
    if len(present) != 1:
        expected = 'exactly one of site = "a cluster", cluster_by = "a field" and external = true'
        raise InvalidField(keys.where("site"), " and ".join(present) or None, expected)


def _window(keys: Keys, default: LogWindow) -> LogWindow:
    window = WINDOW.take(keys, default)
    if window.end_ms is not None and window.end_ms <= window.begin_ms:
        raise InvalidField(keys.where("end_s"), window.end_ms / 1000, "a time after begin_s")
    return window


_FORM = "key=value, as in gateway.policy=rr or cluster.NAME.slots=64"
EVERY = "*"
"""Instead of a name: all clusters, or all streams."""


def parse_assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Read ``key=value`` texts; a value that is not valid TOML is read as text.

    Raises InvalidField for a text without key or value.
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise InvalidField("--set", text, _FORM)
        found[key.strip()] = _value(value.strip())
    return found


def _value(text: str) -> object:
    try:
        values = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return text
    return values["value"] if len(values) == 1 else text


def overridden(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a scenario with these set over them.

    A key is ``key``, ``table.key``, or ``cluster.NAME.key`` and ``stream.NAME.key``, where the name ``*`` is
    every one. Raises UnknownName for a cluster or stream that is not there.
    """
    result = copy.deepcopy(dict(values))
    for key, value in overrides.items():
        first, _, rest = key.partition(".")
        if first in ("cluster", "stream") and rest:
            _set_in_list(result, first, rest, value)
        else:
            _set(result, key, key, value)
    return result


def _set_in_list(values: dict[str, Any], kind: str, rest: str, value: object) -> None:
    tables = values.get(kind)
    tables = [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []
    named = {str(table.get("name")): table for table in tables}
    # a name may contain dots itself: the longest one that fits is meant
    fitting = [name for name in [EVERY, *named] if rest.startswith(f"{name}.")]
    if not fitting:
        raise UnknownName(f"--set {kind}", rest.rpartition(".")[0] or rest, [EVERY, *named])
    name = max(fitting, key=len)
    key = rest[len(name) + 1 :]
    for table in named.values() if name == EVERY else [named[name]]:
        _set(table, key, f"{kind}.{rest}", value)


def _set(table: dict[str, Any], key: str, place: str, value: object) -> None:
    first, dot, rest = key.partition(".")
    if not dot:
        table[first] = value
        return
    below = table.setdefault(first, {})
    if not isinstance(below, dict):
        raise InvalidField(f"--set {place}", value, f"a key within a table, which {first} is not")
    _set(below, rest, place, value)


def load_scenario(path: Path, overrides: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario file; ``overrides`` are set over its keys (see `overrides`).

    Raises InputError with file and line, or InvalidField for an override.
    """
    file = read_toml(path)
    if not overrides:
        return _parsed(file)
    try:
        return scenario_from_dict(overridden(file.values, overrides), path.parent)
    except InvalidField:
        _parsed(file)  # if the file is wrong by itself, that is what to say
        raise


def _parsed(file: TomlFile) -> Scenario:
    with file.naming_lines():
        return scenario_from_dict(file.values, file.path.parent)


def to_toml(scenario: Scenario) -> str:
    """Write a scenario as a file, complete: `load_scenario` reads the same one from it."""
    return toml.to_toml(scenario.to_dict())


def packaged_names() -> list[str]:
    """List their names."""
    return sorted(path.stem for path in _packaged_folder().glob("*.toml"))


def packaged_path(name: str) -> Path:
    """Find the file of one; raises UnknownName."""
    if name not in packaged_names():
        raise UnknownName("scenario", name, packaged_names())
    return _packaged_folder() / f"{name}.toml"


def _packaged_folder() -> Path:
    return Path(str(files("leasehold"))) / "scenarios"
