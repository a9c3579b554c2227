"""The DAS-2 workload model: independent sizes, durations and gaps (JPDC 2012, section 5.2.2).

It has no daily cycle, and size and duration are not correlated. Durations are seconds on a machine of the
reference speed; what a faster cluster makes of them is not decided here.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix, LeaseTypeDraws
from leasehold.simulation.workload.streams import check_number, check_positive, random_stream

LONGEST_S = 162_754.0
"""The model cuts durations here: e**12 seconds, just below two days."""

_STANDARD = NormalDist()
_SMALLEST_DRAW = 2.0**-54  # replaces a zero of random(), which has no quantile


@dataclass(frozen=True, slots=True)
class TwoStageSizes:
    """How many VMs: one, a power of two, or any number, by a log-uniform law of two stages.

    log2 of the size is uniform on ``low..medium`` (l, m) with probability ``low_share`` (q), else uniform on
    ``medium..high`` (m, h); ``one`` and ``power_of_two`` are the shares of all requests with a single VM
    and with a power of two (P_one, P_pow2). The largest size is ``2**high``.
    Raises InvalidField outside the model's own range: h - 3.5 <= m <= h - 1.5 and 0.7 <= q <= 0.95.
    """

    low: float
    medium: float
    high: float
    low_share: float
    one: float
    power_of_two: float

    def __post_init__(self) -> None:
        check_number("h", self.high, 1.5, 40.0)
        check_number("m", self.medium, self.high - 3.5, self.high - 1.5)
        check_number("l", self.low, 0.0)
        if self.low >= self.medium:
            raise InvalidField("l", self.low, f"less than m, which is {self.medium:g}")
        check_number("q", self.low_share, 0.7, 0.95)
        check_number("p_one", self.one, 0.0, 1.0)
        check_number("p_pow2", self.power_of_two, 0.0, 1.0 - self.one)

    @property
    def largest(self) -> int:
        """The largest size that can be drawn."""
        return math.floor(math.exp2(self.high))

    def draw(self, random: Random) -> int:
        """Draw a size. Always takes three numbers, so that sizes of other parameters stay comparable."""
        kind, stage, place = random.random(), random.random(), random.random()
        if kind < self.one:
            return 1
        if stage < self.low_share:
            exponent = self.low + place * (self.medium - self.low)
        else:
            exponent = self.medium + place * (self.high - self.medium)
        if kind < self.one + self.power_of_two:
            exponent = math.floor(exponent + 0.5)
        return min(math.floor(math.exp2(exponent) + 0.5), self.largest)

    def probabilities(self) -> dict[int, float]:
        """Return the exact probability of each size from 1 to the largest."""
        found = dict.fromkeys(range(1, self.largest + 1), 0.0)
        found[1] += self.one
        for exponent in range(math.floor(self.high + 0.5) + 1):
            share = self._share_between(exponent - 0.5, exponent + 0.5)
            found[min(2**exponent, self.largest)] += self.power_of_two * share
        other = 1.0 - self.one - self.power_of_two
        for size in found:
            end = math.log2(size + 0.5) if size < self.largest else math.inf
            found[size] += other * self._share_between(math.log2(size - 0.5), end)
        return found

    def mean(self) -> float:
        """Return E[v], exactly."""
        return math.fsum(size * share for size, share in self.probabilities().items())

    def mean_square(self) -> float:
        """Return E[v**2], exactly."""
        return math.fsum(size * size * share for size, share in self.probabilities().items())

    def paper_exponent(self) -> float:
        """Return r of JPDC 2012, eq 29: the mean of log2 of the size."""
        return (self.low_share * self.low + self.medium + (1.0 - self.low_share) * self.high) / 2.0

    def paper_mean(self) -> float:
        """Return the mean size of JPDC 2012, eq 28: 2**r for E[2**X], so only near E[v]."""
        exponent = self.paper_exponent()
        other = 1.0 - (self.one + self.power_of_two)
        return self.one + math.exp2(math.ceil(exponent)) * self.power_of_two + math.exp2(exponent) * other

    def _share_below(self, exponent: float) -> float:
        if exponent <= self.medium:
            return max(0.0, self.low_share * (exponent - self.low) / (self.medium - self.low))
        beyond = min(1.0, (exponent - self.medium) / (self.high - self.medium))
        return self.low_share + (1.0 - self.low_share) * beyond

    def _share_between(self, start: float, end: float) -> float:
        return self._share_below(end) - self._share_below(start)


@dataclass(frozen=True, slots=True)
class LognormalDurations:
    """How long, in seconds: lognormal, never above ``longest_s``.

    ``log_mean`` and ``log_deviation`` (a, b) are those of the natural logarithm of the seconds.
    """

    log_mean: float
    log_deviation: float
    longest_s: float = LONGEST_S

    def __post_init__(self) -> None:
        check_positive("longest_s", self.longest_s)
        check_number("a", self.log_mean, -20.0, math.log(self.longest_s))
        check_positive("b", self.log_deviation)

    def draw(self, random: Random) -> float:
        """Draw seconds, by inversion.

        The model draws again whenever a value is too long; the quantile function of the cut distribution
        gives the same law from one number per job, so that durations of other parameters stay comparable.
        """
        quantile = max(random.random(), _SMALLEST_DRAW) * self._kept(0)
        return math.exp(self.log_mean + self.log_deviation * _STANDARD.inv_cdf(quantile))

    def mean_s(self) -> float:
        """Return E[d] of the cut distribution."""
        return self._moment(1)

    def mean_square_s2(self) -> float:
        """Return E[d**2] of the cut distribution."""
        return self._moment(2)

    def paper_mean_s(self) -> float:
        """Return the mean of JPDC 2012, eq 30, which knows of no longest duration."""
        return math.exp(self.log_mean + self.log_deviation**2 / 2.0)

    def _moment(self, order: int) -> float:
        uncut = math.exp(order * self.log_mean + (order * self.log_deviation) ** 2 / 2.0)
        return uncut * self._kept(order) / self._kept(0)

    def _kept(self, order: int) -> float:
        """Return which share of the uncut moment of this order lies below the longest duration."""
        distance = (math.log(self.longest_s) - self.log_mean) / self.log_deviation
        return _STANDARD.cdf(distance - order * self.log_deviation)


@dataclass(frozen=True, slots=True)
class WeibullGaps:
    """How long until the next request, in seconds: Weibull with ``scale_s`` and ``shape`` (alpha, beta).

    Continuous: GridSim's generator cuts each gap to whole seconds, which turns 40-60% of the gaps of Table 2
    into zero and raises the rates by 3-8%; that is not repeated here.
    """

    scale_s: float
    shape: float

    def __post_init__(self) -> None:
        check_positive("alpha", self.scale_s)
        check_number("beta", self.shape, 0.05, 100.0)

    @classmethod
    def with_rate(cls, rate_per_s: float, shape: float) -> "WeibullGaps":
        """Return the gaps of this shape whose mean is one over the rate."""
        return cls(1.0 / (check_positive("rate", rate_per_s) * math.gamma(1.0 + 1.0 / shape)), shape)

    def draw(self, random: Random) -> float:
        """Draw seconds."""
        return random.weibullvariate(self.scale_s, self.shape)

    def mean_s(self) -> float:
        """Return the mean gap."""
        return self.scale_s * math.gamma(1.0 + 1.0 / self.shape)

    def rate_per_s(self) -> float:
        """Return the long-run number of requests per second."""
        return 1.0 / self.mean_s()


PARAMETER_NAMES = ("l", "m", "h", "q", "p_one", "p_pow2", "a", "b", "alpha", "beta")
"""The parameters under the names of JPDC 2012, Table 2; ``longest_s`` may be added."""


@dataclass(frozen=True, slots=True)
class Das2Moments:
    """The moments of a stream for routing policies: its rate, and two moments each of size and duration."""

    rate_per_s: float
    mean_vms: float
    mean_square_vms: float
    mean_s: float
    mean_square_s2: float

    @property
    def mean_work_vm_s(self) -> float:
        """E[v * d]: VM-seconds of one request on machines of the reference speed."""
        return self.mean_vms * self.mean_s

    @property
    def mean_square_work_vm2_s2(self) -> float:
        """E[(v * d)**2]."""
        return self.mean_square_vms * self.mean_square_s2


@dataclass(frozen=True, slots=True)
class Das2Parameters:
    """One stream of the model: how large, how long, how often."""

    sizes: TwoStageSizes
    durations: LognormalDurations
    gaps: WeibullGaps

    @classmethod
    def named(cls, values: Mapping[str, float]) -> "Das2Parameters":
        """Return the stream with these parameters, named as in Table 2 (`PARAMETER_NAMES`).

        Raises UnknownName for another name, InvalidField for a missing or unfit one.
        """
        for name in values:
            if name not in (*PARAMETER_NAMES, "longest_s"):
                raise UnknownName("DAS-2 parameter", name, (*PARAMETER_NAMES, "longest_s"))
        for name in PARAMETER_NAMES:
            if name not in values:
                raise InvalidField(name, None, "a number: the DAS-2 model needs every parameter")
        size = [values[name] for name in PARAMETER_NAMES[:6]]
        longest_s = values.get("longest_s", LONGEST_S)
        return cls(
            TwoStageSizes(*size),
            LognormalDurations(values["a"], values["b"], longest_s),
            WeibullGaps(values["alpha"], values["beta"]),
        )

    def moments(self) -> Das2Moments:
        """Return the true moments, of the rounded sizes and the cut durations."""
        return Das2Moments(
            self.gaps.rate_per_s(),
            self.sizes.mean(),
            self.sizes.mean_square(),
            self.durations.mean_s(),
            self.durations.mean_square_s2(),
        )


def das2_jobs(
    parameters: Das2Parameters,
    seed: int,
    stream: str,
    site: str | None = None,
    mix: LeaseMix = EVEN_MIX,
    consumer: str = "",
) -> Iterator[WorkloadJob]:
    """Yield the jobs of one stream for ever; `combine.within` ends it.

    With a ``site`` they are that cluster's own, without they are external with the types of the mix. Sizes,
    durations, gaps, types and deadlines come from random streams of their own, named after ``stream``. They
    come on the account of ``consumer``, or of ``stream`` where it is empty.
    """
    sizes = random_stream(seed, stream, "sizes")
    durations = random_stream(seed, stream, "durations")
    gaps = random_stream(seed, stream, "gaps")
    types = LeaseTypeDraws(seed, stream)
    now_s = 0.0
    number = 0
    while True:
        number += 1
        now_s += parameters.gaps.draw(gaps)
        job = _job(now_s, parameters.sizes.draw(sizes), parameters.durations.draw(durations))
        job.consumer, job.source_id, job.source, job.site = consumer or stream, str(number), stream, site
        if site is None:
            types.assign(job, mix)
        yield job


def _job(submit_s: float, vms: int, duration_s: float) -> WorkloadJob:
    duration_ms = max(1, round(duration_s * 1000.0))
    return WorkloadJob(math.floor(submit_s * 1000.0), vms, duration_ms, duration_ms)
