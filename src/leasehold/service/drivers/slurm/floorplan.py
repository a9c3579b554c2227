"""Which CPUs are taken on which node? Slurm resumes a job whoever has its CPUs, so we look before."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from leasehold.service.drivers.slurm.job import TAKES_CPUS, Job
from leasehold.service.drivers.slurm.node import Node


class Floorplan:
    """The CPUs of all nodes, and how many of each are taken."""

    def __init__(self, nodes: Mapping[str, Node], jobs: Iterable[Job]) -> None:
        self._nodes = nodes
        self._taken: Counter[str] = Counter()
        for job in jobs:
            if job.standing in TAKES_CPUS:
                self._taken.update(job.cpus_by_node)

    def to_keep_free(self, suspended: Sequence[Job], vms: int, cpus_per_vm: int) -> list[str]:
        """List the nodes on which suspended jobs lie, if so many VMs can do without them now; else none.

        A suspended job can go on nowhere else, and whoever comes anew could have gone anywhere.
        """
        wanted = {node for job in suspended for node in job.cpus_by_node}
        others = [node for node in self._nodes.values() if node.takes_jobs and node.name not in wanted]
        room_vms = sum(max(0, node.cpus - self._taken[node.name]) // cpus_per_vm for node in others)
        return sorted(wanted & self._nodes.keys()) if room_vms >= vms else []

    def has_room_for(self, job: Job) -> bool:
        """Whether a suspended job can go on where it is, and share no CPU."""
        return all(
            node in self._nodes and self._taken[node] + cpus <= self._nodes[node].cpus
            for node, cpus in job.cpus_by_node.items()
        )

    def is_crowded(self, job: Job) -> bool:
        """Whether a job that runs shares CPUs with others."""
        return any(self._taken[node] > self._nodes[node].cpus for node in job.cpus_by_node if node in self._nodes)
