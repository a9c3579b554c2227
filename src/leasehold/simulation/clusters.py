"""Clusters that only their own users use: their jobs as rows into `ClusterRun`, its columns into the tables."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from leasehold.gateway.settings import SiteSettings
from leasehold.gateway.site import HOME_FIRST, LOCAL_QUEUE, WIDTH
from leasehold.leasing.backfill import START_REASONS, WAIT_REASONS
from leasehold.leasing.kernel import (
    ALL,
    BACKFILLED,
    BEHIND_OTHERS,
    NOT_READY,
    RESERVED_START,
    ROOM_FREE,
    ROOM_IN_USE,
    compiled,
)
from leasehold.model.errors import UnknownName
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import NEVER_MS, LeaseType
from leasehold.simulation.cluster import ENDED, NO_JOBS, QUEUE_CLOSED, TOO_WIDE, ClusterJobs, ClusterRun
from leasehold.simulation.recorder import BaselineRecorder, Recorder
from leasehold.simulation.scenario.sites import is_about_sharing, site_settings
from leasehold.simulation.scenario.spec import LogStream, Scenario
from leasehold.simulation.table_writer import Coded
from leasehold.simulation.workload.combine import joined, whole_instants
from leasehold.simulation.workload.interpretation import NODE
from leasehold.simulation.workload.job_block import NO_SITE, JobBlock
from leasehold.simulation.workload.log_columns import Ints

# By the codes of decisions: those of the kernel, and the refusals of `ClusterRun`.
_REASONS = [
    *(START_REASONS[code] for code in (RESERVED_START, ROOM_FREE, BACKFILLED)),
    *(WAIT_REASONS[code] for code in (NOT_READY, BEHIND_OTHERS, ROOM_IN_USE)),
    *(Reason.WIDER_THAN_SITE, Reason.LOCAL_QUEUE_CLOSED),
]
_OUTCOMES = [*[Outcome.START] * 3, *[Outcome.WAIT] * 3, *[Outcome.REFUSE] * 2]
_RULES = [*[HOME_FIRST] * 6, WIDTH, LOCAL_QUEUE]

DECISIONS_AT_ONCE = 16_384
"""So many decisions, at least, wait in memory until they are recorded."""

# How a job is in the table: its state, the reason of that, and what ended its segment, if it has one.
COMPLETED, KILLED, WIDE, CLOSED, RUNNING, WAITING = range(6)
_STATES = [
    *(LeaseState.COMPLETED, LeaseState.KILLED, LeaseState.REFUSED, LeaseState.REFUSED),
    *(LeaseState.RUNNING, LeaseState.WAITING),
]
_WHY = [
    *(Reason.COMPLETED, Reason.WALLTIME_REACHED, Reason.WIDER_THAN_SITE, Reason.LOCAL_QUEUE_CLOSED),
    *(Reason.HORIZON_REACHED, Reason.HORIZON_REACHED),
]
_ENDED_BY = [*_STATES[:4], "horizon", "horizon"]
_ENDING_OF = np.zeros(QUEUE_CLOSED + 1, np.int64)
_ENDING_OF[[ENDED, TOO_WIDE, QUEUE_CLOSED]] = COMPLETED, WIDE, CLOSED


def runs_alone(scenario: Scenario) -> bool:
    """Whether a scenario, its sizes settled, is one cluster with its own users, and nothing else happens to it."""
    return len(scenario.clusters) == 1 and not scenario.has_externals and not has_more_than_jobs(scenario)


def has_more_than_jobs(scenario: Scenario) -> bool:
    """Whether anything concerns the clusters' own users but their jobs."""
    return bool(
        is_about_sharing(scenario)
        or any(cluster.plan == "nodes" for cluster in scenario.clusters)
        or any(stream.cores > 1 or stream.gpus[1] for stream in scenario.streams)
        or any(isinstance(stream, LogStream) and stream.reading.vm == NODE for stream in scenario.streams)
        or scenario.has_events
        or any(stream.together is not None and stream.site is not None for stream in scenario.streams)
    )


