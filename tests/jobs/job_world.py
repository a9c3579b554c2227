"""A small world for jobs: nodes that run commands, fail and come back, and a client who gets results.

It carries out what a `leasehold.jobs.scheduler.JobScheduler` decides, and tells it what happens, by a clock of its
own. What is true here, the desk only learns by looking, by reports, or by silence. Everything follows
from the arguments and from the faults that a test injects.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from leasehold.jobs.effects import (
    BuildImage,
    JobClosed,
    JobEffect,
    LookAtNode,
    StartAttempt,
    StopAttempt,
    WakeJobsAt,
)
from leasehold.jobs.events import (
    AttemptEnded,
    AttemptFailed,
    AttemptNotNow,
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
from leasehold.jobs.job import Fault, JobRecord, JobRequest, site_of
from leasehold.jobs.scheduler import JobScheduler
from leasehold.matching.choice import Physical
from leasehold.matching.images import BuildSource, Image
from leasehold.matching.needs import NOTHING, Amounts
from leasehold.matching.nodes import Node, NodeCapabilities
from leasehold.matching.software import has_software
from leasehold.matching.verdict import FITS

Key = tuple[int, int]
"""A job and the number of its attempt."""


@dataclass(slots=True, eq=False)
class WorldNode:
    """A node as it really is.

    ``is_reached``  whether anybody hears of what happens on it; what runs there goes on all the same
    ``is_up``       whether anything runs on it
    """

    able: NodeCapabilities
    is_host: bool = False
    is_reached: bool = True
    is_up: bool = True
    runs: dict[Key, Amounts] = field(default_factory=dict)
    unheard: list[JobEvent] = field(default_factory=list)

    @property
    def used(self) -> Amounts:
        """What is used of it."""
        return sum(self.runs.values(), NOTHING)

    @property
    def left(self) -> Amounts:
        """What is not used of it. Raises InvalidField where more is used than there is."""
        total, used = self.able.total, self.used
        return Amounts(total.cores - used.cores, total.memory_mib - used.memory_mib, total.disk_mib - used.disk_mib)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldTimes:
    """How long things take, ms."""

    start_ms: int = 500
    silence_ms: int = 3_000
    repair_ms: int = 60_000
    look_ms: int = 10_000
    build_ms: int = 20_000


class JobWorld:
    """Nodes, images, a desk that is checked at every instant, and whoever waits for results."""

    def __init__(
        self,
        desk: JobScheduler,
        nodes: Iterable[tuple[NodeCapabilities, bool]],
        base: Image | None = None,
        buildable: tuple[tuple[str, str], ...] = (),
        times: WorldTimes | None = None,
    ) -> None:
        """Begin with these nodes, each with whether machines can be built on it."""
        self.scheduler = desk
        self.nodes = {able.name: WorldNode(able, is_host) for able, is_host in nodes}
        self.times = times or WorldTimes()
        self.now_ms = 0
        self.delivered: dict[int, list[JobRecord]] = {}
        self.faults: list[tuple[Fault, Key]] = []
        self.effects: list[tuple[int, JobEffect]] = []
        self._images: tuple[Image, ...] = ()
        self._coming: list[tuple[int, int, JobEvent | str]] = []
        self._order = count()
        self._tell(*self._looks(), ImagesSeen((), () if base is None else (BuildSource(base, buildable),)))

    # --- what a test does ----------------------------------------------------------------------------------

    def submit(self, request: JobRequest) -> None:
        """Submit a job now."""
        self._tell(JobSubmitted(request))

    def run_until(self, until_ms: int) -> None:
        """Let time pass."""
        while self._coming and self._coming[0][0] <= until_ms:
            self.now_ms, _, what = heappop(self._coming)
            self._happens(what)
        self.now_ms = until_ms

    def running(self) -> list[Key]:
        """List the attempts that really run, whether they count or not."""
        return sorted(key for node in self.nodes.values() for key in node.runs)

    def inject(self, fault: Fault, key: Key) -> None:
        """Let a fault befall an attempt that runs."""
        self.faults.append((fault, key))
        names = [name for name, node in self.nodes.items() if key in node.runs]
        if fault in {Fault.NODE_DIED, Fault.NETWORK_FAILED, Fault.SERVICE_STOPPED}:
            self._break(names[0], fault)
            return
        if fault is Fault.SOFTWARE_GONE:
            for name in names:
                self._lose_software(self.nodes[name])
        self._leave(key)
        self._tell(AttemptFailed(*key, fault, f"injected {fault.value}"))

    # --- nodes ---------------------------------------------------------------------------------------------

    def _break(self, name: str, fault: Fault) -> None:
        """Cut a node off: a dead one has lost all that ran there, on others it goes on unheard."""
        node = self.nodes[name]
        node.is_reached = False
        if fault is Fault.NODE_DIED:
            node.is_up = False
            for key in list(node.runs):
                self._leave(key)
        self._later(self.times.silence_ms, NodeFell(name, fault, "is silent"))
        self._later(self.times.repair_ms, f"repair {name}")

    def _repair(self, node: WorldNode) -> None:
        node.is_up = node.is_reached = True
        unheard, node.unheard = node.unheard, []
        self._tell(*self._looks(site_of(node.able.name)), *unheard)

    def _lose_software(self, node: WorldNode) -> None:
        able = node.able
        node.able = NodeCapabilities(name=able.name, total=able.total, cpu_mhz=able.cpu_mhz, place=able.place)

    def _looks(self, *sites: str) -> list[NodesSeen]:
        names = sites or tuple(sorted({site_of(name) for name in self.nodes}))
        return [NodesSeen(site, self._seen(site)) for site in names]

    def _seen(self, site: str) -> tuple[SeenNode, ...]:
        """See the nodes of a site; one that is silent is listed until somebody says that it has fallen."""
        return tuple(
            SeenNode(
                Node(
                    capabilities=node.able,
                    free=node.left,
                    seen_ms=self.now_ms if node.is_reached else 1,
                ),
                is_host=node.is_host,
            )
            for name, node in self.nodes.items()
            if site_of(name) == site
        )

    # --- attempts ------------------------------------------------------------------------------------------

    def _start(self, effect: StartAttempt) -> None:
        key = (effect.record.id, effect.attempt.number)
        nodes = [self.nodes[name] for name in effect.attempt.nodes]
        job, place = effect.record.request.job, effect.attempt.place
        amounts = job.needs.amounts
        if not isinstance(place, Physical) and isinstance(place.image, Image):
            amounts += place.image.needs
        elif any(has_software(job.needs.software, node.able.software) is not FITS for node in nodes):
            self._later(self.times.start_ms, AttemptFailed(*key, Fault.SOFTWARE_GONE, "command not found"))
            return
        if not all(node.is_reached for node in nodes):
            return  # nobody hears of it until its node is said to have fallen
        if any(not node.able.total.holds(node.used + amounts) for node in nodes):
            self._later(0, AttemptNotNow(*key, "no room"))
            return
        for node in nodes:
            node.runs[key] = amounts
        self._later(self.times.start_ms, AttemptRuns(*key))
        status = 1 if effect.record.request.command == ("false",) else 0
        self._later(self.times.start_ms + job.needs.execution_ms, AttemptEnded(*key, status))

    def _leave(self, key: Key) -> None:
        for node in self.nodes.values():
            node.runs.pop(key, None)

    def _stop(self, effect: StopAttempt) -> None:
        key = (effect.record.id, effect.attempt.number)
        if all(self.nodes[name].is_reached for name in effect.attempt.nodes):
            self._leave(key)

    # --- time and the desk ---------------------------------------------------------------------------------

    def _later(self, after_ms: int, what: JobEvent | str) -> None:
        heappush(self._coming, (self.now_ms + after_ms, next(self._order), what))

    def _happens(self, what: JobEvent | str) -> None:
        if isinstance(what, str):
            verb, _, name = what.partition(" ")
            if verb == "repair":
                self._repair(self.nodes[name])
            else:
                self._tell(*self._looks(name))
        elif isinstance(what, AttemptRuns | AttemptEnded):
            self._reported(what)
        elif not isinstance(what, NodeFell) or not self.nodes[what.node].is_reached:
            self._tell(what)

    def _reported(self, event: AttemptRuns | AttemptEnded) -> None:
        """What happens to an attempt is heard of now, or when its node is reached again, or never."""
        key = (event.job_id, event.number)
        nodes = [node for node in self.nodes.values() if key in node.runs]
        if not nodes:
            return
        if isinstance(event, AttemptEnded):
            self._leave(key)
        silent = [node for node in nodes if not node.is_reached]
        if silent:
            silent[0].unheard.append(event)
        else:
            self._tell(event)

    def _tell(self, *events: JobEvent) -> None:
        effects = self.scheduler.handle(events, self.now_ms)
        self.scheduler.check()
        for effect in effects:
            self.effects.append((self.now_ms, effect))
            self._carry_out(effect)

    def _carry_out(self, effect: JobEffect) -> None:
        if isinstance(effect, StartAttempt):
            self._start(effect)
        elif isinstance(effect, StopAttempt):
            self._stop(effect)
        elif isinstance(effect, WakeJobsAt):
            self._later(max(0, effect.at_ms - self.now_ms), JobTick())
        elif isinstance(effect, LookAtNode):
            self._later(self.times.look_ms, f"look {site_of(effect.node)}")
        elif isinstance(effect, BuildImage):
            self._build(effect)
        elif isinstance(effect, JobClosed) and effect.record.delivered:
            self.delivered.setdefault(effect.record.id, []).append(effect.record)

    def _build(self, effect: BuildImage) -> None:
        base = effect.recipe.base
        software = base.software | effect.recipe.packages
        made = Image(effect.key, software, base.size_bytes, base.needs)
        self._images = (*self._images, made)
        self._later(self.times.build_ms, ImageBuilt(effect.key, made))
