"""Logs read line by line and job by job, as the documentation says it: what reading in blocks is held against."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from leasehold.model.tables import LogRecord
from leasehold.simulation.scenario.spec import LogStream
from leasehold.simulation.workload.combine import scaled, shifted, split_some, within
from leasehold.simulation.workload.interpretation import LoggedStream, LogInterpretation, PlacingRule
from leasehold.simulation.workload.job import NOT_CANCELLED, WorkloadJob
from leasehold.simulation.workload.lease_mix import LeaseTypeDraws
from leasehold.simulation.workload.log_record import UNKNOWN, ReadingNotes, log_records


def job_of(stream: LoggedStream, record: LogRecord, notes: ReadingNotes) -> WorkloadJob | None:
    """Interpret one line."""
    reading, cancelled_after_ms = stream.reading, NOT_CANCELLED
    if record.never_began:
        if not stream.replay_cancelled or record.wait_ms < 0 or record.requested_ms <= 0:
            notes.skip("were left out: cancelled before they began")
            return None
        notes.assume(
            "were cancelled before they began; they are submitted, and cancelled after the time that they waited"
        )
        record, cancelled_after_ms = record._replace(run_ms=record.requested_ms), record.wait_ms
    if record.run_ms < 0:
        notes.skip("were left out: no run time")
        return None
    vms, other = record.requested_vms, record.allocated_vms
    if reading.size == "allocated":
        vms, other = other, vms
    if vms <= 0 < other:
        notes.assume("give only one of requested and allocated processors; that one is used")
        vms = other
    if vms <= 0:
        notes.skip("were left out: no number of processors")
        return None
    requested_ms, actual_ms = times_of(reading, record, notes)
    memory_mib = record.memory_mib
    if memory_mib <= 0:
        notes.assume("do not state the memory they requested; the default of the reading is used")
        memory_mib = reading.memory_mib
    return WorkloadJob(
        record.submit_ms,
        vms,
        requested_ms,
        actual_ms,
        source_id=record.source_id,
        memory_mib=memory_mib,
        source=notes.source,
        cancelled_after_ms=cancelled_after_ms,
    )


def times_of(reading: LogInterpretation, record: LogRecord, notes: ReadingNotes) -> tuple[int, int]:
    """Return requested and actual time."""
    actual_ms, requested_ms = record.run_ms, record.requested_ms
    if actual_ms == 0:
        notes.assume("ran for 0 s in the log; they run for 1 ms")
        actual_ms = 1
    if requested_ms <= 0:
        notes.assume("do not state the time they requested; their run time is used")
        return actual_ms, actual_ms
    if actual_ms <= requested_ms:
        return requested_ms, actual_ms
    if reading.overrun == "kill":
        notes.assume("ran longer than they had requested; they are ended at their requested time")
        return requested_ms, actual_ms
    notes.assume("ran longer than they had requested; their run time is used as their request")
    return actual_ms, actual_ms


def is_placed(record: LogRecord, job: WorkloadJob, rules: Sequence[PlacingRule], draws: LeaseTypeDraws) -> bool:
    """Give the job its site, consumer and type by the first rule about it."""
    texts = {name: getattr(record, name) for name in ("user", "group", "queue", "partition", "site")}
    named = {name: "unknown" if text == UNKNOWN else text for name, text in texts.items()}
    for rule in rules:
        if all(texts[name] in set(map(str, values)) for name, values in rule.where.items()):
            job.consumer = rule.consumer.format(**named)
            if rule.site is None:
                draws.assign(job, rule.mix)
            else:
                job.site = rule.site.format(**named)
            return True
    return False


def literal_jobs(stream: LoggedStream, notes: ReadingNotes) -> Iterator[WorkloadJob]:
    """Yield the jobs of a log."""
    draws = LeaseTypeDraws(stream.seed, notes.source)
    assert stream.log_format is not None
    for record in log_records(stream.path, stream.log_format, notes):
        job = job_of(stream, record, notes)
        if job is None:
            continue
        if is_placed(record, job, stream.rules, draws):
            yield job
        else:
            notes.skip("were left out: no rule of the split is about them")


def literal_window(
    jobs: Iterator[WorkloadJob], stream: LogStream, seed: int, horizon_ms: int | None
) -> Iterator[WorkloadJob]:
    """Yield the jobs of a log that a scenario wants, at their times in the run."""
    window = stream.window
    if window.from_zero:
        jobs = from_zero(jobs)
    jobs = shifted(within(jobs, window.begin_ms, window.end_ms), -window.begin_ms)
    jobs = shifted(scaled(jobs, stream.load), window.shift_ms)
    if stream.together is not None:
        jobs = split_some(jobs, stream.together, seed, stream.name)
    return within(jobs, 0, horizon_ms)


def from_zero(jobs: Iterator[WorkloadJob]) -> Iterator[WorkloadJob]:
    """Yield the jobs with the first one at zero."""
    start_ms: int | None = None
    for job in jobs:
        start_ms = job.submit_ms if start_ms is None else start_ms
        deadline_ms = None if job.deadline_ms is None else job.deadline_ms - start_ms
        later_ms = job.submit_ms - start_ms
        yield replace(job, submit_ms=later_ms, ready_ms=later_ms, deadline_ms=deadline_ms)
