"""What an operator's monitoring sees: counters, durations, and the state of the gateway when it is scraped.

Every label has a closed list of values, sites being those of the configuration: no lease, consumer or
address ever becomes a label. `deploy/grafana` and `deploy/prometheus` show and watch these metrics.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from leasehold.forecasting.calibration import WHAT
from leasehold.jobs.job import JobReason, JobState
from leasehold.model.event import Operation
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import GPU_MILLI
from leasehold.service.drivers.protocol import Verb

GATEWAY = "gateway"
"""Stands for the site of a lease that waits at the gateway, where the store has ""."""

USES = ("local", "guest", "free")
ORDER_STATUSES = ("pending", "taken")
OPEN_JOB_STATES = tuple(state.value for state in JobState if not state.is_final)
LIVE_STATES = tuple(state.value for state in LeaseState if not state.is_final)


@dataclass(frozen=True, slots=True)
class EstimateGauges:
    """How the estimates of a gateway are and did.

    ``leases``   leases that have one now
    ``age_s``    how old these are, in seconds; None before the first
    ``scored``   predictions that were scored, by what was predicted and `PREDICTED`
    ``factors``  mean ratio of the ends of their 90 % intervals, by what was predicted; nothing where none was scored
    """

    leases: int = 0
    age_s: float | None = None
    scored: Mapping[tuple[str, str], int] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GaugeSnapshot:
    """How many there are now; what is left out is 0.

    ``leases``      live leases by site ("" is the gateway) and state
    ``vms``         VMs by site and use: local, guest, free
    ``gpus``        GPUs by site and use, as ``vms``, in thousandths, of sites that state any
    ``orders``      orders in the outbox by site and status: pending, taken
    ``up``          of each site, whether its machines can be reached
    ``factors``     how many times as long as configured operations are planned to take, by site and
                    operation
    ``jobs``        open jobs by state
    ``agreements``  that are in force, and ``penalties`` that stand
    ``estimates``   how estimates are and did
    """

    leases: Mapping[tuple[str, str], int] = field(default_factory=dict)
    vms: Mapping[tuple[str, str], int] = field(default_factory=dict)
    orders: Mapping[tuple[str, str], int] = field(default_factory=dict)
    up: Mapping[str, bool] = field(default_factory=dict)
    factors: Mapping[tuple[str, str], float] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)
    agreements: int = 0
    penalties: int = 0
    estimates: EstimateGauges = EstimateGauges()
    gpus: Mapping[tuple[str, str], int] = field(default_factory=dict)


class GaugeCollector(Collector):
    """Gauges from a `GaugeSnapshot` taken at each scrape; without a source they have no values."""

    def __init__(self) -> None:
        self.source: Callable[[], GaugeSnapshot] = GaugeSnapshot

    def collect(self) -> Iterable[Metric]:
        """Give all gauges."""
        now = self.source()
        sites = sorted(now.up)
        yield _gauge("leases", "Leases that are not over", "state", now.leases, ["", *sites], LIVE_STATES)
        yield _gauge("vms", "VMs, by use", "use", now.vms, sites, USES)
        gpus = {of: milli / GPU_MILLI for of, milli in now.gpus.items()}
        yield _gauge("gpus", "GPUs, by use", "use", gpus, sorted({site for site, _ in gpus}), USES)
        yield _gauge("orders", "Orders not yet confirmed", "status", now.orders, sites, ORDER_STATUSES)
        yield _up(now.up)
        yield _factors(now.factors)
        yield _jobs(now.jobs)
        yield _number("agreements_in_force", "Agreements in force", now.agreements)
        yield _number("penalties_active", "Penalties for breaches of agreements that have not ended", now.penalties)
        yield _number("estimated_leases", "Leases with an estimate", now.estimates.leases)
        if now.estimates.age_s is not None:
            yield _number("estimates_age_seconds", "Age of the present estimates", now.estimates.age_s)
        yield _predictions(now.estimates.scored)
        yield _widths(now.estimates.factors)


def _gauge(
    name: str,
    meaning: str,
    label: str,
    values: Mapping[tuple[str, str], float],
    sites: Iterable[str],
    known: Iterable[str],
) -> Metric:
    """Make a gauge by site and one label more; every combination is given, so that none disappears at 0."""
    gauge = GaugeMetricFamily(f"leasehold_{name}", f"{meaning}.", labels=["site", label])
    for site in sites:
        for value in known:
            gauge.add_metric([site or GATEWAY, value], values.get((site, value), 0))
    return gauge


def _number(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"leasehold_{name}", f"{meaning}.", value=value)


def _predictions(scored: Mapping[tuple[str, str], int]) -> Metric:
    counter = CounterMetricFamily(
        "leasehold_predictions", "Predictions that were scored, by outcome.", labels=["what", "outcome"]
    )
    for what in WHAT:
        for outcome in PREDICTED:
            counter.add_metric([what, outcome], scored.get((what, outcome), 0))
    return counter


def _widths(factors: Mapping[str, float]) -> Metric:
    gauge = GaugeMetricFamily(
        "leasehold_prediction_width_factor",
        "Mean ratio of the ends of 90 % intervals that were scored.",
        labels=["what"],
    )
    for what, factor in sorted(factors.items()):
        gauge.add_metric([what], factor)
    return gauge


def _up(up: Mapping[str, bool]) -> Metric:
    gauge = GaugeMetricFamily("leasehold_site_up", "Whether the machines of a site can be reached.", labels=["site"])
    for site, is_up in sorted(up.items()):
        gauge.add_metric([site], is_up)
    return gauge


def _jobs(jobs: Mapping[str, int]) -> Metric:
    gauge = GaugeMetricFamily("leasehold_jobs", "Jobs that are not over.", labels=["state"])
    for state in OPEN_JOB_STATES:
        gauge.add_metric([state], jobs.get(state, 0))
    return gauge


def _factors(factors: Mapping[tuple[str, str], float]) -> Metric:
    gauge = GaugeMetricFamily(
        "leasehold_overhead_factor",
        "How many times as long as configured an operation is planned to take, as measured before.",
        labels=["site", "operation"],
    )
    for (site, operation), factor in sorted(factors.items()):
        gauge.add_metric([site, operation], factor)
    return gauge


PREDICTED = ("covered", "early", "late")
"""What became of a prediction: it came true within its 90 % interval, before it or after it."""

TAKEN = ("accepted", "repeated", "rejected")
"""What became of a request for a lease: taken in, answered as an identical one before it, or not taken in."""


class Difference(StrEnum):
    """How what is at a site can differ from what should be there.

    LOST    a lease should have machines, and has none
    STRAY   machines are there of a lease that should have none
    BEHIND  the machines are not yet in the phase in which they should be
    """

    LOST = "lost"
    STRAY = "stray"
    BEHIND = "behind"


METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
PRUNED = (
    "leases",
    "jobs",
    "coallocations",
    "journal",
    "outputs",
    "usage",
    "idempotency_keys",
    "orders",
    "attempts",
)
"""The tables from which the store deletes old rows."""

OTHER = "other"
"""Stands for whatever is not in a closed list."""

_DECISION_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_COMMIT_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_HTTP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_OPERATION_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_COMMANDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

# else each series has a second one, of when it began, which is of no use
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """All metrics of one gateway, in a registry of their own. Engine and API tell, `render` shows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._define_requests()
        self._define_decisions()
        self._define_reconcilers()
        self._ready = Gauge(
            "leasehold_ready", "Whether requests can be decided, as /readyz says.", registry=self.registry
        )
        self._busy_s = Gauge(
            "leasehold_engine_step_seconds", "For how long the engine has been at its step.", registry=self.registry
        )
        self._gauges = GaugeCollector()
        self.registry.register(self._gauges)
        ProcessCollector(registry=self.registry)

    def _define_requests(self) -> None:
        self._requests = self._counter("requests", "Requests for leases, by outcome", "outcome")
        for outcome in TAKEN:
            self._requests.labels(outcome)
        self._http = self._histogram(
            "http_request_duration_seconds", "Time to answer over HTTP", _HTTP_S, "route", "method", "status"
        )
        self._timers: dict[tuple[str, str, str], Histogram] = {}
        self._streams = Gauge("leasehold_open_streams", "Open streams of changes", registry=self.registry)
        self._clock_ahead = Gauge(
            "leasehold_clock_offset_seconds",
            "How far the gateway's time is ahead of the machine's clock",
            registry=self.registry,
        )

    def _define_decisions(self) -> None:
        self._decisions = self._counter("decisions", "Decisions about leases", "outcome", "reason")
        self._by_agreement = self._counter(
            "agreement_decisions", "Decisions that an agreement made necessary", "outcome", "reason"
        )
        self._job_decisions = self._counter("job_decisions", "Decisions about jobs", "site", "reason")
        self._preemptions = self._counter("preemptions", "Leases preempted at a site", "site", "reason")
        self._decision_s = self._histogram(
            "decision_duration_seconds", "Time that the decision core takes for a batch", _DECISION_S
        )
        self._commit_s = self._histogram("commit_duration_seconds", "Time to write the outcome of a batch", _COMMIT_S)
        self._batch = self._histogram("batch_commands", "Commands decided together", _COMMANDS)
        self._checks = self._counter("invariant_checks", "Invariant checks, by result", "result")
        for result in ("kept", "broken"):
            self._checks.labels(result)

    def _define_reconcilers(self) -> None:
        self._order_failures = self._counter(
            "order_failures", "Orders that a site's machines failed to carry out", "site", "verb"
        )
        self._operation_s = self._histogram(
            "operation_duration_seconds",
            "Time that machines took to carry out an order",
            _OPERATION_S,
            "site",
            "operation",
        )
        self._pruned = self._counter("pruned_rows", "Rows that the store deleted because they were old", "table")
        for table in PRUNED:
            self._pruned.labels(table)
        self._differences = self._counter(
            "reconcile_differences", "Differences between desired and observed state", "site", "kind"
        )

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"leasehold_{name}", f"{meaning}.", labels, registry=self.registry)

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"leasehold_{name}", f"{meaning}.", labels, registry=self.registry, buckets=buckets)

    def accepted(self) -> None:
        """Count a request that is in the store now."""
        self._requests.labels("accepted").inc()

    def repeated(self) -> None:
        """Count a request that came before under the same key, and was answered as then."""
        self._requests.labels("repeated").inc()

    def rejected(self) -> None:
        """Count a request that was answered with a 4xx: not allowed, malformed, over a limit."""
        self._requests.labels("rejected").inc()

    def batch(self, commands: int, decision_s: float, commit_s: float) -> None:
        """Measure one round of the engine: so many commands, decided and then written."""
        self._batch.observe(commands)
        self._decision_s.observe(decision_s)
        self._commit_s.observe(commit_s)

    def decided(self, outcome: Outcome, reason: Reason, site: str) -> None:
        """Count a decision; one that makes a lease give way is counted at its site too."""
        self._decisions.labels(outcome, reason).inc()
        if outcome is Outcome.PREEMPT:
            self._preemptions.labels(site, reason).inc()

    def decided_about_job(self, reason: JobReason, site: str) -> None:
        """Count a decision about a job; one that is about no site is the gateway's."""
        self._job_decisions.labels(site or GATEWAY, reason).inc()

    def held_to_agreement(self, outcome: Outcome, reason: Reason) -> None:
        """Count a decision that an agreement made necessary: a request waits, or is refused."""
        self._by_agreement.labels(outcome, reason).inc()

    def order_failed(self, site: str, verb: Verb) -> None:
        """Count an order that the machines of a site did not take on."""
        self._order_failures.labels(site, verb).inc()

    def took(self, site: str, operation: Operation, took_s: float) -> None:
        """Measure how long the machines of a lease took for an operation."""
        self._operation_s.labels(site, operation).observe(took_s)

    def pruned(self, rows: Mapping[str, int]) -> None:
        """Count rows that the store deleted because they were old, by table."""
        for table, count in rows.items():
            self._pruned.labels(table).inc(count)

    def difference(self, site: str, kind: Difference) -> None:
        """Count something at a site that is not as it should be."""
        self._differences.labels(site, kind).inc()

    def invariants(self, ok: bool) -> None:  # noqa: FBT001 - the result of the check
        """Count a check of every promise."""
        self._checks.labels("kept" if ok else "broken").inc()

    def answered(self, route: str, method: str, status: int, took_s: float) -> None:
        """Measure an answer over HTTP; ``route`` is its pattern, "" where no route fits."""
        known = method if method in METHODS else OTHER
        labels = (route or OTHER, known, str(status))
        timer = self._timers.get(labels)
        if timer is None:  # to look one up by its labels takes longer than to observe
            timer = self._timers[labels] = self._http.labels(*labels)
        timer.observe(took_s)

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Count a stream of changes as open for as long as this lasts."""
        with self._streams.track_inprogress():
            yield

    def watch_clock(self, ahead_s: Callable[[], float]) -> None:
        """Show by how much the gateway's time is ahead of the machine's clock, in seconds."""
        self._clock_ahead.set_function(ahead_s)

    def show_health(self, ready: Callable[[], bool], busy_s: Callable[[], float]) -> None:
        """Fill the gauges of the service itself from these, which must not block."""
        self._ready.set_function(ready)
        self._busy_s.set_function(busy_s)

    def show(self, source: Callable[[], GaugeSnapshot]) -> None:
        """Fill the gauges from this source, which is asked at each look and must not block."""
        self._gauges.source = source

    def render(self) -> tuple[bytes, str]:
        """Write everything in the format of Prometheus, and give the type of that content."""
        return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4
