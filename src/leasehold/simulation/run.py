"""Run a scenario and leave a run folder behind: its tables, and a manifest of what was run and its outcome."""

import gc
import json
import platform
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from shutil import rmtree
from time import perf_counter, process_time
from typing import Any

import numpy as np
import polars as pl

from leasehold import __version__
from leasehold.gateway.coallocation.placement.registry import resolve_placement_policies
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.knowledge import Knowledge
from leasehold.model.coallocation import CoAllocationState
from leasehold.model.errors import InvalidField, InvariantBroken, LeaseholdError
from leasehold.model.request import NEVER_MS
from leasehold.model.tables import MANIFEST, SCHEMA_VERSION, NodeTableRow, SiteTableRow
from leasehold.sharing.enforcement import Sharing
from leasehold.simulation.clusters import ClusterWorld, has_more_than_jobs, run_baseline, runs_alone
from leasehold.simulation.events.opening import CountingSource, open_managed, open_sources
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.recorder import BaselineRecorder, Recorder
from leasehold.simulation.scenario.sites import routing, sharing, site_settings
from leasehold.simulation.scenario.sources import fitting, fitting_blocks, open_blocks, open_streams, with_sizes
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.table_writer import TableWriter
from leasehold.simulation.workload.combine import numbered
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.job_block import NO_SITE, JobBlock
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.log_table import LOG_TABLE


@dataclass(slots=True)
class Stopwatch:
    """When a run began, by the calendar, the clock and the processor."""

    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    _wall_s: float = field(default_factory=perf_counter)
    _cpu_s: float = field(default_factory=process_time)

    def readings(self) -> dict[str, object]:
        """Give the time that has passed since."""
        return {
            "started_at": self.started_at,
            "wall_s": round(perf_counter() - self._wall_s, 3),
            "cpu_s": round(process_time() - self._cpu_s, 3),
        }


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write ``manifest.json`` so that it is either the old one or the whole new one."""
    draft = folder / f"{MANIFEST}.new"
    draft.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    draft.replace(folder / MANIFEST)


def make_manifest(
    scenario: Scenario,
    command: str,
    status: str,
    end_ms: int,
    recorder: Recorder,
    notes: Sequence[ReadingNotes],
) -> dict[str, Any]:
    """Put together what a run was and what came of it."""
    read = recorder.read
    return {
        "schema_version": SCHEMA_VERSION,
        "leasehold": __version__,
        "python": platform.python_version(),
        "status": status,
        "seed": scenario.seed,
        "command": command,
        "scenario": scenario.to_dict(),
        "horizon_ms": scenario.horizon_ms,
        "end_ms": end_ms,
        "jobs": {
            "read": read["local"] + read["external"],
            "local": read["local"],
            "external": read["external"],
            "coallocation": recorder.coallocations.count,
            "skipped": sum(note.skipped.total() for note in notes),
            "by_state": dict(sorted(recorder.by_state.items())),
        },
        "notes": [sentence for note in notes for sentence in note.sentences()],
    }


def _happened(sources: Sequence[CountingSource]) -> dict[str, Any]:
    """Give the number of events of each kind, jobs excluded; nothing for a scenario that has none."""
    if not sources:
        return {}
    return {"events": {kind: count for source in sources for kind, count in sorted(source.counts.items())}}


INSTANTS_PER_REPORT = 2_000


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run; ``fraction`` is None where the end is unknown."""

    jobs: int
    now_ms: int
    horizon_ms: int | None
    fraction: float | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """The run folder, and its manifest."""

    path: Path
    manifest: dict[str, Any]


Report = Callable[[RunProgress], None]


