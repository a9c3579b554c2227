"""The streams of a scenario, opened: one merged stream of jobs, read lazily; and the sizes that logs have to say.

How large the clusters are of which a log has to say it, is found in one pass over the jobs, before a run.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from leasehold.configuration.tables import claims_of
from leasehold.model.errors import InputError, InvalidField, UnknownName
from leasehold.simulation.scenario.spec import SIZE_RULES, ClusterSpec, LogStream, ModelStream, Scenario, StreamSpec
from leasehold.simulation.workload.combine import (
    cut,
    cut_off,
    merged,
    merged_blocks,
    moved,
    numbered_blocks,
    scaled,
    scaled_block,
    split_blocks,
    split_some,
    widest_part,
    within,
)
from leasehold.simulation.workload.das2 import Das2Parameters, das2_jobs
from leasehold.simulation.workload.gwf import GWF
from leasehold.simulation.workload.interpretation import LoggedStream, PlacingRule, logged_blocks
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.job_block import NO_SITE, JobBlock, OfStream, blocks_of
from leasehold.simulation.workload.log_columns import Ints, Names
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.log_table import max_procs_of
from leasehold.simulation.workload.streams import check_number
from leasehold.simulation.workload.swf import SWF, swf_header

_FORMATS = {"gwf": GWF, "swf": SWF, "parquet": None}
_JOBS_PER_MODEL_BLOCK = 256


def open_streams(scenario: Scenario, notes: list[ReadingNotes]) -> Iterator[WorkloadJob]:
    """Give all jobs by submission, up to the horizon; of those of one instant the first stream's first.

    The account of each log is added to ``notes`` and grows as the log is read. Reading raises InputError,
    with file and line, where a log is not what it should be.
    """
    return merged(*(_jobs(stream, scenario, notes) for stream in scenario.streams))


def open_blocks(scenario: Scenario, notes: list[ReadingNotes]) -> Iterator[JobBlock]:
    """Give the same jobs in blocks, numbered as `numbered` would number them; no block is empty."""
    names = Names()
    streams = [
        _model_blocks(stream, scenario, names)
        if isinstance(stream, ModelStream)
        else _blocks(stream, scenario, notes, names)
        for stream in scenario.streams
    ]
    return numbered_blocks(merged_blocks(streams))


def _jobs(stream: StreamSpec, scenario: Scenario, notes: list[ReadingNotes]) -> Iterator[WorkloadJob]:
    if isinstance(stream, ModelStream):
        return _model_jobs(stream, scenario)
    return jobs_in(_blocks(stream, scenario, notes, Names()))


def jobs_in(blocks: Iterator[JobBlock]) -> Iterator[WorkloadJob]:
    """Yield the jobs of blocks one by one."""
    for block in blocks:
        yield from block.jobs()


def _model_jobs(stream: ModelStream, scenario: Scenario) -> Iterator[WorkloadJob]:
    parameters = Das2Parameters.named(stream.parameters)
    jobs = das2_jobs(parameters, scenario.seed, stream.name, stream.site, stream.mix, stream.consumer)
    if stream.load != 1.0:
        jobs = scaled(jobs, stream.load)
    if stream.together is not None:
        jobs = split_some(jobs, stream.together, scenario.seed, stream.name)
    of = _in_common(stream)
    if of.domain or of.claims or of.cores > 1 or of.gpu_milli or of.image:
        jobs = _with_bounds(jobs, of)
    return within(jobs, 0, scenario.horizon_ms)


def _with_bounds(jobs: Iterator[WorkloadJob], of: OfStream) -> Iterator[WorkloadJob]:
    for job in jobs:
        job.domain, job.claims, job.image = of.domain, of.claims, of.image
        job.cores, job.gpu_model, job.gpu_milli = of.cores, of.gpu_model, of.gpu_milli
        yield job


def _in_common(stream: StreamSpec) -> OfStream:
    """Say of each job what the whole stream says: where it is bound to, what it claims, how it may be split."""
    claims = claims_of(stream.claims)
    return OfStream(stream.name, stream.domain, claims, stream.together, stream.cores, *stream.gpus, stream.image)


def _model_blocks(stream: ModelStream, scenario: Scenario, names: Names) -> Iterator[JobBlock]:
    return blocks_of(_model_jobs(stream, scenario), names, _in_common(stream), _JOBS_PER_MODEL_BLOCK)


def _blocks(stream: LogStream, scenario: Scenario, notes: list[ReadingNotes], names: Names) -> Iterator[JobBlock]:
    notes.append(ReadingNotes(stream.name))
    blocks = _some(_in_window(_log_blocks(stream, scenario.seed, notes[-1], names), stream), stream, notes[-1])
    if stream.together is not None:
        blocks = split_blocks(blocks, stream.together, scenario.seed, stream.name)
    return cut_off(blocks, scenario.horizon_ms)


def open_log(stream: LogStream, seed: int, notes: ReadingNotes) -> Iterator[WorkloadJob]:
    """Give the jobs of a whole log in its own time, placed at clusters or outside."""
    return jobs_in(_log_blocks(stream, seed, notes, Names()))


def _log_blocks(stream: LogStream, seed: int, notes: ReadingNotes, names: Names) -> Iterator[JobBlock]:
    log_format, rules = _FORMATS[stream.format], placing_rules(stream)
    logged = LoggedStream(Path(stream.path), log_format, rules, stream.reading, seed, stream.replay_cancelled)
    of = (_in_common(stream),)
    for block in logged_blocks(logged, notes, names):
        block.streams = of
        yield block


def _some(blocks: Iterator[JobBlock], stream: LogStream, notes: ReadingNotes) -> Iterator[JobBlock]:
    """Yield the blocks with jobs; InputError, with what became of the lines, for a log that was read and left none."""
    is_empty = True
    for block in blocks:
        if len(block):
            is_empty = False
            yield block
        else:
            block.note()
    if is_empty:
        kept = [] if notes.jobs == 0 else [f"{notes.jobs:,} are outside the window from begin_s to end_s"]
        reasons = [f"{count:,} {phrase}" for phrase, count in notes.skipped.most_common()]
        problem = f"no job is left of the {notes.read:,} in this log: {'; '.join([*reasons, *kept])}"
        raise InputError(Path(stream.path), None, problem)


def _in_window(blocks: Iterator[JobBlock], stream: LogStream) -> Iterator[JobBlock]:
    """Cut the window out of a log, let it begin at zero, change its load, and put it where it belongs."""
    window, zero_ms = stream.window, None if stream.window.from_zero else 0
    for whole in blocks:
        block = whole
        if zero_ms is None and len(block):
            zero_ms = int(block.submit_ms[0])
        block, is_over = cut(moved(block, block.submit_ms - (zero_ms or 0)), window.begin_ms, window.end_ms)
        block = moved(block, block.submit_ms - window.begin_ms)
        if stream.load != 1.0:
            block = scaled_block(block, stream.load)
        yield moved(block, block.submit_ms + window.shift_ms)
        if is_over:
            return


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


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class ClusterDemand:
    """What one cluster's own jobs would take if every job started when it was submitted.

    Memory grows with the jobs running at once, not with the log.
    """

    widest_vms: int = 0
    peak_vms: int = 0
    _running_vms: Ints = field(default_factory=_none)
    _ends_ms: Ints = field(default_factory=_none)

    def add(self, block: JobBlock) -> None:
        """Count more jobs, submitted no earlier than the last."""
        ends_ms = np.concatenate((self._ends_ms, block.submit_ms + block.actual_ms))
        vms = np.concatenate((self._running_vms, block.vms))
        by_end = np.argsort(ends_ms)
        ended = np.concatenate(([0], np.cumsum(vms[by_end])))
        ended_before = ended[np.searchsorted(ends_ms[by_end], block.submit_ms, side="right")]
        busy = int(self._running_vms.sum()) + np.cumsum(block.vms) - ended_before
        self.peak_vms = max(self.peak_vms, int(busy.max()))
        self.widest_vms = max(self.widest_vms, int(block.vms.max()))
        running = ends_ms > block.submit_ms[-1]
        self._ends_ms, self._running_vms = ends_ms[running], vms[running]


def local_demand(blocks: Iterable[JobBlock]) -> dict[str, ClusterDemand]:
    """Return the demand at each home cluster, in one pass and in the order in which they come first.

    External jobs have no home and are passed over.
    """
    demands: dict[str, ClusterDemand] = {}
    for block in blocks:
        for site, rows in _by_site(block):
            demands.setdefault(site, ClusterDemand()).add(block.taken(rows))
    return demands


def _by_site(block: JobBlock) -> Iterator[tuple[str, Ints | slice]]:
    """Yield the home clusters in the order in which they come first, and their jobs."""
    if (block.site == block.site[:1]).all():
        sites, ends = block.site[:1], np.array([0])
        parts: list[Ints | slice] = [slice(None)]
    else:
        by_site = np.argsort(block.site, kind="stable")
        sites, ends = np.unique(block.site[by_site], return_index=True)
        parts = [*np.split(by_site, ends[1:])]
    first = [0 if isinstance(rows, slice) else int(rows[0]) for rows in parts]
    for part in np.argsort(first).tolist():
        if len(sites) and sites[part] != NO_SITE:
            yield block.names.texts[int(sites[part])], parts[part]


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
    blocks = open_blocks(replace(scenario, streams=tuple(logs)), [])
    demands = local_demand(_noting_makers(blocks, makers))
    by_name = {stream.name: stream for stream in logs}
    clusters = [_sized(cluster, demands, logs) for cluster in scenario.clusters]
    known = {cluster.name for cluster in clusters}
    for site, maker in makers.items():
        if site not in known:
            slots = _slots(site, by_name[maker].slots, demands, [by_name[maker]])
            clusters.append(ClusterSpec(site, slots, scenario.defaults))
    return replace(scenario, clusters=tuple(clusters))


def _noting_makers(blocks: Iterator[JobBlock], makers: dict[str, str]) -> Iterator[JobBlock]:
    """Pass the jobs on, and note which stream was the first to name each cluster."""
    for block in blocks:
        for site, rows in _by_site(block):
            if site not in makers:
                makers[site] = block.streams[int(block.stream[rows][0])].source
        yield block


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
        path = Path(stream.path)
        if stream.format == "parquet":
            return max_procs_of(path)
        if stream.format == "swf":
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


def fitting_blocks(blocks: Iterator[JobBlock], scenario: Scenario) -> Iterator[JobBlock]:
    """Pass the jobs of blocks on as `fitting` does, those before one that does not fit included."""
    return blocks if scenario.too_wide == "refuse" else _all_blocks_fitting(blocks, scenario)


def _all_fitting(jobs: Iterator[WorkloadJob], scenario: Scenario) -> Iterator[WorkloadJob]:
    slots = _slots_of(scenario)
    for job in jobs:
        _check_fits(job, slots)
        yield job


def _all_blocks_fitting(blocks: Iterator[JobBlock], scenario: Scenario) -> Iterator[JobBlock]:
    slots = _slots_of(scenario)
    for block in blocks:
        at_site = np.array([slots.get(text, _ANY_WIDTH) for text in block.names.texts], np.int64)
        most = np.where(block.site == NO_SITE, slots[None], at_site[block.site])
        too_wide = np.flatnonzero(block.widest_part() > most)
        if not len(too_wide):
            yield block
            continue
        first = int(too_wide[0])
        if first:
            yield block.taken(slice(0, first))
        for job in block.taken(slice(first, first + 1)).jobs():
            _check_fits(job, slots)


_ANY_WIDTH = 1 << 62


def _slots_of(scenario: Scenario) -> dict[str | None, int]:
    """Return the slots of each cluster, and under None those of the widest."""
    slots: dict[str | None, int] = {c.name: c.slots for c in scenario.clusters if isinstance(c.slots, int)}
    slots[None] = max(slots.values(), default=0)
    return slots


def _check_fits(job: WorkloadJob, slots: Mapping[str | None, int]) -> None:
    # An unknown cluster is reported where it is looked up.
    vms = widest_part(job)
    if vms > slots.get(job.site, vms):
        where = "the widest cluster" if job.site is None else f"its cluster {job.site}"
        expected = f'at most {slots[job.site]}, what {where} has (or too_wide = "refuse")'
        raise InvalidField(f"{job.source} job {job.source_id}: VMs", vms, expected)
