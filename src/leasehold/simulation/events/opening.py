"""From what a scenario says to the sources of its events."""

from collections import Counter
from pathlib import Path
from typing import Protocol

from leasehold.gateway.gateway import Gateway
from leasehold.simulation.events.agreements import AgreementTimeline
from leasehold.simulation.events.failures import NodeFailures, cluster_nodes
from leasehold.simulation.events.native import NativeSchedulers
from leasehold.simulation.events.starts import MachineStarts
from leasehold.simulation.events.timeline import SiteTimeline
from leasehold.simulation.events.users import Users
from leasehold.simulation.kernel import EventSource
from leasehold.simulation.scenario.events import AGREEMENT_KINDS
from leasehold.simulation.scenario.spec import LogStream, Scenario
from leasehold.simulation.workload.cancelled import cancelled_after_ms


class CountingSource(EventSource, Protocol):
    """A source that counts what happened, by kind."""

    counts: Counter[str]


def open_sources(scenario: Scenario, gateway: Gateway) -> list[CountingSource]:
    """Give the sources of events that a scenario asks for, its sizes settled; nearly always none."""
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
    logged = {
        stream.name: cancelled_after_ms(Path(stream.path))
        for stream in scenario.streams
        if isinstance(stream, LogStream) and stream.replay_cancelled
    }
    if users or logged or any(entry.kind in ("cancel", "extend") for entry in scenario.timeline):
        sources.append(Users(gateway, users, scenario.timeline, logged, scenario.seed))
    if any(entry.kind in AGREEMENT_KINDS for entry in scenario.timeline):
        sources.append(AgreementTimeline(scenario.agreements, scenario.timeline))
    timeline = SiteTimeline(scenario.timeline)
    if not timeline.is_over:
        sources.append(timeline)
    return sources
