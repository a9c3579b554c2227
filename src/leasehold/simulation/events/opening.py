"""From what a scenario says to the sources of its events."""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.peering import AskWhen
from leasehold.model.request import NEVER_MS
from leasehold.routing.registry import routing_policy
from leasehold.simulation.events.agreements import AgreementTimeline
from leasehold.simulation.events.failures import NodeFailures, cluster_nodes
from leasehold.simulation.events.managed import ManagedCluster, ManagedClusters
from leasehold.simulation.events.native import NativeSchedulers
from leasehold.simulation.events.starts import MachineStarts
from leasehold.simulation.events.timeline import SiteTimeline
from leasehold.simulation.events.users import Users
from leasehold.simulation.kernel import EventSource, Observer
from leasehold.simulation.scenario.events import AGREEMENT_KINDS, TimelineEntry
from leasehold.simulation.scenario.sites import site_settings
from leasehold.simulation.scenario.spec import LogStream, Scenario
from leasehold.simulation.workload.streams import random_stream

FIRST_LEASE_OF_JOBS = 1 << 40
"""Leases that jobs of ``[[job]]`` ask for are numbered from here on: streams have the numbers below."""


class CountingSource(EventSource, Protocol):
    """A source that counts what happened, by kind."""

    counts: Counter[str]


def open_managed(scenario: Scenario, gateway: Gateway, observer: Observer) -> ManagedClusters | None:
    """Make the clusters that decide for themselves, known to the gateway; None where there are none."""
    clusters = {}
    for settings, cluster in zip(site_settings(scenario), scenario.clusters, strict=True):
        if cluster.manager_delay_ms is not None:
            alone = Routing(routing_policy("rr")(random_stream(scenario.seed, "manager", cluster.name)), learns=False)
            manager = Gateway([settings], alone, scenario.reference_mips)
            silences = _silences(scenario.timeline, cluster.name)
            ask = AskWhen(cluster.peer_ask) if cluster.peer_ask else None
            clusters[cluster.name] = ManagedCluster(manager, observer, cluster.manager_delay_ms, silences, ask)
    return ManagedClusters(gateway, clusters, scenario.timeline) if clusters else None


def _silences(timeline: Iterable[TimelineEntry], name: str) -> list[tuple[int, int]]:
    """Give from when until when a cluster is out of touch."""
    found: list[tuple[int, int]] = []
    for entry in sorted((one for one in timeline if one.site == name), key=lambda one: one.at_ms):
        if entry.kind == "unreachable":
            found.append((entry.at_ms, NEVER_MS if entry.lasts_ms is None else entry.at_ms + entry.lasts_ms))
        elif entry.kind == "reachable":
            found = [(begin_ms, min(end_ms, entry.at_ms)) for begin_ms, end_ms in found]
    return found


def open_sources(scenario: Scenario, gateway: Gateway, *, with_guests: bool = True) -> list[CountingSource]:
    """Give the other sources of events that a scenario asks for, its sizes settled; nearly always none."""
    sources: list[CountingSource] = []
    nodes = {
        cluster.name: cluster_nodes(
            gateway.sites[cluster.name].settings.slots,
            cluster.terms.overhead.vms_per_node,
            cluster.failures,
            failures,
            scenario.seed,
            cluster.name,
        )
        for cluster in scenario.clusters
        if (failures := [one for one in scenario.timeline if (one.kind, one.site) == ("node-failure", cluster.name)])
        or cluster.failures is not None
    }
    if nodes:
        sources.append(NodeFailures(gateway, nodes))
    orders = {cluster.name: cluster.native_order for cluster in scenario.clusters if cluster.native_order}
    if orders:
        sources.append(NativeSchedulers(gateway, orders))
    starts = {cluster.name: cluster.starts for cluster in scenario.clusters if cluster.starts is not None}
    if starts:
        sources.append(MachineStarts(gateway, starts, scenario.seed))
    users = {stream.name: stream.users for stream in scenario.streams if stream.users is not None}
    is_replayed = any(isinstance(stream, LogStream) and stream.replay_cancelled for stream in scenario.streams)
    if users or is_replayed or any(entry.kind in ("cancel", "extend") for entry in scenario.timeline):
        sources.append(Users(gateway, users, scenario.timeline, scenario.seed))
    if any(entry.kind in AGREEMENT_KINDS for entry in scenario.timeline):
        sources.append(AgreementTimeline(scenario.agreements, scenario.timeline))
    managed = {cluster.name for cluster in scenario.clusters if cluster.manager_delay_ms is not None}
    entries = [one for one in scenario.timeline if one.site not in managed or one.kind in ("drain", "resume")]
    timeline = SiteTimeline(entries)
    if not timeline.is_over:
        sources.append(timeline)
    if scenario.jobs and with_guests:
        from leasehold.simulation.events.described_jobs import job_scenario  # noqa: PLC0415 - large
        from leasehold.simulation.events.jobs import JobCounts, JobsOnNodes  # noqa: PLC0415 - large

        nodes_of = [(cluster.name, cluster.nodes) for cluster in scenario.clusters]
        jobs = job_scenario(nodes_of, scenario.jobs, scenario.horizon_ms)
        random = random_stream(scenario.seed, "jobs")
        sources.append(JobsOnNodes(gateway, jobs, JobCounts(), random, first_lease_id=FIRST_LEASE_OF_JOBS))
    return sources
