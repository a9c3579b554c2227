"""From the keys of a scenario, however they came, to a `Scenario`; every one checked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leasehold.configuration.agreements import read_agreements
from leasehold.configuration.keys import Keys
from leasehold.configuration.tables import GATEWAY, SHARING_OF_RUN, read_domains
from leasehold.configuration.terms import ClusterTerms, read_terms
from leasehold.configuration.times import RunTime
from leasehold.model.agreement import MILLION
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.simulation.scenario.agreed import check_agreements
from leasehold.simulation.scenario.spec import (
    CLUSTER,
    FORMATS,
    LOG_STREAM,
    MADE_CLUSTERS,
    MIX,
    MODEL_STREAM,
    PEAK,
    SCENARIO,
    WINDOW,
    ClusterSpec,
    LogStream,
    ModelStream,
    Scenario,
    StreamSpec,
    Window,
    among,
)
from leasehold.simulation.workload.das2 import PARAMETER_NAMES, Das2Parameters
from leasehold.simulation.workload.lease_mix import EVEN_MIX
from leasehold.simulation.workload.together import TOGETHER, Together

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
    keys.done()
    return replace(stream, together=together)


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
    _check_whose(keys, stream)
    return replace(
        stream,
        slots=PEAK if stream.cluster_by is None else MADE_CLUSTERS.values(keys)["slots"],
        mix=MIX.take(keys) if stream.has_externals else EVEN_MIX,
        window=_window(keys, Window(from_zero=stream.format == "gwf")),
    )


def _together(keys: Keys, clusters: Sequence[str], *, has_externals: bool) -> Together | None:
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
    """Refuse a log of which nobody knows whose jobs it has, or which has two answers."""
    answers = {"site": stream.site, "cluster_by": stream.cluster_by, "external": stream.external is True}
    present = [key for key, value in answers.items() if value]
    if len(present) != 1:
        expected = 'exactly one of site = "a cluster", cluster_by = "a field" and external = true'
        raise InvalidField(keys.where("site"), " and ".join(present) or None, expected)


def _window(keys: Keys, default: Window) -> Window:
    window = WINDOW.take(keys, default)
    if window.end_ms is not None and window.end_ms <= window.begin_ms:
        raise InvalidField(keys.where("end_s"), window.end_ms / 1000, "a time after begin_s")
    return window
