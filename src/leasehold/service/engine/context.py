"""What every part of the engine works with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from leasehold.jobs.job import JobReason
from leasehold.model.event import Operation
from leasehold.model.reason import Outcome, Reason
from leasehold.service.drivers.protocol import Verb
from leasehold.service.engine.core import DecisionCore
from leasehold.service.engine.journal import JournalWriter
from leasehold.service.engine.orders import Outbox
from leasehold.service.engine.timers import TimerQueue
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.metrics import Difference
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import LeaseMetadata


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
