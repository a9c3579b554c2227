"""The reconciler of one site's jobs: follows orders, observes, and takes the steps that are needed.

Nothing here waits: a look queries Slurm once, and takes for each instance the one step that brings it nearer to its
desired state; the next look sees what became of it. An order is refused where Slurm refuses the job, or does not
answer: so each begins with a look, and a START submits at once. What is desired is on file before anything is done.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import uuid4

from leasehold.jobs.job import Fault
from leasehold.model.resources import gpus_text
from leasehold.service.drivers.facts import not_one_per_node
from leasehold.service.drivers.protocol import (
    SIGNAL,
    Clock,
    Observation,
    Order,
    Phase,
    PlacementConstraints,
    Problem,
    Verb,
)
from leasehold.service.drivers.reconciler.desired import Desired, DesiredState
from leasehold.service.drivers.reconciler.order_rules import Action, no_such_image
from leasehold.service.drivers.reconciler.store import InstanceStore
from leasehold.service.drivers.slurm.cluster import Job, JobState
from leasehold.service.drivers.slurm.commands import Slurm, SlurmRefused, SlurmUnavailable, Step
from leasehold.service.drivers.slurm.instance import JobInstance, is_settled, next_step, observed
from leasehold.service.drivers.slurm.job_directory import CONSOLE, JobDirectories, batch_script
from leasehold.service.drivers.slurm.options import OnSuspend, SlurmOptions
from leasehold.service.drivers.slurm.probes import probed_by
from leasehold.service.drivers.slurm.queue import Snapshot
from leasehold.service.drivers.slurm.users import JobUser, JobUsers

NO_ROOM = "its CPUs are in use by other jobs"


class JobReconciler:
    """The jobs of one site. To be used from one thread at a time.

    ``suspect_since_ms``  the nodes on which a command was not found, and when: what is known of them is wrong
    """

    def __init__(
        self,
        slurm: Slurm,
        store: InstanceStore[JobInstance],
        directories: JobDirectories,
        options: SlurmOptions,
        slots: int,
        clock: Clock,
    ) -> None:
        self.capabilities = options.able
        self.instances = DesiredState(JobInstance, slots, self.capabilities, store.instances(), store.tombstones())
        self.suspect_since_ms: dict[str, int] = {}
        self._slurm = slurm
        self._store = store
        self._directories = directories
        self._options = options
        self._users = JobUsers(options)
        self._clock = clock
        self._memory_is_settled = options.memory

    # observing

    def observe(self) -> list[Observation]:
        """Look, and report what is there, by lease; raises SlurmUnavailable where that cannot be known."""
        self._look()
        return self.instances.observe()

    def _look(self) -> Snapshot:
        """Observe all jobs, and take the steps that are needed; raises SlurmUnavailable where they cannot be seen."""
        seen = self._snapshot()
        strays = self._claim(seen)
        for instance in self.instances.all():
            self._update(instance, seen.find(instance))
        try:
            self._take_steps(seen, strays)
        except SlurmUnavailable:
            pass  # there is a next look
        finally:
            self._write()
        return seen

    def _claim(self, seen: Snapshot) -> list[Job]:
        """Find the jobs that were submitted just before a crash; returns those that are not wanted.

        The number of a lease is not secret, and a guest may write what it likes on its own job: only the user
        that was chosen for the lease and all of its tag make a job the lease's.
        """
        strays: list[Job] = []
        for tag, job in seen.ours():
            instance = self.instances.find((tag.lease_id, tag.generation))
            if (
                instance is not None
                and (job.uid, tag) == (instance.uid, instance.tag)
                and instance.job_id in {None, job.id}
            ):
                if instance.job_id is None:
                    instance.job_id = job.id
                    self.instances.touch(instance)
            elif job.is_live:
                strays.append(job)
        return strays

    def _update(self, instance: JobInstance, job: Job | None) -> None:
        if instance.phase is Phase.RUNNING and not instance.is_leaving:
            at_ms = min(self._directories.of(instance).checkpointed_ms(), self._clock())
            if at_ms > instance.checkpointed_ms:
                instance.checkpointed_ms = at_ms
                self.instances.touch(instance)
        now = observed(instance, job, self._directories.of(instance).run_record, self._clock())
        if now.fault == Fault.SOFTWARE_GONE and job is not None:
            self.suspect_since_ms.update(dict.fromkeys(job.cpus_by_node, now.since_ms))
        if now != instance:
            instance.nodes, instance.restarts = now.nodes, now.restarts
            self.instances.become(
                instance, now.phase, now.since_ms, now.detail, exit_status=now.exit_status, fault=now.fault
            )

    # orders

    def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        """Follow orders in their sequence; returns the problems of those that are not taken on, by their ids.

        Once Slurm does not answer, the orders that follow do not wait for it.
        """
        try:
            seen = self._look()
        except SlurmUnavailable as error:
            return {order.id: Problem(str(error)) for order in orders}
        problems: dict[str, Problem] = {}
        silence: Problem | None = None
        for order in orders:
            try:
                problem = silence or self._follow(order, seen)
            except SlurmUnavailable as error:
                problem = silence = Problem(str(error))
            if problem is not None:
                problems[order.id] = problem
        self._write()
        return problems

    def _follow(self, order: Order, seen: Snapshot) -> Problem | None:
        """Follow an order: what is desired is written, and the first step towards it taken."""
        before = self.instances.current(order.lease_id)
        fields = self._fields(order) if order.verb is Verb.START else {}
        problem = self.instances.follow(
            order, self._clock(), lambda action: self._refuse(action, order, seen), **fields
        )
        if problem is not None:
            return problem
        now = self.instances.current(order.lease_id)
        if order.verb is Verb.RESUME and now is not None and now.incarnation == order.incarnation:
            self._place_anew(now, order.constraints)
        self._write()
        if order.verb is Verb.START and now is not None and (now.incarnation, now.job_id) == (order.incarnation, None):
            # Where it was there before, Slurm may have it, or not: `singleton` holds a double back.
            return self._unacceptable(order) or self._submit(now, seen)
        if before is not None:
            self._take_step(before, seen)
        return None

    def _place_anew(self, instance: JobInstance, constraints: PlacementConstraints) -> None:
        """Note where the plan of the site has put an instance that comes back; others stay where they were."""
        if constraints.placed:
            for name, value in _where(constraints).items():
                setattr(instance, name, value)
            self.instances.touch(instance)

    def _fields(self, order: Order) -> dict[str, object]:
        """What a new instance has of its own; without a user it is refused."""
        user = self._users.of(order.account)
        whose = {} if user is None else {"user": user.name, "uid": user.uid, "gid": user.gid}
        cores = order.constraints.cores or self._options.cpus_per_vm
        tag = {"owner": self._store.identity, "secret": uuid4().hex}
        return {**_where(order.constraints), "cores": cores, "notify": order.notify, **whose, **tag}

    def _refuse(self, action: Action, order: Order, seen: Snapshot) -> Problem | None:
        """Say why a job cannot come, or come back."""
        current = self.instances.current(order.lease_id)
        if action is Action.RESUME and current is not None:
            return self.instances.no_room_for(order) or self._no_cpus_for(current, seen)
        return self._unacceptable(order) or self.instances.no_room_for(order)

    def _unacceptable(self, order: Order) -> Problem | None:
        """Say why a job cannot come, whatever room there is."""
        if self._users.of(order.account) is None:
            text = f"no Unix user is named for {order.account}: name one in [cluster.slurm.users], or set user"
            return Problem(text, again=False)
        lacking = no_such_image(order, self.capabilities)
        if lacking is not None:
            return lacking
        return not_one_per_node(order.constraints, order.vms) or self._memory_problem()

    def _no_cpus_for(self, instance: JobInstance, seen: Snapshot) -> Problem | None:
        """Its memory lies on certain nodes: it is there that it needs its CPUs back."""
        job = seen.find(instance)
        if job is None or job.state is not JobState.SUSPENDED or seen.cpu_map().has_room_for(job):
            return None
        return Problem(f"the job of lease {instance.lease_id} cannot resume yet: {NO_ROOM}", full=True)

    def _memory_problem(self) -> Problem | None:
        """Where memory is consumable, a job that asks for none may get all of a node's."""
        if not self._memory_is_settled:
            if self._slurm.memory_is_consumable():
                return Problem("memory is consumable in this cluster (SelectTypeParameters): set memory = true")
            self._memory_is_settled = True
        return None

    # submitting

    def _submit(self, instance: JobInstance, seen: Snapshot) -> Problem | None:
        """Submit a job. That Slurm may have it is on file, and its tag says whether it does."""
        directory, tag = self._directories.of(instance), instance.tag
        # One that is bound to nodes would wait for a dead one, unless it is requeued to be suspended.
        requeue = not instance.on_nodes or self._options.suspend is OnSuspend.REQUEUE
        try:
            user = JobUser.named(instance.user)
            directory.create(instance, self._directories.inputs)
            script = batch_script(instance, directory.work, shlex.split(self._options.images.get(instance.image, "")))
            given = self._sbatch_options(instance, directory.work, seen) | user.sbatch_options
            environment = {**user.environment, **self._options.environment, "LEASEHOLD_LEASE": str(instance.lease_id)}
            environment |= {
                "LEASEHOLD_NOTICE": str(directory.notice),
                "LEASEHOLD_CHECKPOINTED": str(directory.checkpoint),
            }
            no_kill = instance.outlives_nodes
            instance.job_id = self._slurm.submit(script, given, environment, requeue=requeue, no_kill=no_kill)
        except SlurmRefused as refused:
            problem = Problem(str(refused), again=refused.again)
        except SlurmUnavailable:
            raise
        except KeyError:  # also if a directory service is away for a while, so the order may be sent again
            problem = Problem(f"the Unix user {instance.user} of its job is not known any more")
        except OSError as error:
            problem = Problem(f"the folder of its job cannot be made: {error}")
        else:
            seen.add(Job(instance.job_id, ("PENDING",), name=tag.name, comment=tag.comment, uid=instance.uid))
            self.instances.touch(instance)
            self._write()
            return None
        self.instances.drop(instance)
        self._write()
        return problem

    def _sbatch_options(self, instance: JobInstance, work: Path, seen: Snapshot) -> dict[str, str]:
        options = self._options
        given = {
            "job-name": instance.tag.name,
            "comment": instance.tag.comment,
            "dependency": "singleton",
            "ntasks": str(instance.vms),
            "cpus-per-task": str(instance.cores),
            "gpus-per-task": instance.gpus,
            "nice": str(options.nice),
            "partition": options.partition,
            "qos": options.qos,
            "account": options.account,
            "chdir": str(work),
            "output": str(work / CONSOLE).replace("%", "%%"),
            "open-mode": "append",
        }
        if not instance.on_nodes:
            by_cpu = f"{-(-instance.memory_mib // instance.cores)}M" if options.memory else ""
            return given | {"mem-per-cpu": by_cpu, "exclude": ",".join(self._nodes_to_avoid(instance, seen))}
        return given | self._nodes_asked_for(instance)

    def _nodes_asked_for(self, instance: JobInstance) -> dict[str, str]:
        """Give the options of a job that has to run on certain nodes: no more than `Slurm.place` may change later."""
        cores, count, memory_mib = instance.cores, len(instance.on_nodes), instance.memory_mib
        nodes = {"nodelist": ",".join(instance.on_nodes), "nodes": f"{count}-{count}"}
        if instance.per_node:
            memory = {"mem": f"{memory_mib * instance.per_node}M" if memory_mib else ""}
        else:
            memory = {"mem-per-cpu": f"{-(-memory_mib // cores)}M" if self._options.memory else ""}
        return nodes | {"mincpus": str(cores * max(1, instance.per_node))} | memory

    def _nodes_to_avoid(self, instance: JobInstance, seen: Snapshot) -> list[str]:
        """Keep a new job off the memory of suspended ones, if that can be helped."""
        found = map(seen.find, self.instances.all())
        suspended = [job for job in found if job is not None and job.state is JobState.SUSPENDED]
        return seen.cpu_map().nodes_to_avoid(suspended, instance.vms, instance.cores) if suspended else []

    # steps

    def _take_steps(self, seen: Snapshot, strays: Iterable[Job]) -> None:
        """Those that leave or rest make way first, so that others can come back in the same look."""
        for job in strays:
            self._slurm.do(Step.CANCEL, job.id)
        for instance in sorted(self.instances.all(), key=lambda one: (one.desired is Desired.UP, one.since_ms)):
            self._take_step(instance, seen)

    def _take_step(self, instance: JobInstance, seen: Snapshot) -> None:
        """Take the step that an instance needs; raises SlurmUnavailable."""
        job, now_ms = seen.find(instance), self._clock()
        if job is None or not job.is_live:
            if instance.is_leaving:
                self.instances.drop(instance)
            return
        step = next_step(instance, job, self._options.suspend, now_ms)
        if step is Step.RESUME and not seen.cpu_map().has_room_for(job):
            self._note(instance, NO_ROOM)
            return
        # Another job may have come onto its CPUs in the moment in which it was resumed.
        was_resumed = instance.incarnation > instance.generation and instance.phase is Phase.RUNNING
        is_running = job.state is JobState.RUNNING and instance.desired is Desired.UP
        if was_resumed and is_running and is_settled(job, now_ms) and seen.cpu_map().is_oversubscribed(job):
            self.instances.become(instance, Phase.RESUMING, now_ms, NO_ROOM)
            step = Step.SUSPEND
        if step is not None:
            self._do(step, instance, job, seen)

    def _do(self, step: Step, instance: JobInstance, job: Job, seen: Snapshot) -> None:
        complaint = ""
        if step is Step.RELEASE and instance.on_nodes:
            complaint = self._slurm.place(job.id, instance.vms * instance.cores, self._nodes_asked_for(instance))
        complaint = complaint or self._slurm.do(step, job.id)
        if complaint:
            self._note(instance, f"Slurm, asked to {step}: {complaint}")
        else:
            seen.did(step, job)

    def _note(self, instance: JobInstance, detail: str) -> None:
        if instance.detail != detail:
            instance.detail = detail
            self.instances.touch(instance)

    # notices

    def notify(self, order: Order, until_ms: int) -> None:
        """Tell the guest of an order that it will be preempted; raises SlurmUnavailable, OSError."""
        instance = self.instances.current(order.lease_id)
        if instance is None or instance.incarnation != order.incarnation or instance.phase is not Phase.RUNNING:
            return
        self._directories.of(instance).give_notice(until_ms)
        if order.notify.startswith(SIGNAL) and instance.job_id is not None:
            complaint = self._slurm.signal(instance.job_id, order.notify)
            if complaint:
                raise SlurmUnavailable(complaint)

    # the site's own users

    def native_jobs(self) -> list[Job]:
        """List the jobs of the site's own users; raises SlurmUnavailable where they cannot be seen."""
        seen, owner, prober = self._snapshot(), self._store.identity, self._users.default
        held = frozenset((one.job_id, one.uid) for one in self.instances.all())
        others = (job for job in seen.jobs() if (job.id, job.uid) not in held and not seen.tag_of_ours(job))
        return [job for job in others if not probed_by(job, owner, prober)]

    def memory_of_guests(self, jobs: Iterable[Job]) -> Counter[str]:
        """Say how much of each node's memory guests hold, also those whose processes are stopped."""
        by_id, taken_mib = {job.id: job for job in jobs}, Counter[str]()
        for instance in self.instances.all():
            job = by_id.get(instance.job_id or 0)
            if job is not None and job.is_live:
                for node, cpus in job.cpus_by_node.items():
                    taken_mib[node] += instance.memory_mib * -(-cpus // instance.cores)
        return taken_mib

    # what is kept

    def _snapshot(self) -> Snapshot:
        """Query the jobs; those are ours of all our users, also those of before the configuration was changed."""
        uids = self._users.uids.union(instance.uid for instance in self.instances.all())
        return Snapshot(self._slurm.jobs(), self._store.identity, uids, self._slurm.nodes)

    def _write(self) -> None:
        self.instances.take_news()  # the driver compares what it observes
        changes = self.instances.flush(self._store.write)
        if None in changes.instances.values():
            self._directories.prune(self.instances.all())


def _where(constraints: PlacementConstraints) -> dict[str, object]:
    """Say on which nodes a job runs, and which GPUs each of its VMs has, as matching or the plan of the site has it."""
    if not constraints.placed:
        return {"on_nodes": constraints.nodes, "least": constraints.least}
    counts = {machines for _, machines, _ in constraints.placed}
    return {
        "on_nodes": tuple(name for name, _, _ in constraints.placed),
        "per_node": counts.pop() if len(counts) == 1 else 0,
        "gpus": gpus_text(constraints.gpu_model, constraints.gpu_milli),
    }
