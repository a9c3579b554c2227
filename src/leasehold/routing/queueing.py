"""How long does a guest stay at a cluster whose own users come first, and which share should each cluster get?

As in JPDC 2012, section 3, a cluster is one M/G/1 queue with two Poisson streams: local requests, which
preempt, and external ones, which resume. The paper's symbols and the names used here, times in seconds:

===========  ============================  ==========================================
lambda_j     ``local_rate_per_s``          arrival rate of local requests
tau, mu      ``local``                     first and second moment of their service time
theta, omega ``external``                  the same of external requests
rho          ``local_load``                lambda tau
x            ``external_rate_per_s``       arrival rate of external requests (lambda hat)
z            ``marginal_cost_s``           d(x T)/dx, equal at all clusters that get requests
===========  ============================  ==========================================

`allocate` is PAP (Algorithm 1), corrected where the printed algorithm cannot work: the numerator of eq 7 (see
`MarginalCost`); the loop that finds how many clusters are used, which as printed always stops at one; the
tolerance, relative instead of 0.001 s; and the doubling, which as printed never ends when the load cannot be served.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from leasehold.model.errors import InvalidField, LeaseholdError
from leasehold.routing.moments import require_non_negative, require_positive

_ROUNDING = 1e-9


class Saturated(LeaseholdError):
    """A cluster has more work than it can ever do, so that no response time exists."""

    def __init__(self, cluster: str, load: float) -> None:
        self.cluster = cluster
        self.load = load
        super().__init__(f"cluster {cluster!r} is saturated: load {load:.4g}, expected below 1")


@dataclass(frozen=True, slots=True)
class ServiceMoments:
    """First and second moment of a service time, in seconds and seconds squared.

    Raises InvalidField where no distribution can have them.
    """

    mean_s: float
    square_s2: float

    def __post_init__(self) -> None:
        """Refuse what no distribution can have."""
        require_non_negative("mean_s", self.mean_s)
        require_non_negative("square_s2", self.square_s2)
        if self.square_s2 < self.mean_s**2 * (1 - _ROUNDING):
            raise InvalidField("square_s2", self.square_s2, f"at least mean_s squared, {self.mean_s**2:.6g}")

    @classmethod
    def from_cv(cls, mean_s: float, cv: float) -> Self:
        """Give the moments for a mean and a coefficient of variation (JPDC 2012, eqs 18 and 19)."""
        return cls(mean_s, (1 + cv * cv) * mean_s * mean_s)


def vm_service_time_s(mean_vm_s: float, reference_mips: float, cluster_mips: float) -> float:
    """Spread the work of a request of several VMs over the whole cluster, in seconds.

    JPDC 2012, eqs 16 and 17, with the reference speed that the printed ones lack: durations are
    seconds at ``reference_mips``, and ``cluster_mips`` is the sum over the cluster's elements.
    """
    require_positive("cluster_mips", cluster_mips)
    return mean_vm_s * reference_mips / cluster_mips


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """What the model knows about one cluster.

    Raises InvalidField for a negative local rate or an external service time of zero.
    """

    name: str
    local_rate_per_s: float
    local: ServiceMoments
    external: ServiceMoments

    def __post_init__(self) -> None:
        """Refuse what the formulas cannot be applied to."""
        require_non_negative(f"local_rate_per_s of {self.name}", self.local_rate_per_s)
        require_positive(f"external service time of {self.name}", self.external.mean_s)

    @property
    def local_load(self) -> float:
        """The share of the cluster that its own users keep busy: rho."""
        return self.local_rate_per_s * self.local.mean_s

    @property
    def spare_rate_per_s(self) -> float:
        """External requests a second that would use up the rest: (1 - rho) / theta, never below 0."""
        return max(0.0, 1 - self.local_load) / self.external.mean_s

    def backlog_s(self, external_rate_per_s: float) -> float:
        """Give (lambda mu + x omega) / 2: mean work in service that an arrival finds, in seconds."""
        local = self.local_rate_per_s * self.local.square_s2
        return (local + external_rate_per_s * self.external.square_s2) / 2


Discipline = Callable[[ClusterLoad, float], float]
"""Mean response time in seconds of external requests that arrive at a cluster at a given rate."""


def preemptive_response_s(cluster: ClusterLoad, external_rate_per_s: float) -> float:
    """Local requests preempt, external ones resume: JPDC 2012, eq 4, what Leasehold's sites do.

    The kappa m of the paper is x omega + lambda mu. Raises Saturated.
    """
    spare, rest = _shares_left(cluster, external_rate_per_s)
    return (cluster.external.mean_s + cluster.backlog_s(external_rate_per_s) / rest) / spare


def non_preemptive_response_s(cluster: ClusterLoad, external_rate_per_s: float) -> float:
    """Local requests go first but preempt no running lease (textbook; an ablation). Raises Saturated."""
    spare, rest = _shares_left(cluster, external_rate_per_s)
    return cluster.external.mean_s + cluster.backlog_s(external_rate_per_s) / (spare * rest)


def no_priority_response_s(cluster: ClusterLoad, external_rate_per_s: float) -> float:
    """First come, first served: Pollaczek-Khinchine on both streams (an ablation). Raises Saturated."""
    _, rest = _shares_left(cluster, external_rate_per_s)
    return cluster.external.mean_s + cluster.backlog_s(external_rate_per_s) / rest


def mean_response_s(
    clusters: Sequence[ClusterLoad],
    external_rates_per_s: Sequence[float],
    response_s: Discipline = preemptive_response_s,
) -> float:
    """Average the response time over all external requests: JPDC 2012, eq 3. Raises Saturated."""
    total = math.fsum(external_rates_per_s)
    require_positive("external rate", total)
    used = ((c, x) for c, x in zip(clusters, external_rates_per_s, strict=True) if x > 0)
    return math.fsum(x * response_s(cluster, x) for cluster, x in used) / total


def _shares_left(cluster: ClusterLoad, external_rate_per_s: float) -> tuple[float, float]:
    """Give 1 - rho and 1 - u, both above zero."""
    spare = 1 - cluster.local_load
    rest = spare - external_rate_per_s * cluster.external.mean_s
    if rest <= 0:
        raise Saturated(cluster.name, 1 - rest)
    return spare, rest


@dataclass(frozen=True, slots=True)
class MarginalCost:
    """How many requests a cluster takes for each marginal cost z (JPDC 2012, eqs 7, 11 and 14).

    ``psi_s``             marginal cost of the very first external request, eq 14
    ``spare_rate_per_s``  the rate that is approached as z grows
    ``scale_s``           how slowly it is approached

    Equation 11 with its parenthesis closed where the derivative closes it,

        phi(z) = sqrt((1-rho) (omega (1-rho) + theta lambda mu)
                      / (2 theta (1-rho) z + omega - 2 theta^2)) / theta,

    is ``spare_rate / sqrt(1 + (z - psi) / scale)``. This form shows that phi(psi) is the whole spare
    rate, so that x(psi) = 0, and it loses no digits to cancellation.
    """

    psi_s: float
    spare_rate_per_s: float
    scale_s: float

    @classmethod
    def of(cls, cluster: ClusterLoad) -> Self:
        """Work out the curve of a cluster. Raises Saturated when its own users leave no room."""
        spare = 1 - cluster.local_load
        if spare <= 0:
            raise Saturated(cluster.name, cluster.local_load)
        theta = cluster.external.mean_s
        local = cluster.local_rate_per_s * cluster.local.square_s2
        psi = local / (2 * spare * spare) + theta / spare
        scale = (theta * local / spare + cluster.external.square_s2) / (2 * theta * spare)
        return cls(psi, spare / theta, scale)

    def phi(self, marginal_cost_s: float) -> float:
        """Give the part of the spare rate that stays unused at this marginal cost: eq 11, corrected."""
        return self.spare_rate_per_s / math.sqrt(1 + (marginal_cost_s - self.psi_s) / self.scale_s)

    def rate_at(self, marginal_cost_s: float) -> float:
        """Give the external rate with this marginal cost: eq 7, corrected; ``spare_rate - phi(z)``."""
        above = (marginal_cost_s - self.psi_s) / self.scale_s
        return self.spare_rate_per_s * -math.expm1(-0.5 * math.log1p(above))


_RELATIVE_TOLERANCE = 1e-14


class Infeasible(LeaseholdError):
    """More external requests than all clusters together have room for."""

    def __init__(self, external_rate_per_s: float, spare_rate_per_s: float) -> None:
        self.external_rate_per_s = external_rate_per_s
        self.spare_rate_per_s = spare_rate_per_s
        super().__init__(
            f"external rate: got {external_rate_per_s:.6g} requests/s, "
            f"expected below the spare {spare_rate_per_s:.6g} requests/s of all clusters"
        )


@dataclass(frozen=True, slots=True)
class Allocation:
    """External rates and shares per cluster, in the order in which the clusters were given.

    ``marginal_cost_s`` is z, the same at every cluster whose rate is above zero.
    """

    rates_per_s: tuple[float, ...]
    proportions: tuple[float, ...]
    marginal_cost_s: float


def allocate(clusters: Sequence[ClusterLoad], external_rate_per_s: float) -> Allocation:
    """Split the external rate so that the mean response time (eqs 3 and 4) is least.

    Clusters that their own users saturate get nothing. Ties keep the given order.
    Raises Infeasible when the rest has no room for the rate, InvalidField for a rate of zero.
    """
    require_positive("external rate", external_rate_per_s)
    open_ones = [i for i, cluster in enumerate(clusters) if cluster.local_load < 1]
    curves = {i: MarginalCost.of(clusters[i]) for i in open_ones}
    cheapest_first = sorted(open_ones, key=lambda i: curves[i].psi_s)
    ranked = [curves[i] for i in cheapest_first]
    _require_room(ranked, external_rate_per_s)
    used = _clusters_used(ranked, external_rate_per_s)
    z = _common_marginal_cost(ranked[:used], external_rate_per_s)
    rates = [0.0] * len(clusters)
    for i in cheapest_first[:used]:
        rates[i] = curves[i].rate_at(z)
    proportions = normalised(rates)
    return Allocation(tuple(external_rate_per_s * p for p in proportions), proportions, z)


def spare_capacity_proportions(clusters: Sequence[ClusterLoad]) -> tuple[float, ...]:
    """Give shares in proportion to (1 - rho) / theta, whatever the external rate is.

    The fallback where `allocate` raises Infeasible: no allocation is stable then, and this one fills
    all clusters at the same pace. Raises Saturated when the clusters' own users leave no room anywhere.
    """
    spare = [cluster.spare_rate_per_s for cluster in clusters]
    if not any(spare):
        least = min(clusters, key=lambda cluster: cluster.local_load)
        raise Saturated(least.name, least.local_load)
    return normalised(spare)


def normalised(weights: Sequence[float]) -> tuple[float, ...]:
    """Scale weights to a sum of one. Raises InvalidField when they sum to zero."""
    total = math.fsum(weights)
    require_positive("sum of weights", total)
    return tuple(weight / total for weight in weights)


def _require_room(curves: Sequence[MarginalCost], external_rate_per_s: float) -> None:
    spare = sum(curve.spare_rate_per_s for curve in curves)
    if external_rate_per_s >= spare:
        raise Infeasible(external_rate_per_s, spare)


def _total_rate(curves: Sequence[MarginalCost], z: float) -> float:
    return sum(curve.rate_at(z) for curve in curves)


def _clusters_used(ranked: Sequence[MarginalCost], external_rate_per_s: float) -> int:
    """Find the k of eq 15: the LARGEST k for which the first k clusters take at most the rate at psi_k."""
    return bisect_right(
        range(len(ranked)),
        external_rate_per_s,
        key=lambda last: _total_rate(ranked[: last + 1], ranked[last].psi_s),
    )


def _common_marginal_cost(used: Sequence[MarginalCost], external_rate_per_s: float) -> float:
    """Solve eq 8 for z by doubling and bisection.

    The doubling ends because the clusters have room, which `_require_room` saw to.
    """
    low = used[-1].psi_s
    high = 2 * low
    while _total_rate(used, high) < external_rate_per_s:
        high *= 2
    while high - low > _RELATIVE_TOLERANCE * high:
        middle = (low + high) / 2
        if _total_rate(used, middle) <= external_rate_per_s:
            low = middle
        else:
            high = middle
    return (low + high) / 2
