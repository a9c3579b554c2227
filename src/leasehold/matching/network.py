"""How long until a job's input files are at a node? JTT of Thamarai Selvi et al., section 4.3.

Rule: of each place that files come from, the delay once and then bytes / bandwidth; one place after the
other. The bandwidth is the lesser of the way's and the node's own. What lies where the node stands is
there already. The paper names delay and bandwidth and gives no formula; this is the plain one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leasehold.matching.needs import InputFile
from leasehold.model.errors import InvalidField

MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class Way:
    """From one place to another: how long the first byte takes, and how many come per second."""

    delay_ms: int
    bytes_per_s: int

    def __post_init__(self) -> None:
        """Refuse a way on which nothing arrives."""
        if self.delay_ms < 0 or self.bytes_per_s <= 0:
            raise InvalidField("way", self, "delay_ms of at least 0 and bytes_per_s above 0")


@dataclass(frozen=True, slots=True)
class Network:
    """The ways between places; where none is given for a pair, the usual one."""

    usual: Way = Way(delay_ms=20, bytes_per_s=12_500_000)
    """A hundred megabit per second, and 20 ms."""
    ways: Mapping[tuple[str, str], Way] = field(default_factory=dict)

    def transfer_ms(self, inputs: Iterable[InputFile], place: str, bytes_per_s: int) -> int:
        """Give the milliseconds, rounded up, until these files are at a node there with such an interface."""
        sizes: dict[str, int] = {}
        for file in inputs:
            sizes[file.place] = sizes.get(file.place, 0) + file.size_bytes
        return sum(self._from(source, size, place, bytes_per_s) for source, size in sizes.items() if source != place)

    def _from(self, source: str, size_bytes: int, place: str, bytes_per_s: int) -> int:
        way = self.ways.get((source, place), self.usual)
        rate = min(way.bytes_per_s, bytes_per_s)
        return way.delay_ms - (-size_bytes * MS_PER_S // rate)
