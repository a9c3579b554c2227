"""The simulated world: it owns the clock and carries the gateway's effects out.

The gateway is the same object that a service would run. The world alone knows how long a job really
takes; the gateway learns it when the job ends.

All events of an instant are handed over together, in the order (news of leases, events of sources, then
arrivals in the order of their streams), before anything is decided.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol, get_args

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.invariants import Invariants
from leasehold.model.effect import (
    AlarmCalledOff,
    CoAllocationClosed,
    Decision,
    Effect,
    LeaseClosed,
    MigrateLease,
    PartLeased,
    ResumeLease,
    StartLease,
    SuspendLease,
    WakeAt,
)
from leasehold.model.event import (
    CoAllocationSubmitted,
    Event,
    LeaseContinues,
    LeaseEnded,
    LeaseSaved,
    LeaseStarted,
    Submitted,
    Tick,
)
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome
from leasehold.model.request import NEVER_MS, Request, check_request
from leasehold.simulation.workload.combine import coallocation_request, component_of
from leasehold.simulation.workload.job import WorkloadJob, job_of

_OUT_OF_DATE = -1
"""No start of a lease: an event about it is ignored."""
NO_JOB: tuple[int, WorkloadJob | None] = (0, None)


@dataclass(frozen=True, slots=True)
class Requested:
    """A source asks for a lease; ``job`` says what it really needs."""

    request: Request
    job: WorkloadJob


Handler = Callable[[Any, int], None]


class Observer(Protocol):
    """Records effects.

    ``handlers`` maps a kind of effect to its handler, called with the time; other kinds are ignored. That of
    `LeaseStarted` and `LeaseContinues` is called with the lease where machines were seen at a site that confirms it.
    """

    handlers: Mapping[type, Handler]

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """A job entered the world as a request."""


class EventSource(Protocol):
    """Events that neither the jobs nor the gateway bring about: failing nodes, and changes by owners and users.

    ``handlers`` is as of an `Observer`.
    """

    handlers: Mapping[type, Handler]

    @property
    def is_busy(self) -> bool:
        """Whether time has to pass for it, even where the gateway has no lease and no job is to come."""

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """A job entered the world as a request."""

    def next_ms(self, *, idle: bool) -> int:
        """When its next events are due, NEVER_MS if none are.

        ``idle``: nothing runs and no job is to come. Then only events count that waiting leases can hope for, and
        none that go on for ever.
        """

    def events(self, now_ms: int) -> Iterable[Event | Requested]:
        """Take the events of this instant; there may be none."""


class SimulatedWorld:
    """Jobs, a gateway, and a queue of what is going to happen."""

    def __init__(
        self,
        gateway: Gateway,
        jobs: Iterator[tuple[int, WorkloadJob]],
        observer: Observer,
        invariants: Invariants | None = None,
        sources: Sequence[EventSource] = (),
    ) -> None:
        """Take over a gateway; ``jobs`` are numbered, and ``invariants`` are checked after every instant.

        Events of ``sources`` come after news of leases and before arrivals.
        """
        self.gateway = gateway
        self.now_ms = 0
        self._jobs = jobs
        self._observers = (observer, *sources)
        self._sources = sources
        self._invariants = invariants
        self._event_queue: list[tuple[int, int, Event]] = []
        self._sequence = 0
        self._actual_work: dict[int, int] = {}
        self._coallocation_ids = count(1)
        self._split: dict[int, WorkloadJob] = {}
        self._confirms = any(site.settings.confirms_starts for site in gateway.sites.values())
        self._kills: dict[int, LeaseEnded] = {}
        self._called_off: set[int] = set()
        own: dict[type, Handler] = {
            PartLeased: self._take_in_part,
            CoAllocationClosed: self._close_coallocation,
            StartLease: self._start,
            ResumeLease: self._resume,
            MigrateLease: self._migrate,
            SuspendLease: self._suspend,
            LeaseClosed: self._close,
            WakeAt: self._wake,
            AlarmCalledOff: self._call_off,
        }
        if sources:
            own[Decision] = self._decided
        followers = (*(one.handlers for one in self._observers), own)
        self._handlers = {
            kind: tuple(one[kind] for one in followers if kind in one)
            for kind in (*get_args(Effect), LeaseStarted, LeaseContinues)
        }

    def run(self, until_ms: int = NEVER_MS) -> Iterator[int]:
        """Let time pass until nothing is left to happen, or past ``until_ms``; yields after each instant."""
        queue, jobs = self._event_queue, self._jobs
        number, job = next(jobs, NO_JOB)
        while job is not None or queue or (self._sources and self._goes_on()):
            if self._called_off and queue and self._is_called_off(*queue[0]):
                self._called_off.remove(heappop(queue)[0])
                continue
            now_ms = queue[0][0] if queue else NEVER_MS
            if job is not None and job.submit_ms < now_ms:
                now_ms = job.submit_ms
            if self._sources:
                idle = now_ms == NEVER_MS
                now_ms = min(now_ms, *(source.next_ms(idle=idle) for source in self._sources))
            if now_ms > until_ms or now_ms == NEVER_MS:
                return
            self.now_ms = now_ms
            self._called_off.discard(now_ms)
            events: list[Event] = []
            while queue and queue[0][0] == now_ms:
                events.append(heappop(queue)[2])
            if self._sources:
                events += self._from_sources(now_ms)
            while job is not None and job.submit_ms == now_ms:
                events.append(self.submission(number, job))
                number, job = next(jobs, NO_JOB)
            effects = self.gateway.handle(events, now_ms)
            if self._confirms:
                self._begin(events, now_ms)
            self._apply(effects, now_ms)
            yield now_ms

    def _from_sources(self, now_ms: int) -> Iterator[Event]:
        for source in self._sources:
            for event in source.events(now_ms):
                if isinstance(event, Requested):
                    self._take_in(event.request, event.job)
                    yield Submitted(event.request)
                else:
                    yield event

    def _goes_on(self) -> bool:
        return bool(self.gateway.leases) or any(source.is_busy for source in self._sources)

    # Instant by instant, for a world within another one

    @property
    def due_ms(self) -> int:
        """When something happens here next, of itself."""
        return self._event_queue[0][0] if self._event_queue else NEVER_MS

    def step(self, now_ms: int, events: list[Event]) -> None:
        """Let an instant pass in which these events come besides those that are due."""
        queue = self._event_queue
        self._called_off.discard(now_ms)
        due: list[Event] = []
        while queue and queue[0][0] <= now_ms:
            due.append(heappop(queue)[2])
        self._apply(self.gateway.handle([*due, *events], now_ms), now_ms)

    def expect(self, lease_id: int, actual_ms: int) -> None:
        """Know how long a request takes that comes from elsewhere."""
        self._actual_work[lease_id] = actual_ms * self.gateway.reference_mips

    def submission(self, number: int, job: WorkloadJob) -> Event:
        """Make the event that a job comes; the leases of a co-allocation are known once it was taken in."""
        if job.together is None:
            return Submitted(self._request(number, job))
        request = coallocation_request(job, job.together, next(self._coallocation_ids), number)
        self._split[request.id] = job
        return CoAllocationSubmitted(request)

    def _request(self, number: int, job: WorkloadJob) -> Request:
        request = Request(
            number,
            job.lease_type,
            job.vms,
            job.requested_ms,
            job.submit_ms,
            job.ready_ms,
            job.deadline_ms,
            job.site,
            job.consumer,
            job.memory_mib,
            group=job.group,
            domain=job.domain,
            claims=job.claims,
            wait=job.wait,
        )
        self._take_in(request, job)
        return check_request(request)

    def _take_in(self, request: Request, job: WorkloadJob) -> None:
        self._actual_work[request.id] = job.actual_ms * self.gateway.reference_mips
        for one in self._observers:
            one.submitted(request, job)

    def _take_in_part(self, effect: PartLeased, now_ms: int) -> None:  # noqa: ARG002 - all are carried out alike
        """A component of a co-allocation is a job; one that no stream brought needs what it asks for."""
        request, whole = effect.lease.request, self._split.get(effect.coallocation.id)
        self._take_in(request, job_of(request) if whole is None else component_of(whole, request.vms))

    def _apply(self, effects: list[Effect], now_ms: int) -> None:
        handlers = self._handlers
        for effect in effects:
            for handler in handlers[type(effect)]:
                handler(effect, now_ms)
        if self._invariants is not None:
            self._invariants.check(effects, now_ms)

    def _at(self, at_ms: int, event: Event) -> None:
        self._sequence += 1
        heappush(self._event_queue, (at_ms, self._sequence, event))

    def _start(self, effect: StartLease, now_ms: int) -> None:
        if not (self._confirms and self.gateway.sites[effect.lease.site].settings.confirms_starts):
            self._schedule_end(effect.lease, now_ms + effect.lease.overhead_ms)

    def _begin(self, events: Iterable[Event], now_ms: int) -> None:
        """Machines were seen where that is confirmed: the work of their leases goes on."""
        for event in events:
            if isinstance(event, LeaseStarted | LeaseContinues):
                lease = self.gateway.leases.get(event.lease_id)
                is_running = lease is not None and lease.state is LeaseState.RUNNING
                if lease is None or not is_running or lease.incarnation != event.incarnation:
                    continue
                if self.gateway.sites[lease.site].settings.confirms_starts:
                    self._schedule_end(lease, lease.held_since_ms + lease.overhead_ms)
                    for handler in self._handlers[type(event)]:
                        handler(lease, now_ms)

    def _resume(self, effect: ResumeLease, now_ms: int) -> None:
        self._continue_after(effect.lease, effect.resume_ms, now_ms)

    def _migrate(self, effect: MigrateLease, now_ms: int) -> None:
        self._continue_after(effect.lease, effect.transfer_ms, now_ms)

    def _continue_after(self, lease: Lease, overhead_ms: int, now_ms: int) -> None:
        self._at(now_ms + overhead_ms, LeaseContinues(lease.id, lease.incarnation))
        if not (self._confirms and self.gateway.sites[lease.site].settings.confirms_starts):
            self._schedule_end(lease, now_ms + overhead_ms)

    def _schedule_end(self, lease: Lease, start_ms: int) -> None:
        """The work ends when all of it is done, or when the requested time is over."""
        request = lease.request
        done = request.duration_ms * self.gateway.reference_mips - lease.work_left
        actual_left = self._actual_work[lease.id] - done
        killed = actual_left > lease.work_left
        span_ms = self.gateway.sites[lease.site].allocations.wall_ms(min(actual_left, lease.work_left))
        if self._confirms and lease.end_ms < start_ms + span_ms:
            span_ms, killed = lease.end_ms - start_ms, True  # the time of a guest whose machines were late was cut
        end = LeaseEnded(lease.id, lease.incarnation, killed)
        if killed and self._sources:
            self._kills[lease.id] = end
        self._at(start_ms + span_ms, end)

    def _decided(self, effect: Decision, now_ms: int) -> None:  # noqa: ARG002 - all are carried out alike
        """A lease that was to be ended at its requested time goes on, if it was extended."""
        kill = self._kills.pop(effect.lease.id, None) if effect.outcome is Outcome.EXTEND else None
        if kill is not None:
            kill.incarnation = _OUT_OF_DATE
            self._schedule_end(effect.lease, effect.lease.held_since_ms + effect.lease.overhead_ms)

    def _suspend(self, effect: SuspendLease, now_ms: int) -> None:
        lease = effect.lease
        self._at(now_ms + effect.save_ms, LeaseSaved(lease.id, lease.incarnation))

    def _close(self, effect: LeaseClosed, now_ms: int) -> None:  # noqa: ARG002 - all are carried out alike
        del self._actual_work[effect.lease.id]
        if self._kills:
            self._kills.pop(effect.lease.id, None)

    def _close_coallocation(self, effect: CoAllocationClosed, now_ms: int) -> None:  # noqa: ARG002 - all are carried out alike
        self._split.pop(effect.coallocation.id, None)

    def _wake(self, effect: WakeAt, now_ms: int) -> None:
        at_ms = max(effect.at_ms, now_ms + 1)
        if not effect.site and at_ms in self._called_off:
            self._called_off.remove(at_ms)  # it is still in the queue
        else:
            self._at(at_ms, Tick(effect.site))

    def _call_off(self, effect: AlarmCalledOff, now_ms: int) -> None:  # noqa: ARG002 - all are carried out alike
        self._called_off.add(effect.at_ms)

    def _is_called_off(self, at_ms: int, _sequence: int, event: Event) -> bool:
        return at_ms in self._called_off and type(event) is Tick and not event.site
