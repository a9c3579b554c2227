"""Nodes in order: by free memory, then by how files reach them, then by how long one waits there."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from leasehold.matching.capabilities import Node
from leasehold.matching.software import Installed


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

    def put(self, node: Node) -> None:
        """Lay a node in its bundle."""
        memory_mib, reach = node.free.memory_mib, _reach(node)
        if memory_mib not in self.bundles:
            insort(self.memories_mib, memory_mib)
            self.bundles[memory_mib] = {}
        bundle = self.bundles[memory_mib].setdefault(reach, Bundle(reach, memory_mib, []))
        insort(bundle.entries, _entry(node))

    def take_out(self, node: Node) -> None:
        """Take a node out of its bundle, and the bundle away if that was the last."""
        memory_mib, reach = node.free.memory_mib, _reach(node)
        entries = self.bundles[memory_mib][reach].entries
        del entries[bisect_left(entries, _entry(node))]
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


def _reach(node: Node) -> Reach:
    return Reach(node.capabilities.place, node.capabilities.bytes_per_s)


def _entry(node: Node) -> Entry:
    able, free = node.capabilities, node.free
    return Entry(
        node.waiting_ms, node.name, free.cores, free.disk_mib, able.cpu_mhz, node.seen_ms, able.software
    )
