"""Simulate before signing: what would these agreements do to all waiting, preemptions and use?

The same requests are played twice on the same clusters: under what is agreed now, and with the agreements of
a document besides. Nothing is written; both runs are only counted.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from leasehold.configuration.agreements import AgreementDocument
from leasehold.configuration.tables import domain_by_site
from leasehold.forecasting.world import Handler
from leasehold.model.effect import Decision, LeaseClosed, Used
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome
from leasehold.model.request import NEVER_MS, Request
from leasehold.sharing.enforcement import Sharing
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.run import RunProgress, collecting_less_garbage, last_instant_ms, make_gateway
from leasehold.simulation.scenario.sites import check_agreements, places, routing
from leasehold.simulation.scenario.sources import fitting, open_streams, with_sizes
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.workload.combine import numbered
from leasehold.simulation.workload.job import WorkloadJob

OWN_USERS = "(own users)"
"""On whose account the local requests of all clusters are counted."""

_MS_PER_H = 3_600_000
_MS_PER_S = 1_000


@dataclass(frozen=True, slots=True)
class Count:
    """What a party got; waiting is from the ready time to the first start of those that started."""

    requests: int = 0
    wait_mean_s: float | None = None
    wait_p95_s: float | None = None
    preemptions: int = 0
    refused: int = 0
    slot_h: float = 0.0


@dataclass(frozen=True, slots=True)
class Counted:
    """What each got, by consumer and by provider; ``held`` as in a `Trial`."""

    consumers: dict[str, Count]
    providers: dict[str, Count]
    held: dict[str, tuple[int, int]]


@dataclass(slots=True)
class _Account:
    """What is added up for one name."""

    waits_ms: list[int] = field(default_factory=list)
    requests: int = 0
    preemptions: int = 0
    refused: int = 0
    slot_ms: int = 0

    def close(self, lease: Lease) -> None:
        self.requests += 1
        self.preemptions += lease.preemptions
        self.refused += lease.state is LeaseState.REFUSED
        if lease.first_start_ms >= 0:
            self.waits_ms.append(lease.first_start_ms - lease.request.ready_ms)

    def count(self) -> Count:
        waits_s = pl.Series(self.waits_ms, dtype=pl.Int64) / _MS_PER_S
        mean, p95 = waits_s.mean(), waits_s.quantile(0.95)
        return Count(
            requests=self.requests,
            wait_mean_s=mean if isinstance(mean, float) else None,
            wait_p95_s=p95,
            preemptions=self.preemptions,
            refused=self.refused,
            slot_h=self.slot_ms / _MS_PER_H,
        )


class Counters:
    """An observer of the world that adds up; ``of_path`` and ``of_site`` say on which account."""

    def __init__(self, of_path: Callable[[str], str], of_site: Callable[[str], str]) -> None:
        """Begin with nothing counted."""
        self._of_path, self._of_site = of_path, of_site
        self._consumers: defaultdict[str, _Account] = defaultdict(_Account)
        self._providers: defaultdict[str, _Account] = defaultdict(_Account)
        self._held: defaultdict[str, set[int]] = defaultdict(set)
        self._refused: defaultdict[str, set[int]] = defaultdict(set)
        self.handlers: Mapping[type, Handler] = {
            Used: self._used,
            Decision: self._decided,
            LeaseClosed: self._closed,
        }

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Nothing is kept of a submission: every request is closed, or open at the end."""

    def _used(self, effect: Used, now_ms: int) -> None:  # noqa: ARG002 - the effect has its own times
        self._hold(effect.lease, effect.site, effect.end_ms - effect.begin_ms)

    def _hold(self, lease: Lease, site: str, held_ms: int) -> None:
        self._consumers[self._consumer(lease)].slot_ms += lease.vms * held_ms
        if not lease.request.is_local:
            self._providers[self._of_site(site)].slot_ms += lease.vms * held_ms

    def _decided(self, effect: Decision, now_ms: int) -> None:  # noqa: ARG002 - when does not matter
        if effect.breach is None or not effect.breach.agreement:
            return
        kept = self._refused if effect.outcome is Outcome.REFUSE else self._held
        kept[effect.breach.agreement].add(effect.lease.id)

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:  # noqa: ARG002 - when does not matter
        self._close(effect.lease)

    def _close(self, lease: Lease) -> None:
        self._consumers[self._consumer(lease)].close(lease)
        if lease.site and not lease.request.is_local:
            self._providers[self._of_site(lease.site)].close(lease)

    def _consumer(self, lease: Lease) -> str:
        return OWN_USERS if lease.request.is_local else self._of_path(lease.request.path)

    def finish(self, unfinished: Iterable[Lease], now_ms: int) -> None:
        """Count what is still open when the run is over."""
        for lease in unfinished:
            if lease.held_since_ms >= 0:
                self._hold(lease, lease.site, now_ms - lease.held_since_ms)
            self._close(lease)

    def counted(self) -> Counted:
        """Give everything that was counted."""
        names = self._held.keys() | self._refused.keys()
        return Counted(
            consumers={name: account.count() for name, account in self._consumers.items()},
            providers={name: account.count() for name, account in self._providers.items()},
            held={name: (len(self._held[name]), len(self._refused[name])) for name in names},
        )


