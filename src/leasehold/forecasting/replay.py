"""Decide again what was decided: a snapshot and the events that followed must give the same effects, to the bit.

And the same with other names, so that a recording can be sent to strangers (`anonymised`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leasehold.forecasting.file import (
    Instant,
    Json,
    Recording,
    events_of,
    same,
    snapshot_bytes,
    snapshot_of,
    told_in,
    write_effects,
    write_events,
    write_told,
)
from leasehold.forecasting.snapshot import Snapshot, rebuild
from leasehold.gateway.gateway import Gateway, Told
from leasehold.model.agreement import EVERYBODY
from leasehold.model.effect import Effect
from leasehold.model.errors import LeaseholdError
from leasehold.model.event import Event


class Recorder:
    """Keeps what a gateway was told and what it answered, from a snapshot on, up to a number of instants."""

    def __init__(self, snapshot: Snapshot, most_instants: int) -> None:
        """Begin right after a snapshot."""
        self.snapshot = snapshot
        self._most = most_instants
        self._instants: list[Instant] = []
        self._told: list[Told] = []

    @property
    def is_full(self) -> bool:
        """Whether nothing more is kept."""
        return len(self._instants) >= self._most

    def hear(self, told: Told) -> None:
        """Keep what a gateway is told besides events, before its next instant."""
        self._told.append(told)

    def note(self, events: Iterable[Event], effects: Iterable[Effect], now_ms: int) -> None:
        """Keep an instant, right after it was decided: effects show leases as they are then."""
        if not self.is_full:
            told = write_told(self._told)
            self._instants.append(Instant(now_ms, write_events(events), write_effects(effects), told))
        self._told.clear()

    def recording(self) -> Recording:
        """Give what was kept so far."""
        return Recording(self.snapshot, tuple(self._instants))


@dataclass(frozen=True, slots=True)
class Difference:
    """The first decision that came out otherwise: in which instant, and what was recorded and found there."""

    index: int
    at_ms: int
    recorded: Json | None
    found: Json | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of deciding again.

    ``effects``     how many were the same
    ``difference``  the first that was not; None where all were
    """

    instants: int
    effects: int
    difference: Difference | None


def replay(
    recording: Recording, watch: Callable[[Gateway, Instant], None] = lambda _gateway, _instant: None
) -> Replayed:
    """Decide again; ``watch`` sees the gateway after each instant. Raises as `rebuild` does."""
    gateway, effects = rebuild(recording.snapshot), 0
    for index, instant in enumerate(recording.instants):
        for told in told_in(instant):
            gateway.hear(told)
        found = write_effects(gateway.handle(events_of(instant), instant.at_ms))
        if not same(found, instant.effects):
            return Replayed(index, effects, _first_difference(index, instant, found))
        effects += len(found)
        watch(gateway, instant)
    return Replayed(len(recording.instants), effects, None)


def _first_difference(index: int, instant: Instant, found: Sequence[Json]) -> Difference:
    count = max(len(found), len(instant.effects))
    for place in range(count):
        recorded = instant.effects[place] if place < len(instant.effects) else None
        ours = found[place] if place < len(found) else None
        if json.dumps(recorded) != json.dumps(ours):
            return Difference(index, instant.at_ms, recorded, ours)
    raise AssertionError("effects differ, and each is the same")


# --- other names -------------------------------------------------------------------------------------------

_NAMED = frozenset(
    {
        *("site", "home", "consumer", "group", "domain", "provider", "path", "from_peer", "parent", "agreement"),
        *("source", "sites", "revoked", "drained", "memory_at", "gateway_id", "via", "onward", "global_id"),
        *("node", "nodes", "placed", "on_nodes"),
    }
)
"""Fields that hold names of sites, domains, agreements, consumers or nodes, IDs of gateways, or paths of them."""

_LISTS_OF_NAMED = frozenset({"sites", "domains", "agreements", "remotes", "peers", "told", "nodes"})
"""Fields whose entries have a ``name``."""

_PATH_MARKS = "/@"


