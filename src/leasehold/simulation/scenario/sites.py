"""From what a scenario says to what the gateway needs: its sites, how it routes, and what is agreed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

from leasehold.configuration import terms
from leasehold.configuration.policies import find_routing_policy
from leasehold.configuration.tables import check_sites, domain_by_site
from leasehold.gateway.gateway import Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.model.agreement import CPUS, EVERYBODY, MEMORY, Agreement
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.routing.moments import StreamMoments
from leasehold.sharing.book import check_delegation
from leasehold.sharing.enforcement import ALLOW, Sharing
from leasehold.sharing.parties import Provider, Providers
from leasehold.sharing.rules import gpus_had
from leasehold.simulation.scenario.events import AGREEMENT_KINDS, agreements_after
from leasehold.simulation.scenario.jobs import resources_of
from leasehold.simulation.scenario.spec import ClusterSpec, LogStream, ModelStream, Scenario
from leasehold.simulation.workload.das2 import Das2Parameters
from leasehold.simulation.workload.streams import random_stream


def site_settings(scenario: Scenario) -> list[SiteSettings]:
    """Give the settings of every cluster, in the order of the scenario.

    Raises InvalidField for a cluster whose size is still a rule: see `sizes.with_sizes`.
    """
    return [_settings(cluster) for cluster in scenario.clusters]


def _settings(cluster: ClusterSpec) -> SiteSettings:
    settings = terms.site_settings(cluster.name, _number_of_slots(cluster), cluster.terms)
    if cluster.images:
        settings = replace(settings, images=cluster.images)
    if cluster.plan == "nodes":
        settings = replace(settings, nodes=resources_of(cluster.nodes))
    confirms = cluster.starts is not None or bool(cluster.native_order)
    return replace(settings, confirms_starts=True) if confirms else settings


def _number_of_slots(cluster: ClusterSpec) -> int:
    if not isinstance(cluster.slots, int):
        raise InvalidField(f"slots of cluster {cluster.name}", cluster.slots, "a number")
    return cluster.slots


def routing(scenario: Scenario) -> Routing:
    """Return the routing policy, with its own random stream and the configured moments."""
    gateway, moments = scenario.gateway, told_moments(scenario)
    return Routing(
        policy=find_routing_policy(gateway.policy)(random_stream(scenario.seed, "routing")),
        told_external=moments.external,
        told_locals=moments.local,
        try_elsewhere=gateway.try_elsewhere,
        use_free_room=gateway.use_free_room,
        tick_ms=gateway.tick_ms,
        learns=scenario.has_externals,
        max_restarts=gateway.max_restarts,
    )


@dataclass(frozen=True, slots=True)
class ToldMoments:
    """The configured streams: the external one, and those of clusters. All others are learnt."""

    external: StreamMoments | None
    local: dict[str, StreamMoments]


def told_moments(scenario: Scenario) -> ToldMoments:
    """Return the true moments of the model's streams, if the scenario sets ``moments`` to ``told``.

    A stream that is partly or wholly from a log is excluded: its future moments are unknown.
    So is one with co-allocations: they are not routed, and the rest has other moments.
    """
    if scenario.gateway.moments != "told":
        return ToldMoments(None, {})
    logs = [stream for stream in scenario.streams if isinstance(stream, LogStream)]
    whose = [None, *(cluster.name for cluster in scenario.clusters)]
    learnt = {site for site in whose if any(_may_have_jobs_of(site, log) for log in logs)}
    learnt |= {None for stream in scenario.streams if stream.together is not None}
    known = {site: _moments(scenario, site) for site in whose if site not in learnt}
    external = known.pop(None, None)
    return ToldMoments(external, {site: moments for site, moments in known.items() if site is not None})


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


def sharing(scenario: Scenario) -> Sharing | None:
    """Give what enforces the agreements, nothing used yet; None for a scenario in which nothing is agreed.

    ``scenario`` has its sizes settled (`sizes.with_sizes`). Raises as `check_agreements` does.
    """
    if not is_about_sharing(scenario):
        return None
    check_agreements(scenario)
    return Sharing(places(scenario), scenario.sharing.settings(), scenario.agreements)


def is_about_sharing(scenario: Scenario) -> bool:
    """Whether a scenario has agreements, or anything else that requires their enforcement."""
    is_bound = any(stream.domain or stream.claims for stream in scenario.streams)
    strict = scenario.sharing.without_agreement != ALLOW
    changes = any(entry.kind in AGREEMENT_KINDS for entry in scenario.timeline)
    return bool(scenario.agreements or scenario.domains or is_bound or strict or changes)


def places(scenario: Scenario) -> list[Provider]:
    """Give every cluster with what it has of each resource, and its virtual domain."""
    domains = domain_by_site(scenario.domains)
    return [
        Provider(
            cluster.name,
            {CPUS: _slots_or_some(cluster), **_gpus(cluster), **cluster.resources},
            domains.get(cluster.name, ""),
        )
        for cluster in scenario.clusters
    ]


def _gpus(cluster: ClusterSpec) -> dict[str, int]:
    return gpus_had(resources_of(cluster.nodes)) if cluster.plan == "nodes" else {}


def _slots_or_some(cluster: ClusterSpec) -> int:
    """Give the slots of a cluster; where a log has yet to say, that there are some."""
    return cluster.slots if isinstance(cluster.slots, int) else 1


def check_agreements(scenario: Scenario) -> None:
    """Refuse agreements, domains and streams that do not fit the clusters, or each other.

    Raises InvalidField or UnknownName with the place of the key as field.
    """
    names = [cluster.name for cluster in scenario.clusters]
    check_sites(scenario.domains, names)
    known = [*names, *(domain.name for domain in scenario.domains)]
    for index, stream in enumerate(scenario.streams):
        if stream.domain and stream.domain not in known:
            raise UnknownName(f"stream[{index}].domain", stream.domain, known)
    check_among(scenario.agreements, places(scenario))
    _check_changes(scenario)


def _check_changes(scenario: Scenario) -> None:
    """Follow the agreements through the timeline."""
    agreements, at_ms = scenario.agreements, [entry.at_ms for entry in scenario.timeline]
    for index in sorted(range(len(at_ms)), key=at_ms.__getitem__):
        entry, field = scenario.timeline[index], f"timeline[{index}].agreement"
        if entry.agreement and entry.agreement not in (names := [one.name for one in agreements]):
            raise UnknownName(field, entry.agreement, names)
        agreements, _ = agreements_after(agreements, entry)
        try:
            check_among(agreements, places(scenario))
        except InvalidField as error:
            raise InvalidField(f"{field}.{error.field.rpartition('.')[2]}", error.value, error.expected) from None


def check_among(agreements: Sequence[Agreement], sites: Iterable[Provider]) -> None:
    """Refuse agreements about what these sites do not have, or that pass on what their parents have not.

    Raises InvalidField or UnknownName with a place such as ``agreement[2].provider`` as field.
    """
    providers = Providers(sites)
    by_name = {agreement.name: agreement for agreement in agreements}
    for index, agreement in enumerate(agreements):
        try:
            _check_provider(agreement, providers)
            _check_parents(agreement, by_name, providers)
        except InvalidField as error:
            field = f"agreement[{index}].{error.field}"
            raise InvalidField(field, error.value, error.expected) from None


def _check_provider(agreement: Agreement, providers: Providers) -> None:
    known = sorted({over for site in providers.places for over in providers.over(site)})
    if agreement.provider not in known:
        raise UnknownName("provider", agreement.provider, known)
    through = agreement.consumer.removeprefix("@")
    if agreement.consumer.startswith("@") and through not in known:
        raise UnknownName("consumer", agreement.consumer, [f"@{name}" for name in known if name != EVERYBODY])
    if agreement.resource != MEMORY and not providers.capacity(agreement.provider, agreement.resource):
        expected = f"what {agreement.provider} has: its clusters name it under resources"
        raise InvalidField("resource", agreement.resource, expected)


def _check_parents(agreement: Agreement, by_name: dict[str, Agreement], providers: Providers) -> None:
    """Follow the parents up to a root agreement; raises if they form a cycle."""
    child, above = agreement, [agreement.name]
    while child.parent:
        if child.parent not in by_name:
            raise UnknownName("parent", child.parent, by_name)
        parent = by_name[child.parent]
        if parent.name in above:
            raise InvalidField("parent", agreement.parent, "an agreement that is not part of this one")
        above.append(parent.name)
        if child is agreement:
            check_delegation(child, parent, providers)
        child = parent
