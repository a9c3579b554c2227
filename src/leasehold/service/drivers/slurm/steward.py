"""Who looks after the jobs of one site: looks, compares, writes down, and does what is next.

Nothing here waits: a look asks Slurm once, and does for each lease the one thing that brings it nearer to how
it is wanted. The next look sees what became of it. Orders only change what is wanted (`intake`).
"""

from collections import Counter
from collections.abc import Callable, Iterable

from leasehold.jobs.job import Fault
from leasehold.service.drivers.protocol import NativeJob, Observation, Phase
from leasehold.service.drivers.setup import Clock
from leasehold.service.drivers.slurm.commands import Slurm, SlurmUnavailable, Step
from leasehold.service.drivers.slurm.holding import Holding, Wanted
from leasehold.service.drivers.slurm.job import Job, JobState
from leasehold.service.drivers.slurm.job_directory import JobDirectories, JobDirectory
from leasehold.service.drivers.slurm.ledger import Ledger
from leasehold.service.drivers.slurm.meaning import is_settled, next_step, update
from leasehold.service.drivers.slurm.native_queue import QueueScope
from leasehold.service.drivers.slurm.options import OnSuspend
from leasehold.service.drivers.slurm.snapshot import Snapshot, probed_by, tag_of
from leasehold.service.drivers.slurm.users import JobUsers

NO_ROOM = "its CPUs are taken by others"
_MAKES_WAY = frozenset({Step.HOLD, Step.SUSPEND, Step.REQUEUE, Step.CANCEL})
"""Done first; whoever comes back does so after those who leave."""


