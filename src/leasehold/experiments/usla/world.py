"""One run: the product's own gateway, sites and agreements in the simulated world, and what is measured.

Each virtual domain is one site of slots, and each job a Suspendable guest of one VM. No site has users of its
own here, so that no job is ever preempted, and only the agreements have an effect.

A job can go nowhere but to the domain that it is bound to. So five gateways of one site each decide what one
gateway of five would (tests/experiments/test_world.py), in a third of the time: an event in one domain asks
about no job of another.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import ClassVar

import numpy as np

from leasehold.experiments.usla.plan import MS_PER_S, PPM, AgreementRun, AgreementTerms, plan
from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.backfill import reservation_depth
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.agreement import CPUS, Agreement, Commitment, Limit, NoLimit, TimeDecay, UsageDecay
from leasehold.model.effect import LeaseClosed, StartLease
from leasehold.model.errors import UnknownName
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policy import Dispatch, Hold, Information, RoutingPolicy, RoutingView
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.parties import Provider
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.workload.job import WorkloadJob

CellKey = tuple[int, int]
"""A consumer and a virtual domain."""
FCFS = reservation_depth("fcfs")
SHORTEST_MS = 1_000
PERCENT = 100.0


# The agreements: one between each virtual domain and each consumer

KINDS = ("no-limit", "commitment", "time-decay", "usage-decay")


def name_of(kind: str, number: int) -> str:
    """Name a virtual domain (``vd``), its site (``site``) or a consumer (``vo``) by its number."""
    return f"{kind}{number + 1}"


def agreements(configuration: AgreementRun, domains: Iterable[int]) -> list[Agreement]:
    """Give the agreements of these domains, in force during the whole run."""
    shares = list(zip(configuration.shares, configuration.bursts, strict=True))
    return [
        Agreement(f"{domain}-{consumer}", domain, consumer, limit_of(configuration.agreement, *share))
        for domain in (name_of("vd", number) for number in domains)
        for number, share in enumerate(shares)
        for consumer in [name_of("vo", number)]
    ]


def limit_of(terms: AgreementTerms, share: float, burst: float) -> Limit:
    """Give the limit of a consumer with this share of a virtual domain, and in bursts this one."""
    match terms.kind:
        case "no-limit":
            return NoLimit()
        case "commitment":
            epoch = burst if terms.epoch_is_burst else share
            epoch_s = terms.burst_s if terms.epoch_is_burst else terms.epoch_s
            return Commitment(_ppm(epoch), epoch_s * MS_PER_S, _ppm(burst), terms.burst_s * MS_PER_S)
        case "time-decay":
            factors = tuple(map(_ppm, terms.factors))
            return TimeDecay(_ppm(share), terms.window_s * MS_PER_S, factors, terms.normalise)
        case "usage-decay":
            steps = tuple((_ppm(reached), _ppm(factor)) for reached, factor in terms.steps)
            return UsageDecay(_ppm(share), terms.window_s * MS_PER_S, terms.windows, steps, terms.normalise)
    raise UnknownName("kind", terms.kind, KINDS)


def _ppm(fraction: float) -> int:
    return round(fraction * PPM)


# The workload (section 4.2): how many jobs of each consumer, when, how long, and for which virtual domain
#
# Every number comes from a stream named by seed, consumer and purpose. So two configurations see the same
# jobs as far as they have the same ones: uSLAs are compared pair by pair, on common random numbers.


@dataclass(frozen=True, slots=True)
class UslaWork:
    """One job: one CPU of one virtual domain, for a consumer; both are numbers from 0 on."""

    submit_ms: int
    duration_ms: int
    consumer: int
    domain: int

    @property
    def key(self) -> CellKey:
        """Its consumer and its virtual domain."""
        return self.consumer, self.domain


def workload(configuration: AgreementRun, seed: int) -> list[UslaWork]:
    """Draw all jobs of a run, in order of submission; those of the same moment by consumer."""
    every = [work for consumer in range(len(configuration.jobs)) for work in _of(configuration, seed, consumer)]
    return sorted(every, key=lambda work: (work.submit_ms, work.consumer))


def _of(configuration: AgreementRun, seed: int, consumer: int) -> Iterator[UslaWork]:
    jobs = configuration.jobs[consumer]
    from_s, until_s = configuration.window_of(consumer)
    when = np.sort(_stream(seed, consumer, "arrivals").random(jobs)) * (until_s - from_s) + from_s
    spread = _stream(seed, consumer, "lengths").standard_normal(jobs) * configuration.sigma_s
    lengths_ms = np.maximum(SHORTEST_MS, np.rint((configuration.mean_s + spread) * MS_PER_S))
    domains = _stream(seed, consumer, "domains").integers(configuration.domains, size=jobs)
    whole_ms = np.floor(when * MS_PER_S)
    for submit_ms, length_ms, domain in zip(whole_ms, lengths_ms, domains, strict=True):
        yield UslaWork(int(submit_ms), int(length_ms), consumer, int(domain))


def _stream(seed: int, consumer: int, purpose: str) -> np.random.Generator:
    name = f"usla\0{seed}\0{consumer}\0{purpose}"
    return np.random.default_rng(int.from_bytes(sha256(name.encode()).digest()))


# The metrics of section 4.3, in whole numbers, CPUs in parts per million, until the last division
#
# Util       CPU time of the jobs that completed, of all CPU time of the period
# Comp       jobs that completed, of all that were submitted
# Response   mean time from submission to start, of the jobs that started
# Starv      eq 2: of each consumer at each virtual domain, what it was entitled to and did not use (ST) as
#            far as jobs of it waited there (RT), over time; of all CPU time that was used (ET)
# Violation  eq 3: what each consumer used at each virtual domain above what it is entitled to (BET), over
#            time; of all CPU time of the period


class ConsumerAtDomain:
    """One consumer at one virtual domain; ``entitled`` is its share of the CPUs there, in ppm of a CPU."""

    __slots__ = ("_since_ms", "above", "entitled", "running", "starved", "used_ms", "waiting")

    def __init__(self, entitled: int) -> None:
        """Start at zero."""
        self.entitled = entitled
        self.waiting = 0
        self.running = 0
        self.used_ms = 0
        self.starved = 0
        self.above = 0
        self._since_ms = 0

    def change(self, now_ms: int, waiting: int, running: int) -> None:
        """Change the number of jobs that wait and run from now on."""
        self.pass_time(now_ms)
        self.waiting += waiting
        self.running += running

    def pass_time(self, now_ms: int) -> None:
        """Sum up the time since the last change."""
        passed_ms = now_ms - self._since_ms
        self._since_ms = now_ms
        self.used_ms += self.running * passed_ms
        missing = self.entitled - self.running * PPM
        if missing > 0:
            self.starved += min(missing, self.waiting * PPM) * passed_ms
        else:
            self.above -= missing * passed_ms


class Meter:
    """Counts what happens in a run."""

    def __init__(self, slots_per_domain: int, domains: int, shares: Sequence[float], horizon_ms: int) -> None:
        """Start at zero; ``shares`` are those of each consumer, of each virtual domain."""
        entitled = [round(share * PPM) * slots_per_domain for share in shares]
        self.cells: Mapping[tuple[int, int], ConsumerAtDomain] = {
            (consumer, domain): ConsumerAtDomain(of_one)
            for consumer, of_one in enumerate(entitled)
            for domain in range(domains)
        }
        self._cpu_ms = slots_per_domain * domains * horizon_ms
        self._horizon_ms = horizon_ms
        self.submitted = self.started = self.completed = 0
        self.waited_ms = self.completed_ms = 0

    def submit(self, cell: tuple[int, int], now_ms: int) -> None:
        """Count a job that comes."""
        self.submitted += 1
        self.cells[cell].change(now_ms, 1, 0)

    def start(self, cell: tuple[int, int], waited_ms: int, now_ms: int) -> None:
        """Count a job that starts."""
        self.started += 1
        self.waited_ms += waited_ms
        self.cells[cell].change(now_ms, -1, 1)

    def complete(self, cell: tuple[int, int], duration_ms: int, now_ms: int) -> None:
        """Count a job that is done."""
        self.completed += 1
        self.completed_ms += duration_ms
        self.cells[cell].change(now_ms, 0, -1)

    def read(self) -> dict[str, float]:
        """Give the ``METRICS`` at the end of the period; a mean of no values is zero."""
        for cell in self.cells.values():
            cell.pass_time(self._horizon_ms)
        used_ms = sum(cell.used_ms for cell in self.cells.values())
        starved = sum(cell.starved for cell in self.cells.values())
        above = sum(cell.above for cell in self.cells.values())
        return {
            "util": PERCENT * self.completed_ms / self._cpu_ms,
            "comp": PERCENT * self.completed / max(1, self.submitted),
            "response": self.waited_ms / max(1, self.started) / MS_PER_S,
            "starv": PERCENT * starved / (PPM * max(1, used_ms)),
            "violation": PERCENT * above / (PPM * self._cpu_ms),
        }


# The run


class WhereItIsBound(RoutingPolicy):
    """Goes to the one site of its virtual domain, once a machine is free there.

    So the admitted job that was submitted first starts first: no waiting job has a place at the site.
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


