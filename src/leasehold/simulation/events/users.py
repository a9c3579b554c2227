"""Users who change their minds: they cancel requests, lose patience, and ask for more time; and guests that checkpoint.

What the users of a stream do is drawn for each of its jobs from random streams of their own, those of local jobs and of
guests apart, so that a run with guests and one without see the same local users.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from random import Random

from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway
from leasehold.model.effect import CoAllocationClosed, LeaseClosed, MigrateLease, PartLeased, ResumeLease, StartLease
from leasehold.model.event import CancelRequested, CoAllocationCancelled, Event, ExtendRequested, LeaseCheckpointed
from leasehold.model.lease import ON_THE_WAY, LeaseState
from leasehold.model.request import NEVER_MS, Request
from leasehold.simulation.scenario.events import StreamUsers, TimelineEntry
from leasehold.simulation.workload.job import NOT_CANCELLED, WorkloadJob
from leasehold.simulation.workload.streams import random_stream

GIVES_UP, CANCELS, EXTENDS, CHECKPOINTS, TOLD = "gives-up", "cancels", "extends", "checkpoints", "told"
"""What a user does: stops waiting, cancels whatever the state, asks for more time; a guest checkpoints; or what the
timeline says."""

_EXTENDS_AFTER = 0.9
"""Part of the requested time after which more is asked for."""

_COUNTED: Mapping[type, str] = {ExtendRequested: "extend", LeaseCheckpointed: "checkpoint"}

Subject = tuple[str, int]
"""What a user asked for, by its number: a "lease", or a "coallocation" with all of its components."""


class Users:
    """The users of all streams for which the scenario says something; ``counts`` says how often they did it."""

    def __init__(
        self,
        gateway: Gateway,
        by_stream: Mapping[str, StreamUsers],
        told: Iterable[TimelineEntry],
        seed: int,
    ) -> None:
        """Begin without jobs; ``told`` are entries of the timeline about single jobs."""
        self.counts = Counter[str]()
        self._gateway = gateway
        self._by_stream = by_stream
        self._seed = seed
        self._told = [entry for entry in told if entry.kind in ("cancel", "extend")]
        self._named = {(entry.stream, entry.job) for entry in self._told}
        self._subject_of: dict[tuple[str, str], Subject] = {}
        self._draws: dict[tuple[str, bool], Random] = {}
        self._due: list[tuple[int, int, str, Subject]] = []
        self._sequence = 0
        self._waiting: set[Subject] = set()
        self._will_extend: dict[int, int] = {}
        self._checkpoint_every_ms: dict[int, int] = {}
        self._checkpointing: set[int] = set()
        """Those with a next checkpoint: they have machines, or had some at the last one."""
        self._part_of: dict[int, int] = {}
        self._seen: set[int] = set()
        self._now_ms = 0
        for index, entry in enumerate(self._told):
            self._at(entry.at_ms, TOLD, ("entry", index))
        self.handlers: Mapping[type, Handler] = {
            PartLeased: self._leased,
            StartLease: self._started,
            ResumeLease: self._goes_on,
            MigrateLease: self._goes_on,
            LeaseClosed: self._closed,
            CoAllocationClosed: self._coallocation_closed,
        }

    is_busy = False

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Draw what becomes of a job, once for all components of a co-allocation."""
        users, is_named = self._by_stream.get(job.source), (job.source, job.source_id) in self._named
        is_logged = job.cancelled_after_ms != NOT_CANCELLED
        if users is None and not is_named and not is_logged:
            return
        coallocation_id = self._part_of.get(request.id)
        if coallocation_id is not None and coallocation_id in self._seen:
            return
        subject: Subject = ("lease", request.id) if coallocation_id is None else ("coallocation", coallocation_id)
        if coallocation_id is not None:
            self._seen.add(coallocation_id)
        if is_named:
            self._subject_of[job.source, job.source_id] = subject
        if is_logged:
            self._at(request.submit_ms + max(1, job.cancelled_after_ms), CANCELS, subject)
        if users is not None:
            self._draw(users, request, job, subject)

    def _draw(self, users: StreamUsers, request: Request, job: WorkloadJob, subject: Subject) -> None:
        key = (job.source, request.is_local)
        if key not in self._draws:
            self._draws[key] = random_stream(self._seed, job.source, "users", "local" if request.is_local else "guests")
        draws = self._draws[key]
        patience, cancels, when, extends = draws.expovariate(1.0), draws.random(), draws.random(), draws.random()
        if users.patience_ms is not None:
            self._waiting.add(subject)
            gives_up_ms = request.submit_ms + max(1, round(patience * users.patience_ms))
            self._at(max(gives_up_ms, request.ready_ms + 1), GIVES_UP, subject)
        if cancels < users.cancel_share:
            self._at(request.submit_ms + max(1, round(when * request.duration_ms)), CANCELS, subject)
        if extends < users.extend_share and subject[0] == "lease":
            self._will_extend[request.id] = max(1, round(users.extend_by * request.duration_ms))
        if users.checkpoint_every_ms is not None and not request.is_local:
            self._checkpoint_every_ms[request.id] = users.checkpoint_every_ms

    def next_ms(self, *, idle: bool) -> int:
        """When the next of them does something; no waiting lease can hope for a checkpoint."""
        if idle and self._checkpointing:
            return min((at_ms for at_ms, _, what, _ in self._due if what != CHECKPOINTS), default=NEVER_MS)
        return self._due[0][0] if self._due else NEVER_MS

    def events(self, now_ms: int) -> list[Event]:
        """Say what users do in this instant."""
        found: list[Event] = []
        while self._due and self._due[0][0] <= now_ms:
            self._now_ms, _, what, subject = heappop(self._due)
            event = self._event(what, subject)
            if event is not None:
                self.counts[_COUNTED.get(type(event), "cancel")] += 1
                found.append(event)
        return found

    def _event(self, what: str, subject: Subject) -> Event | None:
        by_ms = 0
        if what == TOLD:
            entry = self._told[subject[1]]
            known = self._subject_of.get((entry.stream, entry.job))
            if known is None:
                return None
            what, subject, by_ms = EXTENDS if entry.kind == "extend" else CANCELS, known, entry.by_ms or 0
        kind, number = subject
        if what == CHECKPOINTS:
            return self._checkpoint(number)
        is_open = number in (self._gateway.leases if kind == "lease" else self._gateway.coallocations.open)
        if not is_open or (what == GIVES_UP and subject not in self._waiting):
            return None
        if what == EXTENDS:
            return ExtendRequested(number, by_ms or self._will_extend[number]) if kind == "lease" else None
        return CancelRequested(number) if kind == "lease" else CoAllocationCancelled(number)

    def _checkpoint(self, lease_id: int) -> Event | None:
        lease = self._gateway.leases.get(lease_id)
        if lease is None:
            return None
        now_ms = self._now_ms
        if lease.state is not LeaseState.RUNNING and lease.state not in ON_THE_WAY:
            self._checkpointing.discard(lease_id)  # until it goes on
            return None
        self._at(now_ms + self._checkpoint_every_ms[lease_id], CHECKPOINTS, ("lease", lease_id))
        if lease.state is not LeaseState.RUNNING or lease.ran_ms(now_ms) == 0:
            return None
        return LeaseCheckpointed(lease_id, lease.incarnation, now_ms)

    def _at(self, at_ms: int, what: str, subject: Subject) -> None:
        self._sequence += 1
        heappush(self._due, (at_ms, self._sequence, what, subject))

    def _leased(self, effect: PartLeased, now_ms: int) -> None:  # noqa: ARG002 - one signature for all handlers
        self._part_of[effect.lease.id] = effect.coallocation.id

    def _started(self, effect: StartLease, now_ms: int) -> None:
        lease = effect.lease
        self._waiting.discard(("lease", lease.id))
        self._waiting.discard(("coallocation", self._part_of.get(lease.id, 0)))
        self._goes_on(effect, now_ms)
        if lease.id in self._will_extend:
            planned_ms = self._gateway.sites[lease.site].allocations.wall_ms(lease.work_left)
            self._at(now_ms + max(1, round(_EXTENDS_AFTER * planned_ms)), EXTENDS, ("lease", lease.id))

    def _goes_on(self, effect: StartLease | ResumeLease | MigrateLease, now_ms: int) -> None:
        """Checkpoint from now on, for as long as it has machines."""
        lease = effect.lease
        every_ms = self._checkpoint_every_ms.get(lease.id)
        if every_ms is not None and lease.id not in self._checkpointing:
            self._checkpointing.add(lease.id)
            self._at(now_ms + lease.overhead_ms + every_ms, CHECKPOINTS, ("lease", lease.id))

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:  # noqa: ARG002 - as above
        self._waiting.discard(("lease", effect.lease.id))
        self._part_of.pop(effect.lease.id, None)
        self._checkpoint_every_ms.pop(effect.lease.id, None)
        self._checkpointing.discard(effect.lease.id)

    def _coallocation_closed(self, effect: CoAllocationClosed, now_ms: int) -> None:  # noqa: ARG002 - as above
        self._waiting.discard(("coallocation", effect.coallocation.id))
