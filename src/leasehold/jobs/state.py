"""What the parts of the job scheduler share: open jobs, the queue, images, offers, and what was learnt of nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from leasehold.jobs.effects import BuildImage, JobDecided, JobEffect
from leasehold.jobs.events import ImagesSeen
from leasehold.jobs.job import NOT_YET, Attempt, Backup, JobReason, JobRecord, Place, provider_of, site_of
from leasehold.jobs.nodes import SchedulableNodes
from leasehold.jobs.offers import MOST_STANDING
from leasehold.jobs.settings import JobSettings
from leasehold.jobs.site_waits import PlannedWait, SiteWaits
from leasehold.matching.assignment import Solve
from leasehold.matching.choice import Physical
from leasehold.matching.images import Image, ImageCatalogue, Recipe
from leasehold.matching.needs import NOTHING, Amounts
from leasehold.matching.nodes import Network
from leasehold.matching.queues import job_queue
from leasehold.matching.reliability import FailureRate
from leasehold.matching.software import Installed

MOST_FENCED = 10_000
"""So many fenced attempts are remembered that nothing was heard of since; then the oldest is forgotten."""


class JobTable:
    """The open jobs, what this instant changed in them, and what is to be done about it."""

    def __init__(self) -> None:
        self.records: dict[int, JobRecord] = {}
        self.with_copies: dict[int, JobRecord] = {}
        """Those of them for which a second place may be kept in mind."""
        self.moved: dict[int, JobRecord] = {}
        self.effects: list[JobEffect] = []
        self.fenced: dict[tuple[int, int], JobRecord] = {}
        self.dirty = False
        """Whether anything may have changed that decides about waiting jobs, since the last round."""
        self.roomier: set[str] = set()
        """Nodes that may have more room than then; nothing else about them has changed."""

    def begin(self) -> None:
        """Begin an instant; what the last one has given is its caller's."""
        self.moved = {}
        self.effects = []

    def add(self, record: JobRecord) -> None:
        """Take in an open job."""
        self.records[record.id] = record
        if record.request.backup is Backup.COLD or record.request.reliability is not None:
            self.with_copies[record.id] = record

    def remove(self, record: JobRecord) -> None:
        """A job is over."""
        del self.records[record.id]
        self.with_copies.pop(record.id, None)

    def decide(self, record: JobRecord, reason: JobReason, what: str = "", attempt: int = 0) -> None:
        """Say what was decided about a job."""
        self.moved[record.id] = record
        self.effects.append(JobDecided(record, reason, what, attempt))

    def fence(self, record: JobRecord, attempt: Attempt) -> None:
        """Remember that an attempt may still speak, and does not count."""
        self.fenced[record.id, attempt.number] = record
        if len(self.fenced) > MOST_FENCED:
            del self.fenced[next(iter(self.fenced))]

    def open(self) -> list[JobRecord]:
        """List the open jobs by number, so that nothing depends on when they came."""
        return [self.records[job_id] for job_id in sorted(self.records)]

    def open_with_copies(self) -> list[JobRecord]:
        """List those of them for which a second place may be kept in mind."""
        return [self.with_copies[job_id] for job_id in sorted(self.with_copies)]

    def fenced_on(self, node: str) -> list[tuple[JobRecord, Attempt]]:
        """List the fenced attempts that may still be on a node."""
        found = ((self.fenced[job_id, number], number) for job_id, number in sorted(self.fenced))
        attempts = ((record, record.attempt(number)) for record, number in found)
        return [(record, attempt) for record, attempt in attempts if node in attempt.nodes]

    def still_fenced(self, listed: Iterable[Iterable[int]]) -> None:
        """Forget all fenced attempts but these, of which nothing was heard yet."""
        kept = {tuple(one) for one in listed}
        self.fenced = {key: record for key, record in self.fenced.items() if key in kept}


_WAITS_FOR_ITS_TIME = {JobReason.SITE_SAID_NOT_NOW, JobReason.IMAGE_FAILED}
"""Why room is not what a job waits for."""


