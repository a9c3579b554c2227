"""The streams of a scenario, opened: one merged stream of jobs, read lazily; and the sizes that logs have to say.

How large the clusters are of which a log has to say it, is found in one pass over the jobs, before a run.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from leasehold.configuration.tables import claims_of
from leasehold.model.errors import InputError, InvalidField, UnknownName
from leasehold.simulation.scenario.spec import SIZE_RULES, ClusterSpec, LogStream, ModelStream, Scenario, StreamSpec
from leasehold.simulation.workload.cancelled import log_with_cancelled
from leasehold.simulation.workload.combine import from_zero, merged, scaled, shifted, split_some, widest_part, within
from leasehold.simulation.workload.das2 import Das2Parameters, das2_jobs
from leasehold.simulation.workload.gwf import gwf_records
from leasehold.simulation.workload.interpretation import PlacingRule, Split, logged_jobs
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.log_record import LogRecord, ReadingNotes
from leasehold.simulation.workload.streams import check_number
from leasehold.simulation.workload.swf import swf_header, swf_records

_READERS: dict[str, Callable[[Path, ReadingNotes], Iterator[LogRecord]]] = {
    "gwf": gwf_records,
    "swf": swf_records,
}


def open_streams(scenario: Scenario, notes: list[ReadingNotes]) -> Iterator[WorkloadJob]:
    """Give all jobs by submission, up to the horizon; of those of one instant the first stream's first.

    The account of each log is added to ``notes`` and grows as the log is read. Reading raises InputError,
    with file and line, where a log is not what it should be.
    """
    streams = [_bound(_joined(_open(s, scenario.seed, notes), s, scenario.seed), s) for s in scenario.streams]
    return within(merged(*streams), 0, scenario.horizon_ms)


def _joined(jobs: Iterator[WorkloadJob], stream: StreamSpec, seed: int) -> Iterator[WorkloadJob]:
    """Make co-allocations of those that the stream wants to run together."""
    return jobs if stream.together is None else split_some(jobs, stream.together, seed, stream.name)


def _bound(jobs: Iterator[WorkloadJob], stream: StreamSpec) -> Iterator[WorkloadJob]:
    """Say of each job what the whole stream says: where it is bound to, and what it claims."""
    domain, claims = stream.domain, claims_of(stream.claims)
    if not domain and not claims:
        return jobs
    return _with_bounds(jobs, domain, claims)


def _with_bounds(
    jobs: Iterator[WorkloadJob], domain: str, claims: tuple[tuple[str, int], ...]
) -> Iterator[WorkloadJob]:
    for job in jobs:
        job.domain, job.claims = domain, claims
        yield job


def _open(stream: StreamSpec, seed: int, notes: list[ReadingNotes]) -> Iterator[WorkloadJob]:
    if isinstance(stream, ModelStream):
        parameters = Das2Parameters.named(stream.parameters)
        jobs = das2_jobs(parameters, seed, stream.name, stream.site, stream.mix, stream.consumer)
        return jobs if stream.load == 1.0 else scaled(jobs, stream.load)
    notes.append(ReadingNotes(stream.name))
    return _some(_in_window(open_log(stream, seed, notes[-1]), stream), stream, notes[-1])


def open_log(stream: LogStream, seed: int, notes: ReadingNotes) -> Iterator[WorkloadJob]:
    """Give the jobs of a whole log in its own time, placed at clusters or outside."""
    if stream.replay_cancelled:
        return _with_cancelled(stream, seed, notes)
    records = _READERS[stream.format](Path(stream.path), notes)
    split = Split(placing_rules(stream), seed, stream.name)
    return logged_jobs(records, stream.reading, split, notes)


def _with_cancelled(stream: LogStream, seed: int, notes: ReadingNotes) -> Iterator[WorkloadJob]:
    """Give the jobs of a log and those that were cancelled while they waited."""
    with TemporaryDirectory() as folder:
        copy = log_with_cancelled(Path(stream.path), Path(folder))
        try:
            yield from open_log(replace(stream, path=str(copy), replay_cancelled=False), seed, notes)
        except InputError as error:
            raise InputError(Path(stream.path), error.line, error.problem) from None


def _some(jobs: Iterator[WorkloadJob], stream: LogStream, notes: ReadingNotes) -> Iterator[WorkloadJob]:
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


def _in_window(jobs: Iterator[WorkloadJob], stream: LogStream) -> Iterator[WorkloadJob]:
    """Cut the window out of a log, let it begin at zero, change its load, and put it where it belongs."""
    window = stream.window
    if window.from_zero:
        jobs = from_zero(jobs)
    if window.begin_ms or window.end_ms is not None:
        jobs = shifted(within(jobs, window.begin_ms, window.end_ms), -window.begin_ms)
    if stream.load != 1.0:
        jobs = scaled(jobs, stream.load)
    return shifted(jobs, window.shift_ms) if window.shift_ms else jobs


def placing_rules(stream: LogStream) -> list[PlacingRule]:
    """Say whose the jobs of a log are, the first rule that fits being the one that counts."""
    by = stream.consumer_by
    consumer = by if "{" in by else f"{{{by}}}"
    rules = []
    if stream.has_externals:
        rules.append(PlacingRule(stream.external_where, None, consumer, stream.mix))
    if stream.external is not True:
        rules.append(PlacingRule(site=_site_pattern(stream), consumer=consumer))
    return rules


def _site_pattern(stream: LogStream) -> str:
    if stream.cluster_by is not None:
        return f"{stream.cluster_by}-{{{stream.cluster_by}}}"
    return str(stream.site).replace("{", "{{").replace("}", "}}")


@dataclass(slots=True)
class ClusterDemand:
    """What one cluster's own jobs would take if every job started when it was submitted.

    Memory grows with the jobs running at once, not with the log.
    """

    widest_vms: int = 0
    peak_vms: int = 0
    _running_vms: int = 0
    _ends: list[tuple[int, int]] = field(default_factory=list)

    def add(self, job: WorkloadJob) -> None:
        """Count one more job, submitted no earlier than the last."""
        while self._ends and self._ends[0][0] <= job.submit_ms:
            self._running_vms -= heapq.heappop(self._ends)[1]
        heapq.heappush(self._ends, (job.submit_ms + job.actual_ms, job.vms))
        self._running_vms += job.vms
        self.peak_vms = max(self.peak_vms, self._running_vms)
        self.widest_vms = max(self.widest_vms, job.vms)


def local_demand(jobs: Iterable[WorkloadJob]) -> dict[str, ClusterDemand]:
    """Return the demand at each home cluster, in one pass; external jobs have no home and are passed over."""
    demands: dict[str, ClusterDemand] = {}
    for job in jobs:
        if job.site is not None:
            demands.setdefault(job.site, ClusterDemand()).add(job)
    return demands


def cluster_sizes(
    demands: Mapping[str, ClusterDemand], rule: int | str, max_procs: int | None = None
) -> dict[str, int]:
    """Return the number of slots of each cluster by one rule, never fewer than its widest job needs.

    The rule is a whole number; ``"max-procs"``, what the header of the log says; or ``"peak"``, what the jobs
    would take at most if each started when it was submitted.
    Raises UnknownName for another rule, InvalidField for ``"max-procs"`` where the header does not say.
    """
    if rule == "peak":
        return {site: demand.peak_vms for site, demand in demands.items()}
    slots = _slots_by_rule(rule, max_procs)
    return {site: max(slots, demand.widest_vms) for site, demand in demands.items()}


def _slots_by_rule(rule: int | str, max_procs: int | None) -> int:
    if isinstance(rule, int):
        return int(check_number("size", rule, 1))
    if rule not in SIZE_RULES:
        raise UnknownName("size", rule, SIZE_RULES)
    if max_procs is None:
        raise InvalidField("size", rule, "a log whose header has MaxProcs, or the rule 'peak', or a number")
    return max_procs


def with_sizes(scenario: Scenario) -> Scenario:
    """Return the scenario with every cluster that it will have, each with a number of slots.

    Clusters that ``cluster_by`` makes come after the others, in the order in which the logs name them. A
    scenario that says all this itself is returned as it is, and no log is read.
    Raises InputError for logs that are not what they should be or do not say what is asked.
    """
    logs = [stream for stream in scenario.streams if isinstance(stream, LogStream)]
    if all(isinstance(c.slots, int) for c in scenario.clusters) and all(s.cluster_by is None for s in logs):
        return scenario
    makers: dict[str, str] = {}
    jobs = open_streams(replace(scenario, streams=tuple(logs)), [])
    demands = local_demand(_noting_makers(jobs, makers))
    by_name = {stream.name: stream for stream in logs}
    clusters = [_sized(cluster, demands, logs) for cluster in scenario.clusters]
    known = {cluster.name for cluster in clusters}
    for site, maker in makers.items():
        if site not in known:
            slots = _slots(site, by_name[maker].slots, demands, [by_name[maker]])
            clusters.append(ClusterSpec(site, slots, scenario.defaults))
    return replace(scenario, clusters=tuple(clusters))


def _noting_makers(jobs: Iterator[WorkloadJob], makers: dict[str, str]) -> Iterator[WorkloadJob]:
    """Pass the jobs on, and note which stream was the first to name each cluster."""
    for job in jobs:
        if job.site is not None:
            makers.setdefault(job.site, job.source)
        yield job


def _sized(cluster: ClusterSpec, demands: dict[str, ClusterDemand], logs: list[LogStream]) -> ClusterSpec:
    if isinstance(cluster.slots, int):
        return cluster
    own = [stream for stream in logs if stream.site == cluster.name]
    return replace(cluster, slots=_slots(cluster.name, cluster.slots, demands, own))


def _slots(site: str, rule: int | str, demands: dict[str, ClusterDemand], logs: list[LogStream]) -> int:
    if site not in demands:
        raise InvalidField(f"slots of cluster {site}", rule, "a number: no log has jobs of its own for it")
    return cluster_sizes({site: demands[site]}, rule, _max_procs(logs))[site]


def _max_procs(logs: list[LogStream]) -> int | None:
    """Give what the header of the first log with a header says."""
    for stream in logs:
        if stream.format == "swf":
            path = Path(stream.path)
            try:
                return swf_header(path).max_procs()
            except InvalidField as error:
                raise InputError(path, None, str(error)) from None
    return None


def fitting(jobs: Iterator[WorkloadJob], scenario: Scenario) -> Iterator[WorkloadJob]:
    """Pass the jobs on, all of them where the scenario leaves too wide ones to the clusters.

    ``scenario`` has its sizes settled (`sizes.with_sizes`). Otherwise raises InvalidField at the first job
    that is wider than its own cluster or, from outside, than every cluster; of a co-allocation its widest
    component counts.
    """
    return jobs if scenario.too_wide == "refuse" else _all_fitting(jobs, scenario)


def _all_fitting(jobs: Iterator[WorkloadJob], scenario: Scenario) -> Iterator[WorkloadJob]:
    slots: dict[str | None, int] = {c.name: c.slots for c in scenario.clusters if isinstance(c.slots, int)}
    slots[None] = max(slots.values(), default=0)
    for job in jobs:
        # An unknown cluster is reported where it is looked up.
        vms = widest_part(job)
        if vms > slots.get(job.site, vms):
            where = "the widest cluster" if job.site is None else f"its cluster {job.site}"
            expected = f'at most {slots[job.site]}, what {where} has (or too_wide = "refuse")'
            raise InvalidField(f"{job.source} job {job.source_id}: VMs", vms, expected)
        yield job
