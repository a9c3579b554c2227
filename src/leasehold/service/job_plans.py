"""What would become of a job: where it would run, what its lease would cost others, and what would go better.

An alternative is the same job with one thing changed. Each is tried: by the scheduler of jobs, and as a request for a
lease on a branch of the gateway, which is undone. A job chooses neither its site nor when it begins: neither is tried.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import floor
from typing import Any

from leasehold.gateway.planning import Prospect as LeaseProspect
from leasehold.gateway.planning import most_tried, outlook
from leasehold.jobs.job import Attempt, Backup, JobReason, JobRecord, JobRequest, JobState, Place
from leasehold.matching.devices import devices_of
from leasehold.matching.verdict import Feasibility
from leasehold.model.errors import InvalidField
from leasehold.model.request import GPU_MILLI, LeaseType, Request, check_request
from leasehold.service.commands import SubmitJob
from leasehold.service.engine.attempts import metadata_of, request_of
from leasehold.service.engine.engine import Engine
from leasehold.service.jobs import Chosen, NodeGroup, answer_of_own, chosen_at, verdicts
from leasehold.service.store.rows import LeaseMetadata, NodeRow

_SIZES_TRIED = 2
"""Of smaller amounts, the largest that nodes have: so many are tried."""
_LEAST_MS = 1_000
_WORTH_IT = 20
"""A wait that is shorter by such a part, or less, is no reason to ask for something else."""


class JobChange(StrEnum):
    """The one thing in which an alternative differs from a job."""

    NODES = "nodes"
    CORES = "cores"
    MEMORY = "memory"
    GPUS = "gpus"
    SOFTWARE = "software"
    EXECUTION = "execution"
    TYPE = "type"
    BACKUP = "backup"
    RELIABILITY = "reliability"
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What would become of a job right after it was submitted.

    ``state``    running, building, waiting or refused; ``what`` is lacking, where there is something
    ``surest``   how sure it is to be done by its deadline, None where nothing was asked
    ``lease``    what would become of the lease that it asks for at once, or once its image is thought to be built; None
                 where it asks for none, since there is no place for it
    ``made_ms``  the time of all this
    """

    state: JobState
    reason: JobReason
    what: str
    chosen: tuple[Chosen, ...]
    surest: float | None
    lease: LeaseProspect | None
    made_ms: int

    @property
    def is_refused(self) -> bool:
        """Whether it would not run, as things stand."""
        return self.state is JobState.REFUSED or (self.lease is not None and self.lease.is_refused)

    @property
    def consequences(self) -> tuple[str, ...]:
        """What would be otherwise than asked for, or at the cost of others; empty for a refusal."""
        if self.is_refused:
            return ()
        own = {JobState.WAITING: ("waits",), JobState.BUILDING: ("builds",)}.get(self.state, ())
        of_lease = () if self.lease is None else tuple(one.value for one in self.lease.consequences)
        return tuple(dict.fromkeys((*own, *of_lease)))

    @property
    def start_ms(self) -> int | None:
        """When its machines would be ordered; None where that is not known."""
        return None if self.lease is None or self.is_refused else self.lease.start_ms

    @property
    def preempted_vms(self) -> int:
        """How many VMs would be taken from others."""
        return 0 if self.lease is None else self.lease.preempted_vms

    def is_better_than(self, other: "JobOutcome") -> bool:
        """Whether this one is not refused where the other is, starts earlier, or takes fewer VMs from others."""
        if self.is_refused:
            return False
        if other.is_refused:
            return True
        sooner = self.start_ms is not None
        if self.start_ms is not None and other.start_ms is not None:
            sooner = self.start_ms < other.start_ms - max(0, other.start_ms - self.made_ms) // _WORTH_IT
        return (sooner and self.preempted_vms <= other.preempted_vms) or self.preempted_vms < other.preempted_vms


