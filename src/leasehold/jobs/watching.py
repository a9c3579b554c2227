"""How often does each node fail? Counted from what happened: for how long it was seen well, and its falls."""

from collections.abc import Mapping
from dataclasses import dataclass

from leasehold.jobs.job import NOT_YET
from leasehold.matching.reliability import FailureRate

MS_PER_S = 1000


@dataclass(slots=True)
class Watched:
    """What happened to a node so far; ``well_ms`` is when it was last seen well, NOT_YET while it is not."""

    failures: float = 0.0
    watched_ms: int = 0
    well_ms: int = NOT_YET


class Watching:
    """All nodes that were ever seen."""

    def __init__(self, belief: FailureRate) -> None:
        self._belief = belief
        self._nodes: dict[str, Watched] = {}
        self.news: dict[str, Watched] = {}
        """Nodes of which anything was noted since this was last emptied."""

    def well(self, node: str, now_ms: int) -> None:
        """Note that a node was seen well: since it was last seen well, it did not fail."""
        watched = self._noted(node)
        _until(watched, now_ms)
        watched.well_ms = now_ms

    def failed(self, node: str, now_ms: int, share: float = 1.0) -> None:
        """Note that a node fell; less than one where it may have been another."""
        watched = self._noted(node)
        _until(watched, now_ms)
        watched.failures += share
        watched.well_ms = NOT_YET

    def _noted(self, node: str) -> Watched:
        self.news[node] = watched = self._nodes.setdefault(node, Watched())
        return watched

    def rate(self, node: str) -> FailureRate:
        """Give what is known of a node's failures."""
        watched = self._nodes.get(node, Watched())
        return self._belief.after(watched.failures, watched.watched_ms / MS_PER_S)

    def counted(self, node: str) -> tuple[float, int]:
        """Give how often a node failed and for how long it was watched: all that its rate depends on."""
        watched = self._nodes.get(node)
        return (0.0, 0) if watched is None else (watched.failures, watched.watched_ms)

    def all(self) -> dict[str, Watched]:
        """Give what was counted, by node."""
        return dict(self._nodes)

    def recall(self, nodes: Mapping[str, Watched]) -> None:
        """Go on counting."""
        self._nodes.update(nodes)


def _until(watched: Watched, now_ms: int) -> None:
    if watched.well_ms != NOT_YET:
        watched.watched_ms += max(0, now_ms - watched.well_ms)
