"""Which orders are followed, and how: each changes what is wanted, on file before anything is done.

Who is told the same thing twice does it once, and an order that comes too late does nothing:

* An order for an earlier incarnation than what is here, or for one that was stopped, is out of date. What was
  stopped is remembered, so that a late copy of its START never starts it again.
* START and RESUME of the incarnation that is here were followed before, but for a START of which nobody knows
  whether Slurm has it.

An order that comes too early (RESUME of what is not saved yet, START where an earlier incarnation is not gone
yet) is a problem that may solve itself.
"""

from collections.abc import Callable, Sequence
from uuid import uuid4

from leasehold.service.drivers.facts import no_room_for, not_one_on_each
from leasehold.service.drivers.protocol import Order, Phase, Problem, Verb
from leasehold.service.drivers.setup import Clock
from leasehold.service.drivers.slurm.commands import SlurmRefused, SlurmUnavailable
from leasehold.service.drivers.slurm.holding import Holding, Wanted
from leasehold.service.drivers.slurm.job import Job, JobState
from leasehold.service.drivers.slurm.job_directory import CONSOLE, JobDirectory, batch_script
from leasehold.service.drivers.slurm.options import OnSuspend, SlurmOptions
from leasehold.service.drivers.slurm.snapshot import Snapshot
from leasehold.service.drivers.slurm.steward import NO_ROOM, Steward
from leasehold.service.drivers.slurm.users import JobUser

_BRINGS_UP = frozenset({Verb.START, Verb.RESUME})

_Way = Callable[[Order, Holding | None, Snapshot], Problem | None]