class WaitingJobs:
    """Jobs that wait for room, in the order of the queue that the operator chose."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._queue = job_queue(settings.queue, settings.patience_ms)
        self._waiting: dict[int, JobRecord] = {}
        self._arriving: dict[int, JobRecord] = {}
        self._at_once: set[int] = set()

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._waiting or job_id in self._arriving

    def __bool__(self) -> bool:
        """Whether a job waits."""
        return bool(self._waiting or self._arriving)

    def put(self, record: JobRecord, *, at_once: bool = True) -> None:
        """Let a job wait; ``at_once`` says whether it is looked at in the next round whatever its times."""
        self._arriving[record.id] = record
        if at_once:
            self._at_once.add(record.id)

    def drop(self, job_id: int) -> None:
        """Let a job go, where it waits."""
        self._at_once.discard(job_id)
        if self._arriving.pop(job_id, None) is None and self._waiting.pop(job_id, None) is not None:
            self._queue.leave(job_id)

    def round(self, now_ms: int, *, room: bool) -> list[JobRecord]:
        """List the jobs to consider now, in order of choice; ``room``: whether there may be more room.

        Rule: jobs that are new or lost their place, those whose time has come, and, where the operator wants it, all
        others as soon as there may be room. A job that a site would not take, or whose image could not be built,
        waits for its time.
        """
        self._let_in()
        if not room and not any(self.is_due(record, now_ms) for record in self._waiting.values()):
            return []
        listed = [self._waiting[job.job_id] for job in self._queue.order(now_ms)]
        eager = room and self._settings.eager
        return [
            record
            for record in listed
            if self.is_due(record, now_ms) or (eager and record.reason not in _WAITS_FOR_ITS_TIME)
        ]

    def is_due(self, record: JobRecord, now_ms: int) -> bool:
        """Whether this try counts: an answer is owed to it now."""
        return NOT_YET < record.next_ms <= now_ms or record.id in self._at_once

    def looked_at(self, records: Iterable[JobRecord]) -> None:
        """End a round."""
        self._at_once.difference_update(record.id for record in records)

    def _let_in(self) -> None:
        self._queue.arrive(record.request.job for record in self._arriving.values())
        self._waiting |= self._arriving
        self._arriving.clear()

    def snapshot(self) -> dict[str, Any]:
        """Return the queue's state other than the waiting jobs, as plain JSON."""
        return self._queue.memory()

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on with what was kept; the jobs must be there before."""
        self._let_in()
        self._queue.recall(snapshot)


def key_of(recipe: Recipe) -> str:
    """Name what is built: the same base and packages have the same key for every job, before and after."""
    return build_key(recipe.base.name, recipe.packages)


def build_key(base: str, packages: Installed) -> str:
    """Name what is built from a base of this name."""
    return "+".join([base, *sorted(f"{name}={version}" for name, version in packages)])


@dataclass(slots=True)
class ImageBuild:
    """An image in the making, and the jobs that wait for it."""

    recipe: Recipe
    waiting: dict[int, JobRecord] = field(default_factory=dict)


class ImageRegistry:
    """The catalogue as it was seen, and what is built to be put into it: one build serves all that need the same."""

    def __init__(self, settings: JobSettings, jobs: JobTable) -> None:
        self._settings = settings
        self._jobs = jobs
        self._there: dict[str, Image] = {}
        self._seen = ImagesSeen(())
        self._builds: dict[str, ImageBuild] = {}
        self._resumed: dict[int, JobRecord] = {}
        """Jobs that waited for an image before a restart: it is asked for again once images are seen."""
        self.were_seen = False
        self.catalogue = self._catalogue()

    @property
    def waiting(self) -> set[int]:
        """The jobs that wait for an image."""
        return {job_id for build in self._builds.values() for job_id in build.waiting} | set(self._resumed)

    def resume(self, record: JobRecord) -> None:
        """Go on with a job that waited for an image."""
        self._resumed[record.id] = record

    def see(self, seen: ImagesSeen) -> bool:
        """Take in all images that there are; whether anything is new."""
        there = {image.name: image for image in seen.images}
        is_news = (there, seen) != (self._there, self._seen)
        self._there, self._seen, self.were_seen = there, seen, True
        if is_news:
            self.catalogue = self._catalogue()
        return is_news

    def forget(self, name: str) -> None:
        """Believe that an image has not what it should have, until all are seen again."""
        self._there.pop(name, None)
        self.catalogue = self._catalogue()

    def want(self, record: JobRecord, recipe: Recipe) -> str:
        """Have an image built for a job, once for all that want the same; its key."""
        key = key_of(recipe)
        self.leave(record.id)
        if key not in self._builds:
            self._builds[key] = ImageBuild(recipe)
            self._jobs.effects.append(BuildImage(key, recipe))
        self._builds[key].waiting[record.id] = record
        return key

    def leave(self, job_id: int) -> None:
        """Let a job wait no more; what is built for it is built to the end, and may serve others."""
        self._resumed.pop(job_id, None)
        for build in self._builds.values():
            build.waiting.pop(job_id, None)

    def built(self, key: str, image: Image) -> list[JobRecord]:
        """Put an image into the catalogue; the jobs that waited for it, by number."""
        self._there[image.name] = image
        self.catalogue = self._catalogue()
        return self.over(key)

    def over(self, key: str) -> list[JobRecord]:
        """End a build; the jobs that waited for it."""
        build = self._builds.pop(key, None)
        waiting = {} if build is None else build.waiting
        waiting |= {record.id: record for record in self._resumed.values() if record.what == key}
        return [waiting[job_id] for job_id in sorted(waiting)]

    def amounts(self, record: JobRecord, place: Place) -> Amounts:
        """Give what one node or host has to hold: the job's needs, and in a machine those of its system."""
        return record.request.job.needs.amounts + self._beside(place)

    def _beside(self, place: Place) -> Amounts:
        if isinstance(place, Physical):
            return NOTHING
        image = place.image.base if isinstance(place.image, Recipe) else place.image
        return self._there.get(image.name, image).needs

    def _catalogue(self) -> ImageCatalogue:
        return ImageCatalogue(self._there.values(), self._seen.sources, self._settings.build_ms)


