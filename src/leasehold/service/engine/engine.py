"""The engine: commands in, decisions by the core, everything into the store in one transaction, answers out.

It is used by one thread. All commands that have gathered meanwhile are decided and written together, so that many
share the price of one transaction, and none is answered before that is done.

Timers are handled at the time for which they were set, however late the engine gets to them: the decision core
never sees that a clock was late. Only when they are very late (`MAX_LATENESS_MS`: the machine slept, or no engine
was running) are the leases replanned from now on.

The store is the truth. Whenever a step fails, what it did in memory is thrown away and read again.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

from leasehold.forecasting.replay import Recorder
from leasehold.forecasting.snapshot import Snapshot, copied, copied_coallocations, memory_of
from leasehold.gateway.gateway import Gateway
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.peering import PeerAgreed
from leasehold.gateway.planning import CoAllocationPlan, Plan, plan_coallocation, plan_request
from leasehold.gateway.restart import take_up
from leasehold.gateway.sites import told_of
from leasehold.model.effect import Effect
from leasehold.model.errors import InvariantBroken, LeaseholdError
from leasehold.model.event import Event, LeaseEnded, LeaseIsLate, OverheadMeasured, Tick
from leasehold.model.lease import ON_THE_WAY, Lease, LeaseState
from leasehold.service.commands import Command, JobNodesSeen, Submit, SubmitCoAllocation
from leasehold.service.engine.agreements import AgreementRepository
from leasehold.service.engine.checkpoints import Checkpoints
from leasehold.service.engine.coallocations import CoAllocationRepository
from leasehold.service.engine.context import DecisionCore, EngineContext, GatewaySnapshots, Telemetry, last_written_ms
from leasehold.service.engine.effects import EffectRecorder
from leasehold.service.engine.handlers import CommandHandler
from leasehold.service.engine.jobs import JobController, JobSetup
from leasehold.service.engine.journal import JournalWriter
from leasehold.service.engine.leases import LeaseRepository, OpenRequests
from leasehold.service.engine.nodes import NodeRepository
from leasehold.service.engine.orders import Outbox, ended
from leasehold.service.engine.outages import NodeOutages
from leasehold.service.engine.remote_sites import RemoteSiteProtocol
from leasehold.service.engine.sites import PeerRepository, terms_with
from leasehold.service.engine.tasks import BackgroundTasks
from leasehold.service.engine.timers import (
    START_WITHIN_MS,
    AgreementsEnd,
    JobsDue,
    LeaseEndDue,
    OutageOver,
    StartOverdue,
    Timer,
    TimerQueue,
)
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.errors import Unavailable
from leasehold.service.store.errors import StoreUnavailable
from leasehold.service.store.retention import Cutoffs
from leasehold.service.store.rows import LEASES, MESSAGES, OUTPUTS, OrderRow
from leasehold.service.store.store import Store

MAX_LATENESS_MS = 10_000
_PROBE_BYTES = 65_536
"""As much as a large step writes; a store that was full must have room for it before it is trusted again."""

MAX_PLANNED = 200_000
"""Open leases up to which a request is planned: all of them are looked at for that."""

MAX_FORECAST = 50_000
"""Open leases up to which snapshots are taken: to copy them takes the engine some microseconds each."""

Answer = Any
"""What a command is answered with, an exception included."""


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome of a stored step: its answers in the order of the commands, and the orders to send now."""

    answers: list[Answer]
    orders: list[OrderRow]
    last_seq: int
    next_alarm_ms: int | None
    messages_to: Sequence[str] = ()
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)


