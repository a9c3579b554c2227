"""Small requests, nodes and images: every test says only what matters to it."""

from typing import Any

from leasehold.jobs.effects import (
    BuildImage,
    JobClosed,
    JobDecided,
    JobEffect,
    LookAtNode,
    StartAttempt,
    StopAttempt,
)
from leasehold.jobs.events import ImagesSeen, JobEvent, JobSubmitted, NodesSeen, SeenNode
from leasehold.jobs.job import Backup, Fault, JobRequest
from leasehold.jobs.scheduler import JobScheduler
from leasehold.jobs.settings import JobSettings
from leasehold.jobs.site_waits import PlannedWait, unplanned
from leasehold.matching.devices import devices_of
from leasehold.matching.images import BuildSource, Image
from leasehold.matching.needs import Amounts, InputFile, Job, Needs
from leasehold.matching.nodes import Network, Node, NodeCapabilities
from leasehold.matching.software import installed, software

S = 1_000
MINUTE = 60_000


def ask(
    job_id: int = 1,
    *,
    at_ms: int = 0,
    cores: int = 1,
    memory_mib: int = 100,
    needs: str = "",
    nodes: int = 1,
    execution_ms: int = 10 * S,
    deadline_ms: int | None = None,
    backup: Backup = Backup.NONE,
    reliability: float | None = None,
    restarts: int = 3,
    gpu_milli: int = 0,
    inputs: tuple[InputFile, ...] = (),
) -> JobRequest:
    """Ask for a job."""
    wanted = Needs(
        amounts=Amounts(cores, memory_mib, 0, devices_of(gpu_milli)),
        execution_ms=execution_ms,
        nodes=nodes,
        software=tuple(software(one) for one in needs.split(";") if one),
        inputs=inputs,
    )
    job = Job(job_id=job_id, submitted_ms=at_ms, needs=wanted, deadline_ms=deadline_ms)
    return JobRequest(job=job, command=("true",), backup=backup, reliability=reliability, restarts=restarts)


def submitted(job_id: int = 1, **wishes: Any) -> JobSubmitted:
    """Submit a job, with the wishes of `ask`."""
    return JobSubmitted(ask(job_id, **wishes))


def seen(
    name: str = "a/1",
    *,
    cores: int = 4,
    memory_mib: int = 1_000,
    free_cores: int | None = None,
    has: dict[str, str] | None = None,
    at_ms: int = 0,
    is_host: bool = False,
    runs: bool = True,
    waiting_ms: int = 0,
    problem: str = "",
    fault: Fault | None = None,
) -> SeenNode:
    """See a node."""
    total = Amounts(cores, memory_mib, 1_000)
    able = NodeCapabilities(name=name, total=total, cpu_mhz=2_000, software=installed((has or {}).items()))
    free = Amounts(cores if free_cores is None else free_cores, memory_mib, 1_000)
    node = Node(capabilities=able, free=free, seen_ms=at_ms, waiting_ms=waiting_ms)
    return SeenNode(node, is_host=is_host, runs=runs, problem=problem, fault=fault)


def site(*nodes: SeenNode, name: str = "a") -> NodesSeen:
    """See all nodes of a site."""
    return NodesSeen(name, nodes)


BASE = Image("base", frozenset(), 1_000, Amounts(0, 100, 10))


def image(name: str, has: dict[str, str]) -> Image:
    """Make an image whose system needs 100 MiB of memory."""
    return Image(name, installed(has.items()), 2_000, Amounts(0, 100, 10))


def catalogue(*images: Image, buildable: dict[str, str] | None = None) -> ImagesSeen:
    """See all images, and what could be built."""
    return ImagesSeen(images, (BuildSource(BASE, tuple((buildable or {}).items())),))


class Told:
    """A scheduler that is checked after every instant, and what it last said."""

    def __init__(
        self,
        *events: JobEvent,
        settings: JobSettings | None = None,
        network: Network | None = None,
        planned_wait: PlannedWait = unplanned,
    ) -> None:
        self.scheduler = JobScheduler(settings or JobSettings(), network, planned_wait=planned_wait)
        self.effects: list[JobEffect] = []
        self.tell(0, *events)

    def tell(self, now_ms: int, *events: JobEvent) -> "Told":
        """Tell all events of an instant."""
        self.effects = self.scheduler.handle(events, now_ms)
        self.scheduler.check()
        return self

    @property
    def started(self) -> list[tuple[int, int, tuple[str, ...]]]:
        """The attempts that were started: job, number, nodes."""
        return [(one.record.id, one.attempt.number, one.attempt.nodes) for one in self._all(StartAttempt)]

    @property
    def stopped(self) -> list[tuple[int, int]]:
        """The attempts that were stopped: job, number."""
        return [(one.record.id, one.attempt.number) for one in self._all(StopAttempt)]

    @property
    def decided(self) -> list[tuple[int, str, str]]:
        """What was decided: job, reason, what."""
        return [(one.record.id, one.reason.value, one.what) for one in self._all(JobDecided)]

    @property
    def closed(self) -> list[tuple[int, str, str, int]]:
        """The jobs that are over: job, state, reason, the attempt whose result it is."""
        return [
            (one.record.id, one.record.state.value, one.record.reason.value, one.record.delivered)
            for one in self._all(JobClosed)
        ]

    @property
    def built(self) -> list[str]:
        """The keys of the images that are to be built."""
        return [one.key for one in self._all(BuildImage)]

    @property
    def looked_at(self) -> list[str]:
        """The nodes that are to be looked at."""
        return [one.node for one in self._all(LookAtNode)]

    def _all(self, kind: type[Any]) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]
