"""Which nodes have said by themselves that they are lightly loaded?

Source: the receiver-initiated strategy of Thamarai Selvi et al., section 4.6.1. What an offer says is looked
at as what any node says: memory, software and deadline.
"""

from collections.abc import Mapping
from typing import Any

from leasehold.jobs.settings import JobSettings


class Offers:
    """Offers of nodes, each until it is taken, withdrawn by a fault, or too old."""

    def __init__(self, settings: JobSettings) -> None:
        self._lasts_ms = settings.offers_last_ms
        self._made_ms: dict[str, int] = {}

    def make(self, node: str, now_ms: int) -> None:
        """Take an offer, in place of an earlier one of the same node."""
        self._made_ms[node] = now_ms

    def drop(self, node: str) -> None:
        """End the offer of a node that has taken a job, or has fallen."""
        self._made_ms.pop(node, None)

    def names(self, now_ms: int) -> list[str]:
        """List the nodes whose offers stand."""
        self._made_ms = {node: made_ms for node, made_ms in self._made_ms.items() if now_ms - made_ms < self._lasts_ms}
        return list(self._made_ms)

    def memory(self) -> dict[str, Any]:
        """Give the offers that stand, as plain JSON."""
        return dict(self._made_ms)

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on with what was kept."""
        self._made_ms.update(memory)
