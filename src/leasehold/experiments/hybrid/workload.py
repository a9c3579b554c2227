"""Nodes and jobs, drawn from the distributions that `hybrid.toml` states."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, sqrt
from random import Random

from leasehold.experiments.hybrid.settings import Configuration, said
from leasehold.jobs.job import JobRequest
from leasehold.matching.amounts import Amounts
from leasehold.matching.capabilities import Capabilities
from leasehold.matching.images import Image
from leasehold.matching.needs import InputFile, Job, Needs
from leasehold.matching.software import Installed, Software, software

SITE = "grid"
MS_PER_S = 1_000
MIB = 1 << 20
NOWHERE = "nowhere-to-be-had"
MARGIN_MS = 900_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A job as it comes, and how long it really runs."""

    request: JobRequest
    runs_ms: int


def nodes(random: Random) -> list[Capabilities]:
    """Draw the nodes."""
    world = said()["world"]
    return [_node(f"{SITE}/n{number:02}", _some(random), random) for number in range(world["nodes"])]


def nodes_with_everything(random: Random) -> list[Capabilities]:
    """Draw the few nodes for which jobs queue: they have all software, in the last version."""
    count = said()["queues"]["nodes"]
    return [_node(f"{SITE}/n{number:02}", frozenset(buildable()), random) for number in range(count)]


def _some(random: Random) -> Installed:
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


def jobs(configuration: Configuration, total: Amounts, random: Random) -> Iterator[Asked]:
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


def _job(number: int, submitted_ms: int, random: Random) -> Asked:
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
    return Asked(JobRequest(job=asked, command=("run",)), runs_ms)


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
