"""What each command means: which events it is for the decision core, and how it is answered."""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.event import (
    CancelRequested,
    Event,
    ExtendRequested,
    LeaseFailed,
    LeaseNotStarted,
    SiteAnswered,
    SiteFellSilent,
    Submitted,
)
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome
from leasehold.model.request import Request, check_request
from leasehold.service.commands import (
    Cancel,
    CancelCoAllocation,
    CancelJob,
    Command,
    Drain,
    Extend,
    ForgetSite,
    Happened,
    KeepPeer,
    LiftPenalty,
    MachinesAnswer,
    MachinesSilent,
    Mail,
    NativeJobsSeen,
    Observed,
    RemovePeer,
    Submit,
    SubmitCoAllocation,
    SubmitJob,
    Surveyed,
    Told,
    Undrain,
)
from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.service.engine.agreements import AgreementBook
from leasehold.service.engine.answers import Answers
from leasehold.service.engine.coallocation_book import CoAllocationBook
from leasehold.service.engine.correspondence import Correspondence
from leasehold.service.engine.jobbook import JobBook
from leasehold.service.engine.native_jobs import NativeJobs
from leasehold.service.engine.observing import Comparison, confirm, news
from leasehold.service.engine.outbox import DROPPED, PENDING
from leasehold.service.engine.peerbook import PeerBook
from leasehold.service.engine.recording import remembered_abouts
from leasehold.service.engine.sitebook import SiteBook
from leasehold.service.errors import (
    CannotExtend,
    CannotForget,
    CannotRemovePeer,
    Closed,
    IdempotencyConflict,
    NoSuchAgreement,
    NoSuchCoAllocation,
    NoSuchJob,
    NoSuchLease,
    NoSuchPeer,
    NoSuchPenalty,
    NoSuchSite,
    TooManyOpen,
)
from leasehold.service.metrics import Difference
from leasehold.service.store.rows import LeaseRow, OrderRow

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine

_CANNOT_BE_OBEYED = (
    *(InvalidField, IdempotencyConflict, TooManyOpen),
    *(NoSuchLease, NoSuchSite, NoSuchPeer, CannotForget, CannotRemovePeer),
    *(NoSuchAgreement, NoSuchPenalty, NoSuchCoAllocation, NoSuchJob),
)

Answer = Callable[[], Any]


@dataclass(slots=True)
class Read:
    """A command as it was understood.

    ``terms``   what is agreed from now on: it holds for all that happens at this instant
    ``news``    events about machines, which come before whatever is due at this instant
    ``asked``   events that somebody asks for, which come after it
    ``answer``  what to answer once everything is written
    """

    terms: list[Event] = field(default_factory=list)
    news: list[Event] = field(default_factory=list)
    asked: list[Event] = field(default_factory=list)
    answer: Answer = lambda: None


