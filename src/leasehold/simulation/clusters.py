"""Clusters that only their own users use: their jobs as rows into `ClusterRun`, its columns into the tables."""

from collections import Counter
from collections.abc import Iterator, Sequence
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
)
from leasehold.model.errors import UnknownName
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import NEVER_MS, LeaseType
from leasehold.simulation.cluster import (
    ENDED,
    NUMBER,
    QUEUE_CLOSED,
    READY_MS,
    SUBMIT_MS,
    TOO_WIDE,
    VMS,
    ClusterJob,
    ClusterRun,
)
from leasehold.simulation.recorder import BaselineRecorder, Recorder
from leasehold.simulation.scenario.sites import is_about_sharing, site_settings
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.table_writer import Coded
from leasehold.simulation.workload.combine import whole_instants
from leasehold.simulation.workload.job_block import NO_SITE, JobBlock

# What is carried along in a `ClusterJob`.
REQUESTED_MS, ACTUAL_MS, MEMORY_MIB, DEADLINE_MS, CONSUMER, STREAM, SOURCE_ID = range(6, 13)

# By the codes of decisions: those of the kernel, and the refusals of `ClusterRun`.
_REASONS = [
    *(START_REASONS[code] for code in (RESERVED_START, ROOM_FREE, BACKFILLED)),
    *(WAIT_REASONS[code] for code in (NOT_READY, BEHIND_OTHERS, ROOM_IN_USE)),
    *(Reason.WIDER_THAN_SITE, Reason.LOCAL_QUEUE_CLOSED),
]
_OUTCOMES = [*[Outcome.START] * 3, *[Outcome.WAIT] * 3, *[Outcome.REFUSE] * 2]
_RULES = [*[HOME_FIRST] * 6, WIDTH, LOCAL_QUEUE]

DECISIONS_AT_ONCE = 8_192
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
_REFUSED = {TOO_WIDE: WIDE, QUEUE_CLOSED: CLOSED}


def runs_alone(scenario: Scenario) -> bool:
    """Whether a scenario, its sizes settled, is one cluster with its own users, and nothing else happens to it."""
    return len(scenario.clusters) == 1 and not scenario.has_externals and not has_more_than_jobs(scenario)


def has_more_than_jobs(scenario: Scenario) -> bool:
    """Whether anything concerns the clusters' own users but their jobs."""
    return bool(
        is_about_sharing(scenario)
        or scenario.has_events
        or any(stream.together is not None and stream.site is not None for stream in scenario.streams)
    )


def make_run(settings: SiteSettings) -> ClusterRun:
    """Make the cluster of a site, with no jobs yet."""
    depth = settings.local_depth
    return ClusterRun(settings.slots, ALL if depth is None else depth, queues=settings.queues_locals)


