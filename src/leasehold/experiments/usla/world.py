"""One run: the product's own gateway, sites and agreements in the simulated world, and a light observer.

Each virtual domain is one site of slots, and each job a Suspendable guest of one VM. No site has users of its
own here, so that nobody is ever preempted, and what the agreements do is all that there is to see.

A job can go nowhere but to the domain that it is bound to. So five gateways of one site each decide what one
gateway of five would (tests/experiments/test_world.py), in a third of the time: nobody is asked about again
because something happened in another domain.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import ClassVar

from leasehold.experiments.usla.agreements import agreements, consumer_name, domain_name, site_name
from leasehold.experiments.usla.metrics import Measured, Meter
from leasehold.experiments.usla.settings import MS_PER_S, Configuration
from leasehold.experiments.usla.workload import Work, workload
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.gateway.site import Site
from leasehold.leasing.disciplines import reservation_depth
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.agreement import CPUS
from leasehold.model.effect import LeaseClosed, StartLease
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policy import Dispatch, Hold, Information, RoutingPolicy, RoutingView
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.places import Place
from leasehold.simulation.kernel import Handler, World
from leasehold.simulation.workload.job import Job

CellKey = tuple[int, int]
FCFS = reservation_depth("fcfs")


class WhereItIsBound(RoutingPolicy):
    """Goes to the one site of its virtual domain, once a machine is free there.

    So whoever is admitted and was submitted first comes first: nobody who waits has a place at the site.
    """

    name: ClassVar[str] = "where-it-is-bound"
    information: ClassVar[Information] = Information.LIVE

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Dispatch | Hold:  # noqa: ARG002
        """Look at its site alone."""
        site = view.sites[0].name
        live = view.live(site)
        return Dispatch(site) if live.unclaimed_vms > 0 else Hold()


class AtOnce(RoutingPolicy):
    """Goes to the one site of its virtual domain at once, and waits in the queue there."""

    name: ClassVar[str] = "at-once"
    information: ClassVar[Information] = Information.STATIC

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Dispatch:  # noqa: ARG002
        """Look at its site alone."""
        return Dispatch(view.sites[0].name)


def run(configuration: Configuration, seed: int) -> Measured:
    """Let the hour pass, and measure."""
    horizon_ms = configuration.horizon_s * MS_PER_S
    jobs = workload(configuration, seed)
    meter = Meter(configuration.slots_per_domain, configuration.domains, configuration.shares, horizon_ms)
    for domain in range(configuration.domains):
        bound = [work for work in jobs if work.domain == domain]
        world = World(gateway(configuration, [domain]), as_jobs(bound), Watch(meter, bound))
        for _ in world.run(horizon_ms):
            pass
    return meter.read()


def gateway(configuration: Configuration, domains: Sequence[int]) -> Gateway:
    """Put a gateway, the sites of these domains and their agreements together."""
    names = [(site_name(domain), domain_name(domain)) for domain in domains]
    slots = configuration.slots_per_domain
    places = [Place(site, {CPUS: slots}, domain) for site, domain in names]
    return Gateway(
        [Site(_site_settings(site, slots)) for site, _ in names],
        Routing(_policy(configuration)(Random(0)), learns=False, tick_ms=configuration.horizon_s * MS_PER_S),
        sharing=Sharing(places, agreements=agreements(configuration, domains)),
    )


def _policy(configuration: Configuration) -> type[RoutingPolicy]:
    """Without limits the queue of a site is in order of submission by itself."""
    is_unlimited = configuration.agreement.kind == "no-limit"
    return AtOnce if is_unlimited or configuration.order == "in-turn" else WhereItIsBound


def _site_settings(name: str, slots: int) -> SiteSettings:
    return SiteSettings(name, slots, victim_policy("mov"), local_depth=FCFS, guest_depth=FCFS)


def as_jobs(works: Iterable[Work]) -> Iterator[tuple[int, Job]]:
    """Give them as the simulated world takes them, numbered from 0 on."""
    for number, work in enumerate(works):
        yield (
            number,
            Job(
                work.submit_ms,
                1,
                work.duration_ms,
                work.duration_ms,
                consumer=consumer_name(work.consumer),
                lease_type=LeaseType.SUSPENDABLE,
                domain=domain_name(work.domain),
            ),
        )


class Watch:
    """Tells the meter what happens; it writes nothing down."""

    def __init__(self, meter: Meter, works: list[Work]) -> None:
        """Watch over these jobs, whose requests are numbered from 0 on."""
        self._meter = meter
        self._works = works
        self.handlers: Mapping[type, Handler] = {StartLease: self._start, LeaseClosed: self._close}

    def _cell(self, number: int) -> CellKey:
        work = self._works[number]
        return work.consumer, work.domain

    def submitted(self, request: Request, job: Job) -> None:
        """Count a job that comes."""
        self._meter.submit(self._cell(request.id), job.submit_ms)

    def _start(self, effect: StartLease, now_ms: int) -> None:
        lease = effect.lease
        self._meter.start(self._cell(lease.id), now_ms - lease.request.submit_ms, now_ms)

    def _close(self, effect: LeaseClosed, now_ms: int) -> None:
        lease = effect.lease
        if lease.state is LeaseState.COMPLETED:
            self._meter.complete(self._cell(lease.id), lease.request.duration_ms, now_ms)