@dataclass(frozen=True, slots=True)
class PlayedRequests:
    """What is played: the clusters, with what is agreed there now, and the requests, however often."""

    scenario: Scenario
    jobs: Callable[[], Iterator[WorkloadJob]]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """What a party got without the document, and with it."""

    name: str
    without: Count
    with_it: Count


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The outcome.

    ``consumers``  each VO, or the group or user an agreement names within it, and the clusters' own users
    ``providers``  what guests got at each virtual domain, and at each site in none
    ``held``       for each agreement of the document, and others that were the reason in its run: the guests
                   that it held back, and those that it refused
    """

    consumers: tuple[SideBySide, ...]
    providers: tuple[SideBySide, ...]
    held: dict[str, tuple[int, int]]


def requests_of(scenario: Scenario) -> PlayedRequests:
    """Take the requests of a scenario; its logs are read again for each run.

    Raises InputError or InvalidField as a run does.
    """
    scenario = with_sizes(scenario)
    return PlayedRequests(scenario, lambda: fitting(open_streams(scenario, []), scenario))


def try_out(
    past: PlayedRequests, document: AgreementDocument, passing: Callable[[RunProgress], None] = lambda _: None
) -> WhatIf:
    """Play the past without the agreements of a document and with them; ``passing`` receives the progress.

    Raises InvalidField or UnknownName, with a place in the document as field, for agreements that do not fit
    the clusters or each other.
    """
    agreed = with_document(past.scenario, document)
    accounts = AccountNames(agreed)
    without = _played(past, past.scenario, accounts, passing)
    with_it = _played(past, agreed, accounts, passing)
    names = [agreement.name for agreement in document.agreements]
    names += sorted(with_it.held.keys() - set(names))
    return WhatIf(
        consumers=_side_by_side(without.consumers, with_it.consumers),
        providers=_side_by_side(without.providers, with_it.providers),
        held={name: with_it.held.get(name, (0, 0)) for name in names},
    )


def with_document(scenario: Scenario, document: AgreementDocument) -> Scenario:
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


class AccountNames:
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


def _played(
    past: PlayedRequests, scenario: Scenario, accounts: AccountNames, passing: Callable[[RunProgress], None]
) -> Counted:
    """Let time pass once."""
    sharing = Sharing(places(scenario), scenario.sharing.settings(), scenario.agreements)
    gateway = make_gateway(scenario, replace(routing(scenario), learns=True), sharing)
    tally = Counters(accounts.of_path, accounts.of_site)
    read = 0

    def jobs() -> Iterator[WorkloadJob]:
        nonlocal read
        for read, job in enumerate(past.jobs(), 1):  # noqa: B007 - reported by `passing`
            yield job

    world = SimulatedWorld(gateway, numbered(jobs()), tally)
    until_ms = last_instant_ms(scenario)
    with collecting_less_garbage():
        for now_ms in world.run(until_ms):
            passing(RunProgress(read, now_ms, None, None))
    tally.finish(gateway.leases.values(), world.now_ms if until_ms == NEVER_MS else until_ms)
    return tally.counted()


def _side_by_side(without: dict[str, Count], with_it: dict[str, Count]) -> tuple[SideBySide, ...]:
    """Put both runs side by side, by usage without the document, largest first."""
    names = sorted(without.keys() | with_it.keys(), key=lambda name: (-without.get(name, Count()).slot_h, name))
    return tuple(SideBySide(name, without.get(name, Count()), with_it.get(name, Count())) for name in names)
