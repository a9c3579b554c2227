"""Are the intervals right? In a simulation, predict from what was known then, and score what happened.

A scenario is simulated as ever. Whenever one of a sample of requests has been submitted and has to wait, and whenever a
guest of the sample was suspended, futures are simulated from the state of the gateway at that instant: with run times
and arrivals learnt from what had happened by then, nothing of what the log says of later. What then happens is scored,
in the order in which it happens, and corrects later intervals (`leasehold.forecasting.calibration`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import chain
from random import Random

from leasehold.forecasting.calibration import (
    CONTINUES,
    END,
    ENOUGH,
    MISS,
    START,
    WHAT,
    Calibration,
    Interval,
    Kind,
    Raw,
    Score,
    interval_score,
)
from leasehold.forecasting.calibration import KEPT as KEPT_ERRORS
from leasehold.forecasting.estimates import whom
from leasehold.forecasting.futures import Forecast, Future, simulate, stream
from leasehold.forecasting.learnt import KEPT, Arrivals, RunTimes
from leasehold.forecasting.snapshot import (
    GatewayMemory,
    PastRequest,
    Snapshot,
    SnapshotSite,
    copied,
    memory_of,
    past_of,
)
from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway
from leasehold.model.effect import LeaseClosed, ResumeLease, StartLease, SuspendLease
from leasehold.model.errors import InvalidField
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import Request
from leasehold.simulation.events.opening import open_sources
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.run import collecting_less_garbage, make_gateway
from leasehold.simulation.scenario.sites import is_about_sharing, routing, sharing, told_moments
from leasehold.simulation.scenario.sources import fitting, open_streams, with_sizes
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.workload.combine import numbered
from leasehold.simulation.workload.job import WorkloadJob

MOST_LEASES, LEAST_FUTURES = 10_000, 4
"""Futures of one prediction, times open leases, are bounded: a queue of thousands is simulated at least four times."""

WARM_UP = 0.1
"""In this part of the requests nothing is predicted: little was seen."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What is predicted, and how.

    ``sample``        about how many requests of own users, and how many of guests
    ``replications``  futures for each prediction
    ``seed``          of the choice of requests and of the futures
    """

    sample: int = 300
    replications: int = 20
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Prediction:
    """One prediction, and what happened (None: not yet).

    ``raw_interval``  what the futures alone said
    ``baseline``      what is said without looking at anything but how long others of its kind had to wait, those that
                      waited last (quantiles of the climate, as meteorologists say); None where too few have
    """

    lease_id: int
    kind: Kind
    made_ms: int
    interval: Interval
    raw_interval: Interval
    baseline: Interval | None
    raw: Raw
    happened_ms: int | None = None
    is_overdue: bool = False

    @property
    def relative_width(self) -> float:
        """How wide the interval is, as a multiple of the time that it really took (at least a second)."""
        assert self.happened_ms is not None
        return (self.interval.high_ms - self.interval.low_ms) / max(1_000, self.happened_ms - self.made_ms)


@dataclass(frozen=True, slots=True)
class AgainstClimate:
    """How those predictions of one kind did that the climate (`Prediction.baseline`) could make too.

    ``kind, is_sure``           of which these are; at whatever site
    ``scored``                  how many there are
    ``covered, climate_covered``  how many intervals contained what happened
    ``loss, climate_loss``      sums of their interval scores (`leasehold.forecasting.calibration.interval_score`)
    """

    kind: Kind
    is_sure: bool
    scored: int
    covered: int
    loss: float
    climate_covered: int
    climate_loss: float

    @property
    def gain(self) -> float:
        """By which share the mean score is less than the climate's; below 0 where it is more."""
        return 1 - self.loss / self.climate_loss if self.climate_loss else 0.0


