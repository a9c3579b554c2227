"""Snapshots as files, with the journal that followed: what is needed to decide the same again elsewhere.

A file is text, compressed where its name ends in ``.gz``; each line is one JSON document:

1. the header: format, version, and the SHA-256 of the next line;
2. the snapshot (`leasehold.forecasting.snapshot.Snapshot`);
3. one line for each instant that followed: its time, what the gateway was told besides events before it
   (`leasehold.gateway.gateway.Told`), the events, and the effects that it returned, in the fields of their classes.

A file is read with the types that its classes declare, and anything else is refused in one line.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from leasehold import __version__
from leasehold.forecasting.snapshot import Snapshot
from leasehold.gateway.gateway import Told
from leasehold.model.coallocation import CoAllocation
from leasehold.model.effect import Effect
from leasehold.model.errors import InputError
from leasehold.model.event import Event
from leasehold.model.lease import Lease

FORMAT = "leasehold-snapshot"
VERSION = 2

_EVENTS: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}
_TOLD: dict[str, type] = {kind.__name__: kind for kind in get_args(Told)}
_LEASE_SHOWN = (
    *("id", "state", "site", "vms", "reserved_ms", "span_ms", "held_since_ms", "overhead_ms", "work_left"),
    *("incarnation", "preemptions", "migrations", "overhead_vm_ms"),
)
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Instant:
    """What happened at one time: the events that the gateway was told, and the effects that it returned, as JSON.

    ``told`` is what it was told besides events since the instant before.
    """

    at_ms: int
    events: tuple[Json, ...]
    effects: tuple[Json, ...]
    told: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """A snapshot, and the instants that followed it, in order; there may be none."""

    snapshot: Snapshot
    instants: tuple[Instant, ...] = ()


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def write_events(events: Iterable[Event]) -> tuple[Json, ...]:
    """Give events as JSON, each with the name of its class."""
    return tuple({"event": type(one).__name__, **_fields_of(one, type(one))} for one in events)


def _fields_of(one: object, kind: type) -> Json:
    found: Json = _adapter(kind).dump_python(one, mode="json")
    return found


def read_event(event: Mapping[str, Any]) -> Event:
    """Make an event of its JSON; raises ValidationError or KeyError for what is none."""
    rest = {key: value for key, value in event.items() if key != "event"}
    made: Event = _adapter(_EVENTS[event["event"]]).validate_json(json.dumps(rest), strict=True)
    return made


def write_told(told: Iterable[Told]) -> tuple[Json, ...]:
    """Give what a gateway was told besides events as JSON, each with the name of its class."""
    return tuple({"told": type(one).__name__, **_fields_of(one, type(one))} for one in told)


def read_told(told: Mapping[str, Any]) -> Told:
    """Make of its JSON what a gateway was told; raises ValidationError or KeyError for what is none."""
    rest = {key: value for key, value in told.items() if key != "told"}
    made: Told = _adapter(_TOLD[told["told"]]).validate_json(json.dumps(rest), strict=True)
    return made


def write_effects(effects: Iterable[Effect]) -> tuple[Json, ...]:
    """Give effects as JSON: everything that was decided, and leases as they are after it."""
    return tuple(
        {"effect": type(one).__name__, **{field.name: _plain(getattr(one, field.name)) for field in fields(one)}}
        for one in effects
    )


def _plain(value: object) -> object:
    if isinstance(value, Lease):
        return {name: _plain(getattr(value, name)) for name in _LEASE_SHOWN}
    if isinstance(value, CoAllocation):
        return {"id": value.id, "state": value.state.value, "start_ms": value.start_ms}
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value


def snapshot_bytes(snapshot: Snapshot) -> bytes:
    """Give a snapshot as JSON, in one line; equal snapshots give equal bytes."""
    return _adapter(Snapshot).dump_json(snapshot)


def snapshot_of(data: bytes, where: object = "snapshot") -> Snapshot:
    """Read what `snapshot_bytes` gave; raises InputError that names the first field that is wrong."""
    try:
        snapshot: Snapshot = _adapter(Snapshot).validate_json(data, strict=True)
    except ValidationError as error:
        raise InputError(where, 2, _first(error)) from None
    return snapshot


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    field = ".".join(map(str, problem["loc"])) or "the snapshot"
    message = problem["msg"]
    return f"{field}: {message[0].lower()}{message[1:]}"


def content(recording: Recording) -> bytes:
    """Give what is in a file, uncompressed."""
    body = snapshot_bytes(recording.snapshot)
    header = {"format": FORMAT, "version": VERSION, "leasehold": __version__, "sha256": sha256(body).hexdigest()}
    lines = [json.dumps(header).encode(), body, *map(_instant_bytes, recording.instants)]
    return b"\n".join(lines) + b"\n"


def write(path: Path, recording: Recording) -> None:
    """Write a file, whole or not at all; raises InputError where that cannot be done."""
    write_content(path, content(recording))


def write_content(path: Path, data: bytes) -> None:
    """Write what `content` gave, elsewhere; raises InputError where that cannot be done."""
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        draft.replace(path)
    except OSError as error:
        raise InputError(path, None, f"cannot be written: {error.strerror}") from None


def _instant_bytes(instant: Instant) -> bytes:
    plain = {"at_ms": instant.at_ms, "told": instant.told, "events": instant.events, "effects": instant.effects}
    return json.dumps(plain).encode()


def read(path: Path) -> Recording:
    """Read a file; raises InputError, in one line with the line of the file, for anything that is wrong with it."""
    lines = _lines(path)
    header = _header(path, next(lines, b""))
    body = next(lines, b"")
    if sha256(body).hexdigest() != header["sha256"]:
        raise InputError(path, 2, "the snapshot was changed or cut off: its SHA-256 is not that of the header")
    instants = tuple(_instant(path, number, line) for number, line in enumerate(lines, 3))
    return Recording(snapshot_of(body, path), instants)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error):
        raise InputError(path, None, "cannot be decompressed: it was cut off or changed") from None
    return iter(data.splitlines())


def _header(path: Path, line: bytes) -> Json:
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(path, 1, f"not a snapshot, expected a header with format {FORMAT!r}")
    if header.get("version") != VERSION:
        raise InputError(path, 1, f"version {header.get('version')!r} of the format, expected {VERSION}")
    if not isinstance(header.get("sha256"), str):
        raise InputError(path, 1, "header without the SHA-256 of the snapshot")
    return header


def _instant(path: Path, number: int, line: bytes) -> Instant:
    what = "event"
    try:
        found = json.loads(line)
        instant = Instant(found["at_ms"], tuple(found["events"]), tuple(found["effects"]), tuple(found["told"]))
        if type(instant.at_ms) is not int:
            raise InputError(path, number, "at_ms: expected whole milliseconds")
        for event in instant.events:
            read_event(event)
        what = "told"
        for told in instant.told:
            read_told(told)
    except ValidationError as error:
        raise InputError(path, number, f"{what}: {_first(error)}") from None
    except (ValueError, TypeError, KeyError):
        raise InputError(path, number, "not an instant, expected at_ms, told, events and effects") from None
    return instant


def told_in(instant: Instant) -> list[Told]:
    """Make what was told before an instant; as valid as the file was when it was read."""
    return [read_told(told) for told in instant.told]


def events_of(instant: Instant) -> list[Event]:
    """Make the events of an instant; as valid as the file was when it was read."""
    return [read_event(event) for event in instant.events]


def same(found: Sequence[Json], expected: Sequence[Json]) -> bool:
    """Whether two lists of effects are equal to the bit, as they are written."""
    return json.dumps(found) == json.dumps(expected)
