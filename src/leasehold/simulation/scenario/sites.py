"""From what a scenario says to what the gateway needs: settings of its sites, and how it routes."""

from dataclasses import dataclass
from math import sqrt

from leasehold.configuration import terms
from leasehold.configuration.policies import find_routing_policy
from leasehold.gateway.gateway import Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.model.errors import InvalidField
from leasehold.routing.moments import StreamMoments
from leasehold.simulation.scenario.spec import ClusterSpec, LogStream, ModelStream, Scenario
from leasehold.simulation.workload.das2 import Das2Parameters
from leasehold.simulation.workload.streams import random_stream


def site_settings(scenario: Scenario) -> list[SiteSettings]:
    """Give the settings of every cluster, in the order of the scenario.

    Raises InvalidField for a cluster whose size is still a rule: see `sizes.with_sizes`.
    """
    return [terms.site_settings(c.name, _number_of_slots(c), c.terms) for c in scenario.clusters]


def _number_of_slots(cluster: ClusterSpec) -> int:
    if not isinstance(cluster.slots, int):
        raise InvalidField(f"slots of cluster {cluster.name}", cluster.slots, "a number")
    return cluster.slots


def routing(scenario: Scenario) -> Routing:
    """Give the routing policy, with a random stream of its own, and what it is told."""
    gateway, told = scenario.gateway, told_moments(scenario)
    return Routing(
        policy=find_routing_policy(gateway.policy)(random_stream(scenario.seed, "routing")),
        told_external=told.external,
        told_locals=told.local,
        try_elsewhere=gateway.try_elsewhere,
        use_free_room=gateway.use_free_room,
        tick_ms=gateway.tick_ms,
        learns=scenario.has_externals,
    )


@dataclass(frozen=True, slots=True)
class ToldMoments:
    """The streams that are told: the external one, and each told cluster's own. The others are learnt."""

    external: StreamMoments | None
    local: dict[str, StreamMoments]


def told_moments(scenario: Scenario) -> ToldMoments:
    """Give the true moments of the model's streams, if the scenario says that they are told.

    A stream that is partly or wholly from a log is not told: nobody knows the moments of what is to come.
    Nor is one with co-allocations: they are not routed, and what is left has other moments.
    """
    if scenario.gateway.moments != "told":
        return ToldMoments(None, {})
    logs = [stream for stream in scenario.streams if isinstance(stream, LogStream)]
    whose = [None, *(cluster.name for cluster in scenario.clusters)]
    learnt = {site for site in whose if any(_may_have_jobs_of(site, log) for log in logs)}
    learnt |= {None for stream in scenario.streams if stream.together is not None}
    told = {site: _moments(scenario, site) for site in whose if site not in learnt}
    external = told.pop(None, None)
    return ToldMoments(external, {site: moments for site, moments in told.items() if site is not None})


def _may_have_jobs_of(site: str | None, log: LogStream) -> bool:
    if site is None:
        return log.has_externals
    return log.site == site or (log.cluster_by is not None and site.startswith(f"{log.cluster_by}-"))


def _moments(scenario: Scenario, site: str | None) -> StreamMoments:
    """Give the moments of all the model's streams of a cluster (None: of outside) taken together."""
    models = [s for s in scenario.streams if isinstance(s, ModelStream) and s.site == site]
    streams = [Das2Parameters.named(model.parameters).moments() for model in models]
    rates = [model.load * stream.rate_per_s for model, stream in zip(models, streams, strict=True)]
    rate = sum(rates)
    if rate == 0:
        return StreamMoments.told(0.0, 0.0, 0.0)
    shares = [part / rate for part in rates]
    parts = list(zip(shares, streams, strict=True))
    work = sum(share * stream.mean_work_vm_s for share, stream in parts)
    square = sum(share * stream.mean_square_work_vm2_s2 for share, stream in parts)
    return StreamMoments(
        rate_per_s=rate,
        mean_vms=sum(share * stream.mean_vms for share, stream in parts),
        mean_duration_s=sum(share * stream.mean_s for share, stream in parts),
        mean_vm_s=work,
        cv_vm_s=sqrt(max(0.0, square / (work * work) - 1.0)),
    )
