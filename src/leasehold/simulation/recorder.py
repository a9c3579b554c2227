"""Writes down what the gateway does, as the tables that `leasehold.model.tables` describes.

What is open is kept in memory, what is over goes to the tables as it comes, so that memory does not grow with the log.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leasehold.forecasting.world import Handler
from leasehold.gateway.coallocation.incremental import count_idle
from leasehold.leasing.kernel import BACKFILLED
from leasehold.model.agreement import Breach
from leasehold.model.coallocation import CoAllocation
from leasehold.model.effect import (
    CoAllocationClosed,
    CoAllocationStarted,
    Decision,
    LeaseClosed,
    MigrateLease,
    PartLeased,
    Preemption,
    ResumeLease,
    StartLease,
    StopLease,
    SuspendLease,
    WithdrawLease,
)
from leasehold.model.event import LeaseContinues, LeaseStarted, SiteReported
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import NEVER_MS, LeaseType, Request
from leasehold.model.resources import Placed
from leasehold.model.tables import CoAllocationTableRow, MachineTableRow, PlacementTableRow
from leasehold.simulation.cluster import ClusterRun
from leasehold.simulation.table_writer import ROWS_PER_BLOCK, Ints, TableWriter
from leasehold.simulation.workload.job import WorkloadJob


@dataclass(slots=True)
class _OpenCoAllocation:
    """A co-allocation that is not over; ``job`` is that of its first component."""

    coallocation: CoAllocation
    job: WorkloadJob
    started_ms: int | None = None


class CoAllocationRows:
    """Keeps in memory what is open, and writes what is over; no table where nothing is.

    ``count``  how many co-allocations came
    """

    def __init__(self, folder: Path) -> None:
        """Write below ``folder``, which exists."""
        self.count = 0
        self._folder = folder
        self._table: TableWriter | None = None
        self._coallocation_of: dict[int, CoAllocation] = {}
        self._open: dict[int, _OpenCoAllocation] = {}
        self.handlers: Mapping[type, Handler] = {
            PartLeased: self._leased,
            CoAllocationStarted: self._started,
            CoAllocationClosed: self._closed,
        }

    def _leased(self, effect: PartLeased, now_ms: int) -> None:  # noqa: ARG002 - one signature for all handlers
        self._coallocation_of[effect.lease.id] = effect.coallocation

    def came(self, lease_id: int, job: WorkloadJob) -> None:
        """A job came; take note of it if it is a component's."""
        coallocation = self._coallocation_of.get(lease_id)
        if coallocation is not None and coallocation.id not in self._open:
            self._open[coallocation.id] = _OpenCoAllocation(coallocation, job)
            self.count += 1

    def coallocation_of(self, lease_id: int) -> int | None:
        """Give the co-allocation of a lease that is over, and forget it; None for an ordinary lease."""
        coallocation = self._coallocation_of.pop(lease_id, None)
        return None if coallocation is None else coallocation.id

    def _started(self, effect: CoAllocationStarted, now_ms: int) -> None:
        self._open[effect.coallocation.id].started_ms = now_ms

    def _closed(self, effect: CoAllocationClosed, now_ms: int) -> None:
        self._write(self._open.pop(effect.coallocation.id), effect.reason, now_ms)

    def _write(self, one: _OpenCoAllocation, reason: Reason, ended_ms: int | None) -> None:
        coallocation, request = one.coallocation, one.coallocation.request
        if self._table is None:
            self._table = TableWriter(self._folder, "coallocations")
        self._table.add(
            CoAllocationTableRow(
                coallocation.id,
                one.job.source,
                one.job.source_id,
                request.request(0, 0).path,
                len(request.components),
                sum(component.vms for component in request.components),
                request.claim,
                request.place,
                request.submit_ms,
                request.ready_ms,
                one.started_ms,
                ended_ms,
                coallocation.state,
                reason,
                coallocation.idle_vm_ms,
                coallocation.tried,
            )
        )

    def finish(self, now_ms: int) -> None:
        """Write what is still open when the simulated time is over, and close the table."""
        for one in self._open.values():
            for index in range(len(one.coallocation.parts)):
                count_idle(one.coallocation, index, now_ms)
            self._write(one, Reason.HORIZON_REACHED, None)
        if self._table is not None:
            self._table.close()


