"""Estimates of a live gateway, kept up to date and scored; what-if; snapshots.

The engine only copies its leases, between two steps. Everything else is done in a process of its own
(`leasehold.forecasting.worker`), one thing at a time, so that forecasts cost the gateway next to nothing: it rests
between two rounds for as long as its share of a processor asks.

Of each lease, and each job that waits for nodes, the first prediction of each kind is kept until it is known what
happened: that is scored, and corrects later intervals (`leasehold.forecasting.calibration`). Predictions, scores and
what was learnt are in the store.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import exp
from random import Random
from typing import Any

import structlog

from leasehold.forecasting import worker
from leasehold.forecasting.calibration import CONTINUES, END, Calibration, Interval, Kind, Raw
from leasehold.forecasting.estimates import JOB_NUMBERS, Estimate, Foreseen, LeaseEstimates
from leasehold.forecasting.file import Recording
from leasehold.forecasting.learnt import KEPT
from leasehold.forecasting.replay import Recorder
from leasehold.forecasting.snapshot import UNKNOWN_MS, PastRequest, Snapshot, holds_since_ms, past_of, ran_ms
from leasehold.forecasting.what_if import Comparison
from leasehold.gateway.gateway import Gateway
from leasehold.jobs.job import JobRecord, JobState
from leasehold.model.errors import LeaseholdError
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.service.config import EstimatesSpec
from leasehold.service.engine.engine import Engine
from leasehold.service.engine_thread import Clock, EngineThread
from leasehold.service.errors import Unavailable
from leasehold.service.metrics import PREDICTED, EstimateGauges
from leasehold.service.store.filters import EVERYTHING, LeaseFilter
from leasehold.service.store.rows import LeaseRow
from leasehold.service.store.store import Store
from leasehold.service.waiting_jobs import WaitingJob, waiting_jobs
from leasehold.service.what_if import read_changes

ESTIMATES = "estimates"
"""Name of the text in the store that has predictions, scores and what was learnt."""

_PAST_AT_ONCE = 500
MOST_ESTIMATED = 1_000
"""Leases that are estimated in one round: those that wait first."""

SCORED_KEPT = 2_000
OPEN_KEPT = 5_000
MOST_FORESEEN = 500
"""With more open leases than that nothing is simulated for a plan: it would hold up the gateway, and take too long."""

MOST_INSTANTS = 100_000
"""Instants that a recording may have."""

_BUDGET_S = 5.0
_GRACE_S = 60.0
_PLAN_PATIENCE = 5
"""How many times its seconds of work the futures of a plan may take by the clock."""
_HAPPENED = frozenset({LeaseState.COMPLETED, LeaseState.KILLED})
Json = dict[str, Any]
_log = structlog.get_logger("leasehold.forecasts")


class Worker:
    """The process that makes forecasts: started when it is first needed, and again where it has died."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def ask(self, request: bytes, within_s: float) -> bytes:
        """Send a request and wait for the answer; raises Unavailable where none comes in time."""
        async with self._turn:
            process = await self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                async with asyncio.timeout(within_s):
                    process.stdin.write(len(request).to_bytes(worker.LENGTH, "big") + request)
                    await process.stdin.drain()
                    length = int.from_bytes(await process.stdout.readexactly(worker.LENGTH), "big")
                    return await process.stdout.readexactly(length)
            except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                await self.close()
                why = f"within {within_s:g} s" if isinstance(error, TimeoutError) else "since its process has ended"
                raise Unavailable(f"no forecast was made {why}") from error
            except asyncio.CancelledError:
                await self.close()  # an answer that nobody reads would be taken for the next one
                raise

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "leasehold.forecasting.worker", str(os.getpid()), stdin=PIPE, stdout=PIPE
            )
        return self._process

    async def close(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if process.stdin is not None:
                process.stdin.close()


@dataclass(frozen=True, slots=True)
class Prediction:
    """One prediction; ``happened_ms`` is None before.

    ``number``      of the lease, or from `JOB_NUMBERS` on of a job
    ``turn``        tells apart the times that a guest was suspended, and those that a job has waited for nodes
    ``is_overdue`` says that its interval was over before it happened, and that this is scored.
    """

    number: int
    what: str
    whom: str
    site: str
    turn: int
    made_ms: int
    low_ms: int
    median_ms: int
    high_ms: int
    raw: tuple[float, float, float]
    happened_ms: int | None = None
    is_overdue: bool = False

    @property
    def key(self) -> tuple[int, str, int]:
        """What it is told from others by."""
        return self.number, self.what, self.turn

    @property
    def lease_id(self) -> int | None:
        """The lease that it is about; None where that is a job."""
        return self.number if self.number < JOB_NUMBERS else None

    @property
    def job_id(self) -> int | None:
        """The job that it is about; None where that is a lease."""
        return None if self.number < JOB_NUMBERS else self.number - JOB_NUMBERS

    @property
    def kind(self) -> Kind:
        """What it is about."""
        return Kind(self.what, self.whom, self.site)

    @property
    def interval(self) -> Interval:
        """What it says."""
        return Interval(self.low_ms, self.median_ms, self.high_ms)


@dataclass(frozen=True, slots=True)
class Estimated:
    """What is said of a lease, or of a job that waits for nodes, and when that was worked out."""

    made_ms: int
    of: LeaseEstimates


class Forecasts:
    """Keeps estimates of the open leases, scores them, and answers what-if."""

    def __init__(
        self, thread: EngineThread, store: Store, clock: Clock, terms: Callable[[], Snapshot], settings: EstimatesSpec
    ) -> None:
        """Go on with what was learnt; ``terms`` gives those of the configuration that holds."""
        self.settings = settings
        self.calibration = Calibration()
        self.scored: deque[Prediction] = deque(maxlen=SCORED_KEPT)
        self._thread, self._store, self._clock, self._terms = thread, store, clock, terms
        self._worker = Worker()
        self._asked = Worker()  # questions do not wait for a round of estimates
        self._estimated: dict[int, Estimated] = {}
        self._open: dict[tuple[int, str, int], Prediction] = {}
        self._past: dict[int, PastRequest] = {}
        self._made_ms: int | None = None
        self._seed = 0
        self._recall(store.snapshots().get(ESTIMATES))

    def of(self, lease_id: int) -> Estimated | None:
        """Give what is said of a lease; None where nothing is, yet or any more."""
        return self._estimated.get(lease_id)

    def of_job(self, job_id: int) -> Estimated | None:
        """Give what is said of a job that waits for nodes; None where nothing is, yet or any more."""
        return self._estimated.get(JOB_NUMBERS + job_id)

    def all(self) -> list[Estimated]:
        """Give what is said of all leases, by number."""
        return [self._estimated[number] for number in sorted(self._estimated) if number < JOB_NUMBERS]

    def jobs(self) -> list[tuple[int, Estimated]]:
        """Give the jobs that wait for nodes, by number, each with what is said of it."""
        waiting = sorted(number for number in self._estimated if number >= JOB_NUMBERS)
        return [(number - JOB_NUMBERS, self._estimated[number]) for number in waiting]

    def gauges(self) -> EstimateGauges:
        """Say how the estimates are and did."""
        scored: dict[tuple[str, str], int] = {}
        widths: dict[str, float] = {}
        for one in self.calibration.scores():
            if one.kind.whom:
                continue  # it is part of what is predicted at all
            what = one.kind.what
            for outcome, count in zip(PREDICTED, (one.covered, one.below, one.above), strict=True):
                scored[what, outcome] = scored.get((what, outcome), 0) + count
            widths[what] = widths.get(what, 0.0) + one.width * one.scored
        totals = {what: sum(scored[what, outcome] for outcome in PREDICTED) for what in widths}
        return EstimateGauges(
            len(self._estimated),
            None if self._made_ms is None else max(0, self._clock() - self._made_ms) / 1000,
            scored,
            {what: exp(width / totals[what]) for what, width in widths.items()},
        )

    async def run(self) -> None:
        """Keep the estimates up to date, for as long as it is not cancelled."""
        loop = asyncio.get_running_loop()
        every_s, failed = self.settings.every_ms / 1000, False
        try:
            while every_s:
                began_s, cpu_s = loop.time(), 0.0
                try:
                    cpu_s = await self.refresh()
                    failed = False
                except LeaseholdError as error:
                    if not failed:
                        _log.warning("no estimates were made", cause=str(error))
                    failed = True
                took_s = loop.time() - began_s
                await asyncio.sleep(max(every_s, cpu_s / self.settings.share) - min(every_s / 2, took_s))
        finally:
            await self.close()

    async def close(self) -> None:
        """End the processes of forecasts; they are started again when they are needed."""
        await self._worker.close()
        await self._asked.close()

    async def refresh(self) -> float:
        """Score what has happened, and estimate anew; gives the processor time that it took, in seconds.

        Raises Unavailable and ForecastFailed.
        """
        snapshot, jobs = await self._snapshot_and_jobs()
        learnt = await self._score(snapshot, jobs)
        wanted = sorted(snapshot.leases, key=lambda lease: (lease.held_since_ms >= 0, lease.id))[:MOST_ESTIMATED]
        self._seed += 1
        found, cpu_s = list[LeaseEstimates](), 0.0
        if wanted or jobs:
            request = await asyncio.to_thread(
                partial(
                    worker.ask_estimates,
                    snapshot,
                    self.calibration.memory(),
                    [lease.id for lease in wanted],
                    [job.request for job in jobs],
                    replications=self.settings.replications,
                    seed=self._seed,
                    budget_s=_BUDGET_S,
                )
            )
            answer = await self._worker.ask(request, _BUDGET_S + _GRACE_S)
            found, cpu_s = worker.read_estimates(answer), worker.cpu_s(answer)
        self._estimated = {one.number: Estimated(snapshot.taken_ms, one) for one in found}
        self._made_ms = snapshot.taken_ms
        turns = {lease.id: lease.preemptions for lease in wanted} | {job.request.id: job.turn for job in jobs}
        started = {lease.id for lease in wanted if lease.first_start_ms >= 0}
        is_new = [
            self._keep(estimate, one.number, turns[one.number])
            for one in found
            for estimate in one.estimates
            if estimate.what != END or one.number not in started  # what its user wants to know while it waits
        ]
        if learnt or any(is_new):
            text = self._memory()
            await self._thread.ask(lambda engine: engine.keep_text(ESTIMATES, text))
        return cpu_s

    def _keep(self, estimate: Estimate, number: int, turn: int) -> bool:
        """Keep the first prediction of its kind about a lease or job."""
        turn = turn if estimate.what == CONTINUES or number >= JOB_NUMBERS else 0
        key = (number, estimate.what, turn)
        if estimate.interval is None or estimate.raw is None or key in self._open or len(self._open) >= OPEN_KEPT:
            return False
        kind, times, raw = estimate.kind, estimate.interval, estimate.raw
        self._open[key] = Prediction(
            number,
            kind.what,
            kind.whom,
            kind.site,
            turn,
            estimate.made_ms,
            times.low_ms,
            times.median_ms,
            times.high_ms,
            (raw.median, raw.below, raw.above),
        )
        return True

    # What happened

    async def _score(self, snapshot: Snapshot, jobs: Sequence[WaitingJob]) -> bool:
        """Score predictions of which it is known what happened; says whether any were, or were dropped."""
        there = {lease.id: lease for lease in snapshot.leases}
        waiting = {(job.request.id, job.turn) for job in jobs}
        gone = {one.lease_id for one in self._open.values() if one.lease_id is not None} - there.keys()
        moved = {one.job_id for one in self._open.values() if one.job_id and (one.number, one.turn) not in waiting}
        rows = await asyncio.to_thread(lambda: {number: self._store.lease(number) for number in gone})
        tried = await asyncio.to_thread(lambda: {number: self._job(number) for number in moved})
        known: list[tuple[int, tuple[int, str, int]]] = []
        dropped = False
        for key, one in list(self._open.items()):
            if one.job_id is not None:
                happened_ms, is_over = tried[one.job_id].happened(one) if one.job_id in tried else (None, False)
            else:
                row = rows.get(one.number)
                lease = there.get(one.number) or (None if row is None else row.lease)
                happened_ms = None if lease is None else _happened_ms(one, lease, row)
                went_on = lease is not None and one.turn != lease.preemptions and one.what == CONTINUES
                is_over = one.number in gone or went_on
            if happened_ms is not None and happened_ms >= one.made_ms:
                known.append((happened_ms, key))
            elif is_over:
                del self._open[key]  # cancelled, failed, or gone on unseen: nothing to score it against
                dropped = True
        for happened_ms, key in sorted(known):
            one = self._open.pop(key)
            self.calibration.happened(
                one.kind, Raw(*one.raw), one.interval, one.made_ms, happened_ms, was_overdue=one.is_overdue
            )
            self.scored.append(replace(one, happened_ms=happened_ms))
        late = [key for key, one in self._open.items() if not one.is_overdue and one.high_ms < snapshot.taken_ms]
        for key in late:
            one = self._open[key]
            self.calibration.overdue(one.kind, Raw(*one.raw), one.interval, one.made_ms)
            self._open[key] = replace(one, is_overdue=True)
        return bool(known) or dropped or bool(late)

    def _memory(self) -> str:
        return json.dumps(
            {
                "calibration": self.calibration.memory(),
                "open": [asdict(one) for one in self._open.values()],
                "scored": [asdict(one) for one in self.scored],
                "seed": self._seed,
            }
        )

    def _recall(self, text: str | None) -> None:
        """Go on from a record; what was to happen while there was no gateway is not scored.

        That it was down is as little foreseen as a failure, and what it was to do meanwhile it does late.
        """
        if text is None:
            return
        memory, now_ms = json.loads(text), self._clock()
        self.calibration = Calibration.recalled(memory["calibration"])
        still_open = (one for one in _predictions(memory["open"]) if one.is_overdue or one.low_ms > now_ms)
        self._open = {one.key: one for one in still_open}
        self.scored.extend(_predictions(memory["scored"]))
        self._seed = memory["seed"]

    # How things stand

    def _job(self, job_id: int) -> "_Tried":
        """Read what became of a job, and when each of its attempts got machines."""
        row, attempts = self._store.job(job_id), self._store.attempts([job_id])
        leases = [None if one.lease_id is None else self._store.lease(one.lease_id) for one in attempts]
        starts = tuple(-1 if lease is None else lease.lease.first_start_ms for lease in leases)
        return _Tried(None if row is None else row.record, starts)

    async def _snapshot(self) -> Snapshot:
        snapshot, _ = await self._snapshot_and_jobs()
        return snapshot

    async def _snapshot_and_jobs(self) -> tuple[Snapshot, list[WaitingJob]]:
        terms = self._terms()
        snapshot, jobs = await self._thread.ask(lambda engine: (engine.snapshot(terms), waiting_jobs(engine)))
        return await self._with_history(snapshot), jobs

    async def _with_history(self, snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, history=await asyncio.to_thread(self._history, snapshot))

    def _history(self, snapshot: Snapshot) -> tuple[PastRequest, ...]:
        """Read what has closed since the last time, and give the last requests, closed and open ones."""
        which, before = LeaseFilter(EVERYTHING, open=False), None
        while len(rows := self._store.leases(which, _PAST_AT_ONCE, before)):
            fresh = [row for row in rows if row.lease.id not in self._past]
            for row in fresh:
                self._past[row.lease.id] = _past(row, snapshot)
            before = rows[-1].lease.id
            if len(fresh) < len(rows) or len(rows) < _PAST_AT_ONCE or len(self._past) >= 2 * KEPT:
                break
        for is_own in (True, False):
            alike = sorted(number for number, one in self._past.items() if bool(one.home) is is_own)
            for number in alike[:-KEPT]:
                del self._past[number]
        still_open = {lease.id: past_of(lease.request) for lease in snapshot.leases}
        return tuple(one for _, one in sorted((still_open | self._past).items()))

    async def snapshot(self) -> Snapshot:
        """Take a snapshot; raises Unavailable."""
        return await self._snapshot()

    async def record(self, for_s: float, make: Callable[[Snapshot], Gateway]) -> Recording:
        """Take a snapshot, and record what is decided for so many seconds from then on.

        ``make`` makes a gateway without anything in it, with the random stream of the seed of the snapshot. Raises
        Unavailable, also where the engine began anew meanwhile; InvalidField as `Engine.record` does.
        """
        terms = replace(self._terms(), seed=Random(self._clock()).getrandbits(32))
        recorder = await self._thread.ask(lambda engine: engine.record(terms, lambda: make(terms), MOST_INSTANTS))
        try:
            snapshot = await self._with_history(recorder.snapshot)
            await asyncio.sleep(for_s)
        finally:
            is_whole = await self._thread.ask(_stop(recorder))
        if not is_whole:
            raise Unavailable("the gateway was changed while it was recorded: ask again")
        return replace(recorder.recording(), snapshot=snapshot)

    async def compare(self, changes: Iterable[Json], *, horizon_ms: int, replications: int, seed: int) -> Comparison:
        """Say what changes would change; raises InvalidField, Unavailable and ForecastFailed."""
        snapshot = await self._snapshot()
        request = worker.ask_comparison(
            snapshot,
            read_changes(changes, snapshot.reference_mips),
            horizon_ms=horizon_ms,
            replications=replications,
            seed=seed,
            budget_s=_BUDGET_S,
        )
        return worker.read_comparison(await self._asked.ask(request, _BUDGET_S + _GRACE_S))

    async def foresee(self, request: Request, within_ms: int) -> list[Foreseen]:
        """Say what would come of a request as its own lease type and as others, for about so much work.

        Empty where too many leases are open, or nothing was found in time: a plan is worth something without it.
        """
        count = await self._thread.ask(lambda engine: len(engine.gateway.leases))
        if count > MOST_FORESEEN:
            return []
        snapshot = await self._snapshot()
        others = () if request.is_local else tuple(kind for kind in LeaseType if kind is not request.lease_type)
        asked = await asyncio.to_thread(
            partial(
                worker.ask_foreseen,
                snapshot,
                self.calibration.memory(),
                request,
                (request.lease_type, *others),
                replications=self.settings.replications,
                seed=request.id,
                budget_s=within_ms / 1000,
            )
        )
        try:
            return worker.read_foreseen(await self._asked.ask(asked, _PLAN_PATIENCE * within_ms / 1000))
        except LeaseholdError as error:
            _log.warning("no futures were simulated for a plan", cause=str(error))
            return []


@dataclass(frozen=True, slots=True)
class _Tried:
    """What became of a job; ``starts_ms`` are when its attempts got machines, below 0 where they did not."""

    record: JobRecord | None
    starts_ms: tuple[int, ...]

    def happened(self, one: Prediction) -> tuple[int | None, bool]:
        """Say when what was predicted happened, None where it is not known, and whether the job is over."""
        if self.record is None:
            return None, True
        if one.what == END:
            is_done = self.record.state in {JobState.COMPLETED, JobState.FAILED}
            return self.record.ended_ms if is_done else None, self.record.state.is_final
        started = (start_ms for start_ms in self.starts_ms[one.turn :] if start_ms >= 0)
        return next(started, None), self.record.state.is_final


def _stop(recorder: Recorder) -> Callable[[Engine], bool]:
    return lambda engine: engine.stop_recording(recorder)


def _predictions(memory: Iterable[Json]) -> list[Prediction]:
    return [Prediction(**(one | {"raw": tuple(one["raw"])})) for one in memory]


def _happened_ms(one: Prediction, lease: Lease, row: LeaseRow | None) -> int | None:
    """Say when that which was predicted happened; None where it has not, or it is not known when."""
    match one.what:
        case "start" if lease.first_start_ms >= 0:
            return lease.first_start_ms
        case "continues" if lease.preemptions == one.turn and lease.state is LeaseState.RUNNING:
            return holds_since_ms(lease)
        case "end" if row is not None and row.lease.state in _HAPPENED:
            return row.metadata.end_ms
        case _:
            return None


def _past(row: LeaseRow, snapshot: Snapshot) -> PastRequest:
    """Remember what is over; elsewhere only how long it took is known, and that of those that were not preempted."""
    lease, end_ms = row.lease, row.metadata.end_ms
    took_ms = UNKNOWN_MS
    if end_ms is not None and lease.state in _HAPPENED and lease.first_start_ms >= 0:
        if any(site.name == lease.site for site in snapshot.sites):
            took_ms = ran_ms(lease, snapshot.reference_mips)
        elif not lease.preemptions:
            done_ms = (end_ms - lease.first_start_ms) * snapshot.speed_of(lease.site) // snapshot.reference_mips
            took_ms = min(lease.request.duration_ms, max(1, done_ms))
    return past_of(lease.request, took_ms)
