"""The shares that the papers compare PAP with (JPDC 2012, section 5.2.1): RR, LRF and BCF."""

from collections.abc import Sequence

from leasehold.model.errors import InvalidField
from leasehold.routing.allocation import normalised
from leasehold.routing.moments import require_non_negative, require_positive


def round_robin_proportions(clusters: int) -> tuple[float, ...]:
    """RR: the same share for each cluster (eq 25). Raises InvalidField without clusters."""
    require_positive("clusters", clusters)
    return (1 / clusters,) * clusters


def least_rate_first_proportions(local_rates_per_s: Sequence[float]) -> tuple[float, ...]:
    """LRF: the smaller a cluster's local arrival rate, the larger its share (eq 26).

    The printed shares sum to N - 1, so they are divided by that. Equal shares for one cluster and
    where nobody has local requests. Raises InvalidField for a negative rate or without clusters.
    """
    for rate in local_rates_per_s:
        require_non_negative("local rate", rate)
    clusters, total = len(local_rates_per_s), sum(local_rates_per_s)
    if clusters == 1 or total == 0:
        return round_robin_proportions(clusters)
    return tuple((1 - rate / total) / (clusters - 1) for rate in local_rates_per_s)


def biggest_cluster_first_proportions(cluster_mips: Sequence[float]) -> tuple[float, ...]:
    """BCF: shares in proportion to computing power, elements times speed (eq 27).

    Raises InvalidField for a cluster without power or without clusters.
    """
    if not cluster_mips:
        raise InvalidField("clusters", 0, "at least one")
    for mips in cluster_mips:
        require_positive("cluster_mips", mips)
    return normalised(cluster_mips)
