"""One run: nodes and jobs as drawn, machines that are built, nodes that fail, and what is measured.

What becomes of a job is decided by Leasehold's own scheduler (`leasehold.jobs`), as in a live gateway. Nodes and
jobs are drawn from the distributions that `hybrid.toml` states.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
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
from leasehold.jobs.effects import BuildImage, JobClosed, JobEffect, StartAttempt, StopAttempt, WakeJobsAt
from leasehold.jobs.events import (
    AttemptEnded,
    AttemptRuns,
    ImageBuilt,
    ImagesSeen,
    JobEvent,
    JobSubmitted,
    JobTick,
    NodeFell,
    NodesSeen,
    SeenNode,
)
from leasehold.jobs.job import Attempt, Fault, JobRecord, JobRequest, JobState
from leasehold.jobs.scheduler import JobScheduler
from leasehold.jobs.settings import JobSettings, Machines
from leasehold.matching.choice import MachineMaking, Retrying, Virtual
from leasehold.matching.images import Image
from leasehold.matching.needs import NOTHING, Amounts, InputFile, Job, Needs
from leasehold.matching.nodes import EvaluationTime, Node, NodeCapabilities, idle, judge
from leasehold.matching.reliability import FailureRate
from leasehold.matching.software import Installed, Software, software
from leasehold.matching.verdict import Feasibility

MS_PER_S = 1_000
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


@dataclass(frozen=True, slots=True)
class DrawnJob:
    """A job as it is submitted, and its true run time."""

    request: JobRequest
    runs_ms: int


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


def jobs(configuration: JobRun, total: Amounts, random: Random) -> Iterator[DrawnJob]:
    """Draw the jobs, in the order of their submission; ``total`` is what all nodes have together."""
    core_s = JOBS["execution_mean_s"] * mean(JOBS["cores"]) * mean(JOBS["nodes"])
    gap_s = core_s / (configuration.load * total.cores)
    now_s = 0.0
    for number in range(1, configuration.count + 1):
        now_s += random.expovariate(1 / gap_s)
        yield _job(number, round(now_s * MS_PER_S), random)


def _job(number: int, submitted_ms: int, random: Random) -> DrawnJob:
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
    return DrawnJob(JobRequest(job=job, command=("run",)), runs_ms)


def _software(random: Random) -> tuple[Software, ...]:
    if random.random() < JOBS["nowhere_to_be_had"]:
        return (software(NOWHERE),)
    names = random.sample(PACKAGES, random.randint(0, JOBS["software_at_most"]))
    return tuple(
        software(f"{name} >= {LAST_VERSION}" if random.random() < JOBS["needs_last_version"] else name)
        for name in sorted(names)
    )


@dataclass(frozen=True, slots=True)
class Situation:
    """The beginning of a run: nodes, jobs, images, and the settings of the scheduler.

    ``builds``, ``runs``   whether machines can be built on the nodes, and jobs run on them as they are
    ``failures_per_s``     of each node, 0 for never
    """

    nodes: tuple[NodeCapabilities, ...]
    jobs: tuple[DrawnJob, ...]
    settings: JobSettings
    buildable: tuple[tuple[str, str], ...] = ()
    boot_ms: int = 0
    builds: bool = True
    runs: bool = True
    failures_per_s: float = 0.0
    repair_ms: int = 0


def situation(configuration: JobRun, seed: int) -> Situation:
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
    return Situation(
        nodes=tuple(there),
        jobs=tuple(jobs(configuration, total, Random(f"jobs {seed}"))),
        settings=settings,
        buildable=BUILDABLE,
        boot_ms=boot_ms,
        builds=configuration.way != PHYSICAL_ONLY,
        runs=configuration.way != VIRTUAL_ONLY,
    )


def _with_failures(configuration: JobRun, seed: int) -> Situation:
    """Draw jobs that ask for a reliability, on equal nodes that fail at a known rate."""
    rate_per_s = -log(1 - configuration.q) / RELIABILITY["execution_s"]
    one = NodeCapabilities(name="", total=Amounts(1, 1024, 0), cpu_mhz=2000)
    return Situation(
        nodes=tuple(replace(one, name=f"{SITE}/n{number:02}") for number in range(NODES["nodes"])),
        jobs=tuple(_reliable_jobs(configuration, Random(f"sure {seed}"))),
        settings=JobSettings(belief=FailureRate(rate_per_s * OBSERVED_S, OBSERVED_S)),
        builds=False,
        failures_per_s=rate_per_s,
        repair_ms=round(RELIABILITY["repair_s"] * MS_PER_S),
    )


def _reliable_jobs(configuration: JobRun, random: Random) -> Iterator[DrawnJob]:
    now_ms, runs_ms = 0, round(RELIABILITY["execution_s"] * MS_PER_S)
    for number in range(1, configuration.count + 1):
        now_ms += round(random.expovariate(1 / RELIABILITY["every_s"]) * MS_PER_S)
        needs = Needs(amounts=Amounts(1, 256, 0), execution_ms=runs_ms)
        job = Job(job_id=number, submitted_ms=now_ms, needs=needs, deadline_ms=now_ms + 2 * runs_ms - 1)
        request = JobRequest(job=job, command=("run",), reliability=configuration.asked, restarts=0)
        yield DrawnJob(request, runs_ms)


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

    def __init__(self, around: Situation) -> None:
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

AttemptKey = tuple[int, int]
"""A job and one of its attempts."""


def measure(name: str, seed: int) -> dict[str, float]:
    """Run one configuration, by its name."""
    return run(configuration_named(name), seed)


def run(configuration: JobRun, seed: int) -> dict[str, float]:
    """Run all jobs to their end; returns what was measured."""
    world = HybridWorld(situation(configuration, seed), Random(f"fates {seed}"))
    world.run_all()
    return world.observer.read()


class HybridWorld:
    """Nodes, jobs, and what is due, by time."""

    def __init__(self, around: Situation, random: Random) -> None:
        self.around = around
        self.observer = JobObserver(around)
        self.scheduler = JobScheduler(around.settings)
        self._random = random
        self._due: list[tuple[int, int, Callable[[], Iterable[JobEvent]]]] = []
        self._order = count()
        self._free = {node.name: node.total for node in around.nodes}
        self._down: set[str] = set()
        self._held: dict[AttemptKey, tuple[tuple[str, ...], Amounts]] = {}
        self._now_ms = 0
        for drawn in around.jobs:
            self._at(drawn.request.job.submitted_ms, partial(list, [JobSubmitted(drawn.request)]))
        self._jobs_left = len(around.jobs)
        self._runs_ms = {drawn.request.id: drawn.runs_ms for drawn in around.jobs}
        if around.failures_per_s:
            for node in around.nodes:
                self._schedule_failure(node.name)

    def run_all(self) -> None:
        """Handle all that is due, instant by instant, until every job is over."""
        self._handle([ImagesSeen((BASE_IMAGE,), BASE_IMAGE, self.around.buildable), self._look()])
        while self._due and self._jobs_left:
            self._now_ms = self._due[0][0]
            events: list[JobEvent] = []
            while self._due and self._due[0][0] == self._now_ms:
                events += heappop(self._due)[2]()
            self._handle([self._look(), *events])

    def _at(self, at_ms: int, happens: Callable[[], Iterable[JobEvent]]) -> None:
        heappush(self._due, (at_ms, next(self._order), happens))

    def _handle(self, events: list[JobEvent]) -> None:
        for effect in self.scheduler.handle(events, self._now_ms):
            self._carry_out(effect)

    def _carry_out(self, effect: JobEffect) -> None:
        """Carry out an effect of the scheduler; decisions are for its journal alone."""
        match effect:
            case StartAttempt():
                self._start(effect.record, effect.attempt)
            case StopAttempt():
                self._give_back((effect.record.id, effect.attempt.number))
            case BuildImage():
                built = image(effect.key, effect.recipe.base.software | effect.recipe.packages)
                self.observer.counts["builds"] += 1
                self._at(self._now_ms + effect.recipe.build_ms, lambda: [ImageBuilt(effect.key, built)])
            case WakeJobsAt():
                self._at(max(effect.at_ms, self._now_ms), lambda: [JobTick()])
            case JobClosed():
                self._jobs_left -= 1
                self.observer.closed(effect.record, self._now_ms)
            case _:
                pass

    # jobs and nodes

    def _look(self) -> NodesSeen:
        """Look at all nodes that are there."""
        return NodesSeen(
            SITE,
            tuple(
                SeenNode(
                    Node(capabilities=node, free=self._free[node.name], seen_ms=self._now_ms),
                    is_host=self.around.builds,
                    runs=self.around.runs,
                )
                for node in self.around.nodes
                if node.name not in self._down
            ),
        )

    def _start(self, record: JobRecord, attempt: Attempt) -> None:
        """Take room on the nodes; the command begins after files are moved and machines booted."""
        key, amounts, setting_up_ms = (record.id, attempt.number), record.request.job.needs.amounts, 0
        edges = attempt.place.hosts if isinstance(attempt.place, Virtual) else attempt.place.nodes
        if isinstance(attempt.place, Virtual):
            assert isinstance(attempt.place.image, Image), "machines are started from images that are there"
            amounts += attempt.place.image.needs
            setting_up_ms = self.around.boot_ms
            self.observer.machines_made(record, len(edges))
        for name in attempt.nodes:
            self._free[name] -= amounts
        self._held[key] = (attempt.nodes, amounts)
        begins_ms = self._now_ms + max(edge.weight_ms for edge in edges) + setting_up_ms
        self._at(begins_ms, lambda: self._begin(key))

    def _begin(self, key: AttemptKey) -> list[JobEvent]:
        if key not in self._held:
            return []
        self.observer.began(key[0], self._now_ms)
        self._at(self._now_ms + self._runs_ms[key[0]], lambda: self._end(key))
        return [AttemptRuns(*key)]

    def _end(self, key: AttemptKey) -> list[JobEvent]:
        if key not in self._held:
            return []
        self._give_back(key)
        return [AttemptEnded(*key, exit_status=0)]

    def _give_back(self, key: AttemptKey) -> None:
        names, amounts = self._held.pop(key, ((), Amounts()))
        for name in names:
            self._free[name] += amounts

    # nodes that fail

    def _schedule_failure(self, name: str) -> None:
        dies_s = self._random.expovariate(self.around.failures_per_s)
        self._at(self._now_ms + round(dies_s * MS_PER_S), lambda: self._fail(name))

    def _fail(self, name: str) -> list[JobEvent]:
        """Lose a node with all that runs on it; it returns empty after its repair."""
        self._down.add(name)
        for key in [key for key, (names, _) in self._held.items() if name in names]:
            self._give_back(key)
        self._at(self._now_ms + self.around.repair_ms, lambda: self._repair(name))
        return [NodeFell(name, Fault.NODE_DIED, "died")]

    def _repair(self, name: str) -> list[JobEvent]:
        self._down.discard(name)
        self._schedule_failure(name)
        return []