def against_climate(predictions: Iterable[Prediction]) -> list[AgainstClimate]:
    """Set scored predictions beside the climate, by what is predicted, for whom, and whether all futures agreed."""
    groups: dict[tuple[Kind, bool], list[tuple[Prediction, Interval, int]]] = {}
    for one in predictions:
        if one.baseline is not None and one.happened_ms is not None:
            groups.setdefault((_at_any_site(one.kind), one.raw.is_sure), []).append(
                (one, one.baseline, one.happened_ms)
            )
    return [
        AgainstClimate(
            kind,
            is_sure,
            len(found),
            sum(one.interval.covers(at_ms) for one, _, at_ms in found),
            sum(interval_score(one.interval, one.made_ms, at_ms) for one, _, at_ms in found),
            sum(climate.covers(at_ms) for _, climate, at_ms in found),
            sum(interval_score(climate, one.made_ms, at_ms) for one, climate, at_ms in found),
        )
        for (kind, is_sure), found in sorted(
            groups.items(), key=lambda item: (WHAT.index(item[0][0].what), item[0][0].whom, item[0][1])
        )
    ]


def _at_any_site(kind: Kind) -> Kind:
    return Kind(kind.what, kind.whom)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What came of it.

    ``predictions``  that were scored, in the order in which things happened
    ``scores``       by kind, the widest last; ``raw_scores`` of the futures alone, uncorrected
    ``trivial``      how many requests of the sample started at once, so that nothing was to be predicted
    ``unknown``      how many could not be predicted: in too many futures it did not happen
    """

    predictions: tuple[Prediction, ...]
    scores: tuple[Score, ...]
    raw_scores: tuple[Score, ...]
    trivial: int
    unknown: int


def terms_of(scenario: Scenario) -> Snapshot:
    """Give the terms of a scenario, its sizes settled, as a snapshot of a gateway with nothing in it."""
    told = told_moments(scenario)
    agreed = is_about_sharing(scenario)
    return Snapshot(
        0,
        scenario.reference_mips,
        scenario.gateway,
        tuple(
            SnapshotSite(
                cluster.name, int(cluster.slots), cluster.terms, dict(cluster.resources), confirms_starts=False
            )
            for cluster in scenario.clusters
        ),
        (),
        GatewayMemory({}, {}, {}),
        sharing=scenario.sharing,
        domains=scenario.domains,
        agreements=tuple(scenario.agreements) if agreed else None,
        told_external=told.external,
        told_locals=told.local,
        learns=scenario.has_externals,
    )


class _Watch:
    """Follows who waits, starts, is suspended and ends, and keeps the past that futures are made of."""

    def __init__(self) -> None:
        self.submitted_now: list[int] = []
        self.suspended_now: list[Lease] = []
        self.happened: list[tuple[int, str, int]] = []
        self.run_times = RunTimes()
        self.past: dict[bool, deque[PastRequest]] = {is_own: deque(maxlen=KEPT) for is_own in (True, False)}
        self.handlers: Mapping[type, Handler] = {
            StartLease: self._started,
            ResumeLease: self._continued,
            SuspendLease: self._suspended,
            LeaseClosed: self._closed,
        }
        self._jobs: dict[int, WorkloadJob] = {}

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        self.submitted_now.append(request.id)
        self._jobs[request.id] = job
        self.past[request.is_local].append(past_of(request))

    def _started(self, effect: StartLease, now_ms: int) -> None:
        self.happened.append((effect.lease.id, START, now_ms))

    def _continued(self, effect: ResumeLease, now_ms: int) -> None:
        self.happened.append((effect.lease.id, CONTINUES, now_ms))

    def _suspended(self, effect: SuspendLease, now_ms: int) -> None:  # noqa: ARG002 - it is now
        self.suspended_now.append(effect.lease)

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        lease = effect.lease
        job = self._jobs.pop(lease.id)
        if lease.state in (LeaseState.COMPLETED, LeaseState.KILLED):
            self.happened.append((lease.id, END, now_ms))
            self.run_times.learn(past_of(lease.request, min(job.actual_ms, job.requested_ms)))
        else:
            self.happened.append((lease.id, "", now_ms))


@dataclass(slots=True)
class _Scorer:
    """Makes predictions and scores them."""

    terms: Snapshot
    sampling: Sampling
    calibration: Calibration = field(default_factory=Calibration)
    uncorrected: Calibration = field(default_factory=Calibration)
    open: dict[tuple[int, str], Prediction] = field(default_factory=dict)
    due: list[tuple[int, int, str]] = field(default_factory=list)
    waits_ms: dict[Kind, deque[int]] = field(default_factory=dict)
    done: list[Prediction] = field(default_factory=list)
    unknown: int = 0

    def predict(self, gateway: Gateway, watch: _Watch, lease: Lease, what: str, now_ms: int) -> None:
        """Predict when a lease starts or continues, and when it is over."""
        snapshot = replace(
            self.terms, taken_ms=now_ms, leases=copied(gateway.leases.values()), memory=memory_of(gateway), usage=()
        )
        learnt = watch.run_times, Arrivals(chain(*watch.past.values()), now_ms)
        seed = stream(self.sampling.seed, lease.id, what).getrandbits(32)
        most = max(LEAST_FUTURES, MOST_LEASES // len(snapshot.leases))
        how = Forecast(min(self.sampling.replications, most), seed, to_the_end=what == CONTINUES)
        futures = simulate(snapshot, [lease.id], how, learnt=learnt)
        self._keep(lease, what, futures, now_ms)

    def _keep(self, lease: Lease, what: str, futures: list[Future], now_ms: int) -> None:
        fates = [future.fates[lease.id] for future in futures]
        times = [fate.start_ms if what == START else fate.continues_ms for fate in fates]
        known = [at_ms - now_ms for at_ms in times if at_ms is not None]
        if len(known) < len(times):
            self.unknown += 1
            return
        kind, raw = Kind(what, whom(lease.request), lease.site), Raw.of(known)
        made = self.open[lease.id, what] = Prediction(
            lease.id,
            kind,
            now_ms,
            self.calibration.interval(kind, raw, now_ms),
            raw.alone(now_ms),
            self._baseline(kind, now_ms),
            raw,
        )
        heappush(self.due, (made.interval.high_ms, lease.id, what))

    def _baseline(self, kind: Kind, now_ms: int) -> Interval | None:
        waits_ms = sorted(self.waits_ms.get(_at_any_site(kind), ()))
        if len(waits_ms) < ENOUGH:
            return None
        low, middle, high = (waits_ms[int(share * (len(waits_ms) - 1) + 0.5)] for share in (MISS, 0.5, 1 - MISS))
        return Interval(now_ms + low, now_ms + middle, now_ms + high)

    def score(self, lease_id: int, what: str, at_ms: int) -> None:
        """Note that something happened."""
        if what in {END, ""}:
            self.open.pop((lease_id, START), None)
            self.open.pop((lease_id, CONTINUES), None)
            return
        made = self.open.pop((lease_id, what), None)
        if made is not None:
            known = made.kind, made.raw
            self.calibration.happened(*known, made.interval, made.made_ms, at_ms, was_overdue=made.is_overdue)
            self.uncorrected.happened(*known, made.raw_interval, made.made_ms, at_ms)
            self.waits_ms.setdefault(_at_any_site(made.kind), deque(maxlen=KEPT_ERRORS)).append(at_ms - made.made_ms)
            self.done.append(replace(made, happened_ms=at_ms))

    def pass_time(self, now_ms: int) -> None:
        """Score predictions whose interval is over and that have not come true."""
        while self.due and self.due[0][0] < now_ms:
            _, lease_id, what = heappop(self.due)
            made = self.open.get((lease_id, what))
            if made is not None and made.interval.high_ms < now_ms and not made.is_overdue:
                self.calibration.overdue(made.kind, made.raw, made.interval, made.made_ms)
                self.open[lease_id, what] = replace(made, is_overdue=True)


def calibrate(  # noqa: C901 - the run, instant by instant
    scenario: Scenario, sampling: Sampling, passing: Callable[[int, int], None] = lambda *_: None
) -> Calibrated:
    """Predict for a sample of the requests of a scenario, and score; ``passing`` is told predictions made and scored.

    Raises InvalidField for a scenario with events besides jobs, and as a run does.
    """
    scenario = with_sizes(scenario)
    others = open_sources(scenario, make_gateway(scenario, routing(scenario), sharing(scenario)))
    if others or any(stream_.together is not None for stream_ in scenario.streams):
        raise InvalidField("scenario", scenario.name, "one without failures, timelines, managers and co-allocations")
    counts = _waiting(scenario)
    scorer, watch, choice = _Scorer(terms_of(scenario), sampling), _Watch(), Random(sampling.seed)
    made = trivial = seen = 0
    total = sum(count.submitted for count in counts.values())
    gateway = make_gateway(scenario, routing(scenario), sharing(scenario))
    world = SimulatedWorld(gateway, numbered(fitting(open_streams(scenario, []), scenario)), watch)
    chosen: set[int] = set()
    with collecting_less_garbage():
        for now_ms in world.run():
            for lease_id in watch.submitted_now:
                seen += 1
                lease = gateway.leases.get(lease_id)
                is_own = lease is not None and lease.request.is_local
                share = min(1.0, sampling.sample / max(1, counts[is_own].waited) / (1 - WARM_UP))
                if seen < WARM_UP * total or choice.random() >= share:
                    continue
                if lease is None or lease.first_start_ms >= 0:
                    trivial += 1
                    continue
                chosen.add(lease_id)
                scorer.predict(gateway, watch, lease, START, now_ms)
                made += 1
            for suspended in watch.suspended_now:
                if suspended.id in chosen or choice.random() < sampling.sample / max(1, counts[False].suspended):
                    if seen < WARM_UP * total or suspended.id not in gateway.leases:
                        continue
                    scorer.predict(gateway, watch, suspended, CONTINUES, now_ms)
                    made += 1
            watch.submitted_now.clear()
            watch.suspended_now.clear()
            for event in watch.happened:
                scorer.score(*event)
            watch.happened.clear()
            scorer.pass_time(now_ms)
            passing(made, len(scorer.done))
            if seen >= total and not scorer.open:
                break
    return Calibrated(
        tuple(scorer.done),
        tuple(scorer.calibration.scores()),
        tuple(scorer.uncorrected.scores()),
        trivial,
        scorer.unknown,
    )


@dataclass(slots=True)
class _Count:
    submitted: int = 0
    waited: int = 0
    suspended: int = 0


class _Counter:
    """Counts who has to wait, in a run before the one in which something is predicted."""

    def __init__(self) -> None:
        self.counts = {True: _Count(), False: _Count()}
        self.now: dict[int, bool] = {}
        self.handlers: Mapping[type, Handler] = {StartLease: self._started, SuspendLease: self._suspended}

    def submitted(self, request: Request, job: WorkloadJob) -> None:  # noqa: ARG002 - as observers are told
        self.counts[request.is_local].submitted += 1
        self.now[request.id] = request.is_local

    def _started(self, effect: StartLease, now_ms: int) -> None:  # noqa: ARG002 - it is now
        self.now.pop(effect.lease.id, None)

    def _suspended(self, effect: SuspendLease, now_ms: int) -> None:  # noqa: ARG002 - it is now
        self.counts[False].suspended += 1


def _waiting(scenario: Scenario) -> dict[bool, _Count]:
    """Count the requests of own users (True) and guests that do not start at once."""
    counter = _Counter()
    gateway = make_gateway(scenario, routing(scenario), sharing(scenario))
    world = SimulatedWorld(gateway, numbered(fitting(open_streams(scenario, []), scenario)), counter)
    with collecting_less_garbage():
        for _ in world.run():
            for is_own in counter.now.values():
                counter.counts[is_own].waited += 1
            counter.now.clear()
    return counter.counts
