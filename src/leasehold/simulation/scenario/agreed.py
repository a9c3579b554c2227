"""From the agreements of a scenario to what the gateway enforces; and whether they fit its clusters."""

from collections.abc import Iterable, Sequence

from leasehold.configuration.tables import check_sites, domain_by_site
from leasehold.model.agreement import CPUS, EVERYBODY, MEMORY, Agreement
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.sharing.book import check_delegation
from leasehold.sharing.enforcement import ALLOW, Sharing
from leasehold.sharing.parties import Provider, Providers
from leasehold.simulation.scenario.spec import ClusterSpec, Scenario


def sharing(scenario: Scenario) -> Sharing | None:
    """Give what enforces the agreements, nothing used yet; None for a scenario in which nothing is agreed.

    ``scenario`` has its sizes settled (`sizes.with_sizes`). Raises as `check_agreements` does.
    """
    if not is_about_sharing(scenario):
        return None
    check_agreements(scenario)
    return Sharing(places(scenario), scenario.sharing.settings(), scenario.agreements)


def is_about_sharing(scenario: Scenario) -> bool:
    """Whether a scenario has agreements, or anything else that only whoever enforces them can keep."""
    is_bound = any(stream.domain or stream.claims for stream in scenario.streams)
    strict = scenario.sharing.without_agreement != ALLOW
    return bool(scenario.agreements or scenario.domains or is_bound or strict)


def places(scenario: Scenario) -> list[Provider]:
    """Give every cluster with what it has of each resource, and its virtual domain."""
    domains = domain_by_site(scenario.domains)
    return [
        Provider(cluster.name, {CPUS: _slots(cluster), **cluster.resources}, domains.get(cluster.name, ""))
        for cluster in scenario.clusters
    ]


def _slots(cluster: ClusterSpec) -> int:
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
    """Follow the parents up to who passes nothing on; raises where there is no end to it."""
    child, above = agreement, [agreement.name]
    while child.parent:
        if child.parent not in by_name:
            raise UnknownName("parent", child.parent, by_name)
        parent = by_name[child.parent]
        if parent.name in above:
            raise InvalidField("parent", agreement.parent, "an agreement that is no part of this one")
        above.append(parent.name)
        if child is agreement:
            check_delegation(child, parent, providers)
        child = parent
