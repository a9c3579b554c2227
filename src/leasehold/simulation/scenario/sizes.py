"""How large are the clusters of which a log has to say it? Found in one pass over the jobs, before a run."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from leasehold.model.errors import InputError, InvalidField
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.scenario.spec import ClusterSpec, LogStream, Scenario
from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.sizing import Demand, cluster_sizes, local_demand
from leasehold.simulation.workload.swf import swf_header


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


def _noting_makers(jobs: Iterator[Job], makers: dict[str, str]) -> Iterator[Job]:
    """Pass the jobs on, and note which stream was the first to name each cluster."""
    for job in jobs:
        if job.site is not None:
            makers.setdefault(job.site, job.source)
        yield job


def _sized(cluster: ClusterSpec, demands: dict[str, Demand], logs: list[LogStream]) -> ClusterSpec:
    if isinstance(cluster.slots, int):
        return cluster
    own = [stream for stream in logs if stream.site == cluster.name]
    return replace(cluster, slots=_slots(cluster.name, cluster.slots, demands, own))


def _slots(site: str, rule: int | str, demands: dict[str, Demand], logs: list[LogStream]) -> int:
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
