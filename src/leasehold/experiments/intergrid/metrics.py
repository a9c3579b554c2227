"""The metrics of section 5.1 of JPDC 2012, measured while a run passes.

A percentage or a mean of no values is not a number. `leasehold.analysis.metrics` measures the same from a run
folder; the tests compare the two.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from math import fsum, nan

from leasehold.forecasting.world import Handler
from leasehold.gateway.settings import SiteSettings
from leasehold.model.effect import (
    Decision,
    LeaseClosed,
    MigrateLease,
    ResumeLease,
    StartLease,
    StopLease,
    SuspendLease,
)
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.reason import Outcome
from leasehold.model.request import LeaseType, Request
from leasehold.simulation.workload.job import WorkloadJob

PERCENT = 100.0
MS_PER_S = 1_000
MS_PER_HOUR = 3_600_000
PREEMPTABLE = (LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE)
BEST_EFFORT = frozenset({LeaseType.CANCELABLE, LeaseType.SUSPENDABLE})
SERVED = frozenset({LeaseState.COMPLETED, LeaseState.KILLED})
LOST = frozenset({LeaseState.REFUSED, LeaseState.FAILED})

METRICS: Mapping[str, str] = {
    "vms_preempted": "VMs that leases gave up to local requests, each time counted (5.1.1)",
    **{f"vms_preempted_{kind.label}": f"the same of {kind.label} leases" for kind in PREEMPTABLE},
    "preemptions": "how often leases gave up theirs",
    "leases_preempted": "leases that gave up theirs at least once",
    "utilisation_pct": "eqs 21 and 22: 100 % less preemption overhead over computation time (VMs times "
    "undisturbed duration on their cluster) of the leases that started; guests and locals",
    "guest_utilisation_pct": "the same with the computation time of the guests alone",
    "occupancy_pct": "VM-time held while requests came, of all VM-time",
    "awrt_s": "eq 24: eq 23 of each cluster, weighted with its size, where it served any",
    "awrt_pooled_s": "eq 23, all clusters together: response time of best-effort leases (Cancelable and "
    "Suspendable) that got all their time, weighted with VMs times duration",
    "response_s": "mean response time of all guests that got all their time (eq 2)",
    "migration_pct": "Migratable leases that were moved at least once (5.1.1)",
    "np_rejection_pct": "Non-preemptable requests of guests that were rejected (5.1.1)",
    "migratable_unserved_pct": "Migratable requests rejected, or that lost their deadline to a preemption",
    "migratable_rejection_pct": "Migratable requests that were rejected",
    "deadline_missed_pct": "Migratable requests that were accepted, and did not end by their deadline",
    "migrations": "how often leases were moved",
    "guest_rejection_pct": "requests of guests of any type that were rejected",
    "local_rejection_pct": "local requests that were rejected",
    "local_served_pct": "local requests that were not",
    "local_wait_s": "mean time from ready to start of the local requests that started",
    "best_effort_wait_s": "the same of Cancelable and Suspendable guests, until their first start",
    "overhead_vm_h": "VM-time that suspending, resuming and moving cost",
    "lost_vm_h": "VM-time held by guests that never got all their time",
    "guest_work_vm_h": "VM-hours at the reference speed of the guests that got all their time",
}
"""What is counted, by metric."""


class WeightedMean:
    """A mean of whole numbers with whole weights, exact until the division."""

    __slots__ = ("total", "weight")

    def __init__(self) -> None:
        """Start without values."""
        self.total = self.weight = 0

    def add(self, value: int, weight: int = 1) -> None:
        """Add a value."""
        self.total += value * weight
        self.weight += weight

    def read(self) -> float:
        """Give the mean; not a number where there is no value."""
        return self.total / self.weight if self.weight else nan


class LeaseObserver:
    """Measures a run while it passes; when the run is over, all leases are closed."""

    def __init__(self, sites: Iterable[SiteSettings], reference_mips: int, horizon_ms: int) -> None:
        """Observe these sites; occupancy is that before the horizon, all else that of the whole run."""
        self._sites = {site.name: site for site in sites}
        self._reference_mips = reference_mips
        self._horizon_ms = horizon_ms
        self._held_since_ms: dict[int, int] = {}
        self._granted_ms: dict[int, int] = {}
        self._ran_vm_ms: Counter[int] = Counter()
        self._held_vm_ms = 0
        self._vms_preempted = Counter[LeaseType]()
        self._preemptions = self._leases_preempted = self._migrations = 0
        self._overhead_vm_ms = self._lost_vm_ms = self._served_vm_ms = 0
        self._locals_vm_work = self._guests_vm_work = 0.0
        self._by_site = {name: WeightedMean() for name in self._sites}
        self._parts: defaultdict[str, WeightedMean] = defaultdict(WeightedMean)
        self._times_ms: defaultdict[str, WeightedMean] = defaultdict(WeightedMean)
        self.handlers: Mapping[type, Handler] = {
            Decision: self._decided,
            StartLease: self._holds,
            ResumeLease: self._holds,
            MigrateLease: self._moved,
            SuspendLease: self._lets_go,
            StopLease: self._lets_go,
            LeaseClosed: self._closed,
        }

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Note how long a job may take, the shorter of what it asks for and what it needs."""
        self._granted_ms[request.id] = min(job.requested_ms, job.actual_ms)

    # VMs that are held

    def _holds(self, effect: StartLease | ResumeLease | MigrateLease, now_ms: int) -> None:
        self._held_since_ms[effect.lease.id] = now_ms

    def _moved(self, effect: MigrateLease, now_ms: int) -> None:
        self._let_go(effect.lease, now_ms)
        self._holds(effect, now_ms)

    def _lets_go(self, effect: SuspendLease | StopLease, now_ms: int) -> None:
        self._let_go(effect.lease, now_ms)

    def _let_go(self, lease: Lease, now_ms: int) -> None:
        since_ms, horizon_ms = self._held_since_ms.pop(lease.id, now_ms), self._horizon_ms
        self._ran_vm_ms[lease.id] += lease.vms * (now_ms - since_ms)
        self._held_vm_ms += lease.vms * (min(now_ms, horizon_ms) - min(since_ms, horizon_ms))

    # Leases

    def _decided(self, effect: Decision, now_ms: int) -> None:  # noqa: ARG002 - all handlers have the same arguments
        if effect.outcome is Outcome.PREEMPT:
            self._preemptions += 1
            self._vms_preempted[effect.lease.request.lease_type] += effect.lease.vms

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        lease = effect.lease
        self._let_go(lease, now_ms)
        granted_ms, ran_vm_ms = self._granted_ms.pop(lease.id), self._ran_vm_ms.pop(lease.id)
        if lease.first_start_ms != UNPLANNED:
            self._count_work(lease, granted_ms)
            self._count_wait(lease)
        if lease.request.is_local:
            self._parts["local_rejection_pct"].add(lease.state is LeaseState.REFUSED)
        else:
            self._count_guest(lease, granted_ms, now_ms)
            self._lost_vm_ms += 0 if lease.state in SERVED else ran_vm_ms

    def _count_work(self, lease: Lease, granted_ms: int) -> None:
        """Count the computation time of eq 22, on the cluster where the lease was last."""
        speed_mips = self._sites[lease.site].speed_mips
        vm_ms = lease.vms * granted_ms * self._reference_mips / speed_mips
        if lease.request.is_local:
            self._locals_vm_work += vm_ms
        else:
            self._guests_vm_work += vm_ms

    def _count_wait(self, lease: Lease) -> None:
        wait_ms = lease.first_start_ms - lease.request.ready_ms
        if lease.request.is_local:
            self._times_ms["local_wait_s"].add(wait_ms)
        elif lease.request.lease_type in BEST_EFFORT:
            self._times_ms["best_effort_wait_s"].add(wait_ms)

    def _count_guest(self, lease: Lease, granted_ms: int, now_ms: int) -> None:
        self._overhead_vm_ms += lease.overhead_vm_ms
        self._leases_preempted += lease.preemptions > 0
        self._migrations += lease.migrations
        self._parts["guest_rejection_pct"].add(lease.state is LeaseState.REFUSED)
        kind = lease.request.lease_type
        if kind is LeaseType.MIGRATABLE:
            self._count_migratable(lease, now_ms)
        elif kind is LeaseType.NON_PREEMPTABLE:
            self._parts["np_rejection_pct"].add(lease.state is LeaseState.REFUSED)
        if lease.state in SERVED:
            self._count_served(lease, granted_ms * lease.vms, now_ms - lease.request.ready_ms)

    def _count_migratable(self, lease: Lease, now_ms: int) -> None:
        is_rejected, deadline_ms = lease.state is LeaseState.REFUSED, lease.request.deadline_ms
        is_late = deadline_ms is not None and now_ms > deadline_ms
        self._parts["migration_pct"].add(lease.migrations > 0)
        self._parts["migratable_unserved_pct"].add(lease.state in LOST)
        self._parts["migratable_rejection_pct"].add(is_rejected)
        self._parts["deadline_missed_pct"].add(not is_rejected and (lease.state not in SERVED or is_late))

    def _count_served(self, lease: Lease, work_vm_ms: int, response_ms: int) -> None:
        self._served_vm_ms += work_vm_ms
        self._times_ms["response_s"].add(response_ms)
        if lease.request.lease_type in BEST_EFFORT:
            self._by_site[lease.site].add(response_ms, work_vm_ms)

    # The metrics

    def read(self) -> dict[str, float]:
        """Give all ``METRICS``."""
        every = self._locals_vm_work + self._guests_vm_work
        found = {f"vms_preempted_{kind.label}": float(self._vms_preempted[kind]) for kind in PREEMPTABLE} | {
            "vms_preempted": float(self._vms_preempted.total()),
            "preemptions": float(self._preemptions),
            "leases_preempted": float(self._leases_preempted),
            "migrations": float(self._migrations),
            "utilisation_pct": self._utilisation_pct(every),
            "guest_utilisation_pct": self._utilisation_pct(self._guests_vm_work),
            "occupancy_pct": self._occupancy_pct(),
            "awrt_s": self._awrt_by_size_s(),
            "awrt_pooled_s": self._awrt_pooled_s(),
            "local_served_pct": PERCENT * (1 - self._parts["local_rejection_pct"].read()),
            "overhead_vm_h": self._overhead_vm_ms / MS_PER_HOUR,
            "lost_vm_h": self._lost_vm_ms / MS_PER_HOUR,
            "guest_work_vm_h": self._served_vm_ms / MS_PER_HOUR,
        }
        return {metric: found[metric] if metric in found else self._mean(metric) for metric in METRICS}

    def _mean(self, metric: str) -> float:
        if metric.endswith("_pct"):
            return PERCENT * self._parts[metric].read()
        return self._times_ms[metric].read() / MS_PER_S

    def _utilisation_pct(self, work_vm_ms: float) -> float:
        """Equation 21; negative where preemption cost more than all computation."""
        return PERCENT * (1 - self._overhead_vm_ms / work_vm_ms) if work_vm_ms else nan

    def _occupancy_pct(self) -> float:
        slots = sum(settings.slots for settings in self._sites.values())
        return PERCENT * self._held_vm_ms / (slots * self._horizon_ms)

    def _awrt_by_size_s(self) -> float:
        served = {name: mean for name, mean in self._by_site.items() if mean.weight}
        slots = sum(self._sites[name].slots for name in served)
        weighted = fsum(self._sites[name].slots * mean.read() for name, mean in served.items())
        return weighted / slots / MS_PER_S if served else nan

    def _awrt_pooled_s(self) -> float:
        weight = sum(mean.weight for mean in self._by_site.values())
        return sum(mean.total for mean in self._by_site.values()) / weight / MS_PER_S if weight else nan