class Steward:
    """The jobs of one site. To be used from one thread at a time.

    ``here``     the holdings by lease
    ``doubted``  the nodes on which a command was not found, and when: what is known of them is not so
    """

    def __init__(
        self,
        slurm: Slurm,
        ledger: Ledger,
        directories: JobDirectories,
        users: JobUsers,
        on_suspend: OnSuspend,
        clock: Clock,
    ) -> None:
        self.slurm = slurm
        self.ledger = ledger
        self.directories = directories
        self.users = users
        self.here = {holding.lease_id: holding for holding in ledger.load()}
        self.doubted: dict[str, int] = {}
        self._on_suspend = on_suspend
        self._clock = clock

    def directory_of(self, holding: Holding) -> JobDirectory:
        """The directory of a lease's job."""
        return self.directories.of(holding.lease_id, holding.birth)

    def job_of(self, holding: Holding, seen: Snapshot) -> Job | None:
        """The job of a lease."""
        return seen.find(holding.job_id, holding.uid, holding.tag(self.ledger.owner))

    def observe(self) -> list[Observation]:
        """Look, and say what is there, by lease; raises SlurmUnavailable where that cannot be known."""
        self.look()
        held = (self.here[lease_id] for lease_id in sorted(self.here))
        return [holding.observed() for holding in held if holding.job_id is not None]

    def look(self) -> Snapshot:
        """Look at all jobs, and do what is next; raises SlurmUnavailable where they cannot be seen."""
        seen = Snapshot(self.slurm.jobs(), self.ledger.owner, self._uids(), self.slurm.nodes)
        before = {lease_id: holding.to_text() for lease_id, holding in self.here.items()}
        strays = self._claim(seen)
        now_ms = self._clock()
        for holding in self.here.values():
            job = self.job_of(holding, seen)
            update(holding, job, self.directory_of(holding).run_record, now_ms)
            if holding.fault == Fault.SOFTWARE_GONE:
                self.doubted.update(dict.fromkeys(job.cpus_by_node if job else (), holding.since_ms))
        try:
            self._do_what_is_next(seen, strays)
        except SlurmUnavailable:
            pass  # there is a next look
        finally:
            self.ledger.keep(one for one in self.here.values() if one.to_text() != before.get(one.lease_id))
        return seen

    def native_jobs(self, scope: Callable[[], QueueScope]) -> list[NativeJob]:
        """List the jobs of the site's own users; raises SlurmUnavailable where they cannot be seen."""
        # Gathered once: of both there may be tens of thousands, and each job is held against all holdings.
        uids, held = self._uids(), frozenset((one.job_id, one.uid) for one in self.here.values())
        owner, prober = self.ledger.owner, self.users.default

        def is_guest(job: Job) -> bool:
            tag = tag_of(job)
            is_tagged = tag is not None and tag.owner == owner and job.uid in uids
            return is_tagged or (job.id, job.uid) in held or bool(probed_by(job, owner, prober))

        return scope().native_jobs(self.slurm.jobs(), is_guest)

    def memory_of_guests(self, jobs: Iterable[Job], cpus_per_vm: int) -> Counter[str]:
        """Say how much of each node's memory guests hold, also those whose processes are stopped."""
        by_id, taken_mib = {job.id: job for job in jobs}, Counter[str]()
        for holding in self.here.values():
            job = by_id.get(holding.job_id or 0)
            if job is not None and job.is_live:
                for node, cpus in job.cpus_by_node.items():
                    taken_mib[node] += holding.memory_mib * -(-cpus // (holding.cores or cpus_per_vm))
        return taken_mib

    def _uids(self) -> frozenset[int]:
        """As whom our jobs run, also those that were submitted before the configuration was changed."""
        return self.users.uids.union(holding.uid for holding in self.here.values())

    def _claim(self, seen: Snapshot) -> list[Job]:
        """Find the jobs that were submitted just before a crash; returns those that nobody wants.

        The number of a lease is no secret, and a guest may write what it likes on its own job: only the user
        that was chosen for the lease and all of its tag make a job the lease's.
        """
        strays: list[Job] = []
        for tag, job in seen.ours():
            holding = self.here.get(tag.lease_id)
            if (
                holding is not None
                and (job.uid, tag) == (holding.uid, holding.tag(self.ledger.owner))
                and holding.job_id in {None, job.id}
            ):
                holding.job_id = job.id
            elif job.is_live:
                strays.append(job)
        return strays

    # what is next

    def _do_what_is_next(self, seen: Snapshot, strays: list[Job]) -> None:
        for job in strays:
            self.slurm.do(Step.CANCEL, job.id)
        for holding in list(self.here.values()):
            self._make_way(holding, seen)
        for holding in sorted(self.here.values(), key=lambda one: one.since_ms):
            self._come_back(holding, seen)

    def pursue(self, holding: Holding, seen: Snapshot) -> None:
        """Do the next thing for one lease; raises SlurmUnavailable where Slurm does not answer."""
        self._make_way(holding, seen)
        self._come_back(holding, seen)

    def _make_way(self, holding: Holding, seen: Snapshot) -> None:
        job = self.job_of(holding, seen)
        if job is not None and job.is_live:
            step = next_step(holding, job, self._on_suspend, self._clock())
            if step in _MAKES_WAY:
                self._do(step, holding, job, seen)
        elif holding.wanted is Wanted.GONE:
            self.drop(holding)

    def _come_back(self, holding: Holding, seen: Snapshot) -> None:
        job = self.job_of(holding, seen)
        if job is None:
            return
        step = next_step(holding, job, self._on_suspend, self._clock())
        if step is Step.RESUME and not seen.cpu_map().has_room_for(job):
            holding.detail = NO_ROOM
        elif step is Step.RESUME or step is Step.RELEASE:
            self._do(step, holding, job, seen)
        elif self._was_overtaken(holding, job, seen):
            holding.become(Phase.RESUMING, self._clock(), NO_ROOM)
            self._do(Step.SUSPEND, holding, job, seen)

    def _was_overtaken(self, holding: Holding, job: Job, seen: Snapshot) -> bool:
        """Whether somebody came onto the CPUs of a job in the moment in which it was resumed."""
        was_resumed = holding.incarnation > holding.birth and holding.phase is Phase.RUNNING
        is_running = job.state is JobState.RUNNING and holding.wanted is Wanted.RUNNING
        may_switch = was_resumed and is_running and is_settled(job, self._clock())
        return may_switch and seen.cpu_map().is_oversubscribed(job)

    def _do(self, step: Step, holding: Holding, job: Job, seen: Snapshot) -> None:
        complaint = self.slurm.do(step, job.id)
        if complaint:
            holding.detail = f"Slurm, asked to {step}: {complaint}"
        else:
            seen.did(step, job)

    def drop(self, holding: Holding) -> None:
        """Let go of a holding of which nothing is left."""
        del self.here[holding.lease_id]
        self.ledger.forget(holding.lease_id)
        self.directories.prune(map(self.directory_of, self.here.values()))
