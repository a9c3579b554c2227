"""By when must a job have begun?"""

from leasehold.jobs.job import NOT_YET, JobRecord


def last_call_ms(record: JobRecord) -> int:
    """Give when a job is too late if it did not begin before; NOT_YET where it has no deadline."""
    job = record.request.job
    return NOT_YET if job.deadline_ms is None else max(0, job.deadline_ms - job.needs.execution_ms)


def is_too_late(record: JobRecord, now_ms: int) -> bool:
    """Whether a job cannot be done before its deadline wherever it begins now."""
    return NOT_YET < last_call_ms(record) <= now_ms
