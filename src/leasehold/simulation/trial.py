"""Simulate before signing: what would these agreements do to everyone's waiting, preemptions and use?

The same requests are played twice on the same clusters: under what is agreed now, and with the agreements of
a document besides. Nothing is written; both runs are only counted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from leasehold.configuration.agreements import Document
from leasehold.configuration.tables import domain_by_site
from leasehold.sharing.enforcement import Sharing
from leasehold.simulation.kernel import NEVER_MS, World
from leasehold.simulation.run import Progress, collecting_less_garbage, last_instant_ms, make_gateway
from leasehold.simulation.scenario.agreed import check_agreements, places
from leasehold.simulation.scenario.sites import routing
from leasehold.simulation.scenario.sizes import with_sizes
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.scenario.widths import fitting
from leasehold.simulation.tally import Count, Counted, Tally
from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.splitting import numbered


@dataclass(frozen=True, slots=True)
class Past:
    """What is played: the clusters, with what is agreed there now, and the requests, however often."""

    scenario: Scenario
    jobs: Callable[[], Iterator[Job]]


@dataclass(frozen=True, slots=True)
class Beside:
    """What somebody got without the document, and with it."""

    name: str
    without: Count
    with_it: Count


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome.

    ``consumers``  each VO, or whoever an agreement names within it, and the clusters' own users
    ``providers``  what guests got at each virtual domain, and at each site in none
    ``held``       for each agreement of the document, and others that were the reason in its run: the guests
                   that it held back, and those that it refused
    """

    consumers: tuple[Beside, ...]
    providers: tuple[Beside, ...]
    held: dict[str, tuple[int, int]]


def past_of(scenario: Scenario) -> Past:
    """Take the requests of a scenario; its logs are read again for each run.

    Raises InputError or InvalidField as a run does.
    """
    scenario = with_sizes(scenario)
    return Past(scenario, lambda: fitting(open_streams(scenario, []), scenario))


def try_out(past: Past, document: Document, passing: Callable[[Progress], None] = lambda _: None) -> Trial:
    """Play the past without the agreements of a document and with them; ``passing`` is told how far it is.

    Raises InvalidField or UnknownName, with a place in the document as field, for agreements that do not fit
    the clusters or each other.
    """
    agreed = with_document(past.scenario, document)
    accounts = Accounts(agreed)
    without = _played(past, past.scenario, accounts, passing)
    with_it = _played(past, agreed, accounts, passing)
    names = [agreement.name for agreement in document.agreements]
    names += sorted(with_it.held.keys() - set(names))
    return Trial(
        consumers=_beside(without.consumers, with_it.consumers),
        providers=_beside(without.providers, with_it.providers),
        held={name: with_it.held.get(name, (0, 0)) for name in names},
    )


def with_document(scenario: Scenario, document: Document) -> Scenario:
    """Add a document to what is agreed: agreements of the same name give way, and domains of the same sites.

    Raises InvalidField or UnknownName with a place in the document as field.
    """
    new = {agreement.name for agreement in document.agreements}
    kept = tuple(agreement for agreement in scenario.agreements if agreement.name not in new)
    moved = {site for domain in document.domains for site in domain.sites}
    named = {domain.name for domain in document.domains}
    domains = [d for d in scenario.domains if d.name not in named and not moved.intersection(d.sites)]
    sharing = scenario.sharing
    if document.sharing is not None:
        sharing = replace(document.sharing, starts_at_ms=sharing.starts_at_ms)
    agreed = replace(
        scenario,
        agreements=(*document.agreements, *kept),
        domains=(*document.domains, *domains),
        sharing=sharing,
    )
    check_agreements(agreed)
    return agreed


class Accounts:
    """On whose account a path is counted, and a site: the same in both runs."""

    def __init__(self, agreed: Scenario) -> None:
        self._named = {agreement.consumer for agreement in agreed.agreements}
        self._domains = domain_by_site(agreed.domains)
        self._known: dict[str, str] = {}

    def of_path(self, path: str) -> str:
        """Name the narrowest consumer of an agreement that a path belongs to, or else its VO."""
        if path not in self._known:
            parts = path.split("/")
            above = ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
            self._known[path] = next((name for name in above if name in self._named), parts[0])
        return self._known[path]

    def of_site(self, site: str) -> str:
        """Name the virtual domain of a site, or else the site."""
        return self._domains.get(site, site)


def _played(past: Past, scenario: Scenario, accounts: Accounts, passing: Callable[[Progress], None]) -> Counted:
    """Let time pass once."""
    sharing = Sharing(places(scenario), scenario.sharing.settings(), scenario.agreements)
    gateway = make_gateway(scenario, replace(routing(scenario), learns=True), sharing)
    tally = Tally(accounts.of_path, accounts.of_site)
    read = 0

    def jobs() -> Iterator[Job]:
        nonlocal read
        for read, job in enumerate(past.jobs(), 1):  # noqa: B007 - told by `passing`
            yield job

    world = World(gateway, numbered(jobs()), tally)
    until_ms = last_instant_ms(scenario)
    with collecting_less_garbage():
        for now_ms in world.run(until_ms):
            passing(Progress(read, now_ms, None, None))
    tally.finish(gateway.leases.values(), world.now_ms if until_ms == NEVER_MS else until_ms)
    return tally.counted()


def _beside(without: dict[str, Count], with_it: dict[str, Count]) -> tuple[Beside, ...]:
    """Put both runs side by side, who used most before first."""
    names = sorted(without.keys() | with_it.keys(), key=lambda name: (-without.get(name, Count()).slot_h, name))
    return tuple(Beside(name, without.get(name, Count()), with_it.get(name, Count())) for name in names)