class PlacementRows:
    """The tables of what VMs need and where they are, made with their first rows: most runs have none."""

    def __init__(self, folder: Path) -> None:
        """Write below ``folder``."""
        self._folder = folder
        self._placements: TableWriter | None = None
        self._machines: TableWriter | None = None
        self._open: dict[int, tuple[str, int, Placed]] = {}

    def began(self, lease: Lease, now_ms: int) -> None:
        """A lease holds VMs from now on."""
        if lease.placed:
            self._open[lease.id] = lease.site, now_ms, lease.placed

    def ended(self, lease: Lease, now_ms: int) -> None:
        """It holds them no more."""
        found = self._open.pop(lease.id, None) if self._open else None
        if found is None:
            return
        if self._placements is None:
            self._placements = TableWriter(self._folder, "placements")
        site, start_ms, placed = found
        request = lease.request
        for node, vms, devices in placed:
            self._placements.add(
                PlacementTableRow(
                    lease.id,
                    site,
                    node,
                    start_ms,
                    now_ms,
                    vms,
                    vms * request.cores,
                    vms * request.memory_mib,
                    request.gpu_model or None,
                    vms * request.gpu_milli,
                    "+".join(map(str, devices)) or None,
                )
            )

    def closed(self, request: Request) -> None:
        """Write what the VMs of a lease need, if that is more than a slot."""
        if request.cores == 1 and not request.gpu_milli:
            return
        if self._machines is None:
            self._machines = TableWriter(self._folder, "machines")
        self._machines.add(MachineTableRow(request.id, request.cores, request.gpu_model or None, request.gpu_milli))

    def finish(self) -> None:
        """Close the tables."""
        for table in (self._placements, self._machines):
            if table is not None:
                table.close()


@dataclass(slots=True)
class OpenSegment:
    """An interval that has begun: VMs held at a site, the first ``overhead_ms`` of it without progress."""

    site: str
    start_ms: int
    kind: str
    overhead_ms: int


