"""Jobs that say what they need, on nodes that are not alike: the job scheduler of the live service as a source.

As in the service, the scheduler asks the gateway for a lease for each attempt, bound to the site of its nodes, and in
each instant the gateway decides first. What is true of nodes is known here; the scheduler sees them at each instant at
which something happens to jobs or nodes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Protocol

from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway
from leasehold.jobs.effects import BuildImage, JobClosed, JobEffect, StartAttempt, StopAttempt, WakeJobsAt
from leasehold.jobs.events import (
    AttemptEnded,
    AttemptFailed,
    AttemptNotNow,
    AttemptRuns,
    AttemptStands,
    ImageBuilt,
    ImagesSeen,
    JobEvent,
    JobSubmitted,
    JobTick,
    NodeFell,
    NodeOffers,
    NodesSeen,
    SeenNode,
)
from leasehold.jobs.job import (
    NOT_YET,
    Attempt,
    AttemptState,
    Fault,
    JobRecord,
    JobRequest,
    Place,
    edges_of,
    names_of,
    site_of,
)
from leasehold.jobs.offers import OfferingNodes, OfferTerms, load_of
from leasehold.jobs.scheduler import JobScheduler
from leasehold.jobs.settings import JobSettings
from leasehold.matching.choice import Virtual
from leasehold.matching.images import BuildSource, Image
from leasehold.matching.needs import NOTHING, Amounts, Job
from leasehold.matching.nodes import Node, NodeCapabilities
from leasehold.matching.software import Installed
from leasehold.model.effect import (
    Decision,
    LeaseClosed,
    MigrateLease,
    ResumeLease,
    StartLease,
    SuspendLease,
    WithdrawLease,
)
from leasehold.model.event import CancelRequested, Event, LeaseFailed
from leasehold.model.lease import Lease
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import NEVER_MS, Request
from leasehold.model.resources import MachineShape
from leasehold.simulation.kernel import Requested
from leasehold.simulation.workload.job import WorkloadJob, job_of

MS_PER_S = 1_000

SITE_CLOSED = "its site takes no leases now"

AttemptKey = tuple[int, int]
"""A job and one of its attempts."""


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """A job as it is submitted, and its true run time."""

    request: JobRequest
    runs_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScenario:
    """The beginning of a run: nodes, jobs, images, and the settings of the scheduler.

    ``nodes``              named ``site/node``, as in a live gateway
    ``base``               the image from which others are built, with packages that are ``buildable``
    ``builds``, ``runs``   whether machines can be built on the nodes, and jobs run on them as they are
    ``failures_per_s``     of each node, 0 for never
    ``look_every_ms``      how often the scheduler is told how nodes are; None: whenever anything happens
    ``offers``             when nodes offer themselves in between, judged each ``offer_every_ms``; None: never
    """

    nodes: tuple[NodeCapabilities, ...]
    jobs: tuple[SimulatedJob, ...]
    settings: JobSettings
    base: Image | None = None
    buildable: tuple[tuple[str, str], ...] = ()
    boot_ms: int = 0
    builds: bool = True
    runs: bool = True
    failures_per_s: float = 0.0
    repair_ms: int = 0
    look_every_ms: int | None = None
    offers: OfferTerms | None = None
    offer_every_ms: int = 10_000


class JobWatcher(Protocol):
    """Measures what happens to jobs."""

    def machines_made(self, record: JobRecord, number: int) -> None:
        """Machines are made for a job."""

    def image_built(self) -> None:
        """An image is built."""

    def began(self, job_id: int, now_ms: int) -> None:
        """The command of a job has begun."""

    def closed(self, record: JobRecord, now_ms: int) -> None:
        """A job is over."""


@dataclass(slots=True)
class _Try:
    """An attempt and its lease; ``order`` is its place among all that is to happen."""

    record: JobRecord
    attempt: Attempt
    sets_up_ms: int
    order: int
    lease: Lease | None = None
    has_begun: bool = False
    is_suspended: bool = False

    @property
    def key(self) -> AttemptKey:
        """The attempt."""
        return self.record.id, self.attempt.number


class _Room:
    """What is used of a node. It may be more than there is: own users come without asking for a node."""

    def __init__(self, total: Amounts) -> None:
        self.free = self._total = total
        self._used = [0, 0, 0]

    def use(self, amounts: Amounts, times: int) -> None:
        """Use so much more, or less."""
        parts = amounts.cores, amounts.memory_mib, amounts.disk_mib
        self._used = [used + times * part for used, part in zip(self._used, parts, strict=True)]
        total = self._total
        there = total.cores, total.memory_mib, total.disk_mib
        cores, memory_mib, disk_mib = (max(0, most - used) for most, used in zip(there, self._used, strict=True))
        self.free = Amounts(cores, memory_mib, disk_mib)


class JobCounts:
    """Measures nothing: what becomes of jobs is counted, and their leases are in the tables."""

    def machines_made(self, record: JobRecord, number: int) -> None:
        """Machines are made for a job."""

    def image_built(self) -> None:
        """An image is built."""

    def began(self, job_id: int, now_ms: int) -> None:
        """The command of a job has begun."""

    def closed(self, record: JobRecord, now_ms: int) -> None:
        """A job is over."""


class JobsOnNodes:
    """Jobs from their submission to their end, and the nodes that they run on; ``counts`` says how often these fail."""

    def __init__(
        self,
        gateway: Gateway,
        scenario: JobScenario,
        watcher: JobWatcher,
        failures: Random,
        *,
        first_lease_id: int = 1,
    ) -> None:
        """Begin with all nodes up; leases are numbered from ``first_lease_id`` on."""
        self.scheduler = JobScheduler(scenario.settings, planned_wait=self._planned_wait_ms)
        self._gateway = gateway
        self.counts = Counter[str]()
        self._scenario = scenario
        self._watcher = watcher
        self._failures = failures
        self._due: list[tuple[int, int, Callable[[], Iterable[JobEvent]]]] = []
        self._order = count()
        self._lease_ids = count(first_lease_id)
        self._rooms = {node.name: _Room(node.total) for node in scenario.nodes}
        self._sites: dict[str, list[NodeCapabilities]] = {}
        for node in scenario.nodes:
            self._sites.setdefault(site_of(node.name), []).append(node)
        self._offering: dict[str, OfferingNodes] = {}
        self._others: dict[int, tuple[list[str], Amounts]] = {}
        self._down: set[str] = set()
        self._held: dict[AttemptKey, tuple[tuple[str, ...], Amounts]] = {}
        self._tries: dict[int, _Try] = {}
        self._lease_of: dict[AttemptKey, int] = {}
        self._inbox: list[JobEvent] = []
        self._requests: list[Event | Requested] = []
        self._closed_sites: set[str] = set()
        self._now_ms = -1
        self._jobs_left = len(scenario.jobs)
        self._runs_ms = {job.request.id: job.runs_ms for job in scenario.jobs}
        for job in scenario.jobs:
            self._at(job.request.job.submitted_ms, partial(list, [JobSubmitted(job.request)]))
        if scenario.failures_per_s:
            for node in scenario.nodes:
                self._schedule_failure(node.name, 0)
        if scenario.look_every_ms is not None:
            self._at(scenario.look_every_ms, self._look_again)
        if scenario.offers is not None:
            self._offering = {site: OfferingNodes(scenario.offers) for site in self._sites}
            self._at(scenario.offer_every_ms, self._offer)
        base = scenario.base
        images = ImagesSeen(())
        if base is not None:
            images = ImagesSeen((base,), (BuildSource(base, scenario.buildable),))
        self._decide([images, *self._looks(0)], 0)
        self.handlers: Mapping[type, Handler] = {
            StartLease: self._started,
            SuspendLease: self._suspended,
            ResumeLease: self._resumed,
            MigrateLease: self._migrated,
            WithdrawLease: self._withdrawn,
            Decision: self._decided,
            LeaseClosed: self._closed,
        }

    # A source of events

    @property
    def is_busy(self) -> bool:
        """Whether a job is not over yet."""
        return bool(self._jobs_left)

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Jobs of streams say nothing of what they need."""

    def next_ms(self, *, idle: bool) -> int:  # noqa: ARG002 - a job that waits hopes for all that may happen here
        """When something happens to a job or a node; at once where the gateway has said something of a lease."""
        if not self._jobs_left:
            return NEVER_MS
        if self._inbox or self._closed_sites != self._gateway.registry.closed:
            return self._now_ms
        return self._due[0][0] if self._due else NEVER_MS

    def events(self, now_ms: int) -> list[Event | Requested]:
        """Let the scheduler decide, once the gateway has done so in this instant; gives its requests for leases."""
        if now_ms != self._now_ms:
            self._now_ms = now_ms
            return []
        if not self._jobs_left:
            return []
        events: list[JobEvent] = []
        closed = self._gateway.registry.closed
        is_anything = bool(self._inbox) or self._closed_sites != closed
        self._closed_sites = closed
        while self._due and self._due[0][0] <= now_ms:
            is_anything = True
            events += heappop(self._due)[2]()
        events += self._inbox
        self._inbox.clear()
        if is_anything:
            looks = self._looks(now_ms) if self._scenario.look_every_ms is None else ()
            self._decide([*looks, *events], now_ms)
        requests, self._requests = self._requests, []
        return requests

    def _at(self, at_ms: int, happens: Callable[[], Iterable[JobEvent]], order: int | None = None) -> None:
        heappush(self._due, (at_ms, next(self._order) if order is None else order, happens))

    # What the scheduler wants

    def _decide(self, events: list[JobEvent], now_ms: int) -> None:
        for effect in self.scheduler.handle(events, now_ms):
            self._carry_out(effect, now_ms)

    def _carry_out(self, effect: JobEffect, now_ms: int) -> None:
        """Carry out an effect of the scheduler; decisions are for its journal alone."""
        match effect:
            case StartAttempt():
                self._start(effect.record, effect.attempt, now_ms)
            case StopAttempt():
                self._stop((effect.record.id, effect.attempt.number))
            case BuildImage():
                self._build(effect, now_ms)
            case WakeJobsAt():
                self._at(max(effect.at_ms, now_ms), lambda: [JobTick()])
            case JobClosed():
                self._jobs_left -= 1
                self.counts[f"job-{effect.record.state.value}"] += 1
                self._watcher.closed(effect.record, now_ms)
            case _:
                pass

    def _start(self, record: JobRecord, attempt: Attempt, now_ms: int) -> None:
        """Take room on the nodes, and ask for a lease that lasts until the command has ended.

        It begins after files are moved and machines booted.
        """
        amounts = record.request.job.needs.amounts
        if isinstance(attempt.place, Virtual):
            assert isinstance(attempt.place.image, Image), "machines are started from images that are there"
            amounts += attempt.place.image.needs
            self._watcher.machines_made(record, len(attempt.nodes))
        self._take(attempt.nodes, amounts)
        sets_up_ms = self._sets_up_ms(attempt.place)
        lease_id = next(self._lease_ids)
        tried = self._tries[lease_id] = _Try(record, attempt, sets_up_ms, next(self._order))
        self._held[tried.key] = (attempt.nodes, amounts)
        self._lease_of[tried.key] = lease_id
        settings, reference = self._gateway.sites[attempt.site].settings, self._gateway.reference_mips
        wall_ms = sets_up_ms + self._runs_ms[record.id]
        request = Request(
            id=lease_id,
            lease_type=record.request.lease_type,
            vms=len(attempt.nodes),
            duration_ms=max(1, -(-wall_ms * settings.speed_mips // reference)),
            submit_ms=now_ms,
            ready_ms=now_ms,
            consumer=record.request.consumer,
            memory_mib=max(1, amounts.memory_mib),
            group=record.request.group,
            domain=attempt.site,
            max_restarts=0,
        )
        job = job_of(request)
        job.source, job.source_id = "job", f"{record.id}.{attempt.number}"
        self._requests.append(Requested(request, job))

    def _sets_up_ms(self, place: Place) -> int:
        """How long it takes until files are moved and machines booted."""
        boot_ms = self._scenario.boot_ms if isinstance(place, Virtual) else 0
        return max(edge.weight_ms - self.scheduler.waiting_ms(edge.node) for edge in edges_of(place)) + boot_ms

    def _planned_wait_ms(self, place: Place, job: Job, ordered_vms: int, now_ms: int) -> int | None:
        """How long the lease of a job would wait at a place, by the plan of its site; as `PlannedWait`."""
        nodes, wall_ms = names_of(place), self._sets_up_ms(place) + self._runs_ms[job.job_id]
        shape = MachineShape(1, max(1, job.needs.amounts.memory_mib))
        known = self._gateway.knowledge
        return known.planned_wait_ms(site_of(nodes[0]), len(nodes), ordered_vms, wall_ms, shape, now_ms)

    def _stop(self, key: AttemptKey) -> None:
        self._give_back(key)
        if key in self._lease_of:
            self._requests.append(CancelRequested(self._lease_of[key]))

    def _build(self, effect: BuildImage, now_ms: int) -> None:
        recipe = effect.recipe
        contents: Installed = recipe.base.software | recipe.packages
        built = Image(effect.key, contents, recipe.base.size_bytes, recipe.base.needs, recipe.base.at)
        self._watcher.image_built()
        self._at(now_ms + recipe.build_ms, lambda: [ImageBuilt(effect.key, built)])

    def _give_back(self, key: AttemptKey) -> None:
        names, amounts = self._held.pop(key, ((), NOTHING))
        tried = self._tries.get(self._lease_of.get(key, -1))
        if tried is None or not tried.is_suspended:
            self._leave(names, amounts)

    def _take(self, names: Iterable[str], amounts: Amounts) -> None:
        for name in names:
            self._rooms[name].use(amounts, 1)

    def _leave(self, names: Iterable[str], amounts: Amounts) -> None:
        for name in names:
            self._rooms[name].use(amounts, -1)

    # What becomes of the leases of attempts

    def _started(self, effect: StartLease, now_ms: int) -> None:
        tried = self._tries.get(effect.lease.id)
        if tried is not None:
            tried.lease = effect.lease
            self._at(now_ms + tried.sets_up_ms, lambda: self._begin(tried), tried.order)
        else:
            self._place(effect.lease)

    def _begin(self, tried: _Try) -> list[JobEvent]:
        is_running = tried.lease is not None and tried.lease.held_since_ms >= 0
        if tried.key not in self._held or tried.has_begun or not is_running:
            return []
        tried.has_begun = True
        self._watcher.began(tried.key[0], self._now_ms)
        return [AttemptRuns(*tried.key)]

    def _continue(self, tried: _Try) -> list[JobEvent]:
        """The command goes on; of one that was suspended while it was set up it begins."""
        if tried.has_begun and tried.key in self._held:
            return [AttemptStands(*tried.key, AttemptState.RUNNING)]
        return self._begin(tried)

    def _suspended(self, effect: SuspendLease, now_ms: int) -> None:
        self._stands(effect.lease, AttemptState.SUSPENDED, now_ms)
        tried = self._tries.get(effect.lease.id)
        if tried is None:
            self._displace(effect.lease.id, now_ms)
        elif tried.key in self._held:
            tried.is_suspended = True
            self._leave(*self._held[tried.key])

    def _resumed(self, effect: ResumeLease, now_ms: int) -> None:
        self._stands(effect.lease, AttemptState.ORDERED, now_ms)
        tried = self._tries.get(effect.lease.id)
        if tried is None:
            self._place(effect.lease)
        elif tried.key in self._held:
            tried.is_suspended = False
            self._take(*self._held[tried.key])
            self._at(now_ms + effect.resume_ms, lambda: self._continue(tried))

    def _decided(self, effect: Decision, now_ms: int) -> None:
        tried = self._tries.get(effect.lease.id)
        if tried is not None and tried.lease is None and effect.outcome in {Outcome.WAIT, Outcome.HOLD}:
            self._stands(effect.lease, AttemptState.QUEUED, now_ms, effect.reason.value, effect.lease.reserved_ms)

    def _stands(self, lease: Lease, state: AttemptState, now_ms: int, why: str = "", begins_ms: int = NOT_YET) -> None:
        tried = self._tries.get(lease.id)
        if tried is not None and tried.key in self._held:
            self._now_ms = now_ms
            self._inbox.append(AttemptStands(*tried.key, state, why, begins_ms))

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        """The command has ended, or its lease came to nothing; an attempt that was stopped or lost is over already."""
        tried = self._tries.get(effect.lease.id)
        if tried is None:
            self._displace(effect.lease.id, now_ms)
            return
        if tried.key in self._held:
            self._give_back(tried.key)
            self._now_ms = now_ms
            self._inbox.append(_outcome(tried, effect.reason))
        del self._lease_of[tried.key], self._tries[effect.lease.id]

    # Other leases on the nodes

    def _migrated(self, effect: MigrateLease, now_ms: int) -> None:
        self._displace(effect.lease.id, now_ms)
        self._place(effect.lease)

    def _withdrawn(self, effect: WithdrawLease, now_ms: int) -> None:
        if effect.lease.id not in self._tries:
            self._displace(effect.lease.id, now_ms)

    def _place(self, lease: Lease) -> None:
        """Put each VM of a lease that is no attempt on the first node with a free core."""
        if lease.site not in self._sites:
            return
        each, names = Amounts(1, lease.request.memory_mib, 0), list[str]()
        for _ in range(lease.vms):
            free = (node.name for node in self._sites[lease.site] if self._rooms[node.name].free.cores)
            if (name := next(free, None)) is None:
                break
            self._take([name], each)
            names.append(name)
        self._others[lease.id] = names, each

    def _displace(self, lease_id: int, now_ms: int) -> None:
        """Free the nodes of such a lease, and look at them if jobs wait."""
        names, each = self._others.pop(lease_id, ((), NOTHING))
        self._leave(names, each)
        if names and self.scheduler.has_waiting:
            self._at(now_ms, list)

    # Nodes

    def _looks(self, now_ms: int) -> list[JobEvent]:
        """Look at all nodes that are there."""
        return [NodesSeen(site, tuple(self._seen(site, now_ms))) for site in self._sites]

    def _look_again(self) -> list[JobEvent]:
        """Tell the scheduler how all nodes are, and again after the interval."""
        if self._scenario.look_every_ms is not None:
            self._at(self._now_ms + self._scenario.look_every_ms, self._look_again)
        return self._looks(self._now_ms)

    def _offer(self) -> list[JobEvent]:
        """Let those nodes offer themselves that are lightly loaded."""
        now_ms, terms, offers = self._now_ms, self._scenario.offers, list[JobEvent]()
        self._at(now_ms + self._scenario.offer_every_ms, self._offer)
        for site, nodes in self._offering.items():
            seen = {one.node.name: one for one in self._seen(site, now_ms) if one.is_usable}
            loads = {name: load_of(one.node.capabilities.total, one.node.free) for name, one in seen.items()}
            due = nodes.due(loads, now_ms)
            offers += [NodeOffers(seen[name], now_ms + (terms.lasts_ms if terms else 0)) for name in due]
        self.counts["offer"] += len(offers)
        return offers

    def _seen(self, site: str, now_ms: int) -> Iterable[SeenNode]:
        builds, runs = self._scenario.builds, self._scenario.runs
        problem = SITE_CLOSED if site in self._closed_sites else ""
        for able in self._sites[site]:
            if able.name not in self._down:
                node = Node(capabilities=able, free=self._rooms[able.name].free, seen_ms=now_ms)
                yield SeenNode(node, builds, runs, problem)

    def _schedule_failure(self, name: str, now_ms: int) -> None:
        dies_s = self._failures.expovariate(self._scenario.failures_per_s)
        self._at(now_ms + round(dies_s * MS_PER_S), lambda: self._fail(name))

    def _fail(self, name: str) -> list[JobEvent]:
        """Lose a node with all that runs on it; it returns empty after its repair."""
        self.counts["node-failure"] += 1
        self._down.add(name)
        for key in [key for key, (names, _) in self._held.items() if name in names]:
            if self._loses_one(key, name):
                continue
            self._give_back(key)
            lease_id = self._lease_of[key]
            lease = self._tries[lease_id].lease
            lost = CancelRequested(lease_id) if lease is None else LeaseFailed(lease_id, lease.incarnation)
            self._requests.append(lost)
        self._at(self._now_ms + self._scenario.repair_ms, lambda: self._repair(name))
        return [NodeFell(name, Fault.NODE_DIED, "died")]

    def _loses_one(self, key: AttemptKey, name: str) -> bool:
        """Whether a command that runs goes on without one of its nodes, as so many are left as it needs."""
        tried = self._tries[self._lease_of[key]]
        (names, amounts), need = self._held[key], tried.record.request.job.needs.need
        if not tried.has_begun or tried.is_suspended or not 0 < need < len(names):
            return False
        self._leave((name,), amounts)
        self._held[key] = tuple(one for one in names if one != name), amounts
        return True

    def _repair(self, name: str) -> list[JobEvent]:
        self._down.discard(name)
        self._schedule_failure(name, self._now_ms)
        return []


def _outcome(tried: _Try, reason: Reason) -> JobEvent:
    """Say what it means for an attempt that its lease is over, as the service does."""
    if reason is Reason.COMPLETED:
        return AttemptEnded(*tried.key, exit_status=0)
    if reason in {Reason.MACHINES_LOST, Reason.PEER_REMOVED, Reason.NEVER_STARTED}:
        return AttemptFailed(*tried.key, Fault.NODE_DIED, reason.value)
    if not tried.has_begun:
        return AttemptNotNow(*tried.key, reason.value)
    return AttemptFailed(*tried.key, Fault.TAKEN_AWAY, reason.value)
