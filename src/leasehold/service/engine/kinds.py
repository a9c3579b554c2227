"""Nodes of which the same is known, together: however many there are, they are of a few kinds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import attrgetter

from leasehold.service.store.rows import NodeRow

NOT_LISTED = "is not among the nodes of its site any more"
NAMED = 5
"""So many nodes of a kind are named."""

_OF_EACH = frozenset(
    ("name", "seen_ms", "first_ms", "fault", "failures", "failed_ms", "charged", "watched_ms", "well_ms")
)
_FACTS = tuple(column for column in NodeRow.__annotations__ if column not in _OF_EACH)
facts_of = attrgetter(*_FACTS)
"""All that is known of a node, but for its name, when it was seen, and how it failed before."""
_seen_facts_of = attrgetter("seen_ms", *_FACTS)


@dataclass(slots=True)
class Kind:
    """Nodes of a site of which the same was seen at the same time; ``row`` is one of them, as it was then."""

    key: object
    row: NodeRow
    names: set[str] = field(default_factory=set)
    first: tuple[str, ...] | None = None
    """The first few by name, once somebody has asked."""

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.names)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The first few by name."""
        if self.first is None:
            self.first = first_of(self.names)
        return self.first


class Kinds:
    """All nodes, those together that differ in nothing but their names, and in how they failed before."""

    def __init__(self) -> None:
        """Begin without any."""
        self._of_node: dict[str, Kind] = {}
        self._kinds: dict[object, Kind] = {}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def put(self, row: NodeRow) -> None:
        """Take in a node, in place of what was known of it."""
        name, key = row.name, _key(row)
        before = self._of_node.get(name)
        if before is not None:
            if before.key == key:
                return
            before.names.remove(name)
            before.first = None
            if not before.names:
                del self._kinds[before.key]
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = Kind(key, row)
        kind.names.add(name)
        kind.first = None
        self._of_node[name] = kind


def _key(row: NodeRow) -> object:
    """Give all in which nodes of a kind are equal; of those that were missed also when that was."""
    seen = _seen_facts_of(row)
    return (seen, row.failed_ms) if row.problem == NOT_LISTED else seen


def first_of(names: Iterable[str]) -> tuple[str, ...]:
    """Give the first few names."""
    return tuple(nsmallest(NAMED, names))
