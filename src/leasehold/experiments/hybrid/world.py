"""One run: nodes and jobs as drawn, and what is measured.

What becomes of a job is decided by Leasehold's own scheduler (`leasehold.jobs`), as in a live gateway, in the simulated
world (`leasehold.simulation.events.jobs`). Nodes and jobs are drawn from the distributions that `hybrid.toml` states.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import fsum, log, nan, sqrt
from random import Random
from statistics import mean

from leasehold.experiments.hybrid.plan import (
    AT_LAST,
    PHYSICAL_ONLY,
    VIRTUAL_ONLY,
    JobRun,
    configuration_named,
    stated,
)
from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.jobs.job import JobRecord, JobRequest, JobState
from leasehold.jobs.settings import JobSettings, Machines
from leasehold.leasing.victims.registry import victim_policy
from leasehold.matching.choice import MachineMaking, Retrying
from leasehold.matching.images import Image
from leasehold.matching.needs import NOTHING, Amounts, InputFile, Job, Needs
from leasehold.matching.nodes import EvaluationTime, NodeCapabilities, idle, judge
from leasehold.matching.reliability import FailureRate
from leasehold.matching.software import Installed, Software, software
from leasehold.matching.verdict import Feasibility
from leasehold.model.request import Request
from leasehold.routing.registry import routing_policy
from leasehold.simulation.events.jobs import MS_PER_S, JobScenario, JobsOnNodes, SimulatedJob
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.workload.job import WorkloadJob

PERCENT = 100.0
OBSERVED_S = 1e12
"""Of a failure rate that is stated: observed for so long that no event of a run changes it."""
SITE = "grid"
MIB = 1 << 20
NOWHERE = "nowhere-to-be-had"
MARGIN_MS = 900_000
NODES, JOBS, MACHINES, RELIABILITY = (stated()[key] for key in ("world", "job", "machine", "reliability"))
LAST_VERSION = NODES["versions"][-1]
PACKAGES = [f"package-{number}" for number in range(NODES["packages"])]
BUILDABLE = tuple((package, LAST_VERSION) for package in PACKAGES)
"""What can be built, in the last version."""


def nodes(random: Random) -> list[NodeCapabilities]:
    """Draw the nodes."""
    return [_node(number, _installed(random), random) for number in range(NODES["nodes"])]


def _installed(random: Random) -> Installed:
    there = [package for package in PACKAGES if random.random() < NODES["has_package"]]
    return frozenset((package, random.choice(NODES["versions"])) for package in there)


def _node(number: int, there: Installed, random: Random) -> NodeCapabilities:
    return NodeCapabilities(
        name=f"{SITE}/n{number:02}",
        total=Amounts(random.choice(NODES["cores"]), random.choice(NODES["memory_mib"]), NODES["disk_mib"]),
        cpu_mhz=random.choice(NODES["cpu_mhz"]),
        software=there,
        place=random.choice(NODES["places"]),
        bytes_per_s=random.choice(NODES["bytes_per_s"]),
    )


def image(name: str, contents: Installed) -> Image:
    """Give an image with these packages."""
    needs = Amounts(0, MACHINES["memory_mib"], MACHINES["disk_mib"])
    return Image(name, contents, MACHINES["image_bytes"], needs, frozenset(NODES["places"][:1]))


BASE_IMAGE = image("base", frozenset())


def jobs(configuration: JobRun, total: Amounts, random: Random) -> Iterator[SimulatedJob]:
    """Draw the jobs, in the order of their submission; ``total`` is what all nodes have together."""
    core_s = JOBS["execution_mean_s"] * mean(JOBS["cores"]) * mean(JOBS["nodes"])
    gap_s = core_s / (configuration.load * total.cores)
    now_s = 0.0
    for number in range(1, configuration.count + 1):
        now_s += random.expovariate(1 / gap_s)
        yield _job(number, round(now_s * MS_PER_S), random)


def _job(number: int, submitted_ms: int, random: Random) -> SimulatedJob:
    """Draw a job; run times are lognormal, with the stated mean and coefficient of variation."""
    spread = log(1 + JOBS["execution_cv"] ** 2)
    drawn_s = random.lognormvariate(log(JOBS["execution_mean_s"]) - spread / 2, sqrt(spread))
    runs_ms = max(1, round(drawn_s * MS_PER_S))
    estimate_ms = round(runs_ms * random.uniform(*JOBS["estimate"]))
    needs = Needs(
        amounts=Amounts(random.choice(JOBS["cores"]), random.choice(JOBS["memory_mib"]), 0),
        execution_ms=estimate_ms,
        nodes=random.choice(JOBS["nodes"]),
        software=_software(random),
        inputs=(InputFile("input", random.randrange(JOBS["input_mib"] * MIB), random.choice(NODES["places"])),),
    )
    deadline_ms = submitted_ms + MARGIN_MS + round(runs_ms * random.uniform(*JOBS["slack"]))
    job = Job(job_id=number, submitted_ms=submitted_ms, needs=needs, deadline_ms=deadline_ms)
    return SimulatedJob(JobRequest(job=job, command=("run",)), runs_ms)


def _software(random: Random) -> tuple[Software, ...]:
    if random.random() < JOBS["nowhere_to_be_had"]:
        return (software(NOWHERE),)
    names = random.sample(PACKAGES, random.randint(0, JOBS["software_at_most"]))
    return tuple(
        software(f"{name} >= {LAST_VERSION}" if random.random() < JOBS["needs_last_version"] else name)
        for name in sorted(names)
    )


def situation(configuration: JobRun, seed: int) -> JobScenario:
    """Draw it. Runs with the same seed have the same nodes, and with the same load the same jobs."""
    if configuration.part == "reliability":
        return _with_failures(configuration, seed)
    random = Random(f"nodes {seed}")
    few = stated()["queues"]["nodes"]  # of the queues, which have all software
    is_few = configuration.part == "queues"
    there = [_node(one, frozenset(BUILDABLE), random) for one in range(few)] if is_few else nodes(random)
    total = sum((node.total for node in there), NOTHING)
    boot_ms, at_last = round(MACHINES["boot_s"] * MS_PER_S), configuration.way == AT_LAST
    every_ms = stated()["published"]["retry_every_s"] * MS_PER_S
    settings = JobSettings(
        queue=configuration.queue,
        patience_ms=None,  # the paper has none
        retrying=Retrying(every_ms, configuration.retry_for_s * MS_PER_S),
        machines=Machines.RATHER_THAN_REFUSE if at_last else Machines.FOR_WANT_OF_NODES,
        making=MachineMaking(boot_ms, NODES["places"][0]),
        build_ms=round(MACHINES["build_s"] * MS_PER_S),
    )
    return JobScenario(
        nodes=tuple(there),
        jobs=tuple(jobs(configuration, total, Random(f"jobs {seed}"))),
        settings=settings,
        base=BASE_IMAGE,
        buildable=BUILDABLE,
        boot_ms=boot_ms,
        builds=configuration.way != PHYSICAL_ONLY,
        runs=configuration.way != VIRTUAL_ONLY,
    )


def _with_failures(configuration: JobRun, seed: int) -> JobScenario:
    """Draw jobs that ask for a reliability, on equal nodes that fail at a known rate."""
    rate_per_s = -log(1 - configuration.q) / RELIABILITY["execution_s"]
    one = NodeCapabilities(name="", total=Amounts(1, 1024, 0), cpu_mhz=2000)
    return JobScenario(
        nodes=tuple(replace(one, name=f"{SITE}/n{number:02}") for number in range(NODES["nodes"])),
        jobs=tuple(_reliable_jobs(configuration, Random(f"sure {seed}"))),
        base=BASE_IMAGE,
        settings=JobSettings(belief=FailureRate(rate_per_s * OBSERVED_S, OBSERVED_S)),
        builds=False,
        failures_per_s=rate_per_s,
        repair_ms=round(RELIABILITY["repair_s"] * MS_PER_S),
    )


def _reliable_jobs(configuration: JobRun, random: Random) -> Iterator[SimulatedJob]:
    now_ms, runs_ms = 0, round(RELIABILITY["execution_s"] * MS_PER_S)
    for number in range(1, configuration.count + 1):
        now_ms += round(random.expovariate(1 / RELIABILITY["every_s"]) * MS_PER_S)
        needs = Needs(amounts=Amounts(1, 256, 0), execution_ms=runs_ms)
        job = Job(job_id=number, submitted_ms=now_ms, needs=needs, deadline_ms=now_ms + 2 * runs_ms - 1)
        request = JobRequest(job=job, command=("run",), reliability=configuration.asked, restarts=0)
        yield SimulatedJob(request, runs_ms)


# What is measured

METRICS: Mapping[str, str] = {
    "refused_pct": "jobs that were refused, of all",
    "machines": "virtual machines that were made",
    "builds": "images that were built for them",
    "needless_machines": "made for jobs for which there were nodes enough that have what they need",
    "wait_s": "from submission until the command begins, mean of the jobs that began",
    "longest_wait_s": "the longest of these",
    "in_time_pct": "jobs done by their deadline, of all",
    "attempts": "of all jobs",
    "sure_by_plan": "mean reliability of the plans by formula, of jobs that were planned",
    "done_in_time": "part of these jobs that were done by their deadline",
}


class JobObserver:
    """Counts what happens to jobs."""

    def __init__(self, around: JobScenario) -> None:
        """Start at zero."""
        self._around = around
        self._requests = {drawn.request.id: drawn.request.job for drawn in around.jobs}
        self._reliabilities: list[float] = []
        self._waits_ms: dict[int, int] = {}
        self.counts = Counter[str]()

    def machines_made(self, record: JobRecord, number: int) -> None:
        """Count machines that are made for a job; needless where enough nodes, idle or not, fit it."""
        self.counts["machines"] += number
        job = record.request.job
        now = EvaluationTime(job.submitted_ms)
        fits = (judge(job, idle(node), 0, now).answer is Feasibility.FIT for node in self._around.nodes)
        if self._around.runs and sum(fits) >= job.needs.nodes:
            self.counts["needless_machines"] += number

    def image_built(self) -> None:
        """Count an image that is built for machines."""
        self.counts["builds"] += 1

    def began(self, job_id: int, now_ms: int) -> None:
        """Note the begin of the command of a job."""
        self._waits_ms.setdefault(job_id, now_ms - self._requests[job_id].submitted_ms)

    def closed(self, record: JobRecord, now_ms: int) -> None:
        """Count a job that is over."""
        deadline_ms = record.request.job.deadline_ms
        is_in_time = record.state is JobState.COMPLETED and (deadline_ms is None or now_ms <= deadline_ms)
        self.counts["in_time"] += is_in_time
        self.counts["refused"] += record.state is JobState.REFUSED
        self.counts["attempts"] += len(record.attempts)
        if record.surest is not None and record.attempts:
            self._reliabilities.append(record.surest)
            self.counts["planned_in_time"] += is_in_time

    def read(self) -> dict[str, float]:
        """Give all ``METRICS``."""
        jobs, waits_ms, planned = len(self._requests), [*self._waits_ms.values()], len(self._reliabilities)
        counts = self.counts
        found = {
            "refused_pct": PERCENT * counts["refused"] / jobs,
            "wait_s": fsum(waits_ms) / len(waits_ms) / MS_PER_S if waits_ms else nan,
            "longest_wait_s": max(waits_ms, default=0) / MS_PER_S,
            "in_time_pct": PERCENT * counts["in_time"] / jobs,
            "sure_by_plan": fsum(self._reliabilities) / planned if planned else nan,
            "done_in_time": counts["planned_in_time"] / planned if planned else nan,
        }
        return {metric: found.get(metric, float(counts[metric])) for metric in METRICS}


# The run


def measure(name: str, seed: int) -> dict[str, float]:
    """Run one configuration, by its name."""
    return run(configuration_named(name), seed)


def run(configuration: JobRun, seed: int) -> dict[str, float]:
    """Run all jobs to their end; returns what was measured."""
    return run_all(situation(configuration, seed), Random(f"fates {seed}")).read()


def run_all(around: JobScenario, random: Random) -> JobObserver:
    """Run jobs to their end on a site whose gateway has room for whatever their scheduler places."""
    observer = JobObserver(around)
    cores = sum(node.total.cores for node in around.nodes)
    gateway = Gateway(
        [SiteSettings(SITE, cores, victim_policy("moml"))], Routing(routing_policy("rr")(random), learns=False)
    )
    world = SimulatedWorld(gateway, iter(()), _Nothing(), sources=[JobsOnNodes(gateway, around, observer, random)])
    for _ in world.run():
        pass
    return observer


class _Nothing:
    """Records nothing of leases: what counts here are jobs."""

    handlers: Mapping[type, Handler] = {}

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """A lease was asked for."""