class Intake:
    """Takes orders on for the jobs that a steward looks after."""

    def __init__(self, steward: Steward, options: SlurmOptions, slots: int, clock: Clock) -> None:
        self._steward = steward
        self._options = options
        self._slots = slots
        self._clock = clock
        self._memory_is_settled = options.memory
        self._ways: dict[Verb, _Way] = {
            Verb.START: self._start,
            Verb.SUSPEND: self._suspend,
            Verb.RESUME: self._resume,
            Verb.STOP: self._stop,
        }

    def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        """Follow orders in their sequence; returns the problems of those that were not taken on, by id."""
        try:
            seen = self._steward.look()
        except SlurmUnavailable as silent:
            return {order.id: Problem(str(silent)) for order in orders}
        answers = self._follow_each(orders, seen)
        return {name: problem for name, problem in answers.items() if problem is not None}

    def _follow_each(self, orders: Sequence[Order], seen: Snapshot) -> dict[str, Problem | None]:
        """Follow one order after the other; once Slurm is silent, nobody else is kept waiting for it."""
        answers: dict[str, Problem | None] = {}
        silence: Problem | None = None
        for order in orders:
            try:
                answers[order.id] = silence or self._follow(order, seen)
            except SlurmUnavailable as silent:
                answers[order.id] = silence = Problem(str(silent))
        return answers

    def _follow(self, order: Order, seen: Snapshot) -> Problem | None:
        here = self._steward.here.get(order.lease_id)
        if self._is_past(order, here):
            return None
        if order.verb not in self._ways:
            return Problem("jobs cannot be moved to or from another site", again=False)
        if order.verb in {Verb.SUSPEND, Verb.RESUME} and self._options.suspend is OnSuspend.NONE:
            return Problem("these jobs cannot be suspended", again=False)
        return self._ways[order.verb](order, here, seen)

    def _is_past(self, order: Order, here: Holding | None) -> bool:
        if order.incarnation <= self._steward.ledger.last_gone(order.lease_id):
            return True
        if here is None or order.incarnation > here.incarnation:
            return False
        if order.incarnation < here.incarnation:
            return True
        return order.verb in _BRINGS_UP and here.job_id is not None

    def _no_room_for(self, order: Order) -> Problem | None:
        others = (one for one in self._steward.here.values() if one.lease_id != order.lease_id)
        used = sum(one.room_vms for one in others)
        return no_room_for(order.vms, used, self._slots)

    # how each is followed

    def _start(self, order: Order, here: Holding | None, seen: Snapshot) -> Problem | None:
        if here is not None and here.incarnation < order.incarnation:
            return Problem(f"incarnation {here.incarnation} of lease {here.lease_id} is {here.phase} here")
        user = self._steward.users.of(order.account)
        if user is None:
            text = f"no Unix user is named for {order.account}: say one in [cluster.slurm.users], or user"
            return Problem(text, again=False)
        problem = _impossible(order) or self._no_room_for(order) or self._memory_matters()
        if problem is None:
            holding = here or Holding.ordered(order, self._clock(), user, uuid4().hex)
            self._keep(holding)
            problem = self._submit(holding, seen)
        return problem

    def _submit(self, holding: Holding, seen: Snapshot) -> Problem | None:
        """Give a job to Slurm. That we may have is on file, and what the job carries says whether we did."""
        steward, tag = self._steward, holding.tag(self._steward.ledger.owner)
        more = {"LEASEHOLD_LEASE": str(holding.lease_id)}
        try:
            user = JobUser.named(holding.user)
            directory = steward.directory_of(holding)
            directory.create(holding.uid, holding.gid, holding.nodes)
            given = self._given(holding, user, directory, self._nodes_to_avoid(holding, seen))
            environment = {**user.environment, **self._options.environment, **more}
            holding.job_id = steward.slurm.submit(
                self._script(holding, directory), given, environment, requeue=not self._is_lost_with_its_node(holding)
            )
        except SlurmRefused as refused:
            steward.drop(holding)
            return Problem(str(refused), again=refused.again)
        except SlurmUnavailable:
            raise
        except KeyError:
            # Also of a directory service that is away for a while, so it may be told again.
            steward.drop(holding)
            return Problem(f"the Unix user {holding.user} of its job is not known any more")
        except OSError as error:
            steward.drop(holding)
            return Problem(f"the folder of its job cannot be made: {error}")
        seen.add(Job(holding.job_id, ("PENDING",), name=tag.name, comment=tag.comment, uid=holding.uid))
        steward.ledger.keep([holding])
        return None

    def _nodes_to_avoid(self, holding: Holding, seen: Snapshot) -> list[str]:
        """Let a newcomer not sit down on the memory of those who are to come back, if that can be helped."""
        suspended = [
            job
            for one in self._steward.here.values()
            if (job := self._steward.job_of(one, seen)) is not None and job.state is JobState.SUSPENDED
        ]
        if not suspended or holding.nodes:
            return []
        return seen.cpu_map().nodes_to_avoid(suspended, holding.vms, self._options.cpus_per_vm)

    def _script(self, holding: Holding, directory: JobDirectory) -> str:
        return batch_script(
            directory.work,
            holding.lease_id,
            holding.command,
            vms=holding.vms,
            cores=holding.cores or self._options.cpus_per_vm,
            nodes=holding.nodes,
        )

    def _given(self, holding: Holding, user: JobUser, directory: JobDirectory, avoid: Sequence[str]) -> dict[str, str]:
        options, tag = self._options, holding.tag(self._steward.ledger.owner)
        return {
            "job-name": tag.name,
            "comment": tag.comment,
            "dependency": "singleton",
            "ntasks": str(holding.vms),
            **self._where(holding, avoid),
            "nice": str(options.nice),
            "partition": options.partition,
            "qos": options.qos,
            "account": options.account,
            "chdir": str(directory.work),
            "output": str(directory.work / CONSOLE).replace("%", "%%"),
            "open-mode": "append",
            **user.sbatch_options,
        }

    def _where(self, holding: Holding, avoid: Sequence[str]) -> dict[str, str]:
        """Ask for certain nodes, which have to have the memory, or for any but some."""
        options, cores = self._options, holding.cores or self._options.cpus_per_vm
        if not holding.nodes:
            by_cpu = f"{-(-holding.memory_mib // cores)}M" if options.memory else ""
            return {"cpus-per-task": str(cores), "mem-per-cpu": by_cpu, "exclude": ",".join(avoid)}
        return {
            "nodelist": ",".join(holding.nodes),
            "nodes": str(len(holding.nodes)),
            "ntasks-per-node": "1",
            "cpus-per-task": str(cores),
            "mem": f"{holding.memory_mib}M" if holding.memory_mib else "",
        }

    def _is_lost_with_its_node(self, holding: Holding) -> bool:
        """Who is bound to nodes would wait for a dead one; unless he has to be put back to be suspended."""
        return bool(holding.nodes) and self._options.suspend is not OnSuspend.REQUEUE

    def _memory_matters(self) -> Problem | None:
        """Where Slurm gives memory out, a job that asks for none may get all of a node's."""
        if not self._memory_is_settled:
            if self._steward.slurm.memory_is_consumable():
                return Problem("this cluster gives memory out (SelectTypeParameters): say memory = true")
            self._memory_is_settled = True
        return None

    def _suspend(self, order: Order, here: Holding | None, seen: Snapshot) -> Problem | None:
        if here is None or here.incarnation < order.incarnation:
            return Problem(f"incarnation {order.incarnation} of lease {order.lease_id} is not here yet")
        if not here.is_over and here.wanted is Wanted.RUNNING:
            here.wanted = Wanted.PAUSED
            here.become(Phase.SAVING, self._clock())
            self._keep(here)
            self._steward.pursue(here, seen)
        return None

    def _resume(self, order: Order, here: Holding | None, seen: Snapshot) -> Problem | None:
        if here is None or here.phase is Phase.FAILED:
            return Problem(f"no job of lease {order.lease_id} is suspended here", again=False)
        if here.phase is Phase.ENDED:
            # It ended in the moment when it was to be suspended, and so has nothing more to do.
            here.incarnation, here.since_ms = order.incarnation, self._clock()
            self._keep(here)
            return None
        if here.phase is not Phase.SAVED:
            return Problem(f"the job of lease {here.lease_id} is not suspended: it is {here.phase}")
        problem = self._no_room_for(order) or self._no_cpus_for(here, seen)
        if problem is None:
            here.incarnation, here.wanted = order.incarnation, Wanted.RUNNING
            here.become(Phase.RESUMING, self._clock())
            self._keep(here)
            self._steward.pursue(here, seen)
        return problem

    def _no_cpus_for(self, here: Holding, seen: Snapshot) -> Problem | None:
        """Its memory lies on certain nodes: it is there that it needs its CPUs back."""
        job = self._steward.job_of(here, seen)
        if job is None or job.state is not JobState.SUSPENDED or seen.cpu_map().has_room_for(job):
            return None
        return Problem(f"the job of lease {here.lease_id} cannot go on yet: {NO_ROOM}", full=True)

    def _stop(self, order: Order, here: Holding | None, seen: Snapshot) -> Problem | None:
        if here is not None:
            here.wanted = Wanted.GONE
        self._steward.ledger.stop(order.lease_id, order.incarnation, here)
        if here is not None:
            self._steward.pursue(here, seen)
        return None

    def _keep(self, holding: Holding) -> None:
        self._steward.here[holding.lease_id] = holding
        self._steward.ledger.keep([holding])


def _impossible(order: Order) -> Problem | None:
    """Say what is wished for that jobs cannot have."""
    if order.on.image:
        return Problem(f"jobs boot from no image, and so not from {order.on.image}", again=False)
    return not_one_on_each(order.on, order.vms)
