"""The engine: commands in, decisions by the core, everything into the store in one transaction, answers out.

It is used by one thread. All commands that have gathered meanwhile are decided and written together, so that
many share the price of one transaction, and nobody is answered before that is done.

Alarms are handled at the time for which they were set, however late the engine gets to them: the decision
core never sees that a clock was late. Only when they are very late (`PATIENCE_MS`: the machine slept, or
nobody was running) are the plans made anew from now on.

The store is the truth. Whenever a step fails, what it did in memory is thrown away and read again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import structlog

from leasehold.gateway.explaining import CoAllocationExplanation, Explanation, explain_coallocation, explain_request
from leasehold.gateway.gateway import Gateway
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.restart import take_up
from leasehold.model.effect import Effect
from leasehold.model.errors import InvariantBroken, LeaseholdError
from leasehold.model.event import Event, LeaseEnded, LeaseIsLate, Tick
from leasehold.model.lease import ON_THE_WAY, Lease, LeaseState
from leasehold.service.commands import Command, JobNodesSeen, Submit, SubmitCoAllocation
from leasehold.service.engine.agenda import (
    START_WITHIN_MS,
    Agenda,
    AgreementsEnd,
    Appointment,
    JobsDue,
    StartOverdue,
    TimeIsUp,
)
from leasehold.service.engine.errands import Errands
from leasehold.service.engine.garbage import Replacing, collecting_no_garbage
from leasehold.service.engine.handlers import Handlers
from leasehold.service.engine.job_setup import JobSetup
from leasehold.service.engine.minutes import Minutes
from leasehold.service.engine.observing import ended
from leasehold.service.engine.outbox import DROPPED, Outbox
from leasehold.service.engine.postbox import Postbox
from leasehold.service.engine.recording import Learning, last_written_ms, recall, write
from leasehold.service.engine.tellers import Teller
from leasehold.service.errors import Unavailable
from leasehold.service.store.errors import StoreUnavailable
from leasehold.service.store.retention import Cutoffs
from leasehold.service.store.rows import LeaseMetadata, LeaseRow, OrderRow
from leasehold.service.store.store import Store

PATIENCE_MS = 10_000
_ROOM_BYTES = 65_536
"""As much as a large step writes; a store that was full must have room for it before it is trusted again."""

MOST_EXPLAINED = 200_000
"""Open leases up to which it is said what would become of a request: all of them are looked at for that."""

Answer = Any
"""What a command is answered with, an exception included."""


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was written: its answers in the order of the commands, and the orders to be told now."""

    answers: list[Answer]
    orders: list[OrderRow]
    last_seq: int
    next_alarm_ms: int | None
    messages_to: Sequence[str] = ()
    errands: Errands = field(default_factory=Errands)


