"""The jobs as one look has seen them, kept up with what we have done since."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from leasehold.service.drivers.slurm.floorplan import Floorplan
from leasehold.service.drivers.slurm.holding import Holding
from leasehold.service.drivers.slurm.job import Job
from leasehold.service.drivers.slurm.meaning import Step
from leasehold.service.drivers.slurm.node import Node
from leasehold.service.drivers.slurm.tag import Tag, tag_of

_BECOMES = {Step.SUSPEND: "SUSPENDED", Step.RESUME: "RUNNING"}


class Snapshot:
    """All jobs of the cluster; those of ``uids`` that carry ``owner`` are ours."""

    def __init__(
        self, jobs: Iterable[Job], owner: str, uids: Collection[int], nodes: Callable[[], Mapping[str, Node]]
    ) -> None:
        self._jobs = {job.id: job for job in jobs}
        self._owner = owner
        self._uids = uids
        self._ask_nodes = nodes
        self._nodes: Mapping[str, Node] | None = None

    def job_of(self, holding: Holding) -> Job | None:
        """Find the job of a holding; a number that means another job by now does not count.

        It is known by its number and its user. Its name and comment a guest can change while it runs, and
        would so get rid of us; they only tell when it is the job of another lease by now.
        """
        job = self._jobs.get(holding.job_id) if holding.job_id is not None else None
        if job is None or job.uid != holding.uid:
            return None
        tag = tag_of(job)
        is_of_another = tag is not None and tag.owner == self._owner and tag != holding.tag(self._owner)
        return None if is_of_another else job

    def ours(self) -> list[tuple[Tag, Job]]:
        """List the jobs that carry our sign, live ones first, and of those the first submitted first."""
        of_our_users = [job for job in self._jobs.values() if job.uid in self._uids]
        tagged = [(tag, job) for job in of_our_users if (tag := tag_of(job)) and tag.owner == self._owner]
        return sorted(tagged, key=lambda pair: (not pair[1].is_live, pair[1].id))

    def add(self, job: Job) -> None:
        """Count a job in that was submitted since."""
        self._jobs[job.id] = job

    def did(self, step: Step, job: Job) -> None:
        """Count in what was done to a job, as far as it concerns CPUs."""
        if step in _BECOMES:
            self._jobs[job.id] = replace(job, words=(_BECOMES[step],))

    def floorplan(self) -> Floorplan:
        """Say which CPUs are taken now; raises SlurmSilent where the nodes cannot be known."""
        if self._nodes is None:
            self._nodes = self._ask_nodes()
        return Floorplan(self._nodes, self._jobs.values())
