"""What one run begins with: nodes, jobs, images, and how the desk is set."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from random import Random

from leasehold.experiments.hybrid.settings import (
    AT_LAST,
    PHYSICAL_ONLY,
    VIRTUAL_ONLY,
    Configuration,
    said,
)
from leasehold.experiments.hybrid.workload import (
    MS_PER_S,
    SITE,
    Asked,
    base_image,
    buildable,
    jobs,
    nodes,
    nodes_with_everything,
)
from leasehold.jobs.job import JobRequest
from leasehold.jobs.settings import JobSettings, Machines
from leasehold.matching.amounts import NOTHING, Amounts
from leasehold.matching.capabilities import Capabilities
from leasehold.matching.hosts import Making
from leasehold.matching.images import Image
from leasehold.matching.needs import Job, Needs
from leasehold.matching.reliability.learning import FailureRate
from leasehold.matching.retrying import Retrying

SURE_S = 1e12
"""So long was watched, as it were, where the failure rate is told: nothing that happens changes it."""


@dataclass(frozen=True, slots=True)
class Situation:
    """One run's beginning.

    ``builds``, ``runs``   whether machines can be built on the nodes, and jobs run on them as they are
    ``failures_per_s``     of each node, 0 for never
    """

    nodes: tuple[Capabilities, ...]
    jobs: tuple[Asked, ...]
    settings: JobSettings
    images: tuple[Image, ...]
    base: Image
    buildable: tuple[tuple[str, str], ...]
    boot_ms: int
    builds: bool = True
    runs: bool = True
    failures_per_s: float = 0.0
    repair_ms: int = 0


def situation(configuration: Configuration, seed: int) -> Situation:
    """Draw it. Runs with the same seed have the same nodes, and with the same load the same jobs."""
    return (_sure if configuration.part == "reliability" else _usual)(configuration, seed)


def _usual(configuration: Configuration, seed: int) -> Situation:
    draw = nodes_with_everything if configuration.part == "queues" else nodes
    there = tuple(draw(Random(f"nodes {seed}")))
    total = sum((node.total for node in there), NOTHING)
    machine, base = said()["machine"], base_image()
    boot_ms = round(machine["boot_s"] * MS_PER_S)
    return Situation(
        nodes=there,
        jobs=tuple(jobs(configuration, total, Random(f"jobs {seed}"))),
        settings=_settings(configuration, boot_ms),
        images=(base,),
        base=base,
        buildable=buildable(),
        boot_ms=boot_ms,
        builds=configuration.way != PHYSICAL_ONLY,
        runs=configuration.way != VIRTUAL_ONLY,
    )


def _settings(configuration: Configuration, boot_ms: int) -> JobSettings:
    every_ms = said()["published"]["retry_every_s"] * MS_PER_S
    at_last = configuration.way == AT_LAST
    return JobSettings(
        queue=configuration.queue,
        patience_ms=None,  # the paper has none
        retrying=Retrying(every_ms, configuration.retry_for_s * MS_PER_S),
        machines=Machines.RATHER_THAN_REFUSE if at_last else Machines.FOR_WANT_OF_NODES,
        making=Making(boot_ms, said()["world"]["places"][0]),
        build_ms=round(said()["machine"]["build_s"] * MS_PER_S),
    )


def _sure(configuration: Configuration, seed: int) -> Situation:
    """Draw jobs that ask to be sure, on nodes alike that die at the rate which is told."""
    told, base = said()["reliability"], base_image()
    rate_per_s = -log(1 - configuration.q) / told["execution_s"]
    there = tuple(_plain_node(number) for number in range(said()["world"]["nodes"]))
    return Situation(
        nodes=there,
        jobs=tuple(_sure_jobs(configuration, Random(f"sure {seed}"))),
        settings=JobSettings(belief=FailureRate(rate_per_s * SURE_S, SURE_S)),
        images=(base,),
        base=base,
        buildable=(),
        boot_ms=0,
        builds=False,
        failures_per_s=rate_per_s,
        repair_ms=round(told["repair_s"] * MS_PER_S),
    )


def _plain_node(number: int) -> Capabilities:
    return Capabilities(name=f"{SITE}/n{number:02}", total=Amounts(1, 1024, 0), cpu_mhz=2000)


def _sure_jobs(configuration: Configuration, random: Random) -> Iterator[Asked]:
    told, now_ms = said()["reliability"], 0
    runs_ms = round(told["execution_s"] * MS_PER_S)
    for number in range(1, configuration.count + 1):
        now_ms += round(random.expovariate(1 / told["every_s"]) * MS_PER_S)
        needs = Needs(amounts=Amounts(1, 256, 0), execution_ms=runs_ms)
        job = Job(job_id=number, submitted_ms=now_ms, needs=needs, deadline_ms=now_ms + 2 * runs_ms - 1)
        request = JobRequest(job=job, command=("run",), reliability=configuration.asked, restarts=0)
        yield Asked(request, runs_ms)