def make_run(settings: SiteSettings) -> ClusterRun:
    """Make the cluster of a site, with no jobs yet."""
    depth = settings.local_depth
    return ClusterRun(settings.slots, ALL if depth is None else depth, queues=settings.queues_locals)


def columns_of(block: JobBlock, reference_mips: int, speed_mips: int) -> ClusterJobs:
    """Say of jobs what a cluster has to know: each runs until it has what it needs, or has used what it asked for."""
    span_ms = -(-block.requested_ms * reference_mips // speed_mips)
    run_ms = -(-np.minimum(block.actual_ms, block.requested_ms) * reference_mips // speed_mips)
    columns = (block.number, block.submit_ms, block.vms, span_ms, run_ms)
    return ClusterJobs(*(columns if compiled() else [column.tolist() for column in columns]))


class ClusterWorld:
    """One cluster and its own users' jobs; `run` as that of `SimulatedWorld`.

    ``now_ms``  the instant that is simulated
    """

    def __init__(
        self, settings: SiteSettings, reference_mips: int, jobs: Iterator[JobBlock], recorder: Recorder
    ) -> None:
        """Begin at time zero with no job; ``jobs`` are taken as their time comes, a block at a time."""
        self.now_ms = 0
        self._open: list[JobBlock] = []
        self._site = settings.name
        self._speeds = reference_mips, settings.speed_mips
        self._jobs = jobs
        self._recorder = recorder
        self._run = make_run(settings)

    def run(self, until_ms: int = NEVER_MS) -> Iterator[int]:
        """Let time pass until nothing is left to happen, or past ``until_ms``; yields between blocks of jobs."""
        run, at_end_ms = self._run, min(until_ms + 1, NEVER_MS)
        reference_mips, speed_mips = self._speeds
        for block, next_ms in whole_instants(self._jobs):
            elsewhere = block.site[block.site != block.names.code(self._site)]
            if len(elsewhere):
                raise UnknownName("site", block.names.texts[elsewhere[0]], [self._site])
            self._recorder.read["local"] += len(block)
            self._open.append(block)
            run.advance(columns_of(block, reference_mips, speed_mips), at_end_ms if next_ms is None else next_ms)
            self.now_ms = run.now_ms
            if run.decided.count >= DECISIONS_AT_ONCE:
                self._record()
            yield self.now_ms
        run.advance(NO_JOBS, at_end_ms)
        self._record()
        self.now_ms = max(self.now_ms, run.alarm_ms) if until_ms == NEVER_MS else until_ms
        yield self.now_ms

    def waits_for_ever(self) -> int:
        """Count the jobs that nothing will start or end."""
        return len(self._run.open_jobs())

    def happened(self) -> dict[str, Any]:
        """Return what else came about: nothing does."""
        return {}

    def finish(self) -> None:
        """Record what is not over, and close the tables."""
        self._record()
        unfinished = self._run.open_jobs()
        if unfinished:
            numbers, starts_ms = np.array(unfinished, np.int64).T
            jobs, _ = self._looked_up(numbers)
            endings = np.where(starts_ms < 0, WAITING, RUNNING)
            self._record_segments(jobs, endings, starts_ms, np.full(len(jobs), self.now_ms))
            self._record_leases(jobs, endings, starts_ms, None)
        self._recorder.finish({}, self.now_ms)

    def _record(self) -> None:
        run = self._run
        self.now_ms = max(self.now_ms, run.now_ms)
        if run.decided.count:
            times_ms, numbers, codes, planned_ms = run.decided.taken()
            self._recorder.decisions.extend(
                len(numbers),
                {
                    "seq": self._recorder.numbers(len(numbers)),
                    "time_ms": times_ms,
                    "lease_id": numbers,
                    "site": self._site,
                    "outcome": Coded(codes, _OUTCOMES),
                    "reason": Coded(codes, _REASONS),
                    "rule": Coded(codes, _RULES),
                    "planned_ms": planned_ms,
                },
            )
        if run.closed.count:
            numbers, codes, starts_ms, ends_ms = run.closed.taken()
            jobs, others = self._looked_up(numbers)
            self._open = [others]
            is_killed = (codes == ENDED) & (jobs.actual_ms > jobs.requested_ms)
            endings = np.where(is_killed, KILLED, _ENDING_OF[codes])
            self._record_segments(jobs, endings, starts_ms, ends_ms)
            self._record_leases(jobs, endings, starts_ms, ends_ms)

    def _looked_up(self, numbers: Ints) -> tuple[JobBlock, JobBlock]:
        """Return the open jobs with these numbers, in the order given, and the others."""
        jobs = joined(self._open, self._open[-1].streams)
        rows = np.searchsorted(jobs.number, numbers)
        is_other = np.ones(len(jobs), np.bool_)
        is_other[rows] = False
        return jobs.taken(rows), jobs.taken(is_other)

    def _record_segments(self, jobs: JobBlock, endings: Ints, starts_ms: Ints, ends_ms: Ints) -> None:
        """Record when those ran that have started."""
        ran = np.flatnonzero(starts_ms >= 0)
        self._recorder.segments.extend(
            len(ran),
            {
                "lease_id": jobs.number[ran],
                "site": self._site,
                "kind": "run",
                "start_ms": starts_ms[ran],
                "end_ms": ends_ms[ran],
                "vms": jobs.vms[ran],
                "ended_by": Coded(endings[ran], _ENDED_BY),
            },
        )

    def _record_leases(self, jobs: JobBlock, endings: Ints, starts_ms: Ints, ends_ms: Ints | None) -> None:
        for ending, count in enumerate(np.bincount(endings).tolist()):
            if count:
                self._recorder.by_state[str(_STATES[ending])] += count
        self._recorder.leases.extend(
            len(jobs),
            {
                "lease_id": jobs.number,
                "source": Coded(jobs.stream, [one.source for one in jobs.streams]),
                "source_id": jobs.source_id,
                "consumer": Coded(jobs.consumer, jobs.names.texts),
                "origin": "local",
                "home": self._site,
                "lease_type": LeaseType.NON_PREEMPTABLE.label,
                "vms": jobs.vms,
                "requested_ms": jobs.requested_ms,
                "actual_ms": jobs.actual_ms,
                "memory_mib": jobs.memory_mib,
                "submit_ms": jobs.submit_ms,
                "ready_ms": jobs.submit_ms,
                "deadline_ms": jobs.deadline_ms,
                "site": self._site,
                "state": Coded(endings, _STATES),
                "reason": Coded(endings, _WHY),
                "first_start_ms": starts_ms,
                "end_ms": ends_ms,
                "preemptions": 0,
                "migrations": 0,
                "overhead_vm_ms": 0,
                "restarts": 0,
            },
        )


def run_baseline(scenario: Scenario, blocks: Iterator[JobBlock], recorder: BaselineRecorder, until_ms: int) -> None:
    """Run the own users' jobs of each cluster as if there were no guests, and write down when they start."""
    sites = {one.name: one for one in site_settings(scenario)}
    runs = {name: make_run(settings) for name, settings in sites.items()}
    at_end_ms = min(until_ms + 1, NEVER_MS)
    for block, next_ms in whole_instants(blocks):
        codes = {name: block.names.code(name) for name in sites}
        unknown = [code for code in np.unique(block.site) if code != NO_SITE and code not in codes.values()]
        if unknown:
            raise UnknownName("site", block.names.texts[unknown[0]], sites)
        for name, run in runs.items():
            own = block.taken(block.site == codes[name])
            jobs = columns_of(own, scenario.reference_mips, sites[name].speed_mips)
            run.advance(jobs, at_end_ms if next_ms is None else next_ms)
            recorder.take(run)
    for run in runs.values():
        run.advance(NO_JOBS, at_end_ms)
        recorder.take(run)
