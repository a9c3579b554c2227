"""What every part of the engine works with: the decision core in use, and what a step writes."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from leasehold.forecasting.replay import Recorder
from leasehold.gateway.gateway import Gateway, Told
from leasehold.jobs.job import JobReason
from leasehold.model.coallocation import CoAllocation
from leasehold.model.effect import Effect
from leasehold.model.event import Event, Operation
from leasehold.model.reason import Outcome, Reason
from leasehold.service.drivers.protocol import Verb
from leasehold.service.engine.journal import JournalWriter
from leasehold.service.engine.orders import Outbox
from leasehold.service.engine.timers import TimerQueue
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.metrics import Difference
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import JOURNAL, SNAPSHOTS, LeaseMetadata, SnapshotRow

EXPERIENCE = "experience"
DESK = "desk"
KNOWLEDGE = "gateway"
"""Names of snapshots."""

SNAPSHOT_LINES = 256
SNAPSHOT_MS = 10_000
"""What policies have learnt is written after so many lines of the journal, or so long after the last time."""


class DecisionCore:
    """Makes gateways; ``gateway`` decides until another is made, and is then of no use any more.

    ``silent``    own sites whose machines do not answer: nothing is started there
    ``recorder``  keeps everything that the gateway is told and answers; nearly always none
    """

    gateway: Gateway

    def __init__(self, make_gateway: Callable[[], Gateway]) -> None:
        self.make_gateway = make_gateway
        self.silent: set[str] = set()
        self.recorder: Recorder | None = None

    def handle(self, events: Sequence[Event], now_ms: int) -> list[Effect]:
        """Let the gateway decide about an instant."""
        effects = self.gateway.handle(events, now_ms)
        if self.recorder is not None:
            self.recorder.note(events, effects, now_ms)
        return effects

    def hear(self, told: Told) -> None:
        """Tell the gateway what is no event."""
        self.gateway.hear(told)
        if self.recorder is not None:
            self.recorder.hear(told)

    def begin(self) -> None:
        """Make a gateway that knows nothing yet."""
        self.gateway = self.make_gateway()

    def restore(self, snapshots: Mapping[str, str], drained: set[str], coallocations: Iterable[CoAllocation]) -> None:
        """Let a new gateway know what is in the store; the leases are still to be taken up."""
        gateway = self.gateway
        gateway.coallocations.restore(coallocations)
        if KNOWLEDGE in snapshots:
            gateway.knowledge.restore(json.loads(snapshots[KNOWLEDGE]))
        if DESK in snapshots:
            gateway.restore(json.loads(snapshots[DESK]))
        gateway.restore_overheads(json.loads(snapshots.get(EXPERIENCE, "{}")))
        gateway.registry.not_lending = drained

    def renew(self) -> None:
        """Make a gateway that knows what the one before it knew; the leases are still to be taken up."""
        before = self.gateway
        knowledge, overheads = before.knowledge.snapshot(), before.overheads_snapshot()
        self.gateway = gateway = self.make_gateway()
        gateway.coallocations.restore(before.coallocations.open.values())
        gateway.registry.not_lending = before.registry.not_lending
        gateway.peering.terms |= before.peering.terms
        for remote in before.registry.remotes.values():
            gateway.join(replace(remote, leases={}))
        gateway.restore(before.snapshot())
        gateway.knowledge.restore(knowledge)
        gateway.restore_overheads(overheads)

    def note_silence(self, now_ms: int) -> None:
        """Let a new gateway know which of its sites are silent."""
        for name in self.silent & self.gateway.sites.keys():
            self.gateway.fell_silent(name, now_ms)


class GatewaySnapshots:
    """Puts snapshots of the gateway into units of work.

    What policies have learnt is too large for every step. It is advice, and no promise depends on it: a process
    that is killed loses what was learnt since the last time.
    """

    def __init__(self, unit: UnitOfWork, core: DecisionCore, now_ms: int) -> None:
        self._unit = unit
        self._core = core
        self._lines = 0
        self._written_ms = now_ms

    def take(self, now_ms: int, *, has_measured: bool, at_once: bool = False) -> None:
        """Add what is due: of what policies have learnt with ``at_once`` whatever is new at all."""
        gateway, lines = self._core.gateway, len(self._unit.rows(JOURNAL))
        self._lines += lines
        if lines:
            self._put(DESK, gateway.snapshot())
        if has_measured:
            self._put(EXPERIENCE, gateway.overheads_snapshot())
        is_due = self._lines >= SNAPSHOT_LINES or now_ms - self._written_ms >= SNAPSHOT_MS
        if self._lines and (at_once or is_due):
            self._put(KNOWLEDGE, gateway.knowledge.snapshot())
            self._lines, self._written_ms = 0, now_ms

    def _put(self, name: str, snapshot: object) -> None:
        self._unit.put(SNAPSHOTS, SnapshotRow(name, json.dumps(snapshot)))


def last_written_ms(store: Reading) -> int:
    """When something was written last; no gateway goes back behind that."""
    return max((line.at_ms for line in store.journal(store.last_seq() - 1, 1)), default=0)


class Telemetry(Protocol):
    """Counts and times; `leasehold.service.metrics.Metrics` keeps count of it."""

    def accepted(self) -> None:
        """A request is in the store now."""

    def repeated(self) -> None:
        """A request was answered as before."""

    def batch(self, commands: int, decision_s: float, commit_s: float) -> None:
        """A step took so long."""

    def decided(self, outcome: Outcome, reason: Reason, site: str) -> None:
        """Something was decided about a lease."""

    def decided_about_job(self, reason: JobReason, site: str) -> None:
        """Something was decided about a job."""

    def held_to_agreement(self, outcome: Outcome, reason: Reason) -> None:
        """An agreement made a decision necessary."""

    def order_failed(self, site: str, verb: Verb) -> None:
        """A driver did not take an order on."""

    def took(self, site: str, operation: Operation, took_s: float) -> None:
        """An operation on machines took so long."""

    def difference(self, site: str, kind: Difference) -> None:
        """Observed and desired state differ."""

    def pruned(self, rows: Mapping[str, int]) -> None:
        """Rows were deleted, by table."""

    def invariants(self, ok: bool) -> None:  # noqa: FBT001 - the result of the check
        """The invariants were checked."""


@dataclass(frozen=True, slots=True)
class EngineContext:
    """What a part reads from, decides with, and writes to; all of it is made again where a step fails.

    ``metadata``  of all open leases, by number
    """

    store: Reading
    core: DecisionCore
    unit: UnitOfWork
    metadata: dict[int, LeaseMetadata]
    journal: JournalWriter
    outbox: Outbox
    timers: TimerQueue
    telemetry: Telemetry
