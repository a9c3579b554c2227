"""Between the jobs of `leasehold.jobs` and the rows of the store."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leasehold.jobs.job import (
    NOT_YET,
    Attempt,
    AttemptState,
    Backup,
    Fault,
    JobReason,
    JobRecord,
    JobRequest,
    JobState,
)
from leasehold.matching.needs import Job
from leasehold.model.request import LEASE_TYPES
from leasehold.service.engine.needs import needs_of, needs_text
from leasehold.service.engine.places import image_name, place_of, place_text
from leasehold.service.store.rows import AttemptRow, JobRow


@dataclass(frozen=True, slots=True)
class CameTo:
    """How the command of an attempt ended, while what it wrote is still to be fetched."""

    exit_status: int
    detail: str = ""


def row_of_job(record: JobRecord) -> JobRow:
    """Write a job down, without its attempts."""
    request, delivered = record.request, record.delivered
    return JobRow(
        id=record.id,
        name=request.name,
        consumer=request.consumer,
        group=request.group,
        state=record.state.value,
        reason=record.reason.value,
        what=record.what,
        submitted_ms=request.job.submitted_ms,
        deadline_ms=request.job.deadline_ms,
        ended_ms=_or_none(record.ended_ms),
        needs=needs_text(request.job.needs),
        command=request.command,
        lease_type=request.lease_type.label,
        backup=request.backup.value,
        reliability=request.reliability,
        surest=record.surest,
        restarts=request.restarts,
        is_foreign=request.is_foreign,
        restarts_used=record.restarts,
        next_ms=_or_none(record.next_ms),
        since_ms=_or_none(record.since_ms),
        standby="" if record.standby is None else place_text(record.standby),
        delivered=delivered,
        exit_status=record.attempt(delivered).exit_status if delivered else None,
    )


def row_of_attempt(job_id: int, attempt: Attempt, lease_id: int | None, came_to: CameTo | None) -> AttemptRow:
    """Write an attempt down."""
    ended = "" if came_to is None else json.dumps([came_to.exit_status, came_to.detail])
    return AttemptRow(
        job_id=job_id,
        number=attempt.number,
        lease_id=lease_id,
        site=attempt.site,
        nodes=attempt.nodes,
        image=image_name(attempt.place),
        is_backup=attempt.is_backup,
        state=attempt.state.value,
        fault="" if attempt.fault is None else attempt.fault.value,
        detail=attempt.detail,
        exit_status=attempt.exit_status,
        ordered_ms=attempt.ordered_ms,
        started_ms=_or_none(attempt.started_ms),
        ended_ms=_or_none(attempt.ended_ms),
        place=place_text(attempt.place),
        came_to=ended,
    )


def record_of_job(row: JobRow, attempts: Iterable[AttemptRow]) -> JobRecord:
    """Read a job with its attempts, which come in the order of their numbers."""
    return JobRecord(
        request=_request(row),
        state=JobState(row.state),
        reason=JobReason(row.reason),
        what=row.what,
        attempts=[attempt_of(attempt) for attempt in attempts],
        restarts=row.restarts_used,
        next_ms=_or_not_yet(row.next_ms),
        since_ms=_or_not_yet(row.since_ms),
        standby=place_of(row.standby) if row.standby else None,
        delivered=row.delivered,
        surest=row.surest,
        ended_ms=_or_not_yet(row.ended_ms),
    )


def _request(row: JobRow) -> JobRequest:
    return JobRequest(
        job=Job(
            job_id=row.id,
            submitted_ms=row.submitted_ms,
            needs=needs_of(row.needs),
            deadline_ms=row.deadline_ms,
        ),
        command=row.command,
        consumer=row.consumer,
        group=row.group,
        name=row.name,
        lease_type=LEASE_TYPES[row.lease_type],
        backup=Backup(row.backup),
        reliability=row.reliability,
        restarts=row.restarts,
        is_foreign=row.is_foreign,
    )


def attempt_of(row: AttemptRow) -> Attempt:
    """Read an attempt."""
    return Attempt(
        number=row.number,
        place=place_of(row.place),
        ordered_ms=row.ordered_ms,
        is_backup=row.is_backup,
        state=AttemptState(row.state),
        started_ms=_or_not_yet(row.started_ms),
        ended_ms=_or_not_yet(row.ended_ms),
        fault=Fault(row.fault) if row.fault else None,
        detail=row.detail,
        exit_status=row.exit_status,
    )


def came_to_of(row: AttemptRow) -> CameTo | None:
    """Read how the command of an attempt ended, where what it wrote is still to be fetched."""
    return CameTo(*json.loads(row.came_to)) if row.came_to else None


def by_job(rows: Iterable[AttemptRow]) -> Mapping[int, list[AttemptRow]]:
    """Sort attempts by their jobs."""
    sorted_: dict[int, list[AttemptRow]] = {}
    for row in rows:
        sorted_.setdefault(row.job_id, []).append(row)
    return sorted_


def _or_none(at_ms: int) -> int | None:
    return None if at_ms == NOT_YET else at_ms


def _or_not_yet(at_ms: int | None) -> int:
    return NOT_YET if at_ms is None else at_ms
