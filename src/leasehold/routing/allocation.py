"""Which share of the external requests should each cluster get? PAP (JPDC 2012, Algorithm 1).

Corrected where the printed algorithm cannot work: the numerator of eq 7 (see
`leasehold.routing.queueing.MarginalCost`); the loop that finds how many clusters are used, which as
printed always stops at one; the tolerance, relative instead of 0.001 s; and the doubling, which as
printed never ends when the load cannot be served.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from leasehold.model.errors import LeaseholdError
from leasehold.routing.moments import require_positive
from leasehold.routing.queueing import ClusterLoad, MarginalCost, Saturated

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
