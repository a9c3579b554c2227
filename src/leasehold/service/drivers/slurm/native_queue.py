"""The queue of the site's own users, as a planner understands it: how many VMs, for how long, in which order.

A job takes as many VMs as fill its CPUs, node by node, and where memory is given out as many as fill its
memory, if that are more.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from leasehold.service.drivers.protocol import NativeJob
from leasehold.service.drivers.slurm.job import TAKES_CPUS, Job, Partition, Standing
from leasehold.service.drivers.slurm.node import Node
from leasehold.service.drivers.slurm.nodelist import task_numbers
from leasehold.service.drivers.slurm.options import SlurmOptions

FOR_ROOM = frozenset({"", "None", "Resources", "Priority"})
"""Why a job waits that waits for room, or for those before it; at first it has no reason."""

_MS_PER_MIN = 60_000
_LONGEST_MIN = 365 * 24 * 60
"""How long a job is taken to run that nothing limits."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The nodes that the site is about: all of the cluster, or those of its partition."""

    nodes: Mapping[str, Node]
    partitions: Mapping[str, Partition]
    options: SlurmOptions
    slots: int

    @classmethod
    def of(
        cls, nodes: Mapping[str, Node], partitions: Mapping[str, Partition], options: SlurmOptions, slots: int
    ) -> "Ground":
        """Leave out what is no concern of the site's."""
        return cls(concerning(nodes, options), partitions, options, slots)

    @property
    def reachable(self) -> frozenset[str]:
        """The partitions whose jobs may come onto these nodes."""
        return frozenset(name for node in self.nodes.values() for name in node.partitions)


def concerning(nodes: Mapping[str, Node], options: SlurmOptions) -> Mapping[str, Node]:
    """Leave out the nodes that are no concern of a site's."""
    wanted = frozenset(filter(None, options.partition.split(",")))
    return {name: node for name, node in nodes.items() if wanted & node.partitions or not wanted}


def native_jobs(jobs: Iterable[Job], is_guest: Callable[[Job], bool], ground: Ground) -> list[NativeJob]:
    """List the native jobs that run, the earliest first, then those that wait for room by priority."""
    own = [job for job in jobs if not is_guest(job)]
    running = sorted((job for job in own if _holds_room(job, ground)), key=lambda job: (job.start_s, job.id))
    waiting = sorted((job for job in own if _waits(job, ground)), key=lambda job: (-job.priority, job.id))
    tasks = (task for job in waiting for task in _tasks(job, running, ground.slots))
    return [*(_told(job, ground, running=True) for job in running), *(_told(job, ground) for job in tasks)]


def _holds_room(job: Job, ground: Ground) -> bool:
    holds = job.standing in TAKES_CPUS or (job.standing is Standing.SUSPENDED and ground.options.suspended_jobs)
    return holds and bool(_there(job, ground.nodes))


def _waits(job: Job, ground: Ground) -> bool:
    return (
        job.standing is Standing.WAITING
        and job.reason in FOR_ROOM
        and bool(ground.reachable.intersection(job.partitions))
    )


def _there(job: Job, nodes: Collection[str]) -> dict[str, int]:
    return {name: cpus for name, cpus in job.cpus_by_node.items() if name in nodes}


def _tasks(job: Job, running: Iterable[Job], most: int) -> Iterator[Job]:
    """Give each task of an array that waits for room: no more than may run, or could find room, at a time."""
    if not job.array_tasks:
        yield job
        return
    if job.array_limit:
        begun = sum(other.array_id == job.array_id for other in running)
        most = min(most, max(0, job.array_limit - begun))
    for task in task_numbers(job.array_tasks, most):
        yield replace(job, array_task=task)


def _told(job: Job, ground: Ground, *, running: bool = False) -> NativeJob:
    vms = max(1, sum(_vms_running(job, ground) if running else _vms_waiting(job, ground)))
    memory_mib = _memory_mib(job, ground, running=running)
    return NativeJob(_name(job), job.user, vms, -(-memory_mib // vms), _duration_ms(job, ground), running)


def _name(job: Job) -> str:
    return str(job.id) if job.array_task is None else f"{job.array_id}_{job.array_task}"


def _vms_running(job: Job, ground: Ground) -> Iterator[int]:
    for name, cpus in _there(job, ground.nodes).items():
        memory_mib = job.memory_per_node_mib or job.memory_per_cpu_mib * cpus
        yield _vms(cpus, memory_mib, ground.nodes[name], ground)


def _vms_waiting(job: Job, ground: Ground) -> Iterator[int]:
    """Share what a job asks for out among as many nodes as it asks for."""
    node = _usual_node(ground)
    for cpus in _shares(job, node):
        memory_mib = job.memory_per_node_mib or job.memory_per_cpu_mib * cpus
        yield _vms(cpus, memory_mib, node, ground)


def _shares(job: Job, node: Node) -> list[int]:
    if job.whole_nodes:
        return [node.cpus] * max(job.nodes_wanted, -(-job.cpus // node.cpus))
    least, more = divmod(max(job.cpus, job.nodes_wanted), job.nodes_wanted)
    return [least + (number < more) for number in range(job.nodes_wanted)]


def _vms(cpus: int, memory_mib: int, node: Node, ground: Ground) -> int:
    """How many VMs of a node go, by whatever is scarcer."""
    each = ground.options.cpus_per_vm
    by_cpus = -(-cpus // each)
    if not ground.options.memory:
        return by_cpus
    return max(by_cpus, -(-memory_mib * node.cpus // (max(1, node.memory_mib) * each)))


def _memory_mib(job: Job, ground: Ground, *, running: bool) -> int:
    shares = list(_there(job, ground.nodes).values()) if running else _shares(job, _usual_node(ground))
    return job.memory_per_node_mib * len(shares) or job.memory_per_cpu_mib * sum(shares)


def _usual_node(ground: Ground) -> Node:
    """Where it is not known on which nodes a job will run, it is taken to be of the most usual size."""
    sizes = Counter((node.cpus, node.memory_mib) for node in ground.nodes.values())
    (cpus, memory_mib), _ = max(sizes.items(), key=lambda item: (item[1], item[0]))
    return Node("", cpus, memory_mib)


def _duration_ms(job: Job, ground: Ground) -> int:
    limits = [ground.partitions[name].longest_min for name in job.partitions if name in ground.partitions]
    longest = max((limit for limit in limits if limit is not None), default=_LONGEST_MIN)
    return min(job.time_limit_min or longest, _LONGEST_MIN) * _MS_PER_MIN
