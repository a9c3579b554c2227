"""The queue of the site's own users, as a planner understands it: how many VMs, for how long, in which order.

A job takes as many VMs as fill its CPUs, node by node, and where memory is consumable as many as fill its memory,
if that are more.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from leasehold.service.drivers.protocol import NativeJob
from leasehold.service.drivers.slurm.job import OCCUPIES_CPUS, Job, JobState, Partition, task_numbers
from leasehold.service.drivers.slurm.node import Node
from leasehold.service.drivers.slurm.options import SlurmOptions

_WAITS_FOR_ROOM = frozenset({"", "None", "Resources", "Priority"})
"""Why a job is pending that waits for room, or for those before it; at first it has no reason."""
_MS_PER_MIN = 60_000
_LONGEST_MIN = 365 * 24 * 60
"""How long a job is taken to run that nothing limits."""


def site_nodes(nodes: Mapping[str, Node], options: SlurmOptions) -> Mapping[str, Node]:
    """Select the nodes that a site is about: all of the cluster, or those of its partitions."""
    wanted = frozenset(filter(None, options.partition.split(",")))
    return {name: node for name, node in nodes.items() if wanted & node.partitions or not wanted}


@dataclass(frozen=True, slots=True)
class QueueScope:
    """What the native jobs of a site are measured by: the nodes that it is about, and the cluster's partitions."""

    nodes: Mapping[str, Node]
    partitions: Mapping[str, Partition]
    options: SlurmOptions
    slots: int

    def native_jobs(self, jobs: Iterable[Job], is_guest: Callable[[Job], bool]) -> list[NativeJob]:
        """List the native jobs that run, the earliest first, then those that wait for room by priority."""
        native = [job for job in jobs if not is_guest(job)]
        running = sorted(filter(self._holds_room, native), key=lambda job: (job.start_s, job.id))
        pending = sorted(filter(self._waits, native), key=lambda job: (-job.priority, job.id))
        tasks = (task for job in pending for task in self._tasks(job, running))
        sized = [(job, self._cpus_here(job)) for job in running] + [(job, self._shares(job)) for job in tasks]
        return [self._native(job, shares) for job, shares in sized]

    def _holds_room(self, job: Job) -> bool:
        holds = job.state in OCCUPIES_CPUS or (job.state is JobState.SUSPENDED and self.options.suspended_jobs)
        return holds and bool(self._cpus_here(job))

    def _waits(self, job: Job) -> bool:
        if job.state is not JobState.PENDING or job.reason not in _WAITS_FOR_ROOM:
            return False
        return any(not node.partitions.isdisjoint(job.partitions) for node in self.nodes.values())

    def _tasks(self, job: Job, running: Iterable[Job]) -> Iterator[Job]:
        """Give each task of an array that waits for room: no more than may run, or could find room, at a time."""
        if not job.array_tasks:
            yield job
            return
        most = self.slots
        if job.array_limit:
            begun = sum(other.array_id == job.array_id for other in running)
            most = min(most, max(0, job.array_limit - begun))
        for task in task_numbers(job.array_tasks, most):
            yield replace(job, array_task=task)

    # how large: the CPUs that a job has, or will have, on each of its nodes

    def _cpus_here(self, job: Job) -> list[tuple[Node, int]]:
        return [(self.nodes[name], cpus) for name, cpus in job.cpus_by_node.items() if name in self.nodes]

    def _shares(self, job: Job) -> list[tuple[Node, int]]:
        """Share what a job asks for out among as many nodes as it asks for, taken to be of the commonest size."""
        sizes = Counter((node.cpus, node.memory_mib) for node in self.nodes.values())
        (cpus, memory_mib), _ = max(sizes.items(), key=lambda item: (item[1], item[0]))
        node = Node("", cpus, memory_mib)
        if job.exclusive:
            return [(node, cpus)] * max(job.nodes_wanted, -(-job.cpus // cpus))
        least, more = divmod(max(job.cpus, job.nodes_wanted), job.nodes_wanted)
        return [(node, least + (number < more)) for number in range(job.nodes_wanted)]

    def _native(self, job: Job, shares: list[tuple[Node, int]]) -> NativeJob:
        name = str(job.id) if job.array_task is None else f"{job.array_id}_{job.array_task}"
        vms = max(1, sum(self._vms(job, node, cpus) for node, cpus in shares))
        memory_mib = sum(_memory_mib(job, cpus) for _, cpus in shares)
        is_running = job.state is not JobState.PENDING
        return NativeJob(name, job.user, vms, -(-memory_mib // vms), self._duration_ms(job), is_running)

    def _vms(self, job: Job, node: Node, cpus: int) -> int:
        """How many VMs of a node a share is, by whatever is scarcer."""
        each = self.options.cpus_per_vm
        by_cpus = -(-cpus // each)
        if not self.options.memory:
            return by_cpus
        return max(by_cpus, -(-_memory_mib(job, cpus) * node.cpus // (max(1, node.memory_mib) * each)))

    def _duration_ms(self, job: Job) -> int:
        limits = [self.partitions[name].longest_min for name in job.partitions if name in self.partitions]
        longest = max((limit for limit in limits if limit is not None), default=_LONGEST_MIN)
        return min(job.time_limit_min or longest, _LONGEST_MIN) * _MS_PER_MIN


def _memory_mib(job: Job, cpus: int) -> int:
    return job.memory_per_node_mib or job.memory_per_cpu_mib * cpus
