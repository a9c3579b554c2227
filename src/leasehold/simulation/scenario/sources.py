"""The streams of a scenario, opened: one merged stream of jobs, read lazily."""

from collections.abc import Callable, Iterator
from pathlib import Path

from leasehold.configuration.tables import claims_of
from leasehold.model.errors import InputError
from leasehold.simulation.scenario.spec import LogStream, ModelStream, Scenario, StreamSpec
from leasehold.simulation.workload.combine import from_zero, merged, scaled, shifted, within
from leasehold.simulation.workload.das2 import Das2Parameters, das2_jobs
from leasehold.simulation.workload.gwf import gwf_records
from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.log_record import LogRecord
from leasehold.simulation.workload.notes import ReadingNotes
from leasehold.simulation.workload.split import Rule, Split, logged_jobs
from leasehold.simulation.workload.splitting import split_some
from leasehold.simulation.workload.swf import swf_records

_READERS: dict[str, Callable[[Path, ReadingNotes], Iterator[LogRecord]]] = {
    "gwf": gwf_records,
    "swf": swf_records,
}


def open_streams(scenario: Scenario, notes: list[ReadingNotes]) -> Iterator[Job]:
    """Give all jobs by submission, up to the horizon; of those of one instant the first stream's first.

    The account of each log is added to ``notes`` and grows as the log is read. Reading raises InputError,
    with file and line, where a log is not what it should be.
    """
    streams = [_bound(_joined(_open(s, scenario.seed, notes), s, scenario.seed), s) for s in scenario.streams]
    return within(merged(*streams), 0, scenario.horizon_ms)


def _joined(jobs: Iterator[Job], stream: StreamSpec, seed: int) -> Iterator[Job]:
    """Make co-allocations of those that the stream wants to run together."""
    return jobs if stream.together is None else split_some(jobs, stream.together, seed, stream.name)


def _bound(jobs: Iterator[Job], stream: StreamSpec) -> Iterator[Job]:
    """Say of each job what the whole stream says: where it is bound to, and what it claims."""
    domain, claims = stream.domain, claims_of(stream.claims)
    if not domain and not claims:
        return jobs
    return _with_bounds(jobs, domain, claims)


def _with_bounds(jobs: Iterator[Job], domain: str, claims: tuple[tuple[str, int], ...]) -> Iterator[Job]:
    for job in jobs:
        job.domain, job.claims = domain, claims
        yield job


def _open(stream: StreamSpec, seed: int, notes: list[ReadingNotes]) -> Iterator[Job]:
    if isinstance(stream, ModelStream):
        parameters = Das2Parameters.named(stream.parameters)
        jobs = das2_jobs(parameters, seed, stream.name, stream.site, stream.mix, stream.consumer)
        return jobs if stream.load == 1.0 else scaled(jobs, stream.load)
    notes.append(ReadingNotes(stream.name))
    return _some(_in_window(open_log(stream, seed, notes[-1]), stream), stream, notes[-1])


def open_log(stream: LogStream, seed: int, notes: ReadingNotes) -> Iterator[Job]:
    """Give the jobs of a whole log in its own time, placed at clusters or outside."""
    records = _READERS[stream.format](Path(stream.path), notes)
    split = Split(placing_rules(stream), seed, stream.name)
    return logged_jobs(records, stream.reading, split, notes)


def _some(jobs: Iterator[Job], stream: LogStream, notes: ReadingNotes) -> Iterator[Job]:
    """Yield the jobs; InputError, with what became of the lines, for a log that was read and left none."""
    is_empty = True
    for job in jobs:
        is_empty = False
        yield job
    if is_empty:
        kept = [] if notes.jobs == 0 else [f"{notes.jobs:,} are outside the window from begin_s to end_s"]
        reasons = [f"{count:,} {phrase}" for phrase, count in notes.skipped.most_common()]
        problem = f"no job is left of the {notes.read:,} in this log: {'; '.join([*reasons, *kept])}"
        raise InputError(Path(stream.path), None, problem)


def _in_window(jobs: Iterator[Job], stream: LogStream) -> Iterator[Job]:
    """Cut the window out of a log, let it begin at zero, change its load, and put it where it belongs."""
    window = stream.window
    if window.from_zero:
        jobs = from_zero(jobs)
    if window.begin_ms or window.end_ms is not None:
        jobs = shifted(within(jobs, window.begin_ms, window.end_ms), -window.begin_ms)
    if stream.load != 1.0:
        jobs = scaled(jobs, stream.load)
    return shifted(jobs, window.shift_ms) if window.shift_ms else jobs


def placing_rules(stream: LogStream) -> list[Rule]:
    """Say whose the jobs of a log are, the first rule that fits being the one that counts."""
    by = stream.consumer_by
    consumer = by if "{" in by else f"{{{by}}}"
    rules = []
    if stream.has_externals:
        rules.append(Rule(stream.external_where, None, consumer, stream.mix))
    if stream.external is not True:
        rules.append(Rule(site=_site_pattern(stream), consumer=consumer))
    return rules


def _site_pattern(stream: LogStream) -> str:
    if stream.cluster_by is not None:
        return f"{stream.cluster_by}-{{{stream.cluster_by}}}"
    return str(stream.site).replace("{", "{{").replace("}", "}}")
