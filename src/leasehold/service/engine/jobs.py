"""The jobs of one engine: the commands about them, and the actions of the job scheduler.

The scheduler of `leasehold.jobs` decides beside the gateway. Within one step the gateway decides first; what its
leases mean for attempts is passed to the scheduler; what that wants becomes requests for the gateway, until
neither has anything more to decide. All of it is written in the transaction of that step.
"""

import json
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil

from leasehold.jobs.effects import (
    BuildImage,
    JobClosed,
    JobDecided,
    JobEffect,
    LookAtNode,
    StartAttempt,
    StopAttempt,
    WakeJobsAt,
)
from leasehold.jobs.events import AttemptNotNow, JobCancelled, JobEvent, JobSubmitted, JobTick, NodesSeen, Turn
from leasehold.jobs.job import Attempt, JobRecord, JobRequest, Place, name_there, names_of, provider_of, site_of
from leasehold.jobs.offers import OfferAnswer
from leasehold.jobs.scheduler import JobScheduler
from leasehold.jobs.settings import JobSettings
from leasehold.jobs.site_waits import PlannedWait
from leasehold.matching.choice import Virtual
from leasehold.matching.needs import Job
from leasehold.matching.nodes import Network
from leasehold.model.effect import Effect
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.event import CancelRequested, Event, Submitted
from leasehold.model.lease import Lease
from leasehold.model.resources import MachineShape
from leasehold.service.assignment_solver import best_solver
from leasehold.service.commands import (
    CancelJob,
    JobImageBuilt,
    JobImageFailed,
    JobImagesSeen,
    JobNodesOffered,
    JobNodesSeen,
    JobOutput,
    JobSiteSilent,
    SubmitJob,
)
from leasehold.service.drivers.protocol import Observation
from leasehold.service.engine.attempts import AttemptTracker, Speeds, metadata_of, request_of
from leasehold.service.engine.buildable import BuildableRepository
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.images import ImageRepository, ImageSource
from leasehold.service.engine.job_repository import JobRepository, OutputQuota, Try
from leasehold.service.engine.leases import LeaseRepository
from leasehold.service.engine.nodes import NodeRepository, NodeSource
from leasehold.service.engine.peer_sites import PeerSites
from leasehold.service.engine.tasks import BackgroundTasks
from leasehold.service.engine.timers import JobsDue
from leasehold.service.messages.about_jobs import (
    BuildableTold,
    BuildTold,
    BuildWanted,
    ImagesTold,
    NodesOffered,
    NodesTold,
)
from leasehold.service.store.rows import SNAPSHOTS, SnapshotRow

SCHEDULER = "jobs"
"""The name of the snapshot of the scheduler."""
MAX_PENDING_NEWS = 500
"""Less than this waits until the scheduler is asked something: much of it is soon out of date."""
IMAGE_NOT_THERE = "{} has not the image {} yet"

JobNews = (
    CancelJob
    | JobNodesSeen
    | JobNodesOffered
    | JobSiteSilent
    | JobImagesSeen
    | JobImageBuilt
    | JobImageFailed
    | JobOutput
)


@dataclass(frozen=True, slots=True)
class JobSetup:
    """How jobs are served.

    ``margin``       how many times its estimate a job may take before its lease is over
    ``output_kib``   so much is kept of what a command writes
    ``outputs_mib``  and of what all commands of one consumer wrote, the newest; 0: everything
    ``image_sites``  the sites whose machines boot from images
    ``gone_after_ms``  for so long a node is waited for that its site does not list any more
    """

    settings: JobSettings = field(default_factory=JobSettings)
    network: Network = field(default_factory=Network)
    margin: float = 2.0
    output_kib: int = 1024
    outputs_mib: int = 0
    image_sites: frozenset[str] = frozenset()
    gone_after_ms: int = 3_600_000

    def scheduler(self, planned_wait: PlannedWait) -> JobScheduler:
        """Make a scheduler that knows nothing yet."""
        return JobScheduler(self.settings, self.network, best_solver(), planned_wait)

    def wall_ms(self, record: JobRecord, attempt: Attempt) -> int:
        """How long the lease of an attempt lasts: the job with the margin, and the start of machines."""
        return self.wall_at_ms(attempt.place, record.request.job)

    def wall_at_ms(self, place: Place, job: Job) -> int:
        """How long the lease of a job lasts at a place."""
        boot_ms = self.settings.making.boot_ms if isinstance(place, Virtual) else 0
        return self.longest_ms(job) + boot_ms

    def longest_ms(self, job: Job) -> int:
        """How long a job may run: as long as it is thought to, with the margin."""
        return ceil(job.needs.execution_ms * self.margin)


