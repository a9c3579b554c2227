"""How do things stand at the moment of a look? What gauges show, asked for when somebody looks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from leasehold.jobs.job import JobState
from leasehold.model.lease import LeaseState

GATEWAY = "gateway"
"""Stands for the site of a lease that waits at the gateway, where the store has ""."""

USES = ("local", "guest", "free")
ORDER_STATUSES = ("pending", "taken")
OPEN_JOB_STATES = tuple(state.value for state in JobState if not state.is_final)
LIVE_STATES = tuple(state.value for state in LeaseState if not state.is_final)


@dataclass(frozen=True, slots=True)
class Standing:
    """How many there are, now; whatever is left out is nought.

    ``leases``      live leases by site ("" is the gateway) and state
    ``vms``         VMs by site and who has them: local, guest, free
    ``orders``      orders in the outbox by site and status: pending, taken
    ``up``          of each site, whether its machines can be reached
    ``factors``     how many times as long as configured operations are planned to take, by site and
                    operation
    ``jobs``        open jobs by state
    ``agreements``  that are in force, and ``penalties`` that stand
    """

    leases: Mapping[tuple[str, str], int] = field(default_factory=dict)
    vms: Mapping[tuple[str, str], int] = field(default_factory=dict)
    orders: Mapping[tuple[str, str], int] = field(default_factory=dict)
    up: Mapping[str, bool] = field(default_factory=dict)
    factors: Mapping[tuple[str, str], float] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)
    agreements: int = 0
    penalties: int = 0


class StandingCollector(Collector):
    """Gauges from a `Standing` that is asked for at each look; without a source they have no values."""

    def __init__(self) -> None:
        self.source: Callable[[], Standing] = Standing

    def collect(self) -> Iterable[Metric]:
        """Give all gauges."""
        now = self.source()
        sites = sorted(now.up)
        yield _gauge("leases", "Leases that are not over", "state", now.leases, ["", *sites], LIVE_STATES)
        yield _gauge("vms", "VMs, by who has them", "use", now.vms, sites, USES)
        yield _gauge("orders", "Orders not yet confirmed", "status", now.orders, sites, ORDER_STATUSES)
        yield _up(now.up)
        yield _factors(now.factors)
        yield _jobs(now.jobs)
        yield _number("agreements_in_force", "Agreements that hold now", now.agreements)
        yield _number("penalties_standing", "Penalties for breaking agreements that stand", now.penalties)


def _gauge(
    name: str,
    meaning: str,
    label: str,
    values: Mapping[tuple[str, str], int],
    sites: Iterable[str],
    known: Iterable[str],
) -> Metric:
    """Make a gauge by site and one label more; every combination is told, so that none vanishes at nought."""
    gauge = GaugeMetricFamily(f"leasehold_{name}", f"{meaning}.", labels=["site", label])
    for site in sites:
        for value in known:
            gauge.add_metric([site or GATEWAY, value], values.get((site, value), 0))
    return gauge


def _number(name: str, meaning: str, value: int) -> Metric:
    return GaugeMetricFamily(f"leasehold_{name}", f"{meaning}.", value=value)


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