class Recorder:
    """Keeps what is still open in memory, and writes what is over.

    ``leases``, ``segments``, ``decisions``  the tables; blocks of what is over may be handed to them as columns,
                                             decisions with their `numbers`
    ``read``, ``by_state``                   how many jobs came of each origin, how many leases ended in each state
    """

    def __init__(self, folder: Path) -> None:
        """Write below ``folder``, which exists."""
        self.read = Counter[str]()
        self.by_state = Counter[str]()
        self.leases = TableWriter(folder, "leases")
        self.segments = TableWriter(folder, "segments")
        self.decisions = TableWriter(folder, "decisions")
        self.coallocations = CoAllocationRows(folder)
        self._places = PlacementRows(folder)
        self._jobs: dict[int, WorkloadJob] = {}
        self._open: dict[int, OpenSegment] = {}
        self._decided_so_far = 0
        self.handlers: Mapping[type, Handler] = {
            StartLease: self._started,
            ResumeLease: self._resumed,
            MigrateLease: self._migrated,
            SuspendLease: self._suspended,
            StopLease: self._stopped,
            WithdrawLease: self._withdrawn,
            LeaseStarted: self._begun,
            LeaseContinues: self._begun,
            SiteReported: self._left,
            LeaseClosed: self._closed,
            Decision: self._decided,
            **self.coallocations.handlers,
        }

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """A job entered the world as a request."""
        self.read["local" if request.is_local else "external"] += 1
        self._jobs[request.id] = job
        self.coallocations.came(request.id, job)

    # Segments

    def _started(self, effect: StartLease, now_ms: int) -> None:
        lease = effect.lease
        self._places.began(lease, now_ms)
        if lease.first_start_ms < 0 or lease.state is LeaseState.STARTING:  # its machines are still to be seen
            self._open[lease.id] = OpenSegment(lease.site, now_ms, "start", NEVER_MS)
            return
        kind = "claim" if lease.overhead_ms else "run"  # held idle until its co-allocation starts
        self._open[lease.id] = OpenSegment(lease.site, now_ms, kind, lease.overhead_ms)

    def _begun(self, lease: Lease, now_ms: int) -> None:
        """Machines were seen at a site that confirms it: what was waited for ends, and the work begins."""
        segment = self._open.get(lease.id)
        works_from_ms = lease.held_since_ms + lease.overhead_ms
        if segment is None:
            return
        if segment.kind == "start":
            self.segments.add((lease.id, segment.site, "start", segment.start_ms, now_ms, lease.vms, "phase"))
            kind = "claim" if works_from_ms > now_ms else "run"
            self._open[lease.id] = OpenSegment(lease.site, now_ms, kind, max(0, works_from_ms - now_ms))
        else:
            segment.overhead_ms = works_from_ms - segment.start_ms

    def _withdrawn(self, effect: WithdrawLease, now_ms: int) -> None:
        self._end_segment(effect.lease, "failed", now_ms, leaves=True)

    def _resumed(self, effect: ResumeLease, now_ms: int) -> None:
        self._places.began(effect.lease, now_ms)
        self._open[effect.lease.id] = OpenSegment(effect.lease.site, now_ms, "resume", effect.resume_ms)

    def _migrated(self, effect: MigrateLease, now_ms: int) -> None:
        self._end_segment(effect.lease, "preempted", now_ms, leaves=True)
        self._places.began(effect.lease, now_ms)
        self._open[effect.lease.id] = OpenSegment(effect.lease.site, now_ms, "migrate", effect.transfer_ms)

    def _suspended(self, effect: SuspendLease, now_ms: int) -> None:
        self._end_segment(effect.lease, "preempted", now_ms)

    def _stopped(self, effect: StopLease, now_ms: int) -> None:
        state = effect.lease.state
        if state is not LeaseState.FAILED:  # otherwise its end says why
            self._end_segment(effect.lease, "cancelled" if state is LeaseState.CANCELLED else "preempted", now_ms)

    def _end_segment(self, lease: Lease, ended_by: str, now_ms: int, *, leaves: bool = False) -> None:
        """Write what a lease held until now; one that leaves its site may have started elsewhere in this instant."""
        segment = self._open.pop(lease.id, None)
        if segment is None:
            return
        self._places.ended(lease, now_ms)
        site, start_ms, kind, vms = segment.site, segment.start_ms, segment.kind, lease.vms
        if kind == "start" and lease.first_start_ms >= 0 and not leaves:  # seen in the instant in which it ends
            self.segments.add((lease.id, site, kind, start_ms, now_ms, vms, "phase"))
            holds_idle = lease.request.lease_type is LeaseType.NON_PREEMPTABLE and lease.overhead_ms > 0
            self.segments.add((lease.id, site, "claim" if holds_idle else "run", now_ms, now_ms, vms, ended_by))
            return
        works_from_ms = start_ms + segment.overhead_ms
        if kind == "run" or now_ms <= works_from_ms:
            self.segments.add((lease.id, site, kind, start_ms, now_ms, vms, ended_by))
        else:
            self.segments.add((lease.id, site, kind, start_ms, works_from_ms, vms, "phase"))
            self.segments.add((lease.id, site, "run", works_from_ms, now_ms, vms, ended_by))

    # Decisions

    def numbers(self, count: int) -> range:
        """Give the places of so many decisions in the order of all."""
        first = self._decided_so_far + 1
        self._decided_so_far += count
        return range(first, first + count)

    def _decided(self, effect: Decision, now_ms: int) -> None:
        self._decided_so_far += 1
        self.decisions.add(
            (
                self._decided_so_far,
                now_ms,
                effect.lease.id,
                effect.site or None,
                effect.outcome,
                effect.reason,
                effect.rule,
                effect.planned_ms,
                *(_NO_PREEMPTION if effect.preemption is None else _preemption_columns(effect.preemption)),
                *(_NO_BREACH if effect.breach is None else _breach_columns(effect.breach)),
            )
        )

    # Leases

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        lease = effect.lease
        is_preempted = effect.reason is Reason.DEADLINE_LOST
        self._end_segment(lease, "preempted" if is_preempted else str(lease.state), now_ms)
        self._write_lease(lease, effect.reason, now_ms)

    def _left(self, effect: LeaseClosed, now_ms: int) -> None:
        """A guest left the machines of a cluster that decides for itself; its gateway is still to learn of that."""
        is_preempted = effect.reason is Reason.DEADLINE_LOST
        self._end_segment(effect.lease, "preempted" if is_preempted else str(effect.lease.state), now_ms)

    def _write_lease(self, lease: Lease, reason: Reason, end_ms: int | None) -> None:
        request, job = lease.request, self._jobs.pop(lease.id)
        self.by_state[str(lease.state)] += 1
        self._places.closed(request)
        self.leases.add(
            (
                request.id,
                job.source,
                job.source_id,
                request.path,
                "external" if request.site is None else "local",
                request.site,
                request.lease_type.label,
                request.vms,
                request.duration_ms,
                job.actual_ms,
                request.memory_mib,
                request.submit_ms,
                job.ready_ms,  # that of the request moves with what a co-allocation is promised
                request.deadline_ms,
                lease.site or None,
                lease.state,
                reason,
                _known(lease.first_start_ms),
                end_ms,
                lease.preemptions,
                lease.migrations,
                lease.overhead_vm_ms,
                _known(lease.dispatched_ms),
                lease.restarts,
                self.coallocations.coallocation_of(lease.id),
            )
        )

    def finish(self, unfinished: Mapping[int, Lease], now_ms: int) -> None:
        """Write what is still open when the simulated time is over, and close the tables."""
        for lease in unfinished.values():
            self._end_segment(lease, "horizon", now_ms)
            self._write_lease(lease, Reason.HORIZON_REACHED, None)
        self.coallocations.finish(now_ms)
        self._places.finish()
        for table in (self.leases, self.segments, self.decisions):
            table.close()