class Names:
    """New names for old ones, in the same order: ties that are broken by name are broken alike."""

    def __init__(self, old: Iterable[str]) -> None:
        """Give each of these names, none of which has a mark of a path in it, a new one."""
        names = sorted({name for name in old if name and name != EVERYBODY})
        width = len(str(len(names)))
        self._new = {name: f"n{number:0{width}}" for number, name in enumerate(names, 1)}

    def of(self, text: str) -> str:
        """Give the new name of a name or a path; what is no known name stays as it is."""
        return "".join(self._new.get(part, part) for part in _parts(text))

    def knows(self, text: str) -> bool:
        """Whether all parts of this have a new name."""
        return all(part in self._new or part in _PATH_MARKS for part in _parts(text)) and bool(text)


def _parts(text: str) -> Iterator[str]:
    """Split a path into names and the marks between them."""
    name = ""
    for letter in text:
        if letter in _PATH_MARKS:
            if name:
                yield name
            yield letter
            name = ""
        else:
            name += letter
    if name:
        yield name


def anonymised(recording: Recording) -> Recording:
    """Give a recording with other names for sites, domains, agreements and consumers, which decides the same.

    Raises LeaseholdError where it would not: where a policy looks at names.
    """
    snapshot = json.loads(snapshot_bytes(recording.snapshot))
    lines: list[Json] = [
        {"told": list(one.told), "events": one.events, "effects": one.effects} for one in recording.instants
    ]
    memory = snapshot.pop("memory")
    known = [*_names_in([snapshot, *lines]), *_names_remembered(memory)]
    names = Names(part for text in known for part in _parts(text) if part not in _PATH_MARKS)
    renamed = _renamed(snapshot, names)
    # What a gateway remembers has names as keys, too, but for the first keys of these two parts.
    renamed["memory"] = {
        **{name: {key: _renamed_values(memory[name][key], names) for key in memory[name]} for name in memory},
        "overheads": _renamed_values(memory["overheads"], names),
    }
    other = Recording(
        snapshot_of(json.dumps(renamed).encode()),
        tuple(
            Instant(
                one.at_ms,
                tuple(_renamed(one.events, names)),
                tuple(_renamed(one.effects, names)),
                tuple(_renamed(one.told, names, "told")),
            )
            for one in recording.instants
        ),
    )
    if replay(recording).difference is None and (differs := replay(other).difference) is not None:
        raise LeaseholdError(f"instant {differs.index} is decided otherwise with other names: a policy looks at names")
    return other


def _names_in(found: object) -> Iterator[str]:
    if isinstance(found, Mapping):
        for key, value in found.items():
            if key == "global_id":
                yield value.partition("/")[0]  # what follows is a number
            elif key in _NAMED:
                yield from _texts(value)
            if key in _LISTS_OF_NAMED and isinstance(value, list):
                yield from (one["name"] for one in value if isinstance(one, Mapping) and "name" in one)
            if key in {"agreement", "agreements"} and isinstance(value, Mapping):
                yield from (value["name"] for _ in range("name" in value))
            yield from _names_in(value)
    elif isinstance(found, list | tuple):
        for one in found:
            yield from _names_in(one)


def _names_remembered(memory: Mapping[str, Any]) -> Iterator[str]:
    """Give the users whose run times are remembered, and peers; sites are named elsewhere, too."""
    yield from (user for user, *_ in memory["knowledge"].get("run_times", {}).get("users", ()))
    for traffic in memory["requests"].get("peering", {}).values():
        yield from traffic


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, Mapping):  # lists of names by the number of a lease
        for one in value.values():
            yield from () if isinstance(one, str) else _texts(one)


def _renamed(found: Any, names: Names, key: str = "") -> Any:  # noqa: ANN401 - JSON
    """Rename in the fields that hold names, and nowhere else."""
    if isinstance(found, Mapping):
        inside = key in _LISTS_OF_NAMED or key == "agreement"
        return {
            name: names.of(value)
            if isinstance(value, str) and (name in _NAMED or (inside and name == "name"))
            else _renamed(value, names, key if key == "nodes" else name)
            for name, value in found.items()
        }
    if isinstance(found, list | tuple):
        return [names.of(one) if isinstance(one, str) and key in _NAMED else _renamed(one, names, key) for one in found]
    return found


def _renamed_values(found: Any, names: Names) -> Any:  # noqa: ANN401 - JSON
    """Rename whatever is a name, keys and values."""
    if isinstance(found, Mapping):
        return {
            names.of(key) if names.knows(key) else key: _renamed_values(value, names) for key, value in found.items()
        }
    if isinstance(found, list | tuple):
        return [_renamed_values(one, names) for one in found]
    return names.of(found) if isinstance(found, str) and names.knows(found) else found