@dataclass(frozen=True, slots=True)
class JobAlternative:
    """A job that is better off, different in one thing, and what would become of it."""

    change: JobChange
    job: SubmitJob
    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What would become of a job, what all nodes say to it, and what would go better.

    ``metadata``  of the lease that it would ask for at once; None: it would not
    ``untried``   how many other alternatives were not tried
    """

    outcome: JobOutcome
    groups: tuple[NodeGroup, ...]
    metadata: LeaseMetadata | None = None
    alternatives: tuple[JobAlternative, ...] = ()
    untried: int = 0


def plan_job(engine: Engine, command: SubmitJob) -> JobPlan:
    """Say what would become of a job; nothing is changed. Raises InvalidField for one that cannot be, Unavailable."""
    with engine.committed_state():
        engine.jobs.catch_up(engine.now_ms)
        asked = engine.jobs.request(command, engine.now_ms)
        outcome, smaller, metadata = _tried(engine, command)
        groups = verdicts(engine, asked.job, answer_of_own(engine, asked))
        if not (outcome.is_refused or outcome.consequences):
            return JobPlan(outcome, groups, metadata)
        others = list(_Others(engine, command, outcome, groups, smaller).all())
        found: list[JobAlternative] = []
        most = most_tried(engine.gateway)
        for change, other in others[:most]:
            if any(one.change is change for one in found):
                continue  # the most of it that helps is enough
            tried, *_ = _tried(engine, other)
            if tried.is_better_than(outcome):
                found.append(JobAlternative(change, other, tried))
        return JobPlan(outcome, groups, metadata, tuple(found), max(0, len(others) - most))


def _tried(engine: Engine, command: SubmitJob) -> tuple[JobOutcome, tuple[Request, ...], LeaseMetadata | None]:
    """Try a job; gives smaller requests for leases that may do better, and what goes with its lease, too."""
    now_ms = engine.now_ms
    asked = engine.jobs.request(command, now_ms)
    seen = engine.jobs.scheduler.forecast(asked, now_ms)
    chosen = tuple(map(chosen_at, seen.places))
    lease, smaller, metadata = None, tuple[Request, ...](), None
    if chosen:
        request = _request(engine, asked, seen.places[0], seen.state, now_ms)
        if request is not None:
            lease, smaller = outlook(engine.gateway, request, now_ms)
        if seen.state is JobState.RUNNING:
            metadata = metadata_of(JobRecord(asked, since_ms=now_ms), Attempt(1, seen.places[0], now_ms))
    return JobOutcome(seen.state, seen.reason, seen.what, chosen, seen.surest, lease, now_ms), smaller, metadata


def _request(engine: Engine, asked: JobRequest, place: Place, state: JobState, now_ms: int) -> Request | None:
    """Give the request for a lease that a job makes at this place; None where no lease can be so."""
    jobs = engine.jobs
    record, attempt = JobRecord(asked, since_ms=now_ms), Attempt(1, place, now_ms)
    wall_ms, number = jobs.setup.wall_ms(record, attempt), max(engine.gateway.leases, default=0) + 1
    by_nodes, speeds = jobs.is_planned_by_nodes(attempt.site), jobs.speeds(attempt.site)
    ready_ms = now_ms + (jobs.setup.settings.build_ms if state is JobState.BUILDING else 0)
    try:
        request = request_of(record, attempt, number, wall_ms, speeds, now_ms, by_nodes=by_nodes)
        return check_request(replace(request, ready_ms=ready_ms))
    except InvalidField:
        return None


# What else could be asked for

_Other = tuple[JobChange, SubmitJob]


@dataclass(frozen=True, slots=True)
class _Others:
    """Jobs that differ in one thing from one that is not as asked for; ``smaller`` are requests for less of a lease."""

    engine: Engine
    command: SubmitJob
    outcome: JobOutcome
    groups: tuple[NodeGroup, ...]
    smaller: tuple[Request, ...]

    def all(self) -> Iterator[_Other]:
        """Give each with what it changes: what is likeliest to help first, and of each change the least first."""
        lacks_nodes = not self.outcome.chosen or self.outcome.state is JobState.BUILDING
        yield from self._surer()
        if lacks_nodes:
            yield from self._other_versions()
        yield from self._fewer_nodes()
        if lacks_nodes:
            yield from self._smaller_nodes()
        yield from self._other_types()
        yield from self._shorter()
        if self.command.backup is not Backup.NONE:
            yield JobChange.BACKUP, replace(self.command, backup=Backup.NONE)

    def _surer(self) -> Iterator[_Other]:
        """Without what is out of reach: the deadline, or how sure it is to be kept."""
        if self.command.deadline_ms is not None and self.outcome.reason is JobReason.TOO_LATE:
            yield JobChange.DEADLINE, replace(self.command, deadline_ms=None, reliability=None)
        if self.command.reliability is not None and self.outcome.reason is JobReason.NOT_SURE_ENOUGH:
            yield JobChange.RELIABILITY, replace(self.command, reliability=None)

    def _other_versions(self) -> Iterator[_Other]:
        """Any version of one piece of software."""
        software = self.command.needs.software
        for number, one in enumerate(software):
            if one.constraints:
                others = (*software[:number], replace(one, constraints=()), *software[number + 1 :])
                yield JobChange.SOFTWARE, self._with(software=others)

    def _fewer_nodes(self) -> Iterator[_Other]:
        """As many as fit now at one site, or as a lease has room for."""
        needs = self.command.needs
        counts = {request.vms for request in self.smaller} | {_fitting(self.groups)}
        for nodes in sorted((count for count in counts if 0 < count < needs.nodes), reverse=True):
            yield JobChange.NODES, self._with(nodes=nodes, need=min(needs.need, nodes))

    def _smaller_nodes(self) -> Iterator[_Other]:
        """With the cores, memory or GPUs that nodes have, or have free; GPUs of any model, too."""
        rows = [kind.row for kind in self.engine.jobs.nodes.kinds(self.outcome.made_ms)]
        amounts = self.command.needs.amounts
        for cores in _below(amounts.cores, (row.cores for row in rows), (row.free_cores for row in rows)):
            yield JobChange.CORES, self._with(amounts=replace(amounts, cores=cores))
        memory = ((row.memory_mib for row in rows), (row.free_memory_mib for row in rows))
        for memory_mib in _below(amounts.memory_mib, *memory):
            yield JobChange.MEMORY, self._with(amounts=replace(amounts, memory_mib=memory_mib))
        model = self.command.needs.gpu_model
        if model:
            yield JobChange.GPUS, self._with(gpu_model="")
        have = [row for row in rows if model in ("", row.gpu_model)]
        for gpu_milli in self._other_gpus(have):
            yield JobChange.GPUS, self._with(amounts=replace(amounts, gpus=devices_of(gpu_milli)))

    def _other_gpus(self, rows: Sequence[NodeRow]) -> Iterator[int]:
        """Fewer GPUs, in thousandths, or a smaller part of one; instead of a part a whole one."""
        needs = self.command.needs
        if not needs.shares_gpu:
            free = (GPU_MILLI * row.free_gpus.count(GPU_MILLI) for row in rows)
            yield from _below(needs.gpu_milli, (GPU_MILLI * row.gpus for row in rows), free)
            return
        yield from _below(needs.gpu_milli, (max(row.free_gpus, default=0) for row in rows if row.gpu_shares))
        if any(row.gpus and not row.gpu_shares for row in rows):
            yield GPU_MILLI

    def _other_types(self) -> Iterator[_Other]:
        """With leases of other types, where that of this one is not as asked for."""
        lease = self.outcome.lease
        if lease is not None and (lease.is_refused or lease.consequences):
            for kind in LeaseType:
                if kind is not self.command.lease_type:
                    yield JobChange.TYPE, replace(self.command, lease_type=kind)

    def _shorter(self) -> Iterator[_Other]:
        """For as long as a lease has room: less the start of machines, and the margin."""
        jobs, needs = self.engine.jobs, self.command.needs
        for request in self.smaller:
            if request.vms != needs.nodes:
                continue
            chosen = self.outcome.chosen[0]
            speeds = jobs.speeds(chosen.site)
            wall_ms = request.duration_ms * speeds.reference // speeds.site - _boot_ms(self.engine, chosen)
            execution_ms = floor(wall_ms / jobs.setup.margin)
            execution_ms -= execution_ms % 1_000
            if _LEAST_MS <= execution_ms < needs.execution_ms:
                yield JobChange.EXECUTION, self._with(execution_ms=execution_ms)

    def _with(self, **needs: Any) -> SubmitJob:  # noqa: ANN401 - fields of `Needs`
        return replace(self.command, needs=replace(self.command.needs, **needs))


def _fitting(groups: Iterable[NodeGroup]) -> int:
    """Say how many nodes fit now at the site that has most of them."""
    there: dict[str, int] = {}
    for group in groups:
        says = group.says
        fits = any(one is not None and one.answer is Feasibility.FIT for one in (says.as_node, says.as_host))
        if fits and not says.problem:
            there[group.site] = there.get(group.site, 0) + group.count
    return max(there.values(), default=0)


def _below(asked: int, *sizes: Iterable[int]) -> list[int]:
    """Give the largest amounts below what is asked for that nodes have, or have free."""
    return sorted({size for some in sizes for size in some if 0 < size < asked}, reverse=True)[:_SIZES_TRIED]


def _boot_ms(engine: Engine, chosen: Chosen) -> int:
    """How long machines take to start before a job can begin there; none where it runs on nodes as they are."""
    return engine.jobs.setup.settings.making.boot_ms if chosen.image or chosen.builds else 0
