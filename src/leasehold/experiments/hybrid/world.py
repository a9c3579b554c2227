"""One run: nodes and jobs as drawn, machines that are built, nodes that fail, and what is measured.

What becomes of a job is decided by Leasehold's own desk (`leasehold.jobs`), as in a live gateway. Nodes and
jobs are drawn from the distributions that `hybrid.toml` states.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import fsum, log, nan, sqrt
from random import Random

from leasehold.experiments.hybrid.plan import (
    AT_LAST,
    PHYSICAL_ONLY,
    VIRTUAL_ONLY,
    JobRun,
    configuration_named,
    said,
)
from leasehold.jobs.desk import JobDesk
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
from leasehold.jobs.settings import JobSettings, Machines
from leasehold.matching.amounts import NOTHING, Amounts
from leasehold.matching.capabilities import Capabilities, Node, idle
from leasehold.matching.choice import Virtual
from leasehold.matching.hosts import Making
from leasehold.matching.images import Image
from leasehold.matching.needs import InputFile, Job, Needs
from leasehold.matching.reliability.learning import FailureRate
from leasehold.matching.retrying import Retrying
from leasehold.matching.satisfying import Moment, judge
from leasehold.matching.software import Installed, Software, software
from leasehold.matching.verdict import Answer

MS_PER_S = 1_000
PERCENT = 100.0
OBSERVED_S = 1e12
"""Of a failure rate that is stated: observed for so long that no event of a run changes it."""
SITE = "grid"
MIB = 1 << 20
NOWHERE = "nowhere-to-be-had"
MARGIN_MS = 900_000


@dataclass(frozen=True, slots=True)
class DrawnJob:
    """A job as it is submitted, and its true run time."""

    request: JobRequest
    runs_ms: int


def nodes(random: Random) -> list[Capabilities]:
    """Draw the nodes."""
    world = said()["world"]
    return [_node(f"{SITE}/n{number:02}", _installed(random), random) for number in range(world["nodes"])]


def nodes_with_everything(random: Random) -> list[Capabilities]:
    """Draw the few nodes of the queues: they have all software, in the last version."""
    count = said()["queues"]["nodes"]
    return [_node(f"{SITE}/n{number:02}", frozenset(buildable()), random) for number in range(count)]


def _installed(random: Random) -> Installed:
    world = said()["world"]
    there = [package for package in packages() if random.random() < world["has_package"]]
    return frozenset((package, random.choice(world["versions"])) for package in there)


def _node(name: str, there: Installed, random: Random) -> Capabilities:
    world = said()["world"]
    return Capabilities(
        name=name,
        total=Amounts(random.choice(world["cores"]), random.choice(world["memory_mib"]), world["disk_mib"]),
        cpu_mhz=random.choice(world["cpu_mhz"]),
        software=there,
        place=random.choice(world["places"]),
        bytes_per_s=random.choice(world["bytes_per_s"]),
    )


def packages() -> list[str]:
    """Name the software that a repository has."""
    return [f"package-{number}" for number in range(said()["world"]["packages"])]


def buildable() -> tuple[tuple[str, str], ...]:
    """Give what can be built, in the last version."""
    return tuple((package, said()["world"]["versions"][-1]) for package in packages())


def base_image() -> Image:
    """Give what machines are built from: it has none of the packages."""
    return image("base", frozenset())


def image(name: str, contents: Installed) -> Image:
    """Give an image with these packages."""
    machine = said()["machine"]
    needs = Amounts(0, machine["memory_mib"], machine["disk_mib"])
    return Image(name, contents, machine["image_bytes"], needs, frozenset(said()["world"]["places"][:1]))


def jobs(configuration: JobRun, total: Amounts, random: Random) -> Iterator[DrawnJob]:
    """Draw the jobs, in the order of their submission; ``total`` is what all nodes have together."""
    gap_s = _mean_core_s() / (configuration.load * total.cores)
    now_s = 0.0
    for number in range(1, configuration.count + 1):
        now_s += random.expovariate(1 / gap_s)
        yield _job(number, round(now_s * MS_PER_S), random)


def _mean_core_s() -> float:
    """Give the mean work of a job, in seconds of one core."""
    job = said()["job"]
    mean: float = job["execution_mean_s"] * _mean(job["cores"]) * _mean(job["nodes"])
    return mean


def _mean(values: list[int]) -> float:
    return sum(values) / len(values)


def _job(number: int, submitted_ms: int, random: Random) -> DrawnJob:
    job = said()["job"]
    runs_ms = _execution_ms(random)
    estimate_ms = round(runs_ms * random.uniform(*job["estimate"]))
    needs = Needs(
        amounts=Amounts(random.choice(job["cores"]), random.choice(job["memory_mib"]), 0),
        execution_ms=estimate_ms,
        nodes=random.choice(job["nodes"]),
        software=_software(random),
        inputs=(InputFile("input", random.randrange(job["input_mib"] * MIB), _place(random)),),
    )
    deadline_ms = submitted_ms + MARGIN_MS + round(runs_ms * random.uniform(*job["slack"]))
    asked = Job(job_id=number, submitted_ms=submitted_ms, needs=needs, deadline_ms=deadline_ms)
    return DrawnJob(JobRequest(job=asked, command=("run",)), runs_ms)


def _place(random: Random) -> str:
    place: str = random.choice(said()["world"]["places"])
    return place


def _execution_ms(random: Random) -> int:
    """Draw from a lognormal distribution with the stated mean and coefficient of variation."""
    job = said()["job"]
    spread = log(1 + job["execution_cv"] ** 2)
    drawn_s = random.lognormvariate(log(job["execution_mean_s"]) - spread / 2, sqrt(spread))
    return max(1, round(drawn_s * MS_PER_S))


def _software(random: Random) -> tuple[Software, ...]:
    job, last = said()["job"], said()["world"]["versions"][-1]
    if random.random() < job["nowhere_to_be_had"]:
        return (software(NOWHERE),)
    names = random.sample(packages(), random.randint(0, job["software_at_most"]))
    return tuple(
        software(f"{name} >= {last}" if random.random() < job["needs_last_version"] else name)
        for name in sorted(names)
    )


# The beginning of a run: nodes, jobs, images, and the settings of the desk


@dataclass(frozen=True, slots=True)
class Situation:
    """One run's beginning.

    ``builds``, ``runs``   whether machines can be built on the nodes, and jobs run on them as they are
    ``failures_per_s``     of each node, 0 for never
    """

    nodes: tuple[Capabilities, ...]
    jobs: tuple[DrawnJob, ...]
    settings: JobSettings
    images: tuple[Image, ...]
    base: Image
    buildable: tuple[tuple[str, str], ...]
    boot_ms: int
    builds: bool = True
    runs: bool = True
    failures_per_s: float = 0.0
    repair_ms: int = 0


def situation(configuration: JobRun, seed: int) -> Situation:
    """Draw it. Runs with the same seed have the same nodes, and with the same load the same jobs."""
    return (_sure if configuration.part == "reliability" else _default)(configuration, seed)


def _default(configuration: JobRun, seed: int) -> Situation:
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


def _settings(configuration: JobRun, boot_ms: int) -> JobSettings:
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


def _sure(configuration: JobRun, seed: int) -> Situation:
    """Draw jobs that ask for a reliability, on equal nodes that fail at a known rate."""
    stated, base = said()["reliability"], base_image()
    rate_per_s = -log(1 - configuration.q) / stated["execution_s"]
    there = tuple(_plain_node(number) for number in range(said()["world"]["nodes"]))
    return Situation(
        nodes=there,
        jobs=tuple(_sure_jobs(configuration, Random(f"sure {seed}"))),
        settings=JobSettings(belief=FailureRate(rate_per_s * OBSERVED_S, OBSERVED_S)),
        images=(base,),
        base=base,
        buildable=(),
        boot_ms=0,
        builds=False,
        failures_per_s=rate_per_s,
        repair_ms=round(stated["repair_s"] * MS_PER_S),
    )


def _plain_node(number: int) -> Capabilities:
    return Capabilities(name=f"{SITE}/n{number:02}", total=Amounts(1, 1024, 0), cpu_mhz=2000)


def _sure_jobs(configuration: JobRun, random: Random) -> Iterator[DrawnJob]:
    stated, now_ms = said()["reliability"], 0
    runs_ms = round(stated["execution_s"] * MS_PER_S)
    for number in range(1, configuration.count + 1):
        now_ms += round(random.expovariate(1 / stated["every_s"]) * MS_PER_S)
        needs = Needs(amounts=Amounts(1, 256, 0), execution_ms=runs_ms)
        job = Job(job_id=number, submitted_ms=now_ms, needs=needs, deadline_ms=now_ms + 2 * runs_ms - 1)
        request = JobRequest(job=job, command=("run",), reliability=configuration.asked, restarts=0)
        yield DrawnJob(request, runs_ms)


# What is measured

METRICS = (
    "refused_pct",
    "machines",
    "builds",
    "needless_machines",
    "wait_s",
    "longest_wait_s",
    "in_time_pct",
    "attempts",
    "sure_by_plan",
    "done_in_time",
)


class JobObserver:
    """Counts what happens to jobs.

    ``refused_pct``        jobs that were refused, of all
    ``machines``           virtual machines that were made; ``builds``: images that were built for them
    ``needless_machines``  made for jobs for which there were nodes enough that have what they need
    ``wait_s``             from submission until the command begins, of jobs that began; the longest beside it
    ``in_time_pct``        jobs done by their deadline, of all
    ``sure_by_plan``       mean reliability of the plans by formula, of jobs that were planned
    ``done_in_time``       part of these jobs that were done by their deadline
    """

    def __init__(self, around: Situation) -> None:
        """Start at zero."""
        self._around = around
        self._requests = {asked.request.id: asked.request.job for asked in around.jobs}
        self._machines = self._builds = self._needless = self._attempts = 0
        self._refused = self._in_time = self._planned_in_time = 0
        self._sure: list[float] = []
        self._waits_ms: dict[int, int] = {}

    def built(self) -> None:
        """Count an image that is built."""
        self._builds += 1

    def machines_made(self, record: JobRecord, number: int) -> None:
        """Count machines that are made for a job."""
        self._machines += number
        if self._around.runs and self._has_nodes(record.request.job):
            self._needless += number

    def _has_nodes(self, job: Job) -> bool:
        """Whether enough nodes, idle or not, have what a job needs."""
        now = Moment(job.submitted_ms)
        able = (judge(job, idle(node), 0, now) for node in self._around.nodes)
        return sum(verdict.answer is Answer.FIT for verdict in able) >= job.needs.nodes

    def began(self, job_id: int, now_ms: int) -> None:
        """Note the begin of the command of a job."""
        self._waits_ms.setdefault(job_id, now_ms - self._requests[job_id].submitted_ms)

    def closed(self, record: JobRecord, now_ms: int) -> None:
        """Count a job that is over."""
        deadline_ms = record.request.job.deadline_ms
        is_in_time = record.state is JobState.COMPLETED and (deadline_ms is None or now_ms <= deadline_ms)
        self._in_time += is_in_time
        self._refused += record.state is JobState.REFUSED
        self._attempts += len(record.attempts)
        if record.surest is not None and record.attempts:
            self._sure.append(record.surest)
            self._planned_in_time += is_in_time

    def read(self) -> dict[str, float]:
        """Give what was measured."""
        jobs, waits_ms, planned = len(self._requests), [*self._waits_ms.values()], len(self._sure)
        return {
            "refused_pct": PERCENT * self._refused / jobs,
            "machines": float(self._machines),
            "builds": float(self._builds),
            "needless_machines": float(self._needless),
            "wait_s": fsum(waits_ms) / len(waits_ms) / MS_PER_S if waits_ms else nan,
            "longest_wait_s": max(waits_ms, default=0) / MS_PER_S,
            "in_time_pct": PERCENT * self._in_time / jobs,
            "attempts": float(self._attempts),
            "sure_by_plan": fsum(self._sure) / planned if planned else nan,
            "done_in_time": self._planned_in_time / planned if planned else nan,
        }


# The run

Key = tuple[int, int]
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
        self.desk = JobDesk(around.settings)
        self._random = random
        self._due: list[tuple[int, int, Callable[[], Iterable[JobEvent]]]] = []
        self._order = count()
        self._free = {node.name: node.total for node in around.nodes}
        self._down: set[str] = set()
        self._held: dict[Key, tuple[tuple[str, ...], Amounts]] = {}
        self._now_ms = 0
        for asked in around.jobs:
            self._at(asked.request.job.submitted_ms, partial(self._submit, asked))
        self._jobs_left = len(around.jobs)
        self._runs_ms = {asked.request.id: asked.runs_ms for asked in around.jobs}
        if around.failures_per_s:
            for node in around.nodes:
                self._schedule_failure(node.name)

    def run_all(self) -> None:
        """Handle all that is due, instant by instant, until every job is over."""
        self._handle([ImagesSeen(self.around.images, self.around.base, self.around.buildable), self._look()])
        while self._due and self._jobs_left:
            self._now_ms = self._due[0][0]
            events: list[JobEvent] = []
            while self._due and self._due[0][0] == self._now_ms:
                events += heappop(self._due)[2]()
            self._handle([self._look(), *events])

    def _at(self, at_ms: int, happens: Callable[[], Iterable[JobEvent]]) -> None:
        heappush(self._due, (at_ms, next(self._order), happens))

    def _handle(self, events: list[JobEvent]) -> None:
        for effect in self.desk.handle(events, self._now_ms):
            self._carry_out(effect)

    def _carry_out(self, effect: JobEffect) -> None:
        """Carry out an effect of the desk; decisions are for its journal alone."""
        match effect:
            case StartAttempt():
                self._start(effect.record, effect.attempt)
            case StopAttempt():
                self._give_back((effect.record.id, effect.attempt.number))
            case BuildImage():
                built = image(effect.key, effect.recipe.base.software | effect.recipe.packages)
                self.observer.built()
                self._at(self._now_ms + effect.recipe.build_ms, lambda: [ImageBuilt(effect.key, built)])
            case WakeJobsAt():
                self._at(max(effect.at_ms, self._now_ms), lambda: [JobTick()])
            case JobClosed():
                self._jobs_left -= 1
                self.observer.closed(effect.record, self._now_ms)
            case _:
                pass

    # jobs and nodes

    def _submit(self, asked: DrawnJob) -> list[JobEvent]:
        return [JobSubmitted(asked.request)]

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

    def _begin(self, key: Key) -> list[JobEvent]:
        if key not in self._held:
            return []
        self.observer.began(key[0], self._now_ms)
        self._at(self._now_ms + self._runs_ms[key[0]], lambda: self._end(key))
        return [AttemptRuns(*key)]

    def _end(self, key: Key) -> list[JobEvent]:
        if key not in self._held:
            return []
        self._give_back(key)
        return [AttemptEnded(*key, exit_status=0)]

    def _give_back(self, key: Key) -> None:
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