class Engine:
    """One gateway's decisions, and their record.

    ``most_open``  how many open requests a consumer may have at a time; None: any number
    ``start_within_ms``  for how long a guest's machines may be on their way before it is tried elsewhere
    ``silent``     own sites whose machines do not answer: nobody is sent there
    """

    def __init__(
        self,
        store: Store,
        make_gateway: Callable[[], Gateway],
        teller: Teller,
        now_ms: int,
        most_open: int | None = None,
        setup: JobSetup | None = None,
        *,
        start_within_ms: int = START_WITHIN_MS,
    ) -> None:
        """Go on from what is in the store; ``setup`` is about jobs. Raises what `Store` raises."""
        self.store = store
        self.setup = setup or JobSetup()
        self.most_open = most_open
        self._start_within_ms = start_within_ms
        self.teller = teller
        self.now_ms = max(now_ms, last_written_ms(store))  # a clock may have been set back meanwhile
        self._make_gateway = make_gateway
        self._is_stale = False
        self._have_ended: set[tuple[int, int]] = set()
        self.silent: set[str] = set()
        self._replacing = Replacing()
        self._load()

    def _load(self) -> None:
        """Read everything that is open, and forget what was not written."""
        with collecting_no_garbage():
            self._read(self.now_ms)
        self._is_stale = False

    def _read(self, now_ms: int) -> None:
        rows = self.store.live_leases()
        self.gateway = self._make_gateway()
        self.learning = Learning(now_ms)
        self.about: dict[int, LeaseMetadata] = {row.lease.id: row.metadata for row in rows}
        self.last_lease_id = self.store.highest_lease_id()
        self.agenda = Agenda(self._start_within_ms)
        self.outbox = Outbox(self.store.open_orders())
        self.minutes = Minutes(self.about, self.outbox, self.agenda, self.gateway.reference_mips, self.store.last_seq())
        self.open_of: dict[str, int] = {}
        for row in rows:
            metadata, consumer = row.metadata, row.lease.request.consumer
            if not (metadata.origin or metadata.native_job or metadata.job_id):
                self.open_of[consumer] = self.open_of.get(consumer, 0) + 1
        self.postbox = Postbox(self.store)
        self.handlers = Handlers(self)
        self.minutes.correspondence = self.handlers.correspondence
        self.minutes.agreements = self.handlers.agreements
        self.minutes.coallocations = self.handlers.coallocations
        self.last_lease_id = max(self.last_lease_id, self.handlers.coallocations.last_lease_id)
        self.gateway.coallocations.restore(self.handlers.coallocations.coallocations)
        recall(self.gateway, self.store)
        self._go_on([row.lease for row in rows], now_ms)

    def _go_on(self, leases: Sequence[Lease], now_ms: int) -> None:
        """Plan on with these leases."""
        for name in self.silent & self.gateway.sites.keys():
            self.gateway.fell_silent(name, now_ms)
        history = self.handlers.agreements.furnish(self.gateway, now_ms)
        take_up(self.gateway, leases, now_ms, history)
        self._invariants = Invariants(self.gateway)
        self._since_check = list(self.minutes.decisions)
        self._planned_ms = now_ms
        self._overdue: list[Appointment] = [Tick(""), AgreementsEnd(), JobsDue()]
        for lease in leases:
            if lease.held_since_ms >= 0 and lease.end_ms <= now_ms:
                self._overdue.append(TimeIsUp(lease.id, lease.incarnation))
            elif lease.held_since_ms >= 0:
                self.agenda.mind_end_of(lease, now_ms)
            if lease.state is LeaseState.STARTING:
                self.agenda.mind_start_of(lease, now_ms)

    def is_native_job(self, lease_id: int) -> bool:
        """Whether a lease stands for a job of the site's own scheduler: no machines are ours to order."""
        about = self.about.get(lease_id)
        return about is not None and bool(about.native_job)

    # A step

    def step(self, commands: Sequence[Command], now_ms: int) -> Done:
        """Decide about commands and whatever is due, write it, and answer.

        A command that cannot be obeyed has its exception for an answer. If a step fails as a whole, its
        commands are tried one by one, so that one that breaks something breaks nothing for the others.
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
            return Done([error], [], self.minutes.last_seq, now_ms)
        done = self._done(answers)
        self._replacing.replaced(sum(len(one.nodes) for one in commands if isinstance(one, JobNodesSeen)))
        return done

    def _one_by_one(self, commands: Sequence[Command]) -> Done:
        parts = [self.step([command], self.now_ms) for command in commands]
        return Done(
            [answer for part in parts for answer in part.answers],
            [row for part in parts for row in part.orders],
            parts[-1].last_seq,
            parts[-1].next_alarm_ms,
            [name for part in parts for name in part.messages_to],
            Errands.together(part.errands for part in parts),
        )

    def _step(self, commands: Sequence[Command], now_ms: int) -> list[Callable[[], Answer]]:
        began_s = perf_counter()
        self._rise(now_ms)
        self._have_ended = ended(commands)
        # What came due while nobody was there comes after what machines tell: they may have ended in time.
        # Both are decided at the time for which plans were made, however long ago: else what was planned
        # for one after the other would start at once.
        due, self._overdue = self._overdue, []
        now_ms = self._planned_ms if due else now_ms
        for at_ms, appointments in self.agenda.instants(now_ms):
            if at_ms < now_ms and not due:
                self._decide(self._events(appointments, at_ms), at_ms)
            else:
                due += appointments
        answers = self._obey(commands, due, now_ms)
        decided_s = perf_counter()
        write(self)
        self.teller.batch(len(commands), decided_s - began_s, perf_counter() - decided_s)
        return answers

    def _obey(self, commands: Sequence[Command], due: Sequence[Appointment], now_ms: int) -> list[Callable[[], Answer]]:
        """Decide about what is told now; news of machines come before what is due, requests after it."""
        self.handlers.begin(commands)
        read = [self.handlers.read(command, now_ms) for command in commands]
        terms = [event for part in read for event in part.terms]
        news = [event for part in read for event in part.news]
        asked = [event for part in read for event in part.asked]
        self._decide([*terms, *news, *self._events(due, now_ms), *asked], now_ms)
        return [part.answer for part in read]

    def _decide(self, events: Sequence[Event], now_ms: int) -> None:
        """Decide about an instant: the gateway first, then the desk of jobs, until both are content."""
        jobs = self.handlers.jobs
        while events or jobs.is_stirred:
            if events:
                jobs.follow(self._route(events, now_ms), self.gateway.moved.values(), now_ms)
            events = jobs.decide(now_ms)
        jobs.keep_up(now_ms)

    def _route(self, events: Sequence[Event], now_ms: int) -> Sequence[Effect]:
        effects = self.gateway.handle(events, now_ms)
        self.minutes.heard(events, effects, self.gateway.moved, now_ms)
        self.minutes.take_down(effects, self.gateway.moved, now_ms)
        self.handlers.coallocations.follow(self.gateway.coallocations.moved.values())
        return effects

    def _events(self, appointments: Sequence[Appointment], now_ms: int) -> list[Event]:
        """What appointments mean now: some leases have been extended, or have let go of their machines."""
        events: list[Event] = []
        for appointment in appointments:
            if isinstance(appointment, Tick):
                events.append(appointment)
                continue
            if isinstance(appointment, AgreementsEnd):
                events += self.handlers.agreements.expire(now_ms)
                continue
            if isinstance(appointment, JobsDue):
                self.handlers.jobs.due()
                continue
            lease = self.gateway.leases.get(appointment.lease_id)
            if lease is None or lease.incarnation != appointment.incarnation or lease.held_since_ms < 0:
                continue
            if isinstance(appointment, StartOverdue):
                events += self._overdue_start(lease)
            elif lease.end_ms <= now_ms:
                events.append(self._time_is_up(lease))
        return events

    def _overdue_start(self, lease: Lease) -> Sequence[Event]:
        """A guest was not seen to start for too long; what the machines last said of it is the cause."""
        if lease.state is not LeaseState.STARTING or self.is_native_job(lease.id):
            return ()
        problems = [row.problem for row in self.outbox.of(lease.id) if row.problem]
        waited = f"its machines were not seen to run within {self._start_within_ms / 1000:g} s"
        self.minutes.causes[lease.id] = "; ".join([waited, *problems[-1:]])
        return [self.handlers.not_started(lease)]

    def _time_is_up(self, lease: Lease) -> Event:
        """Its time is over: of who has its machines, that is its end; others are still waited for."""
        if lease.state in ON_THE_WAY:
            return LeaseIsLate(lease.id, lease.incarnation)
        return LeaseEnded(lease.id, lease.incarnation, killed=self._is_cut_off(lease))

    def _is_cut_off(self, lease: Lease) -> bool:
        """Whether a lease whose time is up is unfinished; the news that it is not may be as late as we are.

        Machines without a command have served their time; a command that still runs is cut off.
        """
        return bool(self.about[lease.id].command) and (lease.id, lease.incarnation) not in self._have_ended

    def _rise(self, now_ms: int) -> None:
        """After a long sleep, plan anew from now on."""
        next_ms = self.agenda.next_ms()
        if next_ms is not None and next_ms < now_ms - PATIENCE_MS:
            for _ in self.agenda.instants(now_ms):
                pass
            self._begin_anew(now_ms)

    def _begin_anew(self, now_ms: int) -> None:
        """Make a new gateway, which knows what the one before it knew, and plan its leases again."""
        leases = list(self.gateway.leases.values())
        memory, experience = self.gateway.knowledge.snapshot(), self.gateway.overheads_snapshot()
        before = self.gateway
        self.gateway = self._make_gateway()
        self.gateway.coallocations.restore(before.coallocations.open.values())
        self.gateway.registry.not_lending = before.registry.not_lending
        self.gateway.peering.terms |= before.peering.terms
        for remote in before.registry.remotes.values():
            self.gateway.join(replace(remote, leases={}))
        self.gateway.restore(before.snapshot())
        self.gateway.knowledge.restore(memory)
        self.gateway.restore_overheads(experience)
        self._go_on(leases, now_ms)

    def reconfigure(self, make_gateway: Callable[[], Gateway], most_open: int | None) -> None:
        """Go on with gateways that are made otherwise; the next step decides what follows from that.

        Raises whatever making one raises, and goes on as before.
        """
        if self._is_stale:
            self._load()
        make_gateway()  # it may be refused, before anything is changed
        before, self._make_gateway = self._make_gateway, make_gateway
        try:
            self._begin_anew(self.now_ms)
        except Exception:
            self._make_gateway, self._is_stale = before, True
            raise
        self.most_open = most_open

    def _done(self, answers: Sequence[Callable[[], Answer]]) -> Done:
        """Everything is in the store: let go of it, and answer."""
        said = [_said(answer) for answer in answers]
        for decision in self.minutes.decisions:
            self.teller.decided(decision.outcome, decision.reason, decision.site)
            if decision.breach is not None:
                self.teller.held_to_agreement(decision.outcome, decision.reason)
        for reason, site in self.minutes.about_jobs:
            self.teller.decided_about_job(reason, site)
        for measured in self.minutes.measured:
            self.teller.took(measured.site, measured.operation, measured.took_ms / 1000)
        for row in self.minutes.failing:
            _log_failure(row)
        self._since_check += self.minutes.decisions
        self.handlers.tell()
        for lease in self.minutes.leases.values():
            if lease.state.is_final:
                self.handlers.forget(lease)
        self.minutes.written()
        self.outbox.written()
        messages_to = self.postbox.saved()
        orders = self.outbox.take_outgoing()
        errands = self.handlers.jobs.take_errands()
        return Done(said, orders, self.minutes.last_seq, self.agenda.next_ms(), messages_to, errands)

    def finish(self) -> None:
        """Write what was learnt since the last snapshot, all that is unwritten; raises Unavailable."""
        if self._is_stale:
            return  # what is in memory is not what is in the store
        try:
            write(self, all_learning=True)
        except StoreUnavailable as error:
            raise Unavailable(str(error)) from error

    def prove_store(self, thoroughly: bool) -> None:  # noqa: FBT001 - the engine thread passes it on as it is
        """Write something, so that it is known that decisions can be kept; raises Unavailable."""
        try:
            self.store.prove_writable(_ROOM_BYTES if thoroughly else 0)
        except StoreUnavailable as error:
            raise Unavailable(str(error)) from error

    # Questions

    def row(self, lease_id: int) -> LeaseRow | None:
        """A lease as it is now; None where it was over before this step."""
        lease = self.minutes.leases.get(lease_id) or self.gateway.leases.get(lease_id)
        return None if lease is None else LeaseRow(copy(lease), copy(self.about[lease_id]))

    def explain(self, command: Submit) -> Explanation:
        """Say what would become of a lease that was asked for now; raises what `Submit` is answered with."""
        with self._untouched():
            request = self.handlers.would_be(command, self.now_ms)
            return explain_request(self.gateway, request, self.now_ms)

    def explain_coallocation(self, command: SubmitCoAllocation) -> CoAllocationExplanation:
        """Say what would become of a co-allocation; raises what `SubmitCoAllocation` is answered with."""
        with self._untouched():
            request = self.handlers.coallocations.would_be(command, self.now_ms)
            return explain_coallocation(self.gateway, request, self.now_ms)

    @contextmanager
    def _untouched(self) -> Iterator[None]:
        """Look at what was written, all of it and nothing else."""
        if self._is_stale:
            self._load()
        if len(self.gateway.leases) > MOST_EXPLAINED:
            many = f"{len(self.gateway.leases)} leases are open"
            raise Unavailable(f"{many}: what would become of a request is said up to {MOST_EXPLAINED}")
        with collecting_no_garbage():
            yield

    def prune(self, cutoffs: Cutoffs) -> Mapping[str, int]:
        """Let go of some of what is older and of no more use; says how many rows went, by table.

        Use stays for as long as some agreement looks back.
        """
        sharing = self.gateway.quotas.sharing
        reach_ms = 0 if sharing is None else sharing.ledger.watched.reach_ms
        with self.store.writing() as batch:
            gone = batch.prune(cutoffs.not_after(usage_ms=self.now_ms - reach_ms))
        if "outputs" in gone:
            self.handlers.jobs.kept.quota.recount()
        return gone

    def check(self) -> None:
        """Check every promise; raises InvariantBroken."""
        decisions, self._since_check = self._since_check, []
        try:
            self._invariants.check(decisions, self.now_ms)
        except InvariantBroken:
            self.teller.invariants(ok=False)
            raise
        self.teller.invariants(ok=True)


def _log_failure(row: OrderRow) -> None:
    """Write down that an order fails: the first time, and when it is given up, not each time between."""
    is_over = row.status == DROPPED
    structlog.get_logger("leasehold.orders").warning(
        "order given up" if is_over else "order failed, and is told again",
        site=row.site,
        order=row.order.verb,
        lease=row.order.lease_id,
        problem=row.problem,
    )


def _said(answer: Callable[[], Answer]) -> Answer:
    """An answer, or why there is none; by now what it is about is written, whatever comes of it."""
    try:
        return answer()
    except StoreUnavailable as error:
        return Unavailable(str(error))
    except LeaseholdError as error:
        return error
