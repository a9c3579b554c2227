"""The workload (section 4.2): how many jobs of each consumer, when, how long, and for which virtual domain.

Every number comes from a stream named by seed, consumer and purpose. So two configurations see the same jobs
as far as they have the same ones: uSLAs are compared pair by pair, on common random numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from leasehold.experiments.usla.settings import MS_PER_S, Configuration

SHORTEST_MS = 1_000


@dataclass(frozen=True, slots=True)
class Work:
    """One job: one CPU of one virtual domain, for a consumer; both are numbers from 0 on."""

    submit_ms: int
    duration_ms: int
    consumer: int
    domain: int


def workload(configuration: Configuration, seed: int) -> list[Work]:
    """Draw all jobs of a run, in order of submission; who comes at the same moment, by consumer."""
    every = [
        work for consumer in range(len(configuration.jobs)) for work in _of(configuration, seed, consumer)
    ]
    return sorted(every, key=lambda work: (work.submit_ms, work.consumer))


def _of(configuration: Configuration, seed: int, consumer: int) -> Iterator[Work]:
    jobs = configuration.jobs[consumer]
    from_s, until_s = configuration.window_of(consumer)
    when = np.sort(_stream(seed, consumer, "arrivals").random(jobs)) * (until_s - from_s) + from_s
    spread = _stream(seed, consumer, "lengths").standard_normal(jobs) * configuration.sigma_s
    lengths_ms = np.maximum(SHORTEST_MS, np.rint((configuration.mean_s + spread) * MS_PER_S))
    domains = _stream(seed, consumer, "domains").integers(configuration.domains, size=jobs)
    whole_ms = np.floor(when * MS_PER_S)
    for submit_ms, length_ms, domain in zip(whole_ms, lengths_ms, domains, strict=True):
        yield Work(int(submit_ms), int(length_ms), consumer, int(domain))


def _stream(seed: int, consumer: int, purpose: str) -> np.random.Generator:
    name = f"usla\0{seed}\0{consumer}\0{purpose}"
    return np.random.default_rng(int.from_bytes(sha256(name.encode()).digest()))
