"""One live federation: what the API, and nothing else, calls.

Opening it reads the store, looks at every site's machines, plans on, checks every promise, and only then is
it ready. Closing it finishes what was begun; machines keep running without us.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Self, TypeVar, cast

import structlog

from leasehold.forecasting.file import Recording
from leasehold.gateway.extensions import ELSEWHERE
from leasehold.gateway.gateway import Gateway
from leasehold.gateway.planning import CoAllocationPlan, Plan, Prospect
from leasehold.model.errors import InvariantBroken, LeaseholdError
from leasehold.model.reason import Outcome, Reason
from leasehold.service.agreements import Agreements
from leasehold.service.clock import FAR_OFF_S
from leasehold.service.commands import (
    Cancel,
    Command,
    Extend,
    ReportCheckpoint,
    Submit,
    SubmitCoAllocation,
    SubmitJob,
)
from leasehold.service.config import ServiceConfig
from leasehold.service.discovery import JobFilePaths, NodeDiscovery, job_setup
from leasehold.service.drivers.facts import Access, Output
from leasehold.service.drivers.protocol import Driver
from leasehold.service.drivers.staging import JobFiles, Source, Staging, TakesFiles, stored_at
from leasehold.service.engine.engine import Done, Engine
from leasehold.service.engine.sites import gpus_in_use, occupancies, overhead_factors
from leasehold.service.engine_thread import Clock, EngineThread
from leasehold.service.errors import CannotExtend, Closed, ConsoleElsewhere, NoSuchLease, Unavailable
from leasehold.service.explaining import (
    MOST_LINES,
    Account,
    PreemptionRecord,
    decided_again,
    explain_lease,
    preemptions_in,
)
from leasehold.service.feed import Feed
from leasehold.service.files import FileStore
from leasehold.service.forecasts import Forecasts
from leasehold.service.job_plans import JobPlan, plan_job
from leasehold.service.jobs import Jobs, NodeGroup, answer_of_own, verdicts
from leasehold.service.messages.about_plans import Planned
from leasehold.service.messages.files import GatewayFiles
from leasehold.service.messages.routing import MessageRouter, identity_of
from leasehold.service.metrics import GaugeSnapshot, Metrics
from leasehold.service.notices import NoticeSender
from leasehold.service.opening import (
    Reloaded,
    check_sites,
    make_gateway,
    native_queues,
    open_drivers,
    reloaded,
    snapshot_terms,
)
from leasehold.service.peers.peers import Peers
from leasehold.service.site_reconciler import SiteReconciler
from leasehold.service.sites import UNREACHABLE, Sites
from leasehold.service.store.rows import JournalRow, LeaseMetadata, LeaseRow, OrderRow, StoredJob
from leasehold.service.store.store import Store
from leasehold.service.surroundings import REAL, Surroundings

LISTEN_EVERY_S = 10.0
OUTPUT_WITHIN_S = 25.0
"""For so long a manager is waited for that is asked what a command has written: it may be calling just then."""
PLAN_WITHIN_MS = 2_000
"""Whoever plans wants an answer now; what is known here is one too."""

EXTENSION_WITHIN_S = 5.0
"""For so long a manager is waited for that is asked to extend a lease; then the caller learns that it was asked."""
PRUNE_EVERY_S = 3_600.0
LONGEST_STEP_S = 10.0
"""How long a step may take until the service is not ready."""

_WATCH_EVERY_S = 1.0
_LOOK_S = 1.0
"""How long metrics wait for the engine to say how things stand; then they are as at the last look."""

STOPPING = "stopping"

T = TypeVar("T")

_log = structlog.get_logger("leasehold.federation")


@dataclass(slots=True)
class Health:
    """How the service itself is; asking needs neither the engine nor the store.

    ``trouble``  why requests cannot be decided now, "" while they can
    ``cause``    the error behind that, None where there is none
    ``broken``   the first promise that was found broken, "" while all hold
    ``busy_s``   for how long the engine has been at its current work
    ``ahead_s``  how far the gateway's time is ahead of the machine's clock
    """

    trouble: str = "still starting"
    cause: BaseException | None = None
    broken: str = ""
    busy_s: Callable[[], float] = lambda: 0.0
    ahead_s: Callable[[], float] = lambda: 0.0

    @property
    def warnings(self) -> list[str]:
        """What an operator should look at though requests are decided.

        Leases last as long as they should whatever the machine's clock shows; to take nothing in because of a
        wrong clock would make an outage of it.
        """
        ahead_s = self.ahead_s()
        if abs(ahead_s) <= FAR_OFF_S:
            return []
        way = "ahead of" if ahead_s > 0 else "behind"
        return [f"the gateway's time is {abs(ahead_s):.0f} s {way} the machine's clock: set the clock right"]

    @property
    def ready(self) -> bool:
        """Whether requests can be decided now."""
        return not self.why_not

    @property
    def why_not(self) -> str:
        """Why requests cannot be decided now; "" where they can."""
        if self.trouble:
            return self.trouble
        busy_s = self.busy_s()
        return f"the engine has been at one step for {busy_s:.0f} s" if busy_s > LONGEST_STEP_S else ""

    @property
    def alive(self) -> bool:
        """Whether the process is worth keeping."""
        return not self.broken


class Federation:
    """A gateway with its sites, at work. Made by `Federation.open`."""

    def __init__(
        self,
        config: ServiceConfig,
        store: Store,
        drivers: Mapping[str, Driver],
        clock: Clock,
        metrics: Metrics,
        folder: Path,
        *,
        surroundings: Surroundings,
    ) -> None:
        """Read the store and plan on; the store must be locked for writing. Raises what `Store` raises."""
        self.config = config
        self.store = store
        self.clock = clock
        self.metrics = metrics
        self.health = Health()
        self.feed = Feed(store.last_seq())
        self._can = {name: driver.capabilities for name, driver in drivers.items()}
        self.images = sorted({image for able in self._can.values() for image in able.images})
        self._opened_slots = {site.name: site.slots for site in config.clusters}
        self._random = surroundings.random
        most_open = config.limits.open_requests_per_consumer or None
        setup = job_setup(config.jobs, drivers, config.limits.output_mib_per_consumer)
        self._identity = identity = identity_of(store, surroundings.new_id)
        engine = Engine(
            store,
            lambda: make_gateway(config, self._can, surroundings.random(), identity),
            metrics,
            clock(),
            most_open,
            setup,
            start_within_ms=config.service.start_within_ms,
        )
        self._engine_thread = EngineThread(engine, clock, self._passed, self._in_trouble)
        self.health.busy_s = lambda: self._engine_thread.busy_s
        metrics.show_health(lambda: self.health.ready, self.health.busy_s)
        look_every_s = config.service.reconcile_every_ms / 1000
        limits = config.limits
        self.files = FileStore(folder / "files", limits.file_mib_per_consumer << 20, limits.file_mib << 20)
        self.gateway_files = GatewayFiles()
        own_files = stored_at(self.files.folder)

        def source_of(files: JobFiles) -> Source:
            return self.gateway_files.source_of(files) if files.origin else own_files

        self._stagings = stagings = {
            name: Staging(source_of, driver.input_folder)
            for name, driver in drivers.items()
            if isinstance(driver, TakesFiles)
        }
        self._reconcilers = {
            name: SiteReconciler(name, driver, self.do, clock, look_every_s, stagings.get(name))
            for name, driver in drivers.items()
        }
        self.notices = NoticeSender(drivers, config.service.webhooks, clock)
        self._discovery = NodeDiscovery(
            drivers,
            self.do,
            clock,
            config.jobs,
            config.clusters,
            files=JobFilePaths(self.files, self.gateway_files.send, stagings),
            plan=self._plan_and_ask,
        )
        self._native_queues = native_queues(config, drivers, self.do)
        self._gauges = GaugeSnapshot()
        metrics.show(lambda: self._gauges)
        thread = self._engine_thread
        drained = {row.name: row for row in store.sites() if row.drained_ms is not None}
        self.messages = MessageRouter(thread, store, clock)
        self.sites = Sites(config, thread, self._reconcilers, drained, self.messages, identity=identity, clock=clock)
        self.peers = Peers(thread, self.messages, self.gateway_files, identity, folder, surroundings)
        self.agreements = Agreements(thread)
        self.forecasts = Forecasts(
            thread, store, clock, lambda: snapshot_terms(self.config, self._can, identity), config.estimates
        )
        self._makes_forecasts = surroundings.forecasts
        self.jobs = Jobs(thread, store, clock, self._output)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: ServiceConfig,
        store: Store,
        folder: Path,
        clock: Clock,
        metrics: Metrics,
        *,
        surroundings: Surroundings = REAL,
    ) -> AsyncIterator[Self]:
        """Open a federation and close it in the end; ``folder`` has machines, and tokens of peers.

        Raises InputError where the store is in use by another gateway, or names a site that the
        configuration has not; InvariantBroken where what it holds cannot be true.
        """
        store.acquire_writer_lock()
        check_sites(config, store)
        drivers = open_drivers(config, folder, clock)
        try:
            federation = cls(config, store, drivers, clock, metrics, folder, surroundings=surroundings)
            async with federation._at_work():
                yield federation
        finally:
            for driver in drivers.values():
                await driver.close()

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        surveys = await asyncio.gather(*(reconciler.observe() for reconciler in self._reconcilers.values()))
        # asked before the engine thread begins: what has become of the machines meanwhile is known to its first step
        news = asyncio.gather(*(self.do(survey) for survey in surveys if survey is not None))
        driving = asyncio.create_task(self._engine_thread.run())
        driving.add_done_callback(self._driver_ended)
        helping: list[asyncio.Task[None]] = []
        try:
            await news
            for reconciler in self._reconcilers.values():
                await reconciler.report_silence()
            await self._begin()
            helping = [asyncio.create_task(reconciler.run()) for reconciler in self._reconcilers.values()]
            self._discovery.begin()
            helping += [asyncio.create_task(queue.run()) for queue in self._native_queues]
            helping.append(asyncio.create_task(self._check_now_and_then()))
            helping.append(asyncio.create_task(self._listen_for_silence()))
            helping.append(asyncio.create_task(self._prune_now_and_then()))
            helping.append(asyncio.create_task(self._watch_steps()))
            helping.append(asyncio.create_task(self._watch_clock()))
            if self._makes_forecasts:
                helping.append(asyncio.create_task(self.forecasts.run()))
            await self.peers.open()
            yield
        finally:
            self.health.trouble = STOPPING
            await self.peers.close()
            await self._discovery.close()
            await self.notices.close()
            for task in helping:
                task.cancel()
            await asyncio.gather(*helping, return_exceptions=True)
            self._engine_thread.stop()
            await driving

    async def _begin(self) -> None:
        """Check every promise, and be ready."""
        await self._engine_thread.ask(lambda engine: engine.check())
        await self._look_around()
        self.health.trouble = ""

    def _passed(self, done: Done) -> None:
        """Publish a stored step: wake those that wait for news, and send its orders."""
        self.feed.advance(done.last_seq)
        self.messages.notify(done.messages_to)
        self._discovery.send(done.tasks)
        self.notices.send(done.orders)
        by_site: dict[str, list[OrderRow]] = {}
        for row in done.orders:
            by_site.setdefault(row.site, []).append(row)
        for site, rows in by_site.items():
            if site in self._reconcilers:  # else it was taken out of the configuration, with orders left to stop
                self._reconcilers[site].deliver(rows)

    def _in_trouble(self, error: Exception | None) -> None:
        """Nothing can be decided now, or (with None) something can again; `_at_work` has the last word."""
        if error is None:
            _log.info("requests are decided again")
        else:
            defect = None if isinstance(error, LeaseholdError) else error
            _log.error("requests cannot be decided", cause=str(error), exc_info=defect)
        if self.health.trouble != STOPPING:
            self.health.trouble = "" if error is None else self._engine_thread.trouble
            self.health.cause = None if error is None else error.__cause__ or error

    def _driver_ended(self, driving: "asyncio.Task[None]") -> None:
        """Without an engine thread no request would ever be answered: only a restart helps."""
        if not driving.cancelled() and (error := driving.exception()) is not None:
            self.health.broken = self.health.broken or "the engine has stopped"
            self.health.trouble = self.health.trouble or "the engine has stopped"
            _log.critical("the engine has stopped", exc_info=error)

    async def _watch_steps(self) -> None:
        """Say once of each step that takes too long that it does, and how long it took."""
        while True:
            await asyncio.sleep(_WATCH_EVERY_S)
            if self._engine_thread.busy_s > LONGEST_STEP_S:
                _log.warning("a step of the engine takes too long", so_far_s=round(self._engine_thread.busy_s))
                longest_s = self._engine_thread.busy_s
                while self._engine_thread.busy_s >= longest_s:
                    longest_s = self._engine_thread.busy_s
                    await asyncio.sleep(_WATCH_EVERY_S)
                _log.info("the step of the engine is done", took_s=round(longest_s))

    async def _watch_clock(self) -> None:
        """Log once that the machine's clock is off, and once that it is right again."""
        was_off = False
        while True:
            warnings = self.health.warnings
            for warning in warnings if not was_off else ():
                _log.warning("the clock is off", cause=warning)
            if was_off and not warnings:
                _log.info("the clock is right again")
            was_off = bool(warnings)
            await asyncio.sleep(_WATCH_EVERY_S)

    async def _prune_now_and_then(self) -> None:
        """Delete what is older than the configuration keeps, a little at a time."""
        while True:
            before = self.config.retention.cutoffs(self.clock())
            with suppress(LeaseholdError):
                while gone := await self._engine_thread.ask(lambda engine: engine.prune(before)):  # noqa: B023 - asked now
                    self.metrics.pruned(gone)
            inputs_before_ms = self.config.retention.inputs_before_ms(self.clock())
            for staging in self._stagings.values():
                await asyncio.to_thread(staging.drop_unused, inputs_before_ms)
            await asyncio.sleep(PRUNE_EVERY_S)

    async def _check_now_and_then(self) -> None:
        every_s = self.config.service.check_every_ms / 1000
        while every_s:
            await asyncio.sleep(every_s)
            await self._check()

    async def _check(self) -> None:
        """Check every promise, and keep the first that was found broken."""
        try:
            await self._engine_thread.ask(lambda engine: engine.check())
        except InvariantBroken as error:
            self.health.broken = self.health.broken or str(error)
        except LeaseholdError:
            pass  # the store does not answer now: the next time will do

    async def _listen_for_silence(self) -> None:
        """Send nothing more to sites that have not been heard of for too long."""
        while True:
            await asyncio.sleep(LISTEN_EVERY_S)
            with suppress(LeaseholdError):  # where the store does not answer now, the next time will do
                await self.sites.mark_silent()

    # Configuration

    async def reload(self, new: ServiceConfig) -> Reloaded:
        """Go on with what of another configuration can be applied to a gateway at work.

        Raises InvalidField and InputError where it cannot be served, and changes nothing then.
        """
        outcome = reloaded(self.config, new, self._opened_slots)
        if outcome.applied:
            config = outcome.config

            def make() -> Gateway:
                return make_gateway(config, self._can, self._random(), self._identity)

            most_open = config.limits.open_requests_per_consumer or None
            await self._engine_thread.ask(lambda engine: engine.reconfigure(make, most_open))
            self.config = config
            self.sites.configure(config)
            await self._check()  # after the step that decides what follows; by now all of it is applied
        return outcome

    async def record(self, for_s: float) -> Recording:
        """Take a snapshot and record what is decided for so many seconds; raises as `Forecasts.record` does."""
        return await self.forecasts.record(
            for_s, lambda terms: make_gateway(self.config, self._can, Random(terms.seed), self._identity)
        )

    # Leases

    async def do(self, command: Command) -> object:
        """Ask the engine; raises what it answers with."""
        return await self._engine_thread.do(command)

    async def ask(self, question: Callable[[Engine], T], *, whose: str | None = None) -> T:
        """Look at the engine between two steps; a question that takes long says ``whose`` it is."""
        return await self._engine_thread.ask(question, whose=whose)

    async def submit(self, request: Submit) -> tuple[LeaseRow, bool]:
        """Take a request in; True with it if it is new, False if it came before under the same key."""
        return cast("tuple[LeaseRow, bool]", await self.do(request))

    async def plan(self, request: Submit) -> Plan:
        """Say what would become of a request; raises what `submit` raises."""
        return await self._engine_thread.ask(lambda engine: engine.plan(request), whose=request.consumer)

    async def plan_elsewhere(
        self, prospect: Prospect, metadata: LeaseMetadata, within_ms: int = PLAN_WITHIN_MS
    ) -> Planned | None:
        """Ask whoever would decide on a planned request instead; None where nobody would, or does not answer soon."""
        there = prospect.elsewhere
        if there is None or self.messages.is_away(there.name):
            return None
        with suppress(TimeoutError, LeaseholdError):
            return await self._discovery.queries.plan(there.name, prospect.request, metadata, within_ms)
        return None

    async def _plan_and_ask(self, request: Submit, within_ms: int) -> tuple[Prospect, Planned | None]:
        prospect = (await self.plan(request)).prospect
        return prospect, await self.plan_elsewhere(prospect, request.metadata, within_ms)

    async def plan_job(self, command: SubmitJob) -> JobPlan:
        """Say what would become of a job, and what would go better; raises InvalidField, Unavailable."""
        return await self._engine_thread.ask(lambda engine: plan_job(engine, command), whose=command.consumer)

    async def explain(self, row: LeaseRow) -> Account:
        """Say what happened to a lease and why, and what would help; raises Unavailable."""

        def read() -> tuple[list[JournalRow], list[PreemptionRecord]]:
            lines = self.store.tail(row.lease.id, MOST_LINES)
            return lines, preemptions_in(self.store, lines)

        lines, found = await asyncio.to_thread(read)
        whose = row.lease.request.consumer
        return await self._engine_thread.ask(lambda engine: explain_lease(engine, row, lines, found), whose=whose)

    async def explain_job(self, job: StoredJob) -> tuple[Account, tuple[NodeGroup, ...]]:
        """Say what happened to a job and why, and what each node says to it now; raises Unavailable."""
        record, attempts = job[0].record, job[1]

        def read() -> tuple[list[JournalRow], list[PreemptionRecord], dict[int, LeaseRow]]:
            lines = self.store.lines_of_job(record.id, MOST_LINES)
            rows = filter(None, (self.store.lease(one.lease_id) for one in attempts if one.lease_id is not None))
            return lines, preemptions_in(self.store, lines), {row.lease.id: row for row in rows}

        lines, found, rows = await asyncio.to_thread(read)

        def look(engine: Engine) -> tuple[Account, tuple[NodeGroup, ...]]:
            account = Account(lines, decided_again(engine, rows, found))
            if record.state.is_final:
                return account, ()
            return account, verdicts(engine, record.request.job, answer_of_own(engine, record.request))

        return await self._engine_thread.ask(look, whose=record.request.consumer)

    async def plan_coallocation(self, request: SubmitCoAllocation) -> CoAllocationPlan:
        """Say what would become of a co-allocation; raises what it is answered with."""
        return await self._engine_thread.ask(lambda engine: engine.plan_coallocation(request), whose=request.consumer)

    async def cancel(self, lease_id: int) -> LeaseRow:
        """Take a lease back; one that is over stays as it is. Raises NoSuchLease."""
        return cast("LeaseRow", await self.do(Cancel(lease_id)))

    async def extend(self, lease_id: int, by_ms: int) -> LeaseRow:
        """Let a lease last longer; raises NoSuchLease, Closed, CannotExtend, InvalidField.

        Where its site decides for itself, the answer of that is awaited for a while; after that the row says what was
        asked for.
        """
        before_seq = self.feed.last_seq
        row = cast("LeaseRow", await self.do(Extend(lease_id, by_ms)))
        if row.lease.site in self._reconcilers:
            return row
        if not self.messages.is_away(row.lease.site):
            with suppress(TimeoutError):
                async with asyncio.timeout(EXTENSION_WITHIN_S):
                    return await self._extended_elsewhere(lease_id, before_seq)
        return await asyncio.to_thread(self.store.lease, lease_id) or row

    async def _extended_elsewhere(self, lease_id: int, after_seq: int) -> LeaseRow:
        """Wait for what a site decides that was asked to let a lease last longer; raises what that means."""
        while True:
            seen_seq = self.feed.last_seq
            row = await asyncio.to_thread(self.store.lease, lease_id)
            if row is None:
                raise NoSuchLease(lease_id)
            if row.lease.wanted_ms < 0:
                break
            await self.feed.wait(seen_seq)
        lines = await asyncio.to_thread(self.store.tail, lease_id, MOST_LINES)
        for line in reversed(lines):
            if line.seq > after_seq and line.what == Outcome.EXTEND:
                return row
            if line.seq > after_seq and line.what == Outcome.DENY and line.rule == ELSEWHERE:
                raise CannotExtend(lease_id, Reason(line.reason))
        raise Closed(lease_id, row.lease.state)

    async def checkpointed(self, lease_id: int) -> LeaseRow:
        """Take in that a lease's guest has saved its work; raises NoSuchLease, Closed, CannotCheckpoint."""
        return cast("LeaseRow", await self.do(ReportCheckpoint(lease_id)))

    async def console(self, lease_id: int) -> str:
        """Give what a lease's machines have written; raises NoSuchLease, ConsoleElsewhere, Unavailable."""
        row = await asyncio.to_thread(self.store.lease, lease_id)
        if row is None:
            raise NoSuchLease(lease_id)
        return await self._reconciler_of(lease_id, row.lease.site).console(lease_id) if row.lease.site else ""

    async def access(self, lease_id: int) -> Sequence[Access]:
        """Say where one can log in to a lease's machines; raises NoSuchLease, ConsoleElsewhere, Unavailable."""
        row = await asyncio.to_thread(self.store.lease, lease_id)
        if row is None:
            raise NoSuchLease(lease_id)
        if not (row.metadata.ssh_key and row.lease.site) or row.lease.state.is_final:
            return ()
        return await self._reconciler_of(lease_id, row.lease.site).access(lease_id)

    async def _output(self, lease_id: int, site: str) -> Output:
        if site in self._reconcilers or not await self.sites.is_managed(site):
            return await self._reconciler_of(lease_id, site).output(lease_id)
        if not self.messages.is_away(site):
            with suppress(TimeoutError):
                async with asyncio.timeout(OUTPUT_WITHIN_S):
                    return await self._discovery.queries.output(lease_id)
        raise Unavailable(f"the manager of site {site} does not answer")

    def arriving(self, lease_id: int) -> None:
        """Note that something arrives of the files that the command of a lease has left at a site with a manager."""
        self._discovery.queries.arriving(lease_id)

    def _reconciler_of(self, lease_id: int, site: str) -> SiteReconciler:
        if site not in self._reconcilers:
            raise ConsoleElsewhere(lease_id, site)
        return self._reconcilers[site]

    # Metrics

    async def render_metrics(self) -> tuple[bytes, str]:
        """Give all metrics, and the type of that content; a busy engine's are as at the last look."""
        with suppress(LeaseholdError, TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await self._look_around()
        return self.metrics.render()

    async def _look_around(self) -> None:
        """Let the gauges show how things stand."""
        leases = await asyncio.to_thread(self.store.count_by_state)
        self._gauges = await self._engine_thread.ask(lambda engine: self._measure(engine, leases))

    def _measure(self, engine: Engine, leases: Mapping[tuple[str, str], int]) -> GaugeSnapshot:
        vms: dict[tuple[str, str], int] = {}
        for name, now in occupancies(engine.gateway).items():
            vms |= {
                (name, "local"): now.local_vms,
                (name, "guest"): now.guest_vms,
                (name, "free"): now.free_vms,
            }
        gpus = {
            (name, use): milli
            for name, site in engine.gateway.sites.items()
            for use, milli in gpus_in_use(site).items()
        }
        orders: dict[tuple[str, str], int] = {}
        for row in engine.outbox:
            orders[row.site, row.status] = orders.get((row.site, row.status), 0) + 1
        up = {name: self.sites.status(name) != UNREACHABLE for name in self._reconcilers}
        factors = overhead_factors(engine.gateway)
        agreements, penalties = engine.agreements.count(engine.now_ms)
        jobs = Counter(record.state.value for record in engine.jobs.scheduler.records.values())
        estimates = self.forecasts.gauges()
        return GaugeSnapshot(leases, vms, orders, up, factors, jobs, agreements, penalties, estimates, gpus)