def with_image(place: Place, image: Image) -> Place:
    """Put an image that is there in the place of one that was to be built."""
    return place if isinstance(place, Physical) else replace(place, image=image)


class StandingOffers:
    """Offers of nodes that say they are lightly loaded, each until it is taken, withdrawn by a fault, or too old.

    Source: the receiver-initiated strategy of Thamarai Selvi et al., section 4.6.1. What an offer says is looked at as
    what any node says: memory, software and deadline.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._lasts_ms = settings.offers_last_ms
        self._until_ms: dict[str, int] = {}

    def make(self, node: str, now_ms: int, until_ms: int = NOT_YET) -> None:
        """Take an offer, in place of an earlier one of the same node; none lasts longer than the settings say.

        Of a site, or a peer, that makes more than `MOST_STANDING`, no more are taken.
        """
        provider, standing = provider_of(site_of(node)), self.names(now_ms)
        from_there = sum(provider_of(site_of(one)) == provider for one in standing)
        if node not in standing and from_there >= MOST_STANDING:
            return
        longest_ms = now_ms + self._lasts_ms
        self._until_ms[node] = longest_ms if until_ms == NOT_YET else min(until_ms, longest_ms)

    def drop(self, node: str) -> None:
        """End the offer of a node that has taken a job, or has fallen."""
        self._until_ms.pop(node, None)

    def names(self, now_ms: int) -> list[str]:
        """List the nodes whose offers are valid."""
        self._until_ms = self.standing(now_ms)
        return list(self._until_ms)

    def standing(self, now_ms: int) -> dict[str, int]:
        """Give until when they are valid, of those that are."""
        return {node: until_ms for node, until_ms in self._until_ms.items() if now_ms < until_ms}

    def snapshot(self) -> dict[str, Any]:
        """Return the valid offers, as plain JSON."""
        return dict(self._until_ms)

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore the state that was kept."""
        self._until_ms.update(snapshot)


