"""The DAS-2 workload model: independent sizes, durations and gaps (JPDC 2012, section 5.2.2).

It has no daily cycle, and size and duration are not correlated. Durations are seconds on a machine of the
reference speed; what a faster cluster makes of them is not decided here.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.simulation.workload.distributions import (
    LONGEST_S,
    LognormalDurations,
    TwoStageSizes,
    WeibullGaps,
)
from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix, LeaseTypeDraws
from leasehold.simulation.workload.streams import random_stream

PARAMETER_NAMES = ("l", "m", "h", "q", "p_one", "p_pow2", "a", "b", "alpha", "beta")
"""The parameters under the names of JPDC 2012, Table 2; ``longest_s`` may be added."""


@dataclass(frozen=True, slots=True)
class StreamMoments:
    """What a routing policy may be told of a stream: its rate, and two moments each of size and duration."""

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

    def moments(self) -> StreamMoments:
        """Return the true moments, of the rounded sizes and the cut durations."""
        return StreamMoments(
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
) -> Iterator[Job]:
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


def _job(submit_s: float, vms: int, duration_s: float) -> Job:
    duration_ms = max(1, round(duration_s * 1000.0))
    return Job(math.floor(submit_s * 1000.0), vms, duration_ms, duration_ms)
