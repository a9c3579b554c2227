"""From the keys of one ``[[stream]]`` to a `StreamSpec`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leasehold.configuration.keys import Keys
from leasehold.model.agreement import MILLION
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.simulation.scenario.spec import (
    FORMATS,
    LOG_STREAM,
    MADE_CLUSTERS,
    MIX,
    MODEL_STREAM,
    PEAK,
    WINDOW,
    ClusterSpec,
    LogStream,
    ModelStream,
    StreamSpec,
    Window,
    among,
)
from leasehold.simulation.workload.das2 import PARAMETER_NAMES, Das2Parameters
from leasehold.simulation.workload.lease_mix import EVEN_MIX
from leasehold.simulation.workload.together import TOGETHER, Together

MODELS = ("das2",)


def parse_stream(keys: Keys, clusters: Sequence[ClusterSpec]) -> StreamSpec:
    """Check the keys of a stream; raises InvalidField or UnknownName with the place of the key as field."""
    names = [cluster.name for cluster in clusters]
    kinds = [kind for kind in ("log", "model") if kind in keys]
    if len(kinds) != 1:
        found = " and ".join(kinds) or None
        raise InvalidField(keys.where("log"), found, 'either log = "file" or model = "das2"')
    stream = _log(keys, names) if kinds == ["log"] else _model(keys, names)
    together = _together(keys, names, has_externals=stream.has_externals)
    for key, value in (("domain", stream.domain), ("claims", stream.claims)):
        if together is not None and value:
            expected = "nothing: joint requests are not bound, and claim nothing"
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
        raise InvalidField(
            place, "together", "nothing here: only requests from outside can be joint requests"
        )
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