def measure(name: str, seed: int) -> dict[str, float]:
    """Run one configuration, by its name."""
    return run(plan().configurations[name], seed)


def run(configuration: AgreementRun, seed: int) -> dict[str, float]:
    """Let the hour pass, and measure."""
    horizon_ms = configuration.horizon_s * MS_PER_S
    jobs = workload(configuration, seed)
    meter = Meter(configuration.slots_per_domain, configuration.domains, configuration.shares, horizon_ms)
    for domain in range(configuration.domains):
        bound = [work for work in jobs if work.domain == domain]
        world = SimulatedWorld(gateway(configuration, [domain]), as_jobs(bound), AgreementObserver(meter, bound))
        for _ in world.run(horizon_ms):
            pass
    return meter.read()


def gateway(configuration: AgreementRun, domains: Sequence[int]) -> Gateway:
    """Put a gateway, the sites of these domains and their agreements together."""
    slots = configuration.slots_per_domain
    places = [Provider(name_of("site", one), {CPUS: slots}, name_of("vd", one)) for one in domains]
    # Without limits, the queue of a site is in order of submission by itself.
    is_at_once = configuration.agreement.kind == "no-limit" or configuration.order == "in-turn"
    policy = (AtOnce if is_at_once else WhereItIsBound)(Random(0))
    settings = [
        SiteSettings(place.name, slots, victim_policy("mov"), local_depth=FCFS, guest_depth=FCFS) for place in places
    ]
    return Gateway(
        settings,
        Routing(policy, learns=False, tick_ms=configuration.horizon_s * MS_PER_S),
        sharing=Sharing(places, agreements=agreements(configuration, domains)),
    )