class Handlers:
    """Reads the commands of a step, or has the book of their noun read them; `answers` are to be written."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self.sites = SiteBook(engine)
        self.answers = Answers(engine.store)
        self._accepted = self._repeated = 0
        self.peers = PeerBook(engine)
        self.agreements = AgreementBook(engine)
        self.coallocations = CoAllocationBook(engine)
        self.jobs = JobBook(engine)
        self.correspondence = Correspondence(
            engine, remembered_abouts(engine.store), lambda submit, now_ms: self._submit(submit, now_ms).asked
        )
        self._native_jobs = NativeJobs(engine)
        self._comparisons = {
            name: Comparison(name, engine.outbox, self._differing(name), self._is_recorded, engine.is_native_job)
            for name in engine.gateway.sites
        }
        self._read: dict[type, Callable[[Any, int], Read]] = {
            Submit: self._submit,
            SubmitCoAllocation: self._submit_coallocation,
            CancelCoAllocation: self._cancel_coallocation,
            SubmitJob: self._submit_job,
            **dict.fromkeys(self.jobs.moves, self._about_jobs),
            CancelJob: self._cancel_job,
            Cancel: self._cancel,
            Extend: self._extend,
            Drain: _asking(self.sites.drain),
            Undrain: _asking(self.sites.undrain),
            ForgetSite: _asking(self.sites.forget),
            KeepPeer: _asking(self.peers.keep),
            RemovePeer: _asking(self.peers.remove),
            **dict.fromkeys(self.agreements.moves, self._about_agreement),
            LiftPenalty: self._lift_penalty,
            Observed: self._observed,
            Surveyed: self._surveyed,
            NativeJobsSeen: self._native_jobs_seen,
            Told: self._told,
            MachinesSilent: self._machines_silent,
            MachinesAnswer: self._machines_answer,
            Mail: self._mail,
            Happened: lambda command, _now_ms: Read(news=[command.event]),
        }

    def begin(self, commands: Iterable[Command]) -> None:
        """Look up, all at once, what was answered before under the keys of these commands."""
        self._engine.minutes.extensions.clear()
        self.answers.begin(commands)

    def read(self, command: Command, now_ms: int) -> Read:
        """Understand a command; what cannot be obeyed is answered with its exception."""
        try:
            return self._read[type(command)](command, now_ms)
        except _CANNOT_BE_OBEYED as error:
            return Read(answer=_constantly(error))

    # What is written and told besides the leases

    def tell(self) -> None:
        """Count what has become of requests, once it is written."""
        teller = self._engine.teller
        for _ in range(self._accepted):
            teller.accepted()
        for _ in range(self._repeated):
            teller.repeated()
        self._accepted = self._repeated = 0
        self.answers.saved()
        self.jobs.saved()
        self.sites.saved()
        self.peers.saved()
        self.agreements.saved()
        self.coallocations.saved()
        self.correspondence.has_new_abouts = False

    def forget(self, lease: Lease) -> None:
        """A lease is over, and that is written."""
        about = self._engine.about.pop(lease.id, None)
        if about is not None and about.origin:
            self.correspondence.over(about.origin, about.origin_id)
            return  # it never counted among its consumer's own
        if about is not None and (about.native_job or about.job_id is not None):
            return  # of a job it is the job that counts
        left = self._engine.open_of.get(lease.request.consumer, 0) - 1
        if left > 0:
            self._engine.open_of[lease.request.consumer] = left
        else:
            self._engine.open_of.pop(lease.request.consumer, None)

    # Requests

    def _submit(self, command: Submit, now_ms: int) -> Read:
        before = self.answers.find(command)
        if before is not None:
            return self._repeat(lambda: self._row(before))
        request = self.would_be(command, now_ms)
        engine = self._engine
        engine.last_lease_id = request.id
        metadata = engine.about[request.id] = copy(command.metadata)
        if metadata.origin:
            self.correspondence.took_in(request.id, command)
        elif not metadata.native_job:
            engine.open_of[command.consumer] = engine.open_of.get(command.consumer, 0) + 1
        engine.minutes.submitted(request, now_ms)
        self._accepted += 1
        self.answers.keep(command, request.id, now_ms)
        return Read(asked=[Submitted(request)], answer=lambda: (self._row(request.id), True))

    def _submit_coallocation(self, command: SubmitCoAllocation, now_ms: int) -> Read:
        before = self.answers.find(command)
        if before is not None:
            return self._repeat(lambda: self.coallocations.row_with(before))
        events, request = self.coallocations.submit(command, now_ms)
        self._accepted += 1
        self.answers.keep(command, request.first_lease_id, now_ms)
        return Read(asked=events, answer=lambda: (self.coallocations.row(request.id), True))

    def _cancel_coallocation(self, command: CancelCoAllocation, now_ms: int) -> Read:
        events = self.coallocations.cancel(command, now_ms)
        return Read(asked=events, answer=lambda: self.coallocations.row(command.coallocation_id))

    def _request(self, command: Submit, now_ms: int) -> Request:
        asked = command.request
        if asked.site is not None and asked.site not in self._engine.gateway.sites:
            raise UnknownName("site", asked.site, self._engine.gateway.sites)
        self.agreements.check_domain(asked.domain)
        if not command.metadata.native_job:
            self._check_memory(asked, now_ms)
        number, ready_ms = self._engine.last_lease_id + 1, max(now_ms, asked.ready_ms)
        return check_request(replace(asked, id=number, submit_ms=now_ms, ready_ms=ready_ms))

    def would_be(self, command: Submit, now_ms: int) -> Request:
        """Give the request that a command would make now; raises what the command would be answered with."""
        if not (command.metadata.origin or command.metadata.native_job):
            self._check_limit(command.consumer)
        return self._request(command, now_ms)

    def _check_memory(self, asked: Request, now_ms: int) -> None:
        """Refuse VMs that are larger than every node there is; where not all nodes are known, one may be."""
        gateway = self._engine.gateway
        sites = gateway.sites.keys() | gateway.registry.remotes.keys() if asked.site is None else {asked.site}
        largest = self.jobs.nodes.too_small(asked.memory_mib, sites, now_ms)
        if largest is not None:
            expected = f"at most {largest.memory_mib}: no node is larger than {largest.name}"
            raise InvalidField("memory_mib", asked.memory_mib, expected)

    def _check_limit(self, consumer: str) -> None:
        most = self._engine.most_open
        if most is not None and self._engine.open_of.get(consumer, 0) >= most:
            raise TooManyOpen(consumer, most)

    def _repeat(self, row: Answer) -> Read:
        self._repeated += 1
        return Read(answer=lambda: (row(), False))

    def _row(self, lease_id: int) -> LeaseRow:
        """A lease as it is, open or over."""
        row = self._engine.row(lease_id) or self._engine.store.lease(lease_id)
        if row is None:
            raise NoSuchLease(lease_id)
        return row

    # Leases

    def _cancel(self, command: Cancel, now_ms: int) -> Read:  # noqa: ARG002 - all commands are read alike
        self._row(command.lease_id)
        return Read(asked=[CancelRequested(command.lease_id)], answer=lambda: self._row(command.lease_id))

    def _extend(self, command: Extend, now_ms: int) -> Read:  # noqa: ARG002 - all commands are read alike
        if command.by_ms < 1:
            raise InvalidField("by_ms", command.by_ms, "a whole number of at least 1")
        row = self._row(command.lease_id)
        if command.lease_id not in self._engine.gateway.leases:
            return Read(answer=_constantly(Closed(command.lease_id, row.lease.state)))

        def answer() -> LeaseRow | CannotExtend | Closed:
            decisions = self._engine.minutes.extensions.get(command.lease_id)
            if not decisions:
                return Closed(command.lease_id, self._row(command.lease_id).lease.state)
            decision = decisions.pop(0)  # each answer takes its own: answers come in the order of requests
            if decision.outcome is Outcome.DENY:
                return CannotExtend(command.lease_id, decision.reason)
            return self._row(command.lease_id)

        return Read(asked=[ExtendRequested(command.lease_id, command.by_ms)], answer=answer)

    # Jobs

    def _submit_job(self, command: SubmitJob, now_ms: int) -> Read:
        before = self.answers.find(command)
        if before is not None:
            return self._repeat(lambda: self.jobs.kept.row(before))
        request = self.jobs.submit(command, now_ms)
        self._accepted += 1
        self.answers.keep(command, request.id, now_ms)
        return Read(answer=lambda: (self.jobs.kept.row(request.id), True))

    def _cancel_job(self, command: CancelJob, now_ms: int) -> Read:
        self.jobs.tell(command, now_ms)
        return Read(answer=lambda: self.jobs.kept.row(command.job_id))

    def _about_jobs(self, command: Command, now_ms: int) -> Read:
        self.jobs.tell(command, now_ms)
        return Read()

    # Agreements

    def _about_agreement(self, command: Command, now_ms: int) -> Read:
        events, record = self.agreements.moves[type(command)](command, now_ms)
        return Read(terms=events, answer=_constantly(record))

    def _lift_penalty(self, command: LiftPenalty, now_ms: int) -> Read:
        events, row = self.agreements.penalties.lift(command, now_ms)
        return Read(asked=events, answer=_constantly(row))

    # Machines

    def _observed(self, command: Observed, now_ms: int) -> Read:
        events: list[Event] = []
        for seen in command.observations:
            events += confirm(self._engine.outbox, command.site, seen)
            self.jobs.saw(command.site, seen, now_ms)
            lease = self._engine.gateway.leases.get(seen.lease_id)
            if lease is not None and lease.site == command.site:
                events += news(lease, seen, self.not_started)
                if seen.phase in {Phase.FAILED, Phase.ENDED} and seen.detail:
                    self._engine.minutes.causes[lease.id] = seen.detail
        return Read(news=events)

    def _surveyed(self, command: Surveyed, now_ms: int) -> Read:
        read = self._observed(Observed(command.site, command.observations), now_ms)
        # No number is given out again that machines still know, whatever has become of the store.
        there = (seen.lease_id for seen in command.observations)
        self._engine.last_lease_id = max(self._engine.last_lease_id, *there, 0)
        comparison = self._comparisons[command.site]
        leases = self._engine.gateway.leases
        read.news += comparison.compare(leases, command.observations, command.asked_ms, now_ms)
        return read

    def _machines_silent(self, command: MachinesSilent, now_ms: int) -> Read:
        minutes = self._engine.minutes
        for lease in self._engine.gateway.sites[command.site].allocations.held.values():
            if lease.state is LeaseState.STARTING:
                minutes.causes[lease.id] = f"the machines of {command.site} do not answer: {command.problem}"
        self._engine.silent.add(command.site)
        minutes.line_about_site(command.site, "unreachable", now_ms, problem=command.problem)
        return Read(news=[SiteFellSilent(command.site)])

    def _machines_answer(self, command: MachinesAnswer, now_ms: int) -> Read:
        self._engine.silent.discard(command.site)
        self._engine.minutes.line_about_site(command.site, "reachable", now_ms)
        return Read(news=[SiteAnswered(command.site)])

    def _native_jobs_seen(self, command: NativeJobsSeen, now_ms: int) -> Read:
        news = self._native_jobs.news(command)
        read = Read(news=news, answer=lambda: self._native_jobs.with_room(command.site))
        fresh: dict[str, int] = {}
        for submit in self._native_jobs.arrivals(command):
            read.asked += self._submit(submit, now_ms).asked
            fresh[submit.metadata.native_job] = self._engine.last_lease_id
        read.asked += self._native_jobs.followed(command, fresh)
        return read

    def _mail(self, command: Mail, now_ms: int) -> Read:
        news_of_leases, asked = self.correspondence.read(command, now_ms)
        return Read(news=news_of_leases, asked=asked)

    def _told(self, command: Told, now_ms: int) -> Read:
        read = Read()
        for order in command.orders:
            row = self._engine.outbox.find(int(order.partition(".")[0]), order)
            if row is None or row.status != PENDING:
                continue
            problem = command.problems.get(order)
            if problem is None:
                self._engine.outbox.taken(row, now_ms)
                continue
            if problem.nodes and row.order.verb == Verb.START and self.jobs.hearing.sent_back(row, problem):
                self._engine.outbox.close(row, DROPPED)
                continue
            self._engine.teller.order_failed(command.site, Verb(row.order.verb))
            is_first = row.attempts == 0
            is_told_again = self._engine.outbox.failed(row, problem, now_ms, answered=command.answered)
            if command.answered and (is_first or not is_told_again):
                self._engine.minutes.failing.append(row)
            if not is_told_again:
                self._engine.minutes.causes[row.order.lease_id] = problem.text
                self.jobs.hearing.refused(row.order.lease_id, problem)
                read.news.append(self._given_up(row))
        return read

    def _given_up(self, row: OrderRow) -> Event:
        """Say what it means that an order is not told any more."""
        lease = self._engine.gateway.leases.get(row.order.lease_id)
        # Who gave way before its machines were seen is to be saved, if there is anything.
        unseen = (LeaseState.STARTING, LeaseState.SUSPENDING)
        is_start = row.order.verb == Verb.START and lease is not None and lease.state in unseen
        if lease is not None and is_start and lease.incarnation == row.order.incarnation:
            return self.not_started(lease)
        return LeaseFailed(row.order.lease_id, row.order.incarnation)

    def not_started(self, lease: Lease) -> LeaseNotStarted:
        """Say that the machines of a lease did not start; the attempt of a job is bound to its nodes."""
        elsewhere = self._engine.about[lease.id].job_id is None
        return LeaseNotStarted(lease.id, lease.incarnation, elsewhere)

    def _is_recorded(self, lease_id: int) -> bool:
        return self._engine.store.lease(lease_id) is not None

    def _differing(self, site: str) -> Callable[[str], None]:
        return lambda kind: self._engine.teller.difference(site, Difference(kind))


def _asking(read: Callable[[Any, int], list[Event]]) -> Callable[[Any, int], Read]:
    """Read a command that is answered with nothing but that it was obeyed."""
    return lambda command, now_ms: Read(asked=read(command, now_ms))


def _constantly(value: object) -> Answer:
    return lambda: value
