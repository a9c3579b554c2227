"""The cluster's queue: which jobs are ours, which CPUs are taken, and what the site's own users have there."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from leasehold.model.request import GPU_MILLI
from leasehold.service.drivers.protocol import NativeJob
from leasehold.service.drivers.slurm.cluster import NO_GPUS, OCCUPIES_CPUS, Gpus, Job, JobState, Node, task_numbers
from leasehold.service.drivers.slurm.commands import Step
from leasehold.service.drivers.slurm.instance import JobInstance, Tag, tag_of
from leasehold.service.drivers.slurm.options import SlurmOptions


class CpuMap:
    """How many CPUs of each node are taken. Slurm resumes a job whose CPUs others have, so the driver checks."""

    def __init__(self, nodes: Mapping[str, Node], jobs: Iterable[Job]) -> None:
        self._nodes = nodes
        self._taken: Counter[str] = Counter()
        for job in jobs:
            if job.state in OCCUPIES_CPUS:
                self._taken.update(job.cpus_by_node)

    def has_room_for(self, job: Job) -> bool:
        """Whether a suspended job can resume on its nodes without sharing a CPU."""
        return all(
            node in self._nodes and self._taken[node] + cpus <= self._nodes[node].cpus
            for node, cpus in job.cpus_by_node.items()
        )

    def is_oversubscribed(self, job: Job) -> bool:
        """Whether a running job shares CPUs with others."""
        return any(self._taken[node] > self._nodes[node].cpus for node in job.cpus_by_node if node in self._nodes)

    def nodes_to_avoid(self, suspended: Sequence[Job], vms: int, cpus_per_vm: int) -> list[str]:
        """List the nodes on which suspended jobs lie, if so many VMs can do without them now; else none.

        A suspended job can resume only on its own nodes, and a new one can start anywhere.
        """
        wanted = {node for job in suspended for node in job.cpus_by_node}
        others = [node for node in self._nodes.values() if node.takes_jobs and node.name not in wanted]
        room_vms = sum(max(0, node.cpus - self._taken[node.name]) // cpus_per_vm for node in others)
        return sorted(wanted & self._nodes.keys()) if room_vms >= vms else []


class Snapshot:
    """All jobs of the cluster as one query has seen them, and what was done since.

    Those of ``uids`` that carry ``owner`` are ours.
    """

    def __init__(
        self, jobs: Iterable[Job], owner: str, uids: Collection[int], nodes: Callable[[], Mapping[str, Node]]
    ) -> None:
        self._jobs = {job.id: job for job in jobs}
        self._owner = owner
        self._uids = uids
        self._query_nodes = nodes
        self._nodes: Mapping[str, Node] | None = None

    def jobs(self) -> list[Job]:
        """List all jobs."""
        return list(self._jobs.values())

    def find(self, instance: JobInstance) -> Job | None:
        """Find the job of an instance; a number that means another job by now does not count.

        It is known by its number and its user. Its name and comment a guest can change while it runs, and
        would so escape us; they only tell when it is the job of another lease by now.
        """
        job = self._jobs.get(instance.job_id) if instance.job_id is not None else None
        if job is None or job.uid != instance.uid:
            return None
        tag = self.tag_of_ours(job)
        return job if tag is None or tag == instance.tag else None

    def tag_of_ours(self, job: Job) -> Tag | None:
        """Read the tag of a job that is ours; None for any other."""
        tag = tag_of(job) if job.uid in self._uids else None
        return tag if tag is not None and tag.owner == self._owner else None

    def ours(self) -> list[tuple[Tag, Job]]:
        """List the jobs that carry our tag, live ones first, and of those the first submitted first."""
        tagged = [(tag, job) for job in self._jobs.values() if (tag := self.tag_of_ours(job))]
        return sorted(tagged, key=lambda pair: (not pair[1].is_live, pair[1].id))

    def add(self, job: Job) -> None:
        """Count a job in that was submitted since."""
        self._jobs[job.id] = job

    def did(self, step: Step, job: Job) -> None:
        """Count in what was done to a job, as far as it concerns CPUs."""
        if step in {Step.SUSPEND, Step.RESUME}:
            self._jobs[job.id] = replace(job, flags=("SUSPENDED" if step is Step.SUSPEND else "RUNNING",))

    def cpu_map(self) -> CpuMap:
        """Say which CPUs are taken now; raises SlurmUnavailable where the nodes cannot be known."""
        if self._nodes is None:
            self._nodes = self._query_nodes()
        return CpuMap(self._nodes, self._jobs.values())


# --- the native queue ---------------------------------------------------------------------------------------

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
class NativeQueue:
    """The jobs of the site's own users, as a planner understands them: how many VMs, for how long, in which order.

    A job takes as many VMs as fill its CPUs, node by node, and where memory is consumable as many as fill its
    memory, if that are more. At a site that is planned ``by_nodes`` a VM is one of its CPUs, or where it has GPUs all
    that it has on a node.

    ``nodes`` are those that the site is about, ``time_limits_min`` those of partitions.
    """

    nodes: Mapping[str, Node]
    time_limits_min: Mapping[str, int | None]
    options: SlurmOptions
    slots: int
    by_nodes: bool = False

    def of(self, jobs: Sequence[Job]) -> list[NativeJob]:
        """List those that run, the earliest first, then those that wait for room by priority."""
        running = sorted(filter(self._holds_room, jobs), key=lambda job: (job.start_s, job.id))
        pending = sorted(filter(self._waits, jobs), key=lambda job: (-job.priority, job.id))
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
        if self.by_nodes:
            return self._on_nodes(job, name, shares, is_running=is_running)
        return NativeJob(name, job.user, vms, -(-memory_mib // vms), self._duration_ms(job), is_running)

    def _on_nodes(self, job: Job, name: str, shares: list[tuple[Node, int]], *, is_running: bool) -> NativeJob:
        """Describe a job by what each of its VMs has on its node: of its GPUs, its share of them on one node."""
        gpus = [job.gpus_by_node.get(node.name, NO_GPUS) for node, _ in shares] if is_running else []
        if is_running and not any(one.count for one in gpus):
            gpus = []
        elif not is_running and job.gpus.count:
            gpus = [Gpus(job.gpus.model, -(-job.gpus.count // len(shares)))] * len(shares)
        if not gpus:
            vms, cores = sum(cpus for _, cpus in shares), 1
            nodes = tuple(sorted((node.name, cpus) for node, cpus in shares if node.name and cpus))
        else:
            vms, cores = len(shares), max(cpus for _, cpus in shares)
            nodes = tuple(sorted((node.name, 1) for node, _ in shares if node.name))
        most = max(gpus, key=lambda one: one.count, default=NO_GPUS)
        memory_mib = sum(_memory_mib(job, cpus) for _, cpus in shares) if self.options.memory else 0
        return NativeJob(
            name,
            job.user,
            max(1, vms),
            -(-memory_mib // max(1, vms)),
            self._duration_ms(job),
            is_running,
            cores=max(1, cores),
            gpu_model=most.model,
            gpu_milli=most.count * GPU_MILLI,
            nodes=nodes if is_running else (),
        )

    def _vms(self, job: Job, node: Node, cpus: int) -> int:
        """How many VMs of a node a share is, by whatever is scarcer."""
        each = self.options.cpus_per_vm
        by_cpus = -(-cpus // each)
        if not self.options.memory:
            return by_cpus
        return max(by_cpus, -(-_memory_mib(job, cpus) * node.cpus // (max(1, node.memory_mib) * each)))

    def _duration_ms(self, job: Job) -> int:
        limits = map(self.time_limits_min.get, job.partitions)
        longest = max((limit for limit in limits if limit is not None), default=_LONGEST_MIN)
        return min(job.time_limit_min or longest, _LONGEST_MIN) * _MS_PER_MIN


def _memory_mib(job: Job, cpus: int) -> int:
    return job.memory_per_node_mib or job.memory_per_cpu_mib * cpus