def run_scenario(
    scenario: Scenario,
    out: Path,
    *,
    check: bool = False,
    baseline: bool = True,
    progress: Report | None = None,
    command: str = "",
) -> RunResult:
    """Run a scenario into the folder ``out``, which is made, or is empty but for the table of its log.

    ``check`` checks every invariant after every instant; ``baseline`` also runs the same local requests
    without guests, so that what guests did to them can be seen job by job.

    A run that is interrupted leaves a readable folder with status "partial", and KeyboardInterrupt propagates.
    Bad input, a folder with something in it included, raises InputError or InvalidField and leaves nothing;
    InvariantBroken keeps what was written.
    """
    watch = Stopwatch()
    scenario = with_sizes(scenario)
    with _nothing_half_done(out):
        _write_sites(scenario, out)
        recorder, notes = Recorder(out), list[ReadingNotes]()
        world: ClusterWorld | _GatewayWorld
        if runs_alone(scenario) and not check:
            blocks = fitting_blocks(open_blocks(scenario, notes), scenario)
            world = ClusterWorld(site_settings(scenario)[0], scenario.reference_mips, blocks, recorder)
        else:
            world = _GatewayWorld(scenario, _numbered(scenario, notes), recorder, check=check)
        status = "partial"
        try:
            _pass_time(world, scenario, recorder, progress)
            status = "complete"
        finally:
            world.finish()
            manifest = make_manifest(scenario, command, status, world.now_ms, recorder, notes)
            manifest |= world.happened()
            write_manifest(out, manifest | watch.readings())
        if baseline and recorder.read["external"]:
            _run_without_guests(scenario, out)
        manifest |= watch.readings()
        write_manifest(out, manifest)
    return RunResult(out, manifest)


class _GatewayWorld:
    """All that a scenario may have, behind its gateway."""

    def __init__(
        self, scenario: Scenario, jobs: Generator[tuple[int, WorkloadJob]], recorder: Recorder, *, check: bool
    ) -> None:
        self._jobs = jobs
        self._gateway = gateway = make_gateway(scenario, routing(scenario), sharing(scenario))
        self._recorder = recorder
        self._sources = open_sources(scenario, gateway)
        self._managed = open_managed(scenario, gateway, recorder)
        if self._managed is not None:
            self._sources = [self._managed, *self._sources]
        here = jobs if self._managed is None else self._managed.without_their_jobs(jobs)
        invariants = Invariants(gateway) if check else None
        self._world = SimulatedWorld(gateway, here, recorder, invariants, self._sources)

    @property
    def now_ms(self) -> int:
        return self._world.now_ms

    def run(self, until_ms: int) -> Iterator[int]:
        yield from islice(self._world.run(until_ms), 0, None, INSTANTS_PER_REPORT)
        if until_ms != NEVER_MS:
            self._world.now_ms = until_ms

    def waits_for_ever(self) -> int:
        return _forgotten(self._gateway)

    def finish(self) -> None:
        self._jobs.close()  # so that the notes say how far the logs were read
        unfinished = self._gateway.leases
        if self._managed is not None:
            self._managed.settle()
            unfinished = unfinished | self._managed.open_locals()
        self._recorder.finish(unfinished, self._world.now_ms)

    def happened(self) -> dict[str, Any]:
        return _happened(self._sources)


def make_gateway(
    scenario: Scenario,
    how: Routing,
    agreed: Sharing | None = None,
    see_through: Callable[[Knowledge], Knowledge] | None = None,
) -> Gateway:
    """Make the gateway of a scenario, its sizes settled, with nothing in it yet."""
    if any(stream.together is not None for stream in scenario.streams):
        resolve_placement_policies()
    sites = [
        settings
        for settings, cluster in zip(site_settings(scenario), scenario.clusters, strict=True)
        if cluster.manager_delay_ms is None
    ]
    return Gateway(sites, how, scenario.reference_mips, agreed, see_through=see_through)


def _pass_time(
    world: ClusterWorld | _GatewayWorld, scenario: Scenario, recorder: Recorder, progress: Report | None
) -> None:
    until_ms = last_instant_ms(scenario)
    with collecting_less_garbage():
        for now_ms in world.run(until_ms):
            if progress is not None:
                horizon_ms = scenario.horizon_ms
                fraction = None if horizon_ms is None else min(1.0, now_ms / horizon_ms)
                progress(RunProgress(recorder.read.total(), now_ms, horizon_ms, fraction))
    if until_ms == NEVER_MS and (count := world.waits_for_ever()):
        raise InvariantBroken(f"{count} leases were forgotten: nothing more happens, and they have not ended")


