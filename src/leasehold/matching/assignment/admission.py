"""Which jobs can be served together? No later one costs an earlier its place."""

from collections import deque
from collections.abc import Mapping, Sequence

from leasehold.matching.assignment.graph import Edge
from leasehold.matching.needs import Job


def admit(jobs: Sequence[Job], edges: Mapping[int, Sequence[Edge]]) -> list[Job]:
    """List the jobs that are served.

    Rule: a job is admitted if it can be served in full together with all that were admitted before it,
    whoever of these has to take other nodes for it. To serve the most jobs instead is NP-hard where jobs
    need three nodes or more, and would be unfair where they need one.
    Source: augmenting paths (Kuhn 1955), one for each node that a job needs.
    """
    places = _Places(edges)
    return [job for job in jobs if places.make_room(job)]


class _Places:
    """Who holds which node; every job that holds one holds all that it needs."""

    def __init__(self, edges: Mapping[int, Sequence[Edge]]) -> None:
        self._nodes = {job_id: [edge.node for edge in listed] for job_id, listed in edges.items()}
        self._holder: dict[str, int] = {}
        self._closed: set[str] = set()
        """Nodes from which no free one can ever be reached: a search that began there ended among them."""

    def make_room(self, job: Job) -> bool:
        """Give a job all nodes that it needs, or none."""
        if len(self._nodes[job.job_id]) < job.needs.nodes:
            return False
        for found in range(job.needs.nodes):
            seen = self._augment(job.job_id)
            if seen is None:
                continue
            if found:
                self._release(job.job_id)
            else:
                self._closed |= seen
            return False
        return True

    def _augment(self, job_id: int) -> set[str] | None:
        """Find one more node for a job; where there is none, give the nodes that were looked at."""
        seen_from: dict[str, int] = {}
        given_up_by: dict[int, str] = {}
        waiting = deque([job_id])
        while waiting:
            holder = waiting.popleft()
            for node in self._nodes[holder]:
                if node in seen_from or node in self._closed:
                    continue
                seen_from[node] = holder
                other = self._holder.get(node)
                if other is None:
                    self._hand_on(node, job_id, seen_from, given_up_by)
                    return None
                if other != job_id and other not in given_up_by:
                    given_up_by[other] = node
                    waiting.append(other)
        return set(seen_from)

    def _hand_on(self, free: str, job_id: int, seen_from: Mapping[str, int], given_up_by: Mapping[int, str]) -> None:
        """Give the free node to who saw it, the node that this one gives up to who saw that, and so on."""
        node, taker = free, seen_from[free]
        while taker != job_id:
            self._holder[node] = taker
            node = given_up_by[taker]
            taker = seen_from[node]
        self._holder[node] = job_id

    def _release(self, job_id: int) -> None:
        for node in [node for node, holder in self._holder.items() if holder == job_id]:
            del self._holder[node]
