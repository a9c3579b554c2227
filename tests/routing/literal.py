"""The printed algorithms, word for word, defects included: only the tests that show an erratum use them."""

import math
from collections.abc import Sequence

from leasehold.routing.queueing import ClusterLoad

DOUBLINGS_BEFORE_GIVING_UP = 200


class NeverEndsError(Exception):
    """The printed loop would run for ever."""


def numerator(cluster: ClusterLoad) -> float:
    """JPDC 2012, eq 7: the parenthesis closes before the second term."""
    spare = 1 - cluster.local_load
    lambda_mu = cluster.local_rate_per_s * cluster.local.square_s2
    return spare * (cluster.external.square_s2 * spare) + cluster.external.mean_s * lambda_mu


def corrected_numerator(cluster: ClusterLoad) -> float:
    """Eq 7 with the parenthesis after the second term."""
    spare = 1 - cluster.local_load
    lambda_mu = cluster.local_rate_per_s * cluster.local.square_s2
    return spare * (cluster.external.square_s2 * spare + cluster.external.mean_s * lambda_mu)


def phi(cluster: ClusterLoad, z: float, above: float) -> float:
    """JPDC 2012, eq 11, with the numerator ``above``."""
    theta, spare = cluster.external.mean_s, 1 - cluster.local_load
    below = 2 * theta * spare * z + cluster.external.square_s2 - 2 * theta * theta
    return math.sqrt(above / below) / theta


def psi(cluster: ClusterLoad) -> float:
    """JPDC 2012, eq 14."""
    spare = 1 - cluster.local_load
    local = cluster.local_rate_per_s * cluster.local.square_s2
    return local / (2 * spare**2) + cluster.external.mean_s / spare


def pap(clusters: Sequence[ClusterLoad], rate: float, epsilon: float = 1e-12) -> tuple[int, list[float]]:
    """JPDC 2012, Algorithm 1; gives k and the rates. Only the precision is finer than printed."""
    order = sorted(range(len(clusters)), key=lambda i: psi(clusters[i]))
    ranked = [clusters[i] for i in order]
    k = 1
    while k < len(ranked):
        if _unused(ranked[:k], psi(ranked[k - 1])) >= _spare(ranked[:k]) - rate:
            break
        k += 1
    used = ranked[:k]
    z = _bisect(used, rate, psi(used[-1]), epsilon)
    rates = [0.0] * len(clusters)
    for i, cluster in zip(order, used, strict=False):
        rates[i] = cluster.spare_rate_per_s - phi(cluster, z, numerator(cluster))
    return k, rates


def _bisect(used: Sequence[ClusterLoad], rate: float, low: float, epsilon: float) -> float:
    high, doublings = 2 * low, 0
    while _unused(used, high) > _spare(used) - rate:
        high, doublings = 2 * high, doublings + 1
        if doublings > DOUBLINGS_BEFORE_GIVING_UP:
            raise NeverEndsError
    while high - low > epsilon * high:
        middle = (low + high) / 2
        if _unused(used, middle) >= _spare(used) - rate:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _unused(clusters: Sequence[ClusterLoad], z: float) -> float:
    return sum(phi(cluster, z, numerator(cluster)) for cluster in clusters)


def _spare(clusters: Sequence[ClusterLoad]) -> float:
    return sum(cluster.spare_rate_per_s for cluster in clusters)


def lrf_rates(local_rates: Sequence[float], rate: float) -> list[float]:
    """JPDC 2012, eq 26."""
    return [(1 - local / sum(local_rates)) * rate for local in local_rates]


def rtdp_sequence(
    proportions: Sequence[float], types: Sequence[int], type_shares: Sequence[float], fastest: int
) -> list[int]:
    """JPDC 2012, Algorithm 2, with its step 5; gives the cluster of each request."""
    clusters = range(len(proportions))
    sent = [[0] * len(proportions) for _ in type_shares]
    chosen = []
    for kind in types:
        shares = [p * type_shares[kind] for p in proportions]
        quotients = {j: ((j == fastest) + sent[kind][j]) / shares[j] for j in clusters if shares[j] != 0}
        best = min(quotients, key=quotients.__getitem__)
        sent[kind][best] += 1
        chosen.append(best)
    return chosen