def _forgotten(gateway: Gateway) -> int:
    """Count the leases that nothing will wake, but for those that wait in vain: for room, or for a site that lends."""
    in_vain = {
        part.lease_id
        for coallocation in gateway.coallocations.open.values()
        if coallocation.state is CoAllocationState.HELD
        for part in coallocation.parts
    }
    for remote in gateway.registry.remotes.values():
        in_vain |= remote.leases.keys() if remote.silent else set()
    return len(gateway.leases.keys() - in_vain - gateway.pending.unschedulable.keys())


def last_instant_ms(scenario: Scenario) -> int:
    """Say after which instant nothing more is looked at."""
    if scenario.drain or scenario.horizon_ms is None:
        return NEVER_MS
    return scenario.horizon_ms


def _numbered(scenario: Scenario, notes: list[ReadingNotes]) -> Generator[tuple[int, WorkloadJob]]:
    return numbered(fitting(open_streams(scenario, notes), scenario))


def _run_without_guests(scenario: Scenario, out: Path) -> None:
    """Run the local requests alone, under the numbers that they have in the run with guests."""
    recorder, until_ms = BaselineRecorder(out), last_instant_ms(scenario)
    with collecting_less_garbage():
        if not has_more_than_jobs(scenario):
            run_baseline(scenario, _own_blocks(scenario, out), recorder, until_ms)
        else:
            local_jobs: Iterator[tuple[int, WorkloadJob]] = (
                (number, job) for number, job in _numbered(scenario, []) if job.site is not None
            )
            # Nothing is routed here, so that there is nothing to learn streams for.
            gateway = make_gateway(scenario, replace(routing(scenario), learns=False))
            sources = open_sources(scenario, gateway, with_guests=False)
            managed = open_managed(scenario, gateway, recorder)
            if managed is not None:
                sources, local_jobs = [managed, *sources], managed.without_their_jobs(local_jobs)
            world = SimulatedWorld(gateway, local_jobs, recorder, sources=sources)
            for _ in world.run(until_ms):
                pass
    recorder.close()


def _own_blocks(scenario: Scenario, out: Path) -> Iterator[JobBlock]:
    """Give the local jobs again, under the numbers of their leases; guests are neither drawn nor read again."""
    streams = tuple(stream for stream in scenario.streams if stream.has_locals)
    leases = pl.scan_parquet(out / "leases.parquet").filter(pl.col("origin") == "local").select("lease_id").collect()
    numbers = np.sort(leases["lease_id"].to_numpy())
    for block in open_blocks(replace(scenario, streams=streams), []):
        own = block.taken(np.flatnonzero(block.site != NO_SITE)[: len(numbers)])
        own.number, numbers = numbers[: len(own)], numbers[len(own) :]
        yield own


def _write_sites(scenario: Scenario, out: Path) -> None:
    table = TableWriter(out, "sites")
    for settings, cluster in zip(site_settings(scenario), scenario.clusters, strict=True):
        terms = cluster.terms
        table.add(
            SiteTableRow(
                settings.name,
                settings.slots,
                settings.speed_mips,
                scenario.reference_mips,
                terms.local_policy,
                terms.guest_policy,
                settings.victims.name,
                terms.local_queue,
                settings.non_preemptable_share_vms,
            )
        )
    table.close()
    if any(settings.nodes for settings in site_settings(scenario)):
        nodes = TableWriter(out, "nodes")
        for settings in site_settings(scenario):
            for node in settings.nodes:
                gpu = (node.gpu_model or None, node.gpus, node.shares)
                nodes.add(NodeTableRow(settings.name, node.name, node.cores, node.memory_mib, *gpu))
        nodes.close()


@contextmanager
def _nothing_half_done(out: Path) -> Iterator[None]:
    """Make the folder, and take it away again when the input turns out to be bad."""
    if out.exists() and (not out.is_dir() or any(path.name != LOG_TABLE for path in out.iterdir())):
        raise InvalidField("out", str(out), "a new or empty folder")
    out.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except InvariantBroken:
        raise
    except LeaseholdError:
        rmtree(out)
        raise


@contextmanager
def collecting_less_garbage() -> Iterator[None]:
    """Look for reference cycles rarely: the core makes none, and looking costs a tenth of the time.

    The collectors of other implementations, such as PyPy's, have no thresholds, and are left as they are.
    """
    if sys.implementation.name != "cpython":
        yield
        return
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
