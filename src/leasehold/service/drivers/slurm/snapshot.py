"""The cluster's queue as one query has seen it: which jobs are ours, and which CPUs are taken.

A job of ours is known by its user, and by its comment, or its name where the comment was changed. Every user of the
cluster can read both, and can write the same. So they count for jobs of the users as whom we submit alone, and
carry a secret that did not exist before the job was submitted.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from leasehold.service.drivers.slurm.commands import Step
from leasehold.service.drivers.slurm.job import OCCUPIES_CPUS, Job
from leasehold.service.drivers.slurm.node import Node
from leasehold.service.drivers.slurm.users import JobUser

_IDS = r"(?P<lease>\d{1,18})\.(?P<generation>\d{1,18})"
_COMMENT = re.compile(rf"leasehold (?P<owner>\w+) lease {_IDS} (?P<secret>\w+)\b")
_NAME = re.compile(rf"leasehold-{_IDS}-(?P<owner>\w+)-(?P<secret>\w+)")
_PROBE = re.compile(r"leasehold (?P<owner>\w+) probe (?P<node>\S+)")

_BECOMES = {Step.SUSPEND: "SUSPENDED", Step.RESUME: "RUNNING"}


@dataclass(frozen=True, slots=True)
class Tag:
    """What a job carries: of which store and lease it is, with which incarnation it was started, and a secret."""

    owner: str
    lease_id: int
    generation: int
    secret: str

    @property
    def comment(self) -> str:
        """The comment of the job."""
        return f"leasehold {self.owner} lease {self.lease_id}.{self.generation} {self.secret}"

    @property
    def name(self) -> str:
        """The name of the job. No two leases have the same, so that ``singleton`` holds a double back."""
        return f"leasehold-{self.lease_id}.{self.generation}-{self.owner}-{self.secret}"


def tag_of(job: Job) -> Tag | None:
    """Read the tag of a job; None where it has none, and so is not ours."""
    found = _COMMENT.match(job.comment) or _NAME.fullmatch(job.name)
    if found is None:
        return None
    return Tag(found["owner"], int(found["lease"]), int(found["generation"]), found["secret"])


def probe_comment(owner: str, node: str) -> str:
    """The comment of a job that only looks at a node."""
    return f"leasehold {owner} probe {node}"


def probed_by(job: Job, owner: str, user: JobUser | None) -> str:
    """Say at which node a job of ours looks; empty for any other job."""
    found = _PROBE.fullmatch(job.comment)
    is_ours = found is not None and found["owner"] == owner and user is not None and job.uid == user.uid
    return found["node"] if found and is_ours else ""


class CpuMap:
    """How many CPUs of each node are taken. Slurm resumes a job whose CPUs others have, so the driver checks."""

    def __init__(self, nodes: Mapping[str, Node], jobs: Iterable[Job]) -> None:
        self._nodes = nodes
        self._taken: Counter[str] = Counter()
        for job in jobs:
            if job.state in OCCUPIES_CPUS:
                self._taken.update(job.cpus_by_node)

    def has_room_for(self, job: Job) -> bool:
        """Whether a suspended job can go on where it is, and share no CPU."""
        return all(
            node in self._nodes and self._taken[node] + cpus <= self._nodes[node].cpus
            for node, cpus in job.cpus_by_node.items()
        )

    def is_oversubscribed(self, job: Job) -> bool:
        """Whether a running job shares CPUs with others."""
        return any(self._taken[node] > self._nodes[node].cpus for node in job.cpus_by_node if node in self._nodes)

    def nodes_to_avoid(self, suspended: Sequence[Job], vms: int, cpus_per_vm: int) -> list[str]:
        """List the nodes on which suspended jobs lie, if so many VMs can do without them now; else none.

        A suspended job can go on nowhere else, and a new one can start anywhere.
        """
        wanted = {node for job in suspended for node in job.cpus_by_node}
        others = [node for node in self._nodes.values() if node.takes_jobs and node.name not in wanted]
        room_vms = sum(max(0, node.cpus - self._taken[node.name]) // cpus_per_vm for node in others)
        return sorted(wanted & self._nodes.keys()) if room_vms >= vms else []


class Snapshot:
    """All jobs of the cluster, kept up with what was done since; those of ``uids`` that carry ``owner`` are ours."""

    def __init__(
        self, jobs: Iterable[Job], owner: str, uids: Collection[int], nodes: Callable[[], Mapping[str, Node]]
    ) -> None:
        self._jobs = {job.id: job for job in jobs}
        self._owner = owner
        self._uids = uids
        self._query_nodes = nodes
        self._nodes: Mapping[str, Node] | None = None

    def find(self, job_id: int | None, uid: int, tag: Tag) -> Job | None:
        """Find the job of a lease; a number that means another job by now does not count.

        It is known by its number and its user. Its name and comment a guest can change while it runs, and
        would so escape us; they only tell when it is the job of another lease by now.
        """
        job = self._jobs.get(job_id) if job_id is not None else None
        if job is None or job.uid != uid:
            return None
        found = tag_of(job)
        is_of_another = found is not None and found.owner == self._owner and found != tag
        return None if is_of_another else job

    def ours(self) -> list[tuple[Tag, Job]]:
        """List the jobs that carry our tag, live ones first, and of those the first submitted first."""
        of_our_users = [job for job in self._jobs.values() if job.uid in self._uids]
        tagged = [(tag, job) for job in of_our_users if (tag := tag_of(job)) and tag.owner == self._owner]
        return sorted(tagged, key=lambda pair: (not pair[1].is_live, pair[1].id))

    def add(self, job: Job) -> None:
        """Count a job in that was submitted since."""
        self._jobs[job.id] = job

    def did(self, step: Step, job: Job) -> None:
        """Count in what was done to a job, as far as it concerns CPUs."""
        if step in _BECOMES:
            self._jobs[job.id] = replace(job, flags=(_BECOMES[step],))

    def cpu_map(self) -> CpuMap:
        """Say which CPUs are taken now; raises SlurmUnavailable where the nodes cannot be known."""
        if self._nodes is None:
            self._nodes = self._query_nodes()
        return CpuMap(self._nodes, self._jobs.values())
