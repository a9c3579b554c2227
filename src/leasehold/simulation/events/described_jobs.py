"""The nodes and the jobs that a scenario describes, as the scheduler of jobs takes them.

Apart from what reads a scenario, because most have none, and what schedules jobs is large.
"""

from collections.abc import Iterable, Iterator
from itertools import count

from leasehold.jobs.job import JobRequest
from leasehold.jobs.settings import JobSettings
from leasehold.matching.needs import Amounts, Job, Needs
from leasehold.matching.nodes import NodeCapabilities
from leasehold.matching.software import software
from leasehold.model.request import LEASE_TYPES
from leasehold.simulation.events.jobs import JobScenario, SimulatedJob
from leasehold.simulation.scenario.jobs import JobEntry, NodeKind, installed_software


def job_scenario(
    nodes: Iterable[tuple[str, Iterable[NodeKind]]], jobs: Iterable[JobEntry], before_ms: int | None
) -> JobScenario:
    """Make the nodes of all clusters, and the jobs that are submitted before this time."""
    there: list[NodeCapabilities] = []
    for cluster, kinds in nodes:
        numbers = count(1)
        for kind in kinds:
            there += _nodes(kind, cluster, numbers)
    numbers = count(1)
    listed = [job for entry in jobs for job in _jobs(entry, numbers, before_ms)]
    return JobScenario(nodes=tuple(there), jobs=tuple(listed), settings=JobSettings(), builds=False)


def _nodes(kind: NodeKind, cluster: str, numbers: Iterator[int]) -> Iterator[NodeCapabilities]:
    """Give as many nodes as it says."""
    total, there = Amounts(kind.cores, kind.memory_mib, kind.disk_mib), installed_software(kind.software)
    for _ in range(kind.count):
        name = f"{cluster}/n{next(numbers)}"
        yield NodeCapabilities(name=name, total=total, cpu_mhz=kind.cpu_mhz, software=there, place=cluster)


def _jobs(entry: JobEntry, numbers: Iterator[int], before_ms: int | None) -> Iterator[SimulatedJob]:
    """Give the jobs that are submitted before this time."""
    needs = Needs(
        amounts=Amounts(entry.cores, entry.memory_mib, entry.disk_mib),
        execution_ms=entry.runs_ms if entry.estimate_ms is None else entry.estimate_ms,
        nodes=entry.nodes,
        need=entry.need,
        cpu_mhz=entry.cpu_mhz,
        software=tuple(map(software, entry.software)),
    )
    for at_ms in (entry.at_ms + index * entry.every_ms for index in range(entry.count)):
        if before_ms is not None and at_ms >= before_ms:
            return
        deadline_ms = None if entry.within_ms is None else at_ms + entry.within_ms
        job = Job(job_id=next(numbers), submitted_ms=at_ms, needs=needs, deadline_ms=deadline_ms)
        request = JobRequest(
            job=job,
            command=("run",),
            consumer=entry.consumer,
            lease_type=LEASE_TYPES[entry.type],
            restarts=entry.restarts,
        )
        yield SimulatedJob(request, entry.runs_ms)
