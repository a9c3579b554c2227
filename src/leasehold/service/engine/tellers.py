"""To whom the engine tells how it is doing."""

from collections.abc import Mapping
from typing import Protocol

from leasehold.jobs.job import JobReason
from leasehold.model.event import Operation
from leasehold.model.reason import Outcome, Reason
from leasehold.service.drivers.protocol import Verb
from leasehold.service.metrics import Difference


class Teller(Protocol):
    """What the engine tells; `leasehold.service.metrics.Metrics` keeps count of it."""

    def accepted(self) -> None:
        """Be told of a request that is in the store now."""

    def repeated(self) -> None:
        """Be told of one that was answered as before."""

    def batch(self, commands: int, decision_s: float, commit_s: float) -> None:
        """Be told how long a step took."""

    def decided(self, outcome: Outcome, reason: Reason, site: str) -> None:
        """Be told of a decision."""

    def decided_about_job(self, reason: JobReason, site: str) -> None:
        """Be told of a decision about a job."""

    def held_to_agreement(self, outcome: Outcome, reason: Reason) -> None:
        """Be told of a decision that an agreement made necessary."""

    def order_failed(self, site: str, verb: Verb) -> None:
        """Be told of an order that was not taken on."""

    def took(self, site: str, operation: Operation, took_s: float) -> None:
        """Be told how long an operation on machines took."""

    def difference(self, site: str, kind: Difference) -> None:
        """Be told of something that is not as it should be."""

    def pruned(self, rows: Mapping[str, int]) -> None:
        """Be told of rows that the store let go of, by table."""

    def invariants(self, ok: bool) -> None:  # noqa: FBT001 - the result of the check
        """Be told of a check."""
