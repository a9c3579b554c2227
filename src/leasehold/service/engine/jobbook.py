"""The jobs of one engine: what is asked of them, and what the desk wants done.

The desk of `leasehold.jobs` decides beside the gateway. Within one step the gateway hears first; what its
leases mean for attempts is told to the desk; what the desk wants becomes requests for the gateway, until
neither has anything more to say. All of it is written in the transaction of that step.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

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
from leasehold.jobs.events import AttemptNotNow, JobCancelled, JobEvent, JobSubmitted, JobTick
from leasehold.jobs.job import JobRequest
from leasehold.matching.choice import Virtual
from leasehold.matching.needs import Job
from leasehold.model.effect import Effect
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.event import CancelRequested, Event, Submitted
from leasehold.model.lease import Lease
from leasehold.service.commands import (
    CancelJob,
    JobImageBuilt,
    JobImageFailed,
    JobImagesSeen,
    JobNodesSeen,
    JobOutput,
    JobSiteSilent,
    SubmitJob,
)
from leasehold.service.drivers.protocol import Observation
from leasehold.service.engine.agenda import JobsDue
from leasehold.service.engine.attempting import Asking, Speeds, particulars
from leasehold.service.engine.errands import Errands
from leasehold.service.engine.hearing import Hearing
from leasehold.service.engine.imagebook import ImageBook
from leasehold.service.engine.job_records import JobRecords, Tried
from leasehold.service.engine.nodebook import NodeBook
from leasehold.service.engine.places import image_name
from leasehold.service.errors import TooManyOpen
from leasehold.service.store.batch import Batch

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine

MEMORY = "jobs"
MUCH_NEWS = 500
"""Less than this is left untold until the desk is asked something: much of it is soon out of date."""
IMAGE_NOT_THERE = "{} has not the image {} yet"


class JobBook:
    """Reads what is said about jobs, and carries between the desk and the gateway.

    ``desk``     who decides; ``hearing`` tells it what becomes of attempts
    ``errands``  what is to be done outside, once it is written why
    """

    def __init__(self, engine: "Engine") -> None:
        """Begin with what is in the store."""
        self._engine = engine
        self._asking = Asking(engine.setup)
        self.errands = Errands()
        in_orders = (row.order.lease_id for row in engine.outbox)
        self.kept = JobRecords(engine.store, in_orders, engine.setup.outputs_mib << 20)
        self.nodes = NodeBook(engine.store.nodes(), engine.setup.settings.sites, engine.setup.gone_after_ms)
        self.images = ImageBook(engine.store.images(), engine.setup.image_sites)
        self.hearing = Hearing(engine, self.kept, self.errands)
        memories = engine.store.memories()
        self._memory = memories.get(MEMORY, "{}")
        self._inbox: list[JobEvent] = []
        self._closed_sites: set[str] | None = None
        self._has_decided = False
        self.desk = engine.setup.desk()
        self.desk.take_up(self.kept.records, engine.now_ms)
        self.desk.failures.restore(self.nodes.watched())
        self.desk.restore(json.loads(self._memory))  # what it still has of nodes is written where it belongs
        for consumer in self.kept.open_of():
            self._count(consumer, 1)
        self.moves: dict[type, Callable[[Any, int], Iterable[JobEvent]]] = {
            CancelJob: self._cancel,
            JobNodesSeen: lambda told, now_ms: self.nodes.see(told, self._not_lending, now_ms),
            JobSiteSilent: self._lose,
            JobImagesSeen: self.images.see,
            JobImageBuilt: self.images.built,
            JobImageFailed: self.images.failed,
            JobOutput: self._take_output,
        }
        self._effects: dict[type[JobEffect], Callable[[Any, int], Sequence[Event]]] = {
            StartAttempt: self._start,
            StopAttempt: self._stop,
            BuildImage: self._build,
            LookAtNode: self._look_at,
            JobDecided: self._decided,
            JobClosed: self._closed,
            WakeJobsAt: self._wake,
        }

    # What is asked

    def submit(self, command: SubmitJob, now_ms: int) -> JobRequest:
        """Take a job in; raises InvalidField, TooManyOpen."""
        request = self.request(command, now_ms)
        most, consumer = self._engine.most_open, command.consumer
        if most is not None and self._engine.open_of.get(consumer, 0) >= most:
            raise TooManyOpen(consumer, most)
        self.kept.last_id = request.id
        self._count(consumer, 1)
        self._inbox.append(JobSubmitted(request))
        return request

    def request(self, command: SubmitJob, now_ms: int) -> JobRequest:
        """Read what is asked for; raises InvalidField."""
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
            lease_type=command.lease_type,
            backup=command.backup,
            reliability=command.reliability,
            restarts=command.restarts,
            is_foreign=command.is_foreign,
        )

    def _places(self) -> set[str]:
        """Where files may lie: at a site, or where the operator has said that a way begins."""
        gateway, ways = self._engine.gateway, self._engine.setup.network.ways
        return {*gateway.sites, *gateway.registry.remotes, *(place for way in ways for place in way)}

    def tell(self, command: object, now_ms: int) -> None:
        """Read what is said of jobs, nodes and images; raises NoSuchJob."""
        self._inbox += self.moves[type(command)](command, now_ms)

    def _cancel(self, command: CancelJob, now_ms: int) -> Iterable[JobEvent]:  # noqa: ARG002 - all are alike
        self.kept.row(command.job_id)
        return [JobCancelled(command.job_id)]

    def _lose(self, command: JobSiteSilent, now_ms: int) -> Iterable[JobEvent]:
        return [*self.nodes.lose(command, now_ms), *self.images.heard(command.site)]

    def _take_output(self, command: JobOutput, now_ms: int) -> Iterable[JobEvent]:
        self.hearing.take(command, now_ms)
        return ()

    def _count(self, consumer: str, by: int) -> None:
        """A job counts once among the open requests of its consumer, however many attempts it has."""
        left = self._engine.open_of.get(consumer, 0) + by
        if left > 0:
            self._engine.open_of[consumer] = left
        else:
            self._engine.open_of.pop(consumer, None)

    @property
    def _not_lending(self) -> Collection[str]:
        return self._engine.gateway.registry.closed

    # Deciding

    @property
    def is_stirred(self) -> bool:
        """Whether there is anything that the desk has not heard yet."""
        if self._closed_sites != self._not_lending:
            return True
        has_room_news = self.desk.has_waiting and bool(self.nodes.room_news)
        return bool(self._inbox or self.hearing.inbox or self.hearing.withdrawn) or has_room_news

    def due(self) -> None:
        """The time has come for which the desk asked."""
        self._inbox.append(JobTick())

    def decide(self, now_ms: int) -> list[Event]:
        """Have the desk decide about all that is new; gives what it wants of the gateway."""
        if not self.is_stirred:
            return []
        events: list[Event] = [*self.hearing.withdrawn]
        inbox = [*self._as_they_lend(now_ms), *self.hearing.inbox, *self._inbox]
        for box in (self.hearing.inbox, self.hearing.withdrawn, self._inbox):
            box.clear()
        self.catch_up(now_ms)
        effects = self.desk.handle(inbox, now_ms)
        self.kept.follow(self.desk.moved.values())
        for effect in effects:
            events += self._effects[type(effect)](effect, now_ms)
        self.kept.follow(self.desk.moved.values())
        self.errands.builds += self.images.builds
        self.images.builds.clear()
        self._has_decided = True
        return events

    def _as_they_lend(self, now_ms: int) -> Iterable[JobEvent]:
        """What was last seen of nodes: of all at the start, and whenever a site is drained or lends again.

        Of sites that are not in the configuration any more nothing is told: their nodes are gone.
        """
        before, closed = self._closed_sites, set(self._not_lending)
        self._closed_sites = closed
        if before == closed:
            return ()
        if before is None:
            for lease in self._engine.gateway.leases.values():
                self._follow_room(lease, now_ms, after_a_restart=True)
        sites = self.nodes.sites() if before is None else sorted(before ^ closed)
        there = self._engine.gateway.sites
        return [self.nodes.remembered(site, closed, now_ms) for site in sites if site in there]

    def follow(self, effects: Iterable[Effect], moved: Collection[Lease], now_ms: int) -> None:
        """See what the gateway's decisions mean for attempts, and what it has given to others."""
        self.hearing.follow(effects, moved, now_ms)
        for lease in moved:
            self._follow_room(lease, now_ms)

    def _follow_room(self, lease: Lease, now_ms: int, *, after_a_restart: bool = False) -> None:
        about = self._engine.about[lease.id]
        if about.job_id is not None or about.native_job:
            return
        left = self.nodes.follow(lease, now_ms, after_a_restart=after_a_restart)
        if left is not None and not left.nodes:
            self._look_if_somebody_waits(left.site)

    def saw(self, site: str, seen: Observation, now_ms: int) -> None:
        """Machines say something of a lease, be it an attempt or any other."""
        self.hearing.saw(seen)
        room = self.nodes.saw(site, seen, now_ms)
        if room is not None and not room.nodes:
            self._look_if_somebody_waits(site)

    def _look_if_somebody_waits(self, site: str) -> None:
        """Nobody says on which nodes machines are, or were: only a look at them tells."""
        if self.desk.has_waiting:
            self.errands.looks.add(site)

    def catch_up(self, now_ms: int) -> None:
        """Let the desk know what others have been given, and have given back."""
        self.desk.observe(self.nodes.take_room_news(), now_ms)

    def keep_up(self, now_ms: int) -> None:
        """Let the desk know of much news now: whoever asks it something need not wait for that."""
        if len(self.nodes.room_news) >= MUCH_NEWS:
            self.catch_up(now_ms)

    # What the desk wants

    def _start(self, effect: StartAttempt, now_ms: int) -> Sequence[Event]:
        tried = Tried(effect.record, effect.attempt)
        engine, site, place = self._engine, effect.attempt.site, effect.attempt.place
        if isinstance(place, Virtual) and not self.images.is_at(image_name(place), site):
            self.images.build_at(image_name(place), site, now_ms)
            self._inbox.append(
                AttemptNotNow(*tried.key, IMAGE_NOT_THERE.format(site, image_name(place) or "that it needs"))
            )
            return []
        try:
            request = self._asking.request(*tried, engine.last_lease_id + 1, self._speeds(site), now_ms)
        except InvalidField as error:
            self._inbox.append(AttemptNotNow(*tried.key, str(error)))
            return []
        engine.last_lease_id = request.id
        engine.about[request.id] = particulars(*tried)
        self.kept.tie(tried, request.id)
        engine.minutes.submitted(request, now_ms)
        return [Submitted(request)]

    def _speeds(self, site: str) -> Speeds:
        gateway = self._engine.gateway
        if site not in gateway.sites:
            return Speeds()
        return Speeds(gateway.sites[site].allocations.settings.speed_mips, gateway.reference_mips)

    def _stop(self, effect: StopAttempt, now_ms: int) -> Sequence[Event]:  # noqa: ARG002 - as the others
        lease_id = self.kept.lease_of(Tried(effect.record, effect.attempt))
        if lease_id is None or lease_id not in self._engine.gateway.leases:
            return []  # it is over; where machines still have it, they are told to stop
        return [CancelRequested(lease_id)]

    def _build(self, effect: BuildImage, now_ms: int) -> Sequence[Event]:
        self._inbox += self.images.build(effect, now_ms)
        return []

    def _look_at(self, effect: LookAtNode, now_ms: int) -> Sequence[Event]:  # noqa: ARG002 - as the others
        self.errands.looks.add(effect.node.partition("/")[0])
        return []

    def _decided(self, effect: JobDecided, now_ms: int) -> Sequence[Event]:
        record = effect.record
        site = record.attempt(effect.attempt).site if effect.attempt else ""
        told: dict[str, object] = {"attempt": effect.attempt} if effect.attempt else {}
        told |= {"what": effect.what} if effect.what else {}
        self._engine.minutes.line_about_job(record, effect.reason, now_ms, site, told)
        return []

    def _closed(self, effect: JobClosed, now_ms: int) -> Sequence[Event]:  # noqa: ARG002 - as the others
        self._count(effect.record.request.consumer, -1)
        return []

    def _wake(self, effect: WakeJobsAt, now_ms: int) -> Sequence[Event]:
        self._engine.agenda.add(max(effect.at_ms, now_ms + 1), JobsDue())
        return []

    # What is written

    def has_news(self) -> bool:
        """Whether there is anything to write."""
        books = (self.kept, self.nodes, self.images)
        return bool(self.desk.failures.news) or any(book.has_news() for book in books)

    def save(self, batch: Batch) -> None:
        """Write everything into the store."""
        self.nodes.note_watched(self.desk.failures.news)
        self.desk.failures.news.clear()
        for book in (self.kept, self.nodes, self.images):
            book.save(batch)
        memory = json.dumps(self.desk.snapshot()) if self._has_decided else self._memory
        if memory != self._memory:
            batch.set_memory(MEMORY, memory)
            self._memory = memory
        self._has_decided = False

    def saved(self) -> None:
        """Everything is in the store."""
        if self.kept.quota.dropped:
            self._engine.teller.pruned({"outputs": self.kept.quota.dropped})
        for book in (self.kept, self.nodes, self.images):
            book.saved()

    def take_errands(self) -> Errands:
        """Take out what is to be done outside now."""
        taken = Errands([*self.errands.fetches], [*self.errands.builds], {*self.errands.looks})
        for kind in (self.errands.fetches, self.errands.builds, self.errands.looks):
            kind.clear()
        return taken
