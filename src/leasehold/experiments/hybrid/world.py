"""The simulated world of one run: nodes that jobs take, machines that are built, and nodes that die.

What becomes of a job is decided by Leasehold's own desk (`leasehold.jobs`), as in a live gateway.
"""

from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random

from leasehold.experiments.hybrid.metrics import Watch
from leasehold.experiments.hybrid.settings import Configuration
from leasehold.experiments.hybrid.situation import Situation, situation
from leasehold.experiments.hybrid.workload import SITE, Asked, image
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
from leasehold.jobs.job import Attempt, Fault, JobRecord
from leasehold.matching.amounts import Amounts
from leasehold.matching.capabilities import Node
from leasehold.matching.choice import Virtual
from leasehold.matching.images import Image

MS_PER_S = 1_000

Key = tuple[int, int]
"""A job and one of its attempts."""


def run(configuration: Configuration, seed: int) -> dict[str, float]:
    """Let the jobs come and everything end; returns what was measured."""
    world = World(situation(configuration, seed), Random(f"fates {seed}"))
    world.go_on()
    return world.watch.read()


class World:
    """Nodes, jobs to come, and what is due, by time."""

    def __init__(self, around: Situation, random: Random) -> None:
        self.around = around
        self.watch = Watch(around)
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
                self._wear_out(node.name)

    def go_on(self) -> None:
        """Handle whatever is due, instant by instant, until every job is over."""
        self._tell([ImagesSeen(self.around.images, self.around.base, self.around.buildable), self._look()])
        while self._due and self._jobs_left:
            self._now_ms = self._due[0][0]
            events: list[JobEvent] = []
            while self._due and self._due[0][0] == self._now_ms:
                events += heappop(self._due)[2]()
            self._tell([self._look(), *events])

    def _at(self, at_ms: int, happens: Callable[[], Iterable[JobEvent]]) -> None:
        heappush(self._due, (at_ms, next(self._order), happens))

    def _tell(self, events: list[JobEvent]) -> None:
        for effect in self.desk.handle(events, self._now_ms):
            self._follow(effect)

    def _follow(self, effect: JobEffect) -> None:
        """Do what the desk wants; what it only decided is for its journal."""
        match effect:
            case StartAttempt():
                self._start(effect.record, effect.attempt)
            case StopAttempt():
                self._give_back((effect.record.id, effect.attempt.number))
            case BuildImage():
                built = image(effect.key, effect.recipe.base.software | effect.recipe.packages)
                self.watch.built()
                self._at(self._now_ms + effect.recipe.build_ms, lambda: [ImageBuilt(effect.key, built)])
            case WakeJobsAt():
                self._at(max(effect.at_ms, self._now_ms), lambda: [JobTick()])
            case JobClosed():
                self._jobs_left -= 1
                self.watch.closed(effect.record, self._now_ms)
            case _:
                pass

    # jobs and nodes

    def _submit(self, asked: Asked) -> list[JobEvent]:
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
        """Take room on the nodes; files travel, machines boot, and then the command runs."""
        key, amounts, setting_up_ms = (record.id, attempt.number), record.request.job.needs.amounts, 0
        edges = attempt.place.hosts if isinstance(attempt.place, Virtual) else attempt.place.nodes
        if isinstance(attempt.place, Virtual):
            assert isinstance(attempt.place.image, Image), "machines are started from images that are there"
            amounts += attempt.place.image.needs
            setting_up_ms = self.around.boot_ms
            self.watch.machines_made(record, len(edges))
        for name in attempt.nodes:
            self._free[name] -= amounts
        self._held[key] = (attempt.nodes, amounts)
        begins_ms = self._now_ms + max(edge.weight_ms for edge in edges) + setting_up_ms
        self._at(begins_ms, lambda: self._begin(key))

    def _begin(self, key: Key) -> list[JobEvent]:
        if key not in self._held:
            return []
        self.watch.began(key[0], self._now_ms)
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

    # nodes that die

    def _wear_out(self, name: str) -> None:
        dies_s = self._random.expovariate(self.around.failures_per_s)
        self._at(self._now_ms + round(dies_s * MS_PER_S), lambda: self._die(name))

    def _die(self, name: str) -> list[JobEvent]:
        """Lose a node with all that runs on it; it comes back empty after its repair."""
        self._down.add(name)
        for key in [key for key, (names, _) in self._held.items() if name in names]:
            self._give_back(key)
        self._at(self._now_ms + self.around.repair_ms, lambda: self._repair(name))
        return [NodeFell(name, Fault.NODE_DIED, "died")]

    def _repair(self, name: str) -> list[JobEvent]:
        self._down.discard(name)
        self._wear_out(name)
        return []