class Engine:
    """One gateway's decisions, and their record.

    ``most_open``        how many open requests a consumer may have at a time; None: any number
    ``start_within_ms``  for how long a guest's machines may be on their way before it is tried elsewhere
    """

    def __init__(
        self,
        store: Store,
        make_gateway: Callable[[], Gateway],
        telemetry: Telemetry,
        now_ms: int,
        most_open: int | None = None,
        setup: JobSetup | None = None,
        *,
        start_within_ms: int = START_WITHIN_MS,
    ) -> None:
        """Start from the state in the store; ``setup`` concerns jobs. Raises what `Store` raises."""
        self.store = store
        self.setup = setup or JobSetup()
        self.now_ms = max(now_ms, last_written_ms(store))  # a clock may have been set back meanwhile
        self.core = DecisionCore(make_gateway)
        self._telemetry = telemetry
        self._most_open = most_open
        self._start_within_ms = start_within_ms
        self._is_stale = self._has_measured = False
        self._have_ended: set[tuple[int, int]] = set()
        self._replaced = ReplacedRecords()
        self._load()

    @property
    def gateway(self) -> Gateway:
        """The gateway that decides now."""
        return self.core.gateway

    def _load(self) -> None:
        """Read everything that is open, and forget what was not written; a recording ends here."""
        self.core.recorder = None
        with collecting_no_garbage():
            leases = self._make_parts()
            self._resume(leases, self.now_ms)
        self._is_stale = False

    def _make_parts(self) -> list[Lease]:
        """Make all parts from what is in the store; gives the open leases."""
        store, core, unit = self.store, self.core, UnitOfWork()
        rows = store.live_leases()
        metadata = {row.lease.id: row.metadata for row in rows}
        peers = {row.name: row for row in store.peers()}
        open_coallocations = store.open_coallocations()
        core.begin()
        for peer in peers.values():
            core.gateway.peering.agree(peer.name, terms_with(peer))
        journal = JournalWriter(unit, metadata, store.last_seq())
        outbox, timers = Outbox(unit, store.open_orders()), TimerQueue(self._start_within_ms)
        context = EngineContext(store, core, unit, metadata, journal, outbox, timers, self._telemetry)
        self._outages = NodeOutages(core, timers)
        nodes = NodeRepository(
            store.nodes(), unit, self._outages, self.setup.settings.sites, self.setup.gone_after_ms, self.now_ms
        )
        self.unit, self._journal, self._timers, self.outbox = unit, journal, timers, outbox
        self.agreements = AgreementRepository(context, peers)
        self.leases = LeaseRepository(context, OpenRequests(rows, self._most_open), self.agreements, nodes)
        self.coallocations = CoAllocationRepository(context, self.leases, open_coallocations)
        self.jobs = JobController(context, self.leases, nodes, self.setup, self.now_ms)
        checkpoints = Checkpoints(context, self.leases)
        self.remote_sites = RemoteSiteProtocol(context, self.leases, self.agreements, peers, checkpoints, self.jobs)
        self.peers = PeerRepository(context, peers, self.remote_sites)
        self._effects = EffectRecorder(context, self.agreements, self.coallocations, self.remote_sites)
        self._handler = CommandHandler(
            context,
            self.leases,
            self.coallocations,
            self.jobs,
            self.agreements,
            self.peers,
            self.remote_sites,
            checkpoints,
        )
        self._snapshots = GatewaySnapshots(unit, core, self.now_ms)
        drained = {row.name for row in store.sites() if row.drained_ms is not None}
        core.restore(store.snapshots(), drained, [row.coallocation for row in open_coallocations])
        return [row.lease for row in rows]

    def _resume(self, leases: Sequence[Lease], now_ms: int) -> None:
        """Hand these leases to a gateway that has none yet."""
        self.core.note_silence(now_ms)
        self._outages.gateway_is_new()
        history = self.agreements.brief(self.remote_sites.remotes, now_ms)
        take_up(self.gateway, leases, now_ms, history)
        self._invariants = Invariants(self.gateway)
        self._since_check = list(self.unit.decisions)
        self._planned_ms = now_ms
        self._overdue: list[Timer] = [Tick("")]
        if self.agreements.records:
            self._overdue.append(AgreementsEnd())
        if self.jobs.is_used:
            self._overdue.append(JobsDue())
        for lease in leases:
            if lease.held_since_ms >= 0 and lease.end_ms <= now_ms:
                self._overdue.append(LeaseEndDue(lease.id, lease.incarnation))
            elif lease.held_since_ms >= 0:
                self._timers.schedule_end(lease, now_ms)
            if lease.state is LeaseState.STARTING:
                self._timers.schedule_start(lease, now_ms)

    def _replan(self, now_ms: int) -> None:
        """Hand the same leases to another gateway, which replans them from now on."""
        self.core.recorder = None
        leases = list(self.gateway.leases.values())
        self.core.renew()
        self._resume(leases, now_ms)

    # A step

    def step(self, commands: Sequence[Command], now_ms: int) -> Done:
        """Decide about commands and whatever is due, write it, and answer.

        A command that fails is answered with its exception. If a step fails as a whole, its commands are tried
        one by one, so that a faulty one does not affect the others.
        """
        self.now_ms = max(now_ms, self.now_ms)
        try:
            if self._is_stale:
                self._load()
            answers = self._step(commands, self.now_ms)
        except StoreUnavailable as error:
            self._is_stale = True
            raise Unavailable(str(error)) from error
        except Exception as error:
            self._is_stale = True
            if len(commands) > 1:
                return self._one_by_one(commands)
            if not commands:
                raise
            return Done([error], [], self._journal.last_seq, now_ms)
        done = self._finish(answers)
        self._replaced.count(sum(len(one.nodes) for one in commands if isinstance(one, JobNodesSeen)))
        return done

    def _one_by_one(self, commands: Sequence[Command]) -> Done:
        parts = [self.step([command], self.now_ms) for command in commands]
        return Done(
            [answer for part in parts for answer in part.answers],
            [row for part in parts for row in part.orders],
            parts[-1].last_seq,
            parts[-1].next_alarm_ms,
            [name for part in parts for name in part.messages_to],
            BackgroundTasks.together(part.tasks for part in parts),
        )

    def _step(self, commands: Sequence[Command], now_ms: int) -> list[Callable[[], Answer]]:
        began_s = perf_counter()
        self._has_measured = False
        next_ms = self._timers.next_ms()
        if next_ms is not None and next_ms < now_ms - MAX_LATENESS_MS:
            for _ in self._timers.instants(now_ms):
                pass
            self._replan(now_ms)
        self._have_ended = ended(commands)
        # What came due while no engine was running comes after the news of machines: leases may have ended in
        # time. Both are decided at the time for which plans were made, however long ago: else what was planned
        # for one after the other would start at once.
        due, self._overdue = self._overdue, []
        now_ms = self._planned_ms if due else now_ms
        for at_ms, timers in self._timers.instants(now_ms):
            if at_ms < now_ms and not due:
                self._decide(self._events(timers, at_ms), at_ms)
            else:
                due += timers
        answers = self._obey(commands, due, now_ms)
        decided_s = perf_counter()
        self._commit()
        self._telemetry.batch(len(commands), decided_s - began_s, perf_counter() - decided_s)
        return answers

    def _obey(self, commands: Sequence[Command], due: Sequence[Timer], now_ms: int) -> list[Callable[[], Answer]]:
        """Decide about commands; news of machines come before what is due, requests after it."""
        handled = self._handler.handle(commands, now_ms)
        self.jobs.recall(now_ms)
        terms = [event for one in handled for event in one.terms]
        news = [event for one in handled for event in one.news]
        requests = [event for one in handled for event in one.requests]
        self._decide([*terms, *news, *self._events(due, now_ms), *requests], now_ms)
        return [one.answer for one in handled]

    def _decide(self, events: Sequence[Event], now_ms: int) -> None:
        """Decide about an instant: the gateway first, then the job scheduler, until both are content."""
        jobs, outages = self.jobs, self._outages
        if outages.is_on:
            events = [*events, *outages.changes(events, now_ms)]
        while events or (jobs.is_used and jobs.has_news):
            if events:
                effects = self._route(events, now_ms)
                if jobs.is_used:
                    jobs.follow(effects, self.gateway.moved.values(), now_ms)
                    outages.follow(self.gateway.moved.values())
            events = jobs.decide(now_ms) if jobs.is_used else ()
            if outages.is_on:
                events = [*events, *outages.changes(events, now_ms)]
        if jobs.is_used:
            jobs.keep_up(now_ms)

    def _route(self, events: Sequence[Event], now_ms: int) -> Sequence[Effect]:
        effects = self.core.handle(events, now_ms)
        self._has_measured |= any(isinstance(event, OverheadMeasured) for event in events)
        self._effects.record(events, effects, self.gateway.moved, now_ms)
        if self.gateway.coallocations.moved:
            self.coallocations.follow(self.gateway.coallocations.moved.values())
        return effects

    def _events(self, timers: Sequence[Timer], now_ms: int) -> list[Event]:
        """What timers mean now: some leases have been extended, or have given their machines up."""
        events: list[Event] = []
        for timer in timers:
            match timer:
                case Tick():
                    events.append(timer)
                case AgreementsEnd():
                    events += self.agreements.expire(now_ms)
                case JobsDue():
                    self.jobs.due()
                case OutageOver():
                    pass  # each instant looks which nodes are to be expected later
                case LeaseEndDue(lease_id, incarnation) | StartOverdue(lease_id, incarnation):
                    lease = self.gateway.leases.get(lease_id)
                    if lease is None or lease.incarnation != incarnation or lease.held_since_ms < 0:
                        continue
                    if isinstance(timer, StartOverdue):
                        events += self._overdue_start(lease)
                    elif lease.end_ms <= now_ms:
                        events.append(self._end(lease))
        return events

    def _overdue_start(self, lease: Lease) -> Sequence[Event]:
        """Handle a guest that did not start in time; the last report of its machines is the cause."""
        if lease.state is not LeaseState.STARTING or self.leases.is_native_job(lease.id):
            return ()
        problems = [row.problem for row in self.outbox.of(lease.id) if row.problem]
        waited = f"its machines were not seen to run within {self._start_within_ms / 1000:g} s"
        self.unit.causes[lease.id] = "; ".join([waited, *problems[-1:]])
        return [self._handler.not_started(lease)]

    def _end(self, lease: Lease) -> Event:
        """Its time is over: that is its end where it has its machines; others are still waited for.

        Machines without a command have served their time; a command that still runs is cut off. The news that it
        does not may be as late as we are.
        """
        if lease.state in ON_THE_WAY:
            return LeaseIsLate(lease.id, lease.incarnation)
        has_ended = (lease.id, lease.incarnation) in self._have_ended
        is_cut_off = bool(self.leases.metadata[lease.id].command) and not has_ended
        return LeaseEnded(lease.id, lease.incarnation, killed=is_cut_off)

    def _commit(self, *, at_once: bool = False) -> None:
        """Write the step, all of it or nothing; ``at_once`` with all that was learnt."""
        self.remote_sites.report(self.now_ms)
        if self.jobs.is_used:
            self.jobs.close_step()
        self._snapshots.take(self.now_ms, has_measured=self._has_measured, at_once=at_once)
        if self.unit.is_empty():
            return
        outputs, dropped = self.unit.rows(OUTPUTS), 0
        with self.store.writing() as batch:
            self.unit.write(batch)
            if outputs:
                dropped = self.jobs.quota.make_room(batch, outputs)
        if dropped:
            self.unit.after_commit(partial(self._telemetry.pruned, {"outputs": dropped}))

    def _finish(self, answers: Sequence[Callable[[], Answer]]) -> Done:
        """Everything is in the store: answer, and forget what is over."""
        unit = self.unit
        replies = [_reply(answer) for answer in answers]
        for decision in unit.decisions:
            self._telemetry.decided(decision.outcome, decision.reason, decision.site)
            if decision.breach is not None:
                self._telemetry.held_to_agreement(decision.outcome, decision.reason)
        self._since_check += unit.decisions
        for row in unit.rows(LEASES):
            if row.lease.state.is_final:
                unit.after_commit(partial(self.leases.closed, row.lease))
        messages_to = list(dict.fromkeys(row.endpoint for row in unit.rows(MESSAGES)))
        unit.clear()
        orders, tasks = self.outbox.take_outgoing(), self.jobs.tasks.take()
        next_alarm_ms = self.now_ms if self.jobs.has_unrecalled else self._timers.next_ms()
        return Done(replies, orders, self._journal.last_seq, next_alarm_ms, messages_to, tasks)

    # Beside the steps

    def reconfigure(self, make_gateway: Callable[[], Gateway], most_open: int | None) -> None:
        """Use gateways made with another configuration; the next step decides what follows.

        Raises whatever making one raises, and then keeps the present one.
        """
        if self._is_stale:
            self._load()
        make_gateway()  # it may be refused, before anything is changed
        before, self.core.make_gateway = self.core.make_gateway, make_gateway
        try:
            self._replan(self.now_ms)
        except Exception:
            self.core.make_gateway, self._is_stale = before, True
            raise
        self._most_open = self.leases.requests.most = most_open

    def snapshot(self, terms: Snapshot) -> Snapshot:
        """Say how things stand, on the terms of a snapshot with nothing in it; raises what `Store` raises.

        Only what takes little time is done here: leases are copied, nothing is encoded. Raises Unavailable where there
        are too many of them.
        """
        if self._is_stale:
            self._load()
        gateway = self.gateway
        if len(gateway.leases) > MAX_FORECAST:
            raise Unavailable(f"{len(gateway.leases)} leases are open: snapshots are taken up to {MAX_FORECAST}")
        sites = tuple(
            replace(
                site,
                lends=site.name not in gateway.registry.not_lending,
                is_silent=site.name in self.core.silent,
                outages=self._outages.told(site.name),
            )
            for site in terms.sites
        )
        return replace(
            terms,
            taken_ms=self.now_ms,
            sites=sites,
            remotes=tuple(
                told_of(remote, self.remote_sites.remotes[name].told(name).units)
                for name, remote in gateway.registry.remotes.items()
            ),
            peers=tuple(PeerAgreed(name, with_it, self.now_ms) for name, with_it in gateway.peering.terms.items()),
            drained=tuple(sorted(gateway.registry.not_lending - {site.name for site in terms.sites})),
            leases=copied(gateway.leases.values()),
            memory=memory_of(gateway),
            agreements=self.agreements.agreed,
            penalties=tuple(self.agreements.penalties.standing(self.now_ms)),
            usage=tuple(self.agreements.history(self.now_ms)),
            coallocations=copied_coallocations(gateway.coallocations.open.values()),
        )

    def record(self, terms: Snapshot, make_gateway: Callable[[], Gateway], most_instants: int) -> Recorder:
        """Take a snapshot, go on with a gateway made from it, and record everything that it is told and decides.

        ``make_gateway`` makes one with the random stream of the seed of ``terms``. Raises as `snapshot` does.
        """
        snapshot = self.snapshot(terms)
        before, self.core.make_gateway = self.core.make_gateway, make_gateway
        try:
            self._replan(snapshot.taken_ms)
        except Exception:
            self._is_stale = True
            raise
        finally:
            self.core.make_gateway = before
        self.core.recorder = recorder = Recorder(snapshot, most_instants)
        return recorder

    def stop_recording(self, recorder: Recorder) -> bool:
        """Record no more; says whether this still recorded, and so has everything up to now."""
        is_whole = self.core.recorder is recorder
        if is_whole:
            self.core.recorder = None
        return is_whole

    def keep_text(self, name: str, text: str) -> None:
        """Keep a JSON text under this name, as `Reading.snapshots` gives it; raises Unavailable."""
        try:
            with self.store.writing() as batch:
                batch.set_snapshot(name, text)
        except StoreUnavailable as error:
            raise Unavailable(str(error)) from error

    def finish(self) -> None:
        """Write what was learnt since the last snapshot, all that is unwritten; raises Unavailable."""
        if self._is_stale:
            return  # what is in memory is not what is in the store
        try:
            self._commit(at_once=True)
            self.unit.clear()
        except StoreUnavailable as error:
            raise Unavailable(str(error)) from error

    def prove_store(self, thoroughly: bool) -> None:  # noqa: FBT001 - the engine thread passes it on as it is
        """Write something, so that it is known that decisions can be kept; raises Unavailable."""
        try:
            self.store.prove_writable(_PROBE_BYTES if thoroughly else 0)
        except StoreUnavailable as error:
            raise Unavailable(str(error)) from error

    # Questions

    def plan(self, command: Submit) -> Plan:
        """Say what would happen to a lease submitted now; raises what `Submit` is answered with."""
        with self.committed_state():
            request = self.leases.would_be(command, self.now_ms)
            return plan_request(self.gateway, request, self.now_ms)

    def plan_coallocation(self, command: SubmitCoAllocation) -> CoAllocationPlan:
        """Say what would happen to a co-allocation submitted now; raises what `SubmitCoAllocation` is answered with."""
        with self.committed_state():
            request = self.coallocations.would_be(command, self.now_ms)
            return plan_coallocation(self.gateway, request, self.now_ms)

    @contextmanager
    def committed_state(self) -> Iterator[None]:
        """Look at what was written, all of it and nothing else."""
        if self._is_stale:
            self._load()
        if len(self.gateway.leases) > MAX_PLANNED:
            many = f"{len(self.gateway.leases)} leases are open"
            raise Unavailable(f"{many}: requests are planned up to {MAX_PLANNED}")
        with collecting_no_garbage():
            yield

    def prune(self, cutoffs: Cutoffs) -> Mapping[str, int]:
        """Delete some of what is older and of no more use; says how many rows went, by table.

        Use stays for as long as some agreement looks back.
        """
        sharing = self.gateway.quotas.sharing
        reach_ms = 0 if sharing is None else sharing.ledger.watched.reach_ms
        with self.store.writing() as batch:
            gone = batch.prune(cutoffs.not_after(usage_ms=self.now_ms - reach_ms))
        if "outputs" in gone:
            self.jobs.quota.recount()
        return gone

    def check(self) -> None:
        """Check every promise; raises InvariantBroken."""
        decisions, self._since_check = self._since_check, []
        try:
            self._invariants.check(decisions, self.now_ms)
        except InvariantBroken:
            self._telemetry.invariants(ok=False)
            raise
        self._telemetry.invariants(ok=True)


def _reply(answer: Callable[[], Answer]) -> Answer:
    """An answer, or why there is none; by now what it is about is written, whatever comes of it."""
    try:
        return answer()
    except StoreUnavailable as error:
        return Unavailable(str(error))
    except LeaseholdError as error:
        return error


# --- garbage -----------------------------------------------------------------------------------------------
#
# Python looks for cycles of references as soon as there are so many objects more than before. It does not look
# while a hundred thousand records take the place of others, which have no cycles; then a few more let everything
# wait until all of them have been looked through.

MAX_UNSEEN_RECORDS = 2_000
"""Records that may have taken the place of others unseen; of a node that is some 16 objects."""


@contextmanager
def collecting_no_garbage() -> Iterator[None]:
    """Make many records at once, without being looked through again and again meanwhile."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class ReplacedRecords:
    """Counts records that took the place of others, and looks through them before they are too many."""

    def __init__(self) -> None:
        self._unseen = 0

    def count(self, records: int) -> None:
        """Note that so many records are new."""
        self._unseen += records
        if self._unseen >= MAX_UNSEEN_RECORDS:
            self._unseen = 0
            gc.collect(1)
