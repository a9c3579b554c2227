"""From the keys of one ``[[stream]]`` to a `StreamSpec`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from leasehold.configuration.keys import MOST_ENTRIES, MOST_SLOTS, Keys
from leasehold.model.agreement import MILLION
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LEASE_TYPES
from leasehold.simulation.scenario.spec import (
    LOG_STREAM,
    MODEL_STREAM,
    WINDOW,
    ClusterSpec,
    LogStream,
    ModelStream,
    StreamSpec,
    Window,
)
from leasehold.simulation.workload.das2 import PARAMETER_NAMES, Das2Parameters
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix
from leasehold.simulation.workload.log_record import ID_FIELDS
from leasehold.simulation.workload.sizing import SIZE_RULES
from leasehold.simulation.workload.together import TOGETHER, Together

FORMATS = ("swf", "gwf")
MODELS = ("das2",)
PEAK = "peak"


def parse_stream(keys: Keys, clusters: Sequence[ClusterSpec]) -> StreamSpec:
    """Check the keys of a stream; raises InvalidField or UnknownName with the place of the key as field."""
    named = [cluster.name for cluster in clusters]
    site = keys.name_of("site", named, None)
    kinds = [kind for kind in ("log", "model") if kind in keys]
    if len(kinds) != 1:
        found = " and ".join(kinds) or None
        raise InvalidField(keys.where("log"), found, 'either log = "file" or model = "das2"')
    stream = _log(keys, site) if kinds == ["log"] else _model(keys, site)
    together = _together(keys, named, has_externals=stream.has_externals)
    for key, value in (("domain", stream.domain), ("claims", stream.claims)):
        if together is not None and value:
            expected = "nothing: joint requests are not bound, and claim nothing"
            raise InvalidField(keys.where(key), value, expected)
    keys.done()
    return replace(stream, together=together)


def _model(keys: Keys, site: str | None) -> ModelStream:
    keys.name_of("model", MODELS)
    parameters = {key: keys.number(key) for key in PARAMETER_NAMES}
    if "longest_s" in keys:
        parameters["longest_s"] = keys.number("longest_s")
    with keys.inside():
        Das2Parameters.named(parameters)
    mix = _mix(keys) if site is None else EVEN_MIX
    return ModelStream(**MODEL_STREAM.values(keys), parameters=parameters, site=site, mix=mix)


def _log(keys: Keys, site: str | None) -> LogStream:
    path = (keys.folder / keys.text("log")).resolve()
    log_format = keys.name_of("format", FORMATS, None) or format_of(path)
    if log_format is None:
        expected = f"one of {', '.join(FORMATS)}, since the name {path.name} does not say"
        raise InvalidField(keys.where("format"), None, expected)
    cluster_by = keys.name_of("cluster_by", ID_FIELDS, None)
    everything, some = _external(keys)
    _check_whose(keys, site, cluster_by, everything)
    return LogStream(
        **LOG_STREAM.values(keys),
        path=str(path),
        format=log_format,
        site=site,
        cluster_by=cluster_by,
        external=everything,
        external_where=some,
        slots=PEAK if cluster_by is None else keys.whole_or_name("slots", SIZE_RULES, PEAK, most=MOST_SLOTS),
        mix=_mix(keys) if everything or some else EVEN_MIX,
        window=_window(keys, Window(from_zero=log_format == "gwf")),
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


def _external(keys: Keys) -> tuple[bool, dict[str, tuple[str, ...]]]:
    """Read ``external``: true, or for fields of the log the values that come from outside."""
    value = keys.take("external", False)  # noqa: FBT003 - the value of a key of a file
    if isinstance(value, bool):
        return value, {}
    place = keys.where("external")
    if not isinstance(value, Mapping) or not value:
        raise InvalidField(place, value, "true, or a table such as {group = [2, 5]}")
    fields = Keys(value, place)
    chosen = {name: _values(fields, name) for name in ID_FIELDS if name in fields}
    for name in ID_FIELDS:
        fields.take(name, None)
    fields.done()
    return False, chosen


def _values(fields: Keys, name: str) -> tuple[str, ...]:
    """Read the values of a field of the log: numbers or names."""
    values = fields.take(name)
    plain = isinstance(values, list) and all(type(value) in (int, str) for value in values)
    if not plain or not 1 <= len(values) <= MOST_ENTRIES:
        raise InvalidField(fields.where(name), values, "a list of values of this field, such as [2, 5]")
    return tuple(str(value) for value in values)


def _check_whose(keys: Keys, site: str | None, cluster_by: str | None, everything: bool) -> None:  # noqa: FBT001
    """Refuse a log of which nobody knows whose jobs it has, or which has two answers."""
    present = [
        key for key, value in (("site", site), ("cluster_by", cluster_by), ("external", everything)) if value
    ]
    if len(present) != 1:
        expected = 'exactly one of site = "a cluster", cluster_by = "a field" and external = true'
        raise InvalidField(keys.where("site"), " and ".join(present) or None, expected)


def _window(keys: Keys, default: Window) -> Window:
    window = WINDOW.take(keys, default)
    if window.end_ms is not None and window.end_ms <= window.begin_ms:
        raise InvalidField(keys.where("end_s"), window.end_ms / 1000, "a time after begin_s")
    return window


def _mix(keys: Keys) -> LeaseMix:
    """Read ``types`` and ``slack``."""
    shares = EVEN_MIX.shares
    if "types" in keys:
        table = keys.table("types")
        stated = {kind: table.number(label, 0.0, 0, 1) for label, kind in LEASE_TYPES.items()}
        shares = {kind: share for kind, share in stated.items() if share > 0}
        table.done()
    with keys.at("types"):
        LeaseMix(shares)
    slack = keys.take("slack", list(EVEN_MIX.slack))
    if not isinstance(slack, list) or len(slack) != 2:  # noqa: PLR2004 - two bounds
        raise InvalidField(keys.where("slack"), slack, "two numbers, such as [1, 3]")
    with keys.at("slack"):
        return LeaseMix(shares, (slack[0], slack[1]))
