"""The federations that the routing tests share: random ones, and Table 2 of JPDC 2012 in two readings."""

import math
from collections.abc import Sequence
from functools import cache
from random import Random
from statistics import NormalDist

from leasehold.routing.queueing import ClusterLoad, ServiceMoments, vm_service_time_s

SLOTS = (64, 128, 256)
SPEED_MIPS = (2000, 3000, 2100)
ONE, POWER_OF_TWO = {"grid": 0.2, "local": 0.3}, {"grid": 0.5, "local": 0.6}


def random_federation(random: Random) -> tuple[list[ClusterLoad], float]:
    """Make 2 to 5 clusters with an external rate that they have room for."""
    clusters = [random_cluster(random, f"c{i}") for i in range(random.randint(2, 5))]
    spare = sum(cluster.spare_rate_per_s for cluster in clusters)
    return clusters, random.uniform(0.05, 0.95) * spare


def random_cluster(random: Random, name: str) -> ClusterLoad:
    tau, theta = random.uniform(0.1, 5), random.uniform(0.1, 5)
    return ClusterLoad(
        name,
        random.uniform(0.05, 0.9) / tau,
        ServiceMoments.from_cv(tau, random.uniform(0, 3)),
        ServiceMoments.from_cv(theta, random.uniform(0, 3)),
    )


def table_2(
    external_rate_per_s: float,
    *,
    reference_mips: float,
    local_rates_per_s: Sequence[float],
    external_mean_s: float = 420.0,
) -> tuple[list[ClusterLoad], float]:
    """Build the federation of JPDC 2012, Table 2, with the paper's coefficients of variation."""
    external_vm_s = mean_vms(2.75, 6, "grid") * external_mean_s
    clusters = []
    for i, (m, h, a) in enumerate(((2.5, 6, 5.0), (3.5, 7, 5.35), (4.5, 8, 5.5))):
        power = SLOTS[i] * SPEED_MIPS[i]
        local_vm_s = mean_vms(m, h, "local") * mean_duration_s(a)
        tau = vm_service_time_s(local_vm_s, reference_mips, power)
        theta = vm_service_time_s(external_vm_s, reference_mips, power)
        clusters.append(
            ClusterLoad(
                f"C{SLOTS[i]}",
                local_rates_per_s[i],
                ServiceMoments.from_cv(tau, 0.1),
                ServiceMoments.from_cv(theta, 0.5),
            )
        )
    return clusters, external_rate_per_s


def mean_duration_s(a: float, b: float = 1.7, longest_s: float = 162_754) -> float:
    """Give the mean of the DAS-2 model's log-normal run time, redrawn above two days."""
    below, cut = NormalDist().cdf, math.log(longest_s)
    return math.exp(a + b * b / 2) * below((cut - a) / b - b) / below((cut - a) / b)


@cache
def mean_vms(m: float, h: float, kind: str, low: float = 0.8, q: float = 0.9) -> float:
    """Integrate the true mean size of the DAS-2 model over its two-stage uniform exponent."""
    steps = 10_000
    points = [low + (m - low) * (i + 0.5) / steps for i in range(steps)]
    points_high = [m + (h - m) * (i + 0.5) / steps for i in range(steps)]
    one, power = ONE[kind], POWER_OF_TWO[kind]

    def size(exponent: float) -> float:
        rounded = math.ldexp(1, math.floor(exponent + 0.5))
        return power * rounded + (1 - one - power) * math.floor(math.exp2(exponent) + 0.5)

    return one + q * sum(map(size, points)) / steps + (1 - q) * sum(map(size, points_high)) / steps
