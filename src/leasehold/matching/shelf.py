"""Nodes in order: by free memory, then by how files reach them, then by how long one waits there."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from leasehold.matching.capabilities import Node
from leasehold.matching.software import Installed

_FEW = 16


class Reach(NamedTuple):
    """What the transfer time depends on, besides the job."""

    place: str
    bytes_per_s: int


class Entry(NamedTuple):
    """What has to be known of a node to match it; names differ, so nothing behind them is compared."""

    waiting_ms: int
    name: str
    free_cores: int
    free_disk_mib: int
    cpu_mhz: int
    seen_ms: int
    software: Installed


class Item(NamedTuple):
    """A node as it lies on a shelf: free memory and reach of its bundle, and its entry there."""

    bundle: tuple[int, Reach]
    entry: Entry


def item_of(node: Node) -> Item:
    """Write down a node for a shelf."""
    able, free = node.capabilities, node.free
    entry = Entry(node.waiting_ms, node.name, free.cores, free.disk_mib, able.cpu_mhz, node.seen_ms, able.software)
    return Item((free.memory_mib, Reach(able.place, able.bytes_per_s)), entry)


class Bundle(NamedTuple):
    """Nodes with as much free memory that files reach in the same time; entries by waiting time, name."""

    reach: Reach
    memory_mib: int
    entries: list[Entry]


@dataclass(slots=True)
class Shelf:
    """Bundles by their free memory, ascending."""

    memories_mib: list[int] = field(default_factory=list)
    bundles: dict[int, dict[Reach, Bundle]] = field(default_factory=dict)

    def put(self, nodes: Iterable[Item]) -> None:
        """Lay nodes in their bundles."""
        for (memory_mib, reach), entries in _bundled(nodes).items():
            if memory_mib not in self.bundles:
                insort(self.memories_mib, memory_mib)
                self.bundles[memory_mib] = {}
            bundle = self.bundles[memory_mib].setdefault(reach, Bundle(reach, memory_mib, []))
            _add(bundle.entries, entries)

    def take_out(self, nodes: Iterable[Item]) -> None:
        """Take nodes out of their bundles, and a bundle away if they were the last."""
        for (memory_mib, reach), gone in _bundled(nodes).items():
            entries = self.bundles[memory_mib][reach].entries
            _remove(entries, gone)
            if not entries:
                del self.bundles[memory_mib][reach]
            if not self.bundles[memory_mib]:
                del self.bundles[memory_mib]
                del self.memories_mib[bisect_left(self.memories_mib, memory_mib)]

    def from_memory(self, least_mib: int, most_mib: int | None) -> Iterator[Bundle]:
        """Give the bundles with that much memory free, the least first."""
        begin = bisect_left(self.memories_mib, least_mib)
        end = None if most_mib is None else bisect_right(self.memories_mib, most_mib)
        for memory_mib in self.memories_mib[begin:end]:
            yield from self.bundles[memory_mib].values()


def _bundled(nodes: Iterable[Item]) -> dict[tuple[int, Reach], list[Entry]]:
    found: dict[tuple[int, Reach], list[Entry]] = {}
    for bundle, entry in nodes:
        found.setdefault(bundle, []).append(entry)
    return found


def _add(entries: list[Entry], fresh: list[Entry]) -> None:
    """Each of a few is put where it belongs; of many, it is quicker to sort them all."""
    if len(fresh) > _FEW:
        entries += fresh
        entries.sort()
        return
    for entry in fresh:
        insort(entries, entry)


def _remove(entries: list[Entry], gone: list[Entry]) -> None:
    """As `_add`."""
    if len(gone) > _FEW:
        names = {entry.name for entry in gone}
        entries[:] = [entry for entry in entries if entry.name not in names]
        return
    for entry in gone:
        del entries[bisect_left(entries, entry)]