class JobController:
    """Takes in commands and news about jobs, and mediates between the scheduler and the gateway.

    ``scheduler``  decides; ``attempts`` tells it what becomes of the leases that it wanted
    ``is_used``    whether there are, or may be, jobs; while there are none nothing here need be called
    ``tasks``      what is to be done outside, once it is written why
    """

    def __init__(
        self, context: EngineContext, leases: LeaseRepository, nodes: NodeRepository, setup: JobSetup, now_ms: int
    ) -> None:
        """Begin with what is in the store."""
        self.setup = setup
        self.tasks = BackgroundTasks()
        self.kept = JobRepository(context.store, context.unit, (row.order.lease_id for row in context.outbox))
        self.quota = OutputQuota(context.store, setup.outputs_mib << 20)
        self.nodes = nodes
        self.peer_sites = PeerSites(context.store, context.unit, context.core.gateway)
        store, unit, sites = context.store, context.unit, setup.image_sites
        buildable = BuildableRepository(store.buildable(), unit, sites)
        self.images = ImageRepository(store.images(), unit, self.tasks, sites, buildable, nodes.is_lost)
        self.attempts = AttemptTracker(context, self.kept, self.tasks, setup.output_kib)
        self._unit = context.unit
        self._core = context.core
        self._leases = leases
        self._journal = context.journal
        self._timers = context.timers
        self._telemetry = context.telemetry
        self._snapshot = context.store.snapshots().get(SCHEDULER, "{}")
        self._inbox: list[JobEvent] = self.images.recall()
        self._closed_sites: set[str] | None = None
        self._turns: dict[str, Turn] = {}
        """As the scheduler knows them, and as closed sites."""
        self._unrecalled: deque[tuple[str, tuple[str, ...]]] = deque()
        """What the scheduler is still to know after a start: of large sites some nodes in each step."""
        self._has_decided = False
        self.scheduler = setup.scheduler(self._planned_wait_ms)
        self.scheduler.take_up(self.kept.records, now_ms)
        self.scheduler.failures.restore(nodes.watched())
        self.scheduler.restore(json.loads(self._snapshot))  # what it still has of nodes is written where it belongs
        for consumer in self.kept.consumers():
            leases.requests.count(consumer, 1)
        self.is_used = bool(
            setup.settings.sites or setup.image_sites or self.kept.records or nodes.rows or self.images.rows
        )

    # What is asked

    def submit(self, command: SubmitJob, now_ms: int) -> JobRequest:
        """Take a job in, or all jobs of an array, and give the first; raises InvalidField, TooManyOpen."""
        first = self.request(command, now_ms)
        self._leases.requests.check(command.consumer, max(1, len(command.array)))
        requests = [first]
        if command.array:
            numbered = enumerate(command.array)
            requests = [
                replace(first, job=replace(first.job, job_id=first.id + more), array_id=first.id, array_index=index)
                for more, index in numbered
            ]
        self.kept.last_id = requests[-1].id
        self._leases.requests.count(command.consumer, len(requests))
        self.is_used = True
        self._inbox += map(JobSubmitted, requests)
        return requests[0]

    def request(self, command: SubmitJob, now_ms: int) -> JobRequest:
        """Read a request; raises InvalidField."""
        if not command.command:
            raise InvalidField("command", [], "a command to run")
        places = self._places()
        for number, file in enumerate(command.needs.inputs):
            if file.place and file.place not in places:
                raise UnknownName(f"inputs[{number}].place", file.place, places)
        job = Job(
            job_id=self.kept.last_id + 1,
            submitted_ms=now_ms,
            needs=command.needs,
            deadline_ms=command.deadline_ms,
        )
        return JobRequest(
            job=job,
            command=command.command,
            consumer=command.consumer,
            group=command.group,
            name=command.name,
            environment=command.environment,
            lease_type=command.lease_type,
            backup=command.backup,
            reliability=command.reliability,
            restarts=command.restarts,
            is_foreign=command.is_foreign,
        )

    def _places(self) -> set[str]:
        """Where files may lie: at a site, or at a configured end of a link."""
        gateway, ways = self._core.gateway, self.setup.network.ways
        return {*gateway.sites, *gateway.registry.remotes, *(place for way in ways for place in way)}

    def take_in(self, news: JobNews, now_ms: int) -> None:
        """Take in news of jobs, nodes and images; raises NoSuchJob."""
        self.is_used = True
        match news:
            case CancelJob(job_id):
                self.kept.row(job_id)
                self._inbox.append(JobCancelled(job_id))
            case JobNodesSeen():
                self._inbox += self.nodes.see(news, self.not_lending, now_ms)
            case JobNodesOffered():
                self._inbox += self.nodes.offered(news, self.not_lending, now_ms)
            case JobSiteSilent():
                self._inbox += self.nodes.lose(news, now_ms)
                self._inbox += self.images.lose(news.site, news.why, now_ms)
                self._inbox += self.images.heard(news.site)
            case JobImagesSeen():
                self._inbox += self.images.see(news, now_ms)
            case JobImageBuilt():
                self._inbox += self.images.built(news, now_ms)
            case JobImageFailed():
                self._inbox += self.images.failed(news, now_ms)
            case JobOutput():
                self.attempts.take(news, now_ms)

    def answer_offers(self, command: JobNodesOffered, now_ms: int) -> dict[str, OfferAnswer]:
        """Answer offers that were taken in at this time, by the names that their site has for the nodes."""
        return {
            facts.name: self.scheduler.answer_offer(f"{command.site}/{facts.name}", now_ms)
            if command.site not in self.not_lending
            else OfferAnswer.DECLINED
            for facts in command.nodes
        }

    @property
    def not_lending(self) -> Collection[str]:
        """Sites that take no leases now, and peers that are silent: these tell which of their sites take some."""
        registry = self._core.gateway.registry
        if not registry.remotes:
            return registry.closed
        return registry.closed | {
            name
            for name, remote in registry.remotes.items()
            if (remote.silent if remote.is_peer else not remote.is_open)
        }

    def _is_there(self, site: str) -> bool:
        """Whether a site is one's own, has a manager that has joined, or is behind a peer that has told of it."""
        gateway = self._core.gateway
        return site in gateway.sites or provider_of(site) in gateway.registry.remotes

    def hear_of_nodes(self, site: str, told: NodesTold, now_ms: int) -> None:
        """Take in what the manager of a site tells of its nodes."""
        self.is_used = True
        self._inbox += self.nodes.hear(NodeSource(site, {site: told.age_ms}), told, self.not_lending, now_ms)

    def hear_of_nodes_of_peer(self, peer: str, told: NodesTold, now_ms: int) -> None:
        """Take in what a peer tells of the nodes of its sites, as far as requests from here may reach them."""
        self.is_used = True
        ages_ms, closed = self.peer_sites.hear(peer, told.sites), self.not_lending
        self._inbox += self.images.forget_others(ImageSource(peer, ages_ms.keys()))
        source = NodeSource(peer, ages_ms, self.peer_sites.turns(closed), is_peer=True)
        self._inbox += self.nodes.hear(source, told, closed, now_ms)

    def hear_of_offers(self, name: str, told: NodesOffered, now_ms: int) -> None:
        """Take in that nodes of a site with a manager of its own, or of a peer, offer themselves."""
        self.is_used = True
        is_peer = self._core.gateway.registry.remotes[name].is_peer
        source = NodeSource(name, dict.fromkeys(self.peer_sites.of(name) if is_peer else [name], 0), is_peer=is_peer)
        self._inbox += self.nodes.hear_offers(source, told, self.not_lending, now_ms)

    def hear_of_images(self, name: str, told: ImagesTold, now_ms: int) -> None:
        """Take in what the manager of a site, or a peer, tells of images."""
        self.is_used = True
        self._inbox += self.images.hear(self._source(name), told, now_ms)

    def hear_of_buildable(self, name: str, told: BuildableTold) -> None:
        """Take in what the manager of a site, or a peer, tells of what can be built."""
        self.is_used = True
        self._inbox += self.images.hear_buildable(self._source(name), told)

    def build_to_order(self, wanted: BuildWanted, endpoint: str, now_ms: int) -> None:
        """Have an image built for the gateway of this site, or for a peer."""
        self.is_used = True
        self.images.build_to_order(wanted, endpoint, now_ms)

    def hear_of_build(self, name: str, told: BuildTold, now_ms: int) -> None:
        """Take in what has come of a build that the manager of a site, or a peer, was asked for."""
        self._inbox += self.images.hear_built(self._source(name), told, now_ms)

    def _source(self, name: str) -> ImageSource:
        """Give a manager, or a peer, as one that tells of images."""
        is_peer = self._core.gateway.registry.remotes[name].is_peer
        return ImageSource(name, frozenset(self.peer_sites.of(name)) if is_peer else None)

    def forget_site(self, site: str) -> None:
        """Forget a site with a manager of its own, or a peer, that will not come back."""
        self.peer_sites.forget(site)
        self._inbox += [*self.nodes.forget(site), *self.images.forget(site)]

    # Deciding

    @property
    def has_news(self) -> bool:
        """Whether there is anything that the scheduler does not know yet."""
        if self._closed_sites != self.not_lending or (self.peer_sites and self._turns != self.turns):
            return True
        has_room_news = self.scheduler.has_waiting and bool(self.nodes.room_news)
        return bool(self._inbox or self.attempts.inbox or self.attempts.withdrawn) or has_room_news

    def due(self) -> None:
        """Wake the scheduler at the time that it asked for."""
        self._inbox.append(JobTick())

    def decide(self, now_ms: int) -> list[Event]:
        """Let the scheduler decide about all news; returns its requests to the gateway."""
        if not self.has_news:
            return []
        events: list[Event] = [*self.attempts.withdrawn]
        inbox = [*self._as_they_lend(now_ms), *self.attempts.inbox, *self._inbox]
        for box in (self.attempts.inbox, self.attempts.withdrawn, self._inbox):
            box.clear()
        self.catch_up(now_ms)
        effects = self.scheduler.handle(inbox, now_ms)
        self.kept.follow(self.scheduler.moved.values())
        for effect in effects:
            events += self._carry_out(effect, now_ms)
        self.kept.follow(self.scheduler.moved.values())
        self._has_decided = True
        return events

    def _as_they_lend(self, now_ms: int) -> Iterable[JobEvent]:
        """What was last seen of nodes: of all at the start, and whenever a site is drained or lends again.

        Sites that are no longer configured are left out: their nodes are gone.
        """
        before, closed = self._closed_sites, set(self.not_lending)
        turned, self._turns = self._turns, self.turns
        self._closed_sites = closed
        if before == closed and turned == self._turns:
            return ()
        if before is None:
            for lease in self._core.gateway.leases.values():
                self._follow_room(lease, now_ms, after_a_restart=True)
        sites = self.nodes.sites()
        if before is not None:
            changed = before ^ closed
            peers = self._core.gateway.peering.terms.keys()
            sites = [
                site
                for site in sorted({*sites, *changed - peers})
                if provider_of(site) in changed or turned.get(site) != self._turns.get(site)
            ]
        at_once: list[tuple[str, tuple[str, ...]]] = []
        for site in filter(self._is_there, sites):
            parts = [(site, names) for names in self.nodes.remembered(site, now_ms)]
            is_later = before is None and len(parts) > 1
            (self._unrecalled if is_later else at_once).extend(parts)
        return [self._recall(site, names, closed, now_ms) for site, names in at_once]

    def _recall(self, site: str, names: tuple[str, ...], closed: Collection[str], now_ms: int) -> NodesSeen:
        return self.nodes.recall(site, names, closed, now_ms, self._turns.get(site, Turn.FIRST))

    @property
    def turns(self) -> dict[str, Turn]:
        """Say when the sites of peers are considered."""
        return self.peer_sites.turns(self.not_lending) if self.peer_sites else {}

    @property
    def has_unrecalled(self) -> bool:
        """Whether the scheduler does not know all nodes again yet."""
        return bool(self._unrecalled)

    def recall(self, now_ms: int) -> None:
        """Let the scheduler know some more of the nodes that were there before a restart."""
        if self._unrecalled:
            site, part = self._unrecalled.popleft()
            if self._is_there(site):
                self._inbox.append(self._recall(site, part, self.not_lending, now_ms))

    def follow(self, effects: Iterable[Effect], moved: Collection[Lease], now_ms: int) -> None:
        """Apply the gateway's decisions to attempts, and note the machines given to other leases."""
        self.attempts.follow(effects, moved, now_ms)
        for lease in moved:
            self._follow_room(lease, now_ms)

    def _follow_room(self, lease: Lease, now_ms: int, *, after_a_restart: bool = False) -> None:
        metadata = self._leases.metadata[lease.id]
        if metadata.job_id is not None or metadata.native_job:
            return
        left = self.nodes.follow(lease, metadata.constraints, now_ms, after_a_restart=after_a_restart)
        if left is not None and not left.nodes:
            self._look_if_jobs_wait(left.site)

    def saw(self, site: str, seen: Observation, now_ms: int) -> None:
        """Take in an observation of a lease, whether an attempt or any other."""
        self.attempts.saw(seen)
        room = self.nodes.saw(site, seen, now_ms)
        if room is not None and not room.nodes:
            self._look_if_jobs_wait(site)

    def _look_if_jobs_wait(self, site: str) -> None:
        """Request a look at a site, where it is not known on which nodes machines are or were."""
        if self.scheduler.has_waiting:
            self.tasks.looks.add(site)

    def catch_up(self, now_ms: int) -> None:
        """Let the scheduler know what other leases have been given, and have given back."""
        self.scheduler.observe(self.nodes.take_room_news(), now_ms)

    def keep_up(self, now_ms: int) -> None:
        """Let the scheduler know of much news now: a question to it need not wait for that."""
        if len(self.nodes.room_news) >= MAX_PENDING_NEWS:
            self.catch_up(now_ms)

    # What the scheduler wants

    def _carry_out(self, effect: JobEffect, now_ms: int) -> Iterable[Event]:
        match effect:
            case StartAttempt():
                return self._start(effect, now_ms)
            case StopAttempt(record, attempt):
                lease_id = self.kept.lease_of(Try(record, attempt))
                if lease_id in self._core.gateway.leases:
                    return [CancelRequested(lease_id)]
                # else it is over; where machines still have it, they are ordered to stop
            case BuildImage():
                self._inbox += self.images.build(effect, now_ms)
            case LookAtNode(node):
                self.tasks.looks.add(provider_of(site_of(node)))
            case JobDecided():
                self._decided(effect, now_ms)
            case JobClosed(record):
                self._leases.requests.count(record.request.consumer, -1)
            case WakeJobsAt(at_ms):
                self._timers.add(max(at_ms, now_ms + 1), JobsDue())
        return ()

    def _start(self, effect: StartAttempt, now_ms: int) -> Iterable[Event]:
        """Make a request of an attempt, which counts with its job among the requests of its consumer."""
        tried = Try(effect.record, effect.attempt)
        site, image = effect.attempt.site, effect.attempt.image
        if isinstance(effect.attempt.place, Virtual) and not self.images.is_at(image, site):
            self.images.build_at(image, site, now_ms)
            problem = IMAGE_NOT_THERE.format(site, image or "that it needs")
            self._inbox.append(AttemptNotNow(*tried.key, problem))
            return ()
        try:
            wall_ms, number = self.setup.wall_ms(*tried), self._leases.last_id + 1
            by_nodes = self.is_planned_by_nodes(site)
            request = request_of(*tried, number, wall_ms, self.speeds(site), now_ms, by_nodes=by_nodes)
        except InvalidField as error:
            self._inbox.append(AttemptNotNow(*tried.key, str(error)))
            return ()
        self._leases.take_in(request, metadata_of(*tried), now_ms)
        self.kept.tie(tried, request.id)
        return [Submitted(request)]

    def speeds(self, site: str) -> Speeds:
        """Give the speed of a site, and the one that durations refer to."""
        gateway, behind_peer = self._core.gateway, self.peer_sites.get(site)
        if behind_peer is not None:
            return Speeds(behind_peer.speed_mips, gateway.reference_mips)
        if not self._is_there(site):
            return Speeds()
        return Speeds(gateway.registry.speed_of(provider_of(site)), gateway.reference_mips)

    def _planned_wait_ms(self, place: Place, job: Job, ordered_vms: int, now_ms: int) -> int | None:
        """How long the lease of a job would wait at a place, by the plan of its site; as `PlannedWait`."""
        nodes, needs = names_of(place), job.needs
        names, amounts = tuple(map(name_there, nodes)), needs.amounts
        shape = MachineShape(max(1, amounts.cores), max(1, amounts.memory_mib), needs.gpu_model, needs.gpu_milli, names)
        wall_ms, known = self.setup.wall_at_ms(place, job), self._core.gateway.knowledge
        return known.planned_wait_ms(site_of(nodes[0]), len(nodes), ordered_vms, wall_ms, shape, now_ms)

    def is_planned_by_nodes(self, site: str) -> bool:
        """Whether a site is planned by its nodes, be it behind a peer or not."""
        behind_peer = self.peer_sites.get(site)
        if behind_peer is not None:
            return behind_peer.by_nodes
        return self._core.gateway.registry.is_planned_by_nodes(site)

    def _decided(self, effect: JobDecided, now_ms: int) -> None:
        record = effect.record
        site = record.attempt(effect.attempt).site if effect.attempt else ""
        detail: dict[str, object] = {"attempt": effect.attempt} if effect.attempt else {}
        detail |= {"what": effect.what} if effect.what else {}
        self._journal.job(record, effect.reason, now_ms, site, detail)
        self._unit.after_commit(partial(self._telemetry.decided_about_job, effect.reason, site))

    # What is written

    def close_step(self) -> None:
        """Write what the scheduler has learnt, where there is anything else to write."""
        self.nodes.note_watched(self.scheduler.failures.news)
        self.scheduler.failures.news.clear()
        if not self._has_decided or self._unit.is_empty():
            return
        snapshot = json.dumps(self.scheduler.snapshot())
        if snapshot != self._snapshot:
            self._unit.put(SNAPSHOTS, SnapshotRow(SCHEDULER, snapshot))
            self._snapshot = snapshot
        self._has_decided = False
