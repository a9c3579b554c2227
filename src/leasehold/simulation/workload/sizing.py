"""How large the clusters of a log were, where nobody says: measured in one pass over its jobs."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.simulation.workload.checks import check_number
from leasehold.simulation.workload.job import Job

SIZE_RULES = ("max-procs", "peak")


@dataclass(slots=True)
class Demand:
    """What one cluster's own jobs would take if every job started when it was submitted.

    Memory grows with the jobs running at once, not with the log.
    """

    widest_vms: int = 0
    peak_vms: int = 0
    _running_vms: int = 0
    _ends: list[tuple[int, int]] = field(default_factory=list)

    def add(self, job: Job) -> None:
        """Count one more job, submitted no earlier than the last."""
        while self._ends and self._ends[0][0] <= job.submit_ms:
            self._running_vms -= heapq.heappop(self._ends)[1]
        heapq.heappush(self._ends, (job.submit_ms + job.actual_ms, job.vms))
        self._running_vms += job.vms
        self.peak_vms = max(self.peak_vms, self._running_vms)
        self.widest_vms = max(self.widest_vms, job.vms)


def local_demand(jobs: Iterable[Job]) -> dict[str, Demand]:
    """Return the demand at each home cluster, in one pass; external jobs have no home and are passed over."""
    demands: dict[str, Demand] = {}
    for job in jobs:
        if job.site is not None:
            demands.setdefault(job.site, Demand()).add(job)
    return demands


def cluster_sizes(demands: Mapping[str, Demand], rule: int | str, max_procs: int | None = None) -> dict[str, int]:
    """Return the number of slots of each cluster by one rule, never fewer than its widest job needs.

    The rule is a whole number; ``"max-procs"``, what the header of the log says; or ``"peak"``, what the jobs
    would take at most if each started when it was submitted.
    Raises UnknownName for another rule, InvalidField for ``"max-procs"`` where the header does not say.
    """
    if rule == "peak":
        return {site: demand.peak_vms for site, demand in demands.items()}
    slots = _slots(rule, max_procs)
    return {site: max(slots, demand.widest_vms) for site, demand in demands.items()}


def _slots(rule: int | str, max_procs: int | None) -> int:
    if isinstance(rule, int):
        return int(check_number("size", rule, 1))
    if rule not in SIZE_RULES:
        raise UnknownName("size", rule, SIZE_RULES)
    if max_procs is None:
        raise InvalidField("size", rule, "a log whose header has MaxProcs, or the rule 'peak', or a number")
    return max_procs
