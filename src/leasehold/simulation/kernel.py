"""The simulated world: jobs come to a `World`, and things happen that neither they nor the gateway bring about.

All events of an instant are handed over together, in the order (news of leases, events of sources, then
arrivals in the order of their streams), before anything is decided.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop
from itertools import count
from typing import Protocol

from leasehold.forecasting.world import Handler, World
from leasehold.gateway.gateway import Gateway
from leasehold.gateway.invariants import Invariants
from leasehold.model.effect import CoAllocationClosed, PartLeased
from leasehold.model.event import CoAllocationSubmitted, Event, Submitted
from leasehold.model.request import NEVER_MS, Request, check_request
from leasehold.simulation.workload.combine import coallocation_request, component_of
from leasehold.simulation.workload.job import WorkloadJob, job_of

NO_JOB: tuple[int, WorkloadJob | None] = (0, None)


@dataclass(frozen=True, slots=True)
class Requested:
    """A source asks for a lease; ``job`` says what it really needs."""

    request: Request
    job: WorkloadJob


class Observer(Protocol):
    """Records effects; ``handlers`` is as of a `Follower`."""

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


class SimulatedWorld(World):
    """A world to which streams of jobs come, and events of other sources."""

    def __init__(
        self,
        gateway: Gateway,
        jobs: Iterator[tuple[int, WorkloadJob]],
        observer: Observer,
        invariants: Invariants | None = None,
        sources: Sequence[EventSource] = (),
        *,
        may_extend: bool = False,
    ) -> None:
        """Take over a gateway; ``jobs`` are numbered, and ``invariants`` are checked after every instant.

        Events of ``sources`` come after news of leases and before arrivals. Leases may be extended where there are
        sources, and with ``may_extend``.
        """
        self._jobs = jobs
        self._observers = (observer, *sources)
        self._sources = sources
        self._coallocation_ids = count(1)
        self._split: dict[int, WorkloadJob] = {}
        carried_out: dict[type, Handler] = {
            PartLeased: self._take_in_part,
            CoAllocationClosed: self._close_coallocation,
        }
        super().__init__(gateway, self._observers, invariants, carried_out, may_extend=may_extend or bool(sources))

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
            cores=job.cores,
            gpu_model=job.gpu_model,
            gpu_milli=job.gpu_milli,
            image=job.image,
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

    def _close_coallocation(self, effect: CoAllocationClosed, now_ms: int) -> None:  # noqa: ARG002 - all are carried out alike
        self._split.pop(effect.coallocation.id, None)