def rows_of(block: JobBlock, reference_mips: int, speed_mips: int) -> list[ClusterJob]:
    """Make the rows of jobs: each runs until it has what it needs, or has used what it asked for."""
    requested_ms, actual_ms = block.requested_ms, block.actual_ms
    span_ms = -(-requested_ms * reference_mips // speed_mips)
    run_ms = -(-np.minimum(actual_ms, requested_ms) * reference_mips // speed_mips)
    submits_ms = block.submit_ms.tolist()
    columns = (block.vms, span_ms, run_ms, requested_ms, actual_ms, block.memory_mib, block.deadline_ms)
    carried = (block.consumer.tolist(), block.stream.tolist(), block.source_id.tolist())
    return list(
        zip(
            *(block.number.tolist(), submits_ms, submits_ms),
            *(column.tolist() for column in columns),
            *carried,
            strict=True,
        )
    )


class ClusterWorld:
    """One cluster and its own users' jobs; `run` as that of `SimulatedWorld`.

    ``now_ms``  the instant that is simulated
    """

    def __init__(
        self, settings: SiteSettings, reference_mips: int, jobs: Iterator[JobBlock], recorder: Recorder
    ) -> None:
        """Begin at time zero with no job; ``jobs`` are taken as their time comes, a block at a time."""
        self.now_ms = 0
        self._consumers: Sequence[str] = ()
        self._sources: Sequence[str] = ()
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
            self._consumers, self._sources = block.names.texts, [one.source for one in block.streams]
            elsewhere = block.site[block.site != block.names.code(self._site)]
            if len(elsewhere):
                raise UnknownName("site", block.names.texts[elsewhere[0]], [self._site])
            self._recorder.read["local"] += len(block)
            run.advance(rows_of(block, reference_mips, speed_mips), at_end_ms if next_ms is None else next_ms)
            self.now_ms = run.now_ms
            if len(run.decided_ms) >= DECISIONS_AT_ONCE:
                self._record()
            yield self.now_ms
        run.advance([], at_end_ms)
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
        rows, starts_ms = [row for row, _ in unfinished], [start_ms for _, start_ms in unfinished]
        endings = [WAITING if start_ms < 0 else RUNNING for start_ms in starts_ms]
        self._record_segments(rows, endings, starts_ms, [self.now_ms] * len(rows))
        self._record_leases(rows, endings, starts_ms, None)
        self._recorder.finish({}, self.now_ms)

    def _record(self) -> None:
        run = self._run
        self.now_ms = max(self.now_ms, run.now_ms)
        count = len(run.decided_ms)
        if count:
            self._recorder.decisions.extend(
                count,
                {
                    "seq": self._recorder.numbers(count),
                    "time_ms": run.decided_ms,
                    "lease_id": run.decided_job,
                    "site": self._site,
                    "outcome": Coded(run.decided_code, _OUTCOMES),
                    "reason": Coded(run.decided_code, _REASONS),
                    "rule": Coded(run.decided_code, _RULES),
                    "planned_ms": run.decided_start_ms,
                },
            )
        endings = [
            _REFUSED[code] if code != ENDED else KILLED if row[ACTUAL_MS] > row[REQUESTED_MS] else COMPLETED
            for row, code in zip(run.closed_job, run.closed_code, strict=True)
        ]
        self._record_segments(run.closed_job, endings, run.closed_start_ms, run.closed_end_ms)
        self._record_leases(run.closed_job, endings, run.closed_start_ms, run.closed_end_ms)
        run.clear()

    def _record_segments(
        self, rows: Sequence[ClusterJob], endings: Sequence[int], starts_ms: Sequence[int], ends_ms: Sequence[int]
    ) -> None:
        """Record when those ran that have started."""
        ran = [i for i, start_ms in enumerate(starts_ms) if start_ms >= 0]
        self._recorder.segments.extend(
            len(ran),
            {
                "lease_id": [rows[i][NUMBER] for i in ran],
                "site": self._site,
                "kind": "run",
                "start_ms": [starts_ms[i] for i in ran],
                "end_ms": [ends_ms[i] for i in ran],
                "vms": [rows[i][VMS] for i in ran],
                "ended_by": Coded([endings[i] for i in ran], _ENDED_BY),
            },
        )

    def _record_leases(
        self,
        rows: Sequence[ClusterJob],
        endings: Sequence[int],
        starts_ms: Sequence[int],
        ends_ms: Sequence[int] | None,
    ) -> None:
        if not rows:
            return
        columns = list(zip(*rows, strict=True))
        for ending, count in Counter(endings).items():
            self._recorder.by_state[str(_STATES[ending])] += count
        self._recorder.leases.extend(
            len(rows),
            {
                "lease_id": columns[NUMBER],
                "source": Coded(columns[STREAM], self._sources),
                "source_id": columns[SOURCE_ID],
                "consumer": Coded(columns[CONSUMER], self._consumers),
                "origin": "local",
                "home": self._site,
                "lease_type": LeaseType.NON_PREEMPTABLE.label,
                "vms": columns[VMS],
                "requested_ms": columns[REQUESTED_MS],
                "actual_ms": columns[ACTUAL_MS],
                "memory_mib": columns[MEMORY_MIB],
                "submit_ms": columns[SUBMIT_MS],
                "ready_ms": columns[READY_MS],
                "deadline_ms": columns[DEADLINE_MS],
                "site": self._site,
                "state": Coded(endings, _STATES),
                "reason": Coded(endings, _WHY),
                "first_start_ms": starts_ms,
                "end_ms": ends_ms,
                "preemptions": 0,
                "migrations": 0,
                "overhead_vm_ms": 0,
            },
        )


def run_baseline(scenario: Scenario, jobs: Iterator[JobBlock], recorder: BaselineRecorder, until_ms: int) -> None:
    """Run the own users' jobs of each cluster as if there were no guests, and write down when they start."""
    sites = {one.name: one for one in site_settings(scenario)}
    runs = {name: make_run(settings) for name, settings in sites.items()}
    at_end_ms = min(until_ms + 1, NEVER_MS)
    for block, next_ms in whole_instants(jobs):
        codes = {name: block.names.code(name) for name in sites}
        unknown = [code for code in np.unique(block.site) if code != NO_SITE and code not in codes.values()]
        if unknown:
            raise UnknownName("site", block.names.texts[unknown[0]], sites)
        for name, run in runs.items():
            own = block.taken(block.site == codes[name])
            rows = rows_of(own, scenario.reference_mips, sites[name].speed_mips)
            run.advance(rows, at_end_ms if next_ms is None else next_ms)
            recorder.take(run)
    for run in runs.values():
        run.advance([], at_end_ms)
        recorder.take(run)