def as_jobs(works: Iterable[UslaWork]) -> Iterator[tuple[int, WorkloadJob]]:
    """Give them as the simulated world takes them, numbered from 0 on."""
    for number, work in enumerate(works):
        consumer, domain = name_of("vo", work.consumer), name_of("vd", work.domain)
        length, kind = (work.duration_ms, work.duration_ms), LeaseType.SUSPENDABLE
        yield number, WorkloadJob(work.submit_ms, 1, *length, consumer=consumer, lease_type=kind, domain=domain)


class AgreementObserver:
    """Passes what happens on to the meter."""

    def __init__(self, meter: Meter, works: list[UslaWork]) -> None:
        """Observe these jobs, whose requests are numbered from 0 on."""
        self._meter = meter
        self._works = works
        self.handlers: Mapping[type, Handler] = {StartLease: self._start, LeaseClosed: self._close}

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Count a job that comes."""
        self._meter.submit(self._works[request.id].key, job.submit_ms)

    def _start(self, effect: StartLease, now_ms: int) -> None:
        lease = effect.lease
        self._meter.start(self._works[lease.id].key, now_ms - lease.request.submit_ms, now_ms)

    def _close(self, effect: LeaseClosed, now_ms: int) -> None:
        lease = effect.lease
        if lease.state is LeaseState.COMPLETED:
            self._meter.complete(self._works[lease.id].key, lease.request.duration_ms, now_ms)