class BaselineRecorder:
    """Writes down only when local requests start."""

    def __init__(self, folder: Path) -> None:
        """Write below ``folder``, which exists."""
        self._table = TableWriter(folder, "baseline")
        self._starts: list[tuple[Ints, Ints]] = []
        self._waiting = 0
        self.handlers: Mapping[type, Handler] = {StartLease: self._started, LeaseStarted: self._begun}

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Nothing is kept of a submission."""

    def _started(self, effect: StartLease, now_ms: int) -> None:
        if effect.lease.first_start_ms >= 0:
            self._table.add((effect.lease.id, now_ms))

    def _begun(self, lease: Lease, now_ms: int) -> None:
        self._table.add((lease.id, now_ms))

    def take(self, run: ClusterRun) -> None:
        """Write down what a cluster has started, and let it forget that."""
        times_ms, numbers, codes, _ = run.decided.taken()
        run.closed.taken()
        is_start = codes <= BACKFILLED
        self._starts.append((numbers[is_start], times_ms[is_start]))
        self._waiting += len(self._starts[-1][0])
        if self._waiting >= ROWS_PER_BLOCK:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            numbers, times_ms = map(np.concatenate, zip(*self._starts, strict=True))
            self._table.extend(self._waiting, {"lease_id": numbers, "start_ms": times_ms})
        self._starts.clear()
        self._waiting = 0

    def close(self) -> None:
        """Close the table."""
        self._flush()
        self._table.close()


def _known(time_ms: int) -> int | None:
    return time_ms if time_ms >= 0 else None


_NO_PREEMPTION = (None,) * 10
_NO_BREACH = (None,) * 7


def _preemption_columns(report: Preemption) -> tuple[int | str | bool | None, ...]:
    """Give the columns from ``beneficiary`` to ``exact``."""
    runner_up = report.runner_up
    return (
        report.beneficiary,
        report.beneficiary,
        len(report.victims),
        report.freed_vms,
        report.needed_vms,
        report.cost_vm_ms,
        None if runner_up is None else "+".join(map(str, runner_up)),
        None if runner_up is None else len(runner_up),
        report.runner_up_cost_vm_ms,
        report.exact,
    )


def _breach_columns(breach: Breach) -> tuple[int | str | None, ...]:
    """Give the columns from ``agreement`` on."""
    return (
        breach.agreement or None,
        breach.provider,
        breach.consumer,
        breach.resource,
        breach.used,
        breach.limit,
        breach.window_ms,
    )
