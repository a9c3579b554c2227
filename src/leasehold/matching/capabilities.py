"""What can a node do, how much of it is free, and when was that seen?

Both are found, never typed in: `Capabilities` change when a node is changed, a `Node` whenever somebody
uses it.
"""

from dataclasses import dataclass, field

from leasehold.matching.amounts import Amounts
from leasehold.matching.software import Installed
from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a node has when nobody uses it.

    ``total``        whole cores, MiB of memory, MiB of disk
    ``place``        where it stands: the name of a place that the `Network` knows
    ``bytes_per_s``  the bandwidth of its own network interface
    """

    name: str
    total: Amounts
    cpu_mhz: int = 0
    software: Installed = field(default_factory=frozenset)
    place: str = ""
    bytes_per_s: int = 125_000_000
    """Usually one gigabit per second."""

    def __post_init__(self) -> None:
        """Refuse a node that nothing can get to."""
        if self.bytes_per_s <= 0:
            raise InvalidField(f"bytes_per_s of {self.name}", self.bytes_per_s, "more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as it was seen at a moment.

    ``free``        what nobody uses, never more than there is
    ``waiting_ms``  how long a job that comes now would wait in the node's own queue
    ``seen_ms``     when that was; old facts are a reason to look again, not to start

    Raises InvalidField where more is free than there is.
    """

    capabilities: Capabilities
    free: Amounts
    waiting_ms: int = 0
    seen_ms: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not self.capabilities.total.holds(self.free):
            raise InvalidField(f"free of {self.name}", self.free, f"at most {self.capabilities.total}")
        if self.waiting_ms < 0:
            raise InvalidField(f"waiting_ms of {self.name}", self.waiting_ms, "at least 0")

    @property
    def name(self) -> str:
        """The node's name, which no other has."""
        return self.capabilities.name


def idle(capabilities: Capabilities, seen_ms: int = 0) -> Node:
    """Give a node that nobody uses."""
    return Node(capabilities=capabilities, free=capabilities.total, seen_ms=seen_ms)