class WarmHosts:
    """Hosts that had a machine with an image at work a short while ago."""

    def __init__(self, settings: JobSettings) -> None:
        self._lasts_ms = settings.warm_for_ms
        self._until_ms: dict[str, dict[str, int]] = {}

    def leave(self, attempt: Attempt, now_ms: int) -> None:
        """Note that an attempt is done and its machines may be kept."""
        if not isinstance(attempt.place, Physical) and self._lasts_ms:
            hosts = self._until_ms.setdefault(attempt.place.image_name, {})
            hosts |= dict.fromkeys(attempt.nodes, now_ms + self._lasts_ms)

    def hosts(self, image: str, now_ms: int) -> frozenset[str]:
        """List the hosts where a machine with an image is thought to be warm."""
        hosts = self._until_ms.get(image, {})
        return frozenset(host for host, until_ms in hosts.items() if until_ms > now_ms)

    def snapshot(self) -> dict[str, Any]:
        """Give what is thought to be warm, as plain JSON."""
        return {image: dict(hosts) for image, hosts in sorted(self._until_ms.items())}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore the state that was kept."""
        self._until_ms |= {image: dict(hosts) for image, hosts in snapshot.items()}


MS_PER_S = 1000


@dataclass(slots=True)
class NodeHistory:
    """What happened to a node so far; ``well_ms`` is when it was last seen well, NOT_YET while it is not."""

    failures: float = 0.0
    watched_ms: int = 0
    well_ms: int = NOT_YET


class FailureHistory:
    """How often each node fails: for how long it was seen well, and how often it fell."""

    def __init__(self, belief: FailureRate) -> None:
        self._belief = belief
        self._nodes: dict[str, NodeHistory] = {}
        self.news: dict[str, NodeHistory] = {}
        """Nodes of which anything was noted since this was last emptied."""

    def well(self, node: str, now_ms: int) -> None:
        """Note that a node was seen well: since it was last seen well, it did not fail."""
        watched = self._noted(node)
        _until(watched, now_ms)
        watched.well_ms = now_ms

    def failed(self, node: str, now_ms: int, share: float = 1.0) -> None:
        """Note that a node fell; less than one where it may have been another."""
        watched = self._noted(node)
        _until(watched, now_ms)
        watched.failures += share
        watched.well_ms = NOT_YET

    def _noted(self, node: str) -> NodeHistory:
        self.news[node] = watched = self._nodes.setdefault(node, NodeHistory())
        return watched

    def rate(self, node: str) -> FailureRate:
        """Give what is known of a node's failures."""
        watched = self._nodes.get(node, NodeHistory())
        return self._belief.after(watched.failures, watched.watched_ms / MS_PER_S)

    def counted(self, node: str) -> tuple[float, int]:
        """Give how often a node failed and for how long it was watched: all that its rate depends on."""
        watched = self._nodes.get(node)
        return (0.0, 0) if watched is None else (watched.failures, watched.watched_ms)

    def all(self) -> dict[str, NodeHistory]:
        """Give what was counted, by node."""
        return dict(self._nodes)

    def restore(self, nodes: Mapping[str, NodeHistory]) -> None:
        """Go on counting."""
        self._nodes.update(nodes)


def _until(watched: NodeHistory, now_ms: int) -> None:
    if watched.well_ms != NOT_YET:
        watched.watched_ms += max(0, now_ms - watched.well_ms)


class SchedulerState:
    """Jobs, nodes, the queue, images, offers and experience, each in its own part."""

    def __init__(self, settings: JobSettings, network: Network, solve: Solve, planned_wait: PlannedWait) -> None:
        self.settings = settings
        self.network = network
        self.solve = solve
        self.jobs = JobTable()
        self.inventory = SchedulableNodes(network, settings.waits_last_ms)
        self.waiting = WaitingJobs(settings)
        self.images = ImageRegistry(settings, self.jobs)
        self.offers = StandingOffers(settings)
        self.failures = FailureHistory(settings.belief)
        self.warm_hosts = WarmHosts(settings)
        self.site_waits = SiteWaits(planned_wait)
