"""The journal: lines about leases, sites and jobs, each with the next number."""

import json
from collections.abc import Mapping

from leasehold.jobs.job import JobReason, JobRecord
from leasehold.model.lease import Lease
from leasehold.model.request import Request
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.store.rows import JOURNAL, JournalRow, LeaseMetadata

JOB = "job"
"""The action of a line that is about a job, and not about a lease of it."""

Detail = Mapping[str, object]


class JournalWriter:
    """Writes lines; ``last_seq`` is the number of the last one.

    ``metadata``  of all open leases, by number
    """

    def __init__(self, unit: UnitOfWork, metadata: Mapping[int, LeaseMetadata], last_seq: int) -> None:
        self.last_seq = last_seq
        self._unit = unit
        self._metadata = metadata

    def submitted(self, request: Request, now_ms: int) -> None:
        """Write that a request came."""
        lease = Lease(request.id, request, request.vms, 0, 0, site=request.site or "")
        self.lease(lease, "submitted", now_ms)

    def lease(  # noqa: PLR0913 - a line has that many columns
        self,
        lease: Lease,
        what: str,
        now_ms: int,
        detail: Detail | None = None,
        *,
        site: str = "",
        rule: str = "",
        state: str = "",
        has_reason: bool = True,
        metadata: LeaseMetadata | None = None,
    ) -> None:
        """Write a line about a lease, with its last reason.

        ``state``       where it is another than that of the lease, which may have moved on since
        ``has_reason``  False for what follows from a decision, and has no reason of its own
        ``metadata``    of a lease that is over
        """
        metadata, request = metadata or self._metadata[lease.id], lease.request
        self._write(
            what,
            now_ms,
            detail,
            site=site or lease.site,
            consumer=request.consumer,
            group=request.group,
            state=state or lease.state.value,
            reason=metadata.reason if has_reason else "",
            rule=rule,
            lease_id=lease.id,
            job_id=metadata.job_id,
        )

    def site(self, site: str, what: str, now_ms: int, **detail: object) -> None:
        """Write a line about a site."""
        self._write(what, now_ms, detail, site=site)

    def job(self, job: JobRecord, reason: JobReason, now_ms: int, site: str, detail: Detail) -> None:
        """Write a line about a job, whose reason says with `leasehold.jobs.job` how it stands."""
        self._write(
            JOB,
            now_ms,
            detail,
            site=site,
            consumer=job.request.consumer,
            group=job.request.group,
            state=job.state.value,
            reason=reason.value,
            job_id=job.id,
        )

    def _write(  # noqa: PLR0913 - as above
        self,
        what: str,
        now_ms: int,
        detail: Detail | None,
        *,
        site: str,
        consumer: str = "",
        group: str = "",
        state: str = "",
        reason: str = "",
        rule: str = "",
        lease_id: int | None = None,
        job_id: int | None = None,
    ) -> None:
        self.last_seq += 1
        row = JournalRow(
            seq=self.last_seq,
            at_ms=now_ms,
            lease_id=lease_id,
            consumer=consumer,
            group=group,
            site=site,
            what=what,
            state=state,
            reason=reason,
            rule=rule,
            detail=json.dumps(detail) if detail else "{}",
            job_id=job_id,
        )
        self._unit.add(JOURNAL, row)
