"""What is wrong with the nodes of an emulated site, and until when?

A node may have died, its service may have stopped, and the network to it may be cut: then nothing is seen of
what goes on there, until it can be reached again. Each ends by itself. Software may be gone from it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from leasehold.jobs.job import Fault

NODE_FAULTS = (Fault.NETWORK_FAILED, Fault.SERVICE_STOPPED, Fault.NODE_DIED)
"""What befalls a whole node; where several have, the first of these is what can be seen."""

_SAYS = {
    Fault.NODE_DIED: "emulated fault: the node has died",
    Fault.SERVICE_STOPPED: "emulated fault: the node's service has stopped",
    Fault.NETWORK_FAILED: "emulated fault: the node cannot be reached",
}


def says(fault: Fault) -> str:
    """Say in words what is wrong with a node."""
    return _SAYS[fault]


@dataclass(slots=True)
class Troubles:
    """The troubles of all nodes, each with the time (ms) at which it is over.

    ``settled_ms``  until when what befalls nodes by chance was let happen; -1 before the first time
    """

    settled_ms: int = -1
    _wrong: dict[str, dict[str, int]] = field(default_factory=dict)
    _lost: dict[str, dict[str, int]] = field(default_factory=dict)

    def befall(self, node: str, fault: Fault, until_ms: int) -> None:
        """Let something be wrong with a node until then; what was wrong already does not end sooner."""
        wrong = self._wrong.setdefault(node, {})
        wrong[fault.value] = max(until_ms, wrong.get(fault.value, until_ms))

    def lose(self, node: str, software: Iterable[str], until_ms: int) -> None:
        """Let software be gone from a node until then."""
        self._lost.setdefault(node, {}).update(dict.fromkeys(software, until_ms))

    def fault_of(self, node: str, now_ms: int) -> Fault | None:
        """Say what is wrong with a node, as far as that can be seen from outside."""
        wrong = self._wrong.get(node, {})
        return next((fault for fault in NODE_FAULTS if wrong.get(fault.value, 0) > now_ms), None)

    def dark_until_ms(self, nodes: Iterable[str], now_ms: int) -> int:
        """When all of these nodes can be reached again; 0 where they can be now."""
        ends_ms = (self._wrong.get(node, {}).get(Fault.NETWORK_FAILED.value, 0) for node in nodes)
        return max((end_ms for end_ms in ends_ms if end_ms > now_ms), default=0)

    def lost_from(self, node: str, now_ms: int) -> frozenset[str]:
        """List the software that is gone from a node now."""
        lost = self._lost.get(node, {})
        return frozenset(name for name, until_ms in lost.items() if until_ms > now_ms)

    def to_text(self) -> str:
        """Write it down, so that `from_text` gives the same again."""
        return json.dumps([self.settled_ms, self._wrong, self._lost])

    @classmethod
    def from_text(cls, text: str) -> "Troubles":
        """Read what `to_text` wrote."""
        return cls(*json.loads(text))
